"""What one column is, guessed from its cells: the narrowest type that every one of them fits."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.catalogue.items import MAX_INTEGER, MAX_MONEY, key
from tollhouse.services.tables import cell_values
from tollhouse.services.tables.cell_values import DATE_FORMATS, DECIMAL_MARKS, SEPARATORS, DateFormat
from tollhouse.services.tables.declaration import Field
from tollhouse.services.tables.rows import cell_value

# Words that stand for nothing in a column of numbers or dates; among names they may be one (NA is Namibia).
NOTHING = frozenset({"na", "n/a", "null", "none", "nan", "nil", "-", "--", "?", "unknown", "n.a.", "\\n", "#n/a"})
# From this share on, cells that do not fit are worth a remark.
_NEARLY = 0.95

MOST_VALUES = 500
_MOST_NUMBERS = 60
_LONGEST_KEYWORD = 80
_MEAN_KEYWORD = 40
_MONEY = re.compile(r"price|cost|amount|salary|revenue|budget|fare|fee|wage|income|(^|_)(usd|eur|gbp|aud)($|_)")
_CODE = re.compile(r"(^|_)(id|code|zip|postcode|postal|phone|isbn|ean|gtin|sku|ref|uuid)($|_|\d)")
_DAY = re.compile(r"date|day")
_PICTURE = re.compile(r"image|picture|photo|thumbnail|cover|logo|poster|img")
_PICTURE_FILE = re.compile(r"\.(png|jpe?g|gif|webp|svg|avif)($|\?)", re.IGNORECASE)
_CLAIM = re.compile(r"^(is|has|was|can|in|on)_|^(active|available|enabled|deleted|verified)$")


class Column:
    """One column: its header, its field's name, its cells, and the lines they stand on."""

    def __init__(self, header: str, name: str, found: Sequence[Any], lines: Sequence[int]) -> None:
        self.header = header
        self.name = name
        self.cells = found
        self.lines = lines

    @cached_property
    def present(self) -> list[Any]:
        """The cells that say something."""
        return [cell for cell in self.cells if not cell_values.is_empty(cell)]

    @cached_property
    def texts(self) -> list[str]:
        """The same as text; those that have none are left out."""
        return [text for cell in self.present if (text := _text(cell))]

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @cached_property
    def mean_length(self) -> float:
        return sum(map(len, self.texts)) / max(1, len(self.texts))

    @cached_property
    def distinct(self) -> int:
        """How many different values there are, in whatever case."""
        return len(set(map(key, set(self.texts))))

    @property
    def variety(self) -> float:
        """The share of different values: 1 when no two are alike."""
        return self.distinct / max(1, len(self.texts))

    @property
    def sample(self) -> str:
        """The first text."""
        return self.texts[0] if self.texts else ""


class Guessed(Struct, frozen=True):
    """A field, and what there is to say about the guess."""

    field: Field
    remarks: tuple[str, ...] = ()


def guess_column(column: Column) -> Guessed:
    """The narrowest type that all of a column fits."""
    if not column.present:
        return Guessed(Field("text"), (f"{column.name}: empty in every row",))
    if any(isinstance(cell, dict | list) for cell in column.present):
        return Guessed(_structured(column))
    said = [cell for cell in column.present if not _is_nothing(cell)]
    for field in _typed(column) if said else ():
        if all(_fits(field, cell) for cell in said):
            words = sorted({cell.strip() for cell in column.present if _is_nothing(cell)})
            return Guessed(_able(replace(field, empty=tuple(words)), column), tuple(_ambiguous(field, column, said)))
    return Guessed(_able(_listed(column) or _worded(column), column), tuple(_nearly(column, said)))


def _typed(column: Column) -> Iterator[Field]:
    """Types to try, the narrowest first."""
    values = {text.casefold() for text in column.texts if not _is_nothing(text)}
    if values <= {"true", "false", "yes", "no", "y", "n", "t", "f"} or (values <= {"0", "1"} and _is_claim(column)):
        yield Field("boolean")
    if _DAY.search(column.name):
        yield Field("date", format="YYYYMMDD")
    has_zeros = any(re.match(r"[-+]?0\d", text) for text in column.texts)
    if not has_zeros and not _CODE.search(column.name):
        money = Field("money", currency=_currency(column))
        for mark in DECIMAL_MARKS:
            yield replace(money, decimal=mark) if _MONEY.search(column.name) else Field("integer", decimal=mark)
            yield Field("number", decimal=mark)
        for mark in DECIMAL_MARKS:
            yield replace(money, decimal=mark)
    for kind in ("date", "moment"):
        for form in DATE_FORMATS:
            if form != "YYYYMMDD":
                yield Field(kind, format=form)
    is_picture = bool(_PICTURE.search(column.name)) or all(map(_PICTURE_FILE.search, column.texts))
    yield Field("image" if is_picture else "url")


