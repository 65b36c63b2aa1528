"""The words of a table after changes are those of a table that is read anew, and only what changed is read."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tollhouse.services.tables.declaration import parse_declaration
from tollhouse.services.tables.questions import table_engine

HEAD = """
title = "{name}"
description = "{name}"
licence = "CC0"
source = "Tests"
price_usd = "0.01"
free_per_day = 1
[table]
file = "{name}.csv"
format = "csv"
id = "id"
title = "{title}"
"""
# Few words, so that names are parts of each other and stand for several things.
WORDS = ("Grey", "Heron", "grey", "Press", "The", "of", "Water", "Average", "AB", "Pages")


def declared(name: str, title: str, /, **types: str):
    fields = "".join(f'[fields.{field}]\ntype = "{kind}"\n' for field, kind in types.items())
    return parse_declaration(HEAD.format(name=name, title=title) + fields, Path(f"services/{name}.toml"))


def declaration(title: str = "name", kind: str = "text"):
    types = {"author": "keyword", "publisher": "keyword", "topics": "list", "name": kind, "pages": "integer"}
    return declared("books", title, **types)


def book(chance: random.Random, number: int, words: tuple[str, ...] = WORDS) -> dict[str, Any]:
    def some() -> str:
        return " ".join(chance.choices(words, k=chance.randint(1, 3)))

    item: dict[str, Any] = {"id": f"b{number:05}", "name": some(), "author": some(), "publisher": some()}
    if chance.random() < 0.5:
        del item["author"]
    return item | {"topics": [some() for _ in range(chance.randint(0, 2))], "pages": chance.randint(1, 900)}


def linked(engine, texts: list[str]):
    return [(engine.linker.link(text), list(engine.linker.spellings(text))) for text in texts]


@pytest.mark.parametrize(("title", "kind"), [("name", "text"), ("name", "keyword"), ("author", "text")])
def test_words_after_changes_are_those_of_a_table_that_is_read_anew(title, kind):
    chance, table = random.Random(7), declaration(title, kind)
    items = {item["id"]: item for item in (book(chance, number) for number in range(40))}
    engine = table_engine(table, list(items.values()))
    was_followed = 0
    for _ in range(6):
        texts = [str(each) for item in items.values() for each in (item["name"], item.get("author"))]
        for identity in chance.sample(sorted(items), 3):
            del items[identity]
        for number in chance.sample(range(60), 3):
            items[f"b{number:05}"] = book(chance, number)
        current = [items[identity] for identity in sorted(items)]
        engine, anew = table_engine(table, current, engine), table_engine(table, current)
        was_followed += engine.dataset.changed_names is not None
        texts = chance.sample(texts, 8) + [str(item["name"]) for item in chance.sample(current, 8)]
        texts += [f"{chance.choice(WORDS)}x average pages of {text} by publisher" for text in texts[:2]]
        assert linked(engine, texts) == linked(anew, texts)
        assert engine.linker.described == anew.linker.described
        assert engine.dataset.words == anew.dataset.words
        for text in texts[:2]:
            assert engine.answer(f"how many books are by {text}?") == anew.answer(f"how many books are by {text}?")
    assert was_followed > 3


def test_engine_of_before_a_change_answers_as_before():
    chance, table = random.Random(8), declaration()
    items = [book(chance, number) for number in range(40)]
    texts = [str(item["name"]) for item in items[:12]]
    before = table_engine(table, items)
    expected = linked(before, texts)
    changed = [{**item, "name": "Something else"} if number < 8 else item for number, item in enumerate(items)]
    after = table_engine(table, changed, before)
    assert after.dataset.changed_names is not None
    assert linked(table_engine(table, items, after), texts) == expected
    assert linked(before, texts) == expected


def test_change_of_a_row_is_not_work_for_the_others():
    """Counted in calls of Python's functions."""
    calls = []
    for count in (500, 4_000):
        chance, table = random.Random(9), declaration()
        words = tuple(f"word{number}" for number in range(count))
        items = [book(chance, number, words) for number in range(count)]
        before = table_engine(table, items)
        changed = [{**items[0], "name": "Something else"}, *items[1:]]
        calls.append(0)

        def count_call(_frame: object, event: str, _value: object) -> None:
            calls[-1] += event == "call"

        sys.setprofile(count_call)
        after = table_engine(table, changed, before)
        sys.setprofile(None)
        assert after.dataset.changed_names is not None
    assert calls[1] < 1.2 * calls[0], calls


