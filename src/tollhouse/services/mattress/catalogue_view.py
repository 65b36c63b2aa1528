"""The catalogue as the mattress endpoints see it, with its retailers, brands and counts."""

import asyncio
import re
from itertools import chain
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.followed_items import FollowedItems
from tollhouse.catalogue.items import Item, key
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.errors import Problem
from tollhouse.services.mattress.api_types import AttributeSource, Offer, RetailerCount
from tollhouse.services.mattress.product import DEMO_TAG, SIZES, Storefront
from tollhouse.services.mattress.retailers import Retailers
from tollhouse.services.mattress.search import SearchWords, read_search_words
from tollhouse.services.mattress.vocabulary import model_words, names_of
from tollhouse.storage.database import Database

# How many of a retailer's products are read to find the domains of its links.
SAMPLED_PRODUCTS = 100
# In a larger catalogue the names of models are not collected from the titles.
MODELS_BELOW = 20_000
MAX_OFFERS = 250

_WORD = re.compile(r"[^\W_]+")
_ATTRIBUTES = ("size", "material", "firmness", "cooling", "sleep_positions")


class CatalogueCounts(Struct, frozen=True):
    """Brands and retailers that have products, the one with most first, and the number of demonstration products.

    `retailers` are numbers of products by id.
    """

    revision: tuple[str, int]
    brands: tuple[str, ...]
    retailers: dict[str, int]
    tags: tuple[str, ...]
    demo_count: int


class CatalogueView:
    """The catalogue, its retailers and its storefront. Counts are cached until the catalogue changes."""

    def __init__(self, database: Database, catalogue: Catalogue, retailers: Retailers, storefront: Storefront) -> None:
        self.database = database
        self.catalogue = catalogue
        self.storefront = storefront
        self._retailers = retailers
        self._cached: CatalogueCounts | None = None
        self._counted: tuple[tuple[str, int], list[RetailerCount]] | None = None
        self._models = FollowedItems(catalogue, lambda item: model_words(item["title"], item.get("brand") or ""))
        self._words: tuple[tuple[str, int], SearchWords] | None = None

    def item(self, identity: str) -> Item:
        """The product with this id. Raises Problem `not-found`."""
        item = self.catalogue.get(identity)
        if item is None:
            raise Problem("not-found", "No product has this id.")
        return item

    def retailer_name(self, identity: str) -> str:
        return self._retailers.get(identity).display_name

    async def offers(self, item: Item) -> list[Offer]:
        """Every size of the product's model at every retailer: by size, then by price."""
        model = model_of(item)
        field = "brand" if item.get("brand") else "retailer"
        same = CatalogueQuery(
            text=model, every_word=True, any_of={field: (item[field],)}, sort="current_price", limit=MAX_OFFERS
        )
        items = [each for each in (await self.catalogue.search(same)).items if model_of(each) == model] or [item]
        items.sort(key=lambda each: SIZES.index(each["size"]) if each.get("size") in SIZES else len(SIZES))
        return [Offer(*({"size": None, **each}[name] for name in Offer.__struct_fields__)) for each in items]

    async def counts(self) -> CatalogueCounts:
        revision = self.catalogue.revision
        if self._cached is None or self._cached.revision != revision:
            result = await self.catalogue.search(CatalogueQuery(limit=0, facets=("brand", "retailer", "tags")))
            counts = {
                name: {str(each.value): each.count for each in facet}
                for name, facet in result.facets.items()
                if isinstance(facet, list)
            }
            brands, tags = tuple(counts["brand"]), tuple(counts["tags"])
            demo_count = counts["tags"].get(DEMO_TAG, 0)
            self._cached = CatalogueCounts(revision, brands, counts["retailer"], tags, demo_count)
        return self._cached

    async def retailers(self) -> list[RetailerCount]:
        """The retailers that have products, the one with most first, with their domains."""
        counts = await self.counts()
        if self._counted is None or self._counted[0] != counts.revision:
            each = [await self._retailer(identity, count) for identity, count in counts.retailers.items()]
            self._counted = counts.revision, each
        return self._counted[1]

    async def search_words(self) -> SearchWords:
        """The words of searches, which follow the changes of the catalogue."""
        counts = await self.counts()
        if self._words is None or self._words[0] != counts.revision:
            before = self._words[1] if self._words else None
            models = await self._models.current() if len(self.catalogue) <= MODELS_BELOW else []
            retailers = {identity: self.retailer_name(identity) for identity in counts.retailers}
            names = names_of(counts.brands, retailers, set(chain.from_iterable(models)))
            words = await asyncio.to_thread(read_search_words, names, counts.tags, before)
            self._words = counts.revision, words
        return self._words[1]

    async def _retailer(self, identity: str, count: int) -> RetailerCount:
        """A retailer with its configured domains and those of its first products' links."""
        retailer = self._retailers.get(identity)
        sample = await self.catalogue.search(CatalogueQuery(any_of={"retailer": (identity,)}, limit=SAMPLED_PRODUCTS))
        linked = {urlsplit(item["affiliate_url"]).hostname or "" for item in sample.items}
        domains = sorted({*retailer.affiliate_domains, *filter(None, linked)})
        return RetailerCount(identity, retailer.display_name, count, domains)


def model_of(item: Item) -> str:
    """The words of a product's title, in lower case and without its size: equal for all sizes of a model."""
    title = key(item["title"])
    size = key(item.get("size") or "")
    named = rf"\b{re.escape(size)}\b(?:[- ](?:size|bed)\b)?" if size else "(?!)"
    return " ".join(_WORD.findall(re.sub(named, " ", title)))


def attribute_sources(item: Item) -> dict[str, AttributeSource]:
    """Where the values of a product's attributes were read: in its texts, else in the retailer's feed."""
    derived = item.get("derived") or {}
    sources = {name: AttributeSource(each["place"], each["words"]) for name, each in derived.items()}
    return {name: AttributeSource("declared", []) for name in _ATTRIBUTES if item.get(name)} | sources