def _ambiguous(field: Field, column: Column, said: Sequence[Any]) -> Iterator[str]:
    """Days that could be months: no value tells which comes first."""
    other: DateFormat = "MM/DD/YYYY" if field.format == "DD/MM/YYYY" else "MM-DD-YYYY"
    is_day_first = field.format in ("DD/MM/YYYY", "DD-MM-YYYY")
    if is_day_first and all(_fits(replace(field, format=other), cell) for cell in said):
        yield f"{column.name}: read as {field.format}, but all of it could be {other} as well: `format` says which"


def _fits(field: Field, cell: Any) -> bool:
    try:
        value = cell_value(field, cell)
    except ValueError:
        return False
    if field.type == "integer":
        return bool(abs(value) <= MAX_INTEGER)
    return field.type != "money" or bool(abs(value) <= MAX_MONEY)


def _able(field: Field, column: Column) -> Field:
    """The field with all that its type can do and that is of use."""
    few = column.distinct <= MOST_VALUES and column.distinct * 2 <= len(column.texts)
    if field.type == "integer":
        return replace(field, filtered=True, sorted=True, faceted=few and column.distinct <= _MOST_NUMBERS)
    if field.type in ("number", "money", "boolean"):
        return replace(field, filtered=True, sorted=True, faceted=True)
    if field.type in ("date", "moment"):
        return replace(field, filtered=True, sorted=True)
    if field.type == "keyword":
        return replace(field, filtered=True, faceted=few, sorted=True, searched=3 if few else 2)
    return field


def _worded(column: Column) -> Field:
    """A keyword where values are short; else text."""
    is_short = column.longest <= _LONGEST_KEYWORD and column.mean_length <= _MEAN_KEYWORD
    has_keys = len(column.texts) == len(column.present) and all(map(key, column.texts))
    return Field("keyword") if is_short and has_keys else Field("text", searched=1)


def _listed(column: Column) -> Field | None:
    """A list where many cells hold several of few short values, with something between them."""
    for separator, share in SEPARATORS:
        several = [text for text in column.texts if separator in text]
        if len(several) < max(2, share * len(column.texts)):
            continue
        parts = Counter(part.strip() for text in column.texts for part in text.split(separator) if part.strip())
        total = sum(parts.values())
        most_words = max(len(part.split()) for part in parts)
        # "Aircraft Procurement, Army" is one value: lists are made of fewer parts than there are lists.
        is_made_of_few = separator != "," or len(parts) < column.distinct
        is_short = most_words <= 4 and max(map(len, parts)) <= 40
        if is_made_of_few and is_short and len(parts) <= MOST_VALUES and len(parts) * 3 <= total:
            return Field("list", separator=separator, searched=3, filtered=True, faceted=True)
    return None


def _structured(column: Column) -> Field:
    """A list of texts, or something that is only carried along."""
    field = Field("list", searched=3, filtered=True)
    try:
        values = Counter(part for cell in column.present for part in cell_value(field, cell) or ())
    except ValueError:
        return Field("json")
    if not values or not all(isinstance(cell, list) for cell in column.present) or not all(map(key, values)):
        return Field("json")
    if max(map(len, values)) > _LONGEST_KEYWORD or any(len(cell) > 100 for cell in column.present):
        return Field("json")
    return replace(field, faceted=len(values) <= MOST_VALUES and len(values) * 2 <= sum(values.values()))


def _nearly(column: Column, said: Sequence[Any]) -> Iterator[str]:
    """The first type that nearly every cell fits, with one that does not."""
    kinds: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("number", cell_values.number_of), ("date", cell_values.date_of), ("url", cell_values.url_of)
    )  # fmt: skip
    for name, read in kinds:
        wrong = [cell for cell in said if not _reads(read, cell)]
        if 0 < len(wrong) <= (1 - _NEARLY) * len(said):
            line = column.lines[column.cells.index(wrong[0])]
            yield (
                f"{column.name}: {len(wrong)} of {len(said)} values are no {name}, such as {str(wrong[0])[:40]!r} on "
                f'line {line}; with `type = "{name}"` name them in `empty`, or their rows are refused'
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
        return cell_values.text_of(cell)
    except ValueError:
        return ""


def _is_nothing(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().casefold() in NOTHING


def _is_claim(column: Column) -> bool:
    return bool(_CLAIM.search(column.name))


def _currency(column: Column) -> str:
    """The currency most of the amounts are written with."""
    found = Counter(filter(None, map(cell_values.currency_of, column.texts))).most_common(1)
    return found[0][0] if found else ""
