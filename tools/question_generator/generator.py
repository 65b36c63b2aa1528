"""Questions from the templates of a service: families in turn, languages by weight, answers by expression."""

import random
import tomllib
from collections.abc import Iterator
from string import Template
from typing import Any, NamedTuple

from tools.question_generator.slots import LANGUAGES, Slots, Value
from tools.question_generator.surface import TEMPLATES, choose_alternatives, frame, misspell, write_carelessly
from tools.question_gold import evaluate
from tools.question_gold.evaluation import Names

LANGUAGE_WEIGHTS = {"en": 70, "de": 12, "es": 9, "fr": 9}
TYPO_SHARE = 0.1
EMPTY_SHARE = 0.15
"""The largest share of lists without any row."""

ATTEMPTS = 60
"""How often a question is drawn before its family is left out for one turn."""

BETWEEN_TURNS = "||"


class Phrase(NamedTuple):
    """One phrase of a family: the form of its frame, its language and its text with alternatives and slots."""

    form: str
    language: str
    text: str


class Family(NamedTuple):
    """Questions with one meaning. `require` is an expression that must hold for the slots."""

    name: str
    gold: str
    match: str | None
    require: str | None
    slots: dict[str, str]
    phrases: list[Phrase]


class Question(NamedTuple):
    """One generated question. `plain` is its text before a typo."""

    family: str
    language: str
    turns: list[str]
    plain: list[str]
    gold: str
    match: str | None


def load_families(service: str) -> list[Family]:
    rows = tomllib.loads((TEMPLATES / f"{service}.toml").read_text("utf-8"))["family"]
    return [_family(row) for row in rows]


def questions(service: str, slots: Slots, names: Names, chance: random.Random) -> Iterator[Question]:
    """Questions without end, each family in turn, no text twice."""
    families = load_families(service)
    seen: set[str] = set()
    empty = drawn = 0
    while True:
        for family in families:
            for _ in range(ATTEMPTS):
                question = _draw(family, slots, names, chance)
                if question is None or (text := " ".join(question.turns).casefold()) in seen:
                    continue
                if evaluate(question.gold, names) == []:
                    if empty >= EMPTY_SHARE * (drawn + 1):
                        continue
                    empty += 1
                seen.add(text)
                drawn += 1
                yield question
                break


def _family(row: dict[str, Any]) -> Family:
    phrases = [
        Phrase(form, language, text)
        for language in LANGUAGES
        for form, texts in row.get(language, {}).items()
        for text in texts
    ]
    return Family(row["name"], row["gold"], row.get("match"), row.get("require"), row.get("slots", {}), phrases)


def _draw(family: Family, slots: Slots, names: Names, chance: random.Random) -> Question | None:
    """One question of a family; None if its slots do not go together."""
    languages = sorted({phrase.language for phrase in family.phrases})
    language = chance.choices(languages, [LANGUAGE_WEIGHTS[key] for key in languages])[0]
    phrase = chance.choice([phrase for phrase in family.phrases if phrase.language == language])
    values = {slot: chance.choice(slots[kind]) for slot, kind in family.slots.items()}
    if len({value.gold for value in values.values()}) < len(values) and "unknown" not in family.slots.values():
        return None
    golds = {slot: value.gold for slot, value in values.items()}
    if family.require and not evaluate(Template(family.require).substitute(golds), names):
        return None
    text = fill(choose_alternatives(phrase.text, chance), values, language, chance)
    framed = frame(text, phrase.form, language, chance)
    plain = [write_carelessly(turn.strip(), chance) for turn in framed.split(BETWEEN_TURNS)]
    turns = list(plain)
    if chance.random() < TYPO_SHARE:
        turns[-1] = misspell(turns[-1], chance)
    return Question(family.name, language, turns, plain, Template(family.gold).substitute(golds), family.match)


def fill(text: str, values: dict[str, Value], language: str, chance: random.Random) -> str:
    """The text with one of the words of each slot's form."""
    for slot, value in values.items():
        for form, words in value.forms(language).items():
            mark = "{" + slot + (f".{form}" if form else "") + "}"
            if mark in text:
                text = text.replace(mark, chance.choice(words))
    return text
