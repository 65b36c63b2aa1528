"""Large files are read line by line, with the same result as if they were read as a whole."""

import gzip
import io
import json
import re
import tracemalloc
from datetime import UTC, datetime

import pytest

from tollhouse.catalogue.importers import documents
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import read_items, read_table
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.formats.csv import delimiter_of
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.json_text import json_parts
from tollhouse.catalogue.importers.tables import StreamedRows

CSV = '\nid,name,,\n#code,#name,,\n1,Caf\u00e9,,\r\n2,"two\nlines",x,\n\n3,too,many,cells,here\n4,\u4e16\u754c,,,,\n'
JSONL = "".join(json.dumps(each) + "\n" for each in ({"id": 1}, {"id": 2, "name": "Caf\u00e9"}, [1])) + "{broken\n"
TEXTS = {
    "csv": CSV.encode(),
    "csv with a mark": b"\xef\xbb\xbf" + CSV.encode(),
    "csv in windows-1252": CSV.replace("\u4e16\u754c", "y").encode("cp1252"),
    "csv in utf-16": CSV.encode("utf-16"),
    "csv of semicolons": CSV.replace(",", ";").encode(),
    "csv with a broken byte": CSV.encode() + b"5,\xff,,\n",
    "csv of carriage returns": CSV.replace("\r", "").replace("\n", "\r").encode("cp1252", "replace"),
    "jsonl in utf-16": JSONL.encode("utf-16"),
    "jsonl": JSONL.encode(),
}


def parquet(rows):
    import pyarrow as pa
    from pyarrow.parquet import write_table

    out = io.BytesIO()
    moments = [datetime(2024, 1, 1, 0, 0, n % 60, tzinfo=UTC) for n in range(rows)]
    columns = {"id": range(rows), "at": pa.array(moments, pa.timestamp("ns", "UTC")), "name": ["Caf\u00e9"] * rows}
    write_table(pa.table(columns), out, row_group_size=100)
    return out.getvalue()


def workbook(rows):
    from openpyxl import Workbook

    book, out = Workbook(), io.BytesIO()
    for cells in ([], ["id", "name", None, None], *([n, "Caf\u00e9", None] for n in range(rows)), [1, 2, 3, 4, 5]):
        book.active.append(cells)
    book.save(out)
    return out.getvalue()


@pytest.mark.parametrize(("name", "make"), [("parquet", parquet), ("xlsx", workbook)])
def test_streamed_file_of_typed_cells_equals_one_that_is_read_as_a_whole(tmp_path, monkeypatch, name, make):
    path = tmp_path / "file"
    path.write_bytes(make(250))
    whole = read_table([Document(file=path)], FORMATS[name], Context())
    assert content(read_table([Document(path.read_bytes())], FORMATS[name], Context())) == content(whole)
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    monkeypatch.setattr("tollhouse.catalogue.importers.formats.parquet._BATCH", 7)
    streamed = read_table([Document(file=path)], FORMATS[name], Context())
    assert isinstance(streamed.rows, StreamedRows)
    assert content(streamed) == content(whole)
    assert content(streamed) == content(whole)
    assert len(streamed.rows) == 250
    assert len(streamed.refused) == (name == "xlsx")


@pytest.mark.parametrize(("name", "make"), [("parquet", parquet), ("xlsx", workbook)])
def test_file_of_typed_cells_that_is_damaged_further_on_is_refused_before_a_row_is_read(
    tmp_path, monkeypatch, name, make
):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    path, raw = tmp_path / "file", bytearray(make(2_000))
    middle = len(raw) * 2 // 5
    raw[middle : middle + 400] = bytes(400)
    path.write_bytes(raw)
    with pytest.raises(UnreadableFeed, match="is not"):
        read_table([Document(file=path)], FORMATS[name], Context())


def content(table):
    return table.columns, list(table.rows), len(table.rows), table.refused


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_streamed_table_equals_one_that_is_read_as_a_whole(tmp_path, monkeypatch, name, is_gzip):
    path, form = tmp_path / "file", FORMATS[name.partition(" ")[0]]
    path.write_bytes(gzip.compress(TEXTS[name]) if is_gzip else TEXTS[name])
    whole = read_table([Document(file=path)], form, Context())
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    streamed = read_table([Document(file=path)], form, Context())
    assert isinstance(streamed.rows, StreamedRows)
    assert content(streamed) == content(whole)
    assert content(streamed) == content(whole)
    assert any("Caf\u00e9" in row.cells for row in whole.rows)
    if name.startswith("csv"):
        assert delimiter_of(Document(file=path)) == (";" if "semicolons" in name else ",")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (gzip.compress(CSV.encode(), mtime=0)[:-9], "gzip"),
        (b"id,name\n1,a\0b\n", "zero bytes"),
        (b"\n \n", "empty"),
    ],
)
def test_streamed_file_that_is_unreadable_is_refused(tmp_path, monkeypatch, raw, reason):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(UnreadableFeed, match=reason):
        read_table([Document(file=path)], FORMATS["csv"], Context())


