"""A headline as words, the groups of people in it, and what its verbs mean.

Groups are "at least five soldiers", "a policeman", "4-year-old". A death may be one of an event that kills, of illness
and age, or of something else: a logistic regression for each reads the text vector of the headline without its words of
death and its numbers. Their weights come from tools/train_toll_context.py.
"""

import re
from collections.abc import Sequence
from functools import cache, cached_property, partial
from importlib import resources
from importlib.resources import files
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.lexicon import MODIFIERS, VERBS
from tollhouse.vectors import text_vectors

Outcome = Literal["killed", "wounded", "arrested", "missing"]

word_class = partial(lexicon.word_class, "toll_words")


def _listed(name: str) -> frozenset[str]:
    return frozenset(files("tollhouse.services.defense").joinpath("data", name).read_text(encoding="utf-8").split())


DETERMINERS = frozenset(["a", "an", "the", "his", "her", "their", "its", "one's", "own", "another"])
PRONOUNS = frozenset(["he", "she", "they", "it", "him", "her", "them", "that", "what", "there", "who"])
AUXILIARIES, MANNER, NO_ONE = map(word_class, ("auxiliaries", "manner", "no_one"))
_AS_WELL = frozenset(["as well as"])
LINKS = word_class("links") | _AS_WELL
LOST_LIVES = frozenset(
    f"{verb} {whose}{life}"
    for verb in ("lose", "loses", "lost", "losing")
    for whose in ("", "his ", "her ", "their ")
    for life in ("life", "lives")
)
_OWN_LIVES = frozenset(
    f"{verb} {whose}own life" for verb in ("take", "takes", "took") for whose in ("", "his ", "her ")
)
_OWN_LIVES |= {"commit suicide", "commits suicide", "committed suicide", "found hanging"}
_OWN_LIVES |= {f"{verb} {whose}life" for verb in ("end", "ends", "ended") for whose in ("", "his ", "her ")}
_ENDS = ("dead", "to death")
_KILLED = frozenset(f"{verb} {end}" for verb in word_class("deadly_passive") for end in _ENDS) | {"gunned down"}
_KILLS = frozenset(f"{verb} {end}" for verb in word_class("deadly_active") for end in _ENDS)
_KILLS |= {"gun down", "guns down", "gunning down"}
PASSIVE = word_class("killed_passive") | LOST_LIVES | _OWN_LIVES
EITHER, ACTIVE = word_class("killed_either") | _KILLED, word_class("killed_active") | _KILLS
ELSEWHERE, DOUBTS, BREAKS = word_class("elsewhere"), word_class("doubts"), word_class("clauses", "prepositions")
OUTCOMES: tuple[Outcome, ...] = ("wounded", "arrested", "missing")
OTHER_PASSIVE: dict[str, Outcome] = {word: outcome for outcome in OUTCOMES for word in word_class(f"{outcome}_passive")}
OTHER_ACTIVE: dict[str, Outcome] = {word: outcome for outcome in OUTCOMES for word in word_class(f"{outcome}_active")}
_UNCOUNTED, _PLURALS = map(word_class, ("uncounted", "plural_persons"))
_PERSONS = (word_class("persons") | _listed("persons.txt")) - ELSEWHERE - NO_ONE
ANIMALS = _listed("animals.txt") - _PERSONS
_THINGS = (MODIFIERS - _PERSONS) | ANIMALS
_NO_PERSONS = _THINGS | VERBS | AUXILIARIES
_BEFORE_RANK, _PARENTS, _COLLECTIONS, FORCES = map(word_class, ("before_rank", "parents", "collections", "forces"))
COUNTED = _PLURALS | _UNCOUNTED | FORCES | word_class("collections", "victims")
# What one person has.
_POSSESSED = word_class("killings") | {"body"}
_SIZES = {**dict.fromkeys(word_class("pairs"), 2), "trio": 3}
_LOWER_BOUNDS = (("at", "least"), ("more", "than"), ("over",))
# From here on a number between commas is an age.
_ADULT = 18
LARGEST_NUMBER = 100_000

UNITS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
_TIMES = {"dozen": 12, "hundred": 100, "thousand": 1_000}

