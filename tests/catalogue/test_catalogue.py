"""A catalogue over real databases: change sets, what they tell, and indexes that follow the store and never differ."""

import asyncio
import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text

from tests.catalogue import catalogue_process
from tests.catalogue.shop import SHOP, ids
from tests.servers.processes import printing_process
from tollhouse.catalogue import catalogue as module
from tollhouse.catalogue.catalogue import Catalogue, PricePoint, lowest_price
from tollhouse.catalogue.items import InvalidItem
from tollhouse.catalogue.query import CatalogueQuery, ValueCount
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.store import catalogue, catalogue_change_set, catalogue_item
from tollhouse.config.settings import Settings
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

CATALOGUE_TABLES = (catalogue, catalogue_item, catalogue_change_set)
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def open_shop(database_url):
    """Catalogues as several processes have them: each over connections of its own."""
    opened = []

    def another(folder: Path | None = None, schema: Schema = SHOP, name: str = "shop") -> Catalogue:
        opened.append(
            Catalogue(name, schema, open_database(Settings(database_url=database_url)), folder and folder / name)
        )
        return opened[-1]

    first = another()
    await migrate(first._database)
    yield another
    for shop in opened:
        shop.close()
        await shop._database.close()


async def change(shop, upserts=(), removals=(), *, at=START):
    async with shop._database.writing() as transaction:
        changes = await shop.apply(transaction, upserts, removals, at=at)
    await shop.refresh()
    return changes


async def history(shop, identity):
    async with shop._database.reading() as transaction:
        return (await shop.price_histories(transaction, [identity]))[identity]


async def stored(shop):
    async with shop._database.reading() as transaction:
        return {item["id"]: item async for item in shop.stored(transaction)}


def told(changes):
    return {name: [each.id for each in getattr(changes, name)] for name in changes.__struct_fields__}


def cloud(identity: str, **members: object):
    return {"id": identity, "title": "Cloud", **members}


@pytest.mark.both_databases
async def test_change_set_returns_its_changes(open_shop):
    shop = open_shop()
    first = [cloud("a", price=100), cloud("b", price=100, sale_price=90), cloud("c"), cloud("d", price=5)]
    assert told(await change(shop, first)) == {
        "created": ["a", "b", "c", "d"],
        "price_changed": [],
        "changed": [],
        "removed": [],
    }
    second = [cloud("a", price=100, brand="Koala"), cloud("b", price=100, sale_price=80), cloud("c"), cloud("e")]
    changes = await change(shop, second, ["d", "unknown"], at=START + timedelta(days=1))
    assert told(changes) == {"created": ["e"], "price_changed": ["b"], "changed": ["a"], "removed": ["d"]}
    assert len(changes) == 4
    assert changes.price_changed[0].before["sale_price"] == 90
    assert changes.price_changed[0].item["sale_price"] == 80
    assert changes.removed[0].before["price"] == 5
    assert changes.removed[0].item is None
    assert ids((await shop.search(CatalogueQuery())).items) == ["a", "b", "c", "e"]


@pytest.mark.both_databases
async def test_second_import_of_the_same_rows_changes_nothing(open_shop):
    shop = open_shop()
    rows = [cloud(f"p{n}", price=n, tags=["x", "X"], listed_at="2026-01-01T00:00:00Z") for n in range(1_200)]
    assert len(await change(shop, rows)) == 1_200
    before = shop.revision, shop.get("p7")
    assert len(await change(shop, rows, at=START + timedelta(days=9))) == 0
    assert (shop.revision, shop.get("p7")) == before
    assert await history(shop, "p7") == [PricePoint("2026-01-01T00:00:00Z", 7, 7)]


@pytest.mark.both_databases
async def test_item_is_stamped_when_it_came_and_when_it_changed(open_shop):
    shop = open_shop()
    await change(shop, [cloud("a", created_at="1999-01-01T00:00:00Z")])
    await change(shop, [cloud("a", brand="Emma"), cloud("b")], at=START + timedelta(days=2))
    found = shop.get("a")
    assert (found["created_at"], found["updated_at"]) == ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
    assert ids(await shop.search(CatalogueQuery(sort="-created_at"))) == ["b", "a"]


