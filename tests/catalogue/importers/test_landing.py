"""Imports into a real database: what changes, the events, and that an import is all or nothing."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.catalogue.importers.feeding import FEEDS, mattress, shopify
from tests.catalogue.importers.test_traps import FILES
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_command import ImportOptions, import_feed
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate

COUNTS = ("rows", "created", "changed", "price_changed", "removed", "unchanged")


class Shop:
    """One retailer's catalogue, as the command imports into it."""

    def __init__(self, settings: Settings, database: Database, folder: Path) -> None:
        self.settings, self.database, self.folder = settings, database, folder
        self.progress: list[str] = []
        self.rows: list[tuple[str, int, int]] = []

    async def take(self, feed, format_name="shopify", **options: Any):
        """Import text, or a fixture."""
        path = feed
        if isinstance(feed, str):
            path = self.folder / "feed"
            path.write_text(feed, "utf-8")
        return await import_feed(
            self.settings, self.database, self.progress.append, str(path),
            ImportOptions(format_name=format_name, retailer_id="dunlin", **options),
            on_rows=lambda *rows: self.rows.append(rows),
        )  # fmt: skip

    async def counts(self, feed, **options: Any):
        report = await self.take(feed, **options)
        return {name: report[name] for name in COUNTS if report[name]}

    async def products(self):
        catalogue = open_catalogue(self.database)
        async with self.database.reading() as connection:
            products = {item["id"]: item async for item in catalogue.stored(connection)}
        catalogue.close()
        return products

    async def events(self):
        async with self.database.reading() as connection:
            rows = await connection.execute(
                text("SELECT type, subject_id FROM webhook_event ORDER BY type, subject_id")
            )
            return [tuple(row) for row in rows]


@pytest.fixture
async def shop(database_url, tmp_path):
    settings = Settings(database_url=database_url, data_dir=str(tmp_path))
    database = open_database(settings)
    await migrate(database)
    yield Shop(settings, database, tmp_path)
    await database.close()


@pytest.mark.parametrize("format_name", FILES)
async def test_every_format_is_imported_and_a_second_time_changes_nothing(shop, format_name):
    options = {"mapping": FEEDS / "knot.toml"} if format_name == "jsonl" else {}
    first = await shop.take(FEEDS / FILES[format_name], format_name, **options)
    assert first["created"] == first["rows"] - len(first["refused"]) > 0
    again = await shop.take(FEEDS / FILES[format_name], format_name, **options)
    assert (again["unchanged"], again["created"] + again["changed"] + again["price_changed"]) == (first["created"], 0)
    assert len(await shop.events()) == first["created"]


async def test_changed_price_sends_one_event(shop):
    await shop.take(shopify(mattress(1), mattress(2)))
    dearer = shopify(mattress(1, price="1099.00"), mattress(2, title="Cloud Two"))
    assert await shop.counts(dearer) == {"rows": 2, "changed": 1, "price_changed": 1}
    assert await shop.counts(dearer) == {"rows": 2, "unchanged": 2}
    assert [event for event in await shop.events() if event[0] == "product.price_changed"] == [
        ("product.price_changed", "dunlin.1-queen")
    ]


async def test_rows_checked_and_written_are_counted_while_they_are(shop, monkeypatch):
    monkeypatch.setattr("tollhouse.services.mattress.import_transaction.BATCH", 2)
    await shop.take(shopify(mattress(1), mattress(2), mattress(3)))
    counted = [("Checking rows", 2, 3), ("Checking rows", 3, 3), ("Writing products", 2, 3), ("Writing products", 3, 3)]
    assert shop.rows == counted


async def test_memory_of_an_import_does_not_grow_with_its_products(shop, monkeypatch):
    monkeypatch.setattr("tollhouse.catalogue.importers.documents.STREAMED_BYTES", 0)
    monkeypatch.setattr("tollhouse.catalogue.importers.documents._CHUNK_BYTES", 40_000)
    monkeypatch.setattr("tollhouse.services.mattress.import_transaction.BATCH", 4)
    peaks = []
    for count in (4, 8, 40):
        feed = shop.folder / "feed.jsonl"
        with feed.open("w") as lines:
            for number in range(count):
                columns = {"id": number, "title": f"Cloud of {count}", "price": 999, "description": "Latex. " * 2_500}
                lines.write(json.dumps(columns) + "\n")
        tracemalloc.start()
        report = await shop.take(feed, "jsonl", currency="AUD")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (report["rows"], report["unchanged"], report["refused"]) == (count, 0, [])
    # The first time, more is loaded than a feed.
    assert peaks[2] < peaks[1] + feed.stat().st_size // 4, peaks


