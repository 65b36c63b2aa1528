"""Read from a headline how many people were killed, wounded, arrested or are missing, and choose among several reports.

A headline is read as groups of people ("at least five soldiers", "a policeman", "4-year-old"), verbs that say what
happened to them, and links between groups. Titles from URLs have neither capitals nor punctuation, so that "12 soldiers
killed 3 wounded" must be read from the order of its words alone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.services.defense.events.people import (
    ACTIVE,
    ANIMALS,
    AUXILIARIES,
    BREAKS,
    DOUBTS,
    EITHER,
    ELSEWHERE,
    LINKS,
    LOST_LIVES,
    MANNER,
    NO_ONE,
    OTHER_ACTIVE,
    OTHER_PASSIVE,
    PASSIVE,
    Group,
    Headline,
    Outcome,
    is_person,
    is_plural,
    is_thing,
    is_year,
    split_words,
    word_class,
)  # fmt: skip
from tollhouse.services.defense.events.toll_context import Context, read_context


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
    words = split_words(_BRACKETED.sub(" ", title))
    reader = _Reader(words)
    toll = reader.read()
    is_sum = toll.killed != 1 and _is_cumulative(words)
    return Toll(is_cumulative=True) if is_sum or (toll.killed and reader.is_epidemic()) else toll


_QUALIFIERS, _CLAUSES, _KILLINGS = map(word_class, ("qualifiers", "clauses", "killings"))
_WITHIN = word_class("prepositions") - {"of"}
_PERIODS, _UNREST = map(word_class, ("periods", "unrest"))
_INTENTS, _ADJECTIVES, _DEADLY, _DEAD_THINGS = map(word_class, ("intents", "adjectives", "deadly_acts", "dead_things"))
_STABS = word_class("deadly_active", "deadly_passive")
_HOMICIDES, _SENTENCES, _ACHIEVED = map(word_class, ("homicides", "sentences", "achieved"))
_NOT_DEATHS, _FOUND, _PROCEEDINGS = map(word_class, ("not_deaths", "found", "proceedings"))
# Log odds by which an event must be likelier than illness, and than anything else: beside these words, and for a death
# of which no one is said to have died; and to be no figure of speech.
_EXPLAINED, _SURELY, _NO_FIGURE = (-0.6, -2.5), (2.0, -0.5), (-9.0, -3.5)
_THEN = frozenset(["in", "after", "when", "as", "while", "during", "following", "days"])
# Log odds by which illness must be likelier than an event for a sum.
_EPIDEMIC = 1.5
# From this age on, "dies at 86" tells of age.
_OLD = 60
_ALSO_OF_ILLNESS = frozenset(["die", "died", "dies", "dead", "succumb", "succumbs", "succumbed"])
_DETERMINERS = frozenset(["a", "an", "the", "his", "her", "their", "its", "one's", "own", "another"])
_PRONOUNS = frozenset(["he", "she", "they", "it", "him", "her", "them"])
_MANY_KILLINGS = frozenset(["killings", "murders", "slayings"])
_MULTIPLES = {"double": 2, "triple": 3, "quadruple": 4, "quintuple": 5}
_BRACKETED = re.compile(r"\([0-9]+\)")
# Of a headline in lower case, which is faster than ignoring the case.
_MAY_COUNT = re.compile(
    r"kill|dead|die[sd]?\b|dying|death|fatal|toll|slain|slay|massacre|murder|homicide|execut|hang|behead|perish|succumb|drown"
    r"|lives|(?:own|los(?:es?|ing|t)(?: \w+)?) life|gun(?:s|ned|ning)? down|martyr|assassinat|bod(?:y|ies)|wound|injur"
    r"|suicide|remains|strangl|hurt|arrest|detain|missing|casualt|lynch|abduct|kidnap"
)


def _is_cumulative(words: Sequence[str]) -> bool:
    """Whether the figures sum up an epidemic, or a war or a year: "since 2015", "so far this year"."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 4]
        if word in {"annual", "annually", "yearly"} or (word == "so" and after[:1] == ["far"]):
            return True
        is_superlative = any(one.endswith("est") or one in {"worst", "first"} for one in words[:place])
        if word == "since" and not is_superlative and (_PERIODS.intersection(after) or any(map(is_year, after[:1]))):
            return True
        if word in _PERIODS and after and after[0] in {"has", "have", "kills", "killed", "claims", "claimed"}:
            return True
        if (
            word in {"last", "past", "this", "per", "every", "each"}
            and after
            and after[0] in {"year", "decade", "month"}
        ):
            return True
        if word in {"in", "during"} and len(after) >= 2 and after[1] in {"years", "months", "decades"}:
            return True
    return False


