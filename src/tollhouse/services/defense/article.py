"""An article, its address without tracking, and the id that all spellings of an address share."""

import re
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Literal
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

ArticleSource = Literal["feed", "gkg", "gdelt"]


class Article(Struct, frozen=True, gc=False):
    """A published page. `publisher` is the site's name for readers, `family` its source family (see `publishers`).

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


@lru_cache(maxsize=16384)
def bare_host(host: str) -> str:
    """The host in lower case without leading www., m., mobile. or amp."""
    name = host.lower().strip(".")
    while True:
        first, _, rest = name.partition(".")
        if first not in {"www", "www1", "www2", "www3", "m", "mobile", "amp"} or "." not in rest:
            return name
        name = rest