def test_page_of_more_than_a_response_that_is_read_as_a_whole_is_read_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_WHOLE_BYTES", 1_000)
    path = tmp_path / "page.html"
    path.write_bytes(b"<script type=application/ld+json>" + json_ld(10))
    assert len(read_table([Document(file=path)], FORMATS["jsonld"], Context()).rows) == 10
    with pytest.raises(UnreadableFeed, match="1000 characters and has to be read as a whole: import a file"):
        read_table([Document(file=path, url="https://shop.example/")], FORMATS["jsonld"], Context())


def test_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    monkeypatch.setattr(documents, "_LONGEST_LINE", 1_000)
    path = tmp_path / "file"
    path.write_text('{"id": 1}\n{"id": "' + "x" * 2_000)
    with pytest.raises(UnreadableFeed, match="a line has more than 1000 characters"):
        read_table([Document(file=path)], FORMATS["jsonl"], Context())


ITEM = (
    "<item><g:id>p{n}</g:id><title>Cloud &amp; Caf\u00e9 {n}</title><g:price>{n}.50 AUD</g:price>"
    "<g:product_detail>Comfort:Firmness:Medium</g:product_detail>\n<description>{text}</description></item>"
)
RSS = '<?xml version="1.0"\n encoding="utf-8"?>\n<rss xmlns:g="http://base.google.com/ns/1.0"><channel>{items}</channel></rss>'
TSV_HEADER = "id\ttitle\tprice\tdescription\titem_group_id\n"


def merchant_xml(rows, text="Soft"):
    # One has no price.
    items = "".join(ITEM.format(n=n, text=text) for n in range(1, rows + 1)).replace("<g:price>3.50 AUD</g:price>", "")
    return RSS.format(items=items).encode()


def merchant_tsv(rows, text="Soft"):
    lines = [f"p{n}\tCloud Caf\u00e9 {n}\t{n}.50 AUD\t{text}\tg\n" for n in range(1, rows + 1)]
    return (TSV_HEADER + "too\tfew\n" + "".join(lines)).encode()


FEEDS = {"merchant-xml": merchant_xml, "merchant-tsv": merchant_tsv}


