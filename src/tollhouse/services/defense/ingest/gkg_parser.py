"""How a GDELT 2.1 Global Knowledge Graph file becomes articles with the names that GDELT found in them.

27 tab-separated columns, no header, no quoting (GKG 2.1 codebook). Pages carry their title since 2019.
"""

import io
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from tollhouse.html_text import one_line
from tollhouse.services.defense.article import Article
from tollhouse.services.defense.ingest.export_parser import BadRow
from tollhouse.services.defense.ingest.translation import language_of
from tollhouse.services.defense.links import article_id, tidy_link
from tollhouse.services.defense.publishers import publisher_of

COLUMNS = 27
LONGEST_LINE = 1_000_000
LONGEST_TITLE = 300
MOST_NAMES = 100
# Pages believed to be older than this have the wrong date, or are no news.
OLDEST = timedelta(days=3650)

_WEB = b"1"
_TITLE = re.compile(rb"<PAGE_TITLE>(.*?)</PAGE_TITLE>")
_AUTHORS = re.compile(rb"<PAGE_AUTHORS>(.*?)</PAGE_AUTHORS>")
_PUBLISHED = re.compile(rb"<PAGE_PRECISEPUBTIMESTAMP>(\d{14})</PAGE_PRECISEPUBTIMESTAMP>")


class GkgPlace(Struct, frozen=True, gc=False):
    """A place that the page names. `kind` as GDELT's geo types: 1 country, 2 US state, 3 US city, 4 city, 5 state.

    `country` is FIPS 10-4; coordinates are those of the gazetteer's entry.
    """

    kind: int
    name: str
    country: str
    latitude: float
    longitude: float


class GkgRecord(Struct, frozen=True, gc=False):
    """One page. `article.title` is empty where GDELT gives none; names are spelt as on the page, each once."""

    article: Article
    persons: tuple[str, ...]
    organizations: tuple[str, ...]
    places: tuple[GkgPlace, ...]


class ParsedGkg(Struct, frozen=True):
    """The usable rows in the file's order, each page once. `total` counts every line that is not empty."""

    records: list[GkgRecord]
    bad: list[BadRow]
    total: int


def parse_gkg(raw: bytes) -> ParsedGkg:
    """Every web page of an unpacked GKG file. Rows about broadcasts and print, which have no address, count as bad."""
    records: dict[str, GkgRecord] = {}
    bad: list[BadRow] = []
    total = 0
    # One line at a time: cut at once, a file takes its size a second time.
    for number, line in enumerate(io.BytesIO(raw), 1):
        if not line.strip(b"\r\n"):
            continue
        total += 1
        try:
            record = _record(line)
        except ValueError as fault:
            bad.append(BadRow(number, str(fault)))
        else:
            records.setdefault(record.article.id, record)
    return ParsedGkg(list(records.values()), bad, total)


def _record(line: bytes) -> GkgRecord:
    f = line.split(b"\t")
    if len(f) != COLUMNS or len(line) > LONGEST_LINE:
        raise ValueError(f"{len(f)} columns in {len(line)} bytes; {COLUMNS} in at most {LONGEST_LINE} expected")
    if f[2] != _WEB:
        raise ValueError("the document is no web page")
    return GkgRecord(_article(f), _names(f[12]), _names(f[14]), _places(f[9]))


def _article(f: list[bytes]) -> Article:
    url = tidy_link(_text(f[4]))
    if not url:
        raise ValueError("the document is not an http(s) address")
    extras = f[26]
    publisher = publisher_of(url, _extra(_AUTHORS, extras))
    return Article(
        id=article_id(url),
        url=url,
        title=one_line(_extra(_TITLE, extras).replace("\\'", "'"), LONGEST_TITLE),
        publisher=publisher.name,
        family=publisher.family,
        published=_published(f[1], extras),
        source="gkg",
        tone=_tone(f[15]),
        language=language_of(f[25]),
    )


def _text(field: bytes) -> str:
    """UTF-8 as the codebook says, or Latin-1, which older files mix in."""
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return field.decode("cp1252", "replace")


def _extra(pattern: re.Pattern[bytes], extras: bytes) -> str:
    found = pattern.search(extras)
    return _text(found[1]) if found else ""


def _published(seen: bytes, extras: bytes) -> datetime:
    """What the page says, if GDELT found it and it is believable; else the file's quarter of an hour."""
    seen_at = _moment(seen)
    found = _PUBLISHED.search(extras)
    if not found:
        return seen_at
    try:
        stated = _moment(found[1])
    except ValueError:
        return seen_at
    return stated if seen_at - OLDEST <= stated <= seen_at else seen_at


@lru_cache(maxsize=4096)
def _moment(stamp: bytes) -> datetime:
    """YYYYMMDDHHMMSS in UTC."""
    text = stamp.decode("ascii", "replace")
    if len(text) != 14 or not text.isdecimal():
        raise ValueError(f"{text[:20]!r} is not a date")
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    return datetime(year, month, day, int(text[8:10]), int(text[10:12]), int(text[12:]), tzinfo=UTC)


def _tone(field: bytes) -> float | None:
    """The first of V1.5Tone's numbers, -100..100; None where there is none."""
    try:
        tone = float(field.partition(b",")[0])
    except ValueError:
        return None
    return tone if -100 <= tone <= 100 else None


def _names(field: bytes) -> tuple[str, ...]:
    """The names of `Name,offset;Name,offset`, each once, in the order in which GDELT lists them."""
    if not field:
        return ()
    names = {mention.rpartition(",")[0]: None for mention in _text(field).split(";")}
    names.pop("", None)
    return tuple(names)[:MOST_NAMES]


@lru_cache(maxsize=65536)
def _place(text: bytes) -> GkgPlace | None:
    """`kind#name#country#adm1#latitude#longitude#feature`; None for what does not fit."""
    f = _text(text).split("#")
    try:
        kind, latitude, longitude = int(f[0]), float(f[4]), float(f[5])
    except (ValueError, IndexError):
        return None
    if not (1 <= kind <= 5 and -90 <= latitude <= 90 and -180 <= longitude <= 180):
        return None
    # In files of 2015 the country column holds another place's; the first-level code always begins with the country.
    return GkgPlace(kind, f[1], f[3][:2] or f[2], latitude, longitude)


def _places(field: bytes) -> tuple[GkgPlace, ...]:
    if not field:
        return ()
    found = dict.fromkeys(_place(text) for text in field.split(b";")[:MOST_NAMES])
    return tuple(place for place in found if place)
