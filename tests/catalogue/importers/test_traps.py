"""Unusual feeds: other encodings, compressed, cut short, too large, hostile, with impossible values."""

import codecs
import gzip
import json
import zlib
from functools import partial

import pytest

from tests.catalogue.importers.feeding import (
    FEEDS,
    by_id,
    mattress,
    rows_of_bytes,
    rows_of_file,
    rows_of_text,
    shopify,
)
from tollhouse.catalogue.importers import tables
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import read_table
from tollhouse.catalogue.importers.formats import FORMATS, merchant
from tollhouse.catalogue.importers.items import Context, FeedItemError, UnreadableFeed
from tollhouse.catalogue.importers.mapping import load_mapping
from tollhouse.catalogue.importers.values import feed_money
from tollhouse.services.mattress.import_rows import ATTRIBUTES

CAFE = "id,title,price,link\n1,Caf\u00e9 Queen \u2013 firm,10,https://c.example\n"
FILES = {
    "shopify": "shopify.json",
    "shopify-admin": "shopify-admin.json",
    "shopify-js": "shopify-js.json",
    "woocommerce": "woocommerce.json",
    "merchant-xml": "merchant.xml",
    "merchant-tsv": "merchant.tsv",
    "jsonld": "page.html",
    "csv": "products.csv",
    "jsonl": "products.jsonl",
    "shopify-csv": "shopify-export.csv",
    "woocommerce-csv": "woocommerce-export.csv",
}


@pytest.mark.parametrize(
    "raw",
    [
        CAFE.encode(),
        codecs.BOM_UTF8 + CAFE.encode(),
        CAFE.encode("utf-16"),
        CAFE.encode("utf-16-le"),
        CAFE.encode("utf-16-be"),
        CAFE.encode("utf-32"),
        CAFE.encode("cp1252"),
        gzip.compress(CAFE.encode("cp1252"), mtime=0),
        gzip.compress(CAFE[:20].encode(), mtime=0) + gzip.compress(CAFE[20:].encode(), mtime=0),
        CAFE.replace("\n", "\r\n").encode(),
        CAFE.replace("\n", "\r").encode(),
    ],
)
def test_characters_are_read_in_every_encoding(raw):
    assert rows_of_bytes(raw, "csv")["1"].product["title"] == "Caf\u00e9 Queen \u2013 firm"


@pytest.mark.parametrize("declared", ["windows-1252", "iso-8859-1"])
def test_declared_encoding_decides_where_the_bytes_are_no_utf8(declared):
    feed = (
        (FEEDS / "merchant.xml").read_text("utf-8").replace("UTF-8", declared).replace("Loft", "Loft \u2013 caf\u00e9")
    )
    assert (
        rows_of_bytes(feed.encode("cp1252"), "merchant-xml")["IB-2"]
        .product["title"]
        .startswith("Ibis Loft \u2013 caf\u00e9")
    )


def test_utf8_wrongly_declared_is_still_utf8():
    assert Document("caf\u00e9".encode(), "text/csv; charset=iso-8859-1").text() == "caf\u00e9"


@pytest.mark.parametrize("format_name", FILES)
def test_every_format_is_read_with_a_byte_order_mark_and_packed(format_name):
    raw = (FEEDS / FILES[format_name]).read_bytes()
    options = {"mapping": load_mapping(FEEDS / "knot.toml", ATTRIBUTES)} if format_name == "jsonl" else {}
    plain = rows_of_bytes(raw, format_name, **options)
    assert plain
    assert rows_of_bytes(gzip.compress(codecs.BOM_UTF8 + raw, mtime=0), format_name, **options) == plain
    assert rows_of_bytes(raw.decode().encode("utf-16"), format_name, **options) == plain


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (gzip.compress(b"x" * 100, mtime=0)[:-10], "damaged or cut short"),
        (b"\x1f\x8b" + b"nonsense" * 9, "damaged"),
        (b"PK\x03\x04rest", "zip archive"),
        (gzip.compress(b"0" * 2_000_000, mtime=0), "more than 1000000 characters"),
        (b"0" * 2_000_000, "more than 1000000 characters"),
    ],
)
def test_damaged_or_swollen_bytes_are_refused(monkeypatch, raw, reason):
    monkeypatch.setattr("tollhouse.catalogue.importers.documents.MAX_WHOLE_BYTES", 1_000_000)
    with pytest.raises(UnreadableFeed, match=reason):
        Document(raw).text()


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(UnreadableFeed, match="zero bytes"):
        Document(b"abc\0\0\0\1\2\3").text()
    with pytest.raises(UnreadableFeed, match="not text in utf-8"):
        Document(codecs.BOM_UTF8 + b"\xff\xff").text()


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    "text", ["", "  \n ", "nonsense", "<html><body>Sign in</body></html>", '{"errors": "Not Found"}', "[[[[", "null"]
)
def test_what_is_no_feed_is_unreadable_as_a_whole(format_name, text):
    with pytest.raises(UnreadableFeed):
        rows_of_text(text, format_name)


