"""Parse feeds into articles, and count the entries that are skipped.

An entry's publication time is the date it states. A date up to an hour ahead counts as now (clocks differ). An entry
dated further ahead is skipped until its time comes, so that one dated 2099 never enters; one dated before `since` is
skipped. An entry without a readable date counts as published when fetched, but only if an earlier fetch of the feed did
not list it; on the first fetch its age is unknown and it is skipped.
"""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urljoin

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.html_text import one_line, shortened
from tollhouse.services.defense.article import Article, article_id, clean_url
from tollhouse.services.defense.ingest.feed_document import Entry, FeedDocument, feed_text, read_document
from tollhouse.services.defense.ingest.page_title import clean_titles
from tollhouse.services.defense.publishers import find_publisher

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
