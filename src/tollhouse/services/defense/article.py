"""Articles and their publishers: addresses without tracking, outlet names, source families, and copies of a text.

A source family is one owner's outlets or, for a wire story, the news agency: ten papers with one Reuters story count
once. Aggregators share the family AGGREGATOR, which counts only if there is no other.
"""

import re
import tomllib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from sys import intern
from typing import Literal
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import Struct, convert
from msgspec.structs import replace

ArticleSource = Literal["feed", "gkg", "gdelt"]


class Article(Struct, frozen=True, gc=False):
    """A published page. `publisher` is the site's name for readers, `family` its source family.

    `published` is UTC: the page's own time if plausible, else when the provider first saw it. `text` is the summary or
    body from a feed, else empty. `tone` is GDELT's -100..100. `language` is ISO 639-1, empty if unknown.
    """

    id: str
    url: str
    title: str
    publisher: str
    family: str
    published: datetime
    source: ArticleSource
    text: str = ""
    tone: float | None = None
    language: str = ""


LONGEST_URL = 2048

# Most URLs are clean already, and checking that costs a tenth of parsing them.
_TIDY = re.compile(r"https?://[a-z0-9][a-z0-9.-]*(?:/[\w./~%+,=!$*'()@:-]*)?", re.ASCII)
_INVISIBLE = re.compile(r"[\x00-\x20\x7f\u200b-\u200f\u2028-\u202e\ufeff]+")
# Tracking parameters of campaigns, newsletters and feeds; none changes the page.
_TRACKING = re.compile(
    r"(?:utm_\w+|at_(?:medium|campaign|custom\d|bbc_team|link_\w+|format|ptr_name)|mc_[ce]id|ns_\w+|_hs(?:enc|mi)"
    r"|(?:fb|g|dcl|ms|tw|ya)clid|gclsrc|igshid|cmpid|cmp|ocid|smid|srnd|xtor|ito|ftag|ncid|tblci|mbid|taid"
    r"|traffic_source|maca|sr_share|feedtype|guccounter)",
    re.IGNORECASE,
)
# Letters that English does not use; a few of them are a name.
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def clean_url(link: str, base: str = "") -> str:
    """The absolute http(s) URL of a link, without fragment and tracking parameters; empty if there is none.

    Other schemes, user names, missing hosts and URLs longer than LONGEST_URL give an empty result.
    """
    if len(link) <= LONGEST_URL and _TIDY.fullmatch(link):
        return link
    # Feeds that escape twice leave &amp; between parameters.
    text = _INVISIBLE.sub("", link).replace("&amp;", "&")
    if not text or len(text) > LONGEST_URL:
        return ""
    try:
        parts = urlsplit(urljoin(base, text))
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port in {None, _DEFAULT_PORTS[parts.scheme]} else f"{host}:{port}"
    pairs = [pair for pair in parts.query.split("&") if not _TRACKING.fullmatch(pair.partition("=")[0])]
    url = parts._replace(netloc=netloc, query="&".join(pairs), fragment="").geturl()
    return url if len(url) <= LONGEST_URL else ""


def article_id(url: str) -> str:
    """`article_` and 16 hex digits: equal for http and https, www. and m., with and without a trailing slash."""
    page, _, query = url.partition("://")[2].partition("?")
    host, _, path = page.partition("/")
    key = f"{bare_host(host)}/{path.rstrip('/')}?{query}"
    return "article_" + blake2b(key.encode(), digest_size=8).hexdigest()


def has_foreign_letters(title: str) -> bool:
    """Whether most letters of a title are not Latin."""
    return 2 * len(_FOREIGN.findall(title)) > sum(map(str.isalpha, title))


@lru_cache(maxsize=16384)
def bare_host(host: str) -> str:
    """The host in lower case without leading www., m., mobile. or amp."""
    name = host.lower().strip(".")
    while True:
        first, _, rest = name.partition(".")
        if first not in {"www", "www1", "www2", "www3", "m", "mobile", "amp"} or "." not in rest:
            return name
        name = rest


