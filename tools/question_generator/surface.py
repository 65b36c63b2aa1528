"""Surface text of generated questions: alternatives, frames, and the slips of a writer in a hurry."""

import random
import re
import tomllib
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"
FRAMES: dict[str, dict[str, list[str]]] = tomllib.loads((TEMPLATES / "frames.toml").read_text("utf-8"))

INNERMOST = re.compile(r"\(([^()]*\|[^()]*)\)")
"""Alternatives without further alternatives inside: `(who|which companies)`."""

LONG_WORD = re.compile(r"(?<![\w.-])[^\W\d_]{5,}(?![\w.-])")
"""A word that stays readable with one wrong letter."""

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def choose_alternatives(text: str, chance: random.Random) -> str:
    """The text with one of each group of alternatives, and single spaces."""
    while match := INNERMOST.search(text):
        text = text[: match.start()] + chance.choice(match[1].split("|")) + text[match.end() :]
    return re.sub(r" +", " ", text).strip()


def frame(text: str, form: str, language: str, chance: random.Random) -> str:
    """The text inside a polite or chatty frame; `form` is "question", "list", "number" or "text" (no frame)."""
    if form == "text":
        return text
    chosen = chance.choice(FRAMES[language][form])
    if chosen.startswith("Any "):
        text = text.removeprefix("all ")
    if chosen.startswith("{}"):
        text = text[0].upper() + text[1:] if chance.random() < 0.6 else text
    elif form == "question" and not text.startswith("¿") and not chosen.endswith(": {}"):
        text = text if text[:1].isupper() and text[1:2].isupper() else text[0].lower() + text[1:]
    return chosen.replace("{}", text).replace("??", "?").replace("? ?", "?")


def misspell(text: str, chance: random.Random) -> str:
    """The text with one wrong letter in one long word: two swapped, one missing, doubled or its neighbour's key."""
    words = list(LONG_WORD.finditer(text))
    if not words:
        return text
    word = chance.choice(words)
    letters = word[0]
    at = chance.randrange(1, len(letters) - 1)
    edit = chance.choice(("swap", "drop", "double", "neighbour"))
    if edit == "swap" and letters[at] != letters[at + 1]:
        wrong = letters[:at] + letters[at + 1] + letters[at] + letters[at + 2 :]
    elif edit == "double":
        wrong = letters[:at] + letters[at] + letters[at:]
    elif edit == "neighbour" and (nearby := _neighbours(letters[at])):
        wrong = letters[:at] + chance.choice(nearby) + letters[at + 1 :]
    else:
        wrong = letters[:at] + letters[at + 1 :]
    return text[: word.start()] + wrong + text[word.end() :]


def write_carelessly(text: str, chance: random.Random) -> str:
    """The text as hurried people write: without capitals, without the last sign, without apostrophes.

    Abbreviations that are words in lower case ("us") keep their capitals.
    """
    if chance.random() < 0.22 and not re.search(r"\b(?:US|UK|EU)\b", text):
        text = text.lower()
    if chance.random() < 0.25:
        text = text.rstrip("?.! ").lstrip("¿")
    if chance.random() < 0.05:
        text = text.replace("'", "")
    if chance.random() < 0.03:
        text = text.replace("'", "\u2019")
    return text


def _neighbours(letter: str) -> str:
    """The letters beside a letter on the keyboard."""
    for row in KEYBOARD:
        at = row.find(letter)
        if at >= 0:
            return row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
    return ""
