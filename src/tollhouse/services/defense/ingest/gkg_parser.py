"""Parsers for GDELT's page files: Global Knowledge Graph (pages with names and places) and mentions of events.

GKG 2.1 has 27 tab-separated columns, mentions have 16; neither has a header or quoting (GDELT codebooks).
"""

import io
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.html_text import one_line
from tollhouse.services.defense.article import Article, article_id, clean_url, find_publisher
from tollhouse.services.defense.ingest.export_parser import BadRow, parse_lines
from tollhouse.services.defense.ingest.page_title import clean_titles

# GDELT uses ISO 639-2 and 639-3, articles use ISO 639-1.
_LANGUAGES = """
afr:af amh:am ara:ar aze:az bel:be ben:bn bos:bs bul:bg cat:ca ces:cs cze:cs chi:zh zho:zh dan:da deu:de ger:de
ell:el gre:el est:et eus:eu fas:fa per:fa fin:fi fra:fr fre:fr gle:ga glg:gl guj:gu hat:ht heb:he hin:hi hrv:hr
hun:hu hye:hy arm:hy ind:id isl:is ice:is ita:it jpn:ja kan:kn kat:ka geo:ka kaz:kk khm:km kir:ky kor:ko lao:lo
lav:lv lit:lt mal:ml mar:mr mkd:mk mac:mk mon:mn msa:ms may:ms mya:my bur:my nep:ne nld:nl dut:nl nno:nn nob:nb
nor:no ori:or pan:pa pol:pl por:pt pus:ps ron:ro rum:ro rus:ru sin:si slk:sk slo:sk slv:sl som:so spa:es sqi:sq
alb:sq srp:sr swa:sw swe:sv tam:ta tel:te tgk:tg tgl:tl tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi
"""
_TWO_LETTERS = dict(pair.split(":") for pair in _LANGUAGES.split())
_SOURCE = re.compile(rb"srclc:([a-z]{3})")


@lru_cache(maxsize=1024)
def source_language(translation: bytes) -> str:
    """ISO 639-1 code of the original page. Without TranslationInfo a page was in English (codebook)."""
    if not translation.strip():
        return "en"
    source = _SOURCE.search(translation)
    return _TWO_LETTERS.get(source[1].decode(), "") if source else ""


GKG_COLUMNS = 27
LONGEST_GKG_LINE = 1_000_000
LONGEST_TITLE = 300
MOST_NAMES = 100
# Older publication dates are wrong or do not belong to news.
OLDEST = timedelta(days=3650)

_TITLE = re.compile(rb"<PAGE_TITLE>(.*?)</PAGE_TITLE>")
_AUTHORS = re.compile(rb"<PAGE_AUTHORS>(.*?)</PAGE_AUTHORS>")
_PUBLISHED = re.compile(rb"<PAGE_PRECISEPUBTIMESTAMP>(\d{14})</PAGE_PRECISEPUBTIMESTAMP>")


class GkgPlace(Struct, frozen=True, gc=False):
    """A place that a page names. `kind` is GDELT's geo type: 1 country, 2 US state, 3 US city, 4 city, 5 state.

    `country` is FIPS 10-4; coordinates, in degrees, come from GDELT's gazetteer.
    """

    kind: int
    name: str
    country: str
    latitude: float
    longitude: float


class GkgRecord(Struct, frozen=True, gc=False):
    """A page. `article.title` is empty if GDELT gives no headline; names are spelled as on the page, each once."""

    article: Article
    persons: tuple[str, ...]
    organizations: tuple[str, ...]
    places: tuple[GkgPlace, ...]


class ParsedGkg(Struct, frozen=True):
    """The usable rows in file order, each page once. `total` counts all non-empty lines."""

    records: list[GkgRecord]
    bad: list[BadRow]
    total: int


def parse_gkg(raw: bytes) -> ParsedGkg:
    """Parse the web pages of an unpacked GKG file. Rows about broadcasts and print have no URL and count as bad."""
    # Line by line: splitting the file would double its memory.
    parsed, bad = parse_lines(io.BytesIO(raw), _record)
    records: dict[str, GkgRecord] = {}
    for record in parsed:
        records.setdefault(record.article.id, record)
    articles = clean_titles([record.article for record in records.values()])
    cleaned = [replace(record, article=it) for record, it in zip(records.values(), articles, strict=True)]
    return ParsedGkg(cleaned, bad, len(parsed) + len(bad))


def _record(line: bytes) -> GkgRecord:
    f = line.split(b"\t")
    if len(f) != GKG_COLUMNS or len(line) > LONGEST_GKG_LINE:
        raise ValueError(f"{len(f)} columns in {len(line)} bytes; {GKG_COLUMNS} in at most {LONGEST_GKG_LINE} expected")
    if f[2] != b"1":
        raise ValueError("the document is not a web page")
    return GkgRecord(_article(f), _names(f[12]), _names(f[14]), _places(f[9]))