AGGREGATOR = "aggregator"


class Publisher(Struct, frozen=True):
    """`host` has no www.; `name` is the outlet's name, or its registrable domain if unknown."""

    name: str
    host: str
    family: str


class _Agency(Struct):
    hosts: str = ""
    parts: str = ""
    ends: str = ""
    phrases: str = ""
    bylines: list[str] = []


class _Table(Struct):
    suffixes: str
    names: dict[str, str]
    aggregators: dict[str, str]
    families: dict[str, str]
    agencies: dict[str, _Agency]


def _read() -> _Table:
    text = files("tollhouse.services.defense").joinpath("data", "publishers.toml").read_text("utf-8")
    return convert(tomllib.loads(text), _Table)


def _families(table: _Table) -> dict[str, str]:
    families = {host: name for name, hosts in table.families.items() for host in hosts.split()}
    families |= dict.fromkeys(table.aggregators["hosts"].split(), AGGREGATOR)
    return families | {host: name for name, agency in table.agencies.items() for host in agency.hosts.split()}


def _marks(table: _Table, kind: str) -> dict[str, str]:
    """Agencies by their marks of one kind, in table order."""
    return {mark: name for name, agency in table.agencies.items() for mark in getattr(agency, kind).split()}


_TABLE = _read()
_SUFFIXES = frozenset(_TABLE.suffixes.split())
_FAMILIES = _families(_TABLE)
_AGENCIES = frozenset(_TABLE.agencies)
_PARTS, _ENDS, _PHRASES = (_marks(_TABLE, kind) for kind in ("parts", "ends", "phrases"))
_BYLINES = {byline.casefold(): name for name, agency in _TABLE.agencies.items() for byline in agency.bylines}
_LONG_BYLINES = {byline: name for byline, name in _BYLINES.items() if " " in byline}
# Reuters' article numbers, which other sites keep in their URLs: idUSKBN27U03K.
_REUTERS_NUMBER = re.compile(r"(?<![a-z0-9])id[a-z]{2}(?:k[bc]n|[a-z]\d[a-z])[a-z0-9]{5,7}(?![a-z0-9])")
_PORT = re.compile(r":\d*$")
_BYLINE_ENDS = re.compile(r"[;,|/()·•]|\band\b|\bvia\b|\bwith\b")


# A page is asked for twice while its report is read.
@lru_cache(maxsize=1024)
def find_publisher(url: str, byline: str = "") -> Publisher:
    """The publisher of a page, with the agency as its family if the URL or byline names one."""
    host, _, path = url.partition("://")[2].partition("/")
    outlet = _outlet(host)
    if outlet.family in _AGENCIES:
        return outlet
    agency = _agency_in_path("/" + path.partition("?")[0]) or agency_in_byline(byline)
    return Publisher(outlet.name, outlet.host, agency) if agency else outlet


def registrable_domain(host: str) -> str:
    """The registrable domain of a host: `bbc.co.uk` of `news.bbc.co.uk`. IP addresses stay unchanged."""
    labels = host.split(".")
    if labels[-1].isdecimal() or ":" in host:
        return host
    length = 3 if ".".join(labels[-2:]) in _SUFFIXES else 2
    return ".".join(labels[-length:])


def agency_in_byline(byline: str) -> str:
    """The agency in a byline ("Jane Doe, Associated Press", "By AFP"); empty without one."""
    text = byline.casefold()
    if not text:
        return ""
    for part in _BYLINE_ENDS.split(text):
        name = part.strip(" .:-").removeprefix("by ").removeprefix("the ").strip()
        if name in _BYLINES:
            return _BYLINES[name]
    return next((agency for name, agency in _LONG_BYLINES.items() if name in text), "")


def is_agency(family: str) -> bool:
    return family in _AGENCIES


