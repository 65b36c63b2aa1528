"""The nine formats by name: who reads each, whether it comes in pages, and whether it names a currency."""

from collections.abc import Callable
from typing import Literal, get_args

from msgspec import Struct

from tollhouse.catalogue.importers.article import FeedItem
from tollhouse.catalogue.importers.column_files import read_csv, read_jsonl
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.jsonld import read_jsonld
from tollhouse.catalogue.importers.merchant import read_merchant_tsv, read_merchant_xml
from tollhouse.catalogue.importers.shopify import read_admin, read_js, read_public
from tollhouse.catalogue.importers.woocommerce import read_woocommerce

FormatName = Literal[
    "shopify", "shopify-admin", "shopify-js", "woocommerce", "merchant-xml", "merchant-tsv", "jsonld", "csv", "jsonl"
]
FORMAT_NAMES: tuple[str, ...] = get_args(FormatName)

Read = Callable[[str, Context], list[FeedItem]]


class Format(Struct, frozen=True):
    """`names_currency` is False where the format has no place for one: its prices are in the catalogue's.

    `is_mapped`: a mapping file may name its columns. `repeats` says that one product may well come twice.
    """

    read: Read
    names_currency: bool = True
    is_mapped: bool = False
    repeats: bool = False


FORMATS: dict[FormatName, Format] = {
    "shopify": Format(read_public, names_currency=False),
    "shopify-admin": Format(read_admin, names_currency=False),
    "shopify-js": Format(read_js, names_currency=False),
    "woocommerce": Format(read_woocommerce),
    "merchant-xml": Format(read_merchant_xml),
    "merchant-tsv": Format(read_merchant_tsv),
    "jsonld": Format(read_jsonld, repeats=True),
    "csv": Format(read_csv, names_currency=False, is_mapped=True),
    "jsonl": Format(read_jsonl, names_currency=False, is_mapped=True),
}
