"""How a schema's fields lie in the index: which columns a field has, and an item's row in them.

A searched field has its stems, and all of them together have one column more, in which it is quick to see which rows
have a word at all. A filtered field has its keys or numbers, a counted one its labels, an ordered one two columns that
are never empty, one for each direction, so that items without a value come last in both. One column says of every row
that it is one, and of some that they are a sample.
"""

from functools import cache
from typing import Any
from zlib import crc32

from tantivy import FieldType as ColumnType
from tantivy import Query, Schema, SchemaBuilder

from tollhouse.catalogue import items
from tollhouse.catalogue.field_values import Comparable
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Field, FieldType
from tollhouse.catalogue.schema import Schema as CatalogueSchema

# A change of what is indexed or how: folders with an index of another number are made anew.
LAYOUT = 3

STEMS = "s"
WORDS = "w"
TITLE_WORDS = "title_words"
ROWS = "rows"
ANY_ROW, SAMPLE = "any", "sample"
BODY = "body"
STEMMED, UNSTEMMED = "stemmed", "unstemmed"

# One row of so many is a sample; which, follows from the id alone.
SAMPLED = 128

_TEXTUAL = {"keyword", "keywords"}
_LAST_TEXT, _LAST_WHOLE, _LAST_NUMBER = "\U0010ffff", 2**63 - 1, float("inf")


def stems_column(name: str) -> str:
    """The words of a searched field."""
    return f"t_{name}"


def value_column(field: Field) -> str:
    """What a filter compares: keys of keywords, numbers of the rest."""
    return f"k_{field.name}" if field.type in _TEXTUAL else f"n_{field.name}"


def count_column(field: Field) -> str:
    """What a facet counts: labels of keywords as they are spelt, numbers of the rest."""
    return f"f_{field.name}" if field.type in _TEXTUAL else f"n_{field.name}"


def order_column(name: str, *, is_descending: bool) -> str:
    """What an order compares."""
    if name == "id":
        return "id"
    return f"{'d' if is_descending else 'a'}_{name}"


def built(schema: CatalogueSchema) -> Schema:
    """The index's own schema."""
    builder = SchemaBuilder()
    builder.add_text_field("id", fast=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(BODY, stored=True)
    builder.add_text_field(ROWS, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(STEMS, tokenizer_name=STEMMED, index_option="basic")
    builder.add_text_field(WORDS, tokenizer_name=UNSTEMMED, index_option="basic")
    builder.add_text_field(TITLE_WORDS, tokenizer_name=UNSTEMMED, index_option="basic")
    for field in schema.searched:
        builder.add_text_field(stems_column(field.name), tokenizer_name=STEMMED, index_option="freq")
    for field in schema.by_name.values():
        _add_columns(builder, field)
    return builder.build()


def row(schema: CatalogueSchema, item: Item) -> dict[str, Any]:
    """An item's values by column. The item must have been prepared."""
    columns: dict[str, Any] = {"id": item["id"], BODY: items.packed(items.shown(schema, item))}
    columns[ROWS] = [ANY_ROW, SAMPLE] if crc32(item["id"].encode()) % SAMPLED == 0 else ANY_ROW
    texts = {field.name: _searched_text(item.get(field.name)) for field in schema.searched}
    columns |= {stems_column(name): text for name, text in texts.items() if text}
    columns[STEMS] = columns[WORDS] = list(filter(None, texts.values()))
    columns[TITLE_WORDS] = _searched_text(item.get(schema.title))
    for field in schema.compared:
        columns |= _compared_columns(field, items.compared(schema, item, field.name), item.get(field.name))
    return columns


def equal(schema: Schema, kind: FieldType, column: str, value: Comparable) -> Query:
    """The rows that have this value in a column."""
    if isinstance(value, str):
        return Query.term_query(schema, column, value, index_option="basic")
    return between(schema, kind, column, value, value)


def between(schema: Schema, kind: FieldType, column: str, low: float | None, high: float | None) -> Query:
    """The rows whose value in a column of numbers lies in the range, both ends included."""
    stored = ColumnType.Float if kind == "number" else ColumnType.Integer
    return Query.range_query(schema, column, stored, low, high)


def _add_columns(builder: SchemaBuilder, field: Field) -> None:
    is_textual = field.type in _TEXTUAL
    add_number = builder.add_float_field if field.type == "number" else builder.add_integer_field
    if is_textual and field.filtered:
        builder.add_text_field(value_column(field), tokenizer_name="raw", index_option="basic")
    if is_textual and field.faceted:
        builder.add_text_field(count_column(field), fast=True, tokenizer_name="raw", index_option="basic")
    if not is_textual and (field.filtered or field.faceted):
        add_number(value_column(field), fast=True)
    for column in _order_columns(field):
        if is_textual:
            builder.add_text_field(column, fast=True, tokenizer_name="raw", index_option="basic")
        else:
            add_number(column, fast=True)


@cache
def _order_columns(field: Field) -> tuple[str, ...]:
    if not field.sorted or field.name == "id":
        return ()
    return tuple(order_column(field.name, is_descending=down) for down in (False, True))


def _compared_columns(field: Field, found: list[Comparable], as_written: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if found and (field.filtered or (field.faceted and field.type not in _TEXTUAL)):
        columns[value_column(field)] = found
    if found and field.faceted and field.type in _TEXTUAL:
        columns[count_column(field)] = as_written if isinstance(as_written, list) else [as_written]
    for column in _order_columns(field):
        columns[column] = _ordering(field, found[0] if found else None, is_descending=column.startswith("d_"))
    return columns


def _ordering(field: Field, value: Comparable | None, *, is_descending: bool) -> Comparable:
    """Numbers are negated for the descending order; text cannot be, and is read backwards."""
    if field.type in _TEXTUAL:
        return ("" if is_descending else _LAST_TEXT) if value is None else value
    if value is None:
        return _LAST_NUMBER if field.type == "number" else _LAST_WHOLE
    assert not isinstance(value, str)
    return -value if is_descending else value


def _searched_text(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else value or ""
