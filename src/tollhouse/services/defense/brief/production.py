"""What the United States buys: named procurement lines of one exhibit, in money, and what each figure covers."""

from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from tollhouse.services.defense.brief.tables import read_rows
from tollhouse.services.defense.brief.trend import Trend, billions, funding_trend

# The newest year whose money is granted: FY2027 is only asked for.
FISCAL_YEAR = "FY2026"
NO_QUANTITY = "the transcription holds amounts, no quantities"

CATEGORIES = {
    "air_missile_defense": "Air and missile defense",
    "air_to_air_missiles": "Air-to-air missiles",
    "airborne_isr_c2_maritime_patrol": "Airborne reconnaissance, control and maritime patrol",
    "bombers_nuclear_strike": "Bombers and nuclear strike",
    "counter_uas": "Defense against drones",
    "electronic_warfare_survivability": "Electronic warfare and aircraft survivability",
    "fighters": "Fighter aircraft",
    "long_range_strike_missiles": "Long-range strike missiles",
    "rotary_tiltrotor": "Helicopters and tiltrotors",
    "space": "Space systems",
    "support_other": "Spares, support and other",
    "tactical_precision_munitions": "Tactical and precision munitions",
    "tankers_airlift": "Tankers and airlift",
    "trainers_targets": "Trainers and targets",
    "uas_cca": "Unmanned aircraft",
}


class Line(Struct, frozen=True):
    """One procurement line. Amounts are thousands of dollars; `title` is as printed, `name` is fit to be read.

    `account` and `code` identify it within one exhibit only: between exhibits some codes change their meaning.
    A `caution` says why its years must not be compared.
    """

    account: str
    account_title: str
    code: str
    title: str
    name: str
    area: str
    fy2025_k: int
    fy2026_k: int
    fy2027_k: int
    is_net_complete: bool
    basis: str
    licence: str
    source: str
    caution: str = ""


class Program(Struct, frozen=True):
    """One line in billions of dollars. `trend` follows the line, which need not be all of a programme's money."""

    name: str
    category: str
    value_b: float
    quantity: int | None
    quantity_reason: str | None
    trend: Trend
    source: str


class ProductionSummary(Struct, frozen=True):
    """`total_market_value_b` is the sum of `programs`, for one fiscal year; `basis` says of what."""

    total_market_value_b: float
    basis: str
    fiscal_year: str
    programs: list[Program]
    cautions: list[str]


@cache
def bundled_lines() -> tuple[Line, ...]:
    """The lines of data/production/p1_lines.csv, as tools/build_production.py wrote them."""
    return read_rows("p1_lines.csv", Line)


def production_summary(lines: Sequence[Line]) -> ProductionSummary:
    """The lines that hold money in `FISCAL_YEAR`, the largest first."""
    funded = sorted((line for line in lines if line.fy2026_k), key=lambda line: (-line.fy2026_k, line.name))
    return ProductionSummary(
        total_market_value_b=billions(sum(line.fy2026_k for line in funded)),
        basis=_basis(len(funded), len(lines)),
        fiscal_year=FISCAL_YEAR,
        programs=[_program(line) for line in funded],
        cautions=_cautions(funded),
    )


def citation(line: Line) -> str:
    """Where an amount stands, down to the line and the column; cells are not known."""
    return (
        f'Exhibit P-1, account {line.account} ({line.account_title}), line {line.code} "{line.title}", net amounts '
        f"in $K for FY2025, FY2026, FY2027: {line.fy2025_k}, {line.fy2026_k}, {line.fy2027_k}. {line.source}"
    )


def _program(line: Line) -> Program:
    return Program(
        name=line.name,
        category=CATEGORIES[line.area],
        value_b=billions(line.fy2026_k),
        quantity=None,
        quantity_reason=NO_QUANTITY,
        trend=funding_trend(line.fy2025_k, line.fy2026_k, line.fy2027_k, line.caution),
        source=citation(line),
    )


def _basis(funded: int, known: int) -> str:
    return (
        f"Sum of the {FISCAL_YEAR} net amounts of the {funded} US P-1 procurement lines listed in programs "
        f"(aircraft, missiles, munitions and space; of the {known} lines known, the others hold nothing in that year). "
        "Not a market size: US procurement money only, without research, operations or foreign buyers. A floor: the "
        f"transcription misses some lines. {FISCAL_YEAR} is enacted plus reconciliation, a stage label that was "
        "inferred; it is the newest year whose money is granted. No years are added together, and no grand total of "
        "the exhibit is used."
    )


def _cautions(funded: Sequence[Line]) -> list[str]:
    """What a reader must know about single lines, once each."""
    named = [f"{line.name} ({line.account} {line.code}): {line.caution}" for line in funded if line.caution]
    return [
        "Transcribed by a third party from the exhibit; only three nets were checked against it.",
        "A trend is that of a line: a programme may continue under another line or account.",
        *named,
    ]