@pytest.mark.parametrize("format_name", FILES)
def test_feed_that_is_cut_short_never_passes_for_a_whole_one(format_name):
    """A download that broke off must not look like a shop that sells less."""
    whole = (FEEDS / FILES[format_name]).read_text("utf-8").rstrip()
    cut = whole[: -len(whole) // 7]
    try:
        rows = rows_of_text(cut, format_name)
    except UnreadableFeed:
        return
    assert any(row.refused and row.line == max(each.line for each in rows) for row in rows), format_name


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://127.0.0.1/x.dtd">%p;]>',
        '<!DOCTYPE r [<!ATTLIST item a CDATA "aaaa">]>',
    ],
)
def test_xml_that_declares_anything_is_refused(prolog):
    feed = f"<?xml version='1.0'?>{prolog}<rss><channel><item><title>&b;&x;</title></item></channel></rss>"
    with pytest.raises(UnreadableFeed):
        rows_of_text(feed, "merchant-xml")


def test_deep_nesting_is_refused():
    with pytest.raises(UnreadableFeed, match="deeper"):
        rows_of_text("<rss>" + "<a>" * 2_000 + "</a>" * 2_000 + "</rss>", "merchant-xml")
    for format_name in ("shopify", "woocommerce", "jsonld"):
        with pytest.raises(UnreadableFeed):
            rows_of_text("[" * 200_000 + "]" * 200_000, format_name)


@pytest.mark.parametrize("valid", [0, 3, 4])
def test_large_table_that_is_mostly_refused_is_refused(monkeypatch, valid):
    """Of a feed of another kind, the list of refused rows would have no end."""
    monkeypatch.setattr(tables, "_MANY_REFUSED", 3)
    for format_name, good, bad in (("csv", "1,2\n", "1,2,3\n"), ("jsonl", '{"a": 1}\n', "[1]\n")):
        raw = ("a,b\n" if format_name == "csv" else "") + good * valid + bad * 4
        read = partial(read_table, [Document(raw.encode())], FORMATS[format_name], Context())
        if valid == 4:
            assert (len(read().rows), len(read().refused)) == (4, 4)
        else:
            with pytest.raises(UnreadableFeed, match="more than 3 rows are refused; line"):
                read()


def test_xml_of_one_endless_tag_or_item_is_refused(monkeypatch):
    monkeypatch.setattr(merchant, "_MAX_TAG", 10_000)
    monkeypatch.setattr(merchant, "_MAX_ITEM", 10_000)
    with pytest.raises(UnreadableFeed, match="more than 10000 bytes"):
        rows_of_text("<rss><channel><item a='" + "x" * 30_000, "merchant-xml")
    with pytest.raises(UnreadableFeed, match="the item has more than 10000 characters"):
        rows_of_text("<rss><channel><item>" + "<a>0123456789</a>" * 1_001, "merchant-xml")


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        ("-1.00", "must be above zero"),
        ("0.00", "must be above zero"),
        ("100000.01", "is above 100,000"),
        ("1e9", "is not a number"),
        ("9.9999", "has more than 2 decimals"),
        ("NaN", "is not a number"),
        ("Infinity", "is not a number"),
        ("1" * 60, "is not a number"),
        ("POA", "is not a number"),
        ("", "has no price"),
        (None, "has no price"),
        (True, "is a number, not text"),
        ([], "is a number, not text"),
    ],
)
def test_absurd_prices_are_refused_with_the_reason(price, reason):
    (row,) = rows_of_text(shopify(mattress(price=price)), "shopify")
    assert (row.product, row.id) == (None, "1-queen")
    assert reason in row.refused


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1490.00 AUD", "1490.00", "AUD"),
        ("AUD 1,490", "1490", "AUD"),
        ("A$1,490.50", "1490.50", "AUD"),
        ("$1490", "1490", ""),
        ("1.490,00 EUR", "1490.00", "EUR"),
        ("1490,00", "1490.00", ""),
        ("1 490.00", "1490.00", ""),
        (1490, "1490", ""),
        (1490.5, "1490.5", ""),
        ("\u00a3900", "900", "GBP"),
    ],
)
def test_sums_are_read_as_shops_write_them(text, amount, currency):
    assert tuple(map(str, feed_money(text))) == (amount, currency)


