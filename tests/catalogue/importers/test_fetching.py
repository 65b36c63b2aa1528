"""Feeds at an address, from a shop on loopback that speaks real HTTP."""

import asyncio
import gzip
import json
import os
import resource
import tracemalloc
from collections.abc import Iterator
from itertools import repeat
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.catalogue.importers.feeding import FEEDS, mattress
from tests.fakes.website import Asked, Reply, website
from tollhouse.catalogue.importers import documents, fetcher
from tollhouse.catalogue.importers.documents import are_streamed
from tollhouse.catalogue.importers.feed import open_feed, read_table
from tollhouse.catalogue.importers.fetcher import FetchRules
from tollhouse.catalogue.importers.formats import find_format
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.tables import StreamedRows
from tollhouse.services.mattress.import_command import FeedRequest, read_feed

PRODUCTS = [mattress(number) for number in range(1, 8)]


def shop(products=PRODUCTS, *, limit=3, spoil=None):
    """A Shopify shop that gives `limit` products a page, whatever limit is requested."""

    def respond(asked: Asked) -> Reply:
        page = int(asked.query.get("page", "1"))
        if spoil and (reply := spoil(asked, page)):
            return reply
        if asked.path != "/products.json":
            return Reply(404)
        body = json.dumps({"products": products[(page - 1) * limit : page * limit]}).encode()
        return Reply(200, body, {"Content-Type": "application/json"})

    return respond


LOOPBACK = FetchRules(allow_loopback=True)


async def read(url, format_name="shopify", **rules: object):
    given = replace(LOOPBACK, **rules)
    rows = await read_feed(FeedRequest(url, find_format(format_name), rules=given), lambda _: None)
    return [row.id for row in rows]


async def test_every_page_of_a_shop_is_read():
    async with website(shop()) as site:
        assert await read(site.url) == [f"{number}-queen" for number in range(1, 8)]
        assert [asked.query for asked in site.asked] == [{"limit": "250", "page": str(page)} for page in range(1, 5)]


async def test_products_are_numbered_through_all_pages():
    async with website(shop()) as site:
        request = FeedRequest(f"{site.url}/products.json?page=2", find_format("shopify"), rules=LOOPBACK)
        rows = list(await read_feed(request, lambda _: None))
        assert [row.line for row in rows] == list(range(1, 8))
        assert rows[0].product["affiliate_url"] == f"{site.url}/products/cloud-1?variant=100"


async def test_shop_that_ignores_pages_ends():
    async with website(
        shop(limit=100, spoil=lambda asked, page: shop(limit=100)(_first(asked)) if page > 1 else None)
    ) as site:
        assert len(await read(site.url)) == 7
        assert len(site.asked) == 2


async def test_product_that_moved_to_the_next_page_while_paging_is_one_product():
    shifted = [*PRODUCTS[:3], PRODUCTS[2], *PRODUCTS[3:]]
    async with website(shop(shifted)) as site:
        assert await read(site.url) == [f"{number}-queen" for number in range(1, 8)]


@pytest.mark.parametrize(
    "fault",
    [Reply(500), Reply(404), Reply(200, b"<html>Sign in</html>"), Reply(200, b'{"products": [{"id": 1'), Reply(403)],
)
async def test_page_that_fails_makes_the_whole_feed_unreadable(fault):
    """Half a feed would take the other half's products away."""
    async with website(shop(spoil=lambda _, page: fault if page == 3 else None)) as site:
        with pytest.raises(UnreadableFeed):
            await read(site.url)


async def test_busy_shop_is_tried_again():
    busy = [Reply(429, b"", {"Retry-After": "0"}), Reply(503, b"", {"Retry-After": "0"})]
    async with website(shop(spoil=lambda _, page: busy.pop() if page == 2 and busy else None)) as site:
        assert len(await read(site.url)) == 7


async def test_compressed_responses_are_unpacked_and_bombs_are_not():
    body = gzip.compress((FEEDS / "merchant.xml").read_bytes())
    async with website(lambda _: Reply(200, body, {"Content-Encoding": "gzip"})) as site:
        assert "IB-2" in await read(site.url, "merchant-xml")
        with pytest.raises(UnreadableFeed, match=r"larger than 1000 bytes \(the setting import_max_bytes\)"):
            await read(site.url, "merchant-xml", max_bytes=1_000)


async def test_packed_file_is_unpacked_too():
    body = gzip.compress((FEEDS / "merchant.tsv").read_bytes())
    async with website(lambda _: Reply(200, body)) as site:
        assert "T2" in await read(f"{site.url}/feed.tsv.gz", "merchant-tsv")
        with pytest.raises(UnreadableFeed, match="larger than 1000 bytes"):
            await read(f"{site.url}/feed.tsv.gz", "merchant-tsv", max_bytes=1_000)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (gzip.compress(gzip.compress(b"id,title,price\n")), "holds another gzip file"),
        (gzip.compress(b"id,title,price\n" * 99)[:-9], "damaged or cut short"),
    ],
    ids=("packed twice", "cut short"),
)
async def test_packed_file_that_cannot_be_unpacked_is_refused(body, reason):
    async with website(lambda _: Reply(200, body)) as site:
        with pytest.raises(UnreadableFeed, match=reason):
            await read(site.url, "csv")


