"""What the battle classifier learns, and that nothing it is judged on has taught it."""

import random
from math import log
from pathlib import Path

import msgspec
import pytest

from tollhouse.services.defense.evaluate_conflict import Labelled, read_labels, rows_by_url, scores
from tollhouse.services.defense.ingest.conflict_model import MODEL, NAMES, Weights, probability, url_key
from tollhouse.services.defense.ingest.export_parser import Row
from tools.train_conflict import (
    FOLDS,
    LABELS,
    PRIOR_BIAS,
    PRIORS,
    PULL,
    Example,
    cross_validate,
    examples,
    fit,
    fold,
    train,
)

# Rows of seven URLs from exports of The GDELT Project (https://www.gdeltproject.org), 2019 and 2020.
EXCERPT = Path(__file__).parents[2] / "data" / "gdelt_conflict_excerpt.export.CSV"


@pytest.fixture
def rows_of() -> dict[str, list[Row]]:
    return rows_by_url([EXCERPT])


@pytest.fixture
def bundled() -> list[Labelled]:
    return read_labels((LABELS / "conflict_labels.jsonl").read_bytes().splitlines())[0]


def drawn(count: int, tells: str) -> list[Example]:
    """Random examples whose truth is one feature, mostly."""
    chance = random.Random(7)
    made = []
    for number in range(count):
        values = [float(chance.random() < 0.3) for _ in NAMES]
        is_battle = bool(values[NAMES.index(tells)]) != (chance.random() < 0.1)
        made.append(Example(f"https://n.example/{number}", values, is_battle, number % FOLDS))
    return made


def test_training_finds_the_feature_that_tells() -> None:
    learnt = dict(zip(NAMES, fit(drawn(300, tells="actor_spy")).values, strict=True))
    assert max(learnt, key=lambda name: learnt[name] - PRIORS.get(name, 0)) == "actor_spy"
    assert learnt["actor_spy"] > 1


def test_without_labels_the_weights_are_the_prior() -> None:
    learnt = fit([])
    assert learnt.bias == pytest.approx(PRIOR_BIAS)
    assert learnt.values == pytest.approx([PRIORS.get(name, 0.0) for name in NAMES])


def test_every_prior_belongs_to_a_feature() -> None:
    assert set(PRIORS) <= set(NAMES)


def test_no_other_weights_explain_the_labels_better() -> None:
    known = drawn(80, tells="place_war")
    best = fit(known)
    chance = random.Random(3)
    for _ in range(50):
        nudged = Weights(best.bias, [value + chance.gauss(0, 0.02) for value in best.values])
        assert _cost(nudged, known) > _cost(best, known)


def _cost(weights: Weights, known: list[Example]) -> float:
    """Negative log posterior, written without the training's own gradient."""
    said = [probability(weights, example.values) for example in known]
    surprise = -sum(log(p if example.is_battle else 1 - p) for p, example in zip(said, known, strict=True))
    centre = [PRIORS.get(name, 0.0) for name in NAMES]
    pulled = sum(PULL * (value - middle) ** 2 / 2 for value, middle in zip(weights.values, centre, strict=True))
    return surprise + pulled + 0.01 * (weights.bias - PRIOR_BIAS) ** 2 / 2


def test_a_label_never_teaches_the_weights_that_judge_it() -> None:
    known = drawn(60, tells="actor_war")
    lied = [
        msgspec.structs.replace(example, is_battle=not example.is_battle) if example.fold == 4 else example
        for example in known
    ]
    _, before = cross_validate(known)
    _, after = cross_validate(lied)
    held_out = [number for number, example in enumerate(known) if example.fold == 4]
    assert [before[number] for number in held_out] == [after[number] for number in held_out]
    assert before != after


def test_one_story_is_held_out_together(rows_of: dict[str, list[Row]]) -> None:
    gaza = next(rows for url, rows in rows_of.items() if "hamas" in url)
    assert fold("https://a.example/1", gaza) == fold("https://b.example/2", gaza)


def test_local_news_is_spread_over_the_folds(rows_of: dict[str, list[Row]]) -> None:
    local = next(rows for url, rows in rows_of.items() if "gunman" in url)
    assert len({fold(f"https://a.example/{number}", local) for number in range(100)}) == FOLDS


def test_labels_without_fighting_rows_teach_nothing(rows_of: dict[str, list[Row]]) -> None:
    unseen = Labelled("https://n.example/unseen", "armed_conflict")
    seen = [Labelled(url, "protest") for url in rows_of]
    assert [example.url for example in examples([unseen, *seen], rows_of)] == [label.url for label in seen]


def test_the_same_labels_make_the_same_model(rows_of: dict[str, list[Row]], bundled: list[Labelled]) -> None:
    assert train(bundled, rows_of, {}, {}) == train(bundled, rows_of, {}, {})


def test_the_shipped_model_knows_exactly_the_shipped_labels(bundled: list[Labelled]) -> None:
    assert set(MODEL.fold_of) == {url_key(label.url) for label in bundled}
    assert MODEL.provenance["battles"] == sum(label.is_battle for label in bundled)
    assert len(MODEL.folds) == FOLDS


def test_the_shipped_labels_are_well_formed() -> None:
    labels, bad = read_labels((LABELS / "conflict_labels.jsonl").read_bytes().splitlines())
    assert bad == []
    assert len(labels) > 300


def test_the_shipped_model_reached_its_aim_in_cross_validation() -> None:
    for name in ("precision", "recall"):
        score = MODEL.provenance[f"cross_validated_{name}"]
        assert isinstance(score, float)
        assert score >= 0.6


def test_scores_are_those_of_a_worked_example() -> None:
    assert scores([0.9, 0.8, 0.2, 0.1], [True, False, True, False], 0.5) == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "brier": 0.325,
    }


def test_scores_that_divide_by_nothing_are_unknown() -> None:
    assert scores([0.1], [False], 0.5)["precision"] is None
    assert scores([0.1], [False], 0.5)["recall"] is None
    assert scores([], [], 0.5)["brier"] is None
