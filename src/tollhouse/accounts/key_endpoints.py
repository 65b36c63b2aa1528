"""Endpoints under /api/keys: create, verify, rotate and revoke API keys."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tollhouse import clock
from tollhouse.accounts.keys import KeyRing, NewKey
from tollhouse.accounts.plans import Limits, Plans
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Request, endpoint
from tollhouse.http.terms import FREE, KEY_UNMETERED, KeyCaller
from tollhouse.metering.address_budget import release, reserve_for_address
from tollhouse.metering.meter import SECONDS_PER_DAY, Level, Meter, Windows
from tollhouse.statistics.statistics import Statistics

SECONDS_PER_HOUR = 3_600

Email = Annotated[str, Meta(max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$")]
Label = Annotated[str, Meta(max_length=100, pattern=r"^[^\x00]*$")]


class KeyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /api/keys/create`."""

    email: Annotated[
        Email,
        Meta(
            description="The operator's way to reach you. At most 20 active keys per client address and email address",
            examples=["ada@example.org"],
        ),
    ]
    tier: Annotated[
        str | UnsetType,
        Meta(description="The plan that every key starts on. Upgrade a key to get another plan", examples=["free"]),
    ] = UNSET
    label: Annotated[Label | None, Meta(description="Your own name for the key", examples=["my agent"])] = None


class KeyIssued(Struct, frozen=True):
    """A new key. `api_key` is shown only in this response; the server stores a keyed hash of it."""

    api_key: str
    key_id: str
    tier: str
    label: str | None
    created_at: str
    limits: Limits


class WindowUse(Struct, frozen=True):
    """Usage of one window; `limit` and `remaining` are null where it is unlimited."""

    limit: int | None
    used: int
    remaining: int | None
    resets_at: str


class KeyUsage(Struct, frozen=True):
    """Usage of both windows of the plan."""

    day: WindowUse
    minute: WindowUse


