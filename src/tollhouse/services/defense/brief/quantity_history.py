"""How many were bought a decade ago, and how much of a production line that used: historic, never a current trend."""

from collections.abc import Sequence
from functools import cache
from statistics import median

from msgspec import Struct

from tollhouse.services.defense.brief.production import Line
from tollhouse.services.defense.brief.tables import read_rows

PERIOD = "FY2012 to FY2015"
NO_QUANTITIES = "no line of this area has an actual FY2015 quantity of the same item"
NO_CHANGE = "no line of this area has both quantities"
NO_RATES = "no line of this area has one yearly rate of its own"


class HistoricRate(Struct, frozen=True):
    """One row of data/production/historic_rates.csv. `maximum_rate` is per year, of the exhibit it names."""

    account: str
    code: str
    quantity_fy2015: int
    basis: str
    licence: str
    source: str
    quantity_fy2012: int | None = None
    maximum_rate: int | None = None
    rate_exhibit: str = ""


class History(Struct, frozen=True):
    """Medians over an area's lines, since unlike things cannot be added; `…_lines` is how many stand behind one.

    `quantity_change` is FY2015 against FY2012 as a share. `headroom` is the part of the maximum yearly rate that the
    FY2015 quantity left unused, 0..1; foreign sales used some of it. A null has its reason.
    """

    is_historic: bool
    period: str
    quantity_change: float | None
    quantity_change_reason: str | None
    quantity_change_lines: int
    headroom: float | None
    headroom_reason: str | None
    headroom_lines: int


@cache
def bundled_rates() -> dict[tuple[str, str], HistoricRate]:
    """The historic rows by account and code."""
    return {(row.account, row.code): row for row in read_rows("historic_rates.csv", HistoricRate)}


def historic_rates(lines: Sequence[Line]) -> list[tuple[Line, HistoricRate]]:
    """The lines whose past is known, each with it."""
    known = bundled_rates()
    return [(line, known[key]) for line in lines if (key := (line.account, line.code)) in known]


def history(rates: Sequence[HistoricRate]) -> History:
    changes = [rate.quantity_fy2015 / rate.quantity_fy2012 - 1 for rate in rates if rate.quantity_fy2012]
    unused = [max(0.0, 1 - rate.quantity_fy2015 / rate.maximum_rate) for rate in rates if rate.maximum_rate]
    return History(
        is_historic=True,
        period=PERIOD,
        quantity_change=_median(changes),
        quantity_change_reason=None if changes else NO_CHANGE if rates else NO_QUANTITIES,
        quantity_change_lines=len(changes),
        headroom=_median(unused),
        headroom_reason=None if unused else NO_RATES if rates else NO_QUANTITIES,
        headroom_lines=len(unused),
    )


def citation(line: Line, rate: HistoricRate) -> str:
    before = "not known" if rate.quantity_fy2012 is None else str(rate.quantity_fy2012)
    most = f"; maximum rate {rate.maximum_rate} a year ({rate.rate_exhibit})" if rate.maximum_rate else ""
    return (
        f"Historic: {line.name} ({line.account} {line.code}), actual quantity FY2012 {before}, "
        f"FY2015 {rate.quantity_fy2015}{most}. {rate.source}"
    )


def _median(shares: Sequence[float]) -> float | None:
    return round(median(shares), 4) if shares else None
