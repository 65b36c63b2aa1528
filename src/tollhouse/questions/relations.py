"""Reads relations between rows: nouns and verbs for them, what they lead to, and their chains."""

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from msgspec.structs import replace

from tollhouse.questions.amounts import compared, relation_named
from tollhouse.questions.frames import (
    COMPARISONS,
    NEGATIONS,
    Frame,
    Part,
    all_of,
    any_of,
    named_in,
    split,
)
from tollhouse.questions.linking import Item, Meaning
from tollhouse.questions.normalise import fold, phrase
from tollhouse.questions.quantities import SUPERLATIVES, Quantities
from tollhouse.questions.query import EVERYTHING, Among, Condition, Not, Order, Related, Rows, Test
from tollhouse.questions.vocabulary import Relation

# Rows that a relation leads to, with the word before each and whether it is excluded.
Operands: TypeAlias = list[tuple[str, bool, Condition]]
_COMPARATIVES = ("comparative_more", "comparative_less")
ANY: Operands = [("", False, EVERYTHING)]
# So many words at most say what a relation carries.
MOST_GOODS = 6


class Relations(Quantities):
    """Reads nouns and verbs of relations at the current place; the other phrases are read by Clauses."""

    def _step(self, frame: Frame) -> bool:
        raise NotImplementedError

    def _ends_nested(self, item: Item, frame: Frame) -> bool:
        raise NotImplementedError

    def _finish(self, frame: Frame) -> None:
        raise NotImplementedError

    def _other_kind(self, item: Item, meaning: Meaning, frame: Frame) -> bool:
        raise NotImplementedError

    def _refers(self, item: Item) -> Condition | None:
        """The rows that a pronoun stands for: of "it" those that were named, of "them" those that were the answer."""
        if not item.says("those") or item.find("value", "kind", "party", "verb"):
            return None
        if self.before is None:
            return self._mentioned
        if item.says("it") and (named := named_in(self.before.where)) is not None:
            return named
        is_chosen = self.before.order is not None and self.before.limit is not None
        return Among(self.before) if is_chosen else self.before.where

    def _nth_rows(self, item: Item) -> tuple[Condition, int] | None:
        """As in "the second one", "the first two": rows of the answer before by their places, and where they end."""
        ordinal = item.find("ordinal")
        if self.before is None or ordinal is None:
            return None
        number, after, count = self.at(self.i + 1), self.i + 1, 1
        if number is not None and number.number is not None:
            count, after = int(number.number), after + 1
        following = self.at(self.skip_light(after, "of", "those"))
        if following is not None and following.find("kind", "value", "attribute", "extreme", "party", "range"):
            return None
        if following is not None and following.says(*SUPERLATIVES):
            return None
        before = self.before
        rows = Rows(before.kind, before.where, before.order, count, before.skip + int(ordinal.value) - 1)
        return Among(rows), after

    def _test(self, kind: str, meanings: list[Meaning], words: str) -> Test:
        """That the row has one of these values; for texts, that it contains one."""
        name = meanings[0].name
        attribute = self.linker.attribute_named(kind, name) or self.linker.attribute(meanings[0])
        is_text = attribute is not None and attribute.type == "text"
        values = tuple(dict.fromkeys(meaning.value for meaning in meanings))
        return Test(name, "contains" if is_text else "is", values, words)

    def _possessive(self, index: int) -> int:
        """The place after "'s", or the same place where there is none."""
        item = self.at(index)
        if item is None or not item.says("'") or not item.glued:
            return index
        following = self.at(index + 1)
        return index + 2 if following and following.glued and following.text.lower() == "s" else index + 1

    def _party_after(self, index: int) -> tuple[Meaning, int] | None:
        """The relation noun that a phrase ends in: "[memory] suppliers", and its place."""
        index = self.skip_light(index)
        while (item := self.at(index)) is not None:
            party = item.find("party")
            following = self.at(self.skip_light(index + 1))
            if party is not None and item.find("verb") and following is not None and following.is_name:
                return None
            if party is not None:
                return party, index
            is_modifier = item.find("value", "range", "transitive") and not item.find("kind")
            is_joined = (
                item.says("or", "and", ",", "only")
                and (following := self.at(index + 1))
                and following.find("value", "range")
            )
            if not is_modifier and not is_joined:
                return None
            if item.find("value") and any(each.name == "id" for each in item.meanings):
                return None
            index += 1
        return None

    def _owned(self, owner: Condition, party: tuple[Meaning, int], frame: Frame) -> bool:
        """As in "NVIDIA's memory suppliers": the modifiers belong to the relation noun."""
        meaning, place = party
        inner = Frame(meaning.kind)
        negation, self._negation = self._negation, False
        conjunction, self._conjunction = self._conjunction, ""
        light, self._light_since_part = self._light_since_part, False
        link: list[Test] = []
        start = self.i
        while self.i < place:
            item = self.items[self.i]
            if (tied := self._link_value(item, meaning.relation)) and not self._has_own_value(item, meaning.kind):
                link.append(tied)
                self.i += 1
            else:
                self._step(inner)
        words = " ".join(item.text for item in self.items[max(0, self.i - 2) : place + 1])
        self.i = place + 1
        related = Related(meaning.relation, bool(meaning.value), owner, tuple(link), self._take_transitive(), words)
        condition = all_of([related, *(part.condition for part in inner.parts)])
        after = self._possessive(self.i)
        chained = self._party_after(after)
        if chained is not None and after > self.i:
            self.i = after
            self._negation, self._conjunction, self._light_since_part = negation, conjunction, light
            return self._owned(condition, chained, frame)
        self._negation, self._conjunction, self._light_since_part = negation, conjunction, light
        if not frame.has_noun and not frame.is_named and not frame.parts:
            frame.kind = meaning.kind
        self.add(frame, condition, meaning.relation, words, at=start)
        frame.has_noun = frame.has_noun or self._context != "with"
        return True

    def _has_own_value(self, item: Item, kind: str) -> bool:
        return any(
            each.role in {"value", "range"} and not each.relation and each.kind == kind for each in item.meanings
        )

    def _link_value(self, item: Item, relation: str) -> Test | None:
        matched = [each for each in item.meanings if each.role == "value" and each.relation == relation]
        kind = self.linker.link_kinds.get(relation)
        if kind is not None and not matched:
            matched = [each for each in item.meanings if each.role == "value" and each.kind == kind.name]
        return self._test(matched[0].kind, matched[:1], item.text) if matched else None

    def _tie(self, frame: Frame, tests: Sequence[Test]) -> bool:
        """Give the conditions to the links by which the rows are related: "suppliers of X since 2025"."""
        part = next((each for each in reversed(frame.parts) if leads(each.condition)), None)
        related = part.condition.of if part is not None and isinstance(part.condition, Not) else part and part.condition
        if part is None or not isinstance(related, Related):
            return False
        own = {attribute.name for attribute in self.linker.relations[related.relation].link}
        if not all(test.attribute in own or self.linker.of_link(related.relation, test.attribute) for test in tests):
            return False
        tied = replace(related, link=(*related.link, *tests))
        words = " ".join(dict.fromkeys(test.words for test in tests))
        if self._negation and not part.is_negated:
            self._negation = False
            frame.parts.append(Part(Not(tied), part.key, words, self.i, is_negated=True))
        else:
            part.condition = Not(tied) if isinstance(part.condition, Not) else tied
        return True

    def _is_of_links(self, kind: str, frame: Frame) -> bool:
        """Whether a kind's rows are the links by which the frame's rows are related."""
        parts = [part.condition for part in frame.parts if leads(part.condition)]
        relations = {
            each.relation
            for each in (one.of if isinstance(one, Not) else one for one in parts[-1:])
            if isinstance(each, Related)
        }
        return kind != frame.kind and not relations.isdisjoint(self.linker.kinds[kind].links)

    # Relations.

    def _leads_to_party(self, frame: Frame) -> bool:
        """As in "companies with Japanese suppliers": the value belongs to the relation noun after it."""
        return self._context == "with" and self._has_rows(frame) and self._party_after(self.i) is not None

    def _has_rows(self, frame: Frame) -> bool:
        """Whether the rows that something is said of were named before: by a noun, a name, "who" or values."""
        return frame.has_noun or frame.is_named or bool(frame.parts) or bool({"who", "which"} & self.forms.keys())

    def _nested_party(self, frame: Frame) -> bool:
        """A relation noun with its modifiers as something that the frame's rows have."""
        matched = self._party_after(self.i)
        assert matched is not None
        meaning, place = matched
        negation, self._negation = self._negation, False
        inner = Frame(meaning.kind, is_nested=True, has_noun=True)
        start, self._conjunction, self._light_since_part = self.i, "", False
        while self.i < place:
            self._context = ""
            self._step(inner)
        self.i = place + 1
        transitive = self._take_transitive()
        self._light_since_part = bool(inner.parts)
        self._context = ""
        self._modifiers(inner)
        words = " ".join(item.text for item in self.items[start : self.i])
        condition = Related(meaning.relation, not meaning.value, inner.where, (), transitive, words)
        self._negation = negation
        self.add(frame, condition, meaning.relation, words, at=start)
        return True

    def _modifiers(self, inner: Frame) -> None:
        """What follows a noun and belongs to it: "in Japan", "that make memory"; ends before a new clause."""
        depth = self.i
        while self.i < len(self.items):
            item = self.items[self.i]
            if (
                self._ends_nested(item, inner)
                or item.says("but")
                or (item.says("and") and not self._continues(self.i + 1))
            ):
                break
            if (
                item.find("value", "range", "time") is None
                and not self._is_light(item, ("or", "and", ","))
                and not item.says(*NEGATIONS)
            ):
                break
            if item.says(*NEGATIONS) and self.i == depth and not item.says("except"):
                break
            self._step(inner)
        self._conjunction = ""

    def _continues(self, index: int) -> bool:
        item = self.at(self.skip_light(index))
        return item is not None and item.find("value", "range") is not None

    def _party(self, item: Item, frame: Frame) -> bool:
        meaning = item.find("party")
        if meaning is None or (item.find("verb") and self._acts()):
            return False
        if meaning.kind != frame.kind and frame.has_noun:
            return self._other_kind(item, meaning, frame)
        if self._measures(item, meaning, frame):
            return True
        if self._context == "with" and self._has_rows(frame):
            return self._nested_party(frame)
        at = self.i
        self.i += 1
        tied = self._carried(meaning)
        operands = self._operands_of(meaning)
        tied += self._links(meaning.relation) if operands else []
        if not frame.has_noun and (not frame.is_named or frame.requested is not None):
            frame.kind = meaning.kind
        if operands is None and frame.subject is not None:
            subject, frame.subject = frame.subject, None
            operands = [("", False, subject.condition)]
        shared = frame.open_party is not None and operands is not None
        if operands is None:
            frame.open_party = meaning
        link = Related(meaning.relation, bool(meaning.value), EVERYTHING, tuple(tied), words=item.text)
        self._add_related(frame, link, operands or ANY, at=at, any_and=True)
        if shared and operands is not None:
            self._fill_party(frame, operands, before=len(frame.parts) - 1)
        frame.has_noun = True
        return True

    def _carried(self, meaning: Meaning) -> list[Test]:
        """What the relation carries, before its rows: "suppliers of substrates to Intel"."""
        item, start = self.at(self.i), self.i
        if item is None or not item.says("of", "by", "with"):
            return []
        self.i += 1
        tied = self._links(meaning.relation)
        following = self.at(self.i)
        if tied and following is not None and following.says("to", "of", "from", "in"):
            return tied
        self.i = start
        return []

    def _acts(self) -> bool:
        """Whether a word that is a noun and a verb is the verb here."""
        before = self.at(self.i - 1)
        return before is not None and not before.says("all", "with", "have", "'", "of", "and") and not before.number

    def _measures(self, item: Item, meaning: Meaning, frame: Frame) -> bool:
        """Whether the noun is what is counted of each row: "more suppliers than", "suppliers on average"."""
        comparatives = {*_COMPARATIVES, "as_many", "difference", "average", "median"} & self.forms.keys()
        if not (comparatives or self.averages or self.is_compared) or frame.measured is not None or frame.is_nested:
            return False
        frame.measured = meaning
        frame.order_words = item.text
        relation = self.linker.relations[meaning.relation]
        if not frame.is_named and frame.subject is None and not frame.has_noun:
            frame.kind = relation.target if meaning.value else relation.source
        self.i += 1
        operands = self._operands_of(meaning)
        if operands:
            self.add(frame, self._any(operands), "id", item.text)
        return True

    def _operands_of(self, meaning: Meaning) -> Operands | None:
        """The rows after "suppliers of"; None where nothing follows that they could be of."""
        item = self.at(self.i)
        if item is None or not item.says("of", "to", "from", "by", "in"):
            return None
        relation = self.linker.relations[meaning.relation]
        start = self.i
        self.i += 1
        following = self.at(self.skip_light(self.i))
        if following is not None and following.find("value") and not self._is_row_phrase(self.skip_light(self.i)):
            self.i = start
            return None
        with self.aside():
            operands = self.operands(relation.target if meaning.value else relation.source)
        if not operands:
            self.i = start
        return operands or None

    def _is_row_phrase(self, index: int) -> bool:
        """Whether rows stand at a place, by name or by a noun, not just a value: "from Japan"."""
        while (item := self.at(index)) is not None:
            if any(each.name == "id" for each in item.meanings if each.role == "value") or item.find("party", "kind"):
                return True
            if not item.find("value", "range", "extreme") and not self._is_light(item, ("or", "and", ",", *NEGATIONS)):
                return False
            index += 1
        return False

    def _fill_party(self, frame: Frame, operands: Operands, before: int | None = None) -> None:
        """Give the relation noun that stands without its rows those rows: "how many suppliers does NVIDIA have"."""
        meaning, frame.open_party = frame.open_party, None
        assert meaning is not None
        for part in frame.parts[:before]:
            if isinstance(part.condition, Related) and part.condition.to == EVERYTHING and part.key == meaning.relation:
                part.condition = self._related(part.condition, operands, any_and=True)
                return

    def _take_transitive(self) -> bool:
        item = self.at(self.i)
        if item is not None and item.find("transitive"):
            self.i += 1
            return True
        taken, self._transitive = self._transitive, False
        return taken

    def _verb(self, item: Item, frame: Frame) -> bool:
        if self._introduces_value(item, frame):
            return False
        meaning = self._verb_of(item, frame)
        before = self.at(self.skip_back(self.i - 1))
        if item.find("attribute") and before is not None and before.says("how_many", "most", "least", *_COMPARATIVES):
            return False
        if meaning is None or (frame.is_nested and frame.is_named) or self._is_counted_noun(item):
            return False
        relation = self.linker.relations[meaning.relation]
        at = self.i
        passive = self._is_passive(at, relation)
        self.i += 1
        transitive = self._take_transitive()
        tied = (self._goods(meaning) if meaning.kind else []) or self._links(meaning.relation)
        by = self.at(self.i)
        passive = passive or (by is not None and by.says("by") and not by.says("of"))
        is_source = bool(meaning.value) != passive
        if self._ranks_links(frame, f"{relation.name}.{'out' if is_source else 'in'}", at):
            return True
        if self._counts_links(frame, f"{relation.name}.{'out' if is_source else 'in'}", at):
            return True
        with self.aside():
            by_whom = self._skip_whom()
            operands = [] if by_whom else self.operands(relation.target if is_source else relation.source)
        self._context = ""
        tied += self._links(meaning.relation)
        if operands and frame.subject is None and self._fronted(frame):
            is_source = not is_source
        is_source ^= at == self._first_said() and bool(operands) and self._precedes_object()
        self._share_operands(frame, operands)
        subject = None if operands else self._take_subject(frame)
        if subject is not None:
            is_source ^= not self._is_object(at - 1)
            operands = [("", False, subject)]
        elif frame.subject is not None:
            frame.parts.append(frame.subject)
            frame.subject, frame.is_named = None, True
        if not frame.has_noun and not frame.is_named:
            frame.kind = relation.source if is_source else relation.target
        link = Related(relation.name, is_source, EVERYTHING, tuple(tied), transitive, item.text)
        self._add_related(frame, link, operands or ANY, at=at)
        return True

    def _introduces_value(self, item: Item, frame: Frame) -> bool:
        """Whether a verb is a value of links, or only introduces one: "relations backed by a filing"."""
        if not self.linker.kinds[frame.kind].links or not frame.has_noun:
            return False
        following = self.at(self.skip_light(self.i + 1))
        names = {each.name for each in item.meanings if each.role == "preposition" and each.kind == frame.kind}
        of_own = (each for each in (following.meanings if following else ()) if each.kind == frame.kind)
        return self._has_own_value(item, frame.kind) or any(each.name in names for each in of_own)

    def _verb_of(self, item: Item, frame: Frame) -> Meaning | None:
        """The verb that a phrase can be; of several the one whose relation the rows have."""
        verbs = [each for each in item.meanings if each.role == "verb"]
        relations = [self.linker.relations[each.relation] for each in verbs]
        own = [verb for verb, each in zip(verbs, relations, strict=True) if frame.kind in (each.source, each.target)]
        return next(iter((frame.has_noun and own) or verbs), None) or self._stranded(item)

    def _share_operands(self, frame: Frame, operands: Operands) -> None:
        """Give a verb without rows those of the verb that is joined to it: "supply or buy from X"."""
        last = frame.parts[-1] if frame.parts and self._conjunction else None
        if last is not None and operands and isinstance(last.condition, Related) and last.condition.to == EVERYTHING:
            last.condition = self._related(last.condition, operands)

    def _is_object(self, place: int) -> bool:
        """As in "wer hat in X investiert": where the verb stands last, a name after a preposition is its object."""
        before = self.at(place - 1)
        return self.language == "de" and before is not None and before.says("in", "to", "from", "by", "of")

    def _skip_whom(self) -> bool:
        """As in "X is supplied by which companies": what follows the verb is what is requested."""
        item, following = self.at(self.i), self.at(self.i + 1)
        if item is None or following is None or not item.says("by", "to", "from") or not following.says("which", "who"):
            return False
        self.forms.setdefault("which", self.i + 1)
        self.i += 2
        noun = self.at(self.i)
        self.i += noun is not None and noun.find("kind") is not None
        return True

    def _is_counted_noun(self, item: Item) -> bool:
        """Whether a word that can be a verb is a noun: "how many mentions does X have"."""
        before, after = self.at(self.i - 1), self.at(self.i + 1)
        is_auxiliary = after is not None and after.says("do", "have", "be")
        counted = is_auxiliary and before is not None and before.says("how_many", "difference")
        return counted and item.find("attribute") is not None

    def _precedes_object(self) -> bool:
        """Whether a name follows the rows of a verb that leads a question: its subject stands before its object."""
        place = self.skip_light(self.i)
        if (item := self.at(place)) is not None and item.find("transitive"):
            item = self.at(self.skip_light(place + 1))
        return item is not None and item.is_name

    def _first_said(self) -> int:
        """Where the question begins after a greeting."""
        said = (i for i, item in enumerate(self.items) if not item.find("mark") and not item.says("greeting", "filler"))
        return next(said, 0)

    def _fronted(self, frame: Frame) -> bool:
        """Whether the question begins with the object, and what follows the verb is its subject: "a quién vende X"."""
        if frame.is_nested or frame.is_named:
            return False
        if "whom" in self.forms:
            return self.items[self.forms["whom"]].text.lower() not in {"whom", "to whom", "by whom"}
        first = self._first_said()
        following = self.at(first + 1)
        asks = following is not None and following.says("which", "who", "how_many")
        return asks and self.items[first].says("to") and ("how_many" in self.forms or "which" in self.forms)

    def _ranks_links(self, frame: Frame, key: str, at: int) -> bool:
        """As in "appears in the most stories": the order by how many rows the relation leads to."""
        start = self.skip_light(self.i)
        item = self.at(start)
        if item is None or not item.says("most", "least") or self.is_compared or frame.is_nested:
            return False
        noun = self.at(self.skip_light(start + 1))
        if noun is None or not noun.find("kind", "party"):
            return False
        self.i = self.skip_light(start + 1) + 1
        frame.superlative = "most" if item.says("most") else "least"
        if frame.requested is not None and noun.find("kind"):
            return True
        if any(each.role == "kind" and each.value for each in noun.meanings):
            self.unknown.append(noun)
        frame.order, frame.limit = Order(key, item.says("most")), frame.limit or 1
        frame.order_words = " ".join(each.text for each in self.items[at : self.i])
        if not frame.has_noun and not frame.parts:
            relation, _, end = key.partition(".")
            declared = self.linker.relations[relation]
            frame.kind = declared.source if end == "out" else declared.target
        return True

    def _counts_links(self, frame: Frame, key: str, at: int) -> bool:
        """As in "sell to more than 3 others": how many rows the relation leads to."""
        start = self.skip_light(self.i)
        item = self.at(start)
        if item is None or not (item.says(*COMPARISONS) or item.number is not None):
            return False
        number = self.number_at(start if item.number is not None else start + 1)
        following = self.at(number[1]) if number else None
        if number is None or following is None or not (following.find("kind") or following.says("filler")):
            return False
        after = self.at(self.skip_light(number[1] + 1))
        if after is not None and after.find("value", "verb"):
            return False
        self.i = number[1] + 1
        name = next((each for each in COMPARISONS if item.says(each)), "exactly")
        words = " ".join(each.text for each in self.items[at : self.i])
        self.add(frame, compared(key, relation_named(name), [number[0]], words), key, words, at=at)
        return True

    def _stranded(self, item: Item) -> Meaning | None:
        """A verb whose preposition stands elsewhere: "to whom does X sell", "sell chips to X"."""
        for meaning in item.meanings:
            if meaning.role == "stranded" and any(meaning.kind in other.text.lower().split() for other in self.items):
                return Meaning("verb", meaning.name, meaning.kind, meaning.value, meaning.relation)
        return None

    def _goods(self, verb: Meaning) -> list[Test]:
        """What stands between a verb and its preposition: "sell anything to X", "leases data centres to X"."""
        for place in range(self.i, min(self.i + MOST_GOODS, len(self.items))):
            item = self.items[place]
            if item.text.lower() == verb.kind and place > self.i:
                goods, self.i = self.items[self.i : place], place
                return [test for each in goods if (test := self._link_value(each, verb.relation))]
            is_goods = item.find("value", "attribute") or item.says("anyone", "all", "filler", "and", "or")
            if not is_goods or item.is_name or item.find("kind", "party"):
                return []
        return []

    def _take_subject(self, frame: Frame) -> Condition | None:
        """The rows before a verb without an object, where the question asks for the object: "who does X supply"."""
        if frame.subject is not None:
            part, frame.subject = frame.subject, None
            self._subject = part.condition
            return part.condition
        if self._conjunction and self._subject is not None:
            return self._subject  # "does X both buy from and sell to"
        is_end = self.at(self.skip_light(self.i)) is None or self.items[self.skip_light(self.i)].says("?")
        if frame.is_named and not frame.has_noun and ({"who", "which"} & self.forms.keys() or is_end):
            frame.is_named = False
            return frame.parts.pop().condition
        return None

    def _is_passive(self, index: int, relation: Relation) -> bool:
        """As in "is supplied": a form of "be" before, and no -ing."""
        first = fold(self.items[index].text).split()[0]
        declared = {phrase(verb)[0] for verb in (*relation.verbs, *relation.inverse_verbs)}
        if first.endswith("ing") or first in declared:
            # As declared, it is no participle: "exposed to", "downstream of".
            return False
        if any(item.says("passive") for item in self.items[:index]):
            return True  # German: "von X wird Y beliefert"
        before = self.at(index - 1)
        while (
            before is not None
            and (before.says(*NEGATIONS) or before.says("also", "filler", "only", "both") or before.find("transitive"))
            and not before.says("be")
        ):
            index -= 1
            before = self.at(index - 1)
        return before is not None and before.says("be")

    def _links(self, relation: str) -> list[Test]:
        """What the relation carries: "HBM" in "supply HBM to"."""
        result: list[Test] = []
        while True:
            index = self.skip_light(self.i, "and", "or") if result else self.skip_light(self.i)
            item = self.at(index)
            if any(each.says("be") for each in self.items[self.i : index]):
                return result
            if not result and self._is_goods(index, relation):
                self.i = index + 1
                return result
            is_row = item is not None and (item.find("party", "kind") or item.is_name)
            if item is not None and not is_row and (test := self._link_value(item, relation)):
                result.append(test)
                self.i = index + 1
            else:
                return result

    def _is_goods(self, index: int, relation: str) -> bool:
        """Whether only a noun for what the relation carries stands here: "delivers goods to X"."""
        item, following = self.at(index), self.at(index + 1)
        if item is None or following is None or not following.says("to", "from", "of"):
            return False
        return any(each.role == "attribute" and each.relation == relation for each in item.meanings)

    def _add_related(
        self, frame: Frame, link: Related, operands: Operands, *, at: int | None = None, any_and: bool = False
    ) -> None:
        """Add the relation to each of the operands. `any_and`: "and" between them means any of them."""
        if self._take_transitive():
            link = replace(link, transitive=True)
        start = self.i if at is None else at
        said = " ".join(item.text for item in self.items[start : max(self.i, start + 1)])
        self.add(frame, self._related(link, operands, any_and=any_and), link.relation, said, at=at)

    def _related(self, link: Related, operands: Operands, *, any_and: bool = False) -> Condition:
        """The relation to each operand, joined as the operands are: any of them, all of them, not the negated ones."""
        both, self._both = self._both or "common" in self.forms, False
        has_or = any(conjunction == "or" for conjunction, _, _ in operands)
        included = [condition for _, is_negated, condition in operands if not is_negated]
        excluded: list[Condition] = [
            Not(replace(link, to=condition)) for _, is_negated, condition in operands if is_negated
        ]
        joined = any(conjunction in {"and", "but"} for conjunction, is_negated, _ in operands if not is_negated)
        if not has_or and (both or (joined and not any_and)):
            single = [one for each in included for one in (split(each) if isinstance(each, Test) else [each])]
            return all_of([*(replace(link, to=one) for one in single), *excluded])
        if not included:
            return all_of(excluded)
        alternatives = included[0]
        for one in included[1:]:
            alternatives = any_of(alternatives, one)
        return all_of([replace(link, to=alternatives), *excluded])

    @staticmethod
    def _any(operands: Operands) -> Condition:
        conditions = [condition for _, _, condition in operands]
        return reduce(any_of, conditions)

    def operands(self, kind: str) -> Operands:
        """The rows of a kind that are named here, with the word before each and whether it is excluded."""
        result: Operands = []
        while self.i < len(self.items):
            start = self.i
            conjunction, negation = self._between_operands(first=not result)
            if result and not conjunction:
                self.i = start
                break
            first = self.at(self.i)
            negation ^= first is not None and first.says("no_one") and not first.says("anyone")
            condition = self.noun_phrase(kind)
            is_apposed = (
                conjunction == "," and condition is not None and not _is_row(condition) and _is_row(result[-1][2])
            )
            if condition is None or is_apposed or (result and self._starts_clause()):
                self.i = start
                break
            result.append((conjunction, negation, condition))
        either, self._either = self._either, False
        if either or any(conjunction == "or" for conjunction, _, _ in result):
            result = [
                ("or" if not is_negated else conjunction, is_negated, condition)
                for conjunction, is_negated, condition in result
            ]
        return result

    def _between_operands(self, *, first: bool) -> tuple[str, bool]:
        conjunction, negation = "", False
        while (item := self.at(self.i)) is not None:
            following = self.at(self.i + 1)
            bare_but = item.says("but") and following is not None and following.find("value", "party")
            if item.says("except") or (bare_but and not first):
                return "", False
            if conjunction and item.says("be", "do") and not item.says("filler", "of", "to"):
                return "", False
            if item.says(*NEGATIONS) and not item.find("value"):
                negation = True if item.says("nor") else not negation
                conjunction = conjunction or ("but" if item.says("nor") else "")
            elif item.says("or", "and", "but", ",", "/", "&") and not item.find("value"):
                if first:
                    break
                word = next(name for name in ("or", "/", "but", "and", "&", ",") if item.says(name))
                conjunction = {"/": "or", "&": "and"}.get(word, word)
            elif item.says("both", "either", "neither"):
                self._both = self._both or item.says("both")
                self._either = self._either or (item.says("either") and not item.says("both"))
                negation = negation or item.says("neither")
            elif not self._is_light(item) or self._refers(item) or item.find("ordinal"):
                break
            self.i += 1
        return conjunction, negation

    def _starts_clause(self) -> bool:
        """Whether a verb follows the name just read: it is the subject of another clause."""
        item = self.at(self.skip_light(self.i))
        return item is not None and item.find("verb") is not None and not item.find("party")

    def noun_phrase(self, kind: str) -> Condition | None:  # noqa: PLR0911
        """The rows that one noun phrase describes; None where no noun phrase begins."""
        item = self.at(self.i)
        if item is None:
            return None
        back, nth = self._refers(item), self._nth_rows(item)
        if back is not None or nth is not None:
            back, self.i = nth or (back, self.i + 1)
            self.refers_back = self.before is not None
            return back
        if item.says("anyone", "no_one"):
            self.i += 1
            if (following := self.at(self.i)) is None or not following.says("in", "from", "that", "with"):
                return EVERYTHING
            return self._generic(kind)
        names = [each for each in item.meanings if each.role == "value" and each.name == "id" and each.kind == kind]
        if names:
            values = tuple(dict.fromkeys(each.value for each in names))
            test: Condition = Test("id", "is", values, item.text)
            self._mentioned = test
            self.i += 1
            end = self._possessive(self.i)
            owned = self._party_after(end)
            if owned is not None and (end > self.i or self.skip_light(end) == end):
                inner = Frame(kind)
                self.i, self._context = end, ""
                self._owned(test, owned, inner)
                return inner.where
            self.i = end
            return test
        fits = any(self._fits_kind(meaning, kind) for meaning in item.meanings)
        acts = item.find("verb") and (not item.find("party", "value") or item.text.lower().endswith("ing"))
        if fits and not acts:
            return self._generic(kind)
        return None

    def _fits_kind(self, meaning: Meaning, kind: str) -> bool:
        """Whether a phrase can describe rows of a kind."""
        if meaning.role in {"party", "kind"}:
            return True
        if meaning.role not in {"value", "range", "extreme"} or meaning.relation:
            return False
        return meaning.kind == kind or self.linker.attribute_named(kind, meaning.name) is not None

    def _generic(self, kind: str) -> Condition | None:
        """Rows that are described: "Japanese companies that make memory"."""
        start = self.i
        inner = Frame(kind, is_nested=True)
        saved = self._context, self._conjunction, self._negation, self._light_since_part, self._both
        self._negation = self._light_since_part = self._both = False
        self._conjunction = self._context = ""
        while self.i < len(self.items):
            item = self.items[self.i]
            if item.says("but", ";", "?") or (not inner.has_noun and item.says("to", "from") and inner.parts):
                break
            if inner.has_noun and item.says("and", ",") and not self._continues(self.i + 1):
                break
            if item.says("do") and (inner.has_noun or inner.parts):
                break
            if not self._step(inner):
                break
        self._finish(inner)
        self._context, self._conjunction, self._negation, self._light_since_part, self._both = saved
        if not inner.has_noun and not inner.parts:
            self.i = start
            return None
        return inner.where


def _is_row(condition: Condition) -> bool:
    return isinstance(condition, Test) and condition.attribute == "id"


def leads(condition: Condition) -> bool:
    """Whether the condition is on the rows that a relation leads to."""
    return isinstance(condition.of if isinstance(condition, Not) else condition, Related)


def transitive(condition: Condition) -> Condition:
    """The condition with its relation followed any number of times."""
    if isinstance(condition, Not):
        return Not(transitive(condition.of))
    return replace(condition, transitive=True) if isinstance(condition, Related) else condition
