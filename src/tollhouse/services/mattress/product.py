"""The mattress schema: a product's fields, their labels, and how each is searched and shown."""

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
# Availabilities that count as in stock.
IN_STOCK = ("in stock", "low stock")
# Scales: firmness 1 is softest, 10 firmest; cooling 5 sleeps coolest.
FIRMNESS = (1, 10)
COOLING = (1, 5)

# The tag of the bundled demonstration's products.
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
        Field("cooling", "integer", filtered=True, faceted=True, sorted=True),
        Field("sleep_positions", "keywords", weight=1, filtered=True, faceted=True),
        Field("tags", "keywords", weight=1, filtered=True, faceted=True),
        Field("derived", "json", exported=False),
        Field("image_url", "text"),
        Field("affiliate_url", "text", required=True),
        Field("availability", "keyword", filtered=True, faceted=True, required=True),
        Field("description", "text", weight=1),
        Field("retailer", "keyword", filtered=True, faceted=True, required=True),
        # Only searched: products show the retailer's id, not its name.
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
    # A whole title scores about 100: the same size counts more than the same model in another size.
    alike={"size": 250, "material": 60, "firmness": 50, "current_price": 50, "sleep_positions": 20},
)

PRODUCT_FIELDS = MATTRESSES.exported


class Product(Struct, frozen=True, kw_only=True):
    """A mattress in one size at one retailer. What a retailer does not state is null, or an empty list.

    `sale_price` is the price to pay now; it equals `price` when there is no discount.
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


_BLANK: Item = {name: [] if name in ("sleep_positions", "tags") else None for name in PRODUCT_FIELDS}


class Storefront(Struct, frozen=True):
    """The public base URL of this service, without a trailing slash, and products as they are shown there."""

    base_url: str = ""

    @classmethod
    def from_settings(cls, settings: Settings) -> "Storefront":
        """The host's root when the service is served alone, else its prefix.

        Links are absolute. Without `public_url` they point to this machine, never to the request's Host header: they
        also appear in cached responses and in events.
        """
        root = settings.root_url
        return cls(root if settings.service else f"{root}/{CATALOGUE}")

    def product(self, item: Item) -> dict[str, Any]:
        """An item as a product: with every member, and the absolute URL of its picture."""
        return {**_BLANK, **item, "image_url": self.image_url(item)}

    def image_url(self, item: Item) -> str:
        """The URL of the retailer's picture, else of the picture that this service draws."""
        return str(item.get("image_url") or f"{self.base_url}/images/{item['id']}.svg")