async def test_import_that_is_cut_off_by_its_last_batch_changes_nothing(shop, monkeypatch):
    monkeypatch.setattr("tollhouse.services.mattress.import_transaction.BATCH", 1)
    await shop.take(shopify(*map(mattress, range(1, 5))))
    before = await shop.products(), await shop.events()
    report = await shop.take(shopify(mattress(1, price="5.00"), mattress(9)))
    assert report["reason"] == "3 of 4 products would be removed"
    assert (await shop.products(), await shop.events()) == before
    assert (await shop.counts(shopify(mattress(9)), allow_shrink=True)) == {"rows": 1, "created": 1, "removed": 4}


async def test_products_that_a_full_import_lacks_are_removed_and_a_partial_one_keeps_them(shop):
    await shop.take(shopify(mattress(1), mattress(2), mattress(3)))
    assert await shop.counts(shopify(mattress(1)), is_partial=True) == {"rows": 1, "unchanged": 1}
    assert await shop.counts(shopify(mattress(1), mattress(2))) == {"rows": 2, "unchanged": 2, "removed": 1}
    assert [*await shop.products()] == ["dunlin.1-queen", "dunlin.2-queen"]


async def test_loss_of_more_than_half_lands_only_where_it_is_allowed(shop):
    await shop.take(shopify(*(mattress(number) for number in range(1, 5))))
    report = await shop.take(shopify(mattress(1)))
    assert (report["landed"], report["reason"]) == (False, "3 of 4 products would be removed")
    assert len(await shop.products()) == 4
    assert (await shop.take(shopify(mattress(1)), allow_shrink=True))["removed"] == 3


async def test_refused_row_keeps_its_product_and_strict_lets_nothing_land(shop):
    await shop.take(shopify(mattress(1), mattress(2)))
    feed = shopify(mattress(1, price="-1"), mattress(2, price="5.00"))
    strict = await shop.take(feed, strict=True)
    assert (strict["landed"], strict["price_changed"], len(strict["refused"])) == (False, 0, 1)
    assert await shop.counts(feed) == {"rows": 2, "price_changed": 1}
    assert [item["sale_price"] for item in (await shop.products()).values()] == [999, 5]


async def test_unreadable_file_never_lands(shop):
    await shop.take(shopify(mattress(1)))
    for feed in ("", "{", shopify(mattress(2))[:-1], "[]x"):
        with pytest.raises(UnreadableFeed):
            await shop.take(feed)
    assert [*await shop.products()] == ["dunlin.1-queen"]


async def test_relative_links_lead_to_the_site_option(shop):
    await shop.take(shopify(mattress(1)), site="https://dunlin.example/shop")
    (item,) = (await shop.products()).values()
    assert item["affiliate_url"] == "https://dunlin.example/products/cloud-1?variant=100"
    assert shop.progress[0] == "prices without a currency are taken to be in AUD"


async def test_links_without_a_known_shop_lead_nowhere_and_the_command_warns(shop):
    await shop.take(shopify(mattress(1)))
    (item,) = (await shop.products()).values()
    assert item["affiliate_url"].startswith("https://dunlin.invalid/products/cloud-1")
    assert "--site" in shop.progress[0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"format_name": "shopfy"}, "there is no format 'shopfy'"),
        ({"currency": "USD"}, "converts nothing"),
        ({"site": "dunlin.example"}, "--site must be"),
        ({"mapping": FEEDS / "knot.toml"}, "--mapping is for the formats csv, jsonl, parquet, xlsx"),
    ],
)
async def test_invalid_options_are_refused(shop, options, reason):
    with pytest.raises(ValueError, match=reason):
        await shop.take(shopify(mattress(1)), **options)


async def test_one_price_list_of_two_formats_is_one_set_of_products(shop):
    """A mapping may give a CSV the ids that the shop's own feed has."""
    await shop.take(shopify(mattress(1)))
    feed = json.dumps({"id": "1-queen", "title": "Cloud", "price": 899, "size": "Q", "url": "https://d.example/1"})
    assert await shop.counts(feed, format_name="jsonl") == {"rows": 1, "price_changed": 1}
