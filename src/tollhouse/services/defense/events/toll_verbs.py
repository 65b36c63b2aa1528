"""What the verbs of a headline mean, and whether the words around them tell of an event that kills."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from tollhouse.services.defense.events.people import (
    ACTIVE,
    AUXILIARIES,
    BREAKS,
    DOUBTS,
    EITHER,
    LARGEST_NUMBER,
    LINKS,
    LOST_LIVES,
    MANNER,
    PRONOUNS,
    Group,
    Headline,
    is_person,
    word_class,
)
from tollhouse.services.defense.events.toll_context import Context, read_context

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
