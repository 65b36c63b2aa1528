"""Tables from every import format, from a file or an address."""

import io
import json

import pytest

from tests.catalogue.importers.feeding import FEEDS
from tests.fakes.website import Reply, website
from tests.servers.databases import migrated_copy
from tests.services.tables.books import books, declare
from tests.services.tables.conftest import serving
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.cli.new import new
from tollhouse.cli.options import CommonOptions
from tollhouse.config.settings import Settings
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.loader import open_loader
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

FIXTURES = {
    "csv": "products.csv", "jsonl": "products.jsonl", "jsonld": "page.html", "merchant-tsv": "merchant.tsv",
    "merchant-xml": "merchant.xml", "shopify": "shopify.json", "shopify-admin": "shopify-admin.json",
    "shopify-csv": "shopify-export.csv", "shopify-js": "shopify-js.json", "woocommerce": "woocommerce.json",
    "woocommerce-csv": "woocommerce-export.csv",
}  # fmt: skip
BINARY = {"parquet", "xlsx"}


def test_every_format_has_a_fixture():
    assert {*FORMATS} == {*FIXTURES} | BINARY


@pytest.mark.parametrize("format_name", FIXTURES)
async def test_every_format_becomes_a_service(home, format_name):
    name = FIXTURES[format_name]
    declare(home, (FEEDS / name).read_bytes(), "shop", name.rpartition(".")[2], format_name=format_name)
    async with serving(home, "shop") as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["item_count"] > 0) == ("ok", True)
        assert (await client.get("/api/items")).json()["total"] == health["item_count"]


async def test_options_of_a_product_feed_are_filters_and_prices_have_its_currency(home):
    path = declare(home, (FEEDS / "shopify-export.csv").read_bytes(), "shop", format_name="shopify-csv", currency="EUR")
    assert read_declaration(path).fields["price"].currency == "EUR"
    async with serving(home, "shop") as client:
        kings = (await client.get("/api/items", params={"size_2": "King"})).json()
        assert [(item["title"], item["price"], item["size_2"]) for item in kings["items"]] == [
            ("Tern Cloud", 1599, "King")
        ]


async def test_workbook_is_a_table_and_a_damaged_one_is_refused(home):
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["Name", "Pages", None])
    book.active.append([])
    book.active.append(["Ka", 120, None])
    book.active.append(["Lo", 80, None])
    out = io.BytesIO()
    book.save(out)
    declare(home, out.getvalue(), "books", "xlsx")
    async with serving(home) as client:
        items = (await client.get("/api/items", params={"min_pages": 100})).json()["items"]
        assert [(item["name"], item["pages"]) for item in items] == [("Ka", 120)]
    for raw in (out.getvalue()[:-200], b"PK\x03\x04nonsense", b"text"):
        with pytest.raises(ValueError, match="not a readable workbook"):
            declare(home, raw, "broken", "xlsx")


def test_missing_extra_is_named_in_one_line(home, monkeypatch):
    import sys

    for ending, module, extra in (("xlsx", "openpyxl", "xlsx"), ("parquet", "pyarrow", "parquet")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=rf"needs the extra: pip install 'tollhouse\[{extra}\]'"):
            declare(home, b"any", "books", ending)


@pytest.mark.parametrize(("table", "message"), [("x.doc", "Use --format"), ("x.csv", "x.csv")])
def test_unknown_ending_and_absent_file_are_named(home, table, message):
    with pytest.raises((ValueError, OSError), match=message):
        new("books", table=table, common=CommonOptions())


async def test_address_is_fetched_again_and_what_is_served_survives_its_failure(home, database):
    body = {"text": books(20)}
    async with website(lambda _: Reply(200 if body["text"] else 500, body["text"].encode())) as site:
        path = home / "books.toml"
        path.write_text(
            f'title = "Books"\n[table]\nfile = "{site.url}/books.csv"\nformat = "csv"\nid = "ISBN"\n'
            '[fields.title]\ntype = "text"\ncolumn = "Book title"\n'
        )
        loader, catalogue = open_loader(read_declaration(path), database, rules=FetchRules(allow_loopback=True))
        await loader.open()
        await loader.wait_for_first()
        assert len(catalogue) == 20
        body["text"] = books(21)
        await loader.load()
        assert len(catalogue) == 21
        body["text"] = ""
        await loader.load()
        assert (len(catalogue), "returned 500" in (await loader.status()).fault) == (21, True)


async def test_address_inside_the_network_is_not_fetched(home, database):
    path = home / "books.toml"
    path.write_text(
        'title = "Books"\n[table]\nfile = "http://127.0.0.1:9/b.csv"\nformat = "csv"\n[fields.a]\ntype = "text"\n'
    )
    loader, _ = open_loader(read_declaration(path), database)
    await loader.open()
    assert "does not call" in (await loader.status()).fault


async def test_column_of_a_product_feed_may_be_missing_after_an_edit(home, database):
    product = json.loads((FEEDS / "shopify.json").read_text("utf-8"))
    path = declare(home, json.dumps(product), "shop", "json", format_name="shopify")
    loader, catalogue = open_loader(read_declaration(path), database)
    await loader.load()
    before = len(catalogue)
    for each in product["products"]:
        each["options"] = [{"name": "Other"}]
    (home / "shop.json").write_text(json.dumps(product))
    await loader.load()
    assert ((await loader.status()).fault, len(catalogue)) == ("", before)


@pytest.fixture
async def database(tmp_path):
    opened = open_database(Settings(data_dir=str(migrated_copy(tmp_path / "data"))))
    await migrate(opened)
    yield opened
    await opened.close()
