"""The tantivy index of one catalogue: its columns, and a view of one publication.

A searched field has its stems, and all searched fields share one more column, in which it is quick to see which rows
have a word at all. A filtered field has its keys or numbers, a counted one its labels, and a sorted one two columns
that are never empty, one for each direction, so that items without a value come last in both. The column `rows` marks
every row as a row, and some rows as a sample. Ids and sorted texts are written in hexadecimal digits, in the same
order: the engine reads the end of a range of texts from its query language, which cannot quote one.
"""

from functools import cache, cached_property
from hashlib import sha256
from typing import Any
from zlib import crc32

import msgspec
from tantivy import FieldType as ColumnType
from tantivy import Index, Order, SchemaBuilder, Searcher
from tantivy import Query as IndexQuery
from tantivy import Schema as IndexSchema

from tollhouse.catalogue import items
from tollhouse.catalogue.items import Comparable, Item
from tollhouse.catalogue.schema import Field, FieldType, Schema
from tollhouse.catalogue.tokens import plain_analyzer, stemming_analyzer

# Increase when columns change: an index with another number is rebuilt.
LAYOUT = 4

STEMS = "s"
WORDS = "w"
TITLE_WORDS = "title_words"
ROWS = "rows"
ANY_ROW, SAMPLE = "any", "sample"
BODY = "body"
STEMMED, UNSTEMMED = "stemmed", "unstemmed"
TOKENIZERS = {STEMMED: stemming_analyzer(), UNSTEMMED: plain_analyzer()}

# One row in this many is in the sample, chosen by a hash of its id.
SAMPLED = 128

_TEXTUAL = {"keyword", "keywords"}
_LAST_TEXT, _LAST_WHOLE, _LAST_NUMBER = "\U0010ffff", 2**63 - 1, float("inf")

Hit = tuple[Any, Any]

# An aggregation that counts the matching rows, to be run together with others.
TOTAL = "#"
COUNT = {TOTAL: {"value_count": {"field": "id"}}}


def layout(schema: Schema) -> str:
    """The same for indexes with the same columns and rows."""
    return sha256(msgspec.json.encode((LAYOUT, schema), order="deterministic")).hexdigest()[:16]


def stems_column(name: str) -> str:
    return f"t_{name}"


def value_column(field: Field) -> str:
    """The column for filters: keys of keywords, numbers of other types."""
    return f"k_{field.name}" if field.type in _TEXTUAL else f"n_{field.name}"


def count_column(field: Field) -> str:
    """The column for facets: labels of keywords, numbers of other types."""
    return f"f_{field.name}" if field.type in _TEXTUAL else f"n_{field.name}"


def order_column(name: str, *, is_descending: bool) -> str:
    if name == "id":
        return "id"
    return f"{'d' if is_descending else 'a'}_{name}"


def build_index_schema(schema: Schema) -> IndexSchema:
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


def index_row(schema: Schema, item: Item) -> dict[str, Any]:
    """The row of a prepared item: its values by column."""
    columns: dict[str, Any] = {
        "id": text_place(item["id"]),
        BODY: items.encode_item(items.visible_members(schema, item)),
    }
    columns[ROWS] = [ANY_ROW, SAMPLE] if crc32(item["id"].encode()) % SAMPLED == 0 else ANY_ROW
    texts = {field.name: _searched_text(item.get(field.name)) for field in schema.searched}
    columns |= {stems_column(name): text for name, text in texts.items() if text}
    columns[STEMS] = columns[WORDS] = list(filter(None, texts.values()))
    columns[TITLE_WORDS] = _searched_text(item.get(schema.title))
    for field in schema.compared:
        columns |= _compared_columns(field, items.comparable_values(schema, item, field.name), item.get(field.name))
    return columns


def text_place(text: str) -> str:
    """A text as the columns of ids and orders have it: in order like the text itself."""
    return f"x{text.encode(errors='replace').hex()}"


