"""A mattress as the service keeps and shows it: its members, their labels, and how each is searched (document 2, 2)."""

from typing import Any

from msgspec import Struct

from tollhouse.catalogue.items import Item
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.config.settings import Settings

CATALOGUE = "mattress"
CURRENCY = "AUD"

# The Australian sizes, the narrowest first.
SIZES = ("Single", "King Single", "Double", "Queen", "King", "Super King")
MATERIALS = ("hybrid", "latex", "memory foam", "pocket spring", "innerspring", "foam")
SLEEP_POSITIONS = ("side", "back", "stomach", "combination")
AVAILABILITIES = ("in stock", "low stock", "preorder", "backorder", "out of stock", "discontinued")
# What is there to be sent now.
IN_STOCK = ("in stock", "low stock")
# 1 is the softest, 10 the firmest; cooling 5 sleeps coolest.
FIRMNESS = (1, 10)
COOLING = (1, 5)

# Marks the products of the bundled demonstration.
DEMO_TAG = "demo data"

MATTRESSES = Schema(
    fields=(
        Field("title", "text", weight=10, required=True),
        Field("brand", "keyword", weight=5, filtered=True, faceted=True, sorted=True),
        Field("price", "money", required=True),
        Field("sale_price", "money", required=True),
        Field("currency", "keyword", required=True),
        Field("size", "keyword", weight=2, filtered=True, faceted=True),
        Field("material", "keyword", weight=2, filtered=True, faceted=True),
        Field("firmness", "integer", filtered=True, faceted=True, sorted=True),
        Field("cooling", "integer", filtered=True, faceted=True),
        Field("sleep_positions", "keywords", weight=1, filtered=True, faceted=True),
        Field("tags", "keywords", weight=1, filtered=True, faceted=True),
        Field("derived", "json", exported=False),
        Field("image_url", "text"),
        Field("affiliate_url", "text", required=True),
        Field("availability", "keyword", filtered=True, faceted=True, required=True),
        Field("description", "text", weight=1),
        Field("retailer", "keyword", filtered=True, faceted=True, required=True),
        # Found by a shopper's words: the retailer's name, which the product shows as an id.
        Field("retailer_name", "keyword", weight=1, exported=False),
        Field("in_stock", "boolean", filtered=True, exported=False, required=True),
        Field("created_at", "timestamp", sorted=True),
        Field("updated_at", "timestamp"),
    ),
    price="price",
    sale_price="sale_price",
    created="created_at",
    updated="updated_at",
    synonyms=(
        ("queen bed", "queen size"),
        ("king bed", "king size"),
        ("latex", "rubber"),
        ("pocket spring", "pocket coil"),
        ("memory foam", "viscoelastic"),
        ("stomach", "tummy"),
        ("topper", "overlay"),
        ("orthopaedic", "orthopedic"),
        ("mattress", "matress"),
    ),
    # Beside some 100 for a whole title: another mattress of the size is more alike than the same one in another size.
    alike={"size": 250, "material": 60, "firmness": 50, "current_price": 50, "sleep_positions": 20},
)

PRODUCT_FIELDS = MATTRESSES.exported


class Product(Struct, frozen=True, kw_only=True):
    """A mattress in one size at one retailer. What a retailer does not tell is null, or an empty list.

    `sale_price` is what is to be paid now, equal to `price` when nothing is off.
    """

    id: str
    title: str
    brand: str | None
    price: float
    sale_price: float
    currency: str
    size: str | None
    material: str | None
    firmness: int | None
    cooling: int | None
    sleep_positions: list[str]
    tags: list[str]
    image_url: str
    affiliate_url: str
    availability: str
    description: str | None
    retailer: str
    created_at: str
    updated_at: str


# Where a server of one's own answers unless it is told otherwise, for what is imported beside it.

_BLANK: Item = {name: [] if name in ("sleep_positions", "tags") else None for name in PRODUCT_FIELDS}


class Storefront(Struct, frozen=True):
    """Where this service is reached from outside, without a slash at the end."""

    base_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "Storefront":
        """At the host's root when the service is served alone, else under its prefix.

        Links must be whole to be of use. Without `public_url` they lead to this machine: what a request calls its host
        is the caller's to choose, and these links stand in answers that are kept and in events.
        """
        root = settings.root_url
        return cls(root if settings.service else f"{root}/{CATALOGUE}")

    def shown(self, item: Item) -> dict[str, Any]:
        """An item of the catalogue as a product: every member there, its picture with its whole address."""
        product = {**_BLANK, **item}
        product["image_url"] = self.image_url(item)
        return product

    def image_url(self, item: Item) -> str:
        """The product's picture: the retailer's, else the one this service draws."""
        return str(item.get("image_url") or f"{self.base_url}/images/{item['id']}.svg")
