"""What the columns of a table are, guessed from their cells: types, what tells rows apart, what names an item."""

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.tables.column_inference import Column, guess_column
from tollhouse.services.tables.declaration import MAX_FIELDS, Field
from tollhouse.services.tables.file_reader import Table, TableError
from tollhouse.services.tables.names import field_names

# More rows than these are not looked at.
LOOKED_AT = 50_000

TITLE_WEIGHT = 10.0
# An item's name can be ordered by while it is no longer than this.
LONGEST_NAME = 200
_TITLES = ("title", "name", "label", "headline", "subject", "product", "description")
_IDENTITIES = ("id", "uuid", "key", "code", "isbn", "sku", "ean", "gtin", "slug", "number", "no", "nr", "ref")
_LONGEST_ID = 64
# A column called a name may name many things alike, but not nearly all of them.
_LEAST_TITLES = 0.02


class Guess(Struct, frozen=True):
    """`id` is a column or "", `title` a field or `id`; `remarks` are what the reader of the guess should know."""

    fields: dict[str, Field]
    id: str
    title: str
    remarks: tuple[str, ...]


def guess(table: Table) -> Guess:
    """What a table is, from its rows. Raises TableError for one without rows or with too many columns."""
    if not table.rows:
        raise TableError("there is no row to guess from")
    if len(table.columns) > MAX_FIELDS:
        raise TableError(f"it has {len(table.columns)} columns; a table has at most {MAX_FIELDS}")
    rows = list(islice(table.rows, LOOKED_AT))
    columns = [
        Column(header, name, [row.cells[at] for row in rows], [row.line for row in rows])
        for at, (header, name) in enumerate(zip(table.columns, field_names(table.columns), strict=True))
    ]
    guessed = {column.name: guess_column(column) for column in columns}
    identity = _identity(columns, {name: one.field for name, one in guessed.items()})
    remarks = [remark for one in guessed.values() for remark in one.remarks]
    if len(table.rows) > LOOKED_AT:
        remarks.append(f"only the first {LOOKED_AT:,} of {len(table.rows):,} rows were looked at")
    fields = {
        column.name: replace(guessed[column.name].field, column=column.header if column.header != column.name else "")
        for column in columns
        # Under its own name the identity is the item's `id` already; a table of nothing else keeps it.
        if not (identity is column and column.header.casefold() == "id" and len(columns) > 1)
    }
    title = _title(columns, fields)
    if title != "id":
        fields[title] = _named(fields[title], next(column for column in columns if column.name == title))
    return Guess(fields, identity.header if identity else "", title, tuple(remarks))


def _identity(columns: Sequence[Column], fields: dict[str, Field]) -> Column | None:
    """The column whose value each row has, and no two alike: best one that is called so, else one of the first."""
    able = [column for column in columns if _tells_apart(column, fields[column.name])]
    called = [column for column in able if _rank(column.name, _IDENTITIES) is not None]
    if called:
        return min(called, key=lambda column: _rank(column.name, _IDENTITIES) or 0)
    first = [column for column in columns[:2] if column in able and " " not in "".join(map(str, column.cells[:100]))]
    return first[0] if first else None


def _tells_apart(column: Column, field: Field) -> bool:
    if field.type not in ("keyword", "text", "integer", "number") or len(column.texts) != len(column.cells):
        return False
    texts = column.texts
    fit = all(0 < len(text) <= _LONGEST_ID and "/" not in text and text.isprintable() for text in texts)
    return fit and len(set(texts)) == len(texts) and not {".", ".."} & set(texts)


def _title(columns: Sequence[Column], fields: dict[str, Field]) -> str:
    """The field that names an item: one called so, else the most telling of the short ones; `id` without any."""
    able = [column for column in columns if column.name in fields and fields[column.name].type in ("text", "keyword")]
    if not able:
        return "id"
    called = [column for column in able if _rank(column.name, _TITLES) is not None and column.variety > _LEAST_TITLES]
    if called:
        return min(called, key=lambda column: (_rank(column.name, _TITLES) or 0, -column.variety)).name
    return max(able, key=lambda column: (3 <= column.mean_length <= 100, column.variety, " " in column.sample)).name


def _rank(name: str, words: Sequence[str]) -> int | None:
    """Where the first of these words stands that a name is, or that it has as a part; None without one."""
    if name in words:
        return words.index(name)
    parts = name.split("_")
    return next((len(words) + at for at, word in enumerate(words) if word in (parts[0], parts[-1])), None)


def _named(field: Field, column: Column) -> Field:
    """A title is searched first, and ordered by where it is short enough."""
    if column.longest > LONGEST_NAME:
        return replace(field, type="text", searched=TITLE_WEIGHT, filtered=False, faceted=False, sorted=False)
    return replace(field, type="keyword", searched=TITLE_WEIGHT, filtered=True, sorted=True)
