"""Pages and requests of catalogues and tables do not read all stored rows: SQLite's steps and items, at three sizes.

What the search engine reads of its compressed columns, to count matches and facets exactly, is not counted.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from math import log

import pytest
from sqlalchemy import Engine

from tests.http.conftest import asgi_client
from tests.services.tables.books import books, declare
from tests.storage.sqlite_work import SqliteWork
from tollhouse import app, clock
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.index import View
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.demonstration import change_sets
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.rows import build_schema, catalogue_name
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

DEMONSTRATION = 165
SIZES = (2 * DEMONSTRATION, 6 * DEMONSTRATION, 18 * DEMONSTRATION)
MOST_EXPONENT = 0.3
SMOOTHED = 60
"""Added to each count: few more than a few do not matter."""
PLENTY = 1_000_000
FIRST = "/api/search?q=botany"
"""The first search with words after a start reads all rows, for the vocabulary of questions."""
SMOOTHED_IN_BACKGROUND = 6_000
"""Added to the steps after a change: a server looks for changes some times until it shows it. A row takes ten steps."""
AFTER_CHANGE = "the first search with words after a change"
TABLE_PATHS = (
    "/tables/books",
    "/api/items?sort=price&facets=shelf,price,subjects&limit=20",
    "/api/items?cursor=*&sort=-published",
    "/api/items?max_price=60&shelf=cellar",
    "/api/search?q=poetry under 60 euros",
    "/api/search?q=poetry",
    "/api/suggest?q=ka",
    "/api/histogram/price",
    "/api/ask?q=how many books are in the cellar?",
    "/api/items/978-0000001",
    "/api/items/978-0000001/similar",
)
MATTRESS_PATHS = (
    "/mattresses",
    "/api/products?sort=price&facets=brand,price,size&limit=20",
    "/api/products?cursor=*&sort=-price",
    "/api/products?max_price=900&size=Queen",
    "/api/search?q=firm queen under 900",
    "/api/search?q=latex",
    "/api/suggest?q=me",
    "/api/products/{id}",
    "/api/products/{id}/similar",
)


@asynccontextmanager
async def table(home, size):
    declare(home, books(size), free_per_day=PLENTY, licence="CC0-1.0", source="Made up")
    declaration = read_declaration(home / "services" / "books.toml")
    opened = partial(Catalogue, catalogue_name(declaration), build_schema(declaration))
    yield {"service": "books", "services_dir": str(home / "services")}, TABLE_PATHS, opened


@asynccontextmanager
async def mattresses(home, size):
    """The demonstration's products several times, each under an id, a brand and a title of its own."""
    database = open_database(Settings(data_dir=str(home / "data")))
    await migrate(database)
    catalogue = open_catalogue(database)
    items = {item["id"]: item for _, day in change_sets(clock.now()) for item in day}.values()
    own = [
        {**item, **{name: f"{item[name]}-{copy}" for name in ("id", "brand", "title")}}
        for copy in range(size // DEMONSTRATION)
        for item in items
    ]
    async with database.writing(lock=f"import-{catalogue.name}") as transaction:
        await catalogue.apply(transaction, own)
    catalogue.close()
    await database.close()
    yield {"service": "mattress"}, [path.format(id=own[0]["id"]) for path in MATTRESS_PATHS], open_catalogue


async def change_title(opened, home, identity):
    """Another process changes the title of a row."""
    database = open_database(Settings(data_dir=str(home / "data")))
    catalogue = opened(database)
    async with database.writing() as transaction:
        item, title = await catalogue.stored_item(transaction, identity), catalogue.schema.title
        await catalogue.apply(transaction, [item | {title: f"Changed {item[title]}"}])
    catalogue.close()
    await database.close()


async def work_by_request(home, size, made, monkeypatch):
    """The steps of SQLite and the items that each request reads. It is sent once, since answers are kept."""
    home.mkdir()
    monkeypatch.chdir(home)
    work, read, item = SqliteWork(Engine), [], View.item

    def counted(view, address) -> object:
        read.append(address)
        return item(view, address)

    amounts = []
    try:
        async with made(home, size) as (options, paths, opened):
            given = {"data_dir": str(home / "data"), "background_work": False, "free_per_ip_per_day": PLENTY}
            async with app.serving(Settings(**given, **options)) as gate, asgi_client(gate.handle) as client:
                monkeypatch.setattr(View, "item", counted)
                for path in (FIRST, *paths):
                    before = work.steps, len(read)
                    answer = await client.get(path)
                    assert answer.status_code == 200, (path, answer.text)
                    amounts.append((work.steps - before[0], len(read) - before[1]))
                shown = next(path for path in paths if path.endswith("/similar")).removesuffix("/similar")
                before = work.steps, len(read)
                await change_title(opened, home, shown.rpartition("/")[2])
                while "Changed" not in (await client.get(shown)).text:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
                assert (await client.get(FIRST)).status_code == 200
                amounts.append((work.steps - before[0], len(read) - before[1]))
    finally:
        work.end()
        monkeypatch.setattr(View, "item", item)
    return amounts


@pytest.mark.parametrize(("made", "paths"), [(table, TABLE_PATHS), (mattresses, MATTRESS_PATHS)])
async def test_requests_read_hardly_more_of_more_rows(tmp_path, monkeypatch, made, paths):
    amounts = [await work_by_request(tmp_path / str(size), size, made, monkeypatch) for size in SIZES]
    growth = {
        (path, what): log((amounts[-1][number][at] + added) / (amounts[0][number][at] + added))
        / log(SIZES[-1] / SIZES[0])
        for number, path in enumerate((FIRST, *paths, AFTER_CHANGE))
        for at, what in enumerate(("steps", "items"))
        for added in [SMOOTHED_IN_BACKGROUND if (path, what) == (AFTER_CHANGE, "steps") else SMOOTHED]
    }
    assert growth.pop((FIRST, "items")) > 0.8, "counting shows a request that reads every item"
    assert sum(items for _, items in amounts[0][1:]) > 100
    assert {name: round(power, 2) for name, power in growth.items() if power > MOST_EXPONENT} == {}, amounts
