"""How well the served clusterer tells stories apart, on labelled articles.

B-cubed of Bagga and Baldwin, "Algorithms for scoring coreference chains", LREC 1998: precision is the mean, over
articles, of the share of an article's answered story that is in its gold cluster; recall the same the other way round.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.stories.clusterer import WINDOW, Clusterer


class Labelled(Struct, frozen=True):
    """One line: an article and its gold cluster. `ts_ms` is milliseconds since 1970 in UTC.

    Tables exported from Python write NaN, which is no JSON, where a publisher or a text is missing.
    """

    id: str | int
    title: str
    cluster: str | int
    text: str | float | None = ""
    publisher: str | float | None = ""
    url: str = ""
    ts_ms: int | None = None

    def article(self) -> Article:
        publisher, text = (said if isinstance(said, str) else "" for said in (self.publisher, self.text))
        return Article(
            id=str(self.id),
            url=self.url,
            title=self.title,
            publisher=publisher,
            family=publisher,
            published=clock.at((self.ts_ms or 0) / 1000),
            source="feed",
            text=text,
        )


def evaluate(path: Path, progress: Callable[[str], None]) -> dict[str, float | int | None]:
    """b3_f1, b3_precision, b3_recall (None without articles), articles and articles_per_s.

    The articles are streamed by time, or in the order of the file where a line has no time. An article answers with
    the story it was last in: repairs made while it was inside the window count. Malformed lines are told to
    `progress` and counted as `malformed`; of lines with one id the first counts.
    """
    labelled, malformed = _read(path, progress)
    gold = {str(line.id): str(line.cluster) for line in labelled}
    answer, seconds = _streamed([line.article() for line in labelled], progress)
    precision, recall = bcubed([gold[i] for i in gold], [answer[i] for i in gold])
    return {
        "b3_f1": _harmonic(precision, recall),
        "b3_precision": precision,
        "b3_recall": recall,
        "articles": len(gold),
        "articles_per_s": round(len(gold) / seconds) if gold else None,
        "stories": len(set(answer.values())),
        "malformed": malformed,
    }


def bcubed(gold: Sequence[str], answer: Sequence[str]) -> tuple[float | None, float | None]:
    """Precision and recall in 0..1 of parallel sequences of labels."""
    if not gold:
        return None, None
    both, golds, answers = Counter(zip(gold, answer, strict=True)), Counter(gold), Counter(answer)
    precision = sum(n * n / answers[told] for (_, told), n in both.items()) / len(gold)
    recall = sum(n * n / golds[true] for (true, _), n in both.items()) / len(gold)
    return precision, recall


def _harmonic(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall)


def _streamed(articles: Iterable[Article], progress: Callable[[str], None]) -> tuple[dict[str, str], float]:
    """The last story of each article, and the seconds that placing them took."""
    clusterer, seconds = Clusterer(), 0.0
    answer: dict[str, str] = {}
    for number, article in enumerate(articles, 1):
        started = perf_counter()
        clusterer.expire(article.published - WINDOW)
        placement = clusterer.add(article)
        seconds += perf_counter() - started
        answer.update(placement.moved)
        if number % 5_000 == 0:
            progress(f"{number} articles, {len(clusterer)} live stories")
    started = perf_counter()
    answer.update(clusterer.settle().moved)
    return answer, seconds + perf_counter() - started


def _read(path: Path, progress: Callable[[str], None]) -> tuple[list[Labelled], int]:
    """The lines in the order to stream them, and how many were skipped."""
    found: dict[str, Labelled] = {}
    malformed = 0
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        if not raw.strip():
            continue
        try:
            line = msgspec.convert(json.loads(raw), Labelled)
            line.article().id.encode()
        # A moment outside datetime's years overflows.
        except (msgspec.MsgspecError, ValueError, OverflowError, OSError, RecursionError) as fault:
            malformed += 1
            progress(f"{path.name}, line {number}: skipped, {fault}")
        else:
            found.setdefault(str(line.id), line)
    return _in_order(list(found.values())), malformed


def _in_order(lines: list[Labelled]) -> list[Labelled]:
    if any(line.ts_ms is None for line in lines):
        return lines
    return sorted(lines, key=lambda line: line.ts_ms or 0)
