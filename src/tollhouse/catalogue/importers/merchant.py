"""Google Merchant feeds, as RSS or Atom with `g:` members and as tab-separated text: the same attributes in both."""

from collections.abc import Mapping
from typing import Any

from tollhouse.catalogue.importers.amounts import money, priced
from tollhouse.catalogue.importers.article import Faulty, FeedItem, Price, description_text
from tollhouse.catalogue.importers.attribute_labels import declared
from tollhouse.catalogue.importers.availability import availability
from tollhouse.catalogue.importers.context import Context
from tollhouse.catalogue.importers.delimited import Record, records_of
from tollhouse.catalogue.importers.mapping import plain_name
from tollhouse.catalogue.importers.merchant_items import items_of
from tollhouse.html_text import one_line

_NEEDED = ("id", "title")


def read_merchant_xml(feed: str, context: Context) -> list[FeedItem]:
    """Every `item` or `entry`, by the line it starts on."""
    return [_article(line, members, context) for line, members in items_of(feed)]


def read_merchant_tsv(feed: str, context: Context) -> list[FeedItem]:
    """Every row under the header, by the line it starts on."""
    return [
        _of_row(row, context)
        for row in records_of(feed, "\t", needed=lambda columns: _missing([plain_name(each) for each in columns]))
    ]


def _missing(columns: list[str]) -> str:
    absent = next((name for name in _NEEDED if name not in columns), "")
    return f"the first line names no column {absent!r}" if absent else ""


def _of_row(row: Record, context: Context) -> FeedItem:
    if row.fault:
        return FeedItem(line=row.line, id=next(iter(row.values.values()), "").strip(), fault=row.fault)
    return _article(row.line, {plain_name(name).replace(" ", "_"): said for name, said in row.values.items()}, context)


def _article(line: int, members: Mapping[str, str], context: Context) -> FeedItem:
    said = {name: value.strip() for name, value in members.items()}
    common: dict[str, Any] = {
        "line": line,
        "id": said.get("id", ""),
        "group": said.get("item_group_id", ""),
        "title": one_line(said.get("title", "")),
        "brand": one_line(said.get("brand", "")),
        "description": description_text(said.get("description", "")),
        "kind": one_line(said.get("product_type", "")),
        "size": one_line(said.get("size", "")),
        "declared": declared([("material", said.get("material", "")), *_details(said)]),
        "image_url": said.get("image_link", ""),
        "page_url": context.page(said.get("link", "")),
    }
    try:
        return FeedItem(**common, price=_price(said), availability=availability(said.get("availability", "")))
    except Faulty as fault:
        return FeedItem(**common, fault=str(fault))


def _price(said: Mapping[str, str]) -> Price:
    """`price` is the list price, `sale_price` what is to be paid in a sale; both must be in one currency."""
    if not said.get("price"):
        raise Faulty("has no price")
    listed, currency = money(said["price"])
    if not said.get("sale_price"):
        return priced(listed, None, currency)
    now, sale_currency = money(said["sale_price"], "sale_price")
    if currency and sale_currency and currency != sale_currency:
        raise Faulty(f"the price is in {currency} and the sale_price in {sale_currency}")
    # A sale price that is not below the price is no sale: Google shows the price then.
    return priced(min(now, listed), listed, currency or sale_currency)


def _details(said: Mapping[str, str]) -> list[tuple[str, str]]:
    """`product_detail`: "Comfort:Firmness:Medium", several divided by commas."""
    parts = [detail.split(":") for detail in said.get("product_detail", "").split(",")]
    return [(part[-2].strip(), part[-1].strip()) for part in parts if len(part) > 1]
