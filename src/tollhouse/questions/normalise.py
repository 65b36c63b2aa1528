"""Normalises a question: words without case and accents, number words, amounts of money and the language."""

import re
import tomllib
import unicodedata
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from msgspec import Struct

LANGUAGES = ("en", "de", "es", "fr")
MOST_TOKENS = 300

_CURRENCIES = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy"}
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.,])|\d+(?:[.,]\d{3})*(?:[.,]\d+)?(?![\d])|\d+)"
    r"|(?P<word>x(?=\d)(?<=\dx)|[^\W\d_](?:[^\W_]|(?<=[^\W_])\.(?=[^\W_]\.))*)"
    r"|(?P<mark>['’]|<=|>=|[-–—$€£¥%&+/,;:.?!()\"“”„«»<>=~#×≤≥])"  # noqa: RUF001
)
# What an apostrophe cuts off: "n't", and the article and pronouns of French before a vowel.
# Announces examples or another wording, and says nothing itself.
_NAMELY = re.compile(r"\b(?:i\.\s?e|e\.\s?g|viz|z\.\s?b|p\.\s?ej|p\.\s?ex)\.", re.IGNORECASE)
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001


class Token(Struct, frozen=True):
    """A word, number or mark of a text, from `start` to before `end`. `glued`: no space stands before it.

    `is_typo`: the text is misspelt, and `folded` what it was corrected to.
    """

    text: str
    folded: str
    start: int
    end: int
    number: float | None = None
    glued: bool = False
    is_typo: bool = False

    @property
    def is_word(self) -> bool:
        return self.number is None and self.folded[:1].isalnum()


@cache
def language_data() -> dict[str, Any]:
    """The content of language.toml."""
    return tomllib.loads(resources.files("tollhouse.questions").joinpath("data/language.toml").read_text("utf-8"))


@lru_cache(maxsize=20_000)
def fold(text: str) -> str:
    """Lower case without accents, one character for each of the text."""
    if text.isascii():
        return text.lower()
    return "".join(unicodedata.normalize("NFKD", char)[0] for char in text.replace("ß", "s").lower()[: len(text)])


def tokenise(text: str) -> list[Token]:
    """The tokens of a text: number words and multipliers become one number, "n't" becomes "not"."""
    text = _NAMELY.sub(lambda match: " " * len(match[0]), text)
    text = _NOT.sub(lambda match: " not" if match.end() - match.start() == 3 else match[0], text)
    text = re.sub(r"\bca not\b", "can not", re.sub(r"\bwo not\b", "will not", text))
    tokens: list[Token] = []
    end = -1
    for match in _TOKEN.finditer(text):
        number = _number(match[0]) if match["number"] else None
        folded = fold(match[0])
        if folded in {"’", "–", "—", "×"}:  # noqa: RUF001
            folded = {"’": "'", "×": "x"}.get(folded, "-")  # noqa: RUF001
        tokens.append(Token(match[0], folded, match.start(), match.end(), number, match.start() == end))
        end = match.end()
        if len(tokens) >= MOST_TOKENS:
            break
    return _join_numbers(tokens)


def phrase(text: str) -> tuple[str, ...]:
    """The words of a phrase as they are compared: folded, without marks."""
    parts = ("x" if match[0] == "×" else fold(match[0]) for match in _TOKEN.finditer(text))  # noqa: RUF001
    return tuple(part for part in parts if part[0].isalnum() or part in {"+", "&", "#"})


def languages_of(tokens: list[Token]) -> list[str]:
    """The languages with the most of their own function words, English first."""
    words = [token.folded for token in tokens if token.is_word]
    counts = {language: sum(word in function_words(language) for word in words) for language in LANGUAGES}
    return [language for language in LANGUAGES if counts[language] == max(counts.values())]


def language_of(tokens: list[Token]) -> str:
    """The language with the most of its own function words; English if no other has more."""
    return languages_of(tokens)[0]


