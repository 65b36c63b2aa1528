"""`evaluate places` on titles and on an excerpt of a real export."""

import json
from pathlib import Path

from tollhouse.services.defense.evaluation import evaluate_places as evaluate

# Rows of seven URLs from exports of The GDELT Project (https://www.gdeltproject.org), 2019 and 2020.
EXCERPT = Path(__file__).parents[2] / "data" / "gdelt_conflict_excerpt.export.CSV"
CRASH = "https://www.channelnewsasia.com/news/singapore/car-crash-into-kent-road-minor-injuries-12032090"


def written(folder: Path, *lines: dict[str, str | None]) -> Path:
    path = folder / "gold.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def test_titles_alone_can_be_evaluated(tmp_path) -> None:
    gold = written(
        tmp_path,
        {"title": "Bridge collapses in Genoa", "country": "IT"},
        {"title": "Bridge collapses in Genoa", "country": "FR"},
        {"title": "Nothing to see", "country": "FR"},
    )
    answer = evaluate(gold, [], lambda _: None)
    assert (answer["accuracy"], answer["n"], answer["undecided"]) == (0.3333, 3, 1)
    assert answer["provider_accuracy"] is None


def test_exports_add_rows_and_titles_of_urls(tmp_path) -> None:
    answer = evaluate(written(tmp_path, {"url": CRASH, "country": "SG"}), [EXCERPT], lambda _: None)
    assert (answer["accuracy"], answer["with_rows"], answer["accuracy_with_rows"]) == (1.0, 1, 1.0)
    assert answer["provider_accuracy"] is not None


def test_lines_without_a_country_are_not_counted_and_bad_lines_are_named(tmp_path) -> None:
    said: list[str] = []
    gold = written(tmp_path, {"title": "Vote in Oslo", "country": None}, {"country": "NO"})
    answer = evaluate(gold, [], said.append)
    assert (answer["accuracy"], answer["n"], answer["malformed"]) == (None, 0, 1)
    assert "line 2" in said[0]
