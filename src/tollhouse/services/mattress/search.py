"""Product search: reads filters from the text, corrects typos, and drops filters when no product matches all."""

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec
from msgspec import Struct
from rapidfuzz import fuzz, process

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery, SearchResult
from tollhouse.services.mattress.api_types import SearchQuery, catalogue_query
from tollhouse.services.mattress.query_understanding import ParsedQuery, normalize, parse_query

# Parts of a parsed query that may be dropped when no product matches all of it, the least important first. Size, brand
# and the filters given as parameters are never dropped.
DROPPABLE = ("cooling", "in_stock", "firmness", "sleep_position", "words", "material", "price")
_FILTERS_OF = {
    "cooling": ("cooling_min",),
    "in_stock": ("in_stock",),
    "firmness": ("firmness_min", "firmness_max"),
    "sleep_position": ("sleep_position",),
    "words": (),
    "material": ("material",),
    "price": ("min_price", "max_price"),
}
# As few parts as possible are dropped; if this many are not enough, all of them.
MAX_DROPPED = 3
# An unknown word is taken for the brand that resembles it at least this much, of 100.
_BRAND_SIMILARITY = 80
_SHORTEST_BRAND_WORD = 5


class QueryInterpretation(Struct, frozen=True, omit_defaults=True):
    """How the text was read: which words became which filter or order, and which were searched as words.

    `corrected` are typos with their corrections; `relaxed` are the parts that were dropped.
    """

    words: dict[str, str] = {}
    text: str = ""
    sort: str = ""
    corrected: dict[str, str] = {}
    relaxed: tuple[str, ...] = ()


class ProductSearch(Struct, frozen=True):
    """The result, the filters that led to it, and how the text was read (None: as plain words)."""

    result: SearchResult
    filters: SearchQuery
    interpretation: QueryInterpretation | None


class _Attempt(Struct, frozen=True):
    filters: SearchQuery
    text: str | None

    @property
    def query(self) -> CatalogueQuery:
        return catalogue_query(self.filters, self.text)


async def search_products(catalogue: Catalogue, brands: Sequence[str], query: SearchQuery) -> ProductSearch:
    """Run a search. Raises Problem `invalid-parameter`."""
    parsed = parse_query(query.q, brands)
    corrected = await _corrections(catalogue, brands, parsed.text)
    if corrected:
        parsed = parse_query(_replace_words(query.q, corrected), brands)
    if parsed.is_empty:
        text = _replace_words(query.q, corrected) if corrected else query.q
        result = await catalogue.search(catalogue_query(query, text))
        corrected |= result.corrected
        return ProductSearch(result, query, QueryInterpretation(corrected=corrected) if corrected else None)
    return await _search_parsed(catalogue, query, parsed, corrected)


async def _search_parsed(
    catalogue: Catalogue, query: SearchQuery, parsed: ParsedQuery, corrected: dict[str, str]
) -> ProductSearch:
    """The products that match the whole parsed query, or as many of its parts as possible."""
    given = {name: value for name, value in parsed.filters.items() if name not in query.applied()}
    # Without words to rank by, the cheapest products come first.
    sort = query.sort or parsed.sort or ("" if parsed.text else "price")
    whole = _Attempt(msgspec.structs.replace(query, **given, sort=sort or None), parsed.text or None)
    attempt, dropped = await _first_match(catalogue, whole, given)
    text = "" if "words" in dropped else parsed.text
    words = {name: said for name, said in parsed.words.items() if name in given or name == "sort"}
    interpretation = QueryInterpretation(words, text, sort, corrected, dropped)
    return ProductSearch(await catalogue.search(attempt.query), attempt.filters, interpretation)


async def _first_match(
    catalogue: Catalogue, whole: _Attempt, given: dict[str, Any]
) -> tuple[_Attempt, tuple[str, ...]]:
    """The first attempt that has a result, with what it dropped; the whole query if none has."""
    if await _total(catalogue, whole):
        return whole, ()
    droppable = [
        name
        for name in DROPPABLE
        if set(_FILTERS_OF[name]) & given.keys() or (name == "words" and whole.text is not None)
    ]
    # The smallest combinations first.
    counts = range(1, min(MAX_DROPPED, len(droppable)) + 1)
    attempts = [dropped for count in counts for dropped in combinations(droppable, count)]
    if len(droppable) > MAX_DROPPED:
        attempts.append(tuple(droppable))
    for dropped in attempts:
        attempt = _without(whole, given, dropped)
        if await _total(catalogue, attempt):
            return attempt, dropped
    return whole, ()


def _without(whole: _Attempt, given: dict[str, Any], dropped: Sequence[str]) -> _Attempt:
    """The attempt without these parts of the text; filters given as parameters stay."""
    parameters = [parameter for name in dropped for parameter in _FILTERS_OF[name] if parameter in given]
    cleared: dict[str, Any] = {name: [] if isinstance(given[name], list) else None for name in parameters}
    filters = msgspec.structs.replace(whole.filters, **cleared)
    return _Attempt(filters, None if "words" in dropped else whole.text)


async def _total(catalogue: Catalogue, attempt: _Attempt) -> int:
    query = msgspec.structs.replace(attempt.query, limit=0, offset=0, facets=(), sort="")
    return (await catalogue.search(query)).total


async def _corrections(catalogue: Catalogue, brands: Sequence[str], text: str) -> dict[str, str]:
    """Corrections of mistyped words: those of the catalogue, and brands for words that no product has."""
    corrected = dict((await catalogue.search(CatalogueQuery(text=text, limit=0))).corrected)
    brand_words = [word for brand in brands for word in (normalize(brand), *normalize(brand).split())]
    for word in normalize(text).split():
        if len(word) < _SHORTEST_BRAND_WORD or word in corrected:
            continue
        if not (await catalogue.search(CatalogueQuery(text=word, limit=0))).total:
            brand = process.extractOne(word, brand_words, scorer=fuzz.ratio, score_cutoff=_BRAND_SIMILARITY)
            corrected |= {word: brand[0]} if brand else {}
    return corrected


def _replace_words(text: str, corrected: dict[str, str]) -> str:
    return re.sub(r"\w+", lambda word: corrected.get(word[0], word[0]), normalize(text))