# Idioms are one word each.
_WORD = re.compile(
    rf"\b(?:{'|'.join(sorted(LOST_LIVES | _OWN_LIVES | _KILLED | _KILLS | _AS_WELL))})\b|"
    rf"(?:[0-9]{{1,3}}|{'|'.join(UNITS)})[- ](?:year|yr|month|week|day)s?[- ]olds?(?:'s)?|[0-9]{{1,4}}-[a-z]+"
    r"|[$€£¥#][0-9][\w.,]*|[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:\.[0-9]+)?%?|[^\W\d_]+(?:['.-][^\W_]+)*\w*|[,;:&/]"
    r"|-(?=[0-9])",
    re.IGNORECASE,
)
_TO_DEATH = re.compile(r"\bto (?:his|her|their) deaths?\b")
_LOST_APOSTROPHE = re.compile(r"(?<=[^\W\d_]{3}) s\b")
_PART = re.compile(r"[,;] (?:including|among them)\b[^,;]+[,;]", re.IGNORECASE)
_DASH = re.compile(r" [-\u2013\u2014|] ")
_AGE = re.compile(r"\w+[- ](?:year|yr|month|week|day)s?[- ]old")
_MADE_OF_MAN = re.compile(r"[a-z]{3,}(?:man|woman|person|ist)")
_TIME = re.compile(r"(?:decade|year|yr|month|week|day|night|hour|hr|minute|min|second)s?")
# Words after a number that show it counts no people, beside things in the plural.
_MEASURES = re.compile(
    rf"{_TIME.pattern}|(?:mile|kilomet(?:er|re)|met(?:er|re)|ton(?:ne)?|time)s?"
    r"|km|foot|feet|percent|pc|million|billion|trillion|am|pm|st|nd|rd|th|lb|kg"
)


def split_words(title: str) -> list[str]:
    """Words, numbers, ages and commas, in lower case. Number words are single words, and a dash in a range is "to".

    A possessive that lost its apostrophe, as in titles from URLs, gets it again: "mans body" is "man's body".
    """
    words: list[str] = []
    title = _LOST_APOSTROPHE.sub("'s", _PART.sub("", title.replace("\u2019", "'")))
    for match in _WORD.finditer(_TO_DEATH.sub("to death", _DASH.sub(" : ", title))):
        word = match[0].lower()
        parts = word.split("-")
        is_number = len(parts) > 1 and all(part in UNITS or part in _TIMES for part in parts)
        words += parts if is_number else ["to" if word == "-" else word]
    for place, after in enumerate(words[1:]):
        if after in _POSSESSED and is_plural(words[place]) and _may_name_persons(words[place]):
            words[place] = f"{words[place][:-1]}'s"
    return words


def capitalised_words(title: str) -> frozenset[str]:
    """Words that begin with a capital and not the title, in lower case; none where most words do."""
    words = title.split()
    capitals = [word for word in words[1:] if word[:1].isupper()]
    return frozenset(word.strip("',:;.").lower() for word in capitals if len(capitals) * 2 <= len(words))


def is_time(word: str) -> bool:
    """Whether a word is a unit of time."""
    return bool(_TIME.fullmatch(word))


def is_year(word: str) -> bool:
    return word.isdecimal() and 1900 <= int(word) <= 2100


def is_person(word: str) -> bool:
    """Whether a noun names one person; of words that WordNet lacks, by their last part: "co-worker", "securityman"."""
    last = word.rpartition("-")[2]
    return last in _PERSONS or (last not in MODIFIERS and bool(_MADE_OF_MAN.fullmatch(last)))


def is_thing(word: str) -> bool:
    """Whether a noun, in either number, is an animal, or a frequent one that names no person. Names may be persons."""
    forms = _forms(word)
    return not (word in COUNTED or _THINGS.isdisjoint(forms) or any(map(is_person, forms)))


def _may_name_persons(word: str) -> bool:
    """Whether a word in -s is no thing and no verb: "climbers", "stuttles"."""
    forms = _forms(word)
    return any(map(is_person, forms)) or _NO_PERSONS.isdisjoint(forms)


