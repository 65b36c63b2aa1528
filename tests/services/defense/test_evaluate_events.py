"""`tollhouse evaluate events` scores the served resolver on labelled reports."""

import json
from pathlib import Path

import pytest

from tests.services.defense.test_resolver import OTHERS, STRIKE
from tollhouse.services.defense.evaluation import evaluate_events as evaluate

# Rows of seven URLs from exports of The GDELT Project (https://www.gdeltproject.org), 2019 and 2020.
EXCERPT = Path(__file__).parents[2] / "data" / "gdelt_conflict_excerpt.export.CSV"
CHURCH = "https://www.wthr.com/article/gunman-opens-fire-church-wedding-ceremony-new-hampshire-2-people-shot"
CRASH = "https://www.channelnewsasia.com/news/singapore/car-crash-into-kent-road-minor-injuries-12032090"


def line(name: str, event: str | None, title: str, published: str = "2026-03-02T12:00:00") -> str:
    return json.dumps({"url": f"https://{name}.example/", "event": event, "title": title, "published": published})


def test_events_told_apart_score_one(tmp_path):
    path = tmp_path / "gold.jsonl"
    lines = [line(f"strike{n}", "strike", title) for n, title in enumerate(STRIKE)]
    lines += [line(f"other{n}", str(n), title, "2026-03-02") for n, title in enumerate(OTHERS)]
    path.write_text("\n".join(lines))
    result = evaluate(path, [], print)
    assert (result["b3_f1"], result["b3_precision"], result["b3_recall"]) == (1.0, 1.0, 1.0)
    assert (result["pair_precision"], result["pair_recall"]) == (1.0, 1.0)
    assert (result["articles"], result["events"], result["not_found"]) == (24, 21, 0)


def test_a_report_without_an_event_is_scored_as_one_of_its_own(tmp_path):
    path = tmp_path / "gold.jsonl"
    lines = [line(f"strike{n}", None, title) for n, title in enumerate(STRIKE)]
    path.write_text("\n".join(lines))
    result = evaluate(path, [], print)
    assert (result["b3_precision"], result["b3_recall"], result["events"]) == (pytest.approx(1 / 4), 1.0, 0)
    assert (result["with_event_b3_f1"], result["pair_recall"]) == (None, None)


def test_lines_without_time_and_malformed_lines_are_counted(tmp_path):
    path = tmp_path / "gold.jsonl"
    path.write_text("\n".join([line("a", "1", STRIKE[0]), line("b", "1", STRIKE[1], ""), "{", '{"event": "1"}', ""]))
    messages: list[str] = []
    result = evaluate(path, [], messages.append)
    assert (result["articles"], result["not_found"], result["malformed"]) == (1, 1, 2)
    assert [message.split(": ")[0] for message in messages[:2]] == [f"gold.jsonl, line {n}" for n in (3, 4)]


def test_only_labelled_urls_are_scored_but_all_of_the_exports_are_resolved(tmp_path):
    path = tmp_path / "gold.jsonl"
    lines = [json.dumps({"url": url, "event": event}) for url, event in ((CHURCH, "shooting"), (CRASH, None))]
    path.write_text("\n".join([*lines, json.dumps({"url": "https://unknown.example/", "event": "unknown"})]))
    result = evaluate(path, [EXCERPT], print)
    assert (result["articles"], result["events"], result["b3_f1"], result["not_found"]) == (2, 1, 1.0, 1)
    assert (result["resolved_articles"], result["resolved_events"]) == (7, 7)
