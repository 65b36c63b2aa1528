"""One row of a retailer's file, as an importer read it: what every format becomes before it is stored."""

from typing import Any

from msgspec import Struct


class ImportedRow(Struct, frozen=True):
    """A product to be stored, or the reason why this row is none: exactly one of `product` and `refused` is there.

    `line` is where a person finds it: the line of the file, or the number of the entry from 1 where a format has no
    lines. `id` is the product's own in the retailer's feed (what keeps it the same product at the next import),
    and is given with a refused row too, where it could be read: a product is not removed because its row is bad.

    `product` has the members of `product.PRODUCT_FIELDS` that the feed gives or its text tells, without `id`,
    `retailer`, `currency`, `created_at` and `updated_at`: the import fills those in. `price` is the list price and
    `sale_price` what is to be paid now, in Australian dollars. `affiliate_url` is the product's page at the retailer,
    untagged: the import makes the affiliate link of it. Labels are those of `product.py`; members that are not known
    are left out.
    """

    line: int
    id: str = ""
    product: dict[str, Any] | None = None
    refused: str = ""
