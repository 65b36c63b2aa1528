"""A catalogue on a new machine: it starts from a snapshot that another machine has saved."""

import asyncio

import pytest

from tests.catalogue.shop import SHOP
from tests.catalogue.test_catalogue import agree, change, cloud, counting, stored
from tollhouse.catalogue import index_snapshots
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate


@pytest.fixture
async def machine(database_url, tmp_path):
    """Catalogues of machines: one database and one folder of snapshots, and an index folder of its own each."""
    opened = []

    def another(name: str) -> Catalogue:
        database = open_database(Settings(database_url=database_url))
        opened.append(Catalogue("t:shop/1", SHOP, database, tmp_path / name, str(tmp_path / "snapshots")))
        return opened[-1]

    first = another("first")
    await migrate(first._database)
    yield lambda name: first if name == "first" else another(name)
    for shop in opened:
        await shop._snapshots.finish()
        shop.close()
        await shop._database.close()


@pytest.mark.both_databases
async def test_new_machine_starts_from_a_snapshot_and_applies_later_changes(machine, monkeypatch):
    first = machine("first")
    await change(first, [cloud(f"p{n}", brand="Emma") for n in range(50)])
    await first._snapshots.finish()
    await change(first, [cloud("new")], ["p0"])
    second, put = machine("second"), []
    monkeypatch.setattr(Catalogue, "_put", counting(Catalogue._put, put))
    await second.refresh()
    assert put == [2]
    assert second.revision == first.revision
    await agree(second)
    await change(second, [cloud("more")])
    await agree(second)
    await agree(first)


async def test_snapshot_of_changes_that_a_restore_took_back_is_not_used(machine):
    first = machine("first")
    await change(first, [cloud("a")])
    await first._snapshots.finish()
    async with first._database.writing() as transaction:
        await transaction.exec_driver_sql("UPDATE catalogue_change_set SET token = 'another'")
        await transaction.exec_driver_sql("DELETE FROM catalogue_item")
    await change(first, [cloud("b")])
    second = machine("second")
    await agree(second)
    assert list(await stored(second)) == ["b"]


async def test_damaged_snapshot_is_passed_over(machine, tmp_path):
    first = machine("first")
    await change(first, [cloud("a")])
    await first._snapshots.finish()
    for file in (tmp_path / "snapshots").rglob("files/*"):
        file.write_bytes(b"x")
    await agree(machine("second"))


async def test_one_of_two_machines_saves_and_the_other_continues_when_it_ends(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(index_snapshots, "SAVE_SECONDS", 0.0)
    first, second = machine("first"), machine("second")

    async def saved(shop, identity) -> int:
        await change(shop, [cloud(identity)])
        await shop._snapshots.finish()
        return max(int(path.name.partition("-")[0]) for path in (tmp_path / "snapshots").rglob("*.json"))

    assert await saved(first, "a") == 1
    assert await saved(second, "b") == 1
    assert await saved(first, "c") == 3
    assert await saved(second, "d") == 3
    # The first machine saves no more.
    assert await saved(second, "e") == 5
    await asyncio.gather(agree(first), agree(second))
