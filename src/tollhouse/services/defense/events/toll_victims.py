"""Who suffered what a headline tells: the groups and persons before and after its verbs."""

from collections.abc import Iterator

from msgspec import Struct

from tollhouse.services.defense.events.toll_verbs import (
    ACTIVE,
    ANIMALS,
    AUXILIARIES,
    BREAKS,
    COUNTED,
    DETERMINERS,
    EITHER,
    ELSEWHERE,
    FORCES,
    LINKS,
    MANNER,
    NO_ONE,
    OTHER_ACTIVE,
    OTHER_PASSIVE,
    PASSIVE,
    Group,
    Outcome,
    Verbs,
    is_person,
    is_plural,
    is_thing,
    is_time,
    word_class,
)

_QUALIFIERS = word_class("qualifiers")
_CLAUSES = word_class("clauses")
_WITHIN = word_class("prepositions") - {"of"}
_ADJECTIVES = word_class("adjectives")
_DEAD_THINGS = word_class("dead_things")
_STABS = word_class("deadly_active", "deadly_passive")
_CLAUSE_ENDS = frozenset(["", ",", ":", ";"])
_SENTENCES = word_class("sentences")
# Who was killed may have been a captive before: "kills abducted midwife", "kills aid worker abducted in March".
_CAPTURED = word_class("missing_passive", "arrested_passive")
# Log odds as in toll_verbs.py: a headline below the second is a figure of speech.
_NO_FIGURE = (-9.0, -3.5)


class Counted(Struct, frozen=True):
    """Groups that suffered an outcome, and the place of the word that says so."""

    outcome: Outcome
    groups: tuple[Group, ...]
    place: int


