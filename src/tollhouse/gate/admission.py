"""The sequence every call goes through: identify, reserve, answer, settle or release."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial

from tollhouse import clock
from tollhouse.access.addresses import Network, client_address, is_loopback
from tollhouse.access.keys import KeyRing
from tollhouse.caller import AddressCaller, Caller, KeyCaller
from tollhouse.errors import Problem
from tollhouse.gate.operation import Answer
from tollhouse.gate.request import Request
from tollhouse.gate.terms import Terms
from tollhouse.gate.usage_headers import usage_headers
from tollhouse.metering.meter import Meter, Reservation
from tollhouse.metering.plans import RANK, windows_of
from tollhouse.metering.windows import Verdict

# A call refused for these reasons, or failed by the server, uses nothing of the caller's plan.
_USES_NOTHING = frozenset({401, 402, 403, 429})


class Admission:
    """Who may come in, and what it takes from their plan."""

    def __init__(self, keys: KeyRing, meter: Meter, trusted: Sequence[Network], admin_token: str) -> None:
        self._keys = keys
        self._meter = meter
        self._address = lru_cache(maxsize=8192)(partial(client_address, trusted=trusted))
        self._admin_token = admin_token

    async def admit(
        self, terms: Terms, request: Request, work: Callable[[Caller | None, str], Awaitable[Answer]]
    ) -> tuple[Answer, list[tuple[bytes, bytes]]]:
        """Run `work` for a caller the terms let in; the headers tell what is left of the plan.

        Raises Problem for whoever may not come in, and whatever `work` raises, with the same headers on it.
        """
        address = self._address(request.peer, request.header(b"x-forwarded-for"))
        if terms.opens_to == "operator":
            self._check_operator(request, address)
        if terms.opens_to != "key":
            return await work(AddressCaller(address), address), []
        caller = await self._identify(request)
        _check_tier(terms, caller)
        if not terms.is_metered:
            return await work(caller, address), usage_headers(caller, await self._look(caller))
        return await self._metered(caller, address, work)

    async def _identify(self, request: Request) -> KeyCaller:
        if not request.header(b"authorization"):
            raise Problem(
                "missing-credentials",
                "Send your API key as `Authorization: Bearer <key>`; POST /api/keys/create gives one.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        key = _bearer(request)
        if not key:
            raise _invalid_key("The Authorization header must be `Bearer <key>`.")
        try:
            return await self._keys.holder(key)
        except Problem as problem:
            raise _invalid_key(problem.detail) if problem.code == "invalid-key" else problem from None

    def _check_operator(self, request: Request, address: str) -> None:
        """With `admin_token` set its bearer may come in; without it, only this machine."""
        if self._admin_token:
            if not hmac.compare_digest(_bearer(request).encode(), self._admin_token.encode()):
                raise Problem(
                    "missing-credentials",
                    "This is the operator's: send the admin token as a Bearer token.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        elif not is_loopback(address):
            raise Problem("not-found", "There is nothing at this path.")

    async def _metered(
        self, caller: KeyCaller, address: str, work: Callable[[Caller | None, str], Awaitable[Answer]]
    ) -> tuple[Answer, list[tuple[bytes, bytes]]]:
        reservation = await self._meter.reserve(caller.subject, windows_of(caller))
        if reservation.verdict.refused_by:
            raise _over_limit(caller, reservation)
        try:
            answer = await work(caller, address)
        except Problem as problem:
            problem.usage = usage_headers(caller, reservation.verdict)
            if problem.status >= 500 or problem.status in _USES_NOTHING:
                problem.usage = usage_headers(caller, await self._meter.release(reservation))
            raise
        except Exception:
            await self._meter.release(reservation)
            raise
        return answer, usage_headers(caller, reservation.verdict)

    async def _look(self, caller: KeyCaller) -> Verdict:
        return await self._meter.look(caller.subject, windows_of(caller))


def _check_tier(terms: Terms, caller: KeyCaller) -> None:
    if RANK[caller.tier] < RANK[terms.minimum_tier]:
        raise Problem(
            "tier-required",
            f"This needs a key of tier {terms.minimum_tier} or higher; this key's tier is {caller.tier}.",
            required_tier=terms.minimum_tier,
        )


def _bearer(request: Request) -> str:
    """The bearer token, empty when there is none."""
    scheme, _, token = request.header(b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _invalid_key(detail: str) -> Problem:
    return Problem("invalid-key", detail, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _over_limit(caller: KeyCaller, reservation: Reservation) -> Problem:
    full = reservation.verdict.refused_by
    assert full is not None
    # Told from now, not from when the call came: others may have been counted in between.
    wait = reservation.verdict.retry_after_seconds(clock.seconds())
    code = "quota-exceeded" if full.window == "day" else "rate-limited"
    problem = Problem(
        code,
        f"The {caller.tier} plan's {full.limit} requests per {full.window} are used; the next fits in {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window=full.window,
        limit=full.limit,
    )
    problem.usage = usage_headers(caller, reservation.verdict)
    return problem
