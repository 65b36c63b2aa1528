"""Slots of the templates about the defense feeds."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from tools.question_generator.generator import Question, questions
from tools.question_generator.slots import Slots, Value, numbers, places, plain
from tools.question_gold.evaluation import Names

CATEGORIES = {
    "Battles": ("battles", "Kämpfe", "Kämpfe", "combates", "Cuántos", "combats;batailles"),
    "Protests": ("protests", "Proteste", "Proteste", "protestas", "Cuántas", "manifestations"),
    "Economic": (
        "economic events", "wirtschaftliche Ereignisse", "wirtschaftlichen Ereignisse", "eventos económicos",
        "Cuántos", "événements économiques",
    ),
    "Political": (
        "political events", "politische Ereignisse", "politischen Ereignisse", "eventos políticos", "Cuántos",
        "événements politiques",
    ),
}  # fmt: skip
REGIONS = {
    "africa": ("Africa", "African", "in Afrika", "en África", "en Afrique"),
    "south_america": ("South America", "South American", "in Südamerika", "en Sudamérica", "en Amérique du Sud"),
    "south_east_asia": (
        "South East Asia;Southeast Asia", "Southeast Asian", "in Südostasien", "en el sudeste asiático",
        "en Asie du Sud-Est",
    ),
    "european_union": (
        "the European Union;the EU", "EU", "in der EU", "en la Unión Europea", "dans l'Union européenne",
    ),
}  # fmt: skip
ABSENT = ("NO", "CL")
UNKNOWN_PLACES = ("Ruritania", "Wakanda", "Zubrovka", "Atlantis", "Genovia", "Qumar")
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
ENTITY_TYPES = {
    "person": ("person", "people;persons"),
    "organization": ("organisation;organization", "organisations;organizations"),
    "location": ("place;location", "places;locations"),
}
ENTITIES = 40
PUBLISHERS = 25


def generate(names: Names, chance: random.Random) -> Iterator[Question]:
    """Questions about the feeds without end."""
    return questions("defense", slots(names), names, chance)


def slots(names: Names) -> Slots:
    """The values of every slot."""
    events = names["events"]
    present = {event["geo"]["country"] for event in events}
    countries = [value for value in places(_is_country) if _english(value) in present]
    absent = [value for value in places(_is_country, ABSENT) if _english(value) not in present]
    regions = [_region(name) for name in REGIONS]
    deadly = {event["geo"]["country"] for event in events if event["fatalities"]}
    return {
        "category": [_category(key) for key in CATEGORIES],
        "country": countries,
        "region": regions,
        "place": [*countries, *regions, *absent],
        "present_place": [*countries, *regions],
        "deadly_place": [value for value in countries if _english(value) in deadly],
        "story_country": _story_countries(names["stories"]),
        "severity": [_severity(name) for name in ("high", "medium", "low")],
        "day": [_day(day) for day in sorted({event["event_date"] for event in events})],
        "before_day": [_date(day, repr(day)) for day in sorted({event["event_date"] for event in events})[1:]],
        "publisher": _publishers(names["stories"]),
        "entity": [_entity(row) for row in sorted(names["entities"], key=lambda row: -row["mentions"])[:ENTITIES]],
        "entity_type": [_entity_type(name) for name in ENTITY_TYPES],
        "programme": _programmes(names["brief"]["production_summary"]["programs"]),
        "area": [plain(repr(gap["area"]), gap["area"].lower()) for gap in names["brief"]["capability_gaps"]],
        "unknown_place": [plain("None", name) for name in UNKNOWN_PLACES],
        "other_year": [plain("None", year) for year in ("1998", "2005", "2015", "2018", "2024")],
        "one_to_seven": numbers(1, 7),
        "two_to_ten": numbers(2, 10),
        "three_to_ten": numbers(3, 10),
    }


def _is_country(_code: str, name: str) -> str:
    return f"e['geo']['country'] == {name!r}"


def _english(value: Value) -> str:
    """The English name in the expression of a country."""
    return str(value.gold.split(" == ")[1].strip("'"))


def _story_countries(stories: list[dict[str, Any]]) -> list[Value]:
    present = {country for story in stories for country in story["countries"]}
    values = places(lambda _, name: f"{name!r} in s['countries']")
    return [value for value in values if value.gold.split("'")[1] in present]


def _category(name: str) -> Value:
    english, german, dative, spanish, many, french = CATEGORIES[name]
    words = {
        "en": {"": [english]},
        "de": {"": [german], "dat": [dative]},
        "es": {"": [spanish], "many": [many]},
        "fr": {"": french.split(";")},
    }
    return Value(f"e['category'] == {name!r}", words)


def _region(name: str) -> Value:
    english, adjective, german, spanish, french = REGIONS[name]
    names = english.split(";")
    words = {
        "en": {"": names, "in": [f"in {text}" for text in names], "adj": [adjective]},
        "de": {"in": [german]},
        "es": {"in": [spanish]},
        "fr": {"in": [french]},
    }
    return Value(f"e['geo']['country'] in {name}", words)


def _severity(name: str) -> Value:
    german = {"high": "hoher", "medium": "mittlerer", "low": "geringer"}[name]
    return Value(f"e['metrics']['severity_tier'] == {name!r}", {"en": {"": [name]}, "de": {"de": [german]}})


def _day(day: str) -> Value:
    """A day, with "on" in each language."""
    value = _date(day, f"e['event_date'] == {day!r}")
    before = {"en": "on", "de": "am", "es": "el", "fr": "le"}
    for language, forms in value.words.items():
        forms["on"] = [f"{before[language]} {text}" for text in forms[""]]
    return value


def _date(day: str, gold: str) -> Value:
    at = date.fromisoformat(day)
    months = {language: words.split()[at.month - 1] for language, words in MONTHS.items()}
    month = months["en"]
    words = {
        "en": {"": [f"{at.day} {month}", f"{month} {at.day}", f"{at.day} {month} {at.year}", f"{at.day} {month[:3]}"]},
        "de": {"": [f"{at.day}. {months['de']}", f"{at.day}.{at.month}.{at.year}"]},
        "es": {"": [f"{at.day} de {months['es']}"]},
        "fr": {"": [f"{at.day} {months['fr']}"]},
    }
    return Value(gold, words)


def _publishers(stories: list[dict[str, Any]]) -> list[Value]:
    """Those with the most stories, whose names need no explanation."""
    counted = Counter(name for story in stories for name in set(story["sources"]))
    common = [name for name, _ in counted.most_common() if "(" not in name and "." not in name]
    return [plain(repr(name), *{name, name.removeprefix("The ")}) for name in common[:PUBLISHERS]]


def _entity(row: dict[str, Any]) -> Value:
    return plain(repr(row["name"]), row["name"])


def _entity_type(name: str) -> Value:
    singular, plural = ENTITY_TYPES[name]
    return Value(f"x['type'] == {name!r}", {"en": {"": singular.split(";"), "pl": plural.split(";")}})


def _programmes(programmes: list[dict[str, Any]]) -> list[Value]:
    """Programmes with short names that no other programme contains."""
    names = [programme["name"] for programme in programmes]
    short = [
        name
        for name in names[:80]
        if len(name) <= 14 and sum(name.casefold() in other.casefold() for other in names) == 1
    ]
    return [plain(repr(name), name) for name in short]
