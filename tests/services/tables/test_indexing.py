"""A large table while it is being indexed: what is ready is served and free, the rest is refused honestly."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from tests.services.tables.books import declare
from tests.services.tables.conftest import serving
from tests.services.tables.half_indexed import READY, ROWS, half_indexed, wide
from tests.waiting import until
from tollhouse.config.settings import Settings
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.loader import MAX_ROWS_AT_ONCE, open_loader
from tollhouse.services.tables.readiness import Readiness
from tollhouse.storage.database import open_database


async def test_rows_that_are_ready_are_served_free_and_the_rest_is_refused_until_all_are_there(home):
    async with serving_half(home) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["item_count"]) == ("indexing", READY)
        progress = {"done": READY, "total": ROWS, "percent": 50, "seconds_left": None}
        assert health["indexing"] == progress
        for path in ("/api/items?limit=1", "/api/search?q=row&limit=1"):
            response = await client.get(path)
            page = response.json()
            assert (page["total"], page["total_relation"], page["indexing"]) == (READY, "gte", progress)
            assert response.headers["cache-control"] == "no-store"
        assert (await client.get("/api/histogram/size")).json()["total"] == READY
        assert (await client.get("/api/items/w1")).json()["item"]["name"] == "Row 1"
        assert (await client.get("/api/items/w1/similar")).json()["indexing"] == progress
        for path in ("/api/items/w1100", "/api/items.csv", "/api/ask?q=how many rows are there"):
            response = await client.get(path)
            problem = response.json()
            assert (response.status_code, problem["code"]) == (503, "indexing"), path
            assert (problem["done"], problem["total"]) == (READY, ROWS)
            assert int(response.headers["retry-after"]) == problem["retry_after_seconds"] >= 1
        # Of five free requests, only that of the single item was used: each list is given back.
        remaining = [(await client.get("/api/items?limit=1")).headers["x-ratelimit-remaining"] for _ in range(2)]
        assert remaining == ["3", "3"]
        client.release()

        async def is_complete() -> bool:
            return (await client.get("/health")).json()["status"] != "indexing"

        await until(is_complete)
        health = (await client.get("/health")).json()
        assert (health["status"], health["item_count"], health["indexing"]) == ("ok", ROWS, None)
        page = (await client.get("/api/items?limit=1")).json()
        assert (page["total"], page["total_relation"], "indexing" in page) == (ROWS, "eq", False)
        assert (await client.get("/api/items/w1100")).status_code == 200


@asynccontextmanager
async def serving_half(home: Path):
    """A client of the half-indexed table; `release()` lets the loading go on."""
    held = asyncio.Event()
    free = asyncio.Event()

    async def hold() -> None:
        path = declare(home, wide(READY), "wide", free_per_day=5, licence="CC0-1.0", source="Made up")
        async with half_indexed(home, path):
            held.set()
            await free.wait()

    holder = asyncio.create_task(hold())
    await asyncio.wait([holder, asyncio.create_task(held.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        async with serving(home, "wide") as client:
            client.release = free.set
            yield client
    finally:
        free.set()
        await holder


async def test_large_edit_shows_in_parts_and_a_start_with_an_unchanged_file_reads_no_row_again(home):
    count = MAX_ROWS_AT_ONCE + 500
    text = as_rows(count)
    declaration = read_declaration(declare(home, text, "wide"))
    database = open_database(Settings(data_dir=str(home / "data")))
    folder = home / "data" / "search"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        loader, catalogue = open_loader(declaration, database, folder)
        await loader.load()
        assert (len(catalogue), catalogue.revision[1] > 1) == (count, True)
        status = await loader.status()
        assert (status.row_count, status.pending_count, status.loaded_at != "") == (count, 0, True)
        revision = catalogue.revision
        catalogue.close()
        # The next process opens the index that is on disk.
        loader, catalogue = open_loader(declaration, database, folder)
        assert len(catalogue) == count
        readiness = Readiness(loader, catalogue, None)
        await loader.load()
        await readiness.update()
        assert (readiness.indexing, catalogue.revision) == (None, revision)
        # One changed row is one change set; removed rows go with it.
        (home / "wide.csv").write_text(as_rows(count - 10).replace("Row 7\n", "Row seven\n"))
        await loader.load()
        assert (len(catalogue), catalogue.get("w7")["name"]) == (count - 10, "Row seven")
        assert catalogue.revision[1] <= revision[1] + 2
        catalogue.close()
    finally:
        await database.close()


def as_rows(count: int) -> str:
    return "id,name\n" + "".join(f"w{n},Row {n}\n" for n in range(count))


async def test_index_is_built_again_from_the_database_in_another_folder(home):
    declaration = read_declaration(declare(home, as_rows(50), "wide"))
    database = open_database(Settings(data_dir=str(home / "data")))
    try:
        (home / "one").mkdir()
        first, catalogue = open_loader(declaration, database, home / "one")
        await first.load()
        catalogue.close()
        other, again = open_loader(declaration, database, home / "two")
        readiness = Readiness(other, again, None)
        assert readiness.indexing is not None
        await readiness.update()
        assert (len(again), readiness.indexing) == (50, None)
        again.close()
    finally:
        await database.close()