@pytest.mark.both_databases
async def test_price_history_and_lowest_price(open_shop):
    shop = open_shop()
    prices = [(100, None), (100, 70), (100, 70), (120, 95.5)]
    for day, (price, sale) in enumerate(prices):
        await change(shop, [cloud("a", price=price, sale_price=sale)], at=START + timedelta(days=10 * day))
    points = await history(shop, "a")
    assert points == [
        PricePoint("2026-01-01T00:00:00Z", 100, 100),
        PricePoint("2026-01-11T00:00:00Z", 100, 70),
        PricePoint("2026-01-31T00:00:00Z", 120, 95.5),
    ]
    assert lowest_price(points, START + timedelta(days=20)) == 70
    assert lowest_price(points, START + timedelta(days=31)) == 95.5
    assert lowest_price(points, START - timedelta(days=1)) == 70
    assert lowest_price([], START) is None
    assert await history(shop, "unknown") == []


@pytest.mark.both_databases
async def test_removed_item_that_comes_back_is_created_and_keeps_its_history(open_shop):
    shop = open_shop()
    await change(shop, [cloud("a", price=10)])
    await change(shop, removals=["a"], at=START + timedelta(days=1))
    assert (len(shop), shop.get("a"), await stored(shop)) == (0, None, {})
    assert len(await change(shop, removals=["a"])) == 0
    changes = await change(shop, [cloud("a", price=10)], at=START + timedelta(days=2))
    assert told(changes)["created"] == ["a"]
    assert shop.get("a")["created_at"] == "2026-01-01T00:00:00Z"
    assert [point.at for point in await history(shop, "a")] == ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"]


@pytest.mark.both_databases
async def test_of_one_id_twice_the_last_counts_and_outweighs_its_removal(open_shop):
    shop = open_shop()
    changes = await change(shop, [cloud("a", price=1), cloud("a", price=2)], ["a"])
    assert told(changes)["created"] == ["a"]
    assert shop.get("a")["price"] == 2
    assert len(await history(shop, "a")) == 1


@pytest.mark.both_databases
async def test_change_set_with_a_bad_row_writes_nothing(open_shop):
    shop = open_shop()
    with pytest.raises(InvalidItem, match="price"):
        await change(shop, [cloud("a"), cloud("b", price="free")])
    await shop.refresh()
    assert (len(shop), await stored(shop)) == (0, {})


