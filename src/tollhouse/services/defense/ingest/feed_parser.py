"""Parse feeds (RSS 0.9x, 1.0, 2.0, RDF, Atom) into articles, and count the entries that are skipped.

expat parses the XML and refuses all declarations, so that no entity can expand. If a document is not well-formed, each
entry is parsed on its own, so that one stray character costs one entry.

An entry's publication time is the date it states. A date up to an hour ahead counts as now (clocks differ). An entry
dated further ahead is skipped until its time comes, so that one dated 2099 never enters; one dated before `since` is
skipped. An entry without a readable date counts as published when fetched, but only if an earlier fetch of the feed did
not list it; on the first fetch its age is unknown and it is skipped.
"""

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Literal
from urllib.parse import urljoin
from xml.parsers import expat

from msgspec import Struct, field
from msgspec.structs import replace

from tollhouse import charset
from tollhouse.html_text import one_line, shortened
from tollhouse.services.defense.article import Article, article_id, clean_url, find_publisher
from tollhouse.services.defense.ingest.page_title import clean_titles

MOST_ENTRIES = 2000
LONGEST_FIELD = 100_000
DEEPEST = 200

_ROOTS = frozenset({"rss", "rdf", "feed", "channel"})
_ENTRIES = frozenset({"item", "entry"})
# Prefixes by namespace; the feed formats themselves need none.
_VOCABULARIES = {
    "http://www.w3.org/2005/Atom": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://backend.userland.com/rss2": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://channel.netscape.com/rdf/simple/0.9/": "",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://search.yahoo.com/mrss/": "media:",
}


class Entry(Struct):
    """One item or entry: text by lower-case field name (`title`, `dc:date`, `link`). `base` is xml:base."""

    fields: dict[str, str] = field(default_factory=dict)
    base: str = ""
    language: str = ""


class FeedDocument(Struct):
    """A feed. `broken` counts malformed entries, `left_out` those beyond MOST_ENTRIES."""

    fields: dict[str, str] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    base: str = ""
    language: str = ""
    broken: int = 0
    left_out: int = 0
    is_well_formed: bool = True


class FeedReader:
    """Collects the entries of one document from expat's events. Use each reader once."""

    def __init__(self) -> None:
        self.document = FeedDocument()
        self._prefixes: dict[str, str] = {}
        self._path: list[str] = []
        self._entry: Entry | None = None
        self._entry_depth = 0
        self._name = ""
        self._pieces: list[str] = []
        self._length = 0

    def read(self, text: str) -> None:
        """Parse a document. Raises ExpatError if it is not well-formed, ValueError if it is not a feed."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        # With a foreign DTD declared, expat reports &nbsp; and similar entities instead of failing.
        parser.UseForeignDTD(True)  # noqa: FBT003 - expat takes it by position
        parser.EntityDeclHandler = _refuse_declaration
        # An attribute default can be as long as the feed and would be repeated for every element.
        parser.AttlistDeclHandler = _refuse_declaration
        parser.SkippedEntityHandler = self._skipped
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(text.encode("utf-8", "replace"), True)  # noqa: FBT003 - as above

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = self._local(name, attributes)
        self._path.append(local)
        if len(self._path) > DEEPEST:
            raise ValueError(f"the feed nests deeper than {DEEPEST} elements")
        if len(self._path) == 1:
            if local.removeprefix("rdf:") not in _ROOTS:
                raise ValueError(f"not a feed: the root element is <{local[:30]}>")
            self.document.base, self.document.language = attributes.get("xml:base", ""), attributes.get("xml:lang", "")
        elif self._entry is None and local in _ENTRIES:
            self._entry = Entry(base=attributes.get("xml:base", ""), language=attributes.get("xml:lang", ""))
            self._entry_depth = len(self._path)
        elif self._name:
            self._text(" ")
        elif local != "channel" and self._is_field():
            self._begin(local, attributes)

    def _is_field(self) -> bool:
        """Whether the element is a direct child of an entry, the feed or its channel."""
        if self._entry is not None:
            return len(self._path) == self._entry_depth + 1
        return len(self._path) == 2 or (len(self._path) == 3 and self._path[1] == "channel")

    def _begin(self, local: str, attributes: dict[str, str]) -> None:
        self._name, self._pieces, self._length = local, [], 0
        if local == "link" and "href" in attributes:
            self._name = "link" if attributes.get("rel", "alternate") == "alternate" else "link." + attributes["rel"]
            self._text(attributes["href"])
        elif local == "guid" and attributes.get("isPermaLink", "true").strip().lower() == "false":
            self._name = "guid.name"

    def _end(self, _name: str) -> None:
        depth = len(self._path)
        if self._name and self._is_field():
            fields = self.document.fields if self._entry is None else self._entry.fields
            text = "".join(self._pieces).strip()
            # Keep the first non-empty field of a name.
            if text and not fields.get(self._name):
                fields[self._name] = text
            self._name = ""
        elif self._entry is not None and depth == self._entry_depth:
            if len(self.document.entries) < MOST_ENTRIES:
                self.document.entries.append(self._entry)
            else:
                self.document.left_out += 1
            self._entry = None
        elif self._name:
            self._text(" ")
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._name and self._length < LONGEST_FIELD:
            self._pieces.append(text)
            self._length += len(text)

    def _skipped(self, name: str, is_parameter: bool) -> None:  # noqa: FBT001 - expat calls it by position
        if not is_parameter:
            self._text(unescape(f"&{name};"))

    def _local(self, name: str, attributes: dict[str, str]) -> str:
        """The element name in lower case with the usual prefix of its namespace, whichever prefix the feed uses."""
        for key, value in attributes.items():
            if key.startswith("xmlns:") and value in _VOCABULARIES and len(self._prefixes) < 100:
                self._prefixes[key[6:]] = _VOCABULARIES[value]
        prefix, colon, local = name.rpartition(":")
        if not colon:
            return local.lower()
        known = {"atom": "", "rss": ""} if prefix not in self._prefixes else self._prefixes
        return (known.get(prefix, prefix + ":") + local).lower()


def _refuse_declaration(*_: object) -> None:
    raise ValueError("the feed declares XML entities or attributes; both are refused")


_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed_text(raw: bytes, content_type: str = "") -> str:
    """Decode a feed, without its XML declaration and without characters that XML 1.0 forbids."""
    text = charset.decoded(raw, content_type)
    return _FORBIDDEN.sub("", _DECLARATION.sub("", text.removeprefix("\ufeff")))


_PIECE = re.compile(r"<((?:\w+:)?(?:item|entry))(?=[\s>])", re.IGNORECASE)
_NAMESPACE = re.compile(r"""\bxmlns:([\w.-]{1,30})\s*=\s*("[^"<]{0,200}"|'[^'<]{0,200}')""")
_STRAY = re.compile(
    r"&(?!(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{0,31});)|&#(?:[xX](?:1?\d|1?[A-Fa-f])|(?:[12]?\d|3[01]));"
)


