"""Which columns of a CSV or JSONL file hold which fields: usual names, or the operator's own file of them."""

import re
import tomllib
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

Target = Literal[
    "id", "group", "title", "brand", "description", "price", "sale_price", "currency", "size", "material", "firmness",
    "cooling", "sleep_positions", "tags", "image_url", "affiliate_url", "availability", "type",
]  # fmt: skip

_NOISE = re.compile(r"[^a-z0-9]+")

# By field, the usual names of its column, the likeliest first.
USUAL: dict[Target, tuple[str, ...]] = {
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
    "material": ("material", "mattress type", "construction"),
    "firmness": ("firmness", "firmness rating", "firmness level", "feel", "comfort level", "comfort"),
    "cooling": ("cooling", "cooling rating", "cooling level"),
    "sleep_positions": ("sleep positions", "sleep position", "sleeping positions", "sleeping position"),
    "tags": ("tags", "keywords", "labels"),
    "image_url": ("image url", "image link", "image", "image src", "main image", "picture", "merchant image url"),
    "affiliate_url": ("affiliate url", "url", "link", "product url", "page url",
                      "deep link", "merchant deep link", "permalink"),
    "availability": ("availability", "stock status", "stock", "in stock", "available"),
    "type": ("type", "product type", "category", "google product category"),
}  # fmt: skip


class Mapping(Struct, frozen=True, forbid_unknown_fields=True):
    """`columns` says for a column's name which field it holds; columns it does not name go by the usual names.

    `constants` hold for every row. `delimiter` and `encoding` are found out where they are not given. With
    `minor_units` prices are whole cents (2), or whatever decimals the currency has.
    """

    columns: dict[str, Target] = {}
    constants: dict[Target, str] = {}
    delimiter: str = ""
    encoding: str = ""
    minor_units: int | None = None

    def __post_init__(self) -> None:
        targets = list(self.columns.values())
        twice = next((target for target in targets if targets.count(target) > 1), None)
        if twice:
            raise ValueError(f"two columns cannot both hold {twice}")
        if len(self.delimiter) > 1:
            raise ValueError("a delimiter is one character")
        if self.minor_units is not None and not 0 <= self.minor_units <= 6:
            raise ValueError("minor_units is a number of decimals, 0 to 6")

    def fields(self, columns: list[str]) -> dict[str, Target]:
        """Which field each column holds, of those that hold one."""
        named = {plain_name(column): target for column, target in self.columns.items()}
        found = {column: named[plain_name(column)] for column in columns if plain_name(column) in named}
        taken = {*found.values(), *self.constants}
        for target, usual in USUAL.items():
            if target in taken:
                continue
            rank = {name: place for place, name in enumerate(usual)}
            free = [column for column in columns if column not in found and plain_name(column) in rank]
            if free:
                found[min(free, key=lambda column: rank[plain_name(column)])] = target
        return found


def load_mapping(path: Path) -> Mapping:
    """A mapping file, TOML. Raises ValueError with one line that says what is wrong with it."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Mapping)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"the mapping {path.name} cannot be read: {error}") from None


def plain_name(column: str) -> str:
    """A column's name without what spellings differ in: `g:sale_price`, `Sale Price` and `salePrice` are one."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column.strip())
    return _NOISE.sub(" ", words.lower().removeprefix("g:")).strip()
