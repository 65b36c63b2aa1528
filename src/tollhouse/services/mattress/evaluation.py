"""Answers descriptions with the bundled products, for `tollhouse evaluate questions mattress`."""

from collections.abc import Sequence
from functools import cache

from tollhouse import clock
from tollhouse.catalogue.query import CatalogueQuery, SearchResult
from tollhouse.catalogue.search_engine import TantivyEngine
from tollhouse.questions.answering import Answer
from tollhouse.questions.query import Refusal
from tollhouse.services.mattress.api_types import SearchQuery
from tollhouse.services.mattress.demonstration import change_sets
from tollhouse.services.mattress.product import MATTRESSES
from tollhouse.services.mattress.retailers import demo_retailers
from tollhouse.services.mattress.search import SearchWords, Understanding, read_search_words, search_products
from tollhouse.services.mattress.vocabulary import model_words, names_of

# The whole bundled catalogue.
MOST = 250


class _Bundled:
    def __init__(self) -> None:
        self._engine = TantivyEngine(MATTRESSES)
        moment = clock.now()
        for at, items in change_sets(moment):
            dated = {"created_at": clock.iso(at), "updated_at": clock.iso(at)}
            self._engine.put([{**item, **dated} for item in items])
        self._engine.publish()

    async def search(self, query: CatalogueQuery) -> SearchResult:
        return self._engine.find(query)

    def words(self) -> SearchWords:
        items = list(self._engine.items(CatalogueQuery()))
        names = names_of(
            {str(item["brand"]) for item in items},
            {retailer.id: retailer.display_name for retailer in demo_retailers()},
            {word for item in items for word in model_words(item["title"], item["brand"])},
        )
        return read_search_words(names, {tag: None for item in items for tag in item["tags"]})


@cache
def _bundled() -> tuple[_Bundled, SearchWords]:
    bundled = _Bundled()
    return bundled, bundled.words()


async def ask(turns: Sequence[str]) -> Answer:
    """The products that match the whole description; a text that says nothing about a mattress is refused.

    The turns before are searches that it narrows down. Products that match only a part are no answer.
    """
    bundled, words = _bundled()
    search = await search_products(bundled, words, SearchQuery(q=turns[-1], after=[*turns[:-1]], limit=MOST))
    understanding = search.understanding or Understanding(text=turns[-1])
    if understanding.refused:
        return Answer("The text asks for no mattress.", refusal=Refusal("unclear", understanding.unused))
    if not search.result.total and not (understanding.words or understanding.conditions or understanding.sort):
        return Answer("The text names no property of a mattress.", refusal=Refusal("unclear", understanding.unused))
    if understanding.relaxed:
        return Answer(f"0 products match. Without {', '.join(understanding.relaxed)}: {search.result.total}.")
    ids = understanding.best or tuple(str(item["id"]) for item in search.result.items)
    return Answer(f"{search.result.total} products match.", value=float(search.result.total), ids=ids)
