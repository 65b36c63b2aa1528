"""Counts every call in memory: by operation, status, caller and payment, with latencies and the newest calls.

A call changes two counters, which costs less than a microsecond, and may be kept for the live log. `take` hands over
what was counted since the last time, to be stored.
"""

from bisect import bisect_left
from collections.abc import Iterable
from time import perf_counter
from typing import Literal

from msgspec import Struct

from tollhouse import clock

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency buckets in seconds; one more bucket holds what took longer."""
MINUTE = 60
MOST_RECENT = 50
"""How many calls a process keeps for the live log between two flushes: so many answered, and so many refused."""
MOST_MINUTES = 1_000
"""How many batches a process keeps while the database cannot be reached."""
FIRST_ERROR, FIRST_FAILURE = 400, 500
"""A status below is an answer; one of 4xx is a refusal, one of 5xx a failure."""


Payment = Literal["", "plan", "allowance", "credit", "x402"]
"""What a call was paid with: the limits of a key's plan, an address's free allowance, wallet credit, or a payment of
its own. Empty for a call that is free or was refused."""


Key = tuple[str, str, int, str, str, str, str]
"""What calls that are counted together share: service, operation, status, problem code, caller kind, plan, payment."""


class Latencies(Struct):
    """A number of calls, the sum of their seconds, and how many fell into each bucket."""

    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = []

    def __post_init__(self) -> None:
        self.buckets = self.buckets or [0] * (len(BOUNDS) + 1)

    def add(self, other: "Latencies") -> None:
        self.count += other.count
        self.seconds += other.seconds
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]

    def quantile(self, share: float) -> float | None:
        """The seconds within which this share of the calls ended, interpolated in its bucket; None without calls.

        As Prometheus' `histogram_quantile`: what took longer than the last bound counts as that bound.
        """
        rank, seen = share * self.count, 0
        for position, bound in enumerate(BOUNDS):
            here = self.buckets[position]
            if here and seen + here >= rank:
                lower = BOUNDS[position - 1] if position else 0.0
                return lower + (bound - lower) * (rank - seen) / here
            seen += here
        return BOUNDS[-1] if self.count else None


class CallerUse(Struct):
    """The calls of one caller. `name` is a key's label or a wallet's address."""

    plan: str
    name: str
    requests: int = 0
    refused: int = 0
    failed: int = 0
    charged_micros: int = 0

    def add(self, other: "CallerUse") -> None:
        self.requests += other.requests
        self.refused += other.refused
        self.failed += other.failed
        self.charged_micros += other.charged_micros


class RecordedCall(Struct, frozen=True, gc=False):
    """One call. `path` is the path's template where there is one, `code` and `detail` are those of its problem.

    `ended` is a time of `perf_counter`. `subject` names the caller, `name` is a key's label or a wallet's address.
    """

    ended: float
    seconds: float
    status: int
    code: str
    detail: str
    service: str
    operation: str
    method: str
    path: str
    request_id: str
    kind: str
    subject: str
    name: str
    plan: str
    payment: str
    charged_micros: int


class Counted(Struct):
    """What was counted within one minute, which began at `minute`, in seconds since 1970.

    Callers are counted under kind and subject.
    """

    minute: int
    cells: dict[Key, Latencies] = {}
    callers: dict[tuple[str, str], CallerUse] = {}


class Recorder:
    """The counters of one process. All methods are called in the thread of its event loop."""

    def __init__(self) -> None:
        self._totals: dict[Key, Latencies] = {}
        self._finished: list[Counted] = []
        self._answered: list[RecordedCall] = []
        self._refused: list[RecordedCall] = []
        self._open_minute()

    def record(self, call: RecordedCall) -> None:
        """Count a call to an operation of the API, and keep it for the live log while there is room."""
        key = (call.service, call.operation, call.status, call.code, call.kind, call.plan, call.payment)
        self.count_call(key, call.seconds, call.ended, call.subject, call.name, call.charged_micros)
        if self.accepts(call.status):
            self.keep(call)

    def count_call(  # noqa: PLR0913, PLR0917 - a struct for each call would cost as much as counting it
        self, key: Key, seconds: float, ended: float, subject: str, name: str, charged_micros: int
    ) -> None:
        """Count a call to an operation of the API, for its caller too."""
        self.count(key, seconds, ended)
        _, _, status, _, kind, plan, payment = key
        if kind == "key" and not payment and status < FIRST_ERROR:
            # It counted against no limit: the holder verified the key, or read its usage.
            return
        callers = self._current.callers
        use = callers.get((kind, subject))
        if use is None:
            use = callers[kind, subject] = CallerUse(plan, name)
        use.requests += 1
        if status >= FIRST_ERROR:
            use.refused += status < FIRST_FAILURE
            use.failed += status >= FIRST_FAILURE
        use.charged_micros += charged_micros

    def accepts(self, status: int) -> bool:
        """Whether the live log takes one more call with this status before the next flush."""
        return len(self._answered if status < FIRST_ERROR else self._refused) < MOST_RECENT

    def keep(self, call: RecordedCall) -> None:
        (self._answered if call.status < FIRST_ERROR else self._refused).append(call)

    def count(self, key: Key, seconds: float, ended: float) -> None:
        """Count a request. Those for pages and files, of caller kind "", are only counted."""
        if ended >= self._minute_ends:
            self._finish_minute()
        cells = self._current.cells
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Latencies()
        cell.count += 1
        cell.seconds += seconds
        cell.buckets[bisect_left(BOUNDS, seconds)] += 1

    def take(self, *, with_callers: bool = True) -> list[Counted]:
        """What was counted since the last time, by minute. Callers of the current minute may stay for the next time."""
        if self._current.cells or (with_callers and self._current.callers):
            self._finish_minute(with_callers=with_callers)
        taken, self._finished = self._finished, []
        return taken

    def put_back(self, counted: Iterable[Counted]) -> None:
        """Give back what could not be stored; of the oldest minutes only MOST_MINUTES are kept."""
        self._finished = [*counted, *self._finished][-MOST_MINUTES:]

    def take_recent(self) -> list[tuple[float, RecordedCall]]:
        """The calls kept since the last time, each with its time in seconds since 1970."""
        taken = [(self._wall + call.ended, call) for calls in (self._answered, self._refused) for call in calls]
        self._answered.clear()
        self._refused.clear()
        return taken

    def totals(self) -> dict[Key, Latencies]:
        """Every call since the process started."""
        if self._current.cells:
            self._finish_minute(with_callers=False)
        return self._totals

    def _finish_minute(self, *, with_callers: bool = True) -> None:
        finished = self._current
        for key, cell in finished.cells.items():
            total = self._totals.get(key)
            if total is None:
                total = self._totals[key] = Latencies()
            total.add(cell)
        self._finished.append(finished)
        self._open_minute()
        if not with_callers and self._current.minute == finished.minute:
            self._current.callers, finished.callers = finished.callers, {}

    def _open_minute(self) -> None:
        now, monotonic = clock.seconds(), perf_counter()
        self._wall = now - monotonic
        self._current = Counted(int(now // MINUTE) * MINUTE)
        self._minute_ends = monotonic + MINUTE - now % MINUTE
