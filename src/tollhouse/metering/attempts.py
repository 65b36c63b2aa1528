"""Failed attempts: how many refused keys, signatures and payments an address, wallet or payer may send in a minute."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from math import ceil

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.address_budget import prefixes
from tollhouse.metering.meter import Meter, Windows

MOST_PROVEN = 20_000
PURGE_AFTER_BUDGETS = 10_000
WINDOW_SECONDS = 60

_FAILED = frozenset({400, 401, 402, 403, 409})


class _Budget:
    """What this process knows of one subject: `remaining` failures, as counted until `known_until` (loop time).

    `known_until` is None while no failure is counted.
    """

    __slots__ = ("in_progress", "known_until", "remaining", "waiting")

    def __init__(self, limit: int) -> None:
        self.in_progress = 0
        self.remaining = limit
        self.known_until: float | None = None
        self.waiting: deque[asyncio.Future[None]] = deque()

    def wake_next(self) -> None:
        while self.waiting:
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(None)
                return


class Attempts:
    """A budget of failures per minute, taken before the work and given back when it succeeds.

    Failures are counted by the meter, so all processes share them. A success costs nothing: while as many attempts
    of a subject are in progress as it has failures left, more of them wait, and go on when one succeeds. Only failures
    that were counted lead to a 429.

    A party (a key, wallet or payer) that succeeded last time is not held to the budget of its address, which it may
    share with strangers.
    """

    def __init__(self, meter: Meter, per_minute: int) -> None:
        self._meter = meter
        self._per_minute = per_minute
        self._budgets: dict[str, _Budget] = {}
        self._proven: dict[str, None] = {}

    @contextlib.asynccontextmanager
    async def attempt(
        self,
        address: str,
        party: str = "",
        *,
        is_authentic: Callable[[], bool] = lambda: True,
        is_partys_fault: Callable[[Problem], bool] = lambda _: False,
    ) -> AsyncIterator[None]:
        """Hold the budget of the address and of the party while the block runs.

        A Problem with a status of the 4xx in `_FAILED` counts for the address, and for the party if it is its fault.
        `is_authentic` says whether the party itself made this request. Raises Problem `rate-limited`.
        """
        if party in self._budgets and not is_authentic():
            # A stranger who names the party neither uses its budget nor is held to it.
            party = ""
        held = self._held(address, party, is_authentic)
        entered: list[str] = []
        try:
            for name, limit in held:
                if name in self._budgets:
                    await self._enter(name, limit)
                else:
                    self._budgets[name] = budget = _Budget(limit)
                    budget.in_progress = 1
                entered.append(name)
            yield
        except Problem as problem:
            if len(entered) == len(held) and problem.status in _FAILED:
                is_at_fault = bool(party) and is_partys_fault(problem) and is_authentic()
                await self.count(address, party if is_at_fault else "")
                self._proven.pop(party, None)
            raise
        else:
            if party:
                self._prove(party)
        finally:
            for name in entered:
                self._leave(name)

    def _held(self, address: str, party: str, is_authentic: Callable[[], bool]) -> tuple[tuple[str, int], ...]:
        """The names of the budgets that an attempt takes, and their limits."""
        networks = _subjects(address, self._per_minute)
        if not party:
            return networks
        own = ((party, self._per_minute),)
        is_spared = party in self._proven and any(name in self._budgets for name, _ in networks) and is_authentic()
        return own if is_spared else networks + own

    async def count(self, address: str, party: str = "") -> None:
        """Count one failure of the address, and of the party if one is given."""
        subjects = _subjects(address, self._per_minute)
        if party:
            self._proven.pop(party, None)
            subjects += ((party, self._per_minute),)
        await asyncio.gather(*(self._count(name, limit) for name, limit in subjects))

    async def _enter(self, name: str, limit: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            budget = self._budgets.get(name)
            if budget is None:
                budget = self._budgets[name] = _Budget(limit)
            if budget.known_until is not None and loop.time() >= budget.known_until:
                await self._refresh(name, limit, budget)
            if budget.in_progress < budget.remaining:
                budget.in_progress += 1
                if budget.in_progress < budget.remaining:
                    budget.wake_next()
                return
            if budget.in_progress == 0:
                budget.wake_next()
                wait = max(1, ceil((budget.known_until or 0.0) - loop.time()))
                raise _too_many(limit, wait)
            future: asyncio.Future[None] = loop.create_future()
            budget.waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                budget.wake_next()
                raise

    def _leave(self, name: str) -> None:
        budget = self._budgets[name]
        budget.in_progress -= 1
        if budget.waiting:
            budget.wake_next()
        if budget.in_progress == 0 and budget.known_until is None and not budget.waiting:
            del self._budgets[name]

    async def _count(self, name: str, limit: int) -> None:
        budget = self._budgets.get(name)
        if budget is None:
            self._purge()
            budget = self._budgets[name] = _Budget(limit)
        loop = asyncio.get_running_loop()
        try:
            sliding = (await self._meter.reserve(f"failed:{name}", Windows(None, limit))).verdict.sliding
        except Problem:
            # The meter cannot count: this process counts for itself.
            budget.remaining = max(0, budget.remaining - 1)
            budget.known_until = loop.time() + WINDOW_SECONDS
            return
        budget.remaining = sliding.remaining or 0
        budget.known_until = loop.time() + max(0.0, sliding.resets_at - clock.seconds())

    async def _refresh(self, name: str, limit: int, budget: _Budget) -> None:
        """Read the count again: some of the failures are more than a minute ago."""
        budget.known_until = asyncio.get_running_loop().time() + 1.0
        try:
            sliding = (await self._meter.peek(f"failed:{name}", Windows(None, limit))).sliding
        except Problem:
            budget.remaining = limit
            return
        budget.remaining = limit - sliding.used
        until = asyncio.get_running_loop().time() + max(0.0, sliding.resets_at - clock.seconds())
        budget.known_until = until if sliding.used else None

    def _prove(self, party: str) -> None:
        if party not in self._proven:
            if len(self._proven) >= MOST_PROVEN:
                del self._proven[next(iter(self._proven))]
            self._proven[party] = None

    def _purge(self) -> None:
        if len(self._budgets) < PURGE_AFTER_BUDGETS:
            return
        now = asyncio.get_running_loop().time()
        for name, budget in list(self._budgets.items()):
            if not budget.in_progress and not budget.waiting and (budget.known_until or 0.0) < now:
                del self._budgets[name]


@lru_cache(maxsize=8192)
def _subjects(address: str, per_minute: int) -> tuple[tuple[str, int], ...]:
    """The names of the address's networks, and the failures that each may have in a minute."""
    return tuple((f"address:{prefix}", per_minute * factor) for prefix, factor in prefixes(address))


def _too_many(limit: int, wait: int) -> Problem:
    return Problem(
        "rate-limited",
        f"Too many refused requests: {limit} per minute. Check key, signature or payment. Retry after {wait} s.",
        retry_after_seconds=wait,
        window="minute",
        limit=limit,
    )
