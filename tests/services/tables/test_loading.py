"""Loading of an edited table: valid edits show, broken ones leave what is served, nothing is written twice."""

import asyncio

import pytest

from tests.services.tables.books import HEADER, as_csv, book, books, declare
from tests.services.tables.conftest import serving
from tollhouse.config.settings import Settings
from tollhouse.services.tables.declaration import read_declaration
from tollhouse.services.tables.loader import open_loader
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate


@pytest.fixture
async def database(database_url, tmp_path):
    opened = open_database(Settings(database_url=database_url.replace("+aiosqlite", ""), data_dir=str(tmp_path)))
    await migrate(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def opened(home, database):
    """A loader of 40 books, its catalogue, and the table's file."""
    declaration = read_declaration(declare(home, books(40)))
    loader, catalogue = open_loader(declaration, database)
    await loader.load()
    return loader, catalogue, home / "books.csv"


async def settled(loader):
    """Poll twice, as the background task does: a file that stays the same is loaded."""
    await loader.poll()
    await loader.poll()


@pytest.mark.both_databases
async def test_edit_shows_and_rows_that_are_gone_are_gone(opened):
    loader, catalogue, table = opened
    assert len(catalogue) == 40
    table.write_text(as_csv([book(number) for number in range(11, 61)]))
    await settled(loader)
    assert len(catalogue) == 50
    assert catalogue.get("978-0000010") is None
    assert catalogue.get("978-0000060") is not None
    assert (await loader.status()).row_count == 50


@pytest.mark.both_databases
async def test_row_that_stays_keeps_what_it_is_and_a_changed_one_changes(opened):
    loader, catalogue, table = opened
    before = catalogue.revision
    changed = [book(number) for number in range(1, 41)]
    changed[0][8] = "attic"
    table.write_text(as_csv(changed))
    await settled(loader)
    assert catalogue.revision != before
    assert catalogue.get("978-0000001")["shelf"] == "attic"
    table.write_text(as_csv(changed) + "\n")
    after = catalogue.revision
    await settled(loader)
    assert catalogue.revision == after


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("", "no column"),
        (as_csv([book(1)], (*HEADER[:-1], "Remarks")), "there is no column 'Note'"),
        (",".join(HEADER) + "\n", "no row of it can be served"),
        ("\x00\xff", "zero bytes"),
        (None, "cannot be read"),
    ],
)  # fmt: skip
async def test_broken_edit_is_recorded_and_what_was_served_stays(opened, broken, reason):
    loader, catalogue, table = opened
    if broken is None:
        table.unlink()
    else:
        table.write_text(broken)
    await settled(loader)
    assert len(catalogue) == 40
    status = await loader.status()
    assert reason in status.fault
    assert (status.row_count, status.loaded_at != "") == (40, True)
    table.write_text(books(41))
    await settled(loader)
    assert (len(catalogue), (await loader.status()).fault) == (41, "")


async def test_half_a_file_is_not_loaded(opened):
    loader, catalogue, table = opened
    await settled(loader)
    whole = books(80)
    table.write_text(whole[: len(whole) // 2])
    await loader.poll()
    table.write_text(whole)
    await loader.poll()
    assert len(catalogue) == 40
    await loader.poll()
    assert len(catalogue) == 80


@pytest.mark.both_databases
async def test_invalid_row_is_refused_and_reported_with_its_line(opened):
    loader, catalogue, table = opened
    rows = [book(number) for number in range(1, 41)]
    rows[2][5] = "many"
    rows[4] = rows[4][:3]
    rows[5][0] = rows[6][0]
    rows[8][0] = "a/b"
    table.write_text(as_csv(rows))
    await settled(loader)
    status = await loader.status()
    assert (len(catalogue), status.refused_count) == (36, 4)
    assert b'{"line":4,"reason":"pages is not a number"}' in status.refused
    assert b'{"line":6,"reason":"the row has 3 cells and the header 10"}' in status.refused
    assert b'{"line":8,"reason":"has the id of an earlier row"}' in status.refused
    assert b'{"line":10,"reason":"id must be 1 to 200 characters without a slash"}' in status.refused


@pytest.mark.both_databases
async def test_file_that_has_not_changed_is_not_written_again(home, database):
    declaration = read_declaration(declare(home, books(40)))
    for _ in range(2):
        loader, catalogue = open_loader(declaration, database)
        await loader.load()
        await catalogue.refresh()
        assert len(catalogue) == 40
    assert catalogue.revision[1] == 1


@pytest.mark.both_databases
async def test_two_processes_that_start_at_once_load_the_table_once(home, database):
    declaration = read_declaration(declare(home, books(40)))
    both = [open_loader(declaration, database) for _ in range(2)]
    await asyncio.gather(*(loader.load() for loader, _ in both))
    for _, catalogue in both:
        await catalogue.refresh()
        assert (len(catalogue), catalogue.revision[1]) == (40, 1)


@pytest.mark.both_databases
async def test_declaration_of_another_shape_begins_anew_and_leaves_nothing_behind(home, database):
    path = declare(home, books(40))
    loader, catalogue = open_loader(read_declaration(path), database)
    await loader.load()
    path.write_text(path.read_text().replace('type = "integer"', 'type = "number"').replace("sorted = true", ""))
    other, changed = open_loader(read_declaration(path), database)
    await other.load()
    assert len(changed) == 40
    assert changed.name != catalogue.name
    await catalogue.refresh()
    assert len(catalogue) == 0


@pytest.mark.both_databases
async def test_label_may_change_without_a_row_being_written(home, database):
    path = declare(home, books(40))
    await open_loader(read_declaration(path), database)[0].load()
    path.write_text(path.read_text().replace("[fields.pages]\n", '[fields.pages]\nlabel = "How thick"\n'))
    loader, catalogue = open_loader(read_declaration(path), database)
    await loader.load()
    assert catalogue.revision[1] == 1


async def test_health_reports_a_broken_edit_and_the_service_goes_on(home):
    declare(home, books(40))
    async with serving(home) as client:
        assert (await client.get("/health")).json()["status"] == "ok"
    (home / "books.csv").unlink()
    async with serving(home) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["item_count"]) == ("degraded", 40)
        assert "cannot be read" in health["fault"]["reason"]
        assert (await client.get("/api/items")).json()["total"] == 40


async def test_table_that_was_never_there_is_served_empty_and_says_why(home):
    declare(home, books(40))
    (home / "books.csv").unlink()
    async with serving(home) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["item_count"], health["loaded_at"]) == ("degraded", 0, None)
        assert (await client.get("/api/items")).json()["total"] == 0
        assert (await client.get("/api/search?q=word")).json()["items"] == []
        assert (await client.get("/api/openapi.json")).status_code == 200
