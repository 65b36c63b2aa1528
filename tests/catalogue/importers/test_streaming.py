"""Large files are read line by line, with the same result as if they were read as a whole."""

import gzip
import io
import json
import tracemalloc
from datetime import UTC, datetime

import pytest

from tollhouse.catalogue.importers import documents
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.feed import open_feed, read_items, read_table
from tollhouse.catalogue.importers.formats import FORMATS
from tollhouse.catalogue.importers.formats.csv import delimiter_of
from tollhouse.catalogue.importers.items import Context, UnreadableFeed
from tollhouse.catalogue.importers.tables import StreamedRows

CSV = '\nid,name,,\n#code,#name,,\n1,Caf\u00e9,,\r\n2,"two\nlines",x,\n\n3,too,many,cells,here\n4,\u4e16\u754c,,,,\n'
JSONL = "".join(json.dumps(each) + "\n" for each in ({"id": 1}, {"id": 2, "name": "Caf\u00e9"}, [1])) + "{broken\n"
TEXTS = {
    "csv": CSV.encode(),
    "csv with a mark": b"\xef\xbb\xbf" + CSV.encode(),
    "csv in windows-1252": CSV.replace("\u4e16\u754c", "y").encode("cp1252"),
    "csv in utf-16": CSV.encode("utf-16"),
    "csv of semicolons": CSV.replace(",", ";").encode(),
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
    assert isinstance(streamed.rows, StreamedRows) == (name not in ("csv in windows-1252", "csv in utf-16"))
    assert content(streamed) == content(whole)
    assert content(streamed) == content(whole)
    assert len(whole.rows) > 1
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


async def test_file_of_more_bytes_than_a_response_that_is_read_as_a_whole_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_WHOLE_BYTES", 1_000)
    path = tmp_path / "file.csv"
    path.write_text("id,title,price\n" + "".join(f"p{n},Cloud,{n}\n" for n in range(500)))
    async with open_feed(path, FORMATS["csv"], print) as loaded:
        assert len(read_table(loaded, FORMATS["csv"], Context()).rows) == 500
    response = Document(file=path, url="https://shop.example/file.csv")
    with pytest.raises(UnreadableFeed, match="has to be read as a whole: import a file"):
        read_table([response], FORMATS["csv"], Context())
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    assert len(read_table([response], FORMATS["csv"], Context()).rows) == 500


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
    whole = read_table([Document(file=path)], FORMATS[name], Context())
    items = read_items([Document(file=path)], FORMATS[name], Context())
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    monkeypatch.setattr(documents, "_PIECE_LENGTH", 7)
    streamed = read_table([Document(file=path)], FORMATS[name], Context())
    assert isinstance(streamed.rows, StreamedRows)
    assert content(streamed) == content(whole)
    assert content(streamed) == content(whole)
    assert read_items([Document(file=path)], FORMATS[name], Context()) == items
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


@pytest.mark.parametrize("name", FEEDS)
def test_memory_for_a_streamed_feed_does_not_grow_with_it(tmp_path, monkeypatch, name):
    monkeypatch.setattr(documents, "STREAMED_BYTES", 0)
    path, peaks = tmp_path / "file", []
    for rows in (500, 2_000):
        path.write_bytes(FEEDS[name](rows, "A mattress of latex. " * 100))
        tracemalloc.start()
        table = read_table([Document(file=path)], FORMATS[name], Context())
        assert sum(1 for _ in table.rows) == rows - (name == "merchant-xml")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert path.stat().st_size > 4_000_000
    assert peaks[1] < 1.2 * peaks[0], peaks
    assert peaks[1] < 6_000_000, peaks
