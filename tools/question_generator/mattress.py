"""Descriptions of a mattress: conditions on different attributes in any order, as keywords or in a sentence."""

import random
import tomllib
from collections.abc import Iterator
from string import Template
from typing import Any, NamedTuple

from tools.question_generator.generator import ATTEMPTS, EMPTY_SHARE, LANGUAGE_WEIGHTS, TYPO_SHARE, Question, fill
from tools.question_generator.slots import LANGUAGES, Slots, Value, plain
from tools.question_generator.surface import TEMPLATES, misspell, write_carelessly
from tools.question_gold import evaluate
from tools.question_gold.evaluation import Names

REFUSAL_SHARE = 0.02
SUPERLATIVE_SHARE = 0.1
KEYWORD_SHARE = 0.45
CLOSER_SHARE = 0.2

SIZES = {
    "Single": (92, 188),
    "King Single": (107, 203),
    "Double": (138, 188),
    "Queen": (153, 203),
    "King": (183, 203),
    "Super King": (204, 204),
}
MATERIALS = {
    "material(p) == 'latex'": "latex|Latex|látex|latex",
    "material(p) == 'memory foam'": "memory foam|Memory-Schaum|espuma viscoelástica|mousse à mémoire de forme",
    "material(p) == 'pocket spring'": "pocket spring|Taschenfederkern|muelles ensacados|ressorts ensachés",
    "material(p) == 'hybrid'": "hybrid|Hybrid|híbrido|hybride",
    "material(p) == 'innerspring'": "innerspring",
    "foam(p)": "foam|Schaum|espuma|mousse",
    "spring(p)": "spring|Federkern|muelles|ressorts",
}
FIRMNESS = {
    "firmness(p) >= 7": "firm|feste|firme|ferme",
    "firmness(p) <= 4": "soft;plush|weiche|blando|mou",
    "5 <= firmness(p) <= 6": "medium",
    "6 <= firmness(p) <= 7": "medium firm;medium-firm",
    "firmness(p) >= 8": "very firm;extra firm|sehr feste|muy firme|très ferme",
}
FIRMNESS_NOT = {"firmness(p) <= 6": "firm|fest", "firmness(p) > 4": "soft|weich"}
POSITIONS = {
    "'side'": "side|Seitenschläfer|de lado|sur le côté",
    "'back'": "back|Rückenschläfer|boca arriba|sur le dos",
    "'stomach'": "stomach;front;belly|Bauchschläfer|boca abajo|sur le ventre",
}
WORD_PRICES = {
    500: "five hundred dollars", 600: "six hundred dollars", 800: "eight hundred dollars", 900: "nine hundred bucks",
    1000: "a thousand dollars;one thousand dollars;1k;one grand", 1200: "twelve hundred dollars;1.2k",
    1500: "fifteen hundred dollars;1.5k", 2000: "two thousand dollars;two grand;2k", 700: "seven hundred dollars",
}  # fmt: skip


class Part(NamedTuple):
    """One condition: its key for reports, the attribute that it is on, its expression and its phrases."""

    key: str
    attribute: str
    gold: str
    weight: float
    slots: dict[str, str]
    phrases: dict[str, dict[str, list[str]]]


class Piece(NamedTuple):
    """A part in words: whether they stand before the noun, its key and its expression."""

    text: str
    before: bool
    key: str
    gold: str


TABLES: dict[str, Any] = tomllib.loads((TEMPLATES / "mattress.toml").read_text("utf-8"))


def generate(names: Names, chance: random.Random) -> Iterator[Question]:
    """Descriptions without end, no text twice."""
    parts = [_part(row) for row in TABLES["part"]]
    values = slots(names)
    seen: set[str] = set()
    drawn = empty = failures = 0
    while failures < ATTEMPTS * 100:
        failures += 1
        question = _draw(parts, values, chance)
        if question is None or (text := question.turns[0].casefold()) in seen:
            continue
        if evaluate(question.gold, names) == []:
            if empty >= EMPTY_SHARE * (drawn + 1):
                continue
            empty += 1
        seen.add(text)
        drawn += 1
        failures = 0
        yield question


