"""What the battle classifier has learnt, as its file holds it, and how weights and features make a probability."""

from collections.abc import Sequence
from math import exp
from operator import mul
from zlib import crc32

import msgspec
from msgspec import Struct

from tollhouse.services.defense.ingest.category_agreement import Agreement
from tollhouse.services.defense.ingest.conflict_features import NAMES


class Weights(Struct, frozen=True):
    """Log-odds per unit of each feature, in the order of NAMES."""

    bias: float
    values: list[float]


class ConflictModel(Struct, frozen=True):
    """Logistic regression over the features called `names`.

    `folds` are the weights learnt without that fold's URLs, and `fold_of` the fold of every URL trained on, keyed by
    `url_key`, so that known URLs can be judged honestly. `provenance` says what the model was made from.
    """

    provenance: dict[str, str | int | float | None]
    threshold: float
    names: tuple[str, ...]
    weights: Weights
    folds: list[Weights]
    fold_of: dict[str, int]
    agreements: dict[str, Agreement]


def read_model(packed: bytes) -> ConflictModel:
    """The model of a JSON file; ValueError where its features are not those that this code computes."""
    model = msgspec.json.decode(packed, type=ConflictModel)
    if model.names != NAMES:
        raise ValueError("the conflict model was trained on other features; run tools/train_conflict.py")
    return model


def probability(weights: Weights, values: Sequence[float]) -> float:
    """Logistic regression's answer, 0..1, for a URL's features in the order of NAMES."""
    score = weights.bias + sum(map(mul, weights.values, values))
    # Beyond 700 exp overflows, and the answer is 0 or 1 long before.
    return 1 / (1 + exp(-max(-700.0, min(700.0, score))))


def url_key(url: str) -> str:
    """Eight hexadecimal digits that stand for a URL in the model's file."""
    return f"{crc32(url.encode()):08x}"