def read_document(text: str) -> FeedDocument:
    """Read a feed's entries in their order. Raises ValueError if it is not a feed or declares entities."""
    if not text.strip():
        raise ValueError("the feed is empty")
    reader = FeedReader()
    try:
        reader.read(text)
    except expat.ExpatError:
        return _read_entries_alone(text, reader.document)
    return reader.document


def _read_entries_alone(text: str, whole: FeedDocument) -> FeedDocument:
    """Read every entry that is well-formed by itself; `whole` has the feed's fields read so far."""
    pieces = list(_pieces(text))
    if not pieces:
        raise ValueError("not a feed: it is not well-formed and has no entries")
    prefixes = dict(_NAMESPACE.findall(text[:20_000]))
    opening = "<rss " + " ".join(f"xmlns:{prefix}={value}" for prefix, value in prefixes.items()) + ">"
    document = FeedDocument(whole.fields, base=whole.base, language=whole.language, is_well_formed=False)
    document.left_out = max(0, len(pieces) - MOST_ENTRIES)
    for piece in pieces[:MOST_ENTRIES]:
        reader = FeedReader()
        try:
            reader.read(f"{opening}{_repaired(piece)}</rss>")
        except (expat.ExpatError, ValueError):
            document.broken += 1
        else:
            document.entries += reader.document.entries
    return document


def _pieces(text: str) -> Iterator[str]:
    """The text of each entry, from its start tag to its end tag or, if that is missing, to the next entry."""
    starts = list(_PIECE.finditer(text))
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        piece = text[start.start() : following.start() if following else len(text)]
        closing = piece.rfind(f"</{start[1]}")
        yield piece if closing < 0 else f"{piece[:closing]}</{start[1]}>"


def _repaired(piece: str) -> str:
    """Escape stray ampersands and drop references to control characters, the most common faults."""
    return _STRAY.sub(lambda stray: "&amp;" if stray[0] == "&" else "", piece)


# RFC 822 defines only American zone names; these are others that feeds use and that are unambiguous.
_ZONES = {
    "AEDT": "+1100", "AEST": "+1000", "CAT": "+0200", "CEST": "+0200", "CET": "+0100", "EAT": "+0300", "EEST": "+0300",
    "EET": "+0200", "HKT": "+0800", "JST": "+0900", "KST": "+0900", "MSK": "+0300", "NZDT": "+1300", "NZST": "+1200",
    "PKT": "+0500", "SGT": "+0800", "WAT": "+0100", "WIB": "+0700",
}  # fmt: skip
_ZONE = re.compile(r"\b[A-Z]{3,4}$")
_LONGEST = 64


def read_moment(text: str) -> datetime | None:
    """Parse RFC 822, ISO 8601 and common variants as UTC; None if unreadable. Defaults: UTC, 00:00."""
    tidy = " ".join(text[:_LONGEST].split())
    if not tidy:
        return None
    zoned = _ZONE.sub(lambda zone: _ZONES.get(zone[0], zone[0]), tidy)
    for parse, stated in ((datetime.fromisoformat, tidy), (parsedate_to_datetime, zoned)):
        try:
            moment = parse(stated)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


