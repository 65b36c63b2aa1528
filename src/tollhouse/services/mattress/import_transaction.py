"""An import: a retailer's rows land together in one transaction, with the events of what they changed."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue, Change, Changes
from tollhouse.catalogue.items import InvalidItem, Item, prepare_item
from tollhouse.services.mattress.feed_item import ImportedRow
from tollhouse.services.mattress.product import (
    AVAILABILITIES,
    COOLING,
    CURRENCY,
    FIRMNESS,
    IN_STOCK,
    MATTRESSES,
    SLEEP_POSITIONS,
    Storefront,
)
from tollhouse.services.mattress.retailers import Retailer
from tollhouse.storage.database import Database, Transaction
from tollhouse.webhooks import outbox

SERVICE = "mattress"
# A full import that would take away more than this share of a retailer's products is taken for a broken file.
LARGEST_LOSS = 0.5
_HIGHEST_PRICE = 1_000_000
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._~-]+")


class RefusedRow(Struct, frozen=True):
    """A row that did not land, where it is, and why."""

    line: int
    id: str
    reason: str


class ImportReport(Struct, frozen=True):
    """What an import did. With `has_landed` false nothing has changed, and `reason` says why."""

    retailer: str
    rows: int
    accepted: int
    refused: list[RefusedRow]
    created: int = 0
    price_changed: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    has_landed: bool = True
    reason: str = ""


class _Sorted(Struct, frozen=True):
    """The rows' products by id, the rows that are none, and the ids of products that the file still names."""

    items: dict[str, Item]
    refused: list[RefusedRow]
    named: set[str]


async def import_products(  # noqa: PLR0913 - what an import is told
    database: Database,
    catalogue: Catalogue,
    retailer: Retailer,
    rows: Iterable[ImportedRow],
    *,
    is_partial: bool = False,
    allow_shrink: bool = False,
    strict: bool = False,
    storefront: Storefront | None = None,
) -> ImportReport:
    """Make the retailer's products what the rows say, all at once, and tell subscribers what changed.

    A full import also removes the retailer's products that no row names; one that would remove more than half of
    them does not land without `allow_shrink`. `is_partial` removes nothing. `strict` lets nothing land when a row is
    refused. Every serving process shows the result within a second. Raises Problem `storage-unavailable`.
    """
    found = _sorted(retailer, rows)
    report = ImportReport(retailer.id, len(found.items) + len(found.refused), len(found.items), found.refused)
    if strict and found.refused:
        return _unlanded(report, f"{len(found.refused)} rows were refused, and the import is strict")
    async with database.writing(lock=f"import-{catalogue.name}") as transaction:
        stored = {item["id"] async for item in catalogue.stored(transaction) if item["retailer"] == retailer.id}
        gone = set() if is_partial else stored - found.named
        if len(gone) > len(stored) * LARGEST_LOSS and not allow_shrink:
            return _unlanded(report, f"{len(gone)} of {len(stored)} products would be removed")
        changes = await catalogue.apply(transaction, found.items.values(), sorted(gone))
        await _tell(transaction, storefront or Storefront(), changes)
    return _counted(report, changes)


def product_id(retailer: Retailer, identity: str) -> str:
    """A product's id here: the retailer's, a full stop, and its own in what an address may hold; "" for no id."""
    own = _NOT_IN_IDS.sub("-", identity).strip("-")
    return f"{retailer.id}.{own}" if own else ""


def as_item(retailer: Retailer, identity: str, product: dict[str, Any]) -> Item:
    """What is stored of a product: checked, filled in, and led through the retailer's programme. Raises InvalidItem."""
    page = product.get("affiliate_url")
    if not _is_page(page):
        raise InvalidItem("affiliate_url", "must be the http or https address of the product's page")
    availability = product.get("availability", "in stock")
    whole = {
        **product,
        "id": product_id(retailer, identity),
        "sale_price": product.get("price") if product.get("sale_price") is None else product["sale_price"],
        "currency": CURRENCY,
        "affiliate_url": retailer.affiliate.link(page),
        "availability": availability,
        "in_stock": availability in IN_STOCK,
        "retailer": retailer.id,
        "retailer_name": retailer.display_name,
    }
    item = prepare_item(MATTRESSES, whole)
    for field, reason in _faults(item):
        raise InvalidItem(field, reason)
    return item


