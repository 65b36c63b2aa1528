"""Evaluation of the search ranking on rated queries.

nDCG of Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002): the gain is 2^rating - 1,
the discount log2(rank + 1), cut at 10. An unrated product has gain 0 in `ndcg10` and is skipped in
`ndcg10_condensed` (Sakai, 2007); `judged10` is the share of the first ten that is rated.
"""

import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from tollhouse.catalogue.items import Item, prepare_item
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.catalogue.search_engine import TantivyEngine

# A generic product schema: title, then brand, then description and attributes.
PRODUCTS = Schema(
    fields=(
        Field("title", "text", weight=10.0, required=True),
        Field("brand", "keyword", weight=5.0, filtered=True, faceted=True),
        Field("description", "text", weight=1.0),
        Field("attributes", "text", weight=1.0),
        Field("price", "money", filtered=True, faceted=True, sorted=True),
        Field("model", "keyword"),
    ),
    price="price",
)
DEPTH = 100
# Each query is timed this often, every time with empty caches.
ROUNDS = 7

Ratings = dict[str, dict[str, int]]


def evaluate(products: Path, judgments: Path, progress: Callable[[str], None]) -> dict[str, float | int | None]:
    """The figures that `tollhouse evaluate search` prints; None if no product is rated above 0.

    Means are over queries with a product rated above 0. Times are for the first page of ten, in microseconds. Lines
    that are not a product are reported to `progress` and counted as `malformed`.
    """
    rated = read_ratings(judgments)
    items, malformed = read_products(products, progress)
    engine = TantivyEngine(PRODUCTS)
    started = perf_counter()
    engine.put(items)
    engine.publish()
    seconds = perf_counter() - started
    progress(f"{len(engine)} products indexed, {len(rated)} queries rated")
    scored = [
        scores([item["id"] for item in engine.find(CatalogueQuery(text=text, limit=DEPTH)).items], ratings)
        for text, ratings in rated.items()
        if max(ratings.values()) > 0
    ]
    p50, p99 = _micros(engine, list(rated))
    names = ("ndcg10", "ndcg10_condensed", "judged10", "recall100")
    return {
        **{name: _mean([score[at] for score in scored]) for at, name in enumerate(names)},
        "p50_us": p50,
        "p99_us": p99,
        "index_s": round(seconds, 3),
        "queries": len(scored),
        "products": len(engine),
        "malformed": malformed,
    }


def scores(ranked: Sequence[str], ratings: Mapping[str, int]) -> tuple[float, float, float, float]:
    """nDCG@10, the same over rated products alone, the share of the first ten that is rated, and recall@100."""
    condensed = [identity for identity in ranked if identity in ratings]
    relevant = {identity for identity, rating in ratings.items() if rating > 0}
    first = ranked[:10]
    judged = sum(identity in ratings for identity in first) / len(first) if first else 0.0
    recall = len(relevant.intersection(ranked[:DEPTH])) / len(relevant) if relevant else 0.0
    return ndcg(ranked, ratings), ndcg(condensed, ratings), judged, recall


def ndcg(ranked: Sequence[str], ratings: Mapping[str, int]) -> float:
    """nDCG@10 in 0..1; 0 if nothing is rated above 0."""
    ideal = _gained(sorted(ratings.values(), reverse=True))
    return _gained([ratings.get(identity, 0) for identity in ranked]) / ideal if ideal else 0.0


def _gained(ratings: Sequence[int]) -> float:
    return sum((2.0**rating - 1) / math.log2(rank + 1) for rank, rating in enumerate(ratings[:10], 1))


def _micros(engine: TantivyEngine, texts: Sequence[str]) -> tuple[int | None, int | None]:
    """The median and the 99th percentile over queries. A query's time is the shortest of its rounds."""
    taken: dict[str, list[float]] = {text: [] for text in texts}
    for _ in range(ROUNDS):
        engine.publish()
        for text in texts:
            started = perf_counter()
            engine.find(CatalogueQuery(text=text, limit=10))
            taken[text].append(perf_counter() - started)
    ranked = sorted(min(each) for each in taken.values())
    if not ranked:
        return None, None
    return round(ranked[len(ranked) // 2] * 1e6), round(ranked[math.ceil(len(ranked) * 0.99) - 1] * 1e6)


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def read_ratings(path: Path) -> Ratings:
    """Ratings by query and product. Raises ValueError if a column is missing."""
    rated: Ratings = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if not {"query", "product_id", "rating"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path.name}: the columns must be query, product_id and rating")
        for row in rows:
            rated[row["query"]][row["product_id"]] = int(row["rating"])
    return rated


def read_products(path: Path, progress: Callable[[str], None]) -> tuple[list[Item], int]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    items: list[Item] = []
    malformed = 0
    with opened(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                items.append(_item(json.loads(line)))
            except (ValueError, msgspec.MsgspecError, RecursionError) as error:
                malformed += 1
                progress(f"{path.name}, line {number}: skipped, {error}")
    return items, malformed


def _item(read: Any) -> Item:
    """The members in the schema, without empty texts. Numeric ids become text."""
    if not isinstance(read, dict):
        raise ValueError("is not an object")  # noqa: TRY004 - reported like any other malformed line
    known = {field.name for field in PRODUCTS.fields}
    item = {name: value for name, value in read.items() if name in known and value not in ("", None)}
    return prepare_item(PRODUCTS, {**item, "id": str(read.get("id", ""))})
