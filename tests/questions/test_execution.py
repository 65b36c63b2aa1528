"""Queries over rows: conditions, relations, orders, groups and measures on a small library of books."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tollhouse.questions.execution import Tables
from tollhouse.questions.query import (
    AllOf,
    Among,
    AnyOf,
    Compare,
    Condition,
    Exists,
    Figure,
    Groups,
    List,
    Measure,
    Not,
    Order,
    Related,
    Rows,
    Share,
    Test,
)
from tollhouse.questions.vocabulary import Attribute, Dataset, Declaration, Kind, Relation


@dataclass(frozen=True)
class Book:
    id: str
    title: str
    shelf: str
    pages: float | None
    bought: datetime
    cites: dict[str, str] = field(default_factory=dict, hash=False)


def _day(day: int) -> datetime:
    return datetime(2026, 5, day, tzinfo=UTC)


BOOKS = (
    Book("atlas", "An atlas of rivers", "maps", 300, _day(1)),
    Book("tides", "Tides and rivers", "science", 120, _day(2), {"atlas": "for a map"}),
    Book("moon", "The moon", "science", 120, _day(3), {"tides": "for a table"}),
    Book("verse", "Verse", "poems", None, _day(4), {"moon": "for a line"}),
)
DECLARATION = Declaration(
    kinds=(
        Kind(
            name="book",
            nouns=("book",),
            attributes=(
                Attribute(name="shelf", type="keyword"),
                Attribute(name="pages", type="number"),
                Attribute(name="bought", type="time"),
                Attribute(name="title", type="text"),
            ),
        ),
    ),
    relations=(
        Relation(name="cites", source="book", target="book", link=(Attribute(name="reason", type="text"),)),
        Relation(name="resembles", source="book", target="book", symmetric=True),
    ),
)


class Library(Dataset):
    declaration = DECLARATION

    def rows(self, kind):
        return BOOKS

    def id(self, kind, row):
        return row.id

    def label(self, kind, row):
        return row.title

    def values(self, kind, row, attribute):
        value = getattr(row, attribute)
        return () if value is None else (value,)

    def related(self, relation, row):
        if relation == "resembles":
            return [(BOOKS[2], "alike")] if row.id == "tides" else []
        return [(book, (row.id, reason)) for book in BOOKS if (reason := row.cites.get(book.id))]

    def link_values(self, relation, link, attribute):
        return (link[1],)

    def names(self):
        return ()

    def texts(self, kind):
        return {book.id: book.title for book in BOOKS}


@pytest.fixture(scope="module")
def tables():
    return Tables(Library())


def _ids(tables: Tables, where: Condition, **rest: Any) -> list[str]:
    result = tables.run(List(Rows("book", where, **rest)))
    return [BOOKS[place].id for place in result.places]


def _id(*names: str) -> Test:
    return Test("id", "is", names)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (Test("shelf", "is", ("SCIENCE",)), ["tides", "moon"]),
        (Not(Test("shelf", "is", ("science", "maps"))), ["verse"]),
        (Test("pages", "above", (120.0,)), ["atlas"]),
        (Test("pages", "at_most", (120.0,)), ["tides", "moon"]),
        (Not(Test("pages", "at_most", (120.0,))), ["atlas", "verse"]),
        (Test("pages", "known"), ["atlas", "tides", "moon"]),
        (Test("bought", "at_least", (_day(3).isoformat(),)), ["moon", "verse"]),
        (Test("text", "contains", ("river",)), ["atlas", "tides"]),
        (Test("text", "contains", ("river tide",)), ["tides"]),
        (Test("title", "contains", ("the moon", "verse")), ["moon", "verse"]),
        (AnyOf((_id("verse"), Test("shelf", "is", ("maps",)))), ["atlas", "verse"]),
        (AllOf((Test("shelf", "is", ("science",)), Test("text", "contains", ("moon",)))), ["moon"]),
        (Related("cites", outgoing=True, to=_id("atlas")), ["tides"]),
        (Related("cites", outgoing=False, to=_id("moon")), ["tides"]),
        (Related("cites", outgoing=True, to=_id("atlas"), transitive=True), ["tides", "moon", "verse"]),
        (Related("cites", outgoing=True, to=AllOf(), link=(Test("reason", "contains", ("table",)),)), ["moon"]),
        (Related("cites", outgoing=True, to=Related("cites", outgoing=True, to=_id("atlas"))), ["moon"]),
        (Related("resembles", outgoing=True, to=_id("tides")), ["moon"]),
        (Related("resembles", outgoing=True, to=_id("moon")), ["tides"]),
        (Test("cites.in", "is", (1.0,)), ["atlas", "tides", "moon"]),
        (Test("pages", "below", of_row="atlas"), ["tides", "moon"]),
        (Test("pages", "below", of_row="nothing"), []),
        (Among(Rows("book", order=Order("pages"), limit=1)), ["atlas"]),
        (Test("cites.out - cites.in", "above", (0.0,)), ["verse"]),
        (Test("cites.in / cites.out", "is", (1.0,)), ["tides", "moon"]),
        (Test("pages / 60", "is", (5.0,)), ["atlas"]),
        (Test("pages - pages", "is", (0.0,)), ["atlas", "tides", "moon"]),
        (Related("cites", True, Test("shelf", "is", ("science",)), at_least=1), ["moon", "verse"]),
        (Related("cites", True, Test("shelf", "is", ("science",)), at_most=0), ["atlas", "tides"]),
        (Related("cites", True, Test("shelf", "is", ("science",)), every=True), []),
        (Related("cites", True, Test("shelf", "is", ("maps",)), every=True), ["tides"]),
        (Related("cites", True, Test("shelf", "is", ("fables",)), every=True), []),
    ],
)
def test_condition_selects_rows(tables, where, ids):
    assert _ids(tables, where) == ids


def test_order_limit_and_skip(tables):
    assert _ids(tables, AllOf(), order=Order("pages"), limit=1) == ["atlas"]
    assert _ids(tables, AllOf(), order=Order("pages", descending=False), limit=1) == ["tides", "moon"]
    assert _ids(tables, AllOf(), order=Order("pages"), limit=1, skip=1) == ["tides", "moon"]
    assert _ids(tables, AllOf(), order=Order("bought"), limit=2) == ["verse", "moon"]
    assert _ids(tables, AllOf(), order=Order("pages")) == ["atlas", "tides", "moon", "verse"]


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (Measure(), 4),
        (Measure("sum", "pages"), 540),
        (Measure("average", "pages"), 180),
        (Measure("median", "pages"), 120),
        (Measure("smallest", "pages"), 120),
        (Measure("largest", "pages"), 300),
    ],
)
def test_figure_measures_rows(tables, measure, value):
    assert tables.run(Figure(Rows("book"), measure)).value == value


def test_measure_of_no_value_is_unknown(tables):
    assert tables.run(Figure(Rows("book", _id("verse")), Measure("average", "pages"))).value is None


def test_groups_count_and_measure(tables):
    groups = tables.run(Groups(Rows("book"), "shelf"))
    assert [(side.name, side.value) for side in groups.sides] == [("science", 2), ("maps", 1), ("poems", 1)]
    fewest = tables.run(Groups(Rows("book"), "shelf", descending=False, limit=1))
    assert [side.name for side in fewest.sides] == ["maps", "poems"]
    pages = tables.run(Groups(Rows("book"), "shelf", Measure("sum", "pages"), limit=1))
    assert [(side.name, side.value) for side in pages.sides] == [("maps", 300)]
    assert tables.run(Groups(Rows("book"), "shelf", counts=True)).value == 3
    assert [side.name for side in tables.run(Groups(Rows("book"), "shelf", at_least=2)).sides] == ["science"]


def _containing(word: str) -> Rows:
    return Rows("book", Test("text", "contains", (word,)))


def test_groups_that_other_rows_have_or_do_not_have(tables):
    rivers, moons = _containing("rivers"), _containing("moon")
    both = tables.run(Groups(rivers, "shelf", also=moons))
    assert [(side.name, side.value) for side in both.sides] == [("science", 1)]
    assert [BOOKS[place].id for place in both.places] == ["tides"]
    assert [side.name for side in tables.run(Groups(rivers, "shelf", without=moons)).sides] == ["maps"]
    assert tables.run(Groups(Rows("book"), "shelf", without=moons, counts=True)).value == 2
    assert tables.run(Groups(Rows("book"), "shelf", also=rivers, without=moons, counts=True)).value == 1
    largest = tables.run(Groups(Rows("book"), "shelf", Measure("sum", "pages"), also=rivers, limit=1))
    assert [(side.name, side.value) for side in largest.sides] == [("maps", 300)]
    none = tables.run(Groups(moons, "shelf", without=rivers))
    assert (none.sides, none.total) == ((), 0)


def test_groups_against_the_figure_of_other_rows(tables):
    maps, science = (Rows("book", Test("shelf", "is", (shelf,))) for shelf in ("maps", "science"))
    assert [side.name for side in tables.run(Groups(Rows("book"), "shelf", above=maps)).sides] == ["science"]
    assert [side.name for side in tables.run(Groups(Rows("book"), "shelf", below=science)).sides] == ["maps", "poems"]
    assert tables.run(Groups(Rows("book"), "shelf", equal=maps, counts=True)).value == 2
    pages = Measure("sum", "pages")
    assert [side.name for side in tables.run(Groups(Rows("book"), "shelf", pages, above=science)).sides] == ["maps"]
    assert tables.run(Groups(Rows("book"), "shelf", above=maps, below=science)).sides == ()


def test_share_of_a_sum_and_order_by_a_computed_number(tables):
    maps = Rows("book", Test("shelf", "is", ("maps",)))
    assert tables.run(Figure(maps, Measure("sum", "pages % all"))).value == pytest.approx(100 * 300 / 540)
    assert _ids(tables, AllOf(), order=Order("cites.out - cites.in"), limit=1) == ["verse"]


def test_mean_of_groups(tables):
    assert tables.run(Groups(Rows("book"), "shelf", mean=True)).value == pytest.approx(4 / 3)
    assert tables.run(Groups(Rows("book"), "shelf", Measure("sum", "pages"), mean=True)).value == 270
    assert tables.run(Groups(Rows("book"), "shelf", mean=True, at_least=2)).value == 2
    assert tables.run(Groups(Rows("book", _id("none")), "shelf", mean=True)).value is None


def test_whether_every_row_is_so(tables):
    long = Rows("book", Test("pages", "at_least", (120.0,)))
    is_so = tables.run(Share(long, _containing("rivers"), is_every=True))
    assert (is_so.value, [BOOKS[place].id for place in is_so.places]) == (1, ["atlas", "tides"])
    is_not = tables.run(Share(_containing("rivers"), long, is_every=True))
    assert (is_not.value, [BOOKS[place].id for place in is_not.places]) == (0, ["moon"])
    assert tables.run(Share(long, Rows("book", _id("none")), is_every=True)).value == 0


def test_compare_share_and_existence(tables):
    science, maps = (Rows("book", Test("shelf", "is", (name,))) for name in ("science", "maps"))
    assert tables.run(Compare((science, maps), difference=True)).value == 1
    assert [side.value for side in tables.run(Compare((science, maps))).sides] == [2, 1]
    assert tables.run(Compare((science, maps), is_yes_no=True, equal=True)).value == 0
    assert tables.run(Compare((maps, maps), is_yes_no=True, equal=True)).value == 1
    assert tables.run(Share(science, Rows("book"))).value == 50
    assert tables.run(Share(science, Rows("book", _id("none")))).value is None
    assert (tables.run(Exists(science)).value, tables.run(Exists(Rows("book", _id("none")))).value) == (1, 0)


def test_links_behind_rows(tables):
    condition = Related("cites", outgoing=True, to=_id("atlas"), transitive=True)
    places = tables.run(List(Rows("book", condition))).places
    links = [link for _, link in tables.links_behind(places, condition)]
    assert links == [("tides", "for a map"), ("moon", "for a table"), ("verse", "for a line")]
    assert tables.links_behind(places, Not(condition)) == []


def test_undeclared_attribute_is_an_error(tables):
    with pytest.raises(KeyError):
        tables.run(List(Rows("book", Test("colour", "is", ("red",)))))
