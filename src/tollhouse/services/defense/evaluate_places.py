"""Evaluate the countries that events are placed in on labelled reports: `tollhouse evaluate places`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from tollhouse.labelled_lines import read_lines
from tollhouse.services.defense.evaluate_conflict import rows_by_url
from tollhouse.services.defense.events.place import decide_place, read_place
from tollhouse.services.defense.events.report import Page, Report, read_reports
from tollhouse.services.defense.ingest.export_parser import Row
from tollhouse.services.defense.ingest.url_title import title_from_url


class _Labelled(Struct, frozen=True):
    """A labelled report; `country` is ISO 3166-1 alpha-2, or None where the reader could not tell it."""

    url: str = ""
    title: str = ""
    country: str | None = None

    def __post_init__(self: Self) -> None:
        if not (self.url or self.title):
            raise ValueError("a line needs a `url` or a `title`")


def evaluate(
    gold_path: Path, export_paths: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, float | int | None]:
    """Share of the `n` labelled reports that are placed in the right country; None without any.

    Each line is one report: its title, else that of its URL, and its rows in the exports. `undecided` reports have no
    evidence and count as wrong. `accuracy_with_rows` and `provider_accuracy` compare the same `with_rows` reports:
    the served country, and the one that the provider's rows mention most.
    """
    lines, malformed = read_lines(gold_path, _Labelled, progress)
    gold = [line for line in lines if line.country]
    rows = rows_by_url(export_paths)
    right = undecided = with_rows = right_with_rows = provider_right = 0
    pages = [Page(line.url, rows.get(line.url, ()), (line.title, "page") if line.title else None) for line in gold]
    for line, page, report in zip(gold, pages, read_reports(pages), strict=True):
        # A page without rows makes no report by itself, but its title and address may still place it.
        title = line.title or title_from_url(line.url) or ""
        evidence = report.place if isinstance(report, Report) else read_place(title, (), line.url)
        place = decide_place([evidence])
        is_right = place is not None and place.country_code == line.country
        right += is_right
        undecided += place is None
        if page.rows:
            with_rows += 1
            right_with_rows += is_right
            provider_right += _most_mentioned(page.rows) == line.country
    progress(f"{with_rows} of {len(gold)} labelled reports are in the {len(export_paths)} export files")
    return {
        "accuracy": _ratio(right, len(gold)),
        "n": len(gold),
        "undecided": undecided,
        "with_rows": with_rows,
        "accuracy_with_rows": _ratio(right_with_rows, with_rows),
        "provider_accuracy": _ratio(provider_right, with_rows),
        "malformed": malformed,
    }


def _most_mentioned(rows: Sequence[Row]) -> str:
    counts: dict[str, int] = {}
    for piece in read_place("", rows, "").evidence:
        if piece.kind == "action":
            counts[piece.country] = round(1000 * piece.amount)
    return max(counts, key=lambda code: (counts[code], code), default="")


def _ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
