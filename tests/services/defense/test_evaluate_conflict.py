"""`evaluate conflict` on an excerpt of real exports: honest about what the model knows, and about bad input."""

import json
import zipfile
from pathlib import Path

import pytest

from tollhouse.services.defense import evaluate_conflict
from tollhouse.services.defense.evaluate_conflict import evaluate
from tollhouse.services.defense.ingest.conflict_model import THRESHOLD

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
    assert answer["threshold"] == THRESHOLD
    assert answer["positives"] == 1


def test_wrong_labels_lower_every_score(tmp_path, said) -> None:
    lies = written(tmp_path, label(SYRIA, "protest"), label(CHURCH, "political_violence"), label(CRASH, "protest"))
    answer = evaluate(lies, [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["f1"]) == (0, 0, 0)
    assert answer["brier"] is not None
    assert answer["brier"] > 0.3


def test_a_url_the_model_was_trained_on_is_judged_without_its_fold(real, said, monkeypatch) -> None:
    monkeypatch.setattr(evaluate_conflict, "battle_probability", lambda _url, _rows: pytest.fail("it knows this URL"))
    assert evaluate(real, [EXCERPT], said.append)["cross_validated"] == 3


def test_a_url_the_model_never_saw_is_judged_by_the_served_model(tmp_path, said, monkeypatch) -> None:
    new = "https://news.example/two-soldiers-killed-in-rebel-attack"
    export = tmp_path / "new.export.CSV"
    export.write_text(EXCERPT.read_text(encoding="utf-8").replace(SYRIA, new), encoding="utf-8")
    asked = []
    monkeypatch.setattr(evaluate_conflict, "battle_probability", lambda url, _rows: asked.append(url) or 0.9)
    answer = evaluate(written(tmp_path, label(new, "armed_conflict")), [export], said.append)
    assert asked == [new]
    assert answer["brier"] == 0.01
    assert answer["cross_validated"] == 0


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


def test_a_url_without_fighting_rows_is_no_battle(tmp_path, said) -> None:
    calm = "https://news.example/calm"
    export = tmp_path / "calm.export.CSV"
    lines = [line for line in EXCERPT.read_text(encoding="utf-8").splitlines() if line.split("\t")[28] == "02"]
    export.write_text("\n".join(lines).replace(CHURCH, calm), encoding="utf-8")
    answer = evaluate(written(tmp_path, label(calm, "protest")), [export], said.append)
    assert (answer["n"], answer["brier"]) == (1, 0)


def test_nothing_to_judge_gives_no_scores(tmp_path, said) -> None:
    answer = evaluate(written(tmp_path, label("https://n.example/a", "protest")), [EXCERPT], said.append)
    assert (answer["precision"], answer["recall"], answer["brier"], answer["n"]) == (None, None, None, 0)


def test_an_unreadable_export_is_named(real, said, tmp_path) -> None:
    broken = tmp_path / "broken.export.CSV.zip"
    broken.write_bytes(b"PK\x03\x04 but no archive")
    with pytest.raises(ValueError, match=r"broken\.export"):
        evaluate(real, [broken], said.append)
