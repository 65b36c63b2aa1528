"""The service as a whole: what it loads at start, what it costs, and how it follows the store."""

from pathlib import Path

import pytest

from tests.services.mattress.conftest import serving
from tests.services.mattress.test_importing import row
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.import_transaction import import_products
from tollhouse.services.mattress.product import Storefront
from tollhouse.services.mattress.retailers import demo_retailers, load_retailers
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

FREE = ("/health", "/api/openapi.json", "/.well-known/ucp", "/images/nobody.svg")
METERED = ("/api/products", "/api/search?q=latex", "/api/retailers", "/api/suggest?q=a", "/api/products.jsonld",
           "/api/products.csv", "/api/products.ndjson", "/api/products.merchant.xml", "/api/products/nobody",
           "/api/products/nobody/similar")  # fmt: skip


async def test_demonstration_is_loaded_once_on_either_database(database_url, data_dir):
    for _ in range(2):
        async with serving(data_dir=str(data_dir), database_url=database_url) as client:
            assert (await client.get("/health")).json()["product_count"] == 165
            assert (await client.get("/api/retailers")).json()["total"] == 16


async def test_demonstration_is_not_loaded_into_a_used_catalogue(data_dir):
    await imported(data_dir, [row("a")])
    await imported(data_dir, [], allow_shrink=True)
    async with serving(data_dir=str(data_dir)) as client:
        assert (await client.get("/health")).json()["product_count"] == 0
        page = (await client.get("/api/products", params={"facets": "brand,price"})).json()
        assert (page["total"], page["facets"]["brand"]) == (0, [])
        assert (await client.get("/api/search", params={"q": "firm queen mattress"})).json()["total"] == 0
        assert (await client.get("/api/products.jsonld")).json()["numberOfItems"] == 0
        assert (await client.get("/api/retailers")).json() == {"total": 0, "retailers": []}


async def test_demonstration_is_not_loaded_without_recordings(data_dir):
    async with serving(data_dir=str(data_dir), recorded=False) as client:
        assert (await client.get("/health")).json()["product_count"] == 0


async def test_imported_products_are_not_marked_as_demonstration_data(data_dir):
    await imported(data_dir, [row("a")])
    async with serving(data_dir=str(data_dir)) as client:
        assert (await client.get("/health")).json()["demo_product_count"] == 0
        assert "Demonstration" not in (await client.get("/api/products.jsonld")).text
        [product] = (await client.get("/api/products")).json()["products"]
        assert (product["firmness"], product["brand"], product["tags"]) == (None, None, [])


async def test_import_shows_in_a_running_server_with_another_etag(data_dir):
    async with serving(data_dir=str(data_dir)) as client:
        first = await client.get("/api/products")
        await imported(data_dir, [row("new")], is_partial=True)

        async def is_shown() -> bool:
            return (await client.get("/health")).json()["product_count"] == 166

        await until(is_shown)
        again = await client.get("/api/products", headers={"If-None-Match": first.headers["ETag"]})
        assert again.status_code == 200
        assert again.json()["total"] == 166
        found = await client.get("/api/products/coastal-kip.new")
        assert len(found.json()["price_history"]) == 1


@pytest.mark.parametrize("path", METERED)
async def test_metered_operation_uses_the_allowance_and_then_costs(data_dir, path):
    async with serving(data_dir=str(data_dir), recorded=False, free_per_ip_per_day=1) as client:
        assert (await client.get(path)).headers["X-RateLimit-Remaining"] == "0"
        refused = await client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (402, "payment-required")


@pytest.mark.parametrize("path", FREE)
async def test_free_operation_uses_nothing(data_dir, path):
    async with serving(data_dir=str(data_dir), recorded=False, free_per_ip_per_day=1) as client:
        for _ in range(3):
            answer = await client.get(path)
            assert answer.status_code in (200, 404)
            assert "X-RateLimit-Remaining" not in answer.headers


async def test_links_are_under_the_prefix_on_the_shared_server():
    shared = Storefront.from_settings(Settings(public_url="https://a.example/"))
    assert shared.image_url({"id": "x"}) == "https://a.example/mattress/images/x.svg"
    assert Storefront.from_settings(Settings(service="mattress")).base_url == "http://127.0.0.1:8000"


def test_links_without_a_public_address_lead_to_the_port_that_is_served():
    served = Settings(served_at="http://127.0.0.1:8123")
    assert Storefront.from_settings(served).image_url({"id": "x"}) == "http://127.0.0.1:8123/mattress/images/x.svg"
    public = Settings(served_at="http://127.0.0.1:8123", public_url="https://a.example")
    assert Storefront.from_settings(public).base_url == "https://a.example/mattress"


async def test_links_are_not_the_callers_to_choose(data_dir):
    async with serving(data_dir=str(data_dir), public_url="", served_at="http://127.0.0.1:8123") as client:
        page = (await client.get("/api/products?limit=1", headers={"Host": "evil.example"})).json()
        assert page["products"][0]["image_url"].startswith("http://127.0.0.1:8123/images/")


def test_demonstration_names_only_reserved_domains():
    hosts = [host for retailer in demo_retailers() for host in retailer.affiliate_domains]
    assert len(hosts) > 16
    assert all(host.endswith(".example") for host in hosts)


async def imported(folder: Path, rows, **options: bool):
    database = open_database(Settings(data_dir=str(folder)))
    try:
        await migrate(database)
        await import_products(database, open_catalogue(database), load_retailers().get("coastal-kip"), rows, **options)
    finally:
        await database.close()