LONGEST_TITLE = 300
LONGEST_TEXT = 2000
CLOCK_DIFFERENCE = timedelta(hours=1)

Reason = Literal["broken", "left-out", "no-link", "no-title", "duplicate", "future", "old", "undated"]

_LINKS = ("feedburner:origlink", "link", "guid", "id")
_TITLES = ("title", "dc:title", "media:title")
_TEXTS = ("summary", "description", "content:encoded", "content", "media:description")
_DATES = ("published", "pubdate", "dc:date", "issued", "dcterms:issued", "dcterms:created", "created")
_CHANGES = ("updated", "dcterms:modified", "modified")
_BYLINES = ("author", "dc:creator", "dc:source", "dc:rights")


class Reading(Struct, frozen=True):
    """The context of one fetch: the feed's URL after redirects, the time, and the oldest date to accept.

    `seen` are the article ids that the previous fetch listed, None before the first.
    """

    url: str
    at: datetime
    since: datetime
    seen: Collection[str] | None = None
    content_type: str = ""


class ParsedFeed(Struct, frozen=True):
    """The articles in feed order. `listed` are the ids of all entries, for the next fetch's `seen`.

    `skipped` counts entries by reason; `broken`, `no-link` and `no-title` are faults of the feed.
    """

    articles: list[Article]
    listed: frozenset[str]
    skipped: dict[Reason, int]
    title: str
    language: str
    is_well_formed: bool


class _Skip(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_feed(raw: bytes, reading: Reading) -> ParsedFeed:
    """Parse an RSS, RDF or Atom feed. Raises ValueError if the document is not a feed."""
    document = read_document(feed_text(raw, reading.content_type))
    skipped: dict[Reason, int] = {"broken": document.broken, "left-out": document.left_out}
    articles: dict[str, Article] = {}
    listed: set[str] = set()
    for entry in document.entries:
        try:
            article = _article(entry, document, reading, listed)
        except _Skip as skip:
            skipped[skip.reason] = skipped.get(skip.reason, 0) + 1
        else:
            articles[article.id] = article
    return ParsedFeed(
        [replace(it, title=it.title or articles[it.id].title) for it in clean_titles(list(articles.values()))],
        frozenset(listed),
        {reason: count for reason, count in skipped.items() if count},
        one_line(document.fields.get("title", ""), LONGEST_TITLE),
        _language(document.language, document.fields),
        document.is_well_formed,
    )


def _article(entry: Entry, document: FeedDocument, reading: Reading, listed: set[str]) -> Article:
    url = _link(entry, document, reading.url)
    identity = article_id(url)
    if identity in listed:
        raise _Skip("duplicate")
    listed.add(identity)
    text = one_line(_first(entry.fields, _TEXTS), LONGEST_TEXT)
    # RSS 2.0 allows entries without a title.
    title = one_line(_first(entry.fields, _TITLES), LONGEST_TITLE) or shortened(text, 120)
    if not title:
        raise _Skip("no-title")
    is_new = reading.seen is not None and identity not in reading.seen
    publisher = find_publisher(url, _first(entry.fields, _BYLINES)[:200])
    return Article(
        id=identity,
        url=url,
        title=title,
        publisher=publisher.name,
        family=publisher.family,
        published=_published(entry.fields, reading, is_new=is_new),
        source="feed",
        text=text,
        language=_language(entry.language, entry.fields) or _language(document.language, document.fields),
    )


def _published(fields: dict[str, str], reading: Reading, *, is_new: bool) -> datetime:
    """The publication time by the rules at the top of this file. Raises _Skip if the entry does not qualify."""
    stated = read_moment(_first(fields, _DATES)) or read_moment(_first(fields, _CHANGES))
    if stated is None:
        if not is_new:
            raise _Skip("undated")
        return reading.at
    if stated > reading.at + CLOCK_DIFFERENCE:
        raise _Skip("future")
    if stated < reading.since:
        raise _Skip("old")
    return min(stated, reading.at)


def _link(entry: Entry, document: FeedDocument, url: str) -> str:
    base = _absolute(_absolute(url, document.base), entry.base)
    for name in _LINKS:
        text = entry.fields.get(name, "")
        # Only a link may be relative; a guid or id may be any text, and counts only if it is a URL.
        if text and (name not in {"guid", "id"} or text.startswith(("http://", "https://"))):
            link = clean_url(text, base)
            if link:
                return link
    raise _Skip("no-link")


def _absolute(url: str, base: str) -> str:
    try:
        return urljoin(url, base)
    except ValueError:
        return url


def _language(attribute: str, fields: dict[str, str]) -> str:
    """The ISO 639-1 code of `en`, `en-US` or `en_GB`; empty for anything else."""
    stated = (attribute or fields.get("language") or fields.get("dc:language") or "").strip().lower()
    primary = stated.replace("_", "-").partition("-")[0]
    return primary if len(primary) == 2 and primary.isascii() and primary.isalpha() else ""


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if fields.get(name)), "")
