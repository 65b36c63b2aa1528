"""Any table is accepted or refused in words, and what the server counts agrees with what it exports."""

import asyncio
import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers.databases import migrated_copy
from tests.services.tables.books import as_csv, declare
from tests.services.tables.conftest import PLENTY, serving
from tollhouse.catalogue.importers.documents import Document
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.cli.new import format_by_ending
from tollhouse.services.tables.declaration import Head, Source, declaration_toml, parse_declaration
from tollhouse.services.tables.inference import infer_table
from tollhouse.services.tables.loader import parse_table
from tollhouse.services.tables.rows import items_from_rows

ODD = st.text(st.characters(codec="utf-8"), max_size=12)
CELLS = st.one_of(
    st.sampled_from(["", "NA", "-", "yes", "no", "0", "1", "007", "1,5", "$3", "a|b", "a|c", "red", "=1+1", ".", ".."]),
    st.integers().map(str),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    ODD,
)
HEADERS = st.one_of(ODD, st.sampled_from(["id", "id", "name", "class", "min_x", "x", "sort", "price", "date"]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
    max_leaves=6,
)
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def tables(draw):
    headers = draw(st.lists(HEADERS, min_size=1, max_size=5))
    whole = st.lists(CELLS, min_size=len(headers), max_size=len(headers))
    # Now and then a row is too short or too long.
    rows = draw(st.lists(st.one_of(whole, whole, whole, st.lists(CELLS, max_size=6)), min_size=1, max_size=8))
    return as_csv(rows, tuple(headers)).encode()


def items_of(raw, name):
    """The table in a file, and the items by the declaration that is made from it."""
    source = Source(name, format_by_ending(name).name)
    table = parse_table(source, [Document(raw)])
    inferred = infer_table(table)
    named = Source(name, source.format, id=inferred.id, title=inferred.title)
    text = declaration_toml(Head("Any", named, inferred.fields, free_per_day=PLENTY))
    return table, items_from_rows(parse_declaration(text, Path("any.toml")), table)


@MANY
@given(raw=st.one_of(tables(), st.binary(max_size=200)))
def test_any_csv_is_served_row_by_row_or_refused_in_words(raw):
    try:
        table, rows = items_of(raw, "any.csv")
    except UnreadableFeed:
        return
    assert len(rows.items) + len(rows.refused) == len(table.rows) + len(table.refused)
    assert len({item["id"] for item in rows.items}) == len(rows.items)


@MANY
@given(lines=st.lists(st.dictionaries(ODD, JSON, max_size=4), min_size=1, max_size=6))
def test_any_json_lines_are_served_row_by_row_or_refused_in_words(lines):
    raw = "\n".join(map(json.dumps, lines)).encode()
    try:
        table, rows = items_of(raw, "any.jsonl")
    except UnreadableFeed:
        return
    assert len(rows.items) + len(rows.refused) == len(table.rows) + len(table.refused)


async def _served(home) -> None:
    """Every request that is possible without knowing the table: all must succeed, and agree."""
    async with serving(home, "any") as client:
        health = (await client.get("/health")).json()
        description = (await client.get("/api/openapi.json")).json()
        whole = (await client.get("/api/items.json")).json()
        assert whole["total"] == health["item_count"]
        parameters = {each["name"]: each for each in description["paths"]["/api/items"]["get"]["parameters"]}
        names = parameters["facets"]["description"].partition("of: ")[2].split(", ")
        for sort in parameters["sort"]["schema"]["enum"]:
            assert (await client.get("/api/items", params={"sort": sort})).status_code == 200
        facets = [] if names == ["none"] else names
        parameters_with_facets = {"facets": ",".join(facets)} if facets else {}
        page = (await client.get("/api/items", params=parameters_with_facets)).json()
        assert page["total"] == whole["total"]
        for name in facets:
            await _agrees(client, name, page["facets"][name], whole["items"])
        for item in whole["items"]:
            single = await client.get(f"/api/items/{item['id']}")
            assert (single.status_code, single.json()["item"]) == (200, item) or item["id"].strip(string.printable)
        for path in ("/api/items.csv", "/api/items.ndjson", "/api/search?q=red", "/api/suggest?q=r", "/docs"):
            assert (await client.get(path)).status_code == 200


async def _agrees(client, name, facet, items) -> None:
    if isinstance(facet, dict):
        assert sum(bar["count"] for bar in facet["histogram"]) == sum(1 for item in items if item[name] is not None)
        return
    for each in facet:
        value = json.dumps(each["value"]) if isinstance(each["value"], bool) else str(each["value"])
        matching = (await client.get("/api/items", params={name: value})).json()
        assert matching["total"] == each["count"], (name, each)


@pytest.mark.timeout(240)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(raw=tables())
def test_any_table_that_new_takes_is_served(tmp_path_factory, raw):
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        migrated_copy(folder / "data")
        try:
            declare(folder, raw, name="any", free_per_day=PLENTY)
        except ValueError:
            return
        asyncio.run(_served(folder))
