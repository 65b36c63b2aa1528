"""Values that fill the slots of templates: an expression for the gold, and forms of words by language.

The forms of a value are named; `{c}` in a template takes the form "", `{k.adj}` the form "adj". A form that a language
lacks is taken from English; several words of one form are alternatives.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tools.question_generator.surface import TEMPLATES

Forms = dict[str, list[str]]
LANGUAGES = ("en", "de", "es", "fr")

NUMBERS = {
    "en": "one two three four five six seven eight nine ten eleven twelve",
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "es": "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze",
}


class Value(NamedTuple):
    """One value of a slot: its expression, and its words by language and form."""

    gold: str
    words: dict[str, Forms]

    def forms(self, language: str) -> Forms:
        return {**self.words["en"], **self.words.get(language, {})}


Slots = dict[str, list[Value]]


def plain(gold: str, *words: str, **languages: str) -> Value:
    """A value with one form; other languages as `de="a;b"`."""
    return Value(gold, {"en": {"": list(words)}, **{key: {"": text.split(";")} for key, text in languages.items()}})


def numbers(smallest: int, largest: int) -> list[Value]:
    """Whole numbers, in digits or in words up to twelve."""
    return [_number(number) for number in range(smallest, largest + 1)]


def places(gold: Callable[[str, str], str], codes: Iterable[str] | None = None) -> list[Value]:
    """Countries, as `gold(code, English name)`; `codes` None: all that are known here."""
    rows = [line.split("|") for line in (TEMPLATES / "places.txt").read_text("utf-8").splitlines()[1:]]
    wanted = set(codes) if codes is not None else {row[0] for row in rows}
    return [_place(row, gold) for row in rows if row[0] in wanted]


def _number(number: int) -> Value:
    def forms(language: str) -> Forms:
        words = NUMBERS[language].split()
        return {"": [str(number), *([words[number - 1]] if 2 <= number <= len(words) else [])]}

    return Value(str(number), {language: forms(language) for language in LANGUAGES})


def _place(row: list[str], gold: Callable[[str, str], str]) -> Value:
    code, *columns = row
    name, adjective, de_in, de_from, de_adjective, es, es_adjective, fr_in, fr_from, fr_adjective = (
        column.split(";") for column in columns
    )
    english = name[0].removeprefix("the ")
    de = [text.removeprefix("in ").removeprefix("im ") for text in de_in]
    words: dict[str, Any] = {
        "en": {"": name, "in": [f"in {n}" for n in name], "from": [f"from {n}" for n in name], "adj": adjective},
        "de": {"": de, "de": de, "in": de_in, "from": de_from, "adj": de_adjective},
        "es": {"": es, "in": [f"en {n}" for n in es], "from": [f"de {n}" for n in es], "adj": es_adjective},
        "fr": {"in": fr_in, "from": fr_from, "adj": fr_adjective},
    }
    return Value(gold(code, english), words)
