"""Read from a headline how many people were killed, wounded, arrested or are missing, and choose among several reports.

A headline is read as groups of people ("at least five soldiers", "a policeman", "4-year-old"), verbs that say what
happened to them, and links between groups. Titles from URLs have neither capitals nor punctuation, so that "12 soldiers
killed 3 wounded" must be read from the order of its words alone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.events.toll_verbs import (
    ACTIVE,
    AUXILIARIES,
    COUNTED,
    DETERMINERS,
    EITHER,
    LINKS,
    NO_ONE,
    OTHER_ACTIVE,
    OTHER_PASSIVE,
    PASSIVE,
    PRONOUNS,
    Group,
    Outcome,
    capitalised_words,
    is_person,
    is_plural,
    is_thing,
    is_time,
    is_year,
    split_words,
    word_class,
)
from tollhouse.services.defense.events.toll_victims import Counted, Victims
from tollhouse.services.defense.gazetteer import given_names, index, name_key


class Toll(Struct, frozen=True, gc=False):
    """What one headline says. Each number is None where the headline gives none; 0 only if it says that no one died.

    `is_at_least`: the headline calls the number of killed a lower bound. `is_cumulative`: its figures sum up an
    epidemic, a war or a year, so they are not given. `words` are those that gave the number of killed.
    """

    killed: int | None = None
    wounded: int | None = None
    arrested: int | None = None
    missing: int | None = None
    is_at_least: bool = False
    is_cumulative: bool = False
    words: str = ""


class SupportedToll(Struct, frozen=True):
    """The number of killed that most publishers give: `publishers` of the `counted` that give any."""

    killed: int
    publishers: int
    counted: int
    words: str


def best_toll(tolls: Sequence[tuple[str, Toll]]) -> SupportedToll | None:
    """The best-supported number of killed among (publisher family, toll), oldest first; None if none gives one.

    A publisher counts once, with its newest figure. Among equally supported figures the largest is taken, because
    tolls rise while an event is reported.
    """
    newest = {family: toll for family, toll in tolls if toll.killed is not None}
    votes = Counter(toll.killed for toll in newest.values() if toll.killed is not None)
    if not votes:
        return None
    killed, count = max(votes.items(), key=lambda item: (item[1], item[0]))
    words = next(toll.words for toll in newest.values() if toll.killed == killed)
    return SupportedToll(killed, count, votes.total(), words)


def read_toll(title: str) -> Toll:
    """The figures of a headline."""
    if not _MAY_COUNT.search(title.lower()):
        return Toll()
    words = split_words(_NO_COUNTS.sub(" ", title))
    reader = _Reader(words, capitalised_words(title))
    toll = reader.read()
    is_sum = _is_rate(words) or (toll.killed != 1 and _is_cumulative(words))
    return Toll(is_cumulative=True) if is_sum or (toll.killed and reader.is_epidemic()) else toll


_KILLINGS = word_class("killings")
_PERIODS = word_class("periods")
_INTENTS = word_class("intents")
_DEADLY = word_class("deadly_acts")
_HOMICIDES = word_class("homicides")
_NOT_DEATHS = word_class("not_deaths")
_FOUND = word_class("found")
_PROCEEDINGS = word_class("proceedings")
_BEFORE_BODY = _FOUND | DETERMINERS | {"human", "whose", "dead"}
# Log odds as in toll_verbs.py, for a death of which no one is said to have died.
_SURELY = (2.0, -2.5)
_PUNISHED = frozenset(["executed", "hanged", "executes", "hangs"])
_MANY_KILLINGS = frozenset(["killings", "murders", "slayings"])
_MULTIPLES = {"double": 2, "triple": 3, "quadruple": 4, "quintuple": 5}
# Numbers in brackets, and the date that ends an address.
_NO_COUNTS = re.compile(r"\([0-9]+\)|\b(?:19|20)[0-9]{2} [0-9]{2} [0-9]{2}$")
# The beginnings of all words that tell of an outcome. A headline is put in lower case first, which is faster.
_OUTCOME_WORDS = ACTIVE | PASSIVE | EITHER | OTHER_ACTIVE.keys() | OTHER_PASSIVE.keys()
_OUTCOME_WORDS |= word_class("killings", "homicides", "signs")
_MAY_COUNT = re.compile(rf"\b(?:{'|'.join(sorted({word[:5] for word in _OUTCOME_WORDS}))})|to death")


def _is_cumulative(words: Sequence[str]) -> bool:
    """Whether the figures sum up an epidemic, or a war or a year: "since 2015", "so far this year"."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 4]
        if word in {"annual", "annually", "yearly"} or (
            word == "so" and after[:1] == ["far"] and words[:place][-1:] != ["know"]
        ):
            return True
        is_superlative = any(one.endswith("est") or one in {"worst", "first"} for one in words[:place])
        if word == "since" and not is_superlative and (_PERIODS.intersection(after) or any(map(is_year, after[:1]))):
            return True
        if word in _PERIODS and after and after[0] in {"has", "have", "kills", "killed", "claims", "claimed"}:
            return True
        is_recent = word in {"last", "past", "this"} and after[:1] and after[0] in {"year", "decade", "month"}
        if is_recent or (word == "deaths" and any(map(is_year, after[:1]))):
            return True
        is_years = bool(after) and is_year(after[0]) and after[1:2] == ["to"]
        if word in {"in", "during"} and (is_years or not {"years", "months", "decades"}.isdisjoint(after[1:3])):
            return True
    return False


