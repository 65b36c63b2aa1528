"""Train the battle classifier from labelled URLs and the GDELT exports that contain them.

Usage: PYTHONPATH=src:. python -m tools.train_conflict EXPORT… (raw or zipped export files; the labels name them)
Rewrites src/tollhouse/services/defense/data/conflict_model.json; the same input gives the same file.

The labels come from few days, so each weight is pulled towards what general knowledge expects (PRIORS) instead of
towards zero: a maximum a posteriori estimate with a Gaussian prior, computed by Newton's method.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec
from msgspec import Struct

from tollhouse.services.defense.evaluate_conflict import Labelled, read_labels, rows_by_url, scores
from tollhouse.services.defense.ingest.classification import cameo_category
from tollhouse.services.defense.ingest.conflict_model import (
    FIGHT_ROOTS,
    NAMES,
    Agreement,
    ConflictModel,
    Weights,
    features,
    probability,
    url_key,
    word_evidence,
)
from tollhouse.services.defense.ingest.export_parser import Row

LABELS = Path(__file__).parent / "data"
MODEL = Path(__file__).parents[1] / "src/tollhouse/services/defense/data/conflict_model.json"
PROVENANCE: dict[str, str | int] = {
    "events": "The GDELT Project, export files of 24 October 2019 and 13 to 15 November 2020",
    "labels": "conflict_labels.jsonl: 65 URLs of 2019 by one reader, 279 of 2020 read one by one by a language model",
    "category_labels": "category_labels.jsonl, the same model: 111 URLs drawn at random (seed 20201115), 47 by code",
    "labelled_on": "2026-11-21",
    "randomness": "none: the prior's weights start Newton's method, CRC-32 of place or URL draws the folds",
}

FOLDS = 10
# A missed battle costs twice a false alarm, whose severity is capped anyway while its confidence is below a half.
THRESHOLD = round(1 / 3, 4)
# FIPS codes where fights share no story: countries with English-language local news, and no place at all.
_NO_STORY = frozenset({"AS", "CA", "EI", "NZ", "UK", "US", ""})

# The prior's precision: weights are expected within half a unit of their prior (standard deviation 1 / sqrt(4)).
PULL = 4.0
STEPS = 12
# Expected log-odds per unit of a feature; 0 for features that are not listed.
PRIORS: Mapping[str, float] = {
    "words_weapon": 0.6,
    "words_forces": 0.4,
    "words_insurgent": 0.6,
    "words_attack": 0.5,
    "words_killing": 0.4,
    "words_war": 0.5,
    "words_zone": 0.4,
    "words_opinion": -0.9,
    "words_speech": -0.5,
    "words_protest": -0.8,
    "words_crime": -0.6,
    "words_accident": -0.5,
    "words_sport": -0.6,
    "words_culture": -0.6,
    "words_memory": -0.6,
    "words_business": -0.4,
    "words_violent_kinds": 0.4,
    "words_tame_kinds": -0.4,
    "killing_by_mishap_or_crime": -1.2,
    "violent_in_war_country": 0.5,
    "violent_in_anglosphere": -0.8,
    "none_in_war_country": 0.5,
    "place_war": 0.6,
    "place_unrest": 0.3,
    "place_anglosphere": -0.6,
    "actor_war": 0.3,
    "actor_unrest": 0.1,
    "actor_military": 0.3,
    "actor_irregular": 0.8,
    "code_bombing": 0.4,
    "code_artillery": 0.4,
    "code_mass": 0.5,
    "code_assault_only": -0.3,
    "share_of_fights": 1.0,
    "share_of_protests": -1.0,
    "fights_log": 0.2,
    "tone": -0.5,
    "tone_grim": 0.4,
}
# One in nine, as log-odds: how often such a URL is a battle before anything is known about it.
PRIOR_BIAS = -2.0


class LabelledCategory(Struct, frozen=True):
    """The category that a reader gave a URL. `sample` is `random`, or `by_code` if the codes selected the URL."""

    url: str
    category: Literal["Battles", "Protests", "Political", "Economic", "none"]
    file: str
    sample: str


class Example(Struct, frozen=True):
    """A labelled URL for training: its features in the order of NAMES, and the fold of its story."""

    url: str
    values: list[float]
    is_battle: bool
    fold: int


def main(exports: list[Path]) -> None:
    labels, bad = read_labels((LABELS / "conflict_labels.jsonl").read_bytes().splitlines())
    if bad:
        raise SystemExit(f"conflict_labels.jsonl, line {bad[0].line}: {bad[0].reason}")
    rows = rows_by_url(exports)
    lines = (LABELS / "category_labels.jsonl").read_bytes().splitlines()
    categories = [msgspec.json.decode(line, type=LabelledCategory) for line in lines if line.strip()]
    model = train(labels, rows, count_agreements(categories, rows), PROVENANCE)
    packed = msgspec.json.format(msgspec.json.encode(model), indent=1)
    MODEL.write_bytes(packed + b"\n")
    sys.stderr.write(f"{model.provenance}, threshold {model.threshold}\n")


def train(
    labels: Sequence[Labelled],
    rows: Mapping[str, list[Row]],
    agreements: dict[str, Agreement],
    provenance: dict[str, str | int],
) -> ConflictModel:
    """The model of all labels, with ten cross-validated models; adds their scores to `provenance`."""
    known = examples(labels, rows)
    folds, probabilities = cross_validate(known)
    truth = [example.is_battle for example in known]
    scored = {f"cross_validated_{name}": score for name, score in scores(probabilities, truth, THRESHOLD).items()}
    return ConflictModel(
        provenance={**provenance, "urls": len(known), "battles": sum(truth), **scored},
        threshold=THRESHOLD,
        names=NAMES,
        weights=_rounded(fit(known)),
        folds=[_rounded(weights) for weights in folds],
        fold_of={url_key(example.url): example.fold for example in known},
        agreements=agreements,
    )


def examples(labels: Iterable[Labelled], rows: Mapping[str, list[Row]]) -> list[Example]:
    """The labels whose URL has a fighting row, in the labels' order."""
    return [
        Example(label.url, features(label.url, rows[label.url]), label.is_battle, fold(label.url, rows[label.url]))
        for label in labels
        if any(row.root_code in FIGHT_ROOTS for row in rows.get(label.url, ()))
    ]


