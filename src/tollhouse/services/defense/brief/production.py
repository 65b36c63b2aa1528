"""What the United States buys: named procurement lines of one exhibit, in money, and what each figure covers."""

import csv
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

Row = TypeVar("Row", bound=msgspec.Struct)

_FOLDER = files("tollhouse.services.defense").joinpath("data", "production")


def read_rows(name: str, row: type[Row]) -> tuple[Row, ...]:
    """Every row of a CSV table; an empty cell counts as absent, so the field's default stands for it."""
    records = csv.DictReader(_FOLDER.joinpath(name).read_text("utf-8").splitlines())
    filled = ({column: cell for column, cell in record.items() if cell} for record in records)
    return tuple(msgspec.convert(cells, row, strict=False) for cells in filled)


def read_words(name: str) -> dict[str, str]:
    """The `[words]` table of a TOML file: comma-separated phrases by area."""
    table = tomllib.loads(_FOLDER.joinpath(name).read_text("utf-8"))
    return msgspec.convert(table["words"], dict[str, str])


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
    if before <= 0:
        return 1 if after > 0 else 0
    change = (after - before) / before
    return 0 if abs(change) < NOTABLE_CHANGE else 1 if change > 0 else -1


# The newest year whose money is granted: FY2027 is only asked for.
FISCAL_YEAR = "FY2026"

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
        cautions=[
            "Transcribed by a third party from the exhibit; only three nets were checked against it.",
            "A trend is that of a line: a programme may continue under another line or account.",
            *(f"{line.name} ({line.account} {line.code}): {line.caution}" for line in funded if line.caution),
        ],
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
        quantity_reason="the transcription holds amounts, no quantities",
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