def shopify_json(rows, text="Soft"):
    products = [
        {"id": n, "title": f"Cloud Caf\u00e9 {n}", "body_html": f"<p>{text}</p>", "options": ["Size"],
         "variants": [{"id": n * 10 + at, "option1": ("Queen", "King")[at], "price": f"{n}.50"} for at in (0, 1)]}
        for n in range(1, rows // 2 + 1)
    ]  # fmt: skip
    return json.dumps({"vendor": {"name": "a"}, "products": [*products, 7], "count": rows}, indent=1).encode()


def woocommerce_json(rows, text="Soft"):
    price = {"price": "1999", "regular_price": "1999", "currency_code": "AUD", "currency_minor_unit": 2}
    half = rows // 2
    products = [{"id": n, "name": f"Cloud {n}", "description": text, "prices": price} for n in range(1, half + 1)]
    variations = [
        {"id": n + half, "parent": n, "type": "variation", "variation": "Size: Queen", "prices": price}
        for n in range(1, half + 1)
    ]
    # A variation may come before its product.
    return json.dumps([*variations, *products, {"id": 0, "name": "No price"}]).encode()


def json_ld(rows, text="Soft"):
    """Products in a list; every other one is given where its group is, and the list refers to it."""
    offer = {"@type": "Offer", "price": 999.5, "priceCurrency": "AUD", "seller": {"@id": "#shop"}}
    products = [
        {"@type": "Product", "@id": f"#{n}", "name": f"Cloud {n} \u00e9", "description": text, "offers": offer}
        for n in range(1, rows + 1)
    ]
    members = [
        {"@type": "ListItem", "item": product if n % 2 else {"@id": product["@id"]}}
        for n, product in enumerate(products)
    ]
    # In a group, a variant is not offered for itself.
    groups = [
        {
            "@type": "schema:ProductGroup",
            "@id": f"#g{n}",
            "name": "Group",
            "hasVariant": [products[n], {"@id": f"#{n + 2}"}],
        }
        for n in range(0, rows, 2)
    ]
    return json.dumps({"@context": "https://schema.org", "@graph": [*members, *groups], "name": "\u00e9"}).encode()


def shopify_csv(rows, text="Soft"):
    lines = ["Handle,Title,Body (HTML),Option1 Name,Option1 Value,Variant Price\n"]
    for n in range(rows // 2):
        lines += [f'cloud-{n},Cloud {n},"{text}, {n}",Size,Queen,{n}.50\n', f"cloud-{n},,,,King,{n}.75\n"]
    return "".join([*lines, ",nothing,,,,\n", "cloud-1,,,,Single,5,6\n"]).encode()


def woocommerce_csv(rows, text="Soft"):
    lines = ["ID,Type,SKU,Name,Published,Description,Regular price,Parent,Attribute 1 name,Attribute 1 value(s)\n"]
    for n in range(1, rows // 2 + 1):
        lines += [
            f'{n},variation,,,1,"{text}",{n}.50,id:{n + rows},Size,Queen\n',
            f'{n + rows},variable,s{n},Cloud {n},1,"{text}",,,Size,"Queen, King"\n',
        ]
    return "".join([*lines, "9999999,simple,,Pillow,0,,5,,,\n", "1,too,few\n"]).encode()


SHOPS = {
    "shopify": shopify_json,
    "woocommerce": woocommerce_json,
    "jsonld": json_ld,
    "shopify-csv": shopify_csv,
    "woocommerce-csv": woocommerce_csv,
}


def read_both_ways(path, name, monkeypatch):
    """The table of a file read as a whole, which is that of the file read in pieces of seven letters, twice."""
    whole = read_table([Document(file=path)], FORMATS[name], Context())
    items = list(read_items([Document(file=path)], FORMATS[name], Context()))
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    monkeypatch.setattr(documents, "_PIECE_LENGTH", 7)
    streamed = read_table([Document(file=path)], FORMATS[name], Context())
    assert isinstance(streamed.rows, StreamedRows)
    assert content(streamed) == content(whole)
    assert content(streamed) == content(whole)
    assert list(read_items([Document(file=path)], FORMATS[name], Context())) == items
    return whole


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("name", SHOPS)
def test_streamed_feed_of_a_shop_equals_one_that_is_read_as_a_whole(tmp_path, monkeypatch, name, is_gzip):
    path, raw = tmp_path / "file", SHOPS[name](40)
    path.write_bytes(gzip.compress(raw) if is_gzip else raw)
    whole = read_both_ways(path, name, monkeypatch)
    assert len(whole.rows) >= 20
    assert (name == "jsonld") != bool(whole.refused)


# The XML declares them, except latin-1.
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252", "iso-2022-jp", "latin-1"])
@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("name", FEEDS)
def test_streamed_merchant_feed_equals_one_that_is_read_as_a_whole(tmp_path, monkeypatch, name, is_gzip, encoding):
    path, text = tmp_path / "file", FEEDS[name](40).decode()
    if encoding != "latin-1":
        text = text.replace('encoding="utf-8"', f'encoding="{encoding}"')
    letter = "\u306e" if encoding == "iso-2022-jp" else "\u00e9"
    raw = text.replace("\u00e9", letter).encode(encoding)
    path.write_bytes(gzip.compress(raw) if is_gzip else raw)
    whole = read_both_ways(path, name, monkeypatch)
    assert (len(whole.rows), len(whole.refused)) == ((39, 1) if name == "merchant-xml" else (40, 1))
    assert "Cloud" in whole.rows[0].cells[2]
    if name == "merchant-xml" or encoding != "iso-2022-jp":
        assert f"Caf{letter}" in whole.rows[0].cells[2]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (merchant_xml(300)[:-40], "not well-formed"),
        (b'<!DOCTYPE r [<!ENTITY a "b">]>' + merchant_xml(300).partition(b"?>\n")[2], "declares entities"),
        (gzip.compress(merchant_xml(300), mtime=0)[:-9], "gzip"),
        (b"\n \n", "empty"),
    ],
)
def test_streamed_xml_that_is_unreadable_is_refused_before_a_row_is_read(tmp_path, monkeypatch, raw, reason):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(UnreadableFeed, match=reason):
        read_table([Document(file=path)], FORMATS["merchant-xml"], Context())


def rejoined(text, length):
    """What a document says, from its parts."""
    pieces = [text[at : at + length] for at in range(0, len(text), length)]
    value = None
    for part in json_parts(pieces, {"list"}):
        decoded = json.loads(part.text)
        if part.member is not None and not part.is_element:
            value = (value or {}) | {part.member: decoded}
        elif part.is_element:
            (value if part.member is None else value[part.member]).append(decoded)
        else:
            value = decoded
    return value


JSONS = (
    [], {}, [1, -2.5e3, "a", None, True, [[]], {"a": {}}], {"list": [], "a": 1},
    {"a": [1, 2], "list": [{"b": '"]},\\'}, 12]}, "text", 12.5,
    {"list": {"no": "list"}}, ["\u4e16" * 40, "\n\t\u0001", {"list": [1]}],
)  # fmt: skip


@pytest.mark.parametrize("indent", [None, 3])
@pytest.mark.parametrize("value", JSONS)
def test_parts_of_json_are_the_whole_however_it_is_cut(value, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=indent is None)
    for length in range(1, len(text) + 1):
        assert rejoined(f" {text}\n", length) == (None if value == {} else value)
    if isinstance(value, list | dict):
        for end in range(len(text)):
            with pytest.raises(UnreadableFeed):
                rejoined(text[:end], 5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2,]", "a value is missing"),
        ("[1 2]", "']' is missing (character 4)"),
        ("[1] 2", "something follows the end (character 5)"),
        ('{"a": 1,}', "'\"' is missing"),
        ('{"a" 1}', "':' is missing"),
        ("{a: 1}", "'}' is missing"),
        ("[" * 200_000, "nests too deeply"),
        ('[{"a": 1}, {"a" 2}, ' + "1, " * 200 + "3]", "Expecting ':' delimiter (character 17)"),
        (json.dumps(["x" * 2_000]), "a part of the JSON has more than 1000 characters"),
    ],
)
def test_parts_of_text_that_is_no_json_are_refused_with_the_place(monkeypatch, text, reason):
    monkeypatch.setattr("tollhouse.catalogue.importers.json_text._LONGEST_PART", 1_000)
    with pytest.raises(UnreadableFeed, match=re.escape(reason)):
        rejoined(text, 7)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("shopify", '{"products": [{"id": 1}], "errors": "Busy"}', "returned an error: Busy"),
        ("shopify", '{"goods": []}', "not a Shopify feed"),
        ("shopify", '{"products": {"id": 1}}', "not a Shopify feed"),
        ("shopify", '{"products": [{"id": 1}, {"id": 2]}', "malformed"),
        ("woocommerce", '{"code": "rest", "message": "No route"}', "returned an error: No route"),
        ("woocommerce", '{"data": []}', "no list of products"),
        ("woocommerce", '[{"id": 1}, {"id": 2]', "malformed"),
        ("jsonld", '{"@graph": [{"@type": "Product", "name": "A"}, {]}', "malformed"),
        ("jsonld", '{"@graph": [{"@type": "Thing"}]}', "no product in it"),
    ],
)
@pytest.mark.parametrize("streamed_bytes", [0, 1_000_000])
def test_feed_of_a_shop_that_is_unreadable_is_refused(tmp_path, monkeypatch, name, text, reason, streamed_bytes):
    monkeypatch.setattr(documents, "STREAMED_BYTES", streamed_bytes)
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(UnreadableFeed, match=reason):
        read_table([Document(file=path)], FORMATS[name], Context())


def test_large_json_ld_with_slips_is_read_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    path = tmp_path / "file"
    path.write_bytes(json_ld(10)[:-1] + b", }")
    assert len(read_table([Document(file=path)], FORMATS["jsonld"], Context()).rows) == 10


@pytest.mark.parametrize("name", [*FEEDS, *SHOPS])
def test_memory_for_a_streamed_feed_does_not_grow_with_it(tmp_path, monkeypatch, name):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    monkeypatch.setattr(documents, "_CHUNK_BYTES", 4_096)
    monkeypatch.setattr(documents, "_PIECE_LENGTH", 4_096)
    monkeypatch.setattr("tollhouse.catalogue.importers.formats.csv._SAMPLE_LENGTH", 4_096)
    path, peaks = tmp_path / "file", []
    for rows in (10, 40, 120):
        path.write_bytes((FEEDS | SHOPS)[name](rows, "A mattress of latex. " * 500))
        tracemalloc.start()
        table = read_table([Document(file=path)], FORMATS[name], Context())
        assert sum(1 for _ in table.rows) >= rows // 2
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The first time, more is loaded than a feed.
    assert peaks[2] < peaks[1] + path.stat().st_size // 8, peaks
