"""What is kept of a catalogue's items is what reading all of them would give, and only changed ones are read."""

import random

import pytest
from sqlalchemy import text

from tests.catalogue.test_catalogue import change, cloud, open_shop
from tollhouse.catalogue.followed_items import FollowedItems
from tollhouse.catalogue.index import View
from tollhouse.catalogue.query import CatalogueQuery

pytestmark = pytest.mark.both_databases

__all__ = ["open_shop"]


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The items read since the list was cleared."""
    listed, item = [], View.item

    def counted(view, address) -> object:
        found = item(view, address)
        listed.append(found["id"])
        return found

    monkeypatch.setattr(View, "item", counted)
    return listed


def titles(shop) -> list[tuple[str, str]]:
    return [(item["id"], item["title"]) for item in shop.items(CatalogueQuery())]


def followed_titles(shop) -> FollowedItems[tuple[str, str]]:
    return FollowedItems(shop, lambda item: (item["id"], item["title"]))


@pytest.mark.parametrize("seed", range(3))
async def test_kept_items_are_those_read_from_scratch(open_shop, seed) -> None:
    chance, shop = random.Random(seed), open_shop()
    followed = followed_titles(shop)
    for turn in range(30):
        names = [f"p{number}" for number in chance.sample(range(60), chance.choice([0, 1, 3, 40]))]
        gone = chance.sample(names, len(names) // 3)
        await change(shop, [cloud(name, brand=f"{turn}") | {"title": f"{turn}"} for name in names], gone)
        if chance.random() < 0.7:
            assert await followed.current() == titles(shop)


async def test_only_changed_items_are_read(open_shop, read) -> None:
    writer, shop = open_shop(), open_shop()
    await change(writer, [cloud(f"p{number:03}") for number in range(400)])
    await shop.refresh()
    followed = followed_titles(shop)
    await followed.current()
    assert len(read) == 400
    await change(writer, [cloud("p007") | {"title": "Other"}, cloud("a")], ["p008"])
    await shop.refresh()
    read.clear()
    kept = await followed.current()
    assert sorted(read) == ["a", "p007"]
    assert kept[:2] == [("a", "Cloud"), ("p000", "Cloud")]
    assert ("p007", "Other") in kept
    assert len(kept) == 400
    read.clear()
    assert await followed.current() == kept
    assert read == []


async def test_catalogue_of_a_restored_database_is_read_whole(open_shop) -> None:
    shop = open_shop()
    await change(shop, [cloud(f"p{number:03}") for number in range(40)])
    followed = followed_titles(shop)
    await followed.current()
    async with shop._database.writing() as transaction:
        # The same revision is another change set there.
        await transaction.execute(text("UPDATE catalogue_change_set SET token = 'other'"))
        await transaction.execute(text("DELETE FROM catalogue_item WHERE id < 'p020'"))
    await change(shop, [cloud("p030") | {"title": "Other"}])
    assert await followed.current() == titles(shop)
    assert len(titles(shop)) == 20
