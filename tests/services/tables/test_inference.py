"""The types that `tollhouse new` infers, and how files are read."""

import io
import json

import pytest

from tests.services.tables.books import as_csv, book, books
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.formats.csv import delimiter_of
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.cli.new import format_by_ending
from tollhouse.config.declaration import ROOT_PATHS, service_fault
from tollhouse.services.tables.declaration import Source, field_fault, field_names
from tollhouse.services.tables.inference import Column, infer_column, infer_table
from tollhouse.services.tables.loader import parse_table


def table_of(raw, name="a.csv"):
    raw = raw.encode() if isinstance(raw, str) else raw
    form = format_by_ending(name).name
    delimiter = delimiter_of(Document(raw)) if form == "csv" else ","
    return parse_table(Source(name, form, delimiter=delimiter), [Document(raw)])


def inferred(*values: object, name="thing", times=1):
    cells = list(values) * times
    return infer_column(Column(name, name, cells, range(2, len(cells) + 2)))


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        (("1", "-20", "1,200"), "n", {"type": "integer", "filtered": True, "sorted": True}),
        (("1", "2"), "year", {"type": "integer"}),
        (("1.5", "20", ".5"), "n", {"type": "number", "decimal": "."}),
        (("1,5", "20", "1.200,25"), "n", {"type": "number", "decimal": ","}),
        (("12%", "3.5 %"), "n", {"type": "number"}),
        (("$1.50", "$20"), "n", {"type": "money", "currency": "USD"}),
        (("12,50 €", "3 €"), "n", {"type": "money", "currency": "EUR", "decimal": ","}),
        (("100", "250"), "unit_price", {"type": "money", "currency": ""}),
        (("100", "250"), "Price (€)", {"type": "money", "currency": "EUR"}),
        (("100", "2.5"), "Cost USD", {"type": "money", "currency": "USD"}),
        (("$1", "$2"), "Fee AUD", {"type": "money", "currency": "AUD"}),
        (("1", "2"), "CAD files", {"type": "integer", "currency": ""}),
        (("€ 1.50", "£2", "3 CHF"), "n", {"type": "keyword"}),
        (("12%", "3%"), "Share", {"type": "integer", "label": "Share (%)"}),
        (("ja", "nein"), "n", {"type": "boolean"}),
        (("7 Oct 2012", "31 December 1999"), "n", {"type": "date", "format": "DD MMM YYYY"}),
        (("Sept 3, 2020", "Jan 31, 2021"), "n", {"type": "date", "format": "MMM DD, YYYY"}),
        (("47.37, 8.54", "(-1.5, 120)"), "n", {"type": "point"}),
        (("POINT (8.54 47.37)", "POINT(8 47)"), "n", {"type": "point"}),
        (("97.37, 8.54", "1, 2"), "n", {"type": "keyword"}),
        (("00123", "04567"), "Postcode", {"type": "keyword"}),
        (("007", "100"), "n", {"type": "keyword"}),
        (("100", "250"), "zip_code", {"type": "keyword"}),
        (("1", "NA", "3"), "n", {"type": "integer", "empty": ("NA",)}),
        (("DE", "NA", "FR"), "n", {"type": "keyword", "empty": ()}),
        (("yes", "No"), "n", {"type": "boolean", "faceted": True}),
        (("0", "1"), "n", {"type": "integer"}),
        (("0", "1"), "is_open", {"type": "boolean"}),
        (("2024-01-31", "1999-12-01"), "n", {"type": "date", "format": "YYYY-MM-DD"}),
        (("31/01/2024", "01/02/2024"), "n", {"type": "date", "format": "DD/MM/YYYY"}),
        (("01/31/2024", "01/02/2024"), "n", {"type": "date", "format": "MM/DD/YYYY"}),
        (("31.1.2024", "1.12.2024"), "n", {"type": "date", "format": "DD.MM.YYYY"}),
        (("2024-02-30",), "n", {"type": "keyword"}),
        (("20240131",), "birth_date", {"type": "date", "format": "YYYYMMDD"}),
        (("20240131",), "n", {"type": "integer"}),
        (("2024-01-31 10:00", "2024-01-31T10:00:05+02:00"), "n", {"type": "moment"}),
        (("2024-01-31 00:00:00",), "n", {"type": "date"}),
        (("https://a.example/x", "http://b.example"), "n", {"type": "url", "filtered": False}),
        (("https://a.example/x.PNG?w=2",), "n", {"type": "image"}),
        (("x" * 300,), "n", {"type": "text", "searched": 1}),
        ((True, False), "n", {"type": "boolean"}),
        ((1, 2.5), "n", {"type": "number"}),
        ((["a", "b"], ["a"]), "n", {"type": "list"}),
        (({"a": 1},), "n", {"type": "json"}),
        (([1, {"a": 2}],), "n", {"type": "json"}),
        (("ACME 12", "QFA 300"), "n", {"type": "keyword"}),
        ((str(2**60),), "n", {"type": "number"}),
    ],
)  # fmt: skip
def test_column_is_the_narrowest_type_that_all_of_it_fits(values, name, expected):
    field = inferred(*values, name=name).field
    assert {key: getattr(field, key) for key in expected} == expected


