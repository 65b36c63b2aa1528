"""Which articles print another's text, told by their headlines: ten papers with one headline are one voice."""

import re
from collections.abc import Iterable
from datetime import timedelta

from msgspec.structs import replace

from tollhouse.services.defense.article import Article
from tollhouse.services.defense.publishers import AGGREGATOR, is_agency

# Shorter headlines ("Morning briefing") are alike by chance.
FEWEST_WORDS = 6
# A template ("What to know today") comes back, a wire story does not.
LONGEST_APART = timedelta(days=2)

_SITE = re.compile(r"\s+(?:[|–—·»-]|::)\s+")  # noqa: RUF001 - the dashes that sites put before their names
_WORD = re.compile(r"\w+")


def with_copies_marked(articles: Iterable[Article]) -> list[Article]:
    """The articles in their order, those with the same headline under the family that speaks first.

    That is a news agency where one is among them, else the earliest article's; aggregators never speak first.
    """
    kept = list(articles)
    groups: dict[str, list[Article]] = {}
    for article in kept:
        key = headline_key(article.title)
        if key:
            groups.setdefault(key, []).append(article)
    families = {copy.id: family for group in groups.values() if len(group) > 1 for copy, family in _copies(group)}
    return [replace(a, family=families[a.id]) if a.id in families else a for a in kept]


def headline_key(title: str) -> str:
    """The headline's words without case, punctuation and the site's name; empty when too short to prove anything."""
    parts = _SITE.split(title)
    words = _WORD.findall(title.casefold())
    while len(parts) > 1 and len(_WORD.findall(" - ".join(parts[:-1]))) >= FEWEST_WORDS and len(parts[-1]) <= 40:
        parts = parts[:-1]
        words = _WORD.findall(" ".join(parts).casefold())
    return " ".join(words) if len(words) >= FEWEST_WORDS else ""


def _copies(group: list[Article]) -> Iterable[tuple[Article, str]]:
    source = min(group, key=lambda a: (not is_agency(a.family), a.family == AGGREGATOR, a.published, a.id))
    for article in group:
        if abs(article.published - source.published) <= LONGEST_APART and not is_agency(article.family):
            yield article, source.family
