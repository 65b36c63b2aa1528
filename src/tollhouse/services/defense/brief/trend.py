"""Where money goes over three fiscal years, in one word, without ever adding the years up."""

from typing import Literal

from msgspec import Struct

# A tenth is more than a year's inflation and less than any change of plan worth a word.
NOTABLE_CHANGE = 0.1

Direction = Literal["rising", "falling", "steady", "mixed", "new", "lapsing"]


class Trend(Struct, frozen=True):
    """Billions of dollars by year and the word for them; `direction` is null where `reason` says why.

    The stages differ: FY2025 actual, FY2026 enacted with reconciliation, FY2027 requested.
    """

    direction: Direction | None
    reason: str | None
    fy2025_b: float
    fy2026_b: float
    fy2027_requested_b: float


def funding_trend(fy2025_k: int, fy2026_k: int, fy2027_k: int, caution: str = "") -> Trend:
    """The trend of three yearly amounts in thousands of dollars; a `caution` says why they cannot be compared."""
    amounts = billions(fy2025_k), billions(fy2026_k), billions(fy2027_k)
    if caution:
        return Trend(None, caution, *amounts)
    return Trend(_direction(fy2025_k, fy2026_k, fy2027_k), None, *amounts)


def billions(amount_k: int) -> float:
    """Thousands of dollars in billions, exact to the thousand."""
    return round(amount_k / 1_000_000, 6)


def relative_change(before: int, after: int) -> float | None:
    """The change as a share of what was before; None where nothing was."""
    return (after - before) / before if before > 0 else None


def _direction(fy2025_k: int, fy2026_k: int, fy2027_k: int) -> Direction:
    """`lapsing`: nothing requested. `new`: nothing before FY2026. Else from the two steps, see `_step`."""
    if fy2027_k <= 0:
        return "lapsing"
    if fy2025_k <= 0:
        return "new"
    steps = {_step(fy2025_k, fy2026_k), _step(fy2026_k, fy2027_k)}
    if steps == {-1, 1}:
        return "mixed"
    return "rising" if 1 in steps else "falling" if -1 in steps else "steady"


def _step(before: int, after: int) -> int:
    """1 or -1 for a change of at least `NOTABLE_CHANGE`, 0 for a smaller one."""
    change = relative_change(before, after)
    if change is None:
        return 1 if after > 0 else 0
    return 0 if abs(change) < NOTABLE_CHANGE else 1 if change > 0 else -1
