"""From a shopper's words to products: what they wish, what they mistyped, and what to give up when nothing fits."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import msgspec
from msgspec import Struct
from rapidfuzz import fuzz, process

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery, SearchResult
from tollhouse.services.mattress.queries import SearchQuery, engine_query
from tollhouse.services.mattress.query_understanding import Wish, plain, read_wish

# What may be given up of a wish when nothing fits all of it, the most readily first; size, brand and what the caller
# filters by never are.
RELAXED = ("cooling", "in_stock", "firmness", "sleep_position", "words", "material", "price")
_FILTERS_OF = {
    "cooling": ("cooling_min",),
    "in_stock": ("in_stock",),
    "firmness": ("firmness_min", "firmness_max"),
    "sleep_position": ("sleep_position",),
    "words": (),
    "material": ("material",),
    "price": ("min_price", "max_price"),
}
# As few as possible are given up; beyond so many, all of them.
MOST_RELAXED = 3
# A word that is no product's is taken for the brand that it resembles this much, of 100.
_LIKE_A_BRAND = 80
_SHORTEST_BRAND_WORD = 5


class Understanding(Struct, frozen=True, omit_defaults=True):
    """How words were read: which of them made which filter or order, and which were only looked for.

    `corrected` are mistyped words and what they were taken for, `relaxed` what was given up, as nothing had it all.
    """

    words: dict[str, str] = {}
    text: str = ""
    sort: str = ""
    corrected: dict[str, str] = {}
    relaxed: tuple[str, ...] = ()


class Sought(Struct, frozen=True):
    """What was found, for which filters, and how the words were read (None: as plain words)."""

    found: SearchResult
    filters: SearchQuery
    understood: Understanding | None


class _Attempt(Struct, frozen=True):
    filters: SearchQuery
    text: str | None

    @property
    def question(self) -> CatalogueQuery:
        return engine_query(self.filters, self.text)


async def seek(catalogue: Catalogue, brands: Sequence[str], query: SearchQuery) -> Sought:
    """Answer a search. Raises Problem `invalid-parameter`."""
    wish = read_wish(query.q, brands)
    corrected = await _corrections(catalogue, brands, wish.text)
    if corrected:
        wish = read_wish(_replaced(query.q, corrected), brands)
    if wish.is_empty:
        found = await catalogue.search(engine_query(query, _replaced(query.q, corrected) if corrected else query.q))
        corrected |= found.corrected
        return Sought(found, query, Understanding(corrected=corrected) if corrected else None)
    return await _granted(catalogue, query, wish, corrected)


async def _granted(catalogue: Catalogue, query: SearchQuery, wish: Wish, corrected: dict[str, str]) -> Sought:
    """The products that have all of the wish; else, as many of its parts as possible."""
    wished = {name: value for name, value in wish.filters.items() if name not in query.applied()}
    # Without words to rank by, the cheapest is what most would look at first.
    sort = query.sort or wish.sort or ("" if wish.text else "price")
    whole = _Attempt(msgspec.structs.replace(query, **wished, sort=sort or None), wish.text or None)
    attempt, relaxed = await _fitting(catalogue, whole, wished)
    text = "" if "words" in relaxed else wish.text
    words = {name: said for name, said in wish.words.items() if name in wished or name == "sort"}
    understood = Understanding(words, text, sort, corrected, relaxed)
    return Sought(await catalogue.search(attempt.question), attempt.filters, understood)


async def _fitting(catalogue: Catalogue, whole: _Attempt, wished: dict[str, Any]) -> tuple[_Attempt, tuple[str, ...]]:
    """The first attempt that finds anything, and what it gave up; the whole wish where none does."""
    if await _total(catalogue, whole):
        return whole, ()
    possible = [
        name
        for name in RELAXED
        if set(_FILTERS_OF[name]) & wished.keys() or (name == "words" and whole.text is not None)
    ]
    for given_up in _fewest_first(possible):
        attempt = _without(whole, wished, given_up)
        if await _total(catalogue, attempt):
            return attempt, given_up
    return whole, ()


def _fewest_first(possible: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for count in range(1, min(MOST_RELAXED, len(possible)) + 1):
        yield from combinations(possible, count)
    if len(possible) > MOST_RELAXED:
        yield tuple(possible)


def _without(whole: _Attempt, wished: dict[str, Any], given_up: Sequence[str]) -> _Attempt:
    """The attempt without these parts of the wish; the caller's own filters stay."""
    dropped: dict[str, Any] = {}
    for name in given_up:
        for parameter in _FILTERS_OF[name]:
            if parameter in wished:
                dropped[parameter] = [] if isinstance(wished[parameter], list) else None
    filters = msgspec.structs.replace(whole.filters, **dropped)
    return _Attempt(filters, None if "words" in given_up else whole.text)


async def _total(catalogue: Catalogue, attempt: _Attempt) -> int:
    counted = msgspec.structs.replace(attempt.question, limit=0, offset=0, facets=(), sort="")
    return (await catalogue.search(counted)).total


async def _corrections(catalogue: Catalogue, brands: Sequence[str], text: str) -> dict[str, str]:
    """Mistyped words: what the catalogue reads them as, and the brand that an unknown word resembles."""
    corrected = dict((await catalogue.search(CatalogueQuery(text=text, limit=0))).corrected)
    brand_words = [word for brand in brands for word in (plain(brand), *plain(brand).split())]
    for word in plain(text).split():
        if len(word) < _SHORTEST_BRAND_WORD or word in corrected:
            continue
        if not (await catalogue.search(CatalogueQuery(text=word, limit=0))).total:
            like = process.extractOne(word, brand_words, scorer=fuzz.ratio, score_cutoff=_LIKE_A_BRAND)
            corrected |= {word: like[0]} if like else {}
    return corrected


def _replaced(text: str, corrected: dict[str, str]) -> str:
    """The text with its mistyped words put right."""
    right = plain(text)
    return re.sub(r"\w+", lambda word: corrected.get(word[0], word[0]), right)
