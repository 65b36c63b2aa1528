"""Column mappings: which column of a table holds which field of a product, by usual names or by a mapping file."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

ProductField = Literal[
    "id", "group", "title", "brand", "description", "price", "sale_price", "currency", "size", "tags", "image_url",
    "affiliate_url", "availability", "type",
]  # fmt: skip

# By field, the usual names of its column, the likeliest first.
_USUAL_NAMES: dict[ProductField, tuple[str, ...]] = {
    "id": ("id", "product id", "item id", "sku", "variant id", "offer id",
           "aw product id", "merchant product id", "handle", "code"),
    "group": ("item group id", "group id", "group", "parent id", "parent sku", "parent product id"),
    "title": ("title", "name", "product name", "product title", "product"),
    "brand": ("brand", "brand name", "vendor", "manufacturer", "make"),
    "description": ("description", "body html", "body", "long description",
                    "product description", "short description"),
    "price": ("price", "list price", "rrp", "regular price", "rrp price", "rrp inc gst", "base price", "price aud"),
    "sale_price": ("sale price", "special price", "current price", "sale", "our price",
                   "now price", "search price", "discount price"),
    "currency": ("currency", "currency code", "price currency"),
    "size": ("size", "size label", "bed size", "mattress size"),
    "tags": ("tags", "keywords", "labels"),
    "image_url": ("image url", "image link", "image", "image src", "main image", "picture", "merchant image url"),
    "affiliate_url": ("affiliate url", "url", "link", "product url", "page url",
                      "deep link", "merchant deep link", "permalink"),
    "availability": ("availability", "stock status", "stock", "in stock", "available"),
    "type": ("type", "product type", "category", "google product category"),
}  # fmt: skip


class Mapping(Struct, frozen=True, forbid_unknown_fields=True):
    """How the columns of a table become products.

    `columns` names the field of a column; columns it does not name go by their usual names, and the rest are
    attributes under their own heading. `constants` hold for every row. `delimiter` and `encoding` are detected where
    they are not given. With `minor_units` prices are whole units of so many decimals (2: cents).
    """

    columns: dict[str, str] = {}
    constants: dict[str, str] = {}
    delimiter: str = ""
    encoding: str = ""
    minor_units: int | None = None

    def __post_init__(self) -> None:
        fields = list(self.columns.values())
        repeated = next((field for field in fields if fields.count(field) > 1), None)
        if repeated:
            raise ValueError(f"two columns cannot both hold {repeated}")
        if len(self.delimiter) > 1:
            raise ValueError("a delimiter is one character")
        if self.minor_units is not None and not 0 <= self.minor_units <= 6:
            raise ValueError("minor_units is a number of decimals, 0 to 6")

    def fields(self, columns: Iterable[str]) -> dict[str, str]:
        """The field that each column holds; attributes are called by their column."""
        named = {plain_name(column): field for column, field in self.columns.items()}
        fields = {column: named.get(plain_name(column), "") for column in columns}
        taken = {*fields.values(), *self.constants}
        for field, usual in _USUAL_NAMES.items():
            rank = {name: place for place, name in enumerate(usual)}
            free = [column for column, given in fields.items() if not given and plain_name(column) in rank]
            if field not in taken and free:
                fields[min(free, key=lambda column: rank[plain_name(column)])] = field
        return {column: field or column for column, field in fields.items() if field or not is_product_field(column)}


def load_mapping(path: Path, attributes: Iterable[str] = ()) -> Mapping:
    """A mapping file in TOML. Columns may hold a product's fields, or one of the `attributes`. Raises ValueError."""
    allowed = (*get_args(ProductField), *attributes)
    try:
        mapping = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Mapping)
        for field in (*mapping.columns.values(), *mapping.constants):
            if field not in allowed:
                raise ValueError(f"there is no field {field!r}; fields are {', '.join(allowed)}")  # noqa: TRY301
    except (OSError, ValueError) as error:
        raise ValueError(f"the mapping {path.name} cannot be read: {error}") from None
    return mapping


def plain_name(column: str) -> str:
    """A column's name without spelling differences: `g:sale_price`, `Sale Price` and `salePrice` are one."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column.strip())
    return re.sub(r"[^a-z0-9]+", " ", words.lower().removeprefix("g:")).strip()


def is_product_field(name: str) -> bool:
    """Whether a field is a product's own, not an attribute."""
    return name in get_args(ProductField)
