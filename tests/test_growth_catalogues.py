"""Pages and requests of catalogues and tables do not read all stored rows: work of databases and items, at three sizes.

What the search engine reads of its compressed columns, to count matches and facets exactly, is not counted.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.http.conftest import asgi_client
from tests.services.tables.books import books, declare
from tests.storage.work import MOST_EXPONENT, database_work, exponents
from tollhouse import app, clock
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.catalogue.index import View
from tollhouse.config.settings import Settings
from tollhouse.services.mattress.demonstration import change_sets
from tollhouse.services.mattress.service import open_catalogue
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.rows import build_schema, catalogue_name
from tollhouse.storage.database import open_database

DEMONSTRATION = 165
SIZES = (2 * DEMONSTRATION, 6 * DEMONSTRATION, 18 * DEMONSTRATION)
PLENTY = 1_000_000
FIRST = "/api/search?q=botany"
"""The first search with words after a start reads all rows, for the vocabulary of questions."""
LOOKS = 6_000
"""Added to SQLite's steps after a change: a server looks for changes some times until it shows it. A row takes ten."""
AFTER_CHANGE = "the first search with words after a change"
ITEMS = "items"
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
async def table(home, url, size):
    declare(home, books(size), free_per_day=PLENTY, licence="CC0-1.0", source="Made up")
    declaration = read_declaration(home / "services" / "books.toml")
    opened = partial(Catalogue, catalogue_name(declaration), build_schema(declaration))
    yield {"service": "books", "services_dir": str(home / "services")}, TABLE_PATHS, opened


@asynccontextmanager
async def mattresses(home, url, size):
    """The demonstration's products several times, each under an id, a brand and a title of its own."""
    database = open_database(Settings(database_url=url))
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


async def change_title(opened, url, identity):
    """Another process changes the title of a row."""
    database = open_database(Settings(database_url=url))
    catalogue = opened(database)
    async with database.writing() as transaction:
        item, title = await catalogue.stored_item(transaction, identity), catalogue.schema.title
        await catalogue.apply(transaction, [item | {title: f"Changed {item[title]}"}])
    catalogue.close()
    await database.close()


async def work_by_request(home, url, size, made, monkeypatch):
    """What each request reads in the database, and the items that it reads. It is sent once, since answers are kept."""
    home.mkdir(exist_ok=True)
    monkeypatch.chdir(home)
    read, item = [], View.item

    def counted(view, address) -> object:
        read.append(address)
        return item(view, address)

    amounts = {}
    try:
        async with made(home, url, size) as (options, paths, opened), database_work(monkeypatch, url) as work:
            await work.analyze()
            options |= {"database_url": url, "data_dir": str(home / "data"), "free_per_ip_per_day": PLENTY}
            async with (
                app.serving(Settings(background_work=False, **options)) as gate,
                asgi_client(gate.handle) as client,
            ):
                monkeypatch.setattr(View, "item", counted)
                for path in (FIRST, *paths):
                    before = await work.read(), len(read)
                    while (answer := await client.get(path)).status_code == 503:  # noqa: ASYNC110
                        # The vocabulary of questions is not complete.
                        await asyncio.sleep(0.2)
                    assert answer.status_code == 200, (path, answer.text)
                    amounts[path] = await work.read() - before[0]
                    amounts[f"{path} {ITEMS}"] = len(read) - before[1]
                shown = next(path for path in paths if path.endswith("/similar")).removesuffix("/similar")
                before = await work.read(), len(read)
                await change_title(opened, url, shown.rpartition("/")[2])
                while "Changed" not in (await client.get(shown)).text:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
                assert (await client.get(FIRST)).status_code == 200
                looks = LOOKS if url.startswith("sqlite") else 0
                amounts[AFTER_CHANGE] = await work.read() - before[0] + looks
                amounts[f"{AFTER_CHANGE} {ITEMS}"] = len(read) - before[1]
    finally:
        monkeypatch.setattr(View, "item", item)
    return amounts


@pytest.mark.both_databases
@pytest.mark.timeout(300)
@pytest.mark.parametrize("made", [table, mattresses])
async def test_requests_read_hardly_more_of_more_rows(new_database, tmp_path, monkeypatch, made):
    async def measured(name: str, size: int) -> dict[str, int]:
        home = tmp_path / name
        return await work_by_request(home, new_database(home / "data"), size, made, monkeypatch)

    amounts = [await measured(str(size), size) for size in SIZES]
    reads_all = f"{FIRST} {ITEMS}"
    assert exponents(amounts, SIZES)[reads_all] > 0.6, "counting shows a request that reads every item"
    assert sum(count for name, count in amounts[0].items() if name.endswith(ITEMS)) > 100 + SIZES[0]

    def steep() -> dict[str, float]:
        growth = exponents(amounts, SIZES)
        return {name: growth[name] for name in growth.keys() - {reads_all} if growth[name] > MOST_EXPONENT}

    if steep():
        # On a busy machine the server is asked more often whether a change is there.
        again = await measured("again", SIZES[-1])
        amounts[-1] = {name: min(count, again[name]) for name, count in amounts[-1].items()}
    assert steep() == {}, amounts
