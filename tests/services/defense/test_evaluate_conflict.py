"""`evaluate conflict` and `evaluate relevance` on an excerpt of real exports, and on bad input."""

import json
import zipfile
from pathlib import Path

import pytest

from tollhouse.services.defense.evaluation import evaluate_conflict as evaluate
from tollhouse.services.defense.evaluation import evaluate_relevance
from tollhouse.services.defense.events.classifier import model

# Rows of seven URLs from exports of The GDELT Project (https://www.gdeltproject.org), 2019 and 2020.
EXCERPT = Path(__file__).parents[2] / "data" / "gdelt_conflict_excerpt.export.CSV"
SYRIA = (
    "https://www.reuters.com/article/us-syria-security-turkey/"
    "five-turkish-military-personnel-wounded-in-syria-after-kurdish-militia-attack-ministry-idUSKBN1X31W0"
)
CHURCH = "https://www.wthr.com/article/gunman-opens-fire-church-wedding-ceremony-new-hampshire-2-people-shot"
CRASH = "https://www.channelnewsasia.com/news/singapore/car-crash-into-kent-road-minor-injuries-12032090"


def written(folder: Path, *lines: object) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def label(url: str, label: str) -> dict[str, str]:
    return {"url": url, "label": label}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def real(tmp_path) -> Path:
    return written(
        tmp_path,
        label(SYRIA, "armed_conflict"),
        label(CHURCH, "crime_accident_or_unrelated"),
        label(CRASH, "crime_accident_or_unrelated"),
    )


def test_right_answers_score_one(real, said) -> None:
    answer = evaluate(real, [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["f1"], answer["n"]) == (1, 1, 1, 3)
    assert answer["brier"] is not None
    assert 0 < answer["brier"] < 0.1
    assert answer["threshold"] == model().thresholds["Battles"]
    assert answer["positives"] == 1


def test_wrong_labels_lower_every_score(tmp_path, said) -> None:
    lies = written(tmp_path, label(SYRIA, "protest"), label(CHURCH, "political_violence"), label(CRASH, "protest"))
    answer = evaluate(lies, [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["f1"]) == (0, 0, 0)
    assert answer["brier"] is not None
    assert answer["brier"] > 0.3


def test_a_zipped_export_answers_the_same(real, said, tmp_path) -> None:
    zipped = tmp_path / "a.export.CSV.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.export.CSV", EXCERPT.read_bytes())
    assert evaluate(real, [zipped], said.append) == evaluate(real, [EXCERPT], said.append)


def test_the_same_export_twice_changes_nothing(real, said) -> None:
    assert evaluate(real, [EXCERPT, EXCERPT], said.append) == evaluate(real, [EXCERPT], said.append)


def test_malformed_lines_are_counted_and_named(tmp_path, said) -> None:
    labels = written(
        tmp_path,
        label(SYRIA, "armed_conflict"),
        "{not json",
        "",
        label(CRASH, "battle"),
        {"label": "protest"},
    )
    answer = evaluate(labels, [EXCERPT], said.append)
    assert (answer["n"], answer["malformed"]) == (1, 3)
    assert [line.split(":")[0] for line in said[:3]] == [f"labels.jsonl, line {number}" for number in (2, 4, 5)]


def test_labels_of_urls_in_no_export_are_counted_apart(tmp_path, said) -> None:
    labels = written(tmp_path, label(SYRIA, "armed_conflict"), label("https://n.example/unknown", "armed_conflict"))
    answer = evaluate(labels, [EXCERPT], said.append)
    assert (answer["n"], answer["not_found"], answer["recall"]) == (1, 1, 1)


def test_crime_counts_as_no_battle(tmp_path, said) -> None:
    answer = evaluate(written(tmp_path, label(CHURCH, "crime_accident_or_unrelated")), [EXCERPT], said.append)
    assert (answer["n"], answer["precision"]) == (1, None)
    assert answer["brier"] is not None
    assert answer["brier"] < 0.1


def test_nothing_to_judge_gives_no_scores(tmp_path, said) -> None:
    answer = evaluate(written(tmp_path, label("https://n.example/a", "protest")), [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["brier"], answer["n"]) == (None, None, None, 0)


def test_an_unreadable_export_is_named(real, said, tmp_path) -> None:
    broken = tmp_path / "broken.export.CSV.zip"
    broken.write_bytes(b"PK\x03\x04 but no archive")
    with pytest.raises(ValueError, match=r"broken\.export"):
        evaluate(real, [broken], said.append)


def judged(url: str, *, relevant: bool, title: str = "") -> dict[str, object]:
    return {"url": url, "relevant": relevant, **({"title": title} if title else {})}


def test_relevance_is_measured_at_the_threshold_that_serves(tmp_path, said) -> None:
    gold = written(tmp_path, judged(SYRIA, relevant=True), judged(CHURCH, relevant=False), judged(CRASH, relevant=True))
    answer = evaluate_relevance(gold, [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["n"], answer["served"]) == (1, 0.5, 3, 1)


def test_title_in_the_label_needs_no_export(tmp_path, said) -> None:
    page = "https://n.example/1"
    gold = written(
        tmp_path,
        judged(page, relevant=True, title="Parliament votes on the defence budget"),
        judged("https://n.example/2", relevant=True),
        "{broken",
    )
    answer = evaluate_relevance(gold, [], said.append)
    assert (answer["precision"], answer["recall"], answer["n"]) == (1, 1, 1)
    assert (answer["not_found"], answer["malformed"]) == (1, 1)


def test_url_without_words_is_not_served(tmp_path, said) -> None:
    export = tmp_path / "ids.export.CSV"
    export.write_text(EXCERPT.read_text(encoding="utf-8").replace(SYRIA, "https://n.example/a/123456"), "utf-8")
    gold = written(tmp_path, judged("https://n.example/a/123456", relevant=True))
    answer = evaluate_relevance(gold, [export], said.append)
    assert (answer["precision"], answer["recall"], answer["served"]) == (None, 0, 0)