def equal(schema: IndexSchema, kind: FieldType, column: str, value: Comparable) -> IndexQuery:
    if isinstance(value, str):
        return IndexQuery.term_query(schema, column, value, index_option="basic")
    return between(schema, kind, column, value, value)


def between(schema: IndexSchema, kind: FieldType, column: str, low: float | None, high: float | None) -> IndexQuery:
    """Rows with a number in this inclusive range in a column."""
    stored = ColumnType.Float if kind == "number" else ColumnType.Integer
    return IndexQuery.range_query(schema, column, stored, low, high)


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


def _compared_columns(field: Field, values: list[Comparable], as_written: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if values and (field.filtered or (field.faceted and field.type not in _TEXTUAL)):
        columns[value_column(field)] = values
    if values and field.faceted and field.type in _TEXTUAL:
        columns[count_column(field)] = as_written if isinstance(as_written, list) else [as_written]
    for column in _order_columns(field):
        columns[column] = _ordering(field, values[0] if values else None, is_descending=column.startswith("d_"))
    return columns


def _ordering(field: Field, value: Comparable | None, *, is_descending: bool) -> Comparable:
    """The sort value. Numbers are negated for the descending order; text columns are read in reverse instead."""
    if field.type in _TEXTUAL:
        last = "" if is_descending else _LAST_TEXT
        return text_place(last if value is None else str(value))
    if value is None:
        return _LAST_NUMBER if field.type == "number" else _LAST_WHOLE
    assert not isinstance(value, str)
    return -value if is_descending else value


def _searched_text(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else value or ""


class View:
    """An immutable snapshot of the rows at one publication."""

    def __init__(self, schema: Schema, columns: Any, searcher: Searcher) -> None:
        self.schema = schema
        self.columns = columns
        self.searcher = searcher
        self.sample = IndexQuery.term_query(columns, ROWS, SAMPLE, index_option="basic")
        self.is_one_segment = searcher.num_segments <= 1
        # Cached counts over all rows.
        self.counts: dict[str, Any] = {}

    def __len__(self) -> int:
        return int(self.searcher.num_docs)

    @cached_property
    def rows_ever(self) -> int:
        """The number of rows, including those removed since the last merge."""
        return self.row_count(ROWS, ANY_ROW)

    @cached_property
    def _parser(self) -> Index:
        return Index(self.columns)

    def count(self, query: IndexQuery) -> int:
        return int(self.aggregate(query, COUNT)[TOTAL]["value"])

    def best(self, query: IndexQuery, limit: int) -> tuple[int, list[Hit]]:
        """The number of matching rows, and those with the highest scores; equal ones by id within each segment."""
        result: Any = self.searcher.search(query, max(limit, 1))
        return int(result.count), result.hits[:limit]

    def first(self, query: IndexQuery, column: str, limit: int, *, backwards: bool = False) -> list[Hit]:
        """The matching rows with the smallest (or largest) values in a column; equal ones in any order."""
        order = Order.Desc if backwards else Order.Asc
        return self.searcher.search(query, max(limit, 1), count=False, order_by_field=column, order=order).hits[:limit]

    def aggregate(self, query: IndexQuery, request: dict[str, Any]) -> dict[str, Any]:
        return self.searcher.aggregate(query, request)

    def beyond(self, field: Field, column: str, value: Comparable, *, backwards: bool = False) -> IndexQuery:
        """Rows with a larger value in a column, or `backwards` a smaller one."""
        if isinstance(value, str):
            ends = f"* TO {value}" if backwards else f"{value} TO *"
            return self._parser.parse_query(f"{column}:{{{ends}}}", [column])
        stored = ColumnType.Float if field.type == "number" else ColumnType.Integer
        return IndexQuery.range_query(self.columns, column, stored, value, None, include_lower=False)

    def row_count(self, column: str, term: str) -> int:
        """The number of rows with a term, including rows removed since the last merge."""
        return int(self.searcher.doc_freq(column, term))

    def item(self, address: Any) -> Item:
        """The visible members of the item in a row."""
        body: Any = self.searcher.doc(address).get_first(BODY)
        item: Item = msgspec.json.decode(body)
        return item
