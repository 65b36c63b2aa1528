"""Items as rows of a file."""

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from tests.catalogue.shop import SHOP, item, stock
from tollhouse.catalogue.exports import csv_rows, ndjson_rows
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.csv_text import read_cell


def read(rows):
    return list(csv.DictReader(io.StringIO(b"".join(rows).decode(), newline="")))


def test_csv_has_every_exported_field_and_no_hidden_one():
    engine = stock(
        TantivyEngine(SHOP),
        item("a", 'Say "cloud", soft', tags=["x", "y"], price=10.5, in_stock=True, specs={"n": [1]}, secret="s"),
    )
    (row,) = read(csv_rows(SHOP, engine.items(CatalogueQuery())))
    assert list(row) == list(SHOP.exported)
    assert (row["title"], row["tags"], row["price"], row["in_stock"]) == ('Say "cloud", soft', "x|y", "10.5", "true")
    assert json.loads(row["specs"]) == {"n": [1]}
    assert row["brand"] == ""


def test_csv_without_items_is_its_header():
    assert b"".join(csv_rows(SHOP, [], ("price",))) == b"id,price\r\n"


def test_formula_is_defused_in_csv_alone():
    rows = [item("a", "=HYPERLINK(1)"), item("b", "-", price=-5)]
    assert [row["title"] for row in read(csv_rows(SHOP, rows))] == ["'=HYPERLINK(1)", "'-"]
    assert read(csv_rows(SHOP, rows))[1]["price"] == "-5"
    assert json.loads(next(iter(ndjson_rows(rows))))["title"] == "=HYPERLINK(1)"


@given(title=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1))
def test_any_title_survives_both(title):
    made = item("a", title)
    assert json.loads(b"".join(ndjson_rows([made])))["title"] == title
    assert read_cell(read(csv_rows(SHOP, [made]))[0]["title"]) == title
