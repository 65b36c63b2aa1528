"""The import transaction: a retailer's rows land together, with the events of what they change."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tollhouse import clock
from tollhouse.catalogue.catalogue import Catalogue, Changes
from tollhouse.catalogue.importers.values import is_url
from tollhouse.catalogue.items import InvalidItem, Item, prepare_item
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
from tollhouse.webhooks import outbox

SERVICE = "mattress"
# A full import that would remove more than this share of a retailer's products is taken for a broken file.
LARGEST_LOSS = 0.5
_HIGHEST_PRICE = 1_000_000
_STEP = 500
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._~-]+")

OnRows = Callable[[str, int, int], None]


class RefusedRow(Struct, frozen=True):
    """A row that did not land, and why."""

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
    rows: Iterable[ImportedRow],
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
    refused. `on_rows` receives the phase, the rows done and their total. Every serving process shows the result within
    a second. Raises Problem `storage-unavailable`.
    """
    items, refused, named = _products(retailer, list(rows), on_rows)
    report = ImportReport(retailer.id, len(items) + len(refused), len(items), refused)
    if strict and refused:
        return replace(report, has_landed=False, reason=f"{len(refused)} rows were refused, and the import is strict")
    async with database.writing(lock=f"import-{catalogue.name}") as transaction:
        stored = {item["id"] async for item in catalogue.stored(transaction) if item["retailer"] == retailer.id}
        gone = set() if is_partial else stored - named
        if len(gone) > len(stored) * LARGEST_LOSS and not allow_shrink:
            reason = f"{len(gone)} of {len(stored)} products would be removed"
            return replace(report, has_landed=False, reason=reason)
        changes = await catalogue.apply(
            transaction, items.values(), sorted(gone), on_rows=partial(on_rows, "Writing products")
        )
        await outbox.put_all(transaction, SERVICE, list(_events(storefront or Storefront(), changes)))
    written = len(changes.created) + len(changes.price_changed) + len(changes.changed)
    return replace(
        report,
        created=len(changes.created),
        price_changed=len(changes.price_changed),
        changed=len(changes.changed),
        removed=len(changes.removed),
        unchanged=report.accepted - written,
    )


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


def _products(
    retailer: Retailer, rows: Sequence[ImportedRow], on_rows: OnRows
) -> tuple[dict[str, Item], list[RefusedRow], set[str]]:
    """The products by id, the refused rows, and the ids of all products that the feed names."""
    items: dict[str, Item] = {}
    refused: list[RefusedRow] = []
    named: set[str] = set()
    lines: dict[str, int] = {}
    for done, row in enumerate(rows, start=1):
        if done % _STEP == 0 or done == len(rows):
            on_rows("Checking rows", done, len(rows))
        identity = product_id(retailer, row.id)
        reason = row.refused
        if not reason and (row.product is None or not identity):
            reason = "has no id"
        elif not reason and identity in lines:
            reason = f"has the id of line {lines[identity]}"
        elif not reason and row.product is not None:
            lines[identity] = row.line
            try:
                items[identity] = as_item(retailer, row.id, row.product)
            except InvalidItem as fault:
                reason = str(fault)
        if reason:
            refused.append(RefusedRow(row.line, row.id, reason))
        if identity:
            named.add(identity)
    return items, refused, named


def _events(storefront: Storefront, changes: Changes) -> Iterator[outbox.Event]:
    """The events of an import. `at` makes the same change a second time another event."""
    at = clock.now().isoformat()
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
