"""What the mattress operations share: the catalogue, its retailers and brands, and where the service stands."""

from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.catalogue.query import CatalogueQuery, Facet
from tollhouse.errors import Problem
from tollhouse.services.mattress.product import DEMO_TAG, Storefront
from tollhouse.services.mattress.responses import RetailerCount
from tollhouse.services.mattress.retailers import Retailers
from tollhouse.storage.database import Database

# One retailer's links lead through few domains.
LOOKED_AT = 100


class _Counted(Struct, frozen=True):
    revision: tuple[str, int]
    brands: tuple[str, ...]
    retailers: tuple[RetailerCount, ...]
    demo_count: int


class Shop:
    """The catalogue of one service and what is known about it as a whole."""

    def __init__(self, database: Database, catalogue: Catalogue, retailers: Retailers, storefront: Storefront) -> None:
        self.database = database
        self.catalogue = catalogue
        self.storefront = storefront
        self._retailers = retailers
        self._counted: _Counted | None = None

    def item(self, identity: str) -> Item:
        """The product of an id. Raises Problem `not-found`."""
        item = self.catalogue.get(identity)
        if item is None:
            raise Problem("not-found", "There is no product of this id.")
        return item

    async def brands(self) -> tuple[str, ...]:
        """Every brand there is, the one with most products first."""
        return (await self._now()).brands

    async def retailers(self) -> tuple[RetailerCount, ...]:
        """Every retailer with a product, the one with most first."""
        return (await self._now()).retailers

    async def demo_count(self) -> int:
        """How many of the products are the demonstration's."""
        return (await self._now()).demo_count

    def retailer_name(self, identity: str) -> str:
        """What a retailer is called."""
        return self._retailers.of(identity).shown_name

    async def _now(self) -> _Counted:
        """The counts of the catalogue as it is, made anew when it has changed."""
        counted, revision = self._counted, self.catalogue.revision
        if counted is None or counted.revision != revision:
            self._counted = counted = await self._count(revision)
        return counted

    async def _count(self, revision: tuple[str, int]) -> _Counted:
        found = await self.catalogue.search(CatalogueQuery(limit=0, facets=("brand", "retailer", "tags")))
        counts = {name: _by_value(facet) for name, facet in found.facets.items()}
        listed = [await self._listed(identity, count) for identity, count in counts["retailer"].items()]
        return _Counted(revision, tuple(counts["brand"]), tuple(listed), counts["tags"].get(DEMO_TAG, 0))

    async def _listed(self, identity: str, count: int) -> RetailerCount:
        """A retailer as it is told, with the domains that its first products' links have beside those on file."""
        retailer = self._retailers.of(identity)
        some = await self.catalogue.search(CatalogueQuery(any_of={"retailer": (identity,)}, limit=LOOKED_AT))
        seen = {urlsplit(item["affiliate_url"]).hostname or "" for item in some.items}
        domains = sorted({*retailer.affiliate_domains, *filter(None, seen)})
        return RetailerCount(identity, retailer.shown_name, count, domains)


def _by_value(facet: Facet) -> dict[str, int]:
    """Counts by value, the largest first."""
    assert isinstance(facet, list), "only keywords are counted here"
    return {str(each.value): each.count for each in facet}
