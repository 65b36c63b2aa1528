"""Evaluate how the served resolver groups labelled reports into events: `tollhouse evaluate events`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from tollhouse.labelled_lines import read_lines
from tollhouse.services.defense.article import Article, article_id, find_publisher
from tollhouse.services.defense.evaluate_conflict import rows_by_url
from tollhouse.services.defense.evaluate_stories import bcubed
from tollhouse.services.defense.events.event_set import sighting
from tollhouse.services.defense.events.report import Page, Report, event_id, read_reports
from tollhouse.services.defense.events.resolver import RETENTION, Resolver, Sighting
from tollhouse.services.defense.ingest.url_title import title_from_url


class Labelled(Struct, frozen=True):
    """One line: a report's URL and its gold event, None for none. Without exports `published` is an ISO 8601 time."""

    url: str
    event: str | int | None = None
    title: str = ""
    published: str = ""

    @property
    def moment(self) -> datetime | None:
        try:
            moment = datetime.fromisoformat(self.published)
        except ValueError:
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def evaluate(
    gold: Path, exports: Sequence[Path], progress: Callable[[str], None], resolver: Resolver | None = None
) -> dict[str, float | int | None]:
    """b3_f1, b3_precision and b3_recall of the labelled reports, `articles` and the gold `events` among them.

    A report without an event is scored as one of its own: joining it to others is wrong. `with_event_b3_f1` leaves
    such reports out, and `pair_precision` and `pair_recall` count pairs of reports of one event, because most reports
    are alone in a random sample. `not_found` labels are in no export and have no title and time themselves.
    """
    lines, malformed = read_lines(gold, Labelled, progress)
    # The first line of a URL counts.
    labels = {line.url: line for line in reversed(lines)}
    rows = rows_by_url(exports)
    pages = [Page(url, own) for url, own in rows.items()]
    pages += [_page(line, at) for line in labels.values() if line.url not in rows and (at := line.moment)]
    reports = [report for report in read_reports(pages) if isinstance(report, Report)]
    predicted = resolve(map(sighting, reports), progress, resolver or Resolver())
    scored = [line for line in labels.values() if event_id(line.url) in predicted]
    truth = [f"event {line.event}" if line.event is not None else f"alone {line.url}" for line in scored]
    served = [predicted[event_id(line.url)] for line in scored]
    named = [number for number, line in enumerate(scored) if line.event is not None]
    precision, recall = bcubed(truth, served)
    return {
        "b3_f1": _f1(precision, recall),
        "b3_precision": precision,
        "b3_recall": recall,
        "articles": len(scored),
        "events": len({truth[number] for number in named}),
        "with_event_b3_f1": _f1(*bcubed([truth[number] for number in named], [served[number] for number in named])),
        **_pairs(truth, served),
        "resolved_articles": len(predicted),
        "resolved_events": len(set(predicted.values())),
        "not_found": len(labels) - len(scored),
        "malformed": malformed,
    }


def resolve(sightings: Iterable[Sighting], progress: Callable[[str], None], resolver: Resolver) -> dict[str, str]:
    """The last event of each report, streamed by the time of the report."""
    predicted: dict[str, str] = {}

    def keep() -> None:
        for event, reports in resolver.settle().events.items():
            predicted.update(dict.fromkeys(reports, event))

    ordered = sorted(sightings, key=lambda s: (s.reported_at, s.id))
    for day, own in groupby(ordered, key=lambda s: s.reported_at.date()):
        for moment, batch in groupby(own, key=lambda s: s.reported_at):
            resolver.expire(moment - RETENTION)
            resolver.add(batch)
        keep()
        progress(f"{day}: {len(predicted)} reports, {len(resolver)} live events")
    return predicted


def _page(line: Labelled, moment: datetime) -> Page:
    """A labelled page that is in no export."""
    title = line.title or title_from_url(line.url) or ""
    publisher = find_publisher(line.url)
    article = Article(article_id(line.url), line.url, title, publisher.name, publisher.family, moment, "gkg")
    return Page(line.url, (), (title, "page"), article)


def _pairs(truth: Sequence[str], served: Sequence[str]) -> dict[str, float | None]:
    def count(labels: Iterable[object]) -> int:
        return sum(number * (number - 1) // 2 for number in Counter(labels).values())

    both, gold, predicted = count(zip(truth, served, strict=True)), count(truth), count(served)
    return {
        "pair_precision": both / predicted if predicted else None,
        "pair_recall": both / gold if gold else None,
    }


def _f1(precision: float | None, recall: float | None) -> float | None:
    return 2 * precision * recall / (precision + recall) if precision and recall else None
