"""A shop's catalogue with a field of every type, and items for it."""

from tollhouse.catalogue.items import Item, prepare_item
from tollhouse.catalogue.schema import Field, Schema

SHOP = Schema(
    fields=(
        Field("title", "text", weight=10.0, required=True),
        Field("brand", "keyword", weight=5.0, filtered=True, faceted=True, sorted=True),
        Field("description", "text", weight=1.0),
        Field("size", "keyword", weight=2.0, filtered=True, faceted=True),
        Field("tags", "keywords", weight=1.0, filtered=True, faceted=True),
        Field("price", "money", filtered=True, faceted=True, sorted=True),
        Field("sale_price", "money", filtered=True),
        Field("firmness", "integer", filtered=True, faceted=True, sorted=True),
        Field("rating", "number", filtered=True, faceted=True, sorted=True),
        Field("in_stock", "boolean", filtered=True, faceted=True, sorted=True),
        Field("listed_at", "timestamp", filtered=True, sorted=True),
        Field("specs", "json"),
        Field("secret", "keyword", filtered=True, exported=False),
        Field("created_at", "timestamp", sorted=True),
        Field("updated_at", "timestamp", sorted=True),
    ),
    price="price",
    sale_price="sale_price",
    created="created_at",
    updated="updated_at",
    synonyms=(("queen bed", "queen size"), ("latex", "rubber")),
    alike={"brand": 5.0, "size": 5.0, "current_price": 3.0},
)


def item(identity: str, title: str = "Mattress", **members: object):
    return prepare_item(SHOP, {"id": identity, "title": title, **members})


def stock(engine, *items: Item):
    engine.put(items)
    engine.publish()
    return engine


def ids(found):
    return [each["id"] for each in getattr(found, "items", found)]
