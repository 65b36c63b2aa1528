"""`tollhouse evaluate search` scores the served engine on rated queries."""

import csv
import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tollhouse.catalogue.evaluate_search import evaluate, ndcg, scores

PRODUCTS = [
    {"id": "1", "title": "Laptop sleeve", "brand": "Acme", "description": "For laptops", "price": 20, "model": "S1"},
    {"id": "2", "title": "Laptop", "brand": "Acme", "description": "", "attributes": "type notebook", "price": 900.5},
    {"id": 3, "title": "Laser printer", "brand": "", "description": "Prints", "price": None, "colour": "grey"},
]
RATINGS = [("laptop", "2", 3), ("laptop", "1", 1), ("printer", "3", 2), ("unrated words", "1", 0)]


def written(folder, products=PRODUCTS, ratings=RATINGS, *, name="products.jsonl"):
    lines = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in products)
    path = folder / name
    path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    judged = folder / "judgments.csv"
    with judged.open("w", newline="") as file:
        csv.writer(file).writerows([("query", "product_id", "rating"), *ratings])
    return path, judged


def test_gain_is_exponential_and_discounted_by_rank():
    ratings = {"a": 3, "b": 1, "c": 0}
    ideal = 7 + 1 / math.log2(3)
    assert ndcg(["a", "b", "c"], ratings) == 1
    assert ndcg(["b", "a"], ratings) == pytest.approx((1 + 7 / math.log2(3)) / ideal)
    assert ndcg(["x", "a"], ratings) == pytest.approx(7 / math.log2(3) / ideal)
    assert ndcg(["x"] * 10 + ["a"], ratings) == 0
    assert ndcg(["a"], {"a": 0}) == 0


def test_unrated_products_are_passed_over_only_when_condensed():
    ndcg10, condensed, judged, recall = scores(["x", "a"], {"a": 2, "b": 1})
    assert ndcg10 < condensed < 1
    assert (judged, recall) == (0.5, 0.5)


@pytest.mark.parametrize("name", ["products.jsonl", "products.jsonl.gz"])
def test_perfect_ranking_scores_one(tmp_path, name):
    said = evaluate(*written(tmp_path, name=name), print)
    assert (said["ndcg10"], said["ndcg10_condensed"], said["judged10"], said["recall100"]) == (1, 1, 1, 1)
    assert (said["queries"], said["products"], said["malformed"]) == (2, 3, 0)
    assert said["p99_us"] >= said["p50_us"] > 0
    assert said["index_s"] > 0


def test_malformed_products_are_reported_and_skipped(tmp_path):
    reported = []
    said = evaluate(*written(tmp_path, ["{", "7", '{"title": "x"}', *PRODUCTS]), reported.append)
    assert (said["products"], said["malformed"]) == (3, 3)
    assert [line.split(": ")[0] for line in reported[:3]] == [f"products.jsonl, line {n}" for n in (1, 2, 3)]


def test_unrated_queries_have_no_score(tmp_path):
    said = evaluate(*written(tmp_path, ratings=[]), print)
    assert (said["ndcg10"], said["p50_us"], said["queries"]) == (None, None, 0)


def test_judgments_of_another_form_are_refused(tmp_path):
    products, judged = written(tmp_path)
    judged.write_text("q,p,r\n")
    with pytest.raises(ValueError, match="query, product_id and rating"):
        evaluate(products, judged, print)


def test_command_prints_one_object(tmp_path):
    command = [Path(sys.executable).parent / "tollhouse", "evaluate", "search", *written(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert {"ndcg10", "ndcg10_condensed", "judged10", "recall100", "p50_us", "p99_us", "index_s"} <= set(said)
    assert "3 products indexed" in done.stderr
