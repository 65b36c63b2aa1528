"""Evaluate the served clusterer on labelled articles: `tollhouse evaluate stories`.

B-cubed of Bagga and Baldwin, "Algorithms for scoring coreference chains", LREC 1998: precision is the mean, over
articles, of the share of an article's predicted story that is in its gold cluster; recall is the reverse.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.stories.clusterer import WINDOW, Clusterer

# As often as the provider brings articles.
UPDATE_SECONDS = 900


class Labelled(Struct, frozen=True):
    """One line: an article and its gold cluster. `ts_ms` is milliseconds since 1970 in UTC.

    Tables exported from Python have NaN, which is not JSON, in place of a missing publisher or text.
    """

    id: str | int
    title: str
    cluster: str | int
    text: str | float | None = ""
    publisher: str | float | None = ""
    url: str = ""
    ts_ms: int | None = None

    def article(self) -> Article:
        publisher, text = (value if isinstance(value, str) else "" for value in (self.publisher, self.text))
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

    Articles are streamed by time, a quarter of an hour at once, or in file order if a line has no time. The last story
    of an article counts, with all mergers made while it was in the window. Malformed lines are reported to `progress`
    and counted as `malformed`; of lines with the same id the first counts.
    """
    labelled, malformed = _read(path, progress)
    gold = {str(line.id): str(line.cluster) for line in labelled}
    predicted, seconds = _stream([line.article() for line in labelled], progress)
    precision, recall = bcubed([gold[i] for i in gold], [predicted[i] for i in gold])
    return {
        "b3_f1": 2 * precision * recall / (precision + recall) if precision and recall else None,
        "b3_precision": precision,
        "b3_recall": recall,
        "articles": len(gold),
        "articles_per_s": round(len(gold) / seconds) if gold else None,
        "stories": len(set(predicted.values())),
        "malformed": malformed,
    }


def bcubed(gold: Sequence[str], predicted: Sequence[str]) -> tuple[float | None, float | None]:
    """Precision and recall in 0..1 of parallel sequences of labels."""
    if not gold:
        return None, None
    both, golds, sizes = Counter(zip(gold, predicted, strict=True)), Counter(gold), Counter(predicted)
    precision = sum(n * n / sizes[story] for (_, story), n in both.items()) / len(gold)
    recall = sum(n * n / golds[cluster] for (cluster, _), n in both.items()) / len(gold)
    return precision, recall


def _stream(articles: Iterable[Article], progress: Callable[[str], None]) -> tuple[dict[str, str], float]:
    """The last story of each article, and the seconds that placing them took."""
    clusterer, seconds, done = Clusterer(), 0.0, 0
    predicted: dict[str, str] = {}
    for _, group in groupby(articles, key=lambda article: article.published.timestamp() // UPDATE_SECONDS):
        batch = list(group)
        started = perf_counter()
        predicted.update(clusterer.expire(batch[0].published - WINDOW))
        clusterer.add(batch)
        seconds += perf_counter() - started
        done += len(batch)
        if done // 5_000 > (done - len(batch)) // 5_000:
            progress(f"{done} articles, {len(clusterer)} live stories")
    predicted.update({identity: live.id for live in clusterer.stories() for identity in live.articles})
    return predicted, seconds


def _read(path: Path, progress: Callable[[str], None]) -> tuple[list[Labelled], int]:
    """The lines in streaming order, and the number of malformed lines."""
    lines: dict[str, Labelled] = {}
    malformed = 0
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        if not raw.strip():
            continue
        try:
            line = msgspec.convert(json.loads(raw), Labelled)
            line.article().id.encode()
        # Times outside the years of datetime overflow.
        except (msgspec.MsgspecError, ValueError, OverflowError, OSError, RecursionError) as fault:
            malformed += 1
            progress(f"{path.name}, line {number}: skipped, {fault}")
        else:
            lines.setdefault(str(line.id), line)
    labelled = list(lines.values())
    if all(line.ts_ms is not None for line in labelled):
        labelled.sort(key=lambda line: line.ts_ms or 0)
    return labelled, malformed
