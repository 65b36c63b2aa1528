"""A process with a catalogue of its own, which prints what it sees or has written."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.catalogue.shop import SHOP
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.query import CatalogueQuery
from tollhouse.config.settings import Settings
from tollhouse.storage.database import Database, open_database

ITEMS = 40


def watch(database_url: str) -> None:
    """Print `says` and how many items match, whenever that changes, until the process is killed."""
    asyncio.run(_run(_watch, database_url, None))


def write(database_url: str, folder: str) -> None:
    """Change one item after another and print `says` and the number of each change, until the process is killed."""
    asyncio.run(_run(_write, database_url, Path(folder)))


async def _run(work: Callable[[Catalogue, Database], Awaitable[None]], database_url: str, folder: Path | None) -> None:
    database = open_database(Settings(database_url=database_url))
    await work(Catalogue("shop", SHOP, database, folder), database)


async def _watch(catalogue: Catalogue, _database: Database) -> None:
    following = asyncio.create_task(catalogue.follow())
    seen = None
    while not following.done():
        found = await catalogue.search(CatalogueQuery(text="cloud"))
        if found.total != seen:
            seen = found.total
            print("says", seen, flush=True)  # noqa: T201
        await asyncio.sleep(0.02)


async def _write(catalogue: Catalogue, database: Database) -> None:
    number = 0
    while True:
        item = {"id": f"p{number % ITEMS}", "title": f"Cloud {number}", "price": number}
        async with database.writing() as transaction:
            await catalogue.apply(transaction, [item])
        await catalogue.refresh()
        print("says", number, flush=True)  # noqa: T201
        number += 1