def fold(url: str, rows: Sequence[Row]) -> int:
    """The fold that holds a URL out: all fights located in one country share one, so that no story is split.

    English-language local news shares no story, so there, and without a place, the URL decides.
    """
    places = Counter(row.geo_country for row in rows if row.root_code in FIGHT_ROOTS)
    place = min(places, key=lambda country: (-places[country], country))
    return crc32((url if place in _NO_STORY else place).encode()) % FOLDS


def cross_validate(known: Sequence[Example]) -> tuple[list[Weights], list[float]]:
    """The weights trained without each fold, and every example's probability by the weights of its fold."""
    folds = [fit([example for example in known if example.fold != held_out]) for held_out in range(FOLDS)]
    return folds, [probability(folds[example.fold], example.values) for example in known]


def count_agreements(labels: Iterable[LabelledCategory], rows: Mapping[str, list[Row]]) -> dict[str, Agreement]:
    """How often labels agree with the codes, by category and by word evidence, for the labelled URLs with rows."""
    n: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for label in labels:
        if label.url in rows:
            coded = coded_category(rows[label.url])
            for key in (coded, word_evidence(coded, label.url)):
                n[key] += 1
                right[key] += label.category == coded
    return {key: Agreement(n[key], right[key]) for key in sorted(n)}


def coded_category(rows: Sequence[Row]) -> str:
    """The category of the non-violent code with most mentions; root events count double, as in `classification`."""
    weights: Counter[str] = Counter()
    for row in rows:
        if cameo_category(row.code):
            weights[row.code] += row.mentions * (1 + row.is_root)
    heaviest = max(weights, key=lambda code: (weights[code], code))
    return cameo_category(heaviest) or "Political"


def fit(known: Sequence[Example], pull: float = PULL) -> Weights:
    """The maximum a posteriori weights. Newton's method converges in under ten steps from the prior."""
    prior = [PRIORS.get(name, 0.0) for name in NAMES]
    # The constant is nearly free: the labels know best how common battles are.
    pulls = [pull] * len(prior) + [0.01]
    centre = [*prior, PRIOR_BIAS]
    weights = list(centre)
    for _ in range(STEPS):
        gradient, curvature = _derivatives(known, weights, centre, pulls)
        weights = [weight - step for weight, step in zip(weights, _solve(curvature, gradient), strict=True)]
    return Weights(weights[-1], weights[:-1])


def _derivatives(
    known: Sequence[Example], weights: list[float], centre: list[float], pulls: list[float]
) -> tuple[list[float], list[list[float]]]:
    """Gradient and lower half of the Hessian of the negative log posterior."""
    size = len(weights)
    gradient = [pull * (weight - middle) for pull, weight, middle in zip(pulls, weights, centre, strict=True)]
    curvature = [[0.0] * size for _ in range(size)]
    for at, pull in enumerate(pulls):
        curvature[at][at] = pull
    now = Weights(weights[-1], weights[:-1])
    for example in known:
        predicted = probability(now, example.values)
        # Most features are 0 and change nothing.
        present = [(at, value) for at, value in enumerate([*example.values, 1.0]) if value]
        for at, value in present:
            gradient[at] += (predicted - example.is_battle) * value
            row, scale = curvature[at], predicted * (1 - predicted) * value
            for other, other_value in present:
                if other > at:
                    break
                row[other] += scale * other_value
    return gradient, curvature


def _solve(lower: list[list[float]], right: list[float]) -> list[float]:
    """Solve a linear system whose positive definite matrix is given by its lower half (Cholesky)."""
    size = len(right)
    root = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = lower[i][j] - sum(map(mul, root[i][:j], root[j][:j]))
            root[i][j] = rest**0.5 if i == j else rest / root[j][j]
    middle: list[float] = []
    for i in range(size):
        middle.append((right[i] - sum(map(mul, root[i][:i], middle))) / root[i][i])
    solution = [0.0] * size
    for i in reversed(range(size)):
        solution[i] = (middle[i] - sum(root[k][i] * solution[k] for k in range(i + 1, size))) / root[i][i]
    return solution


def _rounded(weights: Weights) -> Weights:
    # Four decimals move no probability by more than 0.001, and keep the file readable.
    return Weights(round(weights.bias, 4), [round(value, 4) for value in weights.values])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main([Path(argument) for argument in sys.argv[1:]])
