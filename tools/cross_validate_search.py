"""Cross-validate the numbers by which accessories are ranked behind products, over rated queries.

Usage: PYTHONPATH=src python -m tools.cross_validate_search PRODUCTS JUDGMENTS
The queries are split into five parts at random. The numbers that are best on four parts rank the queries of the fifth,
so that each query is ranked by numbers chosen without it; repeated with other splits. Prints the mean over queries of
nDCG@10 and of condensed nDCG@10: with nothing reordered, with each setting, and cross-validated.
"""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tollhouse.catalogue import evaluate_search, reranking
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.search_engine import TantivyEngine

_LOSSES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
_COMMON_SHARES = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
_FOLDS = 5
_SPLITS = 20

# Per query: nDCG@10 and condensed nDCG@10.
Scores = NDArray[np.float64]


def main(products: Path, judgments: Path) -> None:
    items, _ = evaluate_search.read_products(products, print)
    engine = TantivyEngine(evaluate_search.PRODUCTS)
    engine.put(items)
    engine.publish()
    rated = {text: each for text, each in evaluate_search.read_ratings(judgments).items() if max(each.values()) > 0}
    settings = list(product(_LOSSES, _COMMON_SHARES))
    table = np.array([_scores(engine, rated, *setting) for setting in settings])
    for setting, scores in zip(settings, table, strict=True):
        print("loss {:.2f}, common share {:.2f}:".format(*setting), scores.mean(axis=0).round(4))
    splits = np.array([scores.mean(axis=0) for scores in _cross_validated(table)])
    print("nothing reordered:", table[0].mean(axis=0).round(4))
    print("cross-validated:", splits.mean(axis=0).round(4), "standard deviation", splits.std(axis=0).round(4))


def _scores(engine: TantivyEngine, rated: evaluate_search.Ratings, loss: float, common_share: float) -> Scores:
    reranking.ACCESSORY_LOSS, reranking.COMMON_SHARE = loss, common_share
    ranked = [[item["id"] for item in engine.find(CatalogueQuery(text=text, limit=100)).items] for text in rated]
    return np.array([evaluate_search.scores(ids, each)[:2] for ids, each in zip(ranked, rated.values(), strict=True)])


def _cross_validated(table: NDArray[np.float64]) -> Iterator[Scores]:
    """For each split, the scores of every query under the setting with the best mean nDCG@10 on the other parts."""
    queries = table.shape[1]
    for seed in range(_SPLITS):
        folds = np.random.default_rng(seed).permutation(queries) % _FOLDS
        scores = np.empty(table.shape[1:])
        for fold in range(_FOLDS):
            best = table[:, folds != fold, 0].mean(axis=1).argmax()
            scores[folds == fold] = table[best, folds == fold]
        yield scores


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
