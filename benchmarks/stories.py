"""What 20,000 singletons cost the story clusterer: quality on labelled headlines, and speed as live stories grow.

`python benchmarks/stories.py [HEADLINES.jsonl]` prints one JSON object; its speeds are per second of processor time, so
that neighbours on the machine do not count. Without a file of labelled articles (as
`tollhouse evaluate stories` reads them) the stories are made up, like the singletons.
"""

import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from time import process_time

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.evaluate_stories import bcubed
from tollhouse.services.defense.stories.clusterer import Clusterer

SINGLETONS = 20_000
FEW, MANY, ROUND = 1_000, 14_000, 500
START = datetime(2026, 1, 1, tzinfo=UTC)

Labelled = tuple[Article, str]


class Wire:
    """Made-up headlines in words as unevenly frequent as English ones (Zipf), and names."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.words = [self._word(3) for _ in range(8_000)]
        self.weights = list(accumulate(1 / (rank + 40) for rank in range(len(self.words))))

    def name(self) -> str:
        return self._word(4).title()

    def headline(self, names: list[str]) -> str:
        """Eight to eleven words, the names among them."""
        words = self.rng.choices(self.words, cum_weights=self.weights, k=self.rng.randint(8, 11) - len(names))
        told = [*words, *names]
        self.rng.shuffle(told)
        return " ".join(told)

    def _word(self, syllables: int) -> str:
        letters = (self.rng.choice("bcdfghjklmnprstvwz") + self.rng.choice("aeiou") for _ in range(syllables))
        return "".join(letters) + self.rng.choice("nrlt")


def main() -> None:
    wire = Wire(seed=1)
    gold = _read(Path(sys.argv[1])) if len(sys.argv) > 1 else list(_made_up(wire, stories=40, articles=2_800))
    alone, _ = _clustered(gold)
    crowded, speeds = _clustered(_mixed(gold, _singletons(wire), wire.rng))
    before, after = _f1(gold, alone), _f1(gold, crowded)
    few, many = _speed_near(speeds, FEW), _speed_near(speeds, MANY)
    figures = {
        "b3_f1": round(before, 4),
        "b3_f1_among_singletons": round(after, 4),
        "f1_cost": round(before - after, 4),
        "live_stories": speeds[-1][0],
        f"articles_per_s_at_{FEW}": round(few),
        f"articles_per_s_at_{MANY}": round(many),
        "speed_ratio": round(many / few, 3),
    }
    print(json.dumps(figures))


def _read(path: Path) -> list[Labelled]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(_article(str(line["id"]), line["title"], line.get("text", "")), str(line["cluster"])) for line in lines]


def _made_up(wire: Wire, stories: int, articles: int) -> Iterator[Labelled]:
    """Each story has seven names, of which an article uses five."""
    names = [[wire.name() for _ in range(7)] for _ in range(stories)]
    for number in range(articles):
        story = wire.rng.randrange(stories)
        yield _article(f"made{number}", wire.headline(wire.rng.sample(names[story], 5))), str(story)


def _singletons(wire: Wire) -> Iterator[Labelled]:
    """Each with two names of its own."""
    for number in range(SINGLETONS):
        yield _article(f"single{number}", wire.headline([wire.name(), wire.name()])), f"single{number}"


def _mixed(gold: list[Labelled], singletons: Iterator[Labelled], rng: random.Random) -> list[Labelled]:
    """The labelled articles in their order, the singletons anywhere between them."""
    placed = [(number / len(gold), row) for number, row in enumerate(gold)]
    placed += [(rng.random(), row) for row in singletons]
    return [row for _, row in sorted(placed, key=lambda pair: pair[0])]


def _article(article_id: str, title: str, text: str = "") -> Article:
    return Article(article_id, "", title, "", "", START, "feed", text)


def _clustered(rows: list[Labelled]) -> tuple[dict[str, str], list[tuple[int, float]]]:
    """Each article's story, and for every ROUND of articles the live stories after it and its articles per second."""
    clusterer, speeds, started = Clusterer(), list[tuple[int, float]](), process_time()
    for start in range(0, len(rows), ROUND):
        clusterer.add([article for article, _ in rows[start : start + ROUND]])
        speeds.append((len(clusterer), ROUND / (process_time() - started)))
        started = process_time()
    return {article.id: clusterer.story_of(article.id) or "" for article, _ in rows}, speeds


def _f1(gold: list[Labelled], answer: dict[str, str]) -> float:
    precision, recall = bcubed([cluster for _, cluster in gold], [answer[article.id] for article, _ in gold])
    assert precision
    assert recall
    return 2 * precision * recall / (precision + recall)


def _speed_near(speeds: list[tuple[int, float]], live: int) -> float:
    """The mean of the three rounds nearest to that many live stories."""
    nearest = sorted(speeds, key=lambda pair: abs(pair[0] - live))[:3]
    return sum(speed for _, speed in nearest) / len(nearest)


if __name__ == "__main__":
    main()