class KeyStatus(Struct, frozen=True):
    """A valid key, its limits and its usage."""

    valid: Literal[True]
    key_id: str
    tier: str
    label: str | None
    created_at: str
    limits: Limits
    usage: KeyUsage


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of `GET /api/keys/usage`."""

    days: Annotated[int, Meta(ge=1, le=400, description="How many UTC days, today included")] = 30


class KeyDay(Struct, frozen=True):
    """The calls of a key on a UTC day: all, those answered with 4xx, and those answered with 5xx."""

    day: str
    requests: int
    refused: int
    failed: int


class KeyHistory(Struct, frozen=True):
    """The calls of a key on each UTC day, oldest first."""

    key_id: str
    days: list[KeyDay]


class KeyRevoked(Struct, frozen=True):
    """The key is revoked."""

    revoked: Literal[True]
    key_id: str


_EXAMPLE: dict[str, Any] = {
    "key_id": "key_5f0c2a9be1d34c77",
    "tier": "free",
    "label": "my agent",
    "created_at": "2026-01-31T08:00:00Z",
    "limits": {"requests_per_day": 100, "requests_per_minute": 10},
}
_EXAMPLE_ISSUED = {"api_key": "th_live_shown-this-once", **_EXAMPLE}
_EXAMPLE_STATUS = {
    "valid": True,
    **_EXAMPLE,
    "usage": {
        "day": {"limit": 100, "used": 3, "remaining": 97, "resets_at": "2026-02-01T00:00:00Z"},
        "minute": {"limit": 10, "used": 1, "remaining": 9, "resets_at": "2026-01-31T08:01:00Z"},
    },
}

_EXAMPLE_REVOKED = {"revoked": True, "key_id": _EXAMPLE["key_id"]}
_EXAMPLE_DAYS: dict[str, Any] = {
    "key_id": _EXAMPLE["key_id"],
    "days": [
        {"day": "2026-01-30", "requests": 0, "refused": 0, "failed": 0},
        {"day": "2026-01-31", "requests": 52, "refused": 2, "failed": 0},
    ],
}

_endpoint = partial(endpoint, terms=KEY_UNMETERED, tag="keys")


class KeyEndpoints:
    """Handlers of the key endpoints. A key always starts on the default plan."""

    def __init__(
        self, keys: KeyRing, plans: Plans, meter: Meter, keys_per_address_per_hour: int, statistics: Statistics
    ) -> None:
        self._keys = keys
        self._plans = plans
        self._meter = meter
        self._statistics = statistics
        self._per_address = Windows(None, keys_per_address_per_hour, SECONDS_PER_HOUR)

    @_endpoint(
        "POST",
        "/api/keys/create",
        id="createKey",
        terms=FREE,
        problems=("tier-not-self-service", "too-many-keys"),
        examples={"body": {"email": "ada@example.org", "label": "my agent"}, JSON: _EXAMPLE_ISSUED},
    )
    async def create(self, request: Request[None, KeyRequest]) -> KeyIssued:
        """Create an API key.

        The key is shown only in this response. Each client address may create a limited number of keys an hour,
        and have 20 active keys for each email address.
        """
        default = self._plans.default.name
        tier = request.body.tier
        if tier not in {UNSET, default}:
            code, detail = "invalid-body", f"`tier` must be `{default}`."
            if tier in self._plans:
                code = "tier-not-self-service"
                detail = f"A key starts on the {default} plan. Upgrade it to {tier} with POST /api/stripe/checkout."
            raise Problem(code, detail, parameter="tier", allowed=[default])
        reservation = await reserve_for_address(self._meter, "keys", request.address, self._per_address)
        if reservation.verdict.refused_by:
            exceeded = "Rate limit exceeded: {limit} keys per {window} and address. Retry after {wait} s."
            raise reservation.verdict.refusal("too-many-keys", exceeded)
        try:
            email, label = request.body.email, request.body.label
            made = await self._keys.create(email, default, label, client_address=request.address)
            return issued(made, self._plans)
        except Problem:
            await release(self._meter, reservation)
            raise

    @_endpoint("GET", "/api/keys/verify", id="verifyKey", examples={JSON: _EXAMPLE_STATUS})
    async def verify(self, request: Request[None, None]) -> KeyStatus:
        """Verify an API key.

        Returns the plan, the limits and the usage of the key. Counts against no limit.
        """
        caller = _holder(request)
        verdict = await self._meter.peek(caller.subject, self._plans.windows_of(caller))
        return KeyStatus(
            valid=True,
            key_id=caller.key_id,
            tier=caller.tier,
            label=caller.label,
            created_at=caller.created_at,
            limits=self._plans.limits_of(caller),
            usage=KeyUsage(day=_use(verdict.day), minute=_use(verdict.sliding)),
        )

    @_endpoint("GET", "/api/keys/usage", id="getKeyUsage", examples={JSON: _EXAMPLE_DAYS})
    async def history(self, request: Request[HistoryQuery, None]) -> KeyHistory:
        """The calls of an API key on each of the last days.

        Calls that count against no limit, such as this one, are left out. Days without calls are listed with zeros.
        The newest calls may be counted some seconds later. Kept for 400 days.
        """
        key_id, today = _holder(request).key_id, int(clock.seconds() // SECONDS_PER_DAY)
        counted = {one.day: one for one in await self._statistics.usage_by_day(key_id, request.query.days)}
        names = [iso_day(today - ago) for ago in reversed(range(request.query.days))]
        days = [(name, counted.get(name)) for name in names]
        return KeyHistory(
            key_id,
            [KeyDay(name, *((one.requests, one.refused, one.failed) if one else (0, 0, 0))) for name, one in days],
        )

    @_endpoint("POST", "/api/keys/rotate", id="rotateKey", problems=("key-rotated",), examples={JSON: _EXAMPLE_ISSUED})
    async def rotate(self, request: Request[None, None]) -> KeyIssued:
        """Rotate an API key.

        Returns a new key and revokes the old one. Id, plan and usage stay. Of several rotations at once one
        succeeds.
        """
        key = request.over_http.header(b"authorization").partition(" ")[2].strip()
        return issued(await self._keys.rotate(_holder(request).key_id, key), self._plans)

    @_endpoint("POST", "/api/keys/revoke", id="revokeKey", examples={JSON: _EXAMPLE_REVOKED})
    async def revoke(self, request: Request[None, None]) -> KeyRevoked:
        """Revoke an API key.

        The key stops working at once. This cannot be undone.
        """
        key_id = _holder(request).key_id
        await self._keys.revoke(key_id)
        return KeyRevoked(revoked=True, key_id=key_id)


def iso_day(day: int) -> str:
    """The date of a day since 1970."""
    return clock.iso(clock.at(day * SECONDS_PER_DAY))[:10]


def _holder(request: Request[Any, None]) -> KeyCaller:
    assert isinstance(request.caller, KeyCaller), "the terms admit keys only"
    return request.caller


def issued(key: NewKey, plans: Plans) -> KeyIssued:
    """The response that shows a new key."""
    holder = key.holder
    return KeyIssued(key.text, holder.key_id, holder.tier, holder.label, holder.created_at, plans.limits_of(holder))


def _use(level: Level) -> WindowUse:
    return WindowUse(level.limit, level.used, level.remaining, clock.iso(clock.at(level.resets_at)))