async def test_header_names_the_encoding():
    feed = "id,title,price,link\n1,Caf\u00e9,10,https://c.example\n".encode("cp1252")
    async with website(lambda _: Reply(200, feed, {"Content-Type": "text/csv; charset=iso-8859-1"})) as site:
        [row] = await read_feed(FeedRequest(site.url, find_format("csv"), rules=LOOPBACK), lambda _: None)
        assert row.product["title"] == "Caf\u00e9"


async def test_slow_shop_is_a_timeout(monkeypatch):
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 0.2)
    async with website(lambda _: Reply(200, b"", {"Content-Length": "9"}, [b"x"] * 9, 1.0)) as site:
        with pytest.raises(UnreadableFeed, match="did not respond within"):
            await read(site.url, "csv")


async def test_slow_feed_that_keeps_sending_is_read_until_its_time_is_over(monkeypatch):
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 0.4)
    lines = [b"id,title,price,link\n", *(b"%d,Cloud,10,https://c.example\n" % number for number in range(9))]
    async with website(lambda _: Reply(200, b"", {}, lines, 0.1)) as site:
        assert len(await read(site.url, "csv")) == 9
        with pytest.raises(UnreadableFeed, match=r"longer than 0.5 seconds \(the setting import_seconds\)"):
            await read(site.url, "csv", seconds=0.5)


@pytest.mark.parametrize("is_packed", [False, True])
async def test_response_leaves_half_of_the_free_disk_space(monkeypatch, is_packed):
    monkeypatch.setattr(fetcher.shutil, "disk_usage", lambda _: SimpleNamespace(free=20_000))
    body = (FEEDS / "merchant.tsv").read_bytes()
    larger, pack = body + b"\n" * 12_000, gzip.compress if is_packed else bytes
    async with website(lambda asked: Reply(200, pack(larger if asked.path == "/larger" else body))) as site:
        assert "T2" in await read(site.url, "merchant-tsv")
        with pytest.raises(UnreadableFeed, match="larger than half of the free disk space"):
            await read(f"{site.url}/larger", "merchant-tsv")


async def test_endless_response_ends_at_the_disk_space_and_leaves_nothing(tmp_path):
    endless = repeat(b"1,Cloud,10\n" * 5_000)
    async with website(lambda _: Reply(200, b"id,title,price\n", {}, endless, 0)) as site:
        with pytest.raises(UnreadableFeed, match=r"larger than 5000000 bytes \(the setting import_max_bytes\)"):
            await read(site.url, "csv", max_bytes=5_000_000, folder=tmp_path / "imports")
    assert list((tmp_path / "imports").iterdir()) == []


async def test_what_a_killed_process_left_is_removed(tmp_path):
    old, new = tmp_path / "feed-old", tmp_path / "feed-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "1").write_text("rows")
    os.utime(old, (1, 1))
    async with website(shop()) as site:
        await read(site.url, folder=tmp_path)
    assert list(tmp_path.iterdir()) == [new]


LARGE = 8_000_000
NOTE = "Cloud " * 8_000
PARTS = {
    "csv": ("id,title,note\n", f"pN,Cloud,{NOTE}\n", ""),
    "jsonl": ("", json.dumps({"id": "pN", "note": NOTE}) + "\n", ""),
    "merchant-tsv": ("id\ttitle\tprice\tnote\n", f"pN\tCloud\t5 AUD\t{NOTE}\n", ""),
    "merchant-xml": (
        '<rss xmlns:g="http://base.google.com/ns/1.0"><channel>\n',
        f"<item><g:id>pN</g:id><title>Cloud</title><g:price>5 AUD</g:price><g:note>{NOTE}</g:note></item>\n",
        "</channel></rss>",
    ),
}


@pytest.mark.parametrize("format_name", PARTS)
async def test_large_feed_is_read_into_a_table_without_being_held_in_memory(tmp_path, monkeypatch, format_name):
    monkeypatch.setattr(documents, "STREAMED_BYTES", LARGE)
    (head, row, end), count, form = PARTS[format_name], LARGE // len(NOTE) + 1, find_format(format_name)

    def chunks() -> Iterator[bytes]:
        yield head.encode()
        yield from (row.replace("N", str(number)).encode() for number in range(count))
        yield end.encode()

    tracemalloc.start()
    try:
        async with (
            website(lambda _: Reply(200, b"", {}, chunks())) as site,
            open_feed(site.url, form, lambda _: None, replace(LOOPBACK, folder=tmp_path)) as loaded,
        ):
            assert loaded[0].size > LARGE
            table = await asyncio.to_thread(read_table, loaded, form, Context())
            assert len(table.rows) == sum(1 for _ in table.rows) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LARGE // 2
    assert list(tmp_path.iterdir()) == []


