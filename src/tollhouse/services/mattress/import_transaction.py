"""The import transaction: a retailer's rows land together, with the events of what they change."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue, Changes
from tollhouse.catalogue.importers.values import is_url
from tollhouse.catalogue.items import InvalidItem, Item, batches, prepare_item
from tollhouse.services.mattress.import_rows import ImportedRow
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
from tollhouse.storage.database import Database
from tollhouse.storage.spool import Spool
from tollhouse.webhooks import outbox

SERVICE = "mattress"
# A full import that would remove more than this share of a retailer's products is taken for a broken file.
LARGEST_LOSS = 0.5
_HIGHEST_PRICE = 1_000_000
BATCH = 500
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._~-]+")

OnRows = Callable[[str, int, int], None]


class RefusedRow(Struct, frozen=True):
    line: int
    id: str
    reason: str


class ImportReport(Struct, frozen=True):
    """The result of an import. With `has_landed` false nothing has changed, and `reason` says why."""

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


async def import_products(  # noqa: PLR0913 - the options of an import
    database: Database,
    catalogue: Catalogue,
    retailer: Retailer,
    rows: Collection[ImportedRow],
    *,
    is_partial: bool = False,
    allow_shrink: bool = False,
    strict: bool = False,
    storefront: Storefront | None = None,
    on_rows: OnRows = lambda *_: None,
) -> ImportReport:
    """Replace the retailer's products by those of the rows, in one transaction, with events for subscribers.

    A full import also removes the retailer's products that no row names; one that would remove more than half of
    them does not land without `allow_shrink`. `is_partial` removes nothing. `strict` lets nothing land when a row is
    refused. The products are in a temporary file, and BATCH of them at a time in memory. `on_rows` receives the phase,
    the rows done and their total. Every serving process shows the result within a second. Raises Problem
    `storage-unavailable`.
    """
    feed, refused = _checked_rows(retailer, rows, on_rows)
    accepted = len(rows) - len(refused)
    report = ImportReport(retailer.id, len(rows), accepted, refused)
    if strict and refused:
        return replace(report, has_landed=False, reason=f"{len(refused)} rows were refused, and the import is strict")
    storefront, at = storefront or Storefront(), clock.now()
    counts: Counter[str] = Counter()
    done = 0
    async with database.writing(lock=f"import-{catalogue.name}") as transaction:
        stored_count, gone = 0, Spool(str)
        async for item in catalogue.stored(transaction):
            if item["retailer"] == retailer.id:
                stored_count += 1
                if not is_partial and not feed.has(item["id"]):
                    gone.add(item["id"], item["id"])
        if len(gone) > stored_count * LARGEST_LOSS and not allow_shrink:
            reason = f"{len(gone)} of {stored_count} products would be removed"
            return replace(report, has_landed=False, reason=reason)

        async def apply(items: list[Item], removed: Iterable[str]) -> None:
            changes = await catalogue.apply(transaction, items, removed, at=at)
            await outbox.put_all(transaction, SERVICE, list(_events(storefront, changes, at.isoformat())))
            for kind in ("created", "price_changed", "changed", "removed"):
                counts[kind] += len(getattr(changes, kind))

        for items in batches((row.item for row in feed if row.item is not None), BATCH):
            await apply(items, ())
            done += len(items)
            on_rows("Writing products", done, accepted)
        for removed in batches(gone, BATCH):
            await apply([], removed)
    written = counts["created"] + counts["price_changed"] + counts["changed"]
    return replace(report, **counts, unchanged=accepted - written)


def product_id(retailer: Retailer, identity: str) -> str:
    """A product's id in this catalogue: `<retailer>.<id>` in characters that a path may have; "" for no id."""
    own = _NOT_IN_IDS.sub("-", identity).strip("-")
    return f"{retailer.id}.{own}" if own else ""


def as_item(retailer: Retailer, identity: str, product: dict[str, Any]) -> Item:
    """What is stored of a product: checked, filled in, and led through the retailer's programme. Raises InvalidItem."""
    page = product.get("affiliate_url")
    if not is_url(page):
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
    """Field and reason of what the schema's types do not check."""
    if not 0 < item["price"] <= _HIGHEST_PRICE:
        yield "price", f"must be between 0 and {_HIGHEST_PRICE}"
    if not 0 < item["sale_price"] <= item["price"]:
        yield "sale_price", "must be above 0 and at most the price"
    if item["availability"] not in AVAILABILITIES:
        yield "availability", f"must be one of {', '.join(AVAILABILITIES)}"
    for name, (low, high) in (("firmness", FIRMNESS), ("cooling", COOLING)):
        if not low <= item.get(name, low) <= high:
            yield name, f"must be between {low} and {high}"
    for position in item.get("sleep_positions", ()):
        if position not in SLEEP_POSITIONS:
            yield "sleep_positions", f"may only contain {', '.join(SLEEP_POSITIONS)}"
    if "image_url" in item and not is_url(item["image_url"]):
        yield "image_url", "must be an http or https address"
    if not item["title"].strip():
        yield "title", "is empty"


class _CheckedRow(Struct, frozen=True):
    """What is stored of the product with an id, None if its row is refused; 0 is the line of one without a product."""

    line: int = 0
    item: Item | None = None


def _checked_rows(
    retailer: Retailer, rows: Collection[ImportedRow], on_rows: OnRows
) -> tuple[Spool[_CheckedRow], list[RefusedRow]]:
    """A row for every product that the feed names, by its id, and the refused rows, by line."""
    checked = Spool(_CheckedRow)
    refused: list[RefusedRow] = []
    for done, row in enumerate(rows, start=1):
        if done % BATCH == 0 or done == len(rows):
            on_rows("Checking rows", done, len(rows))
        identity = product_id(retailer, row.id)
        before = checked.get(identity)
        reason = row.refused or ("" if row.product is not None and identity else "has no id")
        if not reason and before and before.line:
            reason = f"has the id of line {before.line}"
        elif not reason and row.product is not None:
            item = None
            try:
                item = as_item(retailer, row.id, row.product)
            except InvalidItem as fault:
                reason = str(fault)
            checked.add(identity, _CheckedRow(row.line, item))
        elif identity and before is None:
            checked.add(identity, _CheckedRow())
        if reason:
            refused.append(RefusedRow(row.line, row.id, reason))
    return checked, sorted(refused, key=lambda row: row.line)


def _events(storefront: Storefront, changes: Changes, at: str) -> Iterator[outbox.Event]:
    """The events of an import. `at` makes the same change a second time another event."""
    kinds = (
        ("product.created", changes.created),
        ("product.price_changed", changes.price_changed),
        ("product.removed", changes.removed),
    )
    for kind, changed in kinds:
        for change in changed:
            product = storefront.product(change.item or change.before or {})
            data: dict[str, Any] = {"at": at, "product": product}
            if kind == "product.price_changed" and change.before:
                data["previous"] = {name: change.before[name] for name in ("price", "sale_price")}
            yield outbox.Event(kind, data, change.id)