def _article(f: list[bytes]) -> Article:
    url = clean_url(_text(f[4]))
    if not url:
        raise ValueError("the document has no http(s) URL")
    extras = f[26]
    publisher = find_publisher(url, _extra(_AUTHORS, extras))
    return Article(
        id=article_id(url),
        url=url,
        title=one_line(_extra(_TITLE, extras).replace("\\'", "'"), LONGEST_TITLE),
        publisher=publisher.name,
        family=publisher.family,
        published=_published(f[1], extras),
        source="gkg",
        tone=_tone(f[15].partition(b",")[0]),
        language=source_language(f[25]),
    )


def _text(field: bytes) -> str:
    """Decode UTF-8, or Latin-1, which older files mix in."""
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return field.decode("cp1252", "replace")


def _extra(pattern: re.Pattern[bytes], extras: bytes) -> str:
    match = pattern.search(extras)
    return _text(match[1]) if match else ""


def _published(seen: bytes, extras: bytes) -> datetime:
    """The page's own publication time if GDELT gives a plausible one, else the time of the file."""
    seen_at = _moment(seen.decode("ascii", "replace"))
    match = _PUBLISHED.search(extras)
    try:
        stated = _moment(match[1].decode("ascii")) if match else seen_at
    except ValueError:
        return seen_at
    return stated if seen_at - OLDEST <= stated <= seen_at else seen_at


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    """YYYYMMDDHHMMSS in UTC."""
    if len(text) != 14 or not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text[:20]!r} is not a date")
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    return datetime(year, month, day, int(text[8:10]), int(text[10:12]), int(text[12:]), tzinfo=UTC)


def _tone(text: str | bytes) -> float | None:
    """A document's tone, -100..100; None for anything else."""
    try:
        tone = float(text)
    except ValueError:
        return None
    return tone if -100 <= tone <= 100 else None


def _names(field: bytes) -> tuple[str, ...]:
    """The names of `Name,offset;Name,offset`, each once, in GDELT's order."""
    if not field:
        return ()
    names = {mention.rpartition(",")[0]: None for mention in _text(field).split(";")}
    names.pop("", None)
    return tuple(names)[:MOST_NAMES]


@lru_cache(maxsize=65536)
def _place(text: bytes) -> GkgPlace | None:
    """Parse `kind#name#country#adm1#latitude#longitude#feature`; None if it is malformed."""
    f = _text(text).split("#")
    try:
        kind, latitude, longitude = int(f[0]), float(f[4]), float(f[5])
    except (ValueError, IndexError):
        return None
    if not (1 <= kind <= 5 and -90 <= latitude <= 90 and -180 <= longitude <= 180):
        return None
    # In files of 2015 the country column may be another place's; ADM1 always begins with the country.
    return GkgPlace(kind, f[1], f[3][:2] or f[2], latitude, longitude)


def _places(field: bytes) -> tuple[GkgPlace, ...]:
    if not field:
        return ()
    places = dict.fromkeys(_place(text) for text in field.split(b";")[:MOST_NAMES])
    return tuple(place for place in places if place)


MENTION_COLUMNS = 16
LONGEST_MENTION = 8192


class Mention(Struct, frozen=True, gc=False):
    """A mention of an event on a page. `event_id` is the GlobalEventID, `source` the outlet's host as GDELT writes it.

    `confidence` is 10..100, GDELT's confidence in the extraction. `tone` is the page's, -100..100.
    """

    event_id: str
    mentioned_at: datetime
    source: str
    url: str
    confidence: int
    tone: float | None


class ParsedMentions(Struct, frozen=True):
    """The usable rows in file order. `total` counts all non-empty lines."""

    mentions: list[Mention]
    bad: list[BadRow]
    total: int


def parse_mentions(raw: bytes) -> ParsedMentions:
    """Parse the mentions on web pages. Rows about broadcasts and print have no URL and count as bad."""
    mentions, bad = parse_lines(raw.split(b"\n"), _mention)
    return ParsedMentions(mentions, bad, len(mentions) + len(bad))


def _mention(packed: bytes) -> Mention:
    line = packed.decode("utf-8", "replace")
    f = line.split("\t")
    if len(f) != MENTION_COLUMNS or len(line) > LONGEST_MENTION:
        raise ValueError(
            f"{len(f)} columns in {len(line)} characters; {MENTION_COLUMNS} in at most {LONGEST_MENTION} expected"
        )
    if not (f[0].isascii() and f[0].isdecimal()):
        raise ValueError("the event id is not a number")
    if f[3] != "1":
        raise ValueError("the document is not a web page")
    return Mention(f[0], _moment(f[2]), f[4], _address(f[5]), _confidence(f[11]), _tone(f[13]))


@lru_cache(maxsize=16384)
def _address(text: str) -> str:
    url = clean_url(text)
    if not url:
        raise ValueError("the document has no http(s) URL")
    return url


@lru_cache(maxsize=128)
def _confidence(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 <= int(text) <= 100:
        raise ValueError(f"{text[:20]!r} is not a confidence of 0..100")
    return int(text)