@pytest.mark.both_databases
async def test_transaction_that_fails_leaves_store_and_index_alone(open_shop):
    shop = open_shop()
    await change(shop, [cloud("a")])

    async def fail() -> None:
        async with shop._database.writing() as transaction:
            await shop.apply(transaction, [cloud("b")], ["a"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await shop.refresh()
    assert ids(await shop.search(CatalogueQuery())) == list(await stored(shop)) == ["a"]


async def test_odd_ids_to_remove_are_no_ids(open_shop):
    assert len(await change(open_shop(), removals=["a\x00", "", "x" * 300, "' OR 1=1 --"])) == 0


@pytest.mark.both_databases
async def test_catalogues_of_other_names_are_apart(open_shop):
    mattresses, companies = open_shop(name="mattress"), open_shop(name="infra")
    await change(mattresses, [cloud("a", price=1)])
    await change(companies, [cloud("a"), cloud("b")])
    await mattresses.refresh()
    assert (len(mattresses), len(companies)) == (1, 2)
    assert await history(companies, "a") == []


@pytest.mark.both_databases
async def test_change_sets_at_once_take_turns_and_none_is_lost(open_shop):
    shops = [open_shop() for _ in range(4)]

    async def write(shop, number) -> None:
        for step in range(5):
            await change(shop, [cloud("shared", price=100 * number + step), cloud(f"p{number}-{step}")])

    await asyncio.gather(*(write(shop, number) for number, shop in enumerate(shops)))
    await asyncio.gather(*(shop.refresh() for shop in shops))
    assert {len(shop) for shop in shops} == {21}
    assert len({shop.revision for shop in shops}) == 1
    assert shops[0].revision[1] == 20
    prices = [point.price for point in await history(shops[0], "shared")]
    assert len(prices) == 20
    assert {shop.get("shared")["price"] for shop in shops} == {prices[-1]}


@pytest.mark.both_databases
async def test_every_process_shows_a_change_within_a_second(open_shop, database_url, tmp_path):
    shop = open_shop()
    with printing_process(catalogue_process.watch, database_url, cwd=tmp_path) as output:
        assert await said(output) == "0"
        await change(shop, [cloud("a"), cloud("b")])
        # All of a change set at once: never 1.
        assert await said(output) == "2"
        await change(shop, [], ["a", "b"])
        assert await said(output) == "0"


async def said(output):
    """The next thing a process says, among the lines of its log."""
    while line := await asyncio.to_thread(output.readline):
        if line.startswith("says "):
            return line.removeprefix("says ").strip()
    return None


async def agree(shop):
    """The index holds what the store holds, counted, found and shown alike."""
    await shop.refresh()
    kept = await stored(shop)
    shown = {item["id"]: item for item in shop.items(CatalogueQuery())}
    assert shown == {identity: {k: v for k, v in item.items() if k != "secret"} for identity, item in kept.items()}
    found = await shop.search(CatalogueQuery(facets=("brand",), limit=0))
    assert found.total == len(shop) == len(kept)
    counted = {value.value: value.count for value in found.facets["brand"]}
    brands = [item["brand"] for item in kept.values() if "brand" in item]
    assert counted == {brand: brands.count(brand) for brand in set(brands)}


@pytest.mark.both_databases
@pytest.mark.parametrize("batch", [3, 2_000])
async def test_long_history_leaves_every_index_as_the_store(open_shop, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(module, "BATCH", batch)
    monkeypatch.setattr(module, "MERGE_AFTER_ROWS", 10)
    rng = random.Random(5)
    writer, reader, kept = open_shop(), open_shop(), open_shop(tmp_path)
    for step in range(12):
        rows = [
            cloud(f"p{rng.randrange(60)}", brand=rng.choice(["Emma", "Koala"]), price=rng.randrange(9), secret="s")
            for _ in range(rng.randrange(12))
        ]
        await change(writer, rows, [f"p{rng.randrange(60)}" for _ in range(3)])
        if step % 3 == 0:
            await agree(reader)
            await agree(kept)
    for shop in (writer, reader, kept, open_shop(), open_shop(tmp_path)):
        await agree(shop)


@pytest.mark.both_databases
async def test_stored_index_reads_only_later_changes(open_shop, tmp_path, monkeypatch):
    first = open_shop(tmp_path)
    await change(first, [cloud(f"p{n}") for n in range(50)])
    first.close()
    writer = open_shop()
    await change(writer, [cloud("new")], ["p0"])
    second = open_shop(tmp_path)
    assert len(second) == 50
    read = []
    monkeypatch.setattr(Catalogue, "_put", counting(Catalogue._put, read))
    await second.refresh()
    assert read == [2]
    await agree(second)


def counting(put, read):
    def counted(shop, rows, *, are_new) -> None:
        read.append(len(rows))
        put(shop, rows, are_new=are_new)

    return counted


@pytest.mark.both_databases
async def test_two_processes_share_one_index_that_one_of_them_writes(open_shop, tmp_path, monkeypatch):
    one, other = open_shop(tmp_path), open_shop(tmp_path)
    await change(one, [cloud("a")])
    put = []
    monkeypatch.setattr(other._engine, "put", lambda *_, **__: put.append(1))
    refreshing = asyncio.create_task(change(other, [cloud("b")]))
    while not refreshing.done():
        await one.refresh()
    await agree(other)
    await agree(one)
    assert (one._engine.index.is_writer, other._engine.index.is_writer, put) == (True, False, [])


async def test_another_process_takes_over_when_the_writer_ends(open_shop, tmp_path):
    one, other = open_shop(tmp_path), open_shop(tmp_path)
    await change(one, [cloud("a")])
    await other.refresh()
    one.close()
    await change(other, [cloud("b")], ["a"])
    assert other._engine.index.is_writer
    await agree(other)


@pytest.mark.parametrize("damage", ["name gone", "note gone", "note garbled", "index gone", "index garbled", "cut"])
async def test_damaged_folder_is_made_anew_from_the_store(open_shop, tmp_path, damage):
    first = open_shop(tmp_path)
    await change(first, [cloud(f"p{n}", brand="Emma") for n in range(30)])
    first.close()
    (current,) = (tmp_path / "shop").glob("*/current")
    place = current.parent / current.read_text()
    if damage == "name gone":
        current.unlink()
    if damage == "note gone":
        (place / "publication.json").unlink()
    if damage == "note garbled":
        (place / "publication.json").write_bytes(b"{\x00")
    if damage == "index gone":
        shutil.rmtree(place)
    if damage == "index garbled":
        (place / "meta.json").write_text("{")
    if damage == "cut":
        store = next(place.glob("*.store"))
        store.write_bytes(store.read_bytes()[:-1])
    await agree(open_shop(tmp_path))


@pytest.mark.both_databases
async def test_folder_of_another_database_is_not_believed(open_shop, tmp_path):
    first = open_shop(tmp_path)
    await change(first, [cloud("a"), cloud("b")])
    first.close()
    second = open_shop(tmp_path)
    async with second._database.writing() as transaction:
        await transaction.execute(text("DELETE FROM catalogue_item"))
        await transaction.execute(text("DELETE FROM catalogue"))
    await change(second, [cloud("c"), cloud("d")])
    await agree(second)
    assert list(await stored(second)) == ["c", "d"]


@pytest.mark.both_databases
async def test_index_is_not_believed_after_a_restore_with_as_many_change_sets(open_shop, tmp_path):
    first = open_shop(tmp_path)
    await change(first, [cloud("a"), cloud("b")])
    backup = {table: await rows_of(first, table) for table in CATALOGUE_TABLES}
    await change(first, [cloud("lost")])
    first.close()
    restored = open_shop()
    async with restored._database.writing() as transaction:
        for table, rows in backup.items():
            await transaction.execute(table.delete())
            await transaction.execute(table.insert(), rows)
    await change(restored, [cloud("new")])
    second = open_shop(tmp_path)
    assert ids(await second.search(CatalogueQuery())) == ["a", "b", "lost"]
    await agree(second)
    assert second.revision == first.revision == restored.revision
    assert list(await stored(second)) == ["a", "b", "new"]


async def rows_of(shop, table):
    async with shop._database.reading() as transaction:
        return [row._asdict() for row in await transaction.execute(select(table))]


async def test_folder_of_another_schema_that_is_in_use_is_left_alone(open_shop, tmp_path):
    await change(open_shop(tmp_path), [cloud("a", brand="Emma")])
    plainer = Schema(fields=SHOP.fields, price="price")
    other = open_shop(tmp_path, plainer)
    await other.refresh()
    assert (await other.search(CatalogueQuery(facets=("brand",)))).facets["brand"] == [ValueCount("Emma", 1)]


async def test_index_of_a_former_schema_is_deleted_when_unlocked(open_shop, tmp_path):
    plainer = Schema(fields=SHOP.fields, price="price")
    first = open_shop(tmp_path)
    await change(first, [cloud("a")])
    (place,) = (tmp_path / "shop").iterdir()
    open_shop(tmp_path, plainer).close()
    assert place.is_dir()
    await agree(first)
    first.close()
    await agree(open_shop(tmp_path, plainer))
    assert not place.exists()
    assert len(list((tmp_path / "shop").iterdir())) == 1


@pytest.mark.both_databases
async def test_killed_process_leaves_a_folder_that_catches_up(open_shop, database_url, tmp_path):
    folder = tmp_path / "shop"
    for seconds in (0.0, 0.01, 0.02):
        with printing_process(catalogue_process.write, database_url, str(folder), cwd=tmp_path) as output:
            for _ in range(5):
                assert await said(output)
            await asyncio.sleep(seconds)
        shop = open_shop(folder.parent)
        await agree(shop)
        assert len(shop) >= 5
        shop.close()