class Victims(Verbs):
    """Finds the groups that belong to the verbs of a headline."""

    def __init__(self, words: list[str], names: frozenset[str]) -> None:
        super().__init__(words)
        self.names = names
        # The starts of the groups whose outcome is known.
        self.used: set[int] = set()

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
        return None if self._is_act(place) else OTHER_PASSIVE.get(word)

    def _after_groups(self, places: set[int], *, is_near: bool) -> Iterator[Counted]:
        """As in "3 soldiers and 2 civilians were killed"; not `is_near`: "boy shot in head dies"."""
        for place in range(len(self.words)):
            outcome = self._passive(place)
            if outcome is None or place in places or self._is_doubtful(place):
                continue
            end = self._before_auxiliaries(place)
            if not is_near:
                end = self._end_of_distant_group(end)
            groups = self._stabbed_object(place) if self.words[place] == "death" else ()
            groups = groups or tuple(self._groups_before(end, is_linked=self.words[place] == "death"))
            is_active = self.words[place] not in PASSIVE and end == place
            if is_active and not self._is_counted(groups) and any(self._groups_after(place + 1)):
                continue  # "gunmen killed 12 villagers": the group before is who killed
            if outcome == "killed":
                groups += self._companions(place + 1)
            elif any(map(self._is_object, groups)):
                continue  # "accused of killing 5 arrested": somebody else was
            if groups and (outcome != "killed" or self._is_death(place, groups)):
                self.used.update(group.start for group in groups)
                yield Counted(outcome, groups, place)

    def _companions(self, place: int) -> tuple[Group, ...]:
        """Those who died too: "pilot dies with six passengers", "killed along with his son"."""
        start = place + (self.at(place) in {"along", "together"})
        return tuple(self._groups_after(start + 1)) if self.at(start) in {"with", "alongside"} else ()

    def _stabbed_object(self, place: int) -> tuple[Group, ...]:
        """As in "stab a man to death": who is named between the verb and "to death"."""
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

    def _groups_before(self, end: int, *, is_linked: bool = False) -> Iterator[Group]:
        """The groups that end here, last first. Groups after "including" are part of the one before.

        Unless all must be linked by words ("teens thrash boy to death"), a number may begin the next without a link.
        """
        group = self.by_end.get(end)
        while group and group.start not in self.used:
            end = group.start
            while end > 0 and (self.words[end - 1] in _QUALIFIERS or self.words[end - 1] in DETERMINERS
                               or self.words[end - 1] in _ADJECTIVES):  # fmt: skip
                end -= 1
            is_part = self.at(end - 1) == "including"
            if is_part:
                end -= 1
            else:
                yield group
            if self.at(end - 1) == "among":
                return  # "Americans among seven killed": the group before is a part of this one
            link = end
            while link > 0 and link not in self.by_end and self._is_link(link - 1):
                link -= 1
            group = self.by_end.get(link)
            is_bare = group and group.end - group.start == 1 and not is_part
            if group and self._is_object(group):
                return  # "kills 5 soldiers, 3 wounded"
            if group and link == end and (is_linked or is_bare or self.number_at(group.start)[0] is None):
                return

    def _is_object(self, group: Group) -> bool:
        start = group.start
        while self.at(start - 1) in _QUALIFIERS:
            start -= 1
        return self.at(start - 1) in ACTIVE or self.at(start - 1) in OTHER_ACTIVE

    def _is_link(self, place: int) -> bool:
        """Whether a word joins groups; a semicolon only after the first words, as in "8 rebels; soldier killed"."""
        return self.words[place] in LINKS or (self.words[place] == ";" and 0 in self.groups)

    def _before_groups(self, places: set[int]) -> Iterator[Counted]:
        """As in "bomb kills 3 soldiers and 2 civilians", "gunmen killed 12 villagers", "fatally shot a man"."""
        for place, word in enumerate(self.words):
            if place in places or self._is_doubtful(place):
                continue
            outcome: Outcome | None = OTHER_ACTIVE.get(word) or OTHER_PASSIVE.get(word)
            start = place + 1
            if word in EITHER and self.at(place - 1) in _CLAUSE_ENDS and self.at(start).endswith("'s"):
                continue  # "killed teen's grandmother says": without a subject the word describes the teen
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
                yield Counted(outcome, groups, place)

    def _groups_after(self, start: int) -> Iterator[Group]:
        """The linked groups that begin here, without one to which something else happened: "killed 12 wounded"."""
        # Without a group before the verb, "that killed two pilots released" tells of one outcome.
        is_object = start > 1 and start - 1 not in self.by_end
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
            if group is None or group.start in self.used:
                return
            is_captured = group.number == 1 or self.at(start - 1).endswith("ing")
            is_described = self.at(group.end) in ELSEWHERE or (is_captured and self.at(group.end) in _CAPTURED)
            if self._has_other_outcome(group.end) and not (is_object and is_described):
                return
            is_object = False
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

    def _may_precede(self, place: int) -> bool:
        """Whether a word may stand before the noun of a group: "a top Qaeda leader"."""
        word = self.at(place)
        if word in {"", "including", "among"} or self._is_rank(place):
            return False
        if word in _CAPTURED and is_person(self.at(place + 1)):
            return True
        return word not in BREAKS and word not in LINKS and word not in PASSIVE and word not in EITHER and not (
            word in ACTIVE or (is_plural(word) and word not in FORCES) or word in OTHER_PASSIVE or word in OTHER_ACTIVE
        )  # fmt: skip

    def _has_other_outcome(self, place: int) -> bool:
        while self.at(place) in AUXILIARIES or self.at(place) in {"others", "more"} or self.at(place).endswith("ly"):
            place += 1
        return self.at(place) in OTHER_PASSIVE or self.at(place) in ELSEWHERE

    def _named_persons(self, places: set[int]) -> Iterator[Counted]:
        """One person whom no known noun names: "Masri killed in Tehran", "truckie dies in crash", "No. 2 killed"."""
        for place, word in enumerate(self.words):
            subject = self._before_auxiliaries(place) - 1
            if place in places or subject < 0 or self._passive(place) != "killed" or self._is_doubtful(place):
                continue
            is_counted = any(one.start <= subject < one.end for one in self.groups.values() if one.start in self.used)
            is_rank = self.at(subject - 1) in {"no", "number"} and self.words[subject] != "one"
            ends = word not in EITHER or self.at(place + 1) in {*BREAKS, ""} or is_time(self.at(place + 2))
            person = Group(subject, place + 1, 1)
            is_acted_on = word in EITHER and self.at(place + 1) in BREAKS and self._is_event()
            is_animate = is_acted_on and self._may_be_animate(subject)
            is_person = not is_counted and (is_rank or is_animate or self._may_be_person(subject))
            if is_person and ends and self._is_death(place, [person]):
                yield Counted("killed", (person,), place)

    def _may_be_person(self, place: int) -> bool:
        """Whether a noun may name one person: a name, or a noun that is not known to be a thing."""
        word = self.at(place)
        return self._may_be_animate(place) and (word in self.names or not is_thing(word))

    def _may_be_animate(self, place: int) -> bool:
        """Whether a noun may stand for one person who is killed by somebody or something: "principal killed by car"."""
        word = self.at(place)
        is_other = is_plural(word) or word in NO_ONE or word in DETERMINERS or word.endswith(("'s", "ing"))
        is_other |= word in COUNTED or (word in ANIMALS and word not in self.names)
        return self.is_noun(place) and len(word) > 1 and not is_other

    def _unknown_object(self, start: int) -> tuple[Group, ...]:
        """The person after a verb whom no known noun names: "crash kills truckie"."""
        end = start
        while self.is_noun(end) and end - start < 5 and not self.words[start].endswith("ing"):
            end += 1
        is_person = self._may_be_person(end - 1) and not is_thing(self.words[end - 1])
        return (Group(start, end, 1),) if end > start and is_person and self._is_event() else ()

    def _group_over(self, place: int) -> Group | None:
        """The group whose noun is here: "three more lives"."""
        return next(
            (one for one in self.groups.values() if one.start < place < one.end and one.start not in self.used), None
        )