async def test_feed_of_any_size_is_read_in_an_encoding_that_nothing_names(tmp_path):
    """Rows and bytes beyond the limits that feeds once had, counted in the memory of the whole process."""
    rows, form = 110_000, find_format("csv")
    cells = f",Caf\u00e9,{'Latex. ' * 90}\n".encode("cp1252")

    def chunks() -> Iterator[bytes]:
        yield b"id,title,note\n"
        for first in range(0, rows, 500):
            yield b"".join(b"%d%b" % (number, cells) for number in range(first, first + 500))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        website(lambda _: Reply(200, b"", {}, chunks())) as site,
        open_feed(site.url, form, lambda _: None, replace(LOOPBACK, folder=tmp_path)) as loaded,
    ):
        assert loaded[0].size > 64 * 1024 * 1024
        table = await asyncio.to_thread(read_table, loaded, form, Context())
        assert len(table.rows) == rows
        assert next(iter(table.rows)).cells[1] == "Caf\u00e9"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 32 * 1024


async def test_pages_of_a_large_shop_are_read_one_after_another(monkeypatch):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 1_000)
    form = find_format("shopify")
    async with website(shop()) as site, open_feed(site.url, form, lambda _: None, LOOPBACK) as loaded:
        assert are_streamed(loaded)
        table = read_table(loaded, form, Context())
        assert isinstance(table.rows, StreamedRows)
        assert [row.line for row in table.rows] == [row.line for row in table.rows] == list(range(1, 8))


async def test_feed_in_the_encoding_of_its_header_is_streamed(monkeypatch):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    feed = "id,title,price,link\n1,Caf\u00e9,10,https://c.example\n".encode("cp1252")
    form, reply = find_format("csv"), Reply(200, feed, {"Content-Type": "text/csv; charset=iso-8859-1"})
    async with website(lambda _: reply) as site, open_feed(site.url, form, lambda _: None, LOOPBACK) as loaded:
        table = read_table(loaded, form, Context())
        assert isinstance(table.rows, StreamedRows)
        assert next(iter(table.rows)).cells[1] == "Caf\u00e9"


async def test_loopback_is_fetched_only_where_it_is_allowed():
    async with website(shop()) as site:
        with pytest.raises(UnreadableFeed, match="does not call"):
            await read(site.url, allow_loopback=False)
        assert site.asked == []


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://10.0.0.1/", "file:///etc/hostname", "ftp://x.example/"]
)
async def test_redirects_are_followed_to_vetted_addresses_only(target):
    async with website(lambda _: Reply(302, b"", {"Location": target})) as site:
        with pytest.raises(UnreadableFeed, match=r"does not call|not http"):
            await read(site.url, "csv")


async def test_redirects_are_followed_up_to_a_limit():
    async with website(
        lambda asked: shop()(asked) if asked.path != "/old" else Reply(301, b"", {"Location": "/products.json"})
    ) as site:
        assert len(await read(f"{site.url}/products.json")) == 7
    async with website(lambda _: Reply(302, b"", {"Location": "/again"})) as site:
        with pytest.raises(UnreadableFeed, match="redirected more than"):
            await read(site.url, "csv")


async def test_endless_pages_end_at_the_disk_space():
    """However small a page is, it counts as a block."""
    endless = lambda _, page: Reply(200, json.dumps({"products": [mattress(page)]}).encode())  # noqa: E731
    async with website(shop(spoil=endless)) as site:
        with pytest.raises(UnreadableFeed, match="larger than 20480 bytes"):
            await read(site.url, max_bytes=20_480)
        assert len(site.asked) == 6


@pytest.mark.parametrize("knows_variations", [True, False])
async def test_woocommerce_variations_are_fetched_beside_their_products(knows_variations):
    entries = json.loads((FEEDS / "woocommerce.json").read_text("utf-8"))

    def respond(asked: Asked) -> Reply:
        wants_variations = asked.query.get("type") == "variation"
        if wants_variations and not knows_variations:
            return Reply(400, b'{"code": "rest_invalid_param", "message": "type"}')
        matching = [entry for entry in entries if (entry["type"] == "variation") == wants_variations]
        return Reply(200, json.dumps(matching if asked.query["page"] == "1" else []).encode())

    async with website(respond) as site:
        ids = await read(f"{site.url}/wp-json/wc/store/v1/products", "woocommerce")
        assert ("301-queen" in ids, "301" in ids) == (knows_variations, not knows_variations)


def _first(asked: Asked) -> Asked:
    return type(asked)(asked.method, asked.path, {**asked.query, "page": "1"}, asked.headers, asked.body)