def test_few_values_are_counted_and_many_are_not():
    assert inferred("red", "green", "blue", times=5).field.faceted
    assert not inferred(*(f"word{number}" for number in range(600)), times=3).field.faceted


@pytest.mark.parametrize("separator", ["|", ";", ", "])
def test_several_values_in_a_cell_are_a_list(separator):
    genres = [
        separator.join(pair) for pair in (("Drama", "War"), ("Drama",), ("War", "Noir"), ("Noir", "Drama", "War"))
    ]
    field = inferred(*genres, times=9).field
    assert (field.type, field.separator) == ("list", separator.strip())


def test_comma_inside_of_few_values_is_no_list():
    field = inferred("Procurement, Army", "Procurement, Navy", times=20).field
    assert field.type == "keyword"


def test_column_that_nearly_fits_is_reported_with_the_line_that_does_not():
    [remark] = inferred(*(str(number) for number in range(99)), "twelve").remarks
    assert "1 of 100 values are not a number, such as 'twelve' on line 101" in remark


def test_days_that_could_be_months_are_reported():
    assert "could be MM/DD/YYYY as well" in inferred("01/02/2024", "03/04/2024").remarks[0]
    assert inferred("01/02/2024", "31/04/2024").remarks == ()
    assert inferred("01/02/2024", "31/03/2024").remarks == ()


def test_identity_and_title_are_inferred():
    result = infer_table(table_of(books(50)))
    assert (result.id, result.title) == ("ISBN", "book_title")
    repeated = infer_table(table_of(as_csv([book(1), book(1), book(2)])))
    assert repeated.id == ""


def test_short_names_that_no_two_rows_share_are_titles():
    rows = "".join(f"B{number},{'ferry' if number % 2 else 'tram'},{number}.5\n" for number in range(9))
    assert infer_table(table_of(f"line,vehicle,km\n{rows}")).title == "line"


def test_table_of_ids_alone_keeps_its_column():
    result = infer_table(table_of("id\na1\nb2\n"))
    assert (result.id, list(result.fields)) == ("id", ["id_2"])


def test_table_of_numbers_alone_is_named_by_its_id():
    assert infer_table(table_of("x,y\n1.5,2\n3,4.5\n")).title == "id"


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        (("Prix (€)", "Prix", "prix"), ["prix", "prix_2", "prix_3"]),
        (("", "最高", "2nd"), ["column_1", "column_2", "n_2nd"]),
        (("id", "Limit", "sort", "q"), ["id_2", "limit_2", "sort_2", "q_2"]),
        (("Min Price", "max-price", "min_"), ["price_min", "price_max", "min"]),
        (("Größe", "Ångström", "x" * 90), ["grosse", "angstrom", "x" * 36]),
    ],
)
def test_header_becomes_a_name_that_nothing_else_has(headers, names):
    result = list(field_names(headers))
    assert result == names
    assert [field_fault(name) for name in result] == [""] * len(result)


@pytest.mark.parametrize("name", ["", "Books", "-a", "a-", "a_b", "a" * 29, "../x", "mattress", "tables", "docs"])
def test_service_cannot_be_called(name):
    assert service_fault(name, {"mattress"})


