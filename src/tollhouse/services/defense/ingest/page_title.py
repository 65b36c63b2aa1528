"""Page titles without what their sites add: names of the site and its sections, dates, and titles of no article.

A part of a title belongs to the site if it names the publisher, as the host or the table of publishers has it, if
several titles of one domain share it, or if it repeats a section in the page's URL.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.article import (
    Article,
    bare_host,
    find_publisher,
    has_foreign_letters,
    registrable_domain,
)
from tollhouse.services.defense.ingest.url_title import headline_words

# So many different titles of a domain share a part that belongs to the site.
FEWEST_SHARING = 3
# Shorter texts between strokes are sections and site names, or look like them.
FEWEST_WORDS = 3
# A site's name may have so many words beside the publisher's: "BBC News", "Fox News Politics".
MOST_OTHER_WORDS = 3
# Hosts and initials shorter than this match by chance.
SHORTEST_LABEL, SHORTEST_INITIALS = 4, 3

_STROKE = re.compile(r"\s*(?:\|+|\s::+\s|[»›]|\s[·•])\s*")  # noqa: RUF001 - the marks that sites put around sections
_DASH = re.compile(r"(\s+[-–—]+\s+)")  # noqa: RUF001 - the dashes that sites put before their names
_COLON = re.compile(r":\s+")
_WORD = re.compile(r"[^\W_]+")
_DATE = re.compile(r"(?:\d{1,4}[./-]){2}\d{1,4}|\d{1,2}:\d{2}")
_DOTS = re.compile(r"\s*(?:\.{3,}|…)[\s.…]*$")
_SMALL = frozenset({"the", "of", "and", "for", "to", "in", "a", "an", "on"})


def clean_titles(articles: Sequence[Article]) -> list[Article]:
    """The articles, in their order, with their headlines alone as titles; empty where a title is not a headline.

    The language of a page whose title is not in Latin letters is unknown if its provider says English.
    """
    shared = _shared_parts(articles)
    titles = [_headline(article, shared[_domain(article.url)]) for article in articles]
    pages = Counter((_domain(article.url), title) for article, title in zip(articles, titles, strict=True))
    return [
        _with_title(article, title, pages[_domain(article.url), title])
        for article, title in zip(articles, titles, strict=True)
    ]


def _with_title(article: Article, title: str, pages: int) -> Article:
    """The article with a title that so many pages of its domain have."""
    is_front_page = len(urlsplit(article.url).path) <= 1 and not urlsplit(article.url).query
    if is_front_page or (pages >= FEWEST_SHARING and not _is_in_url(title, article.url)):
        title = ""
    language = "" if article.language == "en" and has_foreign_letters(title) else article.language
    unchanged = title == article.title and language == article.language
    return article if unchanged else replace(article, title=title, language=language)


def _is_in_url(title: str, url: str) -> bool:
    """Whether the URL has a word of the title: one that many pages share may still be the headline of copies."""
    in_url = {word.casefold() for word in headline_words(url)}
    return any(word in in_url for word in _words(title) if word not in _SMALL)


def _headline(article: Article, shared: Counter[str]) -> str:
    title = _DOTS.sub("…", " ".join(article.title.split()))
    parts = [part for part in _STROKE.split(title) if part]
    if len(parts) > 1:
        parts = [part for part in parts if not _names_site(part, article.url)] or parts
        # Sites put strokes between a headline and their sections.
        longest = max(parts, key=lambda part: len(_WORD.findall(part)))
        parts = [longest] if len(_WORD.findall(longest)) >= FEWEST_WORDS else [" | ".join(parts)]
    text = _without_ends(parts[0], article.url, shared) if parts else ""
    return "" if _names_site(text, article.url, most_other_words=0) else text


def _without_ends(text: str, url: str, shared: Counter[str]) -> str:
    """A text without the parts of the site between dashes at its ends, and before its first colon."""
    pieces = _DASH.split(text)
    is_cut = False
    while len(pieces) > 1 and (
        _is_of_site(pieces[-1], url, shared)
        or (is_cut and _key(pieces[-1]) in _sections(url))
        or _DATE.fullmatch(pieces[-1])
    ):
        is_cut = True
        del pieces[-2:]
    is_cut = False
    titles = shared[""]
    while len(pieces) > 1 and (
        _names_site(pieces[0], url)
        or (shared[_key(pieces[0])] >= FEWEST_SHARING and (is_cut or 2 * shared[_key(pieces[0])] >= titles))
    ):
        is_cut = True
        del pieces[:2]
    label = _COLON.split("".join(pieces), maxsplit=1)
    return label[1] if len(label) == 2 and _names_site(label[0], url) else "".join(pieces)


def _is_of_site(part: str, url: str, shared: Counter[str]) -> bool:
    return _names_site(part, url) or shared[_key(part)] >= FEWEST_SHARING


def _names_site(part: str, url: str, most_other_words: int = MOST_OTHER_WORDS) -> bool:
    """Whether a part of a title is the publisher's name, its host, or its initials in the host."""
    words = [word for word in _words(part) if word not in _SMALL]
    if not words:
        return True
    site = _site(url)
    fewest = max(1, len(words) - most_other_words)
    runs = (words[at : at + size] for size in range(fewest, len(words) + 1) for at in range(len(words) - size + 1))
    if any("".join(run) in site.names for run in runs):
        return True
    key = "".join(words)
    if len(words) > 1 and len(key) >= SHORTEST_LABEL and site.label.startswith(key):
        return True
    initials = ("".join(word[0] for word in some) for some in (words, _words(part)))
    return any(len(some) >= SHORTEST_INITIALS and site.label.startswith(some) for some in initials)


class _Site(Struct, frozen=True):
    """What names a site: the first label of its domain, and that, its host and its publisher's name as keys."""

    label: str
    names: frozenset[str]


@lru_cache(maxsize=4096)
def _site(url: str) -> _Site:
    publisher = find_publisher(url)
    domain = registrable_domain(publisher.host)
    label = _key(domain.partition(".")[0])
    name = "".join(word for word in _words(publisher.name) if word not in _SMALL)
    bare = label.removeprefix("the") if len(label) > len("the") + SHORTEST_LABEL else label
    names = {label, bare, _key(domain), _key(publisher.host), name}
    return _Site(bare, frozenset(names))


def _sections(url: str) -> set[str]:
    """The parts of a URL's path, as keys."""
    return {_key(unquote(part)) for part in urlsplit(url).path.split("/")[:-1]}


def _shared_parts(articles: Iterable[Article]) -> dict[str, Counter[str]]:
    """For each domain, how many different titles have a part between dashes; under the empty key, all its titles."""
    titles: dict[str, set[str]] = {}
    for article in articles:
        titles.setdefault(_domain(article.url), set()).add(article.title)
    return {
        domain: Counter(key for title in some for key in ("", *{_key(part) for part in _DASH.split(title)[::2]} - {""}))
        for domain, some in titles.items()
    }


@lru_cache(maxsize=4096)
def _domain(url: str) -> str:
    return registrable_domain(bare_host(url.partition("://")[2].partition("/")[0].partition(":")[0]))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _key(text: str) -> str:
    return "".join(_words(text))
