"""The bundled demonstration: 165 fictional mattresses, loaded into an empty catalogue."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files

import msgspec

from tollhouse import clock
from tollhouse.catalogue import store
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.items import Item
from tollhouse.logs import logger
from tollhouse.services.mattress.import_transaction import as_item
from tollhouse.services.mattress.retailers import demo_retailers
from tollhouse.storage.database import Database

log = logger("mattress")


async def load_demonstration(database: Database, catalogue: Catalogue) -> None:
    """Store the demonstration with a price history, unless the catalogue ever had an item."""
    async with database.writing(lock=f"import-{catalogue.name}") as transaction:
        _, revision = await store.read_revision(transaction, catalogue.name)
        if revision:
            return
        for at, items in change_sets(clock.now()):
            await catalogue.apply(transaction, items, at=at)
    log.info("demonstration loaded", catalogue=catalogue.name)


def change_sets(now: datetime) -> Iterator[tuple[datetime, list[Item]]]:
    """The items listed or repriced by day, the earliest day first."""
    retailers = {retailer.id: retailer for retailer in demo_retailers()}
    by_day: dict[int, list[Item]] = {}
    raw = files("tollhouse.services.mattress").joinpath("data", "demo_products.json").read_bytes()
    for bundled in msgspec.json.decode(raw)["products"]:
        product = {name: value for name, value in bundled.items() if name not in ("id", "retailer", "prices")}
        for price in bundled["prices"]:
            priced = {**product, "price": price["price"], "sale_price": price["sale_price"]}
            item = as_item(retailers[bundled["retailer"]], bundled["id"], priced)
            by_day.setdefault(price["days_ago"], []).append(item)
    for day in sorted(by_day, reverse=True):
        yield now - timedelta(days=day), by_day[day]