def _faults(item: Item) -> Iterator[tuple[str, str]]:
    """What the types of the schema do not say."""
    if not 0 < item["price"] <= _HIGHEST_PRICE:
        yield "price", f"lies outside 0..{_HIGHEST_PRICE}"
    if not 0 < item["sale_price"] <= item["price"]:
        yield "sale_price", "is not above 0, or is above the price"
    if item["availability"] not in AVAILABILITIES:
        yield "availability", f"is none of: {', '.join(AVAILABILITIES)}"
    for name, (low, high) in (("firmness", FIRMNESS), ("cooling", COOLING)):
        if not low <= item.get(name, low) <= high:
            yield name, f"lies outside {low}..{high}"
    for position in item.get("sleep_positions", ()):
        if position not in SLEEP_POSITIONS:
            yield "sleep_positions", f"holds another than: {', '.join(SLEEP_POSITIONS)}"
    if "image_url" in item and not _is_page(item["image_url"]):
        yield "image_url", "must be an http or https address"
    if not item["title"].strip():
        yield "title", "is empty"


def _is_page(address: Any) -> TypeGuard[str]:
    if not isinstance(address, str) or not address.isprintable() or " " in address:
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _sorted(retailer: Retailer, rows: Iterable[ImportedRow]) -> _Sorted:
    found = _Sorted({}, [], set())
    lines: dict[str, int] = {}
    for row in rows:
        identity = product_id(retailer, row.id)
        reason = row.refused or _taken(found, lines, retailer, row, identity)
        if reason:
            found.refused.append(RefusedRow(row.line, row.id, reason))
        if identity:
            found.named.add(identity)
    return found


def _taken(found: _Sorted, lines: dict[str, int], retailer: Retailer, row: ImportedRow, identity: str) -> str:
    """Take the row's product in; why not, where it is none."""
    if row.product is None or not identity:
        return "has no id"
    if identity in lines:
        return f"has the id of line {lines[identity]}"
    lines[identity] = row.line
    try:
        found.items[identity] = as_item(retailer, row.id, row.product)
    except InvalidItem as fault:
        return str(fault)
    return ""


async def _tell(transaction: Transaction, storefront: Storefront, changes: Changes) -> None:
    events = [*_told(storefront, "product.created", changes.created),
              *_told(storefront, "product.price_changed", changes.price_changed),
              *_told(storefront, "product.removed", changes.removed)]  # fmt: skip
    await outbox.put_all(transaction, SERVICE, events)


def _told(storefront: Storefront, kind: str, changes: Iterable[Change]) -> Iterator[outbox.Event]:
    """`at` makes the same change a second time another event."""
    at = clock.now().isoformat()
    for change in changes:
        product = storefront.product(change.item or change.before or {})
        data: dict[str, Any] = {"at": at, "product": product}
        if kind == "product.price_changed" and change.before:
            data["previous"] = {name: change.before[name] for name in ("price", "sale_price")}
        yield outbox.Event(kind, data, change.id)


def _unlanded(report: ImportReport, reason: str) -> ImportReport:
    members = {name: getattr(report, name) for name in ("retailer", "rows", "accepted", "refused")}
    return ImportReport(**members, has_landed=False, reason=reason)


def _counted(report: ImportReport, changes: Changes) -> ImportReport:
    written = len(changes.created) + len(changes.price_changed) + len(changes.changed)
    return ImportReport(
        report.retailer,
        report.rows,
        report.accepted,
        report.refused,
        created=len(changes.created),
        price_changed=len(changes.price_changed),
        changed=len(changes.changed),
        removed=len(changes.removed),
        unchanged=report.accepted - written,
    )
