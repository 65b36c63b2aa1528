"""The catalogue as the mattress endpoints see it, with its retailers, brands and counts."""

from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.errors import Problem
from tollhouse.services.mattress.api_types import RetailerCount
from tollhouse.services.mattress.product import DEMO_TAG, Storefront
from tollhouse.services.mattress.retailers import Retailers
from tollhouse.storage.database import Database

# How many of a retailer's products are read to find the domains of its links.
SAMPLED_PRODUCTS = 100


class CatalogueCounts(Struct, frozen=True):
    """Brands and retailers that have products, the one with most first, and the number of demonstration products."""

    revision: tuple[str, int]
    brands: tuple[str, ...]
    retailers: tuple[RetailerCount, ...]
    demo_count: int


class CatalogueView:
    """The catalogue, its retailers and its storefront. Counts are cached until the catalogue changes."""

    def __init__(self, database: Database, catalogue: Catalogue, retailers: Retailers, storefront: Storefront) -> None:
        self.database = database
        self.catalogue = catalogue
        self.storefront = storefront
        self._retailers = retailers
        self._cached: CatalogueCounts | None = None

    def item(self, identity: str) -> Item:
        """The product with this id. Raises Problem `not-found`."""
        item = self.catalogue.get(identity)
        if item is None:
            raise Problem("not-found", "No product has this id.")
        return item

    def retailer_name(self, identity: str) -> str:
        return self._retailers.get(identity).display_name

    async def counts(self) -> CatalogueCounts:
        revision = self.catalogue.revision
        if self._cached is None or self._cached.revision != revision:
            result = await self.catalogue.search(CatalogueQuery(limit=0, facets=("brand", "retailer", "tags")))
            counts = {
                name: {str(each.value): each.count for each in facet}
                for name, facet in result.facets.items()
                if isinstance(facet, list)
            }
            retailers = [await self._retailer(identity, count) for identity, count in counts["retailer"].items()]
            self._cached = CatalogueCounts(
                revision, tuple(counts["brand"]), tuple(retailers), counts["tags"].get(DEMO_TAG, 0)
            )
        return self._cached

    async def _retailer(self, identity: str, count: int) -> RetailerCount:
        """A retailer with its configured domains and those of its first products' links."""
        retailer = self._retailers.get(identity)
        sample = await self.catalogue.search(CatalogueQuery(any_of={"retailer": (identity,)}, limit=SAMPLED_PRODUCTS))
        linked = {urlsplit(item["affiliate_url"]).hostname or "" for item in sample.items}
        domains = sorted({*retailer.affiliate_domains, *filter(None, linked)})
        return RetailerCount(identity, retailer.display_name, count, domains)
