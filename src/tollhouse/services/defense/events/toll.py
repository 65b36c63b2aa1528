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

from tollhouse.services.defense.events.people import (
    ACTIVE,
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
    UNITS,
    Group,
    Headline,
    Outcome,
    is_person,
    is_plural,
    is_year,
    split_words,
    word_class,
)  # fmt: skip


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
    return Toll(is_cumulative=True) if _is_cumulative(words) else _Reader(words).read()


_QUALIFIERS, _CLAUSES, _CAUSES, _KILLINGS = map(word_class, ("qualifiers", "clauses", "causes", "killings"))
_EPIDEMICS, _PERIODS, _ILLNESSES, _UNREST = map(word_class, ("epidemics", "periods", "illnesses", "unrest"))
_INTENTS, _ADJECTIVES, _DEADLY, _DEAD_THINGS = map(word_class, ("intents", "adjectives", "deadly_acts", "dead_things"))
_HOMICIDES, _SENTENCES, _ACHIEVED = map(word_class, ("homicides", "sentences", "achieved"))
_INQUIRIES, _NOT_DEATHS = map(word_class, ("inquiries", "not_deaths"))
_FOUND = word_class("found")
_ALSO_OF_ILLNESS = frozenset(["die", "died", "dies", "dead", "succumb", "succumbs", "succumbed"])
_DETERMINERS = frozenset(["a", "an", "the", "his", "her", "their", "its", "one's", "own", "another"])
_MULTIPLES = {"double": 2, "triple": 3, "quadruple": 4, "quintuple": 5}
_BRACKETED = re.compile(r"\([0-9]+\)")
# Of a headline in lower case, which is faster than ignoring the case.
_MAY_COUNT = re.compile(
    r"kill|dead|die[sd]?\b|dying|death|fatal|toll|slain|slay|massacre|murder|homicide|execut|hang|behead|perish|succumb|drown"
    r"|lives|(?:own|los(?:es?|ing|t)(?: \w+)?) life|gun(?:s|ned|ning)? down|martyr|assassinat|bod(?:y|ies)|wound|injur"
    r"|hurt|arrest|detain|missing|casualt|lynch|abduct|kidnap"
)


