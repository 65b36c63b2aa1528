"""The procurement lines with an operator's own exhibit read into them."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.brief.p1_import import Exhibit
from tollhouse.services.defense.brief.production import Line

YEARS = (2025, 2026, 2027)


class Imported(Struct, frozen=True):
    """`lines` are all known lines, `matched` of them with the exhibit's amounts."""

    lines: list[Line]
    matched: int


def imported(exhibit: Exhibit, name: str, lines: Sequence[Line]) -> Imported:
    """The known lines with the exhibit's amounts where it has the same account and code.

    A code that it uses for something else cannot be told from here, so read the report. ValueError where the exhibit
    lacks one of YEARS or has none of the lines.
    """
    amounts = [exhibit.amounts_k(year) for year in YEARS]
    found = [_read_in(line, [of_year.get((line.account, line.code)) for of_year in amounts], name) for line in lines]
    matched = sum(line is not None for line in found)
    if not matched:
        raise ValueError("the exhibit holds none of the known lines: are its account and code columns the P-1's?")
    return Imported([new or old for new, old in zip(found, lines, strict=True)], matched)


def _read_in(line: Line, amounts: Sequence[int | None], name: str) -> Line | None:
    first, second, third = amounts
    if first is None or second is None or third is None:
        return None
    return replace(
        line,
        fy2025_k=first,
        fy2026_k=second,
        fy2027_k=third,
        is_net_complete=True,
        basis="read from the operator's copy of the exhibit, Non-Add rows left out",
        source=f"{name}, account {line.account}, line {line.code}",
    )
