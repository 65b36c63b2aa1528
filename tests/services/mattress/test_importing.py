"""A retailer's rows land together: products, prices, events, and what is refused."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from sqlalchemy import select

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.api_types import AttributeSource
from tollhouse.services.mattress.catalogue_view import attribute_sources
from tollhouse.services.mattress.import_rows import ImportedRow
from tollhouse.services.mattress.import_transaction import import_products
from tollhouse.services.mattress.product import Storefront
from tollhouse.services.mattress.retailers import Retailers, load_retailers
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.storage.database import Database, open_database
from tollhouse.storage.migrate import migrate
from tollhouse.webhooks.store import event as webhook_event

SHOP = load_retailers().get("coastal-kip")
OTHER = Retailers([]).get("other-shop")
FRONT = Storefront("https://api.example")


@pytest.fixture
async def house(database_url, tmp_path):
    database = open_database(Settings(data_dir=str(tmp_path), database_url=database_url))
    await migrate(database)
    catalogue = open_catalogue(database)
    try:
        yield House(database, catalogue)
    finally:
        catalogue.close()
        await database.close()


class House:
    def __init__(self, database: Database, catalogue: Catalogue) -> None:
        self.database = database
        self.catalogue = catalogue

    async def take(self, *rows: ImportedRow, retailer=SHOP, **options: bool):
        return await import_products(self.database, self.catalogue, retailer, rows, storefront=FRONT, **options)

    async def products(self):
        await self.catalogue.refresh()
        return {item["id"]: item for item in self.catalogue.items(CatalogueQuery())}

    async def events(self):
        async with self.database.reading() as connection:
            rows = await connection.execute(select(webhook_event).order_by(webhook_event.c.created_at))
            return [msgspec.json.decode(row.body) for row in rows]

    async def kinds(self):
        return sorted(event["type"] for event in await self.events())


def row(identity, line=1, **product: object):
    whole = {"title": f"Mattress {identity}", "price": 1000.0, "size": "Queen",
             "affiliate_url": f"https://coastalkip.example/products/{identity}", **product}  # fmt: skip
    return ImportedRow(line, identity, {name: value for name, value in whole.items() if value is not None})


async def test_rows_become_the_retailers_products(house):
    report = await house.take(row("a", firmness=7), row("b", line=2, sale_price=800, availability="preorder"))
    assert (report.has_landed, report.rows, report.accepted, report.created) == (True, 2, 2, 2)
    products = await house.products()
    first, second = products["coastal-kip.a"], products["coastal-kip.b"]
    assert (first["retailer"], first["currency"], first["availability"]) == ("coastal-kip", "AUD", "in stock")
    assert (first["sale_price"], second["price"], second["sale_price"]) == (1000, 1000, 800)
    assert first["affiliate_url"] == (
        "https://awin.links.example/cread.php?awinmid=41007&awinaffid=900001"
        "&ued=https%3A%2F%2Fcoastalkip.example%2Fproducts%2Fa"
    )
    assert [
        item["id"] for item in (await house.catalogue.search(CatalogueQuery(any_of={"in_stock": (True,)}))).items
    ] == ["coastal-kip.a"]


async def test_same_rows_again_change_nothing(house):
    await house.take(row("a"), row("b"))
    before, events = await house.products(), await house.events()
    report = await house.take(row("a"), row("b"))
    assert (report.created, report.changed, report.price_changed, report.removed, report.unchanged) == (0, 0, 0, 0, 2)
    assert (await house.products(), await house.events()) == (before, events)


async def test_events_are_written_in_the_same_transaction(house):
    await house.take(row("a"), row("b"), row("c"))
    report = await house.take(row("a", sale_price=700.0), row("b", firmness=3))
    assert (report.price_changed, report.changed, report.removed) == (1, 1, 1)
    assert await house.kinds() == ["product.created"] * 3 + ["product.price_changed", "product.removed"]
    events = {event["type"]: event["data"] for event in await house.events()}
    cheaper = events["product.price_changed"]
    assert cheaper["previous"] == {"price": 1000.0, "sale_price": 1000.0}
    assert (cheaper["product"]["id"], cheaper["product"]["sale_price"]) == ("coastal-kip.a", 700.0)
    assert cheaper["product"]["image_url"] == "https://api.example/images/coastal-kip.a.svg"
    assert events["product.removed"]["product"]["id"] == "coastal-kip.c"


async def test_words_that_decided_an_attribute_are_kept_beside_what_the_feed_states(house):
    derived = {"firmness": {"value": 7, "words": ["firm"], "place": "title"},
               "cooling": {"value": None, "words": ["cool", "traps heat"], "place": "description"}}  # fmt: skip
    await house.take(row("a", material="latex", firmness=7, derived=derived))
    async with house.database.reading() as connection:
        stored = await house.catalogue.stored_item(connection, "coastal-kip.a")
        assert await house.catalogue.stored_item(connection, "coastal-kip.b") is None
    sources = attribute_sources(stored)
    assert sources["firmness"] == AttributeSource("title", ["firm"])
    assert sources["material"] == AttributeSource("declared", [])
    assert sources["cooling"].words == ["cool", "traps heat"]
    assert "derived" not in (await house.products())["coastal-kip.a"]


async def test_every_price_change_has_an_event(house):
    for price in (1000, 900, 1000, 900):
        await house.take(row("a", price=price))
    assert (await house.kinds()).count("product.price_changed") == 3
    async with house.database.reading() as connection:
        points = (await house.catalogue.price_histories(connection, ["coastal-kip.a"]))["coastal-kip.a"]
    assert [point.price for point in points] == [1000, 900, 1000, 900]


async def test_good_rows_land_beside_refused_ones(house):
    report = await house.take(
        row("a"), ImportedRow(7, "b", refused="has no price"), row("c", line=9, affiliate_url="javascript:alert(1)")
    )
    assert report.has_landed
    assert [(each.line, each.id) for each in report.refused] == [(7, "b"), (9, "c")]
    assert "affiliate_url" in report.refused[1].reason
    assert set(await house.products()) == {"coastal-kip.a"}


async def test_strict_import_lands_whole_or_not_at_all(house):
    report = await house.take(row("a"), ImportedRow(2, "b", refused="has no price"), strict=True)
    assert (report.has_landed, report.created) == (False, 0)
    assert "1 rows were refused" in report.reason
    assert (await house.products(), await house.events()) == ({}, [])
    assert (await house.take(row("a"), strict=True)).has_landed


async def test_products_that_a_full_import_no_longer_has_are_removed(house):
    await house.take(row("a"), row("b"), row("c"))
    await house.take(row("x"), retailer=OTHER)
    report = await house.take(row("a"), row("b"))
    assert report.removed == 1
    assert set(await house.products()) == {"coastal-kip.a", "coastal-kip.b", "other-shop.x"}


async def test_partial_import_removes_nothing(house):
    await house.take(row("a"), row("b"), row("c"))
    assert (await house.take(row("a", price=5.0), is_partial=True)).removed == 0
    assert len(await house.products()) == 3


async def test_product_with_a_rejected_row_is_kept(house):
    await house.take(row("a"), row("b"), row("c"))
    report = await house.take(row("a"), row("b"), ImportedRow(3, "c", refused="has no price"))
    assert report.removed == 0
    assert len(await house.products()) == 3


async def test_loss_of_more_than_half_needs_to_be_allowed(house):
    await house.take(row("a"), row("b"), row("c"), row("d"))
    report = await house.take(row("a"))
    assert (report.has_landed, report.removed) == (False, 0)
    assert report.reason == "3 of 4 products would be removed"
    assert len(await house.products()) == 4
    assert (await house.take(row("a"), row("b"))).removed == 2
    assert (await house.take(allow_shrink=True)).removed == 2
    assert await house.products() == {}


async def test_second_row_of_an_id_is_refused(house):
    report = await house.take(row("a", line=3), row("a", line=8, price=5.0))
    assert [(each.line, each.reason) for each in report.refused] == [(8, "has the id of line 3")]
    assert (await house.products())["coastal-kip.a"]["price"] == 1000


async def test_removed_product_that_comes_back_is_new_again(house):
    await house.take(row("a"), row("b"))
    await house.take(row("a"))
    report = await house.take(row("a"), row("b"))
    assert report.created == 1
    assert len(await house.products()) == 2


@pytest.mark.parametrize(
    ("product", "member"),
    [
        ({"price": None}, "price"), ({"price": 0.0}, "price"), ({"price": -1}, "price"), ({"price": "9.90"}, "price"),
        ({"price": 2_000_000}, "price"), ({"price": float("nan")}, "price"), ({"sale_price": 1001.0}, "sale_price"),
        ({"sale_price": 0}, "sale_price"), ({"firmness": 11}, "firmness"), ({"firmness": 2.5}, "firmness"),
        ({"cooling": 0}, "cooling"), ({"sleep_positions": ["head"]}, "sleep_positions"),
        ({"availability": "soon"}, "availability"), ({"availability": ["in stock"]}, "availability"),
        ({"image_url": "data:x"}, "image_url"), ({"affiliate_url": None}, "affiliate_url"),
        ({"affiliate_url": "https://"}, "affiliate_url"), ({"affiliate_url": "http://[::1"}, "affiliate_url"),
        ({"title": " "}, "title"), ({"title": None}, "title"), ({"colour": "red"}, "colour"), ({"brand": 7}, "brand"),
        ({"title": "\ud800"}, "title"),
    ],
)  # fmt: skip
async def test_row_that_is_no_product_is_refused_with_its_member(data_dir, product, member):
    database = open_database(Settings(data_dir=str(data_dir)))
    try:
        await migrate(database)
        report = await import_products(database, open_catalogue(database), SHOP, [row("a", **product)])
    finally:
        await database.close()
    assert report.accepted == 0
    assert report.refused[0].reason.startswith(member)


async def test_ids_are_made_fit_for_addresses(house):
    await house.take(row(" gid://shop/1?x=Ä ", affiliate_url="https://a.example/1"))
    [identity] = await house.products()
    assert identity == "coastal-kip.gid-shop-1-x"


async def test_row_without_an_id_is_refused(house):
    report = await house.take(row("  "), row("///"))
    assert [each.reason for each in report.refused] == ["has no id", "has no id"]


async def test_imports_at_the_same_time_take_turns(house):
    reports = await asyncio.gather(*(house.take(row("a", price=price)) for price in (500.0, 600.0, 700.0)))
    assert sum(report.created for report in reports) == 1
    assert sum(report.price_changed for report in reports) == 2
    assert (await house.kinds()) == ["product.created", "product.price_changed", "product.price_changed"]


async def test_stamps_are_the_stores(house):
    await house.take(row("a"))
    product = (await house.products())["coastal-kip.a"]
    assert product["created_at"] == product["updated_at"]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(product["created_at"])).total_seconds()) < 60
