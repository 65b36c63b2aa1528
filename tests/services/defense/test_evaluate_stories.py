"""`tollhouse evaluate stories` scores the served clusterer on labelled articles."""

import json

import pytest

from tollhouse.services.defense.evaluate_stories import bcubed, evaluate


def line(number: int, title: str, cluster: str, **more: object) -> str:
    return json.dumps({"id": str(number), "title": title, "cluster": cluster, "publisher": "P", **more})


TANKER = ["Tanker hit by drone off Hodeidah", "Drone hits tanker off Hodeidah port", "Hodeidah: tanker hit by drone"]
KOVAC = [
    "Minister Kovac resigns in Ruritania",
    "Ruritania minister Kovac resigns",
    "Kovac resigns as Ruritania minister",
]


def test_bcubed_is_the_mean_over_articles():
    precision, recall = bcubed(["a", "a", "a", "b", "b"], ["1", "1", "2", "2", "2"])
    assert precision == pytest.approx((1 + 1 + 1 / 3 + 2 / 3 + 2 / 3) / 5)
    assert recall == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 + 1) / 5)


def test_stories_told_apart_score_one(tmp_path):
    path = tmp_path / "labelled.jsonl"
    lines = [line(n, title, "a") for n, title in enumerate(TANKER)]
    lines += [line(10 + n, title, "b") for n, title in enumerate(KOVAC)]
    path.write_text("\n".join(lines))
    said = evaluate(path, print)
    assert (said["b3_f1"], said["b3_precision"], said["b3_recall"]) == (1.0, 1.0, 1.0)
    assert (said["articles"], said["stories"], said["malformed"]) == (6, 2, 0)
    assert said["articles_per_s"] > 0


def test_malformed_lines_are_told_and_skipped(tmp_path):
    path = tmp_path / "labelled.jsonl"
    good = [line(n, title, "a") for n, title in enumerate(TANKER)]
    bad = ["{", '{"id": 1}', '"text"', line(9, "", "a", ts_ms=10**18), '{"id": "\udcff"}']
    path.write_bytes("\n".join([good[0], *bad, "", good[1], good[2]]).encode(errors="surrogateescape"))
    told: list[str] = []
    said = evaluate(path, told.append)
    assert (said["articles"], said["malformed"]) == (3, 5)
    assert [message.split(": ")[0] for message in told] == [f"labelled.jsonl, line {n}" for n in range(2, 7)]


def test_a_publisher_that_is_nan_is_no_publisher(tmp_path):
    path = tmp_path / "labelled.jsonl"
    path.write_text(line(1, TANKER[0], "a", publisher=float("nan"), text=None))
    assert evaluate(path, print)["articles"] == 1


def test_a_file_without_articles_scores_nothing(tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    said = evaluate(path, print)
    assert (said["b3_f1"], said["articles"], said["articles_per_s"]) == (None, 0, None)


def test_articles_are_streamed_by_time_and_leave_after_the_window(tmp_path):
    day = 86_400_000
    path = tmp_path / "labelled.jsonl"
    lines = [line(n, title, "now", ts_ms=10 * day + n) for n, title in enumerate(TANKER)]
    lines += [line(10 + n, title, "then", ts_ms=day + n) for n, title in enumerate(TANKER)]
    path.write_text("\n".join(lines))
    said = evaluate(path, print)
    assert said["b3_f1"] == 1.0
    assert said["stories"] == 2


def test_the_first_of_two_lines_with_one_id_counts(tmp_path):
    path = tmp_path / "labelled.jsonl"
    path.write_text("\n".join([line(1, TANKER[0], "a"), line(1, KOVAC[0], "b")]))
    assert evaluate(path, print)["articles"] == 1