@cache
def function_words(language: str) -> frozenset[str]:
    """The words of a language's own phrases, without those that ask for advice or an opinion."""
    return frozenset(
        word
        for concept, phrases in language_data()[language].items()
        for text in phrases
        for word in phrase(text)
        if concept not in {"advice", "expert_advice", "opinion", "judgement", "small_talk"}
    )


def currency(mark: str) -> str | None:
    """The ISO code in lower case of a currency sign."""
    return _CURRENCIES.get(mark)


def _number(digits: str) -> float:
    """1,000, 1.000 and 1 000 are a thousand; 1.5 and 1,5 one and a half."""
    digits = "".join(digits.split())
    parts = re.split(r"[.,]", digits)
    if len(parts) == 1:
        return float(digits)
    whole, last = parts[:-1], parts[-1]
    if len(last) == 3 and parts[0] != "0":
        return float("".join(parts))
    return float("".join(whole) + "." + last)


def _join_numbers(tokens: list[Token]) -> list[Token]:
    data = language_data()
    numbers: dict[str, int] = data["numbers"]
    multipliers: dict[str, int] = data["multipliers"]
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        stop, value = _spoken(tokens, index, numbers, multipliers)
        if value is None:
            result.append(tokens[index])
            index += 1
            continue
        first, last = tokens[index], tokens[stop - 1]
        words = " ".join(token.folded for token in tokens[index:stop])
        result.append(Token(words, words, first.start, last.end, value, first.glued))
        index = stop
    return result


def _spoken(
    tokens: list[Token], index: int, numbers: dict[str, int], multipliers: dict[str, int]
) -> tuple[int, float | None]:
    """Where a number ends, and its value: "two hundred and fifty", "1.5k", "half a million"."""
    total = 0.0
    position, part = _beginning(tokens, index, multipliers)
    while position < len(tokens):
        token = tokens[position]
        word = token.folded
        if part is not None and word in multipliers and (word not in {"k", "m"} or token.glued):
            part *= multipliers[word]
            if multipliers[word] > 100:
                total, part = total + part, 0.0
        elif token.number is not None and part is None:
            part = token.number
        elif word in numbers and (part is None or _adds(part, numbers[word])):
            part = (part or 0.0) + numbers[word]
        elif part is not None and [each.folded for each in tokens[position : position + 3]] == ["and", "a", "half"]:
            part += 0.5
            position += 2
        elif part is None or not _joins(tokens, position, part, numbers):
            break
        position += 1
    if part is None or (position == index + 1 and tokens[index].number is not None):
        return index, None
    return position, total + part


def _beginning(tokens: list[Token], index: int, multipliers: dict[str, int]) -> tuple[int, float | None]:
    """Where a number goes on after "a" or "half a" or before "thousand", and what it begins with."""
    words = [token.folded for token in tokens[index : index + 3]]
    if words[0] in multipliers:
        return (index, 1.0) if multipliers[words[0]] >= 100 and words[0] not in {"k", "m", "cents"} else (index, None)
    if words[0] == "half" and words[1:2] == ["a"] and words[-1] in multipliers:
        return index + 2, 0.5
    if words[0] in {"a", "an", "ein", "eine", "un", "une", "half"} and len(words) > 1 and words[1] in multipliers:
        return index + 1, 0.5 if words[0] == "half" else 1.0
    return index, None


def _joins(tokens: list[Token], position: int, part: float, numbers: dict[str, int]) -> bool:
    """Whether the word here only joins two parts of a number: "two hundred and five", "twenty-five"."""
    word = tokens[position].folded
    if word not in {"and", "-", "und", "y"} or position + 1 >= len(tokens):
        return False
    following = numbers.get(tokens[position + 1].folded)
    return following is not None and (part >= 100 or word == "-") and _adds(part, following)


def _adds(part: float, number: int) -> bool:
    """Whether a number word continues a number: "twenty three" and "hundred five", not "five six"."""
    return part == 0 or (part % 100 == 0 and number < 100) or (part % 10 == 0 and part % 100 >= 20 and number < 10)