def slots(names: Names) -> Slots:
    """The values of every slot."""
    products = names["products"]
    retailers = sorted({names["retailer"](product) for product in products})
    return {
        "size": [_size(name) for name in SIZES],
        "size_compare": [compared for name in SIZES for compared in _size_compare(name)],
        "material": [_words(gold, text) for gold, text in MATERIALS.items()],
        "firmness": [_words(gold, text) for gold, text in FIRMNESS.items()],
        "firmness_not": [_firmness_not(gold, text) for gold, text in FIRMNESS_NOT.items()],
        "firmness_number": [value for number in range(4, 9) for value in _firmness_numbers(number)],
        "brand": [plain(repr(brand), brand) for brand in sorted({product["brand"] for product in products})],
        "retailer": [plain(repr(name), name) for name in retailers],
        "price": [_price(number) for number in range(300, 2600, 50)] + [_price(number) for number in WORD_PRICES],
        "price_range": [_price_range(low, low + width) for low in range(300, 2000, 100) for width in (200, 500, 800)],
        "position": [_words(gold, text) for gold, text in POSITIONS.items()],
        "trial": [plain(str(nights), str(nights)) for nights in (30, 100, 120, 200)],
    }


def _part(row: dict[str, Any]) -> Part:
    phrases = {language: row[language] for language in LANGUAGES if language in row}
    return Part(row["key"], row["attribute"], row["gold"], row["weight"], row.get("slots", {}), phrases)


def _draw(parts: list[Part], values: Slots, chance: random.Random) -> Question | None:
    """One description or refusal; None if its slots do not go together."""
    language = chance.choices(list(LANGUAGE_WEIGHTS), list(LANGUAGE_WEIGHTS.values()))[0]
    if chance.random() < REFUSAL_SHARE:
        text = write_carelessly(chance.choice(TABLES["refusals"][language]), chance)
        return Question("refuse", language, [text], [text], "refuse", None)
    pieces = _pieces(parts, values, language, chance)
    if pieces is None:
        return None
    gold = "[p['id'] for p in products if " + " and ".join(piece.gold for piece in pieces) + "]"
    keys = "+".join(sorted(piece.key for piece in pieces))
    match = None
    if language in ("en", "de") and chance.random() < SUPERLATIVE_SHARE:
        row = chance.choice(TABLES["superlative"])
        rows = "p for p in products if " + " and ".join(piece.gold for piece in pieces)
        text = _superlative(chance.choice(row[language]), pieces, language, chance)
        gold, keys, match = Template(row["gold"]).substitute(rows=rows), f"{keys}+{row['key']}", "first"
    else:
        text = _text(pieces, language, chance)
    plain_text = write_carelessly(text, chance)
    written = misspell(plain_text, chance) if chance.random() < TYPO_SHARE else plain_text
    return Question(keys, language, [written], [plain_text], gold, match)


def _pieces(parts: list[Part], values: Slots, language: str, chance: random.Random) -> list[Piece] | None:
    """One to four conditions on different attributes, in words."""
    usable = [part for part in parts if language in part.phrases]
    count = chance.choices((1, 2, 3, 4), (1, 4, 4, 2))[0]
    chosen: dict[str, Part] = {}
    while len(chosen) < count:
        part = chance.choices(usable, [part.weight for part in usable])[0]
        chosen.setdefault(part.attribute, part)
    pieces = []
    for part in chosen.values():
        bound = {slot: chance.choice(values[kind]) for slot, kind in part.slots.items()}
        golds = {slot: value.gold for slot, value in bound.items()}
        if len(set(golds.values())) < len(golds) or _overlapping(golds):
            return None
        position = chance.choice([form for form, texts in part.phrases[language].items() for _ in texts])
        text = fill(chance.choice(part.phrases[language][position]), bound, language, chance)
        pieces.append(Piece(text, position == "pre", part.key, Template(part.gold).substitute(golds)))
    return pieces


def _overlapping(golds: dict[str, str]) -> bool:
    """Whether two materials name the same products, such as foam and memory foam."""
    wide = {"foam(p)": "foam", "spring(p)": "spring"}
    return any(
        one in wide and one != other and wide[one] in other for one in golds.values() for other in golds.values()
    )


def _text(pieces: list[Piece], language: str, chance: random.Random) -> str:
    """The pieces as keywords in any order, or in a sentence around the noun."""
    noun = chance.choice(TABLES["nouns"][language])
    closer = chance.choice(TABLES["closers"][language]) if chance.random() < CLOSER_SHARE else ""
    if chance.random() < KEYWORD_SHARE:
        return _keywords(pieces, noun, closer, chance)
    before = " ".join(piece.text for piece in pieces if piece.before)
    after = [piece.text for piece in pieces if not piece.before]
    chance.shuffle(after)
    article = {"en": "an" if (before or noun)[0] in "aeiou" else "a", "de": "eine", "es": "un", "fr": "un"}[language]
    core = f"{before} {noun}".strip()
    joint = chance.choice((", ", " ", ", and ")) if language == "en" else ", "
    opener = chance.choice(TABLES["openers"][language])
    text = f"{opener} {article} {core} {joint.join(after)} {closer}".replace("  ", " ")
    text = text.replace(", and but", ", but").replace(", and and", ", and").strip()
    if opener.startswith(("do you", "can you", "Haben", "Gibt", "¿", "Avez")):
        return text + "?"
    return text + chance.choice((".", ""))