async def test_no_service_can_stand_where_a_page_of_the_server_stands(data_dir):
    from tollhouse import app
    from tollhouse.config.settings import Settings

    async with app.serving(Settings(data_dir=str(data_dir), recorded=False, background_work=False)) as server:
        router = server._router
        paths = [*router._literal, *router._templates]
    first = {path.split("/")[1] for path in paths}
    possible = {name for name in first if not service_fault(name, ())}
    assert possible == {"defense", "mattress", "studio", "infra"}, "add the new page's place to naming.ROOT_PATHS"
    assert {"board", "tables", "problems"} <= ROOT_PATHS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_is_read_whatever_its_encoding_and_delimiter(encoding, delimiter):
    text = as_csv(
        [["Zoë", 'a "quoted"\nword', "1,5"], ["Åse", "b, c; d", "2"]], ("name", "said", "n"), delimiter=delimiter
    )
    table = table_of(text.encode(encoding))
    assert table.columns == ("name", "said", "n")
    assert [list(row.cells) for row in table.rows] == [["Zoë", 'a "quoted"\nword', "1,5"], ["Åse", "b, c; d", "2"]]
    assert [row.line for row in table.rows] == [2, 4]


def test_headers_that_are_odd_are_told_apart_and_columns_of_nothing_left_out():
    table = table_of("a, a ,,b\n1,2,,3\n\n4,5,,6,\n")
    assert table.columns == ("a", "a (2)", "b")
    assert [list(row.cells) for row in table.rows] == [["1", "2", "3"], ["4", "5", "6"]]


def test_second_header_of_hashtags_is_no_row():
    assert len(table_of("year,name\n#date+year,\n1998,x\n").rows) == 1


def test_json_lines_are_read_and_those_that_are_none_are_refused():
    lines = ['{"a": 1, "b": ["x"]}', "", '{"a": 2, "c": null}', "[1]", "{", '{"a": "\\ud800"}']
    table = table_of("\ufeff" + "\n".join(lines), "a.jsonl")
    assert table.columns == ("a", "b", "c")
    assert [list(row.cells) for row in table.rows][:2] == [[1, ["x"], None], [2, None, None]]
    assert {each.line for each in table.refused} >= {4, 5}


def test_parquet_is_read_with_its_types():
    from datetime import UTC, date, datetime
    from decimal import Decimal

    import pyarrow as pa
    from pyarrow.parquet import write_table

    columns = {
        "Name": ["a", None],
        "n": [1, 2],
        "x": [0.5, float("nan")],
        "price": pa.array([Decimal("1.50"), None]),
        "day": [date(2024, 1, 31), None],
        "at": pa.array([datetime(2024, 1, 31, 10, tzinfo=UTC), None], pa.timestamp("ns", "Europe/Paris")),
        "tags": [["x", "y"], []],
        "raw": [b"\xff", None],
        "deep": [{"a": 1}, None],
    }
    out = io.BytesIO()
    write_table(pa.table(columns), out)
    table = table_of(out.getvalue(), "a.parquet")
    first, second = (dict(zip(table.columns, row.cells, strict=True)) for row in table.rows)
    assert json.dumps(first) == json.dumps({
        "Name": "a", "n": 1, "x": 0.5, "price": 1.5, "day": "2024-01-31", "at": "2024-01-31T10:00:00+00:00",
        "tags": ["x", "y"], "raw": None, "deep": {"a": 1},
    })  # fmt: skip
    assert (second["x"], second["tags"]) == (None, [])
    types = {name: field.type for name, field in infer_table(table).fields.items()}
    assert types == {
        "name": "keyword", "n": "integer", "x": "number", "price": "money", "day": "date", "at": "moment",
        "tags": "list", "raw": "text", "deep": "json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"", "a.csv"), (b"\n\n", "a.csv"), (b"", "a.jsonl"), (b"nonsense", "a.jsonl"), (b"", "a.parquet"),
        (b"PAR1 nonsense PAR1", "a.parquet"), (b"a,b\n1,2\n", "a.xlsx"), (b"a\n", "a.csv"),
        (b'a,b\n"' + b"x" * 200_000, "a.csv"),
        (b",".join(b"c%d" % n for n in range(300)) + b"\n" + b",".join([b"1"] * 300), "a.csv"),
    ],
)  # fmt: skip
def test_unusable_table_is_refused_in_words(raw, name):
    with pytest.raises(UnreadableFeed, match=r"\w+ \w+"):
        infer_table(table_of(raw, name))