class _Counted(Struct, frozen=True):
    """Groups that suffered a outcome, and the place of the word that says so."""

    outcome: Outcome
    groups: tuple[Group, ...]
    place: int


class _Reader(Headline):
    """Reads what happened to the groups of one headline."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        # The starts of the groups whose outcome is known.
        self.used: set[int] = set()

    @cached_property
    def context(self) -> Context:
        return read_context(" ".join(self.words))

    def is_epidemic(self) -> bool:
        """Whether illness killed, and no "fire" that the headline names before "kills"."""
        verb = next((place for place, word in enumerate(self.words) if word in ACTIVE), 0)
        contexts = [self.context, *([read_context(" ".join(self.words[:verb]))] if verb else [])]
        return all(one.illness > max(_EPIDEMIC, one.event + _EPIDEMIC) for one in contexts)

    def _is_event(self, margins: tuple[float, float] = (0.5, -2.5)) -> bool:
        """Whether the headline tells of something that happened, not of age or illness or in a figure of speech."""
        event, illness, other = self.context
        return event - illness > margins[0] and event - other > margins[1]

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

    def _total(self, outcome: str, counts: Sequence[_Counted]) -> int | None:
        numbers = [group.number for one in counts if one.outcome == outcome for group in one.groups]
        return sum(number for number in numbers if number) if numbers and None not in numbers else None

    # Phrases

    def _death_toll(self) -> Iterator[_Counted]:
        """As in "death toll rises to 12 from 9": one number, which counts all."""
        for place, word in enumerate(self.words):
            if word != "toll" or not (self.at(place - 1) == "death" or self._is_event()):
                continue
            for start in range(place + 1, min(place + 9, len(self.words))):
                group = self.groups.get(start)
                if group and group.number and self.at(start - 1) not in {"from", "in", "after"}:
                    yield _Counted("killed", (group,), place)
                    return

    def _phrases(self) -> Iterator[_Counted]:
        """As in "claims 5 lives", "double murder", "shooting death of a man", "killing of two", "teen's killing"."""
        for place, word in enumerate(self.words):
            after = self.at(place + 1)
            if self._is_doubtful(place):
                continue
            if word in _MULTIPLES and after in {"murder-suicide", *_HOMICIDES}:
                number = _MULTIPLES[word] + (after == "murder-suicide")
                yield _Counted("killed", (Group(place, place + 2, number),), place)
            elif word in {"lives", "bodies", "deaths", "fatalities"} and (
                group := self.groups.get(place) or self._group_over(place)
            ):
                self.used.add(group.start)
                yield _Counted("killed", (group,), place)
            elif (
                word in {"dead", "slain", "murdered"}
                and place + 1 in self.groups.keys() - self.used
                and self.groups[place + 1].number == 1
                and place not in self.by_end
                and self.at(place - 1) not in AUXILIARIES
            ):
                self.used.add(place + 1)
                yield _Counted("killed", (self.groups[place + 1],), place)
            elif after == "of" and self._names_killing(place):
                yield from self._victims("killed", place, place + 2)
            elif word in {"body", "remains"} and _FOUND.intersection(self.words[max(0, place - 4) : place + 7]):
                yield from self._found_body(place)
            elif self._is_one_death(place):
                yield _Counted("killed", (Group(place - 1, place + 1, 1),), place)

    def _is_one_death(self, place: int) -> bool:
        """Whether a noun tells of one death without "of": "teen's killing", "backpacker murder", "probe into death"."""
        word, before = self.words[place], self.at(place - 1)
        is_intended = bool(_INTENTS.intersection([*self.words[max(0, place - 6) : place], self.at(place + 1)]))
        if is_intended or self.at(place + 1) in _NOT_DEATHS or word not in _KILLINGS or before == "to":
            return False
        if before in _DEADLY or (self._names_killing(place) and (before.endswith("'s") or is_person(before))):
            return True
        is_head = not self.is_noun(place + 1) or self.at(place + 1) in _PROCEEDINGS
        is_head &= before in BREAKS or (self.is_noun(place - 1) and before not in _DETERMINERS)
        return word == "death" and is_head and self._is_event(_SURELY)

    def _found_body(self, place: int) -> Iterator[_Counted]:
        """As in "body of hiker found", "woman's body found"."""
        after = (self.groups.get(start) for start in (place + 2, place + 3) if self.at(place + 1) == "of")
        group = next((one for one in after if one and one.number == 1), None)
        before = self.at(place - 1)
        if group or place == 0 or before == "human" or before.endswith("'s"):
            self.used.update([group.start] if group else [])
            yield _Counted("killed", (group or Group(place - 1, place + 1, 1),), place)

    def _names_killing(self, place: int) -> bool:
        """Whether a noun means that somebody was killed: "killing", "shooting death", "fatal shooting"."""
        word, before = self.words[place], self.at(place - 1)
        if word in {"shooting", "stabbing", "beating"}:
            return before == "fatal"
        if word == "murder" and self.at(place + 1) in {"/", "suicide"}:
            return False
        if word in {"death", "deaths"}:
            counted = self.groups.get(place + 2)
            return before in _DEADLY or bool(counted and (counted.number or 0) > 1) or self._is_event()
        return word in _KILLINGS or (word in _MANY_KILLINGS and self.number_at(place + 2)[0] is not None)

    def _victims(self, outcome: Outcome, place: int, start: int) -> Iterator[_Counted]:
        """The groups after "killing of", or one person whose name begins there."""
        groups = tuple(self._groups_after(start))
        if not groups and not is_plural(self.at(start)) and self.at(start) not in {"", *_DETERMINERS}:
            groups = (Group(start, start + 1, 1),)
        if groups:
            self.used.update(group.start for group in groups)
            yield _Counted(outcome, groups, place)

    def _murder_suicide(self) -> Iterator[_Counted]:
        """At least two died, unless the headline counts them."""
        for place, word in enumerate(self.words):
            follows = self.at(place + 1 + (self.at(place + 1) == "/"))
            if word == "murder-suicide" or (word == "murder" and follows == "suicide"):
                yield _Counted("killed", (Group(place, place + 1, 2),), place)

    def _group_over(self, place: int) -> Group | None:
        """The group whose noun is here: "three more lives"."""
        return next(
            (one for one in self.groups.values() if one.start < place < one.end and one.start not in self.used), None
        )

    # Verbs after their groups

    def _after_groups(self, places: set[int], *, is_near: bool) -> Iterator[_Counted]:
        """As in "3 soldiers and 2 civilians were killed"; not `is_near`: "boy shot in head dies"."""
        for place in range(len(self.words)):
            outcome = self._passive(place)
            if outcome is None or place in places or self._is_doubtful(place):
                continue
            end = self._before_auxiliaries(place)
            if not is_near:
                end = self._end_of_distant_group(end)
            groups = self._stabbed_object(place) if self.words[place] == "death" else ()
            groups = groups or tuple(self._groups_before(end))
            if end == place and not self._is_counted(groups) and any(self._groups_after(place + 1)):
                continue  # "gunmen killed 12 villagers": the group before is who killed
            if outcome == "killed":
                groups += self._companions(place + 1)
            if groups and (outcome != "killed" or self._is_death(place, groups)):
                self.used.update(group.start for group in groups)
                yield _Counted(outcome, groups, place)

    def _companions(self, place: int) -> tuple[Group, ...]:
        """Those who died too: "pilot dies with six passengers", "killed along with his son"."""
        start = place + (self.at(place) in {"along", "together"})
        return tuple(self._groups_after(start + 1)) if self.at(start) in {"with", "alongside"} else ()

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
        is_link = word in {"and", "to", "others", "more", "been", "&", ","} and (
            self.at(place - 1) in MANNER or self.at(place - 1) in AUXILIARIES or word in {"others", "more"}
        )
        return word in AUXILIARIES or word in MANNER or is_link

    def _stabbed_object(self, place: int) -> tuple[Group, ...]:
        """As in "stab a man to death": whose death is told between the verb and "to death"."""
        for start in range(place - 2, max(place - 8, -1), -1):
            if self.words[start] in _STABS and not any(one in BREAKS for one in self.words[start + 1 : place - 1]):
                known = tuple(self._groups_after(start + 1))
                is_one = not is_plural(self.words[place - 2]) and self.words[place - 2] not in ANIMALS
                return known or ((Group(start + 1, place - 1, 1),) if is_one and start < place - 2 else ())
        return ()

    def _end_of_distant_group(self, place: int) -> int:
        """The end of the last group before a verb, with at most eleven words and no other clause or outcome between."""
        for end in range(place, max(place - 12, 0), -1):
            if end in self.by_end and self.at(self.by_end[end].start - 1) not in _WITHIN:
                return end
            word = self.words[end - 1]
            if word in _CLAUSES or self._passive(end - 1) or word in ACTIVE or word in OTHER_ACTIVE:
                break
        return -1

    def _groups_before(self, end: int) -> Iterator[Group]:
        """The linked groups that end here, last first. Groups after "including" are part of the one before."""
        group = self.by_end.get(end)
        while group and group.start not in self.used:
            end = group.start
            while end > 0 and (self.words[end - 1] in _QUALIFIERS or self.words[end - 1] in _DETERMINERS
                               or self.words[end - 1] in _ADJECTIVES):  # fmt: skip
                end -= 1
            if self.at(end - 1) == "including":
                end -= 1
            else:
                yield group
            if self.at(end - 1) == "among":
                return  # "Americans among seven killed": the group before is a part of this one
            link = end
            while link > 0 and link not in self.by_end and self._is_link(link - 1):
                link -= 1
            group = self.by_end.get(link)
            is_bare = group and group.end - group.start == 1
            if group and self._is_object(group):
                return  # "kills 5 soldiers, 3 wounded"
            if group and link == end and (is_bare or self.number_at(group.start)[0] is None):
                return

    def _is_object(self, group: Group) -> bool:
        start = group.start
        while self.at(start - 1) in _QUALIFIERS:
            start -= 1
        return self.at(start - 1) in ACTIVE or self.at(start - 1) in OTHER_ACTIVE

    def _is_link(self, place: int) -> bool:
        """Whether a word joins groups; a semicolon only after the first words, as in "8 rebels; soldier killed"."""
        return self.words[place] in LINKS or (self.words[place] == ";" and 0 in self.groups)

    def _is_death(self, place: int, groups: Sequence[Group]) -> bool:
        """Whether people died of something that happened: one person's death may be one of age or illness."""
        if self.words[place] not in _ALSO_OF_ILLNESS and self.words[place] not in LOST_LIVES:
            return True
        if any(group.number != 1 for group in groups) or self._is_counted(groups):
            return True
        return not self._is_of_age(place) and (
            self._is_event(_EXPLAINED) if self.at(place + 1) in _THEN else self._is_event()
        )

    def _is_of_age(self, place: int) -> bool:
        """As in "dead at 82"."""
        after = self.words[place + 1 : place + 4]
        ages = [age for mark, age in pairwise(after) if mark in {"at", "aged", "age"} and age.isdecimal()]
        return any(int(age) >= _OLD for age in ages)

    def _with_later_deaths(self, counts: Sequence[_Counted]) -> list[_Counted]:
        """As in "toddler injured in shooting has died": the wounded died if a later verb has no group of its own."""
        places = {one.place for one in counts}
        deaths = [place for place, word in enumerate(self.words) if word in {"died", "dies"} and place not in places]
        last = max(deaths, default=-1)
        return [
            replace(one, outcome="killed") if one.outcome == "wounded" and one.place < last else one for one in counts
        ]

    # Verbs before their groups

    def _before_groups(self, places: set[int]) -> Iterator[_Counted]:
        """As in "bomb kills 3 soldiers and 2 civilians", "gunmen killed 12 villagers", "fatally shot a man"."""
        for place, word in enumerate(self.words):
            if place in places or self._is_doubtful(place):
                continue
            outcome: Outcome | None = OTHER_ACTIVE.get(word) or OTHER_PASSIVE.get(word)
            start = place + 1
            if word in ACTIVE or word in EITHER:
                outcome = "killed"
            elif word == "fatally" and self.at(start) in MANNER:
                outcome, start = "killed", start + 1
            groups = tuple(self._groups_after(start))
            if not groups and word in ACTIVE:
                groups = self._unknown_object(start)
            elif groups and is_thing(self.at(groups[-1].end)) and not self._is_event(_NO_FIGURE):
                continue  # "kills filibuster plan": the person only describes a thing
            if outcome and groups:
                self.used.update(group.start for group in groups)
                yield _Counted(outcome, groups, place)

    def _groups_after(self, start: int) -> Iterator[Group]:
        """The linked groups that begin here, without one to which something else happened: "killed 12 wounded"."""
        while self.at(start) == ",":
            start += 1
        while True:
            begin = start
            while self.at(begin) in _QUALIFIERS:
                begin += 1
            begin = begin if begin in self.groups else start
            while begin not in self.groups and begin - start < 4 and self._may_precede(begin):
                begin += 1
            group = self.groups.get(begin) or self._ranked(begin)
            if group is None or group.start in self.used or self._has_other_outcome(group.end):
                return
            yield group
            start = group.end
            while self.at(start) in LINKS:
                start += 1
            if start == group.end and start not in self.groups:
                return

    def _ranked(self, place: int) -> Group | None:
        """A person named by rank: "kill al-Qaida No. 2 leader"."""
        end = place + 2
        while is_person(self.at(end)):
            end += 1
        return Group(place, end, 1) if self._is_rank(place) else None

    def _is_rank(self, place: int) -> bool:
        return self.at(place) in {"no", "number"} and self.number_at(place + 1)[0] is not None

    def _may_precede(self, place: int) -> bool:
        """Whether a word may stand before the noun of a group: "a top Qaeda leader"."""
        word = self.at(place)
        if word in {"", "including", "among"} or self._is_rank(place):
            return False
        return word not in BREAKS and word not in LINKS and word not in PASSIVE and word not in EITHER and not (
            word in ACTIVE or is_plural(word) or word in OTHER_PASSIVE or word in OTHER_ACTIVE
        )  # fmt: skip

    def _has_other_outcome(self, place: int) -> bool:
        while self.at(place) in AUXILIARIES or self.at(place) in {"others", "more"} or self.at(place).endswith("ly"):
            place += 1
        return self.at(place) in OTHER_PASSIVE or self.at(place) in ELSEWHERE

    # Persons by name

    def _named_persons(self, places: set[int]) -> Iterator[_Counted]:
        """One person whom no known noun names: "Masri killed in Tehran", "truckie dies in crash", "No. 2 killed"."""
        for place, word in enumerate(self.words):
            subject = self._before_auxiliaries(place) - 1
            if place in places or subject < 0 or self._passive(place) != "killed" or self._is_doubtful(place):
                continue
            is_counted = any(one.start <= subject < one.end for one in self.groups.values() if one.start in self.used)
            is_rank = self.at(subject - 1) in {"no", "number"} and self.words[subject] != "one"
            ends = word not in EITHER or self.at(place + 1) in {*BREAKS, ""}
            person = Group(subject, place + 1, 1)
            is_person = not is_counted and (is_rank or self._may_be_person(subject))
            if is_person and ends and self._is_death(place, [person]):
                yield _Counted("killed", (person,), place)

    def _may_be_person(self, place: int) -> bool:
        """Whether a noun may name one person: a name, or a noun that is not known to be a thing."""
        word = self.at(place)
        is_other = is_plural(word) or word in NO_ONE or word in _DETERMINERS or word.endswith("'s") or is_thing(word)
        return self.is_noun(place) and len(word) > 1 and not is_other

    def _unknown_object(self, start: int) -> tuple[Group, ...]:
        """The person after a verb whom no known noun names: "crash kills truckie"."""
        end = start
        while self.is_noun(end) and end - start < 5:
            end += 1
        is_person = end > start and self._may_be_person(end - 1) and self._is_event()
        return (Group(start, end, 1),) if is_person else ()

    # Meaning of verbs

    def _passive(self, place: int) -> Outcome | None:
        word, after = self.words[place], self.at(place + 1)
        if word == "dead":
            return None if after in _DEAD_THINGS else "killed"
        if word in PASSIVE or word in EITHER:
            return "killed"
        if word == "death" and self.at(place - 1) == "to":
            return None if _SENTENCES.intersection(self.words[:place]) else "killed"
        if word == "fatally":
            return (
                None
                if after.endswith(("oot", "oots", "ab", "abs", "ikes")) or any(self._groups_after(place + 2))
                else "killed"
            )
        return OTHER_PASSIVE.get(word)

    def _is_doubtful(self, place: int) -> bool:
        """Whether it tells of what might be, or of why people protest: "feared dead", "riot over a killing"."""
        for back in range(place - 1, max(place - 4, -1), -1):
            word = self.words[back]
            if word in DOUBTS and not (word == "to" and self._is_achieved(back, place)):
                return True
            if word not in AUXILIARIES and word not in _PRONOUNS:
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

    def _says_no_one(self) -> bool:
        deaths = {"killed", "deaths", "died", "dead", "casualties", "fatalities"}
        return any(
            word in NO_ONE
            and not self.at(place + 1).isdecimal()
            and deaths.intersection(self.words[place + 1 : place + 4])
            for place, word in enumerate(self.words)
        )