def names_agency(name: str) -> bool:
    """Whether this is the name of a news agency, as its bylines give it."""
    return name.casefold() in _BYLINES


def count_source_families(families: Iterable[str]) -> int:
    """The number of independent source families: each counts once, aggregators only if there is no other."""
    distinct = {family for family in families if family}
    return max(len(distinct - {AGGREGATOR}), min(1, len(distinct)))


@lru_cache(maxsize=16384)
def _outlet(netloc: str) -> Publisher:
    """The outlet on a host (with or without a port), by the longest part of the host in the table."""
    host = bare_host(_PORT.sub("", netloc))
    domain = registrable_domain(host)
    known = [".".join(host.split(".")[start:]) for start in range(host.count(".") + 1)]
    name = next((_TABLE.names[part] for part in known if part in _TABLE.names), domain)
    return Publisher(name, host, next((_FAMILIES[part] for part in known if part in _FAMILIES), domain))


def _agency_in_path(path: str) -> str:
    lower = (unquote(path) if "%" in path else path).lower()
    parts = lower.split("/")
    for part in parts:
        if part in _PARTS:
            return _PARTS[part]
    end = (parts[-1] or parts[-2] if len(parts) > 1 else lower).removesuffix(".html").rpartition("-")[2]
    if end in _ENDS:
        return _ENDS[end]
    by_phrase = next((agency for phrase, agency in _PHRASES.items() if phrase in lower), "")
    return by_phrase or ("reuters" if "id" in lower and _REUTERS_NUMBER.search(lower) else "")


# Shorter headlines ("Morning briefing") may be equal by chance, but not so many of one event or story.
FEWEST_WORDS = 6
FEWEST_EQUAL = 4
# Recurring headlines ("What to know today") are not copies.
LONGEST_APART = timedelta(days=2)

_SITE = re.compile(r"\s+(?:[|–—·»-]|::)\s+")  # noqa: RUF001 - the dashes that sites put before their names
_WORD = re.compile(r"\w+")


def mark_copies(articles: Iterable[Article]) -> list[Article]:
    """The articles of one event or story in their order; those with the same headline get the family of the original.

    A headline that begins another is the same, cut off: addresses often end before the headline does.
    The original is a news agency's article if there is one, else the earliest that is not an aggregator's.
    """
    articles = list(articles)
    groups: dict[str, list[Article]] = {}
    for article in articles:
        if key := headline_key(article.title) or article.title.casefold():
            groups.setdefault(key, []).append(article)
    opening = ""
    for key in sorted(groups):
        if opening and key.startswith(f"{opening} "):
            groups[opening] += groups.pop(key)
        else:
            opening = key if key.count(" ") >= FEWEST_WORDS - 1 else ""
    families = {
        copy.id: family
        for key, group in groups.items()
        if len(group) >= (FEWEST_EQUAL if key.count(" ") < FEWEST_WORDS - 1 else 2)
        for copy, family in _copies(group)
    }
    return [replace(a, family=families[a.id]) if a.id in families else a for a in articles]


def headline_key(title: str) -> str:
    """The headline's words without case, punctuation and site name; empty if it is too short to compare."""
    parts = _SITE.split(title)
    words = _WORD.findall(title.casefold())
    while len(parts) > 1 and len(_WORD.findall(" - ".join(parts[:-1]))) >= FEWEST_WORDS and len(parts[-1]) <= 40:
        parts = parts[:-1]
        words = _WORD.findall(" ".join(parts).casefold())
    # Interned, because the events and the stories keep it.
    return intern(" ".join(words)) if len(words) >= FEWEST_WORDS else ""


def _copies(group: list[Article]) -> Iterable[tuple[Article, str]]:
    source = min(group, key=lambda a: (not is_agency(a.family), a.family == AGGREGATOR, a.published, a.id))
    for article in group:
        if abs(article.published - source.published) <= LONGEST_APART and not is_agency(article.family):
            yield article, source.family