def _keywords(pieces: list[Piece], noun: str, closer: str, chance: random.Random) -> str:
    """Keywords, those before the noun together; the noun may be missing."""
    before = [piece.text for piece in pieces if piece.before]
    after = [piece.text for piece in pieces if not piece.before]
    chance.shuffle(before)
    chance.shuffle(after)
    joint = chance.choice((" ", ", "))
    if chance.random() < 0.6 or not before:
        before = [*before, noun]
    head = " ".join(before)
    return joint.join([head, *after, *([closer] if closer else [])])


def _superlative(word: str, pieces: list[Piece], language: str, chance: random.Random) -> str:
    before = " ".join([word, *(piece.text for piece in pieces if piece.before)])
    after = " ".join(piece.text for piece in pieces if not piece.before)
    article = chance.choice(("the ", "what is the ", "", "show me the ")) if language == "en" else "die "
    return f"{article}{before} {TABLES['nouns'][language][0]} {after}".strip()


def _words(gold: str, text: str) -> Value:
    """A value from "English|German|Spanish|French", each with alternatives; missing languages are English."""
    columns = dict(zip(LANGUAGES, text.split("|"), strict=False))
    return Value(gold, {language: {"": words.split(";")} for language, words in columns.items()})


def _size(name: str) -> Value:
    width, length = SIZES[name]
    cm = [f"{width} x {length}", f"{width}x{length}", f"{width}x{length}cm", f"{width} x {length} cm"]
    return Value(repr(name), {"en": {"": [name, name.lower()], "cm": cm}})


def _size_compare(name: str) -> list[Value]:
    width = SIZES[name][0]
    lower = name.lower()
    found = []
    if name != "Super King":
        found.append(plain(f"width(p) > {width}", f"bigger than a {lower}", f"larger than a {lower}"))
        found.append(plain(f"width(p) >= {width}", f"no smaller than a {lower}", f"at least a {lower}"))
    if name != "Single":
        found.append(plain(f"width(p) < {width}", f"smaller than a {lower}"))
        found.append(plain(f"width(p) <= {width}", f"no bigger than a {lower}", f"not larger than a {lower}"))
    return found


def _firmness_not(gold: str, text: str) -> Value:
    english, german = text.split("|")
    return Value(gold, {"en": {"": [english], "de": [german]}})


def _firmness_numbers(number: int) -> list[Value]:
    """Conditions with a number, in English and German."""
    low, high = number - 2, number
    phrases = {
        f"firmness(p) == {number}": ("firmness {n};with a firmness of {n}", "Härte {n}"),
        f"firmness(p) >= {number}": (
            "firmness at least {n};firmness {n} or above;firmness {n}+",
            "mindestens Härte {n}",
        ),
        f"firmness(p) < {number}": ("softer than {n};firmness below {n}", "weicher als {n}"),
        f"firmness(p) > {number}": ("firmer than {n};firmness over {n}", "Härte über {n}"),
        f"{low} <= firmness(p) <= {high}": (f"firmness between {low} and {high}", f"Härte zwischen {low} und {high}"),
    }
    return [
        plain(gold, *english.replace("{n}", str(number)).split(";"), de=german.replace("{n}", str(number)))
        for gold, (english, german) in phrases.items()
    ]


def _price(number: int) -> Value:
    comma = f"{number:,}"
    english = [f"${number}", f"${comma}", str(number), f"{number} dollars", f"{number} AUD", f"A${number}"]
    english += [text for text in WORD_PRICES.get(number, "").split(";") if text]
    words = {
        "en": {"": english},
        "de": {"": [f"{number} Dollar", comma.replace(",", ".") + " Dollar"]},
        "es": {"": [f"{number} dólares"]},
        "fr": {"": [f"{number} dollars"]},
    }
    return Value(str(number), words)


def _price_range(low: int, high: int) -> Value:
    words = {
        "en": {
            "and": [f"{low} and {high}", f"${low} and ${high}"],
            "to": [f"${low} to ${high}", f"{low} to {high} dollars"],
        },
        "de": {"und": [f"{low} und {high} Dollar"]},
        "es": {"y": [f"{low} y {high} dólares"]},
        "fr": {"et": [f"{low} et {high} dollars"]},
    }
    return Value(f"{low} <= current(p) <= {high}", words)
