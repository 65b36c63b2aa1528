"""Type inference: what the columns of a table are, which one identifies rows, and which one names an item."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.catalogue.importers import values
from tollhouse.catalogue.importers.items import UnreadableFeed
from tollhouse.catalogue.importers.tables import Table
from tollhouse.catalogue.importers.values import DATE_FORMATS, DECIMAL_MARKS, YES_OR_NO, DateFormat
from tollhouse.catalogue.items import MAX_INTEGER, MAX_MONEY, key
from tollhouse.services.tables.declaration import MAX_FIELDS, Field, field_names
from tollhouse.services.tables.rows import cell_value

# Only so many rows are read.
MAX_SAMPLE_ROWS = 50_000

TITLE_WEIGHT = 10.0
# An item's name can be ordered by while it is no longer than this.
MAX_TITLE = 200
_TITLES = ("title", "name", "label", "headline", "subject", "product", "description")
_IDENTITIES = ("id", "uuid", "key", "code", "isbn", "sku", "ean", "gtin", "slug", "number", "no", "nr", "ref")
_MAX_ID = 64
# A column called a name may name many things alike, but not nearly all of them.
_MIN_TITLE_VARIETY = 0.02
# Words that stand for nothing in a column of numbers or dates; among names they may be one (NA is Namibia).
EMPTY_WORDS = frozenset({"na", "n/a", "null", "none", "nan", "nil", "-", "--", "?", "unknown", "n.a.", "\\n", "#n/a"})
# From this share on, cells that do not fit are worth a remark.
_NEARLY = 0.95

MAX_VALUES = 500
_MAX_NUMBERS = 60
_MAX_KEYWORD = 80
_MEAN_KEYWORD = 40
# What may stand between the values of a list, and in what share of the cells.
_SEPARATORS = (("|", 0.05), (";", 0.1), (",", 0.25))
_MONEY = re.compile(r"price|cost|amount|salary|revenue|budget|fare|fee|wage|income|(^|_)(usd|eur|gbp|aud)($|_)")
_CODE = re.compile(r"(^|_)(id|code|zip|postcode|postal|phone|isbn|ean|gtin|sku|ref|uuid)($|_|\d)")
_DAY = re.compile(r"date|day")
_PICTURE = re.compile(r"image|picture|photo|thumbnail|cover|logo|poster|img")
_PICTURE_FILE = re.compile(r"\.(png|jpe?g|gif|webp|svg|avif)($|\?)", re.IGNORECASE)
_CLAIM = re.compile(r"^(is|has|was|can|in|on)_|^(active|available|enabled|deleted|verified)$")


class Column(Struct, dict=True, eq=False):
    """A column: its header, the name of its field, its cells, and their lines."""

    header: str
    name: str
    cells: Sequence[Any]
    lines: Sequence[int]

    @cached_property
    def present(self) -> list[Any]:
        return [cell for cell in self.cells if not values.is_empty(cell)]

    @cached_property
    def texts(self) -> list[str]:
        """The same as text, without those that cannot be encoded."""
        return [text for cell in self.present if (text := _text(cell))]

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @cached_property
    def mean_length(self) -> float:
        return sum(map(len, self.texts)) / max(1, len(self.texts))

    @cached_property
    def is_percent(self) -> bool:
        return any(text.endswith("%") for text in self.texts)

    @cached_property
    def distinct(self) -> int:
        return len(set(map(key, set(self.texts))))

    @cached_property
    def currencies(self) -> list[str]:
        return sorted(set(filter(None, map(values.cell_currency, self.texts))))

    @property
    def currency(self) -> str:
        """The currency of the amounts, or that the header names: "$" in the cells is that of the header."""
        named = values.named_currency(self.header)
        in_cells = next(iter(self.currencies), "")
        return named if named and in_cells in ("", "USD") else in_cells

    @property
    def variety(self) -> float:
        """The share of different values: 1 when all differ."""
        return self.distinct / max(1, len(self.texts))

    @property
    def sample(self) -> str:
        return self.texts[0] if self.texts else ""


class InferredColumn(Struct, frozen=True):
    """A field, and remarks about its inference."""

    field: Field
    remarks: tuple[str, ...] = ()


def infer_column(column: Column) -> InferredColumn:
    """The narrowest type that fits all of a column."""
    if not column.present:
        return InferredColumn(Field("text"), (f"{column.name}: empty in every row",))
    if any(isinstance(cell, dict | list) for cell in column.present):
        return InferredColumn(_json_field(column))
    filled = [cell for cell in column.present if not _is_empty_word(cell)]
    if len(column.currencies) > 1:
        currencies = ", ".join(column.currencies)
        remark = f"{column.name}: amounts in {currencies}, so it stays text; amounts need one currency"
        return InferredColumn(_with_abilities(_text_field(column), column), (remark,))
    for field in _candidates(column) if filled else ():
        if all(_fits(field, cell) for cell in filled):
            words = sorted({cell.strip() for cell in column.present if _is_empty_word(cell)})
            return InferredColumn(
                _with_abilities(replace(field, empty=tuple(words)), column),
                tuple(_ambiguous_days(field, column, filled)),
            )
    return InferredColumn(
        _with_abilities(_list_field(column) or _text_field(column), column), tuple(_near_misses(column, filled))
    )


def _candidates(column: Column) -> Iterator[Field]:
    """Types to try, the narrowest first."""
    words = {text.casefold() for text in column.texts if not _is_empty_word(text)}
    if words <= YES_OR_NO - {"1", "0"} or (words <= {"0", "1"} and _CLAIM.search(column.name)):
        yield Field("boolean")
    if _DAY.search(column.name):
        yield Field("date", format="YYYYMMDD")
    has_zeros = any(re.match(r"[-+]?0\d", text) for text in column.texts)
    if not has_zeros and not _CODE.search(column.name):
        money = Field("money", currency=column.currency)
        is_money = bool(column.currency or _MONEY.search(column.name)) and not column.is_percent
        for mark in DECIMAL_MARKS:
            yield replace(money, decimal=mark) if is_money else Field("integer", decimal=mark)
            yield Field("number", decimal=mark)
        for mark in DECIMAL_MARKS:
            yield replace(money, decimal=mark)
    for kind in ("date", "moment"):
        for form in DATE_FORMATS:
            if form != "YYYYMMDD":
                yield Field(kind, format=form)
    yield Field("point")
    is_picture = bool(_PICTURE.search(column.name)) or all(map(_PICTURE_FILE.search, column.texts))
    yield Field("image" if is_picture else "url")


def _ambiguous_days(field: Field, column: Column, filled: Sequence[Any]) -> Iterator[str]:
    """A remark where no value shows whether the day or the month comes first."""
    other: DateFormat = "MM/DD/YYYY" if field.format == "DD/MM/YYYY" else "MM-DD-YYYY"
    is_day_first = field.format in ("DD/MM/YYYY", "DD-MM-YYYY")
    if is_day_first and all(_fits(replace(field, format=other), cell) for cell in filled):
        yield f"{column.name}: read as {field.format}, but all of it could be {other} as well: `format` says which"


def _fits(field: Field, cell: Any) -> bool:
    try:
        value = cell_value(field, cell)
    except ValueError:
        return False
    if field.type == "integer":
        return bool(abs(value) <= MAX_INTEGER)
    return field.type != "money" or bool(abs(value) <= MAX_MONEY)


def _with_abilities(field: Field, column: Column) -> Field:
    """The field with the abilities that its type has and its values make useful. Percentages say so in the label."""
    if column.is_percent and field.type in ("integer", "number") and "%" not in column.header:
        field = replace(field, label=f"{column.header} (%)")
    few = column.distinct <= MAX_VALUES and column.distinct * 2 <= len(column.texts)
    if field.type == "integer":
        return replace(field, filtered=True, sorted=True, faceted=few and column.distinct <= _MAX_NUMBERS)
    if field.type in ("number", "money", "boolean"):
        return replace(field, filtered=True, sorted=True, faceted=True)
    if field.type in ("date", "moment"):
        return replace(field, filtered=True, sorted=True)
    if field.type == "keyword":
        return replace(field, filtered=True, faceted=few, sorted=True, searched=3 if few else 2)
    return field


def _text_field(column: Column) -> Field:
    """A keyword where values are short; else text."""
    is_short = column.longest <= _MAX_KEYWORD and column.mean_length <= _MEAN_KEYWORD
    has_keys = len(column.texts) == len(column.present) and all(map(key, column.texts))
    return Field("keyword") if is_short and has_keys else Field("text", searched=1)


def _list_field(column: Column) -> Field | None:
    """A list where many cells hold several of few short values, with something between them."""
    for separator, share in _SEPARATORS:
        several = [text for text in column.texts if separator in text]
        if len(several) < max(2, share * len(column.texts)):
            continue
        parts = Counter(part.strip() for text in column.texts for part in text.split(separator) if part.strip())
        total = sum(parts.values())
        most_words = max(len(part.split()) for part in parts)
        # "Aircraft Procurement, Army" is one value: lists are made of fewer parts than there are lists.
        is_made_of_few = separator != "," or len(parts) < column.distinct
        is_short = most_words <= 4 and max(map(len, parts)) <= 40
        if is_made_of_few and is_short and len(parts) <= MAX_VALUES and len(parts) * 3 <= total:
            return Field("list", separator=separator, searched=3, filtered=True, faceted=True)
    return None


def _json_field(column: Column) -> Field:
    """A list of texts, or something that is only carried along."""
    field = Field("list", searched=3, filtered=True)
    try:
        values = Counter(part for cell in column.present for part in cell_value(field, cell) or ())
    except ValueError:
        return Field("json")
    if not values or not all(isinstance(cell, list) for cell in column.present) or not all(map(key, values)):
        return Field("json")
    if max(map(len, values)) > _MAX_KEYWORD or any(len(cell) > 100 for cell in column.present):
        return Field("json")
    return replace(field, faceted=len(values) <= MAX_VALUES and len(values) * 2 <= sum(values.values()))


def _near_misses(column: Column, filled: Sequence[Any]) -> Iterator[str]:
    """The first type that nearly every cell fits, with one that does not."""
    kinds: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("number", values.parse_number), ("date", values.parse_date), ("url", values.parse_url)
    )  # fmt: skip
    for name, read in kinds:
        wrong = [cell for cell in filled if not _reads(read, cell)]
        if 0 < len(wrong) <= (1 - _NEARLY) * len(filled):
            line = column.lines[column.cells.index(wrong[0])]
            yield (
                f"{column.name}: {len(wrong)} of {len(filled)} values are not a {name}, such as {str(wrong[0])[:40]!r} "
                f'on line {line}; with `type = "{name}"` name them in `empty`, or their rows are refused'
            )
            return


def _reads(read: Callable[[Any], Any], cell: Any) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True


def _text(cell: Any) -> str:
    try:
        return values.cell_text(cell)
    except ValueError:
        return ""


def _is_empty_word(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().casefold() in EMPTY_WORDS


class InferredTable(Struct, frozen=True):
    """`id` is a column or "", `title` a field or `id`; `remarks` are what to check."""

    fields: dict[str, Field]
    id: str
    title: str
    remarks: tuple[str, ...]


def infer_table(table: Table, on_progress: Callable[[int, int], None] = lambda *_: None) -> InferredTable:
    """The fields of a table; `on_progress` receives the rows read, of each column in turn, and their total.

    Raises UnreadableFeed for one without rows or with too many columns.
    """
    if not table.rows:
        raise UnreadableFeed("there is no row in it")
    if len(table.columns) > MAX_FIELDS:
        raise UnreadableFeed(f"it has {len(table.columns)} columns; a table has at most {MAX_FIELDS}")
    rows = list(islice(table.rows, MAX_SAMPLE_ROWS))
    columns = [
        Column(header, name, [row.cells[at] for row in rows], [row.line for row in rows])
        for at, (header, name) in enumerate(zip(table.columns, field_names(table.columns), strict=True))
    ]
    inferred: dict[str, InferredColumn] = {}
    for number, column in enumerate(columns, start=1):
        inferred[column.name] = infer_column(column)
        on_progress(number * len(rows) // len(columns), len(rows))
    identity = _identity(columns, {name: one.field for name, one in inferred.items()})
    remarks = [remark for one in inferred.values() for remark in one.remarks]
    if len(table.rows) > MAX_SAMPLE_ROWS:
        remarks.append(f"only the first {MAX_SAMPLE_ROWS:,} of {len(table.rows):,} rows were read")
    fields = {
        column.name: replace(inferred[column.name].field, column=column.header if column.header != column.name else "")
        for column in columns
        # Under its own name the identity is the item's `id` already; a table of nothing else keeps it.
        if not (identity is column and column.header.casefold() == "id" and len(columns) > 1)
    }
    title = _title(columns, fields)
    if title != "id":
        fields[title] = _title_field(fields[title], next(column for column in columns if column.name == title))
    return InferredTable(fields, identity.header if identity else "", title, tuple(remarks))


def _identity(columns: Sequence[Column], fields: dict[str, Field]) -> Column | None:
    """The column that has another value in each row: one called like an id, else one of the first."""
    candidates = [column for column in columns if _identifies(column, fields[column.name])]
    named = [(rank, column) for column in candidates if (rank := _rank(column.name, _IDENTITIES)) is not None]
    if named:
        return min(named, key=itemgetter(0))[1]
    first = (column for column in columns[:2] if column in candidates)
    return next((column for column in first if " " not in "".join(map(str, column.cells[:100]))), None)


def _identifies(column: Column, field: Field) -> bool:
    if field.type not in ("keyword", "text", "integer", "number") or len(column.texts) != len(column.cells):
        return False
    texts = column.texts
    fit = all(0 < len(text) <= _MAX_ID and "/" not in text and text.isprintable() for text in texts)
    return fit and len(set(texts)) == len(texts) and not {".", ".."} & set(texts)


def _title(columns: Sequence[Column], fields: dict[str, Field]) -> str:
    """The field that names an item: one called like a title, else the most varied short one; `id` without any text."""
    candidates = [
        column for column in columns if column.name in fields and fields[column.name].type in ("text", "keyword")
    ]
    candidates = [column for column in candidates if not _CODE.search(column.name)] or candidates
    if not candidates:
        return "id"
    ranked = [(rank, column) for column in candidates if (rank := _rank(column.name, _TITLES)) is not None]
    named = [(rank, -column.variety, column.name) for rank, column in ranked if column.variety > _MIN_TITLE_VARIETY]
    if named:
        return min(named, key=itemgetter(0, 1))[2]
    unique = [column for column in candidates if column.variety == 1] or candidates
    return max(unique, key=lambda column: (3 <= column.mean_length <= 100, column.variety, " " in column.sample)).name


def _rank(name: str, words: Sequence[str]) -> int | None:
    """The place of the first of these words that a name is, or has as a part; None without one."""
    if name in words:
        return words.index(name)
    parts = name.split("_")
    return next((len(words) + at for at, word in enumerate(words) if word in (parts[0], parts[-1])), None)


def _title_field(field: Field, column: Column) -> Field:
    """A title has the largest search weight, and is sorted by where it is short enough."""
    if column.longest > MAX_TITLE:
        return replace(field, type="text", searched=TITLE_WEIGHT, filtered=False, faceted=False, sorted=False)
    return replace(field, type="keyword", searched=TITLE_WEIGHT, filtered=True, sorted=True)
