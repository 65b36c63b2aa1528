"""What tantivy's engine does beside the contract: readers in other threads, small schemas, many equals."""

import threading

import pytest

from tests.catalogue.shop import SHOP, ids, item, stock
from tollhouse.catalogue import finding
from tollhouse.catalogue.engine import TantivyEngine
from tollhouse.catalogue.items import prepared
from tollhouse.catalogue.query import Query, ValueCount
from tollhouse.catalogue.schema import Field, Schema


def test_reader_in_another_thread_sees_whole_publications():
    engine = stock(TantivyEngine(SHOP), *(item(f"p{n}", "Cloud", brand="round 0") for n in range(40)))
    odd, done = [], threading.Event()

    def read() -> None:
        while not done.is_set():
            found = engine.find(Query(text="cloud", facets=("brand",), limit=40))
            if found.facets["brand"] != [ValueCount(found.items[0]["brand"], 40)] or found.total != 40:
                odd.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(1, 15):
        stock(engine, *(item(f"p{n}", "Cloud", brand=f"round {step}") for n in range(40)))
    done.set()
    for reader in readers:
        reader.join()
    assert odd == []


def test_export_is_not_disturbed_by_what_is_published_meanwhile():
    engine = stock(TantivyEngine(SHOP), *(item(f"p{n}", "Cloud") for n in range(20)))
    exported = engine.items(Query())
    first = next(exported)
    engine.put([item("new")], [f"p{n}" for n in range(20)])
    engine.publish()
    engine.settle()
    assert [first["id"], *ids(exported)] == sorted(f"p{n}" for n in range(20))
    assert ids(engine.items(Query())) == ["new"]


@pytest.mark.parametrize("fields", [(Field("title", "text"),), (Field("title", "text", weight=1.0),)])
def test_smallest_schema_is_answered(fields):
    schema = Schema(fields)
    engine = TantivyEngine(schema)
    stock(engine, prepared(schema, {"id": "a", "title": "Cloud"}), prepared(schema, {"id": "b"}))
    assert engine.find(Query()).total == 2
    assert engine.find(Query(text="cloud")).total == (1 if fields[0].weight else 0)
    assert [each.id for each in engine.suggest("clo")] == ["a"]
    assert engine.similar("b") == []


@pytest.mark.parametrize("most", [10, 130, 199, 200])
def test_more_equals_than_are_put_in_order_still_come_once_each(monkeypatch, most):
    monkeypatch.setattr(finding, "MOST_EQUALS", most)
    engine = TantivyEngine(SHOP)
    for start in range(4):
        stock(engine, *(item(f"p{n:03d}", "Cloud") for n in range(start, 200, 4)))
    pages = [ids(engine.find(Query(text="cloud", offset=at, limit=30))) for at in range(0, 200, 30)]
    assert sorted(identity for page in pages for identity in page) == [f"p{n:03d}" for n in range(200)]


def test_settled_engine_answers_as_before():
    engine = TantivyEngine(SHOP)
    for start in range(10):
        stock(engine, *(item(f"p{n:03d}", "Cloud") for n in range(start, 100, 10)))
    before = engine.find(Query(text="cloud", limit=100))
    engine.settle()
    assert engine.find(Query(text="cloud", limit=100)) == before
    assert ids(before) == [f"p{n:03d}" for n in range(100)]
    assert len(stock(engine, item("more"))) == 101
