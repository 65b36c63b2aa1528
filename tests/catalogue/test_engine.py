"""What tantivy's engine does beside the contract: readers in other threads, small schemas, many equals."""

import threading

import pytest

from tests.catalogue.shop import SHOP, ids, item, stock
from tollhouse.catalogue import scoring, search
from tollhouse.catalogue.items import prepare_item
from tollhouse.catalogue.query import CatalogueQuery, Range, ValueCount
from tollhouse.catalogue.schema import Field, Schema
from tollhouse.catalogue.search_engine import TantivyEngine


def test_reader_in_another_thread_sees_whole_publications():
    engine = stock(TantivyEngine(SHOP), *(item(f"p{n}", "Cloud", brand="round 0") for n in range(40)))
    odd, done = [], threading.Event()

    def read() -> None:
        while not done.is_set():
            found = engine.find(CatalogueQuery(text="cloud", facets=("brand",), limit=40))
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
    exported = engine.items(CatalogueQuery())
    first = next(exported)
    engine.put([item("new")], [f"p{n}" for n in range(20)])
    engine.publish()
    engine.merge_segments()
    assert [first["id"], *ids(exported)] == sorted(f"p{n}" for n in range(20))
    assert ids(engine.items(CatalogueQuery())) == ["new"]


@pytest.mark.parametrize("fields", [(Field("title", "text"),), (Field("title", "text", weight=1.0),)])
def test_smallest_schema_is_answered(fields):
    schema = Schema(fields)
    engine = TantivyEngine(schema)
    stock(engine, prepare_item(schema, {"id": "a", "title": "Cloud"}), prepare_item(schema, {"id": "b"}))
    assert engine.find(CatalogueQuery()).total == 2
    assert engine.find(CatalogueQuery(text="cloud")).total == (1 if fields[0].weight else 0)
    assert [each.id for each in engine.suggest("clo")] == ["a"]
    assert engine.similar("b") == []


@pytest.mark.parametrize("most", [10, 130, 199, 200])
def test_more_equals_than_are_put_in_order_still_come_once_each(monkeypatch, most):
    monkeypatch.setattr(search, "MAX_SORTED_TIES", most)
    engine = TantivyEngine(SHOP)
    for start in range(4):
        stock(engine, *(item(f"p{n:03d}", "Cloud") for n in range(start, 200, 4)))
    pages = [ids(engine.find(CatalogueQuery(text="cloud", offset=at, limit=30))) for at in range(0, 200, 30)]
    assert sorted(identity for page in pages for identity in page) == [f"p{n:03d}" for n in range(200)]


def test_cursors_reach_every_item_whatever_ids_and_brands_are_written_in():
    odd = ["a b", "A", "é", 'x"y', "x\\y", "x{y", "a]", "z TO q", "-1", "*", "𝄞", "it's", "a:b", "/r/", "日本 語"]
    engine = TantivyEngine(SHOP)
    for some in (odd[::2], odd[1::2]):
        stock(engine, *(item(name, brand=f"{name} {'x' * 900}") for name in some))
    for sort in ("", "brand", "-brand", "firmness"):
        whole = ids(engine.find(CatalogueQuery(sort=sort, limit=100)))
        walked, cursor = [], "*"
        while cursor:
            page = engine.find(CatalogueQuery(sort=sort, limit=2, cursor=cursor))
            walked, cursor = walked + ids(page), page.next_cursor
        assert walked == whole
        assert sorted(walked) == sorted(odd)


def test_cursor_continues_after_its_item_although_items_came_and_went():
    engine = stock(TantivyEngine(SHOP), *(item(f"p{n:03d}", price=n // 10) for n in range(100)))
    page = engine.find(CatalogueQuery(sort="price", limit=25, cursor="*"))
    engine.put([item("p000a", price=0)], ["p024", "p030"])
    engine.publish()
    page = engine.find(CatalogueQuery(sort="price", limit=25, cursor=page.next_cursor))
    assert ids(page) == [f"p{n:03d}" for n in range(25, 51) if n != 30]


def test_settled_engine_answers_as_before():
    engine = TantivyEngine(SHOP)
    for start in range(10):
        stock(engine, *(item(f"p{n:03d}", "Cloud") for n in range(start, 100, 10)))
    before = engine.find(CatalogueQuery(text="cloud", limit=100))
    engine.merge_segments()
    assert engine.find(CatalogueQuery(text="cloud", limit=100)) == before
    assert ids(before) == [f"p{n:03d}" for n in range(100)]
    assert len(stock(engine, item("more"))) == 101


def shelf_of_words():
    """Each item has `cloud`, half of them `dream`, a third `river`; how often, and beside how much else, differs."""
    return [
        item(
            f"p{n:03d}",
            " ".join(["cloud", *["dream"] * (n % 2), *["river"] * (n % 3 == 0), *["ember"] * (n % 7)]),
            description="dream " * (n % 5),
            brand="Emma" if n % 4 else "Dream",
        )
        for n in range(120)
    ]


@pytest.mark.parametrize("text", ["dream", "dream river", "cloud dream", "cloud ember river dream", "river walnut"])
def test_common_words_are_looked_up_and_score_as_when_they_are_read_through(monkeypatch, text):
    engine = stock(TantivyEngine(SHOP), *shelf_of_words())
    query = CatalogueQuery(text=text, facets=("brand",), limit=120)
    read_through = engine.find(query)
    assert read_through.total > 30
    monkeypatch.setattr(scoring, "COMMON", 0)
    monkeypatch.setattr(scoring, "COMMON_SHARE", 0.0)
    engine.merge_segments()
    assert engine.find(query) == read_through


def test_ubiquitous_word_is_required_but_does_not_rank():
    engine = stock(TantivyEngine(SHOP), *shelf_of_words(), item("without", "dream river"))
    both = engine.find(CatalogueQuery(text="cloud river dream", limit=120))
    assert "without" not in ids(both)
    assert ids(both) == [
        each for each in ids(engine.find(CatalogueQuery(text="river dream", limit=120))) if each != "without"
    ]
    assert engine.find(CatalogueQuery(text="cloud")).total == 120


def test_synonyms_that_all_items_have_between_them_still_order_them():
    engine = stock(
        TantivyEngine(SHOP), *(item(f"p{n:03d}", "Rubber cloud" if n % 3 else "Latex cloud") for n in range(99))
    )
    found = ids(engine.find(CatalogueQuery(text="latex cloud", limit=99)))
    assert found == [*(f"p{n:03d}" for n in range(0, 99, 3)), *(f"p{n:03d}" for n in range(99) if n % 3)]


def test_price_facet_of_few_has_finer_bars_than_that_of_all():
    clouds = (item(f"p{n:03d}", "Cloud", price=n * 97) for n in range(100))
    rivers = (item(f"r{price}", "River", price=price) for price in (300, 312.5, 9000))
    engine = stock(TantivyEngine(SHOP), *clouds, *rivers)
    wide = engine.find(CatalogueQuery(text="river", facets=("price",))).facets["price"]
    assert [(bar.start, bar.end, bar.count) for bar in wide.histogram if bar.count] == [
        (0, 1000, 2),
        (9000, 10000, 1),
    ]
    near = CatalogueQuery(text="river", between={"current_price": Range(300, 400)}, facets=("price",))
    bars = engine.find(near).facets["price"].histogram
    assert [(bar.start, bar.end, bar.count) for bar in bars if bar.count] == [(300, 302, 1), (312, 314, 1)]
