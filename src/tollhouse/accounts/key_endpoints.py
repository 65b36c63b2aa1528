"""Where a person gets, checks, replaces and gives back an API key."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tollhouse import clock
from tollhouse.accounts.keys import KeyRing, NewKey
from tollhouse.accounts.plans import Limits, Plans
from tollhouse.caller import KeyCaller
from tollhouse.errors import Problem
from tollhouse.http.endpoint import Request
from tollhouse.metering.meter import Meter
from tollhouse.metering.windows import Level, Windows

SECONDS_PER_HOUR = 3_600


class KeyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/keys/create`."""

    email: Annotated[
        str,
        Meta(
            pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$",
            max_length=254,
            description="Where the operator can reach you. At most 20 active keys share one",
            examples=["ada@example.org"],
        ),
    ]
    tier: Annotated[
        str | None,
        Meta(description="The plan that every key starts on. Upgrade a key to get another plan", examples=["free"]),
    ] = None
    label: Annotated[
        Annotated[str, Meta(max_length=100, pattern=r"^[^\x00]*$")] | None,
        Meta(description="What you will know the key by", examples=["my agent"]),
    ] = None


class KeyIssued(Struct, frozen=True):
    """A new key. `api_key` is shown this once; only a keyed hash of it is kept."""

    api_key: str
    key_id: str
    tier: str
    label: str | None
    created_at: str
    limits: Limits


class WindowUse(Struct, frozen=True):
    """One window of the plan; `limit` and `remaining` are null where it is unlimited."""

    limit: int | None
    used: int
    remaining: int | None
    resets_at: str


class Usage(Struct, frozen=True):
    """Both windows of the plan."""

    day: WindowUse
    minute: WindowUse


class KeyStatus(Struct, frozen=True):
    """What a valid key is and what is left of its plan."""

    valid: Literal[True]
    key_id: str
    tier: str
    label: str | None
    created_at: str
    limits: Limits
    usage: Usage


class KeyRevoked(Struct, frozen=True):
    """The key no longer opens anything."""

    revoked: Literal[True]
    key_id: str


class KeyEndpoints:
    """The operations under `/api/keys`."""

    def __init__(self, keys: KeyRing, plans: Plans, meter: Meter, keys_per_address_per_hour: int) -> None:
        self._keys = keys
        self._plans = plans
        self._meter = meter
        self._per_address = Windows(None, keys_per_address_per_hour, SECONDS_PER_HOUR)

    async def create(self, request: Request[None, KeyRequest]) -> KeyIssued:
        """Make a free key. Raises Problem `tier-not-self-service` or `too-many-keys`."""
        default = self._plans.default.name
        if request.body.tier not in {None, default}:
            raise self._not_self_service(str(request.body.tier))
        reservation = await self._meter.reserve(f"keys:{request.address}", self._per_address)
        if reservation.verdict.refused_by:
            raise _too_many_from(self._per_address, reservation.verdict.retry_after_seconds(clock.seconds()))
        try:
            return self._issued(await self._keys.create(request.body.email, default, request.body.label))
        except Problem:
            await self._meter.release(reservation)
            raise

    async def verify(self, request: Request[None, None]) -> KeyStatus:
        """Say what a key is worth, using nothing of it."""
        caller = _holder(request)
        verdict = await self._meter.look(caller.subject, self._plans.windows_of(caller))
        return KeyStatus(
            valid=True,
            key_id=caller.key_id,
            tier=caller.tier,
            label=caller.label,
            created_at=caller.created_at,
            limits=self._plans.limits_of(caller),
            usage=Usage(day=_use(verdict.day), minute=_use(verdict.sliding)),
        )

    async def rotate(self, request: Request[None, None]) -> KeyIssued:
        """Replace the key that asks."""
        return self._issued(await self._keys.rotate(_holder(request).key_id))

    async def revoke(self, request: Request[None, None]) -> KeyRevoked:
        """Give the key that asks back."""
        key_id = _holder(request).key_id
        await self._keys.revoke(key_id)
        return KeyRevoked(revoked=True, key_id=key_id)

    def _issued(self, key: NewKey) -> KeyIssued:
        return issued(key, self._plans)

    def _not_self_service(self, tier: str) -> Problem:
        default = self._plans.default.name
        if tier in self._plans:
            detail = f"A key starts on the {default} plan. Upgrade it to {tier} with POST /api/stripe/checkout."
            return Problem("tier-not-self-service", detail, parameter="tier", allowed=[default])
        return Problem("invalid-body", f"`tier` must be `{default}`.", parameter="tier", allowed=[default])


def _holder(request: Request[None, None]) -> KeyCaller:
    assert isinstance(request.caller, KeyCaller), "the terms let nobody else in"
    return request.caller


def issued(key: NewKey, plans: Plans) -> KeyIssued:
    """A new key as its receiver sees it."""
    holder = key.holder
    return KeyIssued(key.text, holder.key_id, holder.tier, holder.label, holder.created_at, plans.limits_of(holder))


def _use(level: Level) -> WindowUse:
    return WindowUse(level.limit, level.used, level.remaining, clock.iso(clock.at(level.resets_at)))


def _too_many_from(windows: Windows, wait: int) -> Problem:
    return Problem(
        "too-many-keys",
        f"At most {windows.per_sliding} keys an hour are given to one address; the next one in {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window="hour",
        limit=windows.per_sliding,
    )