def _is_rate(words: Sequence[str]) -> bool:
    """As in "a child dies every five seconds", "cancer kills 90 daily"."""
    return any(
        (word in {"per", "every", "each"} and any(map(is_time, words[place + 1 : place + 3])))
        or (word == "daily" and words[:place][-1:] and words[place - 1].isdecimal())
        for place, word in enumerate(words)
    )


class _Reader(Victims):
    """Reads what happened to the groups of one headline."""

    def read(self) -> Toll:
        """The figures. Verbs after their group are read first: in "3 killed 5 wounded" each number has its own."""
        counts = list(self._death_toll())
        if not counts:
            counts += self._phrases()
            counts += self._after_groups({one.place for one in counts}, is_near=True)
            counts += self._before_groups({one.place for one in counts})
            counts += self._after_groups({one.place for one in counts}, is_near=False)
            counts += self._named_persons({one.place for one in counts})
            counts = self._with_later_deaths(counts)
            if not any(one.outcome == "killed" for one in counts):
                counts += self._murder_suicide()
        deaths = [one for one in counts if one.outcome == "killed"]
        groups = [group for one in deaths for group in one.groups]
        killed = self._total("killed", counts)
        if not deaths and self._says_no_one():
            killed = 0
        places = [*(one.place for one in deaths), *(group.start for group in groups)]
        end = max([*(one.place for one in deaths), *(group.end - 1 for group in groups)], default=-1) + 1
        return Toll(
            killed, self._total("wounded", counts), self._total("arrested", counts), self._total("missing", counts),
            is_at_least=any(group.is_at_least for group in groups),
            words=" ".join(self.words[min(places, default=0) : end]),
        )  # fmt: skip

    def _total(self, outcome: str, counts: Sequence[Counted]) -> int | None:
        """The sum, or the number of a "double murder" that holds the others."""
        deaths = [one for one in counts if one.outcome == outcome]
        whole = max((one.groups[0].number or 0 for one in deaths if self.words[one.place] in _MULTIPLES), default=0)
        numbers = [group.number for one in deaths if self.words[one.place] not in _MULTIPLES for group in one.groups]
        return max(whole, sum(filter(None, numbers))) if deaths and (whole or None not in numbers) else None

    def _death_toll(self) -> Iterator[Counted]:
        """As in "death toll rises to 12 from 9": one number, which counts all."""
        for place, word in enumerate(self.words):
            if word != "toll" or not (self.at(place - 1) == "death" or self._is_event()):
                continue
            for start in range(place + 1, min(place + 9, len(self.words))):
                group = self.groups.get(start)
                if group and group.number and self.at(start - 1) not in {"from", "in", "after"}:
                    yield Counted("killed", (group,), place)
                    return

    def _phrases(self) -> Iterator[Counted]:
        """As in "claims 5 lives", "double murder", "shooting death of a man", "killing of two", "teen's killing"."""
        for place, word in enumerate(self.words):
            after = self.at(place + 1)
            if self._is_doubtful(place) or self._is_punished(place):
                continue
            if word in _MULTIPLES and after in {"murder-suicide", *_HOMICIDES}:
                number = _MULTIPLES[word] + (after == "murder-suicide")
                yield Counted("killed", (Group(place, place + 2, number),), place)
            elif (
                (word in {"lives", "bodies", "deaths", "fatalities"} or word in _MANY_KILLINGS)
                and (group := self.groups.get(place) or self._group_over(place) or self.by_end.get(place))
                and (group.number != 1 or self._is_counted([group]))
            ):
                linked = self._groups_after(group.end + 1) if self.at(group.end) in LINKS else ()
                others = tuple(one for one in linked if self._is_counted([one]))
                self.used.update(one.start for one in (group, *others))
                yield Counted("killed", (group, *others), place)
            elif (
                word in {"dead", "slain", "murdered"}
                and place + 1 in self.groups.keys() - self.used
                and self.groups[place + 1].number == 1
                and place not in self.by_end
                and self.at(place - 1) not in AUXILIARIES
            ):
                self.used.add(place + 1)
                yield Counted("killed", (self.groups[place + 1],), place)
            elif after == "of" and self._names_killing(place):
                yield from self._victims("killed", place, place + 2)
            elif word in {"body", "bodies", "remains"} and (
                _FOUND.intersection(self._near(place)) or self.at(place - 1) == "whose"
            ):
                yield from self._found_body(place)
            elif self._is_one_death(place):
                yield Counted("killed", (Group(place - 1, place + 1, 1),), place)

    def _near(self, place: int) -> list[str]:
        return self.words[max(0, place - 4) : place + 10]

    def _is_punished(self, place: int) -> bool:
        """As in "executed for the murder of": the headline is about the other death."""
        is_reason = "for" in self.words[max(0, place - 4) : place]
        return is_reason and not _PUNISHED.isdisjoint(self.words[:place])

    def _is_one_death(self, place: int) -> bool:
        """Whether a noun tells of one death without "of": "teen's killing", "backpacker murder", "probe into death"."""
        word = self.words[place]
        owner = place - 1 - is_year(self.at(place - 1))
        before = self.at(owner)
        is_intended = bool(_INTENTS.intersection([*self.words[max(0, place - 6) : place], self.at(place + 1)]))
        if is_intended or self.at(place + 1) in _NOT_DEATHS or word not in _KILLINGS or before == "to":
            return False
        is_of_person = self._is_possessive(owner) or is_person(before) or self._is_full_name(owner - 1)
        if before in _DEADLY or (is_of_person and self._names_killing(place)):
            return True
        is_head = not self.is_noun(place + 1) or self.at(place + 1) in _PROCEEDINGS
        is_head &= before in {"into", "over"} or is_thing(before)
        return word == "death" and is_head and self._is_event(_SURELY)

    def _is_full_name(self, place: int) -> bool:
        """Whether a given name and another word stand here, and neither names a place: "Jessica Lall murder"."""
        pair = self.words[max(place, 0) : place + 2]
        is_given = any(word in given_names() and not is_thing(word) for word in pair)
        is_place = not index().senses.keys().isdisjoint([*pair, name_key(" ".join(pair))])
        return is_given and not is_place and self.is_noun(place + 1) and not is_plural(pair[-1])

    def _is_possessive(self, place: int) -> bool:
        """Whether a word names to whom something belongs, one person: no group, and no "it's"."""
        owner = self.at(place).removesuffix("'s")
        return owner != self.at(place) and owner not in COUNTED and owner not in PRONOUNS

    def _found_body(self, place: int) -> Iterator[Counted]:
        """As in "bodies of hiker and guide found", "woman's body found", "find body of Smith"."""
        before, after = self.at(place - 1), self.at(place + 1)
        owner = self.by_end.get(place - 1) if before == "whose" else None
        if owner and owner.start in self.used:
            return
        is_first = not self.is_noun(place - 1)
        start = place + 2 + (self.at(place + 2) == "missing")
        if after == "of" and not is_thing(self.at(start)):
            yield from self._victims("killed", place, start)
        elif (
            self.words[place] != "bodies"
            and after not in {"part", "parts"}
            and (is_first or before in _BEFORE_BODY or self._is_possessive(place - 1))
        ):
            yield Counted("killed", (Group(place - 1, place + 1, 1),), place)

    def _names_killing(self, place: int) -> bool:
        """Whether a noun means that somebody was killed: "killing", "shooting death", "murder in stabbing"."""
        word, before = self.words[place], self.at(place - 1)
        if word in {"shooting", "stabbing", "beating"}:
            is_murder = not _HOMICIDES.isdisjoint(self.words[:place]) and "attempted" not in self.words
            return "fatal" in self.words[max(0, place - 4) : place] or is_murder
        if word == "murder" and self.at(place + 1) in {"/", "suicide"}:
            return False
        if word in {"death", "deaths"}:
            number = sum(group.number or 0 for group in self._groups_after(place + 2))
            return before in _DEADLY or number > 1 or self._is_event()
        return word in _KILLINGS or (word in _MANY_KILLINGS and self.number_at(place + 2)[0] is not None)

    def _victims(self, outcome: Outcome, place: int, start: int) -> Iterator[Counted]:
        """The groups after "killing of", or one person whose name begins there."""
        groups = tuple(self._groups_after(start))
        is_named = self.number_at(start)[0] is None and not is_plural(self.at(start))
        if not groups and is_named and self.at(start) not in {"", *DETERMINERS}:
            groups = (Group(start, start + 1, 1),)
        if groups:
            self.used.update(group.start for group in groups)
            yield Counted(outcome, groups, place)

    def _murder_suicide(self) -> Iterator[Counted]:
        """At least two died, unless the headline counts them."""
        for place, word in enumerate(self.words):
            follows = self.at(place + 1 + (self.at(place + 1) == "/"))
            if word == "murder-suicide" or (word == "murder" and follows == "suicide"):
                yield Counted("killed", (Group(place, place + 1, 2),), place)

    def _with_later_deaths(self, counts: Sequence[Counted]) -> list[Counted]:
        """As in "toddler injured in shooting has died": they died if a later verb has no group of its own."""
        deaths = {place for place, word in enumerate(self.words) if word in {"died", "dies", "dead"}}
        last = max(deaths - {one.place for one in counts}, default=-1)
        is_later = [one.outcome in {"wounded", "missing"} and one.place < last for one in counts]
        return [replace(one, outcome="killed") if later else one for one, later in zip(counts, is_later, strict=True)]

    def _says_no_one(self) -> bool:
        deaths = {"killed", "deaths", "died", "dead", "casualties", "fatalities"}
        return any(
            word in NO_ONE
            and not self.at(place + 1).isdecimal()
            and deaths.intersection(self.words[place + 1 : place + 4])
            for place, word in enumerate(self.words)
        )
