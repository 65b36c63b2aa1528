"""How the battle classifier is made: labels and exports in, a judged model out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from zlib import crc32

from tollhouse.services.defense.ingest.category_agreement import Agreement
from tollhouse.services.defense.ingest.conflict_features import FIGHT_ROOTS, NAMES, features
from tollhouse.services.defense.ingest.conflict_labels import Labelled
from tollhouse.services.defense.ingest.conflict_model import ConflictModel, Weights, probability, url_key
from tollhouse.services.defense.ingest.conflict_regression import Example, fit
from tollhouse.services.defense.ingest.conflict_scores import scores
from tollhouse.services.defense.ingest.export_row import Row

FOLDS = 10
# A missed battle costs twice a false alarm, whose severity is capped anyway while its confidence is below a half.
THRESHOLD = round(1 / 3, 4)

# FIPS codes of places whose fights share no story: English-language local news, and no place at all.
_NO_STORY = frozenset({"AS", "CA", "EI", "NZ", "UK", "US", ""})


def train(
    labels: Sequence[Labelled],
    rows_of: Mapping[str, list[Row]],
    agreements: dict[str, Agreement],
    provenance: dict[str, str | int],
) -> ConflictModel:
    """The model of all labels, with its ten cross-validated siblings; `provenance` gains how well those do."""
    known = examples(labels, rows_of)
    folds, said = cross_validate(known)
    truth = [example.is_battle for example in known]
    judged = {f"cross_validated_{name}": score for name, score in scores(said, truth, THRESHOLD).items()}
    return ConflictModel(
        provenance={**provenance, "urls": len(known), "battles": sum(truth), **judged},
        threshold=THRESHOLD,
        names=NAMES,
        weights=_rounded(fit(known)),
        folds=[_rounded(weights) for weights in folds],
        fold_of={url_key(example.url): example.fold for example in known},
        agreements=agreements,
    )


def examples(labels: Sequence[Labelled], rows_of: Mapping[str, list[Row]]) -> list[Example]:
    """The labels whose URL has a fighting row, in the labels' order."""
    fighting = [
        (label, rows_of[label.url])
        for label in labels
        if any(row.root_code in FIGHT_ROOTS for row in rows_of.get(label.url, ()))
    ]
    return [
        Example(label.url, features(label.url, rows), label.is_battle, fold(label.url, rows))
        for label, rows in fighting
    ]


def fold(url: str, rows: Sequence[Row]) -> int:
    """Which tenth a URL is held out with: all fights placed in one country together, so that no story is split.

    English-language local news has no story to share, so there, and without a place, the URL decides.
    """
    places = Counter(row.geo_country for row in rows if row.root_code in FIGHT_ROOTS)
    place = min(places, key=lambda country: (-places[country], country))
    return crc32((url if place in _NO_STORY else place).encode()) % FOLDS


def cross_validate(known: Sequence[Example]) -> tuple[list[Weights], list[float]]:
    """Per fold the weights learnt without it, and for every example what they say of it."""
    folds = [fit([example for example in known if example.fold != held_out]) for held_out in range(FOLDS)]
    return folds, [probability(folds[example.fold], example.values) for example in known]


def _rounded(weights: Weights) -> Weights:
    # Four decimals move no probability by more than 0.001, and the file stays readable.
    return Weights(round(weights.bias, 4), [round(value, 4) for value in weights.values])