FILMS = {
    "film_title": "text",
    "nation": "keyword",
    "genre": "keyword",
    "runtime_min": "integer",
    "tickets_sold": "integer",
    "jury_score": "number",
}


def film(number: int, nation: str, genre: str, minutes: int, tickets: int) -> dict[str, Any]:
    numbers = {"runtime_min": minutes, "tickets_sold": tickets, "jury_score": number / 2}
    return {"id": f"f{number}", "film_title": f"Title {number}", "nation": nation, "genre": genre} | numbers


def films_engine(nations: tuple[str, ...] = ("Ireland", "Kenya", "USA")):
    genres = ("comedy", "documentary", "drama")
    films = [film(number, nations[number % 3], genres[number // 3], 80 + 10 * number, number) for number in range(9)]
    return table_engine(declared("festival", "film_title", **FILMS), films)


@pytest.mark.parametrize(
    ("said", "role", "name", "value"),
    [
        pytest.param("films", "kind", "item", None, id="what titles are titles of"),
        pytest.param("movies", "kind", "item", None, id="synonym of it"),
        pytest.param("tickets", "attribute", "tickets_sold", None, id="part of a column's name"),
        pytest.param("jury", "attribute", "jury_score", None, id="first part of a column's name"),
        pytest.param("documentaries", "value", "genre", "documentary", id="plural of a value"),
        pytest.param("Irish", "value", "nation", "Ireland", id="adjective of a country"),
        pytest.param("amerikanische", "value", "nation", "USA", id="adjective in German, as the column writes it"),
        pytest.param("Nigerian", "value", "nation", "Nigeria", id="country without rows"),
        pytest.param("hours", "unit", "runtime_min", 60.0, id="larger unit"),
        pytest.param("longest", "extreme", "runtime_min", True, id="superlative of a unit's quantity"),
    ],
)
def test_table_knows_words_that_its_columns_imply(said, role, name, value):
    (item,) = films_engine().linker.link(said).items
    meaning = item.find(role)
    assert meaning is not None
    assert meaning.name == name
    assert value is None or meaning.value == value


def test_adjectives_of_countries_mean_nothing_in_a_column_of_something_else():
    (item,) = films_engine(("north", "south", "Ireland")).linker.link("Irish").items
    assert item.find("value") is None


@pytest.mark.parametrize(("column", "is_country"), [("state", False), ("country", True)])
def test_codes_of_two_letters_are_countries_only_in_a_column_of_that_name(column, is_country):
    table = declared("offices", "name", name="text", **{column: "keyword"})
    rows = [{"id": code, "name": f"Office {code}", column: code} for code in ("CA", "DE", "IN")]
    (item,) = table_engine(table, rows).linker.link("Canadian").items
    assert (item.find("value") is not None) == is_country


def test_rows_without_a_noun_of_their_own_have_that_of_the_table():
    engine = table_engine(declared("offices", "name", name="text"), [])
    assert "" not in engine.dataset.declaration.kinds[0].nouns


def test_unit_of_one_column_is_not_a_larger_one_of_another():
    engine = table_engine(declared("masts", "name", name="text", height_m="integer", distance_km="integer"), [])
    (item,) = engine.linker.link("kilometres").items
    assert [meaning.name for meaning in item.meanings if meaning.role == "unit"] == ["distance_km"]