def _is_cumulative(words: Sequence[str]) -> bool:
    """Whether the figures sum up an epidemic, or a war or a year: "since 2015", "so far this year"."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 4]
        if word in {"annual", "annually", "yearly"} or (word == "so" and after[:1] == ["far"]):
            return True
        if word in _EPIDEMICS and not _CAUSES.intersection(words):
            return True
        if word == "since" and after and (is_year(after[0]) or _PERIODS.intersection(after)):
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
            if word != "toll":
                continue
            for start in range(place + 1, min(place + 7, len(self.words))):
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
                and place + 1 in self.groups
                and self.groups[place + 1].number == 1
                and place not in self.by_end
                and self.at(place - 1) not in AUXILIARIES
            ):
                self.used.add(place + 1)
                yield _Counted("killed", (self.groups[place + 1],), place)
            elif self._names_killing(place) and after == "of":
                yield from self._victims("killed", place, place + 2)
            elif word == "body" and _FOUND.intersection(self.words[max(0, place - 4) : place + 7]):
                yield from self._found_body(place)
            elif self._is_one_death(place):
                yield _Counted("killed", (Group(place - 1, place + 1, 1),), place)

    def _is_one_death(self, place: int) -> bool:
        """Whether a noun tells of one death without "of": "teen's killing", "backpacker murder", "probe into death"."""
        word, before = self.words[place], self.at(place - 1)
        if (
            self.at(place + 1) in _NOT_DEATHS
            or self.at(place + 1) in _INTENTS
            or word not in _KILLINGS
            or before == "to"
        ):
            return False
        if word == "death" and (before in _DEADLY or self._is_inquired_into(place)):
            return True
        return self._names_killing(place) and (before.endswith("'s") or (word != "death" and is_person(before)))

    def _is_inquired_into(self, place: int) -> bool:
        others = self.words[:place] + self.words[place + 1 :]
        return bool(_INQUIRIES.intersection(others)) and not _ILLNESSES.intersection(others)

    def _found_body(self, place: int) -> Iterator[_Counted]:
        """As in "body of hiker found", "woman's body found"."""
        after = (self.groups.get(start) for start in (place + 2, place + 3) if self.at(place + 1) == "of")
        group = next((one for one in after if one and one.number == 1), None)
        if group or place == 0 or self.at(place - 1).endswith("'s"):
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
            is_violent = bool(_CAUSES.intersection(self.words) or (counted and (counted.number or 0) > 1))
            is_violent |= self._is_inquired_into(place)
            return before in _DEADLY or (is_violent and (before.endswith("'s") or self.at(place + 1) == "of"))
        return word in _KILLINGS

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
            groups = tuple(self._groups_before(end))
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

    def _end_of_distant_group(self, place: int) -> int:
        """The end of the last group before a verb, with at most seven words and no other clause or outcome between."""
        for end in range(place, max(place - 8, 0), -1):
            if end in self.by_end:
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
            while link > 0 and link not in self.by_end and self.words[link - 1] in LINKS:
                link -= 1
            group = self.by_end.get(link)
            if group and link == end and self.number_at(group.start)[0] is None:
                return

    def _is_death(self, place: int, groups: Sequence[Group]) -> bool:
        """Whether people died of something that happened: one person's death may be one of age or illness."""
        if self.words[place] not in _ALSO_OF_ILLNESS and self.words[place] not in LOST_LIVES:
            return True
        if any(group.number != 1 for group in groups):
            return True
        rest = self.words[place + 1 : place + 7]
        if _ILLNESSES.intersection(rest):
            return False
        return self.words[place] == "dead" or bool(_CAUSES.intersection(self.words)) or self.at(place + 1) in {
            "in", "after", "when", "as", "while", "during", "following", "days",
        }  # fmt: skip

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
            if outcome and (groups := tuple(self._groups_after(start))):
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
        """One person whom no noun names: "Masri killed in Tehran", "No. 2 killed"."""
        for place, word in enumerate(self.words):
            subject = self._before_auxiliaries(place) - 1
            is_verb = word in EITHER or (word in {"death", "fatally"} and self._passive(place) == "killed")
            is_verb |= word == "dead" and self.at(place - 1) == "found"
            if place in places or subject < 0 or not is_verb or self._is_doubtful(place):
                continue
            name, after = self.words[subject], self.at(place + 1)
            is_counted = any(one.start <= subject < one.end for one in self.groups.values() if one.start in self.used)
            is_rank = self.at(subject - 1) in {"no", "number"} and name != "one"
            is_other = is_plural(name) or name in BREAKS or name in LINKS or name in NO_ONE or name in UNITS
            is_name = is_rank or not is_other
            if is_name and not is_counted and (after in BREAKS or not after):
                yield _Counted("killed", (Group(subject, place + 1, 1),), place)

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
        if word == "suicide" and self.at(place - 1) in {"commits", "committed"}:
            return "killed"
        return OTHER_PASSIVE.get(word)

    def _is_doubtful(self, place: int) -> bool:
        """Whether it tells of what might be, or of why people protest: "feared dead", "riot over a killing"."""
        for back in range(place - 1, max(place - 4, -1), -1):
            word = self.words[back]
            if word in DOUBTS and not (word == "to" and self._is_achieved(back, place)):
                return True
            if word not in AUXILIARIES:
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
        return self.words[place] == "death" or bool(_ACHIEVED.intersection(self.words[max(0, to - 3) : to]))

    def _says_no_one(self) -> bool:
        deaths = {"killed", "deaths", "died", "dead", "casualties", "fatalities"}
        return any(
            word in NO_ONE
            and not self.at(place + 1).isdecimal()
            and deaths.intersection(self.words[place + 1 : place + 4])
            for place, word in enumerate(self.words)
        )
