"""Product search: reads conditions from the text, and drops the least important when no product matches all."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, Protocol, get_args

import msgspec
from msgspec import Struct

from tollhouse.catalogue.followed_items import MOST_CHANGED
from tollhouse.catalogue.query import CatalogueQuery, SearchResult
from tollhouse.catalogue.tokens import STOPWORDS
from tollhouse.questions.description import narrowed, read_description
from tollhouse.questions.linking import Linker
from tollhouse.questions.query import AllOf, Condition, Not, Open, Order, Reading, Refusal, Test
from tollhouse.questions.spelling import as_typed
from tollhouse.questions.vocabulary import Named
from tollhouse.services.mattress.api_types import SearchQuery, Sort, catalogue_query
from tollhouse.services.mattress.attributes.derive import name_measures
from tollhouse.services.mattress.described_filters import DROPPABLE, Group, Part, Translator, merged
from tollhouse.services.mattress.vocabulary import PRODUCT, declaration, trial_nights

# What other things have as well.
_OF_ANYTHING = frozenset({"price", "discount", "on_sale", "in_stock", "availability", "size", "brand", "retailer"})
# So many products are equally good at most.
MOST_EQUALS = 25
# As few parts as possible are dropped; if this many are not enough, all of them.
MAX_DROPPED = 3


class Understanding(Struct, frozen=True, omit_defaults=True):
    """How the text was read. `words` are those of each filter, by parameter.

    `conditions` are filters that no parameter expresses. `text` was searched as words, and `unused` are the words that
    changed nothing. `corrected` are typos with their corrections; `relaxed` are the parts that were dropped, the least
    important first. `best` are the products that a superlative means, by id: all that are equally cheap. `refused` says
    why nothing was looked for: the text asks for an opinion, a forecast or advice, or what no product says.
    """

    words: dict[str, str] = {}
    conditions: tuple[str, ...] = ()
    text: str = ""
    sort: str = ""
    unused: tuple[str, ...] = ()
    corrected: dict[str, str] = {}
    relaxed: tuple[str, ...] = ()
    best: tuple[str, ...] = ()
    refused: str = ""


class ProductSearch(Struct, frozen=True):
    """The result, the filters that led to it, and how the text was read (None: as plain words)."""

    result: SearchResult
    filters: SearchQuery
    understanding: Understanding | None


class Searchable(Protocol):
    """A catalogue, or the index of one."""

    async def search(self, query: CatalogueQuery) -> SearchResult:
        """One page, the exact total and the facets."""


class SearchWords(Struct, frozen=True):
    """The words of one revision of the catalogue: vocabulary and names, and the tags that state a trial."""

    linker: Linker
    names: dict[Named, None]
    trials: dict[str, int]


def read_search_words(names: Iterable[Named], tags: Iterable[str], before: SearchWords | None = None) -> SearchWords:
    """The words of a catalogue with these names. What `before` has is not made again, unless much has changed."""
    current = dict.fromkeys(names)
    known = before.names if before else {}
    removed = [name for name in known if name not in current]
    added = [name for name in current if name not in known]
    # A name is removed with all that its value has.
    gone = {(name.attribute, name.value) for name in removed}
    has_others = len(gone) < len(removed) or not gone.isdisjoint({(name.attribute, name.value) for name in current})
    if before and not has_others and len(removed) <= MOST_CHANGED * len(known):
        linker = before.linker.renamed(removed, added, ())
    else:
        linker = Linker(declaration(), current)
    return SearchWords(linker, current, trial_nights(tags))


async def search_products(catalogue: Searchable, known: SearchWords, query: SearchQuery) -> ProductSearch:
    """Run a search. A single word is matched as it is, if a product has it. Raises Problem `invalid-parameter`."""
    text, measures = name_measures(query.q)
    reading = read_description(text, known.linker, PRODUCT)
    if isinstance(reading, Refusal):
        nothing = await catalogue.search(_nothing(query))
        return ProductSearch(nothing, query, Understanding(unused=reading.words, refused=reading.reason))
    earlier = [read_description(name_measures(each)[0], known.linker, PRODUCT) for each in query.after]
    reading = reduce(narrowed, (*(each for each in earlier if isinstance(each, Reading)), reading))
    described = reading.query
    assert isinstance(described, Open)
    where = _without_ordinary_models(described.rows.where, known.linker)
    parts = [
        msgspec.structs.replace(part, words=_as_written(as_typed(part.words, reading.corrected), measures))
        for part in Translator(known.trials).parts(where)
        if not (part.is_excluding and part.attribute == "text" and not await _is_known(catalogue, part.words))
    ]
    sort = _sort(described.rows.order)
    if not query.after and await _is_matched_word(catalogue, known.linker, text, reading):
        return await _search_words(catalogue, query)
    if not (parts or sort) or await _is_of_something_else(catalogue, known.linker, text, described.words, parts):
        return await _search_undescribed(catalogue, known.linker, query, (*described.words, *reading.ignored))
    given = query.applied().keys()
    for part in parts:
        # A parameter of the request counts, not the text.
        part.parameters = {name: value for name, value in part.parameters.items() if name not in given}
    parts = [part for part in parts if part.parameters or part.where]
    return await _search_parts(catalogue, query, reading, parts, sort)


def _is_part_of_value(linker: Linker, reading: Reading) -> bool:
    """Whether the text is a value that is a part of another one: a king is no king single."""
    test = reading.query.rows.where if isinstance(reading.query, Open) else None
    attribute = linker.attribute_named(PRODUCT, test.attribute) if isinstance(test, Test) else None
    if attribute is None or not isinstance(test, Test):
        return False
    return any(str(value) in other.split() for value in test.values for other in attribute.values if other != value)


async def _is_matched_word(catalogue: Searchable, linker: Linker, text: str, reading: Reading) -> bool:
    """Whether the text is one word that products have; one that both may correct is corrected as a word."""
    if len(text.split()) > 1 or _is_part_of_value(linker, reading):
        return False
    if reading.corrected:
        return bool(await _total(catalogue, CatalogueQuery(text=text)))
    return await _is_known(catalogue, text)


async def _search_words(catalogue: Searchable, query: SearchQuery) -> ProductSearch:
    """The products with the words of the text."""
    result = await catalogue.search(catalogue_query(query, query.q))
    understanding = Understanding(text=query.q, corrected=result.corrected) if result.corrected else None
    return ProductSearch(result, query, understanding)


async def _search_undescribed(
    catalogue: Searchable, linker: Linker, query: SearchQuery, phrases: Sequence[str]
) -> ProductSearch:
    """The products with the words of a text that names no property; none if most of its words are foreign."""
    words = " ".join(phrases).split()
    known = [word for word in words if await _is_matched(catalogue, linker, word)]
    if words:
        is_foreign = 2 * len(known) <= len(words) and not await _is_known(catalogue, " ".join(words))
    else:
        is_foreign = not _names_kind(linker, query.q)
    if not is_foreign:
        return await _search_words(catalogue, query)
    nothing = await catalogue.search(_nothing(query))
    return ProductSearch(nothing, query, Understanding(unused=tuple(dict.fromkeys(words))))


async def _is_of_something_else(
    catalogue: Searchable, linker: Linker, text: str, phrases: Sequence[str], parts: Sequence[Part]
) -> bool:
    """Whether a text with words that no product has says nothing that only mattresses have: an electric bike."""
    words = [word for word in " ".join(phrases).split() if word.casefold() not in STOPWORDS]
    is_described = any(part.attribute not in _OF_ANYTHING for part in parts)
    if not words or is_described or _names_kind(linker, text):
        return False
    known = [word for word in words if await _is_matched(catalogue, linker, word)]
    described = " ".join(part.words for part in parts).split()
    return len(words) - len(known) >= max(2, len(described)) and len(known) * 2 <= len(words)


def _names_kind(linker: Linker, text: str) -> bool:
    """Whether the text has a noun for products."""
    return any(item.find("kind") for item in linker.link_corrected(text).items)


async def _is_matched(catalogue: Searchable, linker: Linker, word: str) -> bool:
    """Whether a product has the word. An ordinary word is no typo of another."""
    if word.casefold() in STOPWORDS:
        return False
    if linker.is_ordinary(word.casefold()):
        return await _is_known(catalogue, word)
    return bool(await _total(catalogue, CatalogueQuery(text=word)))


async def _search_parts(
    catalogue: Searchable, query: SearchQuery, reading: Reading, parts: list[Part], sort: Sort | None
) -> ProductSearch:
    """The products that match the whole description, or as many of its parts as possible."""
    described = reading.query
    assert isinstance(described, Open)
    order = query.sort or sort or "price"
    ordered = msgspec.structs.replace(query, sort=order)
    applied, dropped = await _first_match(catalogue, ordered, parts)
    parameters, groups = merged(applied)
    filters = msgspec.structs.replace(ordered, **parameters)
    limit = described.rows.limit if order == sort else None
    understanding = Understanding(
        words={name: part.words for part in applied for name in part.parameters},
        conditions=tuple(part.words for part in applied if part.where),
        sort=order if order == sort else "",
        unused=tuple(dict.fromkeys((*described.words, *reading.ignored))),
        corrected=dict(reading.corrected),
        relaxed=dropped,
        best=await _best(catalogue, filters, groups, limit) if limit else (),
    )
    return ProductSearch(await catalogue.search(catalogue_query(filters, where=groups)), filters, understanding)


async def _best(catalogue: Searchable, filters: SearchQuery, groups: tuple[Group, ...], limit: int) -> tuple[str, ...]:
    """The first products of the order, and those that are equal to the last of them."""
    query = catalogue_query(msgspec.structs.replace(filters, offset=0, cursor=None, limit=MOST_EQUALS), where=groups)
    items = (await catalogue.search(query)).items
    last = _ordered(items[min(limit, len(items)) - 1], query.sort) if items else None
    return tuple(str(item["id"]) for n, item in enumerate(items) if n < limit or _ordered(item, query.sort) == last)


def _ordered(item: Mapping[str, Any], sort: str) -> object:
    """What a product is ordered by."""
    price, name = float(item["sale_price"]), sort.removeprefix("-")
    derived = {"current_price": price, "discount": round(1 - price / (float(item["price"]) or 1.0), 4)}
    return derived[name] if name in derived else item.get(name)


async def _first_match(
    catalogue: Searchable, query: SearchQuery, parts: Sequence[Part]
) -> tuple[Sequence[Part], tuple[str, ...]]:
    """The parts that have a result together, and the attributes that were dropped; all parts if there is no result."""
    present = {part.attribute for part in parts if part.is_droppable}
    droppable = [name for name in DROPPABLE if name in present]
    # The smallest combinations first.
    counts = range(min(MAX_DROPPED, len(droppable)) + 1)
    attempts = [dropped for count in counts for dropped in combinations(droppable, count)]
    if len(droppable) > MAX_DROPPED:
        attempts.append(tuple(droppable))
    for dropped in attempts:
        applied = [part for part in parts if not (part.is_droppable and part.attribute in dropped)]
        parameters, groups = merged(applied)
        if await _total(catalogue, catalogue_query(msgspec.structs.replace(query, **parameters), where=groups)):
            return applied, dropped
    return parts, ()


async def _total(catalogue: Searchable, query: CatalogueQuery) -> int:
    counted = msgspec.structs.replace(query, limit=0, offset=0, cursor="", facets=(), sort="")
    return (await catalogue.search(counted)).total


async def _is_known(catalogue: Searchable, words: str) -> bool:
    """Whether a product has all these words, as they are written."""
    result = await catalogue.search(CatalogueQuery(text=words, every_word=True, limit=0))
    return bool(result.total) and not result.corrected


def _nothing(query: SearchQuery) -> CatalogueQuery:
    return msgspec.structs.replace(catalogue_query(query), any_of={"id": ("",)})


def _sort(order: Order | None) -> Sort | None:
    """The order as a parameter; None if there is no such order."""
    if order is None:
        return None
    name = f"{'-' if order.descending else ''}{order.by}"
    name = {"-discount": "discount", "discount": ""}.get(name, name)
    return next((sort for sort in get_args(Sort) if sort == name), None)


def _without_ordinary_models(condition: Condition, linker: Linker) -> Condition:
    """Leaves out a model whose name is an ordinary word in lower case, unless a brand is named: "cool air flow"."""
    conditions = condition.of if isinstance(condition, AllOf) else (condition,)
    has_brand = any(isinstance(each, Test) and each.attribute == "brand" for each in conditions)
    applied = tuple(each for each in conditions if has_brand or not _is_ordinary_model(each, linker))
    return AllOf(applied)


def _is_ordinary_model(condition: Condition, linker: Linker) -> bool:
    test = condition.of if isinstance(condition, Not) else condition
    return (
        isinstance(test, Test) and test.attribute == "model" and test.words.islower() and linker.is_ordinary(test.words)
    )


def _as_written(words: str, measures: dict[str, str]) -> str:
    for label, written in measures.items():
        words = re.sub(rf"\b{re.escape(label)}\b", lambda _, written=written: written, words, count=1)  # type: ignore[misc]
    return words
