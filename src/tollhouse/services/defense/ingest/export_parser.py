"""Parser for GDELT 2.0 event exports: rows, the lines that cannot be used, slots, and the meaning of CAMEO codes."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import TypeVar

import msgspec
from msgspec import Struct

from tollhouse.services.defense.events.event import Category

MEMO_SIZE = 65536

Key = TypeVar("Key")
Value = TypeVar("Value")
Line = TypeVar("Line", str, bytes)


class Memo(dict[Key, Value]):
    """A cache of `compute` by argument. A hit is a plain dict lookup, half the cost of an lru_cache."""

    def __init__(self, compute: Callable[[Key], Value]) -> None:
        super().__init__()
        self.compute = compute

    def __missing__(self, key: Key) -> Value:
        if len(self) >= MEMO_SIZE:
            self.clear()
        value = self[key] = self.compute(key)
        return value


class Row(Struct, frozen=True, array_like=True):
    """A row of an export, with the columns in use. Codes are strings (leading zeros matter); coordinates may be None.

    `day` is YYYYMMDD of the event, `added` YYYYMMDDHHMMSS of the export. `geo_type`: 1 country, 2 US state,
    3 US city, 4 world city, 5 world state, 0 none. Countries here are FIPS 10-4 (places) or CAMEO (actors).
    """

    id: str
    day: str
    actor1_name: str
    actor1_country: str
    actor1_group: str
    actor1_type: str
    actor2_name: str
    actor2_country: str
    actor2_group: str
    actor2_type: str
    is_root: bool
    code: str
    base_code: str
    root_code: str
    quad_class: int
    goldstein: float
    mentions: int
    sources: int
    articles: int
    tone: float
    geo_type: int
    geo_name: str
    geo_country: str
    geo_adm1: str
    latitude: float | None
    longitude: float | None
    added: str
    url: str


def unpacked_rows(packed: bytes) -> list[Row]:
    """The stored rows of a page in one slot."""
    return msgspec.json.decode(packed, type=list[Row])


COLUMNS = 61
LONGEST_LINE = 4096
LONGEST_URL = 2048
BLOCK_BYTES = 1 << 18

_ADDRESS = re.compile(r"(?i:https?)://[^\s/?#<>\"]+[^\s<>\"\x00-\x1f\x7f]*")
_ZIP_MARKS = (b"PK\x03\x04", b"PK\x05\x06")
# Other methods return their whole output at once, so its size could not be limited.
_BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class BadRow(Struct, frozen=True):
    """A skipped line, numbered from 1, and the reason."""

    line: int
    reason: str


class ParsedExport(Struct, frozen=True):
    """The usable rows in file order, each GlobalEventID once. `total` counts all non-empty lines."""

    rows: list[Row]
    bad: list[BadRow]
    total: int


def unpack_export(raw: bytes, cap_bytes: int) -> bytes:
    """Unpack an export from plain or zipped bytes. Raises ValueError if it is invalid or larger than `cap_bytes`."""
    try:
        unpacked = _unzip(raw, cap_bytes) if raw[:4] in _ZIP_MARKS else raw
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as cause:
        raise ValueError(f"The export is not a readable zip file: {cause}.") from cause
    if len(unpacked) > cap_bytes:
        raise ValueError(f"The export is larger than {cap_bytes} bytes.")
    return unpacked


def parse_export(raw: bytes) -> ParsedExport:
    """Parse an export: tab-separated, no quoting, no header (GDELT 2.0 Event codebook)."""
    parsed, bad = parse_lines(_lines(raw), _row)
    rows: dict[str, Row] = {}
    for row in parsed:
        rows.setdefault(row.id, row)
    return ParsedExport(list(rows.values()), bad, len(parsed) + len(bad))


def parse_lines(lines: Iterable[Line], parse: Callable[[Line], Value]) -> tuple[list[Value], list[BadRow]]:
    """Parse every line that is not empty; lines for which `parse` raises ValueError are bad."""
    values: list[Value] = []
    bad: list[BadRow] = []
    for number, line in enumerate(lines, 1):
        if len(line) < 3 and not line.strip():
            continue
        try:
            values.append(parse(line))
        except ValueError as fault:
            bad.append(BadRow(number, str(fault)))
    return values, bad


def _lines(raw: bytes) -> Iterator[str]:
    # Decode in blocks: one non-Latin letter would widen the whole text, and decoding line by line costs a third more.
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start + BLOCK_BYTES)
        end = len(raw) if end < 0 else end
        # Not splitlines: it also splits at form feeds, which names may contain.
        yield from raw[start:end].replace(b"\0", b"").decode("utf-8", "replace").split("\n")
        start = end + 1


def _row(line: str) -> Row:
    # Without helper functions: at 200,000 rows a second every call counts.
    f = line.split("\t")
    if len(f) != COLUMNS or len(line) > LONGEST_LINE:
        raise ValueError(f"{len(f)} columns in {len(line)} characters; {COLUMNS} in at most {LONGEST_LINE} expected")
    if not f[0].isdecimal():
        raise ValueError("the event id is not a number")
    day, added = _DATES[f[1], f[59]]
    code, base, root, quad_class, goldstein = _CODINGS[f[26], f[27], f[28], f[29], f[30]]
    geo_type, geo_name, geo_country, geo_adm1, latitude, longitude = _PLACES[f[51], f[52], f[53], f[54], f[56], f[57]]
    return Row(
        f[0],
        day, f[6], f[7], f[8], f[12], f[16], f[17], f[18], f[22], f[25] == "1", code, base, root, quad_class, goldstein,
        _COUNTS[f[31]], _COUNTS[f[32]], _COUNTS[f[33]], _TONES[f[34]], geo_type, geo_name, geo_country, geo_adm1,
        latitude, longitude, added, _ADDRESSES[f[60]],
    )  # fmt: skip


def _unzip(raw: bytes, cap_bytes: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = archive.infolist()
        if len(members) != 1:
            raise ValueError(f"The zipped export contains {len(members)} files, one expected.")
        if members[0].compress_type not in _BOUNDED_METHODS:
            raise ValueError("The zipped export uses a compression method other than deflate.")
        with archive.open(members[0]) as packed:
            # The size in the header may be wrong, so limit the unpacked bytes.
            return packed.read(cap_bytes + 1)


def _dates(pair: tuple[str, str]) -> tuple[str, str]:
    day, added = pair
    dates = _moment(day, 8, "%Y%m%d"), _moment(added, 14, "%Y%m%d%H%M%S")
    if day > added:
        raise ValueError(f"dated {day}, after its export of {added}")
    return dates


def _moment(text: str, length: int, form: str) -> str:
    if len(text) != length or not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text[:20]!r} is not a date of {length} digits")
    try:
        datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{text} is a date that does not exist") from None
    return text


def _coding(fields: tuple[str, str, str, str, str]) -> tuple[str, str, str, int, float]:
    code, base, root, quad_class, goldstein = fields
    if not (code.isdecimal() and len(root) == 2 and base.startswith(root) and code.startswith(base)):
        raise ValueError("the event codes are not numbers that agree")
    if quad_class not in {"1", "2", "3", "4"}:
        raise ValueError(f"{quad_class[:20]!r} is not a quad class")
    return code, base, root, int(quad_class), _between(goldstein, 10, "a Goldstein value")


def _place(fields: tuple[str, str, str, str, str, str]) -> tuple[int, str, str, str, float | None, float | None]:
    kind, name, country, adm1, latitude, longitude = fields
    if kind not in {"0", "1", "2", "3", "4", "5"}:
        raise ValueError(f"{kind[:20]!r} is not a type of place")
    # Some rows without a place still have parts of one, such as a longitude alone.
    if kind == "0" or not (latitude or longitude):
        return int(kind), name, country, adm1, None, None
    north, east = _between(latitude, 90, "a latitude"), _between(longitude, 180, "a longitude")
    return int(kind), name, country, adm1, north, east


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise ValueError(f"{text[:20]!r} is not a count")
    return int(text)


def _between(text: str, bound: int, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is not {what}") from None
    # NaN fails the comparison too.
    if not -bound <= number <= bound:
        raise ValueError(f"{text[:20]} is out of range for {what}: beyond {bound}")
    return number


def _address(text: str) -> str:
    url = text.removesuffix("\r")
    if len(url) > LONGEST_URL or not _ADDRESS.fullmatch(url):
        raise ValueError(f"the source is not an http(s) URL of at most {LONGEST_URL} characters")
    return url


# Most values repeat within and between files.
_DATES = Memo(_dates)
_CODINGS = Memo(_coding)
_PLACES = Memo(_place)
_COUNTS = Memo(_count)
_TONES = Memo[str, float](lambda text: _between(text, 100, "a tone"))
_ADDRESSES = Memo(_address)


_ECONOMIC = frozenset({"061", "071", "085", "162", "1621", "163", "1211", "1311", "1312"})


# A day has 200,000 rows and some 300 codes.
@lru_cache(maxsize=1024)
def cameo_category(code: str) -> Category | None:
    """The category of a CAMEO code; None for violent codes, of which few are battles."""
    if code.startswith("14"):
        return "Protests"
    if code in _ECONOMIC:
        return "Economic"
    return None if is_violence(code) else "Political"


def is_violence(code: str) -> bool:
    """Whether the code is assault (18), fighting (19) or mass violence (20). One such URL in nine is a battle."""
    return code.startswith(("18", "19", "20"))


def is_strike(code: str) -> bool:
    """Whether the code is one force using arms against another: fire, shelling, air strikes, broken truces."""
    return code.startswith(("190", "193", "194", "195", "196"))


def is_riot(code: str) -> bool:
    """Whether the code is a violent protest."""
    return code.startswith("145")


@lru_cache(maxsize=1024)
def cameo_label(code: str) -> str:
    """The label of a code, of its base code or of its root code; "Event" if all are unknown."""
    labels = _labels()
    return next((labels[code[:length]] for length in (4, 3, 2) if code[:length] in labels), "Event")


@cache
def _labels() -> dict[str, str]:
    table = files("tollhouse.services.defense").joinpath("data", "cameo_labels.json").read_bytes()
    return msgspec.json.decode(table, type=dict[str, str])


def heaviest_row(rows: Sequence[Row]) -> Row:
    """The most mentioned row of the code with most mentions; root events (early in their text) count double."""
    if len(rows) == 1:
        return rows[0]
    weights: dict[str, int] = {}
    for row in rows:
        weights[row.code] = weights.get(row.code, 0) + row.mentions * (1 + row.is_root)
    most = max(weights.values())
    heaviest = [row for row in rows if weights[row.code] == most]
    if len(heaviest) == 1:
        return heaviest[0]
    # Break ties by intensity, then by the more specific code.
    return max(heaviest, key=lambda row: (abs(row.goldstein), row.code[2:], row.mentions, row.id))


# The provider publishes every 15 minutes.
SLOT = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLOT = re.compile(r"(?<![0-9])(20[0-9]{12})(?![0-9])")


def read_slot(name: str, newest: str) -> str:
    """The slot of a file, YYYYMMDDHHMMSS, from its file name, or else the quarter of an hour of its newest row."""
    named = _SLOT.search(name)
    return named[1] if named and slot_time(named[1]) else newest


def slot_time(slot: str) -> datetime | None:
    """The time that a slot names, None if it is not a time."""
    try:
        return datetime.strptime(slot, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def time_of_slot(slot: str) -> datetime:
    """The end of a slot's 15 minutes."""
    moment = slot_time(slot)
    assert moment is not None, f"{slot} is not a slot"
    return moment


@lru_cache(maxsize=4096)
def compact(moment: datetime) -> str:
    """A time in the form of a slot: `20201115110000`, in UTC."""
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S")


def slot_at(moment: datetime) -> str:
    """The slot whose 15 minutes a time lies in; each slot is named by its end."""
    return compact(moment + (_EPOCH - moment) % SLOT)


def slot_before(slot: str, span: timedelta) -> str:
    """The slot `span` before another."""
    return compact(time_of_slot(slot) - span)