@pytest.mark.parametrize("text", ["12,34,56", "1490 or so", "0x10", "--5", "5-", {}, True, "1.2.3"])
def test_what_is_no_sum_is_refused(text):
    with pytest.raises(FeedItemError, match="is not a number"):
        feed_money(text)


def test_sum_that_could_mean_two_things_is_refused():
    """One thousand four hundred and ninety on the continent, and one and a half elsewhere."""
    (row,) = rows_of_text(shopify(mattress(price="1.490")), "shopify")
    assert row.refused == "the price 1.490 could be thousands or three decimals"


def test_same_id_twice_is_refused_the_second_time():
    rows = rows_of_text("id,item_group_id,title,price,size\na,G,Gull,10,Queen\na,G,Gull,20,King\n", "csv")
    assert [(row.line, row.id, row.refused) for row in rows] == [(2, "G-queen", ""), (3, "", "has the id of line 2")]


def test_quote_that_is_not_closed_is_reported_with_its_lines():
    feed = 'id,title,price\n1,"Cloud,10\n2,Gull,20\n3,Tern,30\n'
    (row,) = rows_of_text(feed, "csv")
    assert (row.line, "continues to line" in row.refused) == (2, True)


def test_row_without_id_or_title_is_refused():
    rows = by_id(rows_of_text("id,title,price\n,Cloud,10\n2,,20\n###,Tern,30\n", "csv"))
    assert [(row.line, row.refused) for row in rows.values()] == [
        (2, "has no id"),
        (3, "has no title"),
        (4, "the id must be at most 120 printable characters with a letter or digit"),
    ]


def test_links_that_are_no_web_addresses_are_refused_and_such_pictures_left_out():
    feed = "id,title,price,link,image\n1,Cloud,10,javascript:alert(1),data:x\n2,Tern,10,https://t.example,data:x\n"
    bad, good = rows_of_text(feed, "csv")
    assert "address of its page" in bad.refused
    assert "image_url" not in good.product


def test_scripts_and_control_characters_never_reach_a_product():
    product = mattress(
        title="Cl\u0000oud\u202e <b>Queen</b>", body_html="a<script>alert(1)</script>&lt;script&gt;x&lt;/script&gt;b"
    )
    (row,) = rows_of_text(shopify(product), "shopify")
    assert row.product["title"].isprintable()
    assert "script" not in row.product["description"]
    assert "alert" not in row.product["description"]


def test_json_in_a_page_may_break_small_rules_but_a_broken_block_makes_it_unreadable():
    assert len(rows_of_file("page.html", "jsonld")) == 4
    page = (FEEDS / "page.html").read_text("utf-8") + '<script type=application/ld+json>{"@type": "Pro</script>'
    with pytest.raises(UnreadableFeed, match="malformed"):
        rows_of_text(page, "jsonld")


def test_references_that_go_in_circles_end():
    page = {"@graph": [{"@type": "ProductGroup", "@id": "a", "name": "A", "hasVariant": [{"@id": "a"}, {"@id": "b"}]},
                       {"@type": "Product", "@id": "b", "name": "B", "isVariantOf": {"@id": "a"},
                        "offers": {"@id": "b"}}]}  # fmt: skip
    assert all(row.refused for row in rows_of_text(json.dumps(page), "jsonld"))


def test_deflate_bomb_is_never_unpacked_whole():
    with pytest.raises(UnreadableFeed, match="zero bytes"):
        Document(gzip.compress(gzip.compress(b"\0" * 50_000_000), mtime=0)).text()
    packer = zlib.compressobj(wbits=31)
    raw = packer.compress(b" " * 70_000_000) + packer.flush()
    with pytest.raises(UnreadableFeed, match="has to be read as a whole"):
        Document(raw).text()
