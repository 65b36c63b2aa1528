"""`tollhouse import` as an operator uses it."""

import json
from typing import Any

import pytest

from tests.catalogue.importers.feeding import FEEDS, mattress, shopify
from tests.catalogue.importers.test_fetching import shop
from tests.fakes.website import background_website
from tests.journeys.server import run


@pytest.fixture
def imported(tmp_path):
    def command(
        source: object, *options: object, service: str = "mattress", **settings: object
    ) -> tuple[int, Any, str]:
        done = run("import", service, source, "--retailer", "dunlin", *options, "--data-dir", tmp_path / "data",
                   cwd=tmp_path, **settings)  # fmt: skip
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    return command


def test_report_is_one_json_object_and_refused_rows_exit_3(imported):
    code, report, progress = imported(FEEDS / "shopify.json", "--format", "shopify")
    assert code == 3
    assert {name: report[name] for name in ("service", "retailer", "format", "rows", "created", "unchanged")} == {
        "service": "mattress", "retailer": "dunlin", "format": "shopify", "rows": 5, "created": 3, "unchanged": 0,
    }  # fmt: skip
    assert [(each["line"], each["reason"]) for each in report["refused"]] == [
        (1, "the price must be above zero, not -5.00"),
        (3, "has no title"),
    ]
    assert "5 rows read" in progress


def test_good_file_exits_0_and_an_unreadable_one_1(imported, tmp_path):
    feed = tmp_path / "feed.json"
    feed.write_text(shopify(mattress(1), mattress(2), mattress(3)), "utf-8")
    assert imported(feed, "--format", "shopify")[0] == 0
    assert imported(feed, "--format", "merchant-xml")[:2] == (1, None)
    assert imported(tmp_path / "none.json", "--format", "shopify")[:2] == (1, None)
    assert imported(feed, "--format", "shopify", service="defense")[:2] == (1, None)
    feed.write_text(shopify(mattress(1)), "utf-8")
    code, report, progress = imported(feed, "--format", "shopify")
    assert (code, report["landed"], "2 of 3" in progress) == (1, False, True)
    code, report, _ = imported(feed, "--format", "shopify", "--allow-shrink")
    assert (code, report["removed"]) == (0, 2)


def test_strict_and_mapping_are_options(imported):
    options = ("--format", "jsonl", "--mapping", FEEDS / "knot.toml")
    code, report, _ = imported(FEEDS / "products.jsonl", *options, "--strict")
    assert (code, report["landed"], report["created"]) == (3, False, 0)
    code, report, _ = imported(FEEDS / "products.jsonl", *options, "--partial")
    assert (code, report["created"]) == (3, 3)


def test_shop_on_the_network_is_imported_page_by_page(imported):
    with background_website(shop()) as site:
        code, report, progress = imported(site.url, "--format", "shopify", webhook_allow_loopback="true")
        assert (code, report["created"]) == (0, 7)
        assert progress.count("fetching") == 4
        assert imported(site.url, "--format", "shopify")[0] == 1