def _forms(word: str) -> set[str]:
    """A word, and what it may be the plural of."""
    return {word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y"}


def _names_persons(word: str) -> bool:
    is_made_of_men = word[-3:] == "men" and is_person(f"{word[:-3]}man")
    return word in _PLURALS or (word[-1:] == "s" and is_person(word[:-1])) or is_made_of_men


def is_counted_thing(word: str) -> bool:
    """Whether what a number counts are animals, or things in the plural."""
    return is_thing(word) and (is_plural(word) or word in ANIMALS)


def is_plural(word: str) -> bool:
    if word in _PLURALS or word in _UNCOUNTED or word in FORCES:
        return True
    return word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and len(word) > 3


class Group(Struct, frozen=True):
    """People in words `start` to `end` (exclusive). `number` is None where no word says how many."""

    start: int
    end: int
    number: int | None
    is_at_least: bool = False


class Headline:
    """A headline as words in lower case, and the groups of people in it by the places where they start and end."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.groups: dict[int, Group] = {}
        self.by_end: dict[int, Group] = {}
        place = 0
        while place < len(words):
            group = self._group_at(place)
            if group:
                self.groups[group.start] = self.by_end[group.end] = group
            place = group.end if group else place + 1

    def at(self, place: int) -> str:
        return self.words[place] if 0 <= place < len(self.words) else ""

    def _group_at(self, place: int) -> Group | None:
        """The group that begins here."""
        word = self.words[place]
        if word in _COLLECTIONS and self.at(place + 1) == "of":
            number, end = self.number_at(place + 2)
            return Group(place, self._noun_end(end), number) if number else None
        if word in _SIZES and not (word == "parents" and self.at(place + 1) == "of"):
            end = self._noun_end(place + 2) if self.at(place + 1) == "of" else place + 1
            return Group(place, end, _SIZES[word])
        number, end = self.number_at(place)
        if number is not None:
            if not self._counts_people(place, end, number):
                return None
            before = self.words[max(0, place - 4) : place]
            marks = [tuple(before[at : at + len(mark)]) == mark for mark in _LOWER_BOUNDS for at in range(len(before))]
            is_part = self.at(end) == "of" and self.number_at(end + 1)[0] is None
            return Group(place, self._noun_end(end + is_part), number, any(marks))
        if _AGE.fullmatch(word) or is_person(word):
            end = place + 1
            while is_person(self.at(end)) or (_AGE.fullmatch(word) and end - place < 3 and self._is_singular_noun(end)):
                end += 1
            return Group(place, self._age_end(end), 1)
        return Group(place, place + 1, None) if word in _UNCOUNTED or _names_persons(word) else None

    def _age_end(self, place: int) -> int:
        """The end of a person's age: "man, 42," and "man 42"."""
        start = place + (self.at(place) == ",")
        if self.at(start).isdecimal() and int(self.at(start)) < 110 and not self.is_noun(start + 1):
            return start + 1 + (self.at(start + 1) == ",")
        return place

    def number_at(self, place: int) -> tuple[int | None, int]:
        """The number that begins here, and the place after it; the lower end of a range."""
        word, end = self.at(place), place + 1
        plain = word.replace(",", "")
        value: int | None = None
        if plain.isdecimal() and len(plain) <= 6:
            value = int(plain)
        elif word in UNITS:
            value = UNITS[word]
            if value >= 20 and 0 < UNITS.get(self.at(end), 0) < 10:
                value, end = value + UNITS[self.at(end)], end + 1
        elif word in {"a", "an"} and self.at(end) in _TIMES:
            value, end = _TIMES[self.at(end)], end + 1
        if value is not None and self.at(end) in _TIMES:
            value, end = value * _TIMES[self.at(end)], end + 1
        if value is not None and self.at(end) in {"to", "or"} and self.number_at(end + 1)[0] is not None:
            end = self.number_at(end + 1)[1]
        return value, end

    def _counts_people(self, place: int, end: int, value: int) -> bool:
        word, before, after = self.words[place], self.at(place - 1), self.at(end)
        is_age = before == after == "," and word.isdecimal() and value >= _ADULT
        if is_age or not 0 < value <= LARGEST_NUMBER or before in _BEFORE_RANK or _MEASURES.fullmatch(after):
            return False
        if (before == "of" and self.at(place - 2) in _PARENTS) or (word == "one" and before in NO_ONE):
            return False
        if len(word) == 4 and is_year(word):
            return after in PASSIVE or after in EITHER or after in _PLURALS
        noun = self._noun_end(end)
        nouns = self.words[end:noun]
        if not nouns or not is_counted_thing(nouns[-1]) or any(map(_names_persons, nouns)):
            return True
        # What is killed and no animal is people: "2 ultras killed".
        return ANIMALS.isdisjoint(_forms(nouns[-1])) and (self.at(noun) in PASSIVE or self.at(noun) in EITHER)

    def _noun_end(self, place: int) -> int:
        """The end of the nouns that belong to a number: at most four words without a verb, link or preposition."""
        end = place
        while end < len(self.words) and end - place < 4 and self.is_noun(end):
            end += 1
        return end

    def _is_singular_noun(self, place: int) -> bool:
        return self.is_noun(place) and not is_plural(self.at(place))

    def is_noun(self, place: int) -> bool:
        word = self.at(place)
        is_verb = word in PASSIVE or word in EITHER or word in ACTIVE or word in OTHER_PASSIVE or word in OTHER_ACTIVE
        is_other = word in BREAKS or word in LINKS or word in AUXILIARIES or word in DOUBTS or word in ELSEWHERE
        stops = word in MANNER or word in {"", "who", "including", "than"} or _AGE.fullmatch(word)
        return not (is_verb or is_other or stops or self.number_at(place)[0] is not None)


CONTEXTS = ("event", "illness", "other")
_DEATHS = re.compile(
    r"\b(?:kill\w*|dead\w*|die[sd]?|dying|deaths?|fatal\w*|tolls?|slain|slay\w*|massacre\w*|murder\w*|homicide\w*"
    r"|execut\w*|hang\w*|behead\w*|perish\w*|succumb\w*|drown\w*|lives?|lost|gun(?:s|ned)? down|assassinat\w*"
    r"|bod(?:y|ies)|lynch\w*|[0-9]+)\b",
    re.IGNORECASE,
)


class Context(NamedTuple):
    """Log odds of each class."""

    event: float
    illness: float
    other: float


def read_context(title: str) -> Context:
    vector = text_vectors().embed([without_deaths(title)])[0].astype(np.float64)
    return Context(*(_weights() @ np.append(vector, 1.0)).round(6).tolist())


def without_deaths(title: str) -> str:
    return _DEATHS.sub(" ", title)


@cache
def _weights() -> NDArray[np.float64]:
    path = resources.files("tollhouse.services.defense") / "data" / "toll_context.npz"
    with resources.as_file(path) as file, np.load(file) as stored:
        weights: NDArray[np.float64] = stored["weights"].astype(np.float64)
        return weights


_KILLINGS = word_class("killings")
_UNREST = word_class("unrest")
_INTENTS = word_class("intents")
_ACHIEVED = word_class("achieved")
# Log odds by which an event must be likelier than illness, and than anything else; lower before the words of _THEN.
_LIKELY, _EXPLAINED = (0.5, -2.5), (-0.6, -2.5)
_THEN = frozenset(["in", "after", "when", "as", "while", "during", "following", "days"])
# Log odds of an event from which a death is one of it where the headline only names who died: known people die of age
# and illness.
_NAMED = 0.3
# Log odds by which illness must be likelier than an event for a sum.
_EPIDEMIC = 1.5
# From these ages on, "dies at 46" tells of a known person's death, and "dies aged 86" of age.
_AGES = {"at": 20, "aged": 60, "age": 60}
# The same for the cause of a death that the headline names.
_CAUSE = 2.0
_PREPOSITIONS = word_class("prepositions")
_ALSO_OF_ILLNESS = frozenset(["die", "died", "dies", "dead", "succumb", "succumbs", "succumbed"])


class Verbs(Headline):
    """Reads the verbs of a headline."""

    @cached_property
    def context(self) -> Context:
        return read_context(" ".join(self.words))

    def is_epidemic(self) -> bool:
        """Whether illness killed, and no "fire" that the headline names before "kills"."""
        verb = next((place for place, word in enumerate(self.words) if word in ACTIVE), 0)
        contexts = [self.context, *([read_context(" ".join(self.words[:verb]))] if verb else [])]
        if self._is_of_illness():
            return True
        return all(one.illness > max(_EPIDEMIC, one.event + _EPIDEMIC) for one in contexts)

    def _is_of_illness(self) -> bool:
        """Whether the cause of a death that the headline names is an illness."""
        cause = self._cause()
        return bool(cause) and (of := read_context(cause)).illness - of.event > _CAUSE

    def _cause(self) -> str:
        """What people died of: "malaria" in "26 die of malaria in Bengal"; empty where the headline does not say."""
        for place, word in enumerate(self.words):
            if word not in _ALSO_OF_ILLNESS:
                continue
            start = place + 1 + (self.at(place + 1) == "due")
            if self.at(start) in {"of", "from", "to"} and self.at(start + 1):
                after = self.words[start + 1 : start + 4]
                end = next(
                    (number for number, one in enumerate(after) if one in _PREPOSITIONS or one in BREAKS), len(after)
                )
                return " ".join(after[:end])
        return ""

    def _is_event(self, margins: tuple[float, float] = _LIKELY) -> bool:
        """Whether the headline tells of something that happened, not of age or illness or in a figure of speech."""
        event, illness, other = self.context
        return event - illness > margins[0] and event - other > margins[1]

    def _is_doubtful(self, place: int) -> bool:
        """Whether it tells of what might be, or of why people protest: "feared dead", "riot over a killing"."""
        for back in range(place - 1, max(place - 4, -1), -1):
            word = self.words[back]
            if word in DOUBTS and not (word == "to" and self._is_achieved(back, place)):
                return True
            if word not in AUXILIARIES and word not in PRONOUNS:
                break
        for back in range(place - 1, max(place - 6, 0), -1):
            if self.words[back] in {"over", "after", "amid"} and _UNREST.intersection(
                self.words[max(0, back - 3) : back]
            ):
                return True
        return self._may_be_intended(place) and bool(_INTENTS.intersection(self.words[max(0, place - 3) : place]))

    def _may_be_intended(self, place: int) -> bool:
        """Whether a word can name what was only planned: "attempt assassinate", "plots murder of"."""
        word = self.words[place]
        return (word in ACTIVE and not word.endswith(("s", "ing"))) or (
            word in _KILLINGS and self.at(place + 1) == "of"
        )

    def _is_achieved(self, to: int, place: int) -> bool:
        """Whether "to" leads to what was done: "stabbed to death", "managed to kill"."""
        is_noun = self.words[place].endswith(("death", "ing", "ion")) or self.at(place + 1) == "of"
        return is_noun or bool(_ACHIEVED.intersection(self.words[max(0, to - 3) : to]))

    def _is_death(self, place: int, groups: Sequence[Group]) -> bool:
        """Whether people died of something that happened: one person's death may be one of age or illness."""
        if self.words[place] not in _ALSO_OF_ILLNESS and self.words[place] not in LOST_LIVES:
            return True
        if self.at(place - 1) == "found" or any(group.number != 1 for group in groups) or self._is_counted(groups):
            return True
        margins = _EXPLAINED if self.at(place + 1) in _THEN else _LIKELY
        subject = self.at(self._before_auxiliaries(place) - 1)
        is_named = not is_person(subject) and subject != "who" and self._before_auxiliaries(place) not in self.by_end
        if is_named and self.context.event < _NAMED:
            return False
        return not (self._is_of_age(place) or self._is_of_illness()) and self._is_event(margins)

    def _is_of_age(self, place: int) -> bool:
        """As in "dead at 82", "actor, 82, dies"."""
        before = self.at(place - 1 - (self.at(place - 1) == ","))
        if before.isdecimal() and int(before) >= _AGES["aged"] and self.at(place + 1) not in _THEN:
            return True
        after = pairwise(self.words[place + 1 : place + 4])
        return any(age.isdecimal() and int(age) >= _AGES.get(mark, LARGEST_NUMBER) for mark, age in after)

    def _is_counted(self, groups: Sequence[Group]) -> bool:
        return any(self.number_at(group.start)[0] is not None for group in groups)

    def _before_auxiliaries(self, place: int) -> int:
        """Where the words before a verb and its auxiliaries end: "was shot and killed"."""
        start = place
        while start > 0 and start not in self.by_end and self._is_auxiliary(start - 1):
            start -= 1
        return start

    def _is_auxiliary(self, place: int) -> bool:
        word = self.words[place]
        before = self.at(place - 1)
        is_link = word in {"and", "to", "been", "&", ","} and (
            before in MANNER or before in AUXILIARIES or self._is_act(place - 1)
        )
        return is_link or word in {"others", "more"} or word in AUXILIARIES or word in MANNER or self._is_act(place)

    def _is_act(self, place: int) -> bool:
        """Whether a word in -ed after a group and before a verb says what else happened: "girl raped murdered"."""
        after = self.at(place + 1 + (self.at(place + 1) in LINKS))
        return self.words[place].endswith("ed") and place in self.by_end and after in EITHER

    def _is_rank(self, place: int) -> bool:
        return self.at(place) in {"no", "number"} and self.number_at(place + 1)[0] is not None
