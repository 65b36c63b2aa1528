"""Reads noun phrases and their modifiers: conditions, lists, negation, times, attributes and names."""

from tollhouse.questions.frames import (
    COMPARISONS,
    FORMS,
    NEGATIONS,
    NUMERIC,
    Frame,
    Part,
    all_of,
    any_of,
    is_attribute,
    negated,
    range_test,
)
from tollhouse.questions.linking import Item, Meaning
from tollhouse.questions.query import EVERYTHING, Among, Condition, Not, Related, Test
from tollhouse.questions.relations import ANY, Relations, leads, transitive
from tollhouse.questions.times import TimePhrase
from tollhouse.questions.vocabulary import Attribute

_CONTEXTS = frozenset({"in", "of", "by", "to", "from", "that", "about", "except", "only"})


def _within(name: str, phrase: TimePhrase, words: str) -> list[Test]:
    """That a time lies within a phrase's."""
    since = [Test(name, "at_least", (phrase.since.isoformat(),), words)] if phrase.since else []
    return since + ([Test(name, "below", (phrase.until.isoformat(),), words)] if phrase.until else [])


class Clauses(Relations):
    """One pass over the items of a question. `forms` keeps where words of the question's form stand."""

    # The main loop.

    def read(self, frame: Frame) -> Frame:
        """Read items into the frame until the end, or until what the frame cannot hold."""
        self._outer = frame
        while self.i < len(self.items):
            if not self._step(frame):
                break
        self._finish(frame)
        return frame

    @property
    def noun(self) -> Meaning | None:
        """The last attribute noun that was read."""
        return self._noun[0] if self._noun is not None else None

    def _step(self, frame: Frame) -> bool:
        """Read one phrase; False where the frame ends."""
        item = self.items[self.i]
        if frame.is_nested and self._ends_nested(item, frame):
            return False
        readers = (
            self._time,
            self._marks,
            self._operation,
            self._nth,
            self._superlative,
            self._comparison,
            self._extreme,
            self._text,
            self._reference,
            self._party,
            self._verb,
            self._value,
            self._kind,
            self._attribute,
            self._function,
        )
        start = self.i
        for reader in readers:
            if reader(item, frame):
                if self.i == start:
                    self.i += 1
                return True
        if item.find("transitive"):
            self._read_transitive(frame)
        elif self._is_what_stops(item):
            self.ignored.append(item.text)
        elif item.find("unavailable") and not item.find("preposition"):
            self.unavailable.append(item)
        elif not item.find("mark", "preposition"):
            self._unknown(item)
        self.i += 1
        return True

    def _is_what_stops(self, item: Item) -> bool:
        """Whether a verb only completes the one before it: "stopped delivering"."""
        before = self.at(self.i - 1)
        return before is not None and before.find("operation") is not None and item.text.lower().endswith("ing")

    def _read_transitive(self, frame: Frame) -> None:
        """Words such as "indirectly": for the relation that follows at once, else for the one before."""
        index = self.skip_light(self.i + 1, "direct", "or", "and")
        following = self.at(index)
        last = next((part for part in reversed(frame.parts) if leads(part.condition)), None)
        self._conjunction = ""
        if last is not None and (following is None or not following.find("verb", "party")):
            last.condition = transitive(last.condition)
        else:
            self._transitive = True

    def _unknown(self, item: Item) -> None:
        if item.text.lower().endswith("ly") and len(item.text) > 4 and not self._is_adjective(self.i):
            self.ignored.append(item.text)
        else:
            self.unknown.append(item)

    def _is_adjective(self, index: int) -> bool:
        """Whether a word stands where only an adjective does: before a noun, or last after "be"."""
        before, after = self.at(index - 1), self.at(index + 1)
        if after is None or after.find("mark"):
            return before is not None and before.says("be")
        return bool(after.find("kind", "party", "attribute")) and not after.find("verb")

    def _ends_nested(self, item: Item, frame: Frame) -> bool:
        if item.says(";", "?", "than") or self._is_of_outer_links(item, frame):
            return True
        if item.says("do", "exists", "how_many", "where", "when") and frame.parts and not item.says("filler"):
            return not item.says("in", "with")
        return False

    def _is_of_outer_links(self, item: Item, frame: Frame) -> bool:
        """Whether a phrase says something of the links at whose ends the frame's rows stand."""
        outer = self._outer
        if outer is None or outer.kind == frame.kind or not self.linker.kinds[outer.kind].links:
            return False
        if not frame.has_noun and not frame.parts:
            return False
        said = [each for each in item.meanings if each.role in {"value", "preposition", "time"}]
        is_time = any(each.role == "time" for each in said)
        return item.says("to") or is_time or bool(said and all(each.kind == outer.kind for each in said))

    def _finish(self, frame: Frame) -> None:
        """Attach what waited for a verb."""
        if frame.subject is not None:
            subject, frame.subject = frame.subject, None
            if frame.open_party is not None:
                self._fill_party(frame, [("", False, subject.condition)])
            else:
                frame.parts.append(subject)
                frame.is_named = True

    # Readers: each returns whether it read the item.

    def _time(self, item: Item, frame: Frame) -> bool:
        meaning = item.find("time")
        if meaning is None:
            return False
        phrase = meaning.value
        name = self._time_attribute(frame, phrase)
        if phrase.outside:
            self.outside.append(item.text)
        elif name is None:
            if not self._tie(frame, self._times_of_link(frame, phrase, item.text)):
                self.unknown.append(item)
        elif phrase.since is not None or phrase.until is not None:
            self.add(frame, all_of(_within(name, phrase, item.text)), name, item.text)
        return True

    def _times_of_link(self, frame: Frame, phrase: TimePhrase, words: str) -> list[Test]:
        """What a time says of the links by which the rows are related; nothing where these have no time.

        A time is that of links only where one of their nouns, or one of that time, is said: "a deal of 2025".
        """
        if not any(self._speaks_of_links(item) for item in self.items):
            return []
        for part in reversed(frame.parts):
            condition = part.condition.of if isinstance(part.condition, Not) else part.condition
            if isinstance(condition, Related):
                kind = self.linker.link_kinds.get(condition.relation)
                attributes = (*self.linker.relations[condition.relation].link, *(kind.attributes if kind else ()))
                name = next((attribute.name for attribute in attributes if attribute.type == "time"), None)
                return _within(name, phrase, words) if name else []
        return []

    def _speaks_of_links(self, item: Item) -> bool:
        """Whether a phrase is a noun of links, or names the time of one."""
        for meaning in item.meanings:
            if meaning.role == "kind" and self.linker.kinds[meaning.name].links:
                return True
            attribute = self.linker.attribute(meaning) if meaning.role in {"attribute", "preposition"} else None
            is_of_link = bool(meaning.relation or (meaning.kind and self.linker.kinds[meaning.kind].links))
            if is_of_link and attribute is not None and attribute.type == "time":
                return True
        return False

    def _time_attribute(self, frame: Frame, phrase: TimePhrase) -> str | None:
        """The attribute that a time tests: whole days one in days where there is one, clock times another."""
        kind = self.linker.kinds[frame.kind]
        times = [attribute for attribute in kind.attributes if attribute.type == "time"]
        is_day = all(moment is None or moment.hour == moment.minute == 0 for moment in (phrase.since, phrase.until))
        times.sort(key=lambda attribute: (("day" in attribute.units) != is_day, not attribute.preferred))
        if self._noun and any(self._noun[0].name == attribute.name for attribute in times):
            return self._noun[0].name
        return times[0].name if times else None

    def _marks(self, item: Item, frame: Frame) -> bool:
        meaning = item.find("mark")
        if meaning is None or meaning.name in COMPARISONS or meaning.name == "currency":
            return False
        if meaning.name in {"“", '"', "”", "„", "«"}:
            self._quoted(frame)
        elif meaning.name in {",", "/", "&", "+"}:
            self._conjunction = self._conjunction or (
                "," if meaning.name == "," else "or" if meaning.name == "/" else "and"
            )
        return True

    def _quoted(self, frame: Frame) -> None:
        """Words in quotation marks: a name if they are one, else words of the text."""
        end = next(
            (index for index in range(self.i + 1, len(self.items)) if self.items[index].says('"', "“", "”", "»")), 0
        )
        inside = self.items[self.i + 1 : end]
        if inside and not any(item.find("value") for item in inside):
            self._contains(frame, [" ".join(item.text for item in inside)])
            self.i = end + 1

    def _contains(self, frame: Frame, words: list[str]) -> None:
        texts = [item for item in self.linker.kinds[frame.kind].attributes if item.type == "text"]
        if texts:
            self.add(
                frame, Test(texts[0].name, "contains", tuple(words), " ".join(words)), texts[0].name, " ".join(words)
            )
        self.topic += words

    def _text(self, item: Item, frame: Frame) -> bool:
        """Words after "about" or "mentioning" that are no names: they are looked for in the texts."""
        if not item.says("about") or item.find("value", "kind", "attribute", "verb"):
            return False
        texts = [each for each in self.linker.kinds[frame.kind].attributes if each.type == "text"]
        self.i = start = self.skip_light(self.i + 1)
        words: list[str] = []
        while texts and (current := self.at(self.i)) is not None and current.find("unknown"):
            words.append(current.text)
            self.i += 1
        if words:
            self._contains(frame, words)
        self.i = max(self.i, start)
        self._context = "about"
        return True

    def _reference(self, item: Item, frame: Frame) -> bool:
        """As in "those", "it", "their": the rows of the question before, or what this question has named."""
        back = self._refers(item)
        if back is None:
            if item.says("it") and item.says("those") and self._party_after(self.i + 1) is not None:
                self.unknown.append(item)
            return False
        party = self._party_after(self.i + 1) if item.says("possessive") else None
        if party is not None:
            self.i += 1
            self.refers_back = self.before is not None
            return self._owned(back, party, frame)
        return self.before is not None and self._refer(back, item, frame)

    def _nth(self, item: Item, frame: Frame) -> bool:
        nth = None if frame.is_nested else self._nth_rows(item)
        if nth is None:
            return False
        back, after = nth
        self.i = after - 1
        self._refer(back, item, frame)
        self.i += 1
        return True

    def _refer(self, back: Condition, item: Item, frame: Frame) -> bool:
        """Rows of the answer before as the owner or subject of what is asked, or as what it is asked of."""
        assert self.before is not None
        self.refers_back = True
        following = self.at(self.skip_light(self.i + 1))
        of_subject = frame.has_noun and following is not None and (following.find("verb") or following.says("have"))
        if frame.open_party is not None and frame.has_noun:
            self._fill_party(frame, [("", False, back)])
        elif of_subject and self._context != "of":
            frame.subject = Part(back, "id", item.text, self.i)
        else:
            frame.kind = self.before.kind if frame.requested is None and not frame.has_noun else frame.kind
            frame.parts.append(Part(back, "", item.text, self.i))
            frame.has_noun = True
            if frame.order is None and not isinstance(back, Among):
                frame.order, frame.skip = self.before.order, self.before.skip
                frame.limit = frame.limit or self.before.limit
        return True

    def _operation(self, item: Item, _frame: Frame) -> bool:
        meaning = item.find("operation")
        if meaning is None:
            return False
        self.operations.append((meaning, self.i))
        # What follows belongs to another clause.
        self._light_since_part, self._conjunction = False, ""
        return True

    def _function(self, item: Item, frame: Frame) -> bool:  # noqa: C901, PLR0912, PLR0915
        concepts = [meaning.name for meaning in item.meanings if meaning.role == "function"]
        if not concepts:
            return False
        ranks = "order_by" in concepts or ("by" in concepts and (frame.superlative or "sort" in self.forms))
        if ranks and self.read_order(frame):
            self.forms.setdefault("order_by", self.i)
            return True
        if "more" in concepts and self.language != "en":
            self.forms.setdefault("comparative_more", self.i)
        for concept in concepts:
            is_verb = concept == "how_many" and item.text.lower() == "counts" and "who" in self.forms
            if concept in FORMS and self.than_at != self.i and not is_verb:
                self.forms.setdefault(concept, self.i)
        if "if" in concepts:
            self._light_since_part = False
        if any(concept in NEGATIONS for concept in concepts):
            following = self.at(self.i + 1)
            if "not" in concepts and frame.parts and (following is None or following.says(".", "?", "!", ",", ";")):
                self._negate_last(frame)
                return True
            self._negation = not (self._negation and self._negation_at == self.i - 1) or self._conjunction != ""
            self._negation_at = self.i
            if "nor" in concepts:
                self._conjunction = "nor"
            if "without" in concepts:
                self._context = "with"
            if "neither" in concepts or "except" in concepts:
                self._context = ""
        elif "both" in concepts:
            self._both = True
        elif "or" in concepts or ("compare" in concepts and frame.parts):
            self._conjunction = "or"
        elif "but" in concepts:
            self._conjunction = "but"
            following = self.at(self.i + 1)
            if following is not None and following.find("value", "party") and frame.parts:
                self._negation, self._context = True, "except"
        elif "and" in concepts:
            self._conjunction = self._conjunction if self._conjunction == "or" else "and"
        elif self.than_at == self.i and self.than is None:
            if "outnumber" in concepts:
                self.forms.setdefault("comparative_more", self.i)
            if {"more", "less"} & set(concepts):
                self.forms.setdefault("comparative_more" if "more" in concepts else "comparative_less", self.i)
            self._than(frame)
        elif "no_one" in concepts:
            self._negation = not self._negation
        elif "with" in concepts or "have" in concepts:
            self._context = "with"
        elif "per" in concepts and (named := self._attribute_after(self.i + 1)) is not None and named[0].name != "id":
            attribute = self.linker.attribute(named[0])
            if attribute is not None and attribute.groups and attribute.type not in NUMERIC:
                frame.group = named[0]
                self.i = named[1]
        elif "direct" in concepts:
            self.ignored.append(item.text)
        elif "be" in concepts:
            self._context = "be"
        elif not (self._context == "with" and "of" in concepts and self._negation):
            self._context = next((concept for concept in concepts if concept in _CONTEXTS), self._context)
        if "filler" in concepts:
            self.ignored.append(item.text)
        return True

    @staticmethod
    def _negate_last(frame: Frame) -> None:
        """A negation at the end of its clause, as in German: "beliefern NVIDIA nicht"."""
        last = frame.parts[-1]
        last.condition, last.is_negated = negated(last.condition), not last.is_negated

    def _than(self, frame: Frame) -> None:
        """The other side of a comparison: "more battles than protests"."""
        self._finish(frame)
        self.i += 1
        self._negation = self._light_since_part = False
        self._conjunction = ""
        self.than = self.read(Frame(frame.kind))

    def _kind(self, item: Item, frame: Frame) -> bool:
        meaning = item.find("kind")
        if meaning is None or is_attribute(item, self.items):
            return False
        if self._is_of_links(meaning.name, frame):
            return True
        if meaning.name != frame.kind and (frame.has_noun or frame.is_named):
            return self._other_kind(item, meaning, frame)
        if meaning.name != frame.kind and not frame.is_nested:
            frame.kind = meaning.name
        frame.has_noun = True
        for name, value in meaning.value or ():
            self.add(frame, Test(name, "is", (value,), item.text), name, item.text)
        return True

    def _other_kind(self, item: Item, meaning: Meaning, frame: Frame) -> bool:
        """A noun of another kind that a relation leads to."""
        kind = meaning.kind if meaning.role == "party" else meaning.name
        link = self.relation_between(frame.kind, kind, self.at(self.i - 1))
        if link is None:
            self._grouped_kind(item, meaning, frame)
            return True
        at = self.i
        with self.aside():
            operands = self.operands(kind)
        self.i = max(self.i, at + 1)
        self._add_related(frame, link, operands or ANY, at=at)
        return True

    def _grouped_kind(self, item: Item, meaning: Meaning, frame: Frame) -> None:
        """Rows of a kind that is an attribute of the noun's kind as well: "which category has the most companies"."""
        if self.linker.attribute_named(meaning.name, frame.kind) is None or frame.parts:
            self._unknown(item)
            return
        frame.requested = Meaning("attribute", frame.kind, meaning.name)
        frame.kind = meaning.name
        if frame.superlative and frame.order is None:
            frame.limit = frame.limit or 1

    def _attribute_after(self, index: int) -> tuple[Meaning, int] | None:
        """The attribute noun at a place after articles, and the place after it."""
        index = self.skip_light(index, "average", "sum", "how_many")
        item = self.at(index)
        meaning = item.find("attribute") if item else None
        return (meaning, index + 1) if meaning else None

    def _attribute(self, item: Item, frame: Frame) -> bool:  # noqa: C901, PLR0911, PLR0912
        meanings = [meaning for meaning in item.meanings if meaning.role == "attribute"]
        if not meanings:
            return False
        own = [each for each in meanings if each.kind == frame.kind] or meanings
        before = self.at(self.i - 1)
        counts = self.averages or (
            before is not None
            and (before.says("comparative_more", "comparative_less", "how_many") or before.number is not None)
        )
        numeric = [each for each in own if self._is_numeric(each)]
        measures = counts or any(each.says("average", "median") for each in self.items)
        meaning = next(iter(numeric if measures and numeric else [each for each in own if each not in numeric] or own))
        attribute = self.linker.attribute(meaning)
        if meaning.relation or (meaning.kind in self.linker.kinds and self._is_of_links(meaning.kind, frame)):
            return True
        if before is not None and any(each.role == "value" and each.name == meaning.name for each in before.meanings):
            return True  # "the memory category"
        compares = before is not None and before.says("comparative_more", "comparative_less")
        if compares and numeric and frame.measured is None:
            frame.measured = meaning
            return True
        is_counted = meaning.kind == frame.kind and self._counts(compares=compares)
        if frame.measured is None and is_counted and self.values_of(meaning):
            frame.measured = meaning
            return True
        following = self.at(self.skip_light(self.i + 1))
        if (
            following
            and (value := following.find("value"))
            and value.name == meaning.name
            and attribute
            and not (frame.has_noun and not self.linker.kinds[frame.kind].links)
        ):
            return True  # "category battles"
        self._noun = (meaning, self.i)
        if attribute is not None and attribute.type == "time" and following is not None and following.find("time"):
            return True
        if self._compared_later():
            return True
        if before is not None and self._refers(before) is not None and frame.requested is None:
            frame.requested = meaning  # "its price"
            return True
        is_time = attribute is not None and attribute.type == "time"
        is_said_of_someone = before is not None and before.says("anyone")
        is_kept = not is_time or (attribute is not None and attribute.optional)
        has = (self._context == "with" or self._negation or is_said_of_someone) and is_kept
        states = following is not None and any(each.name == meaning.name for each in following.meanings)
        if has and not states and (frame.has_noun or frame.is_named or self._negation) and frame.group is None:
            self._known(item, meaning, attribute, frame)
        elif (frame.has_noun or frame.superlative) and self._is_hint(meaning, attribute, frame):
            return True
        elif frame.requested is None:
            frame.requested = meaning
            if not frame.has_noun and not frame.is_named:
                frame.kind = meaning.kind or frame.kind
        return True

    def _counts(self, *, compares: bool) -> bool:
        """Whether a number is asked for of what stands here: "how many products", "the average number of products"."""
        counting = self.at(self.skip_back(self.i - 1))
        return compares or (
            counting is not None and counting.says("how_many", "difference", "average", "median", "sum")
        )

    def _is_numeric(self, meaning: Meaning) -> bool:
        attribute = self.linker.attribute(meaning)
        return attribute is not None and attribute.type in NUMERIC

    def _is_hint(self, meaning: Meaning, attribute: Attribute | None, frame: Frame) -> bool:
        """Whether the noun only says what a number or a time is about: "people mentioned ten times"."""
        if attribute is None or attribute.type not in {*NUMERIC, "time"} or frame.requested is not None:
            return False
        if frame.order is not None and frame.order.by == meaning.name:
            return True
        return not ({"average", "median", "sum", "how_much"} & self.forms.keys()) and self._noun == (meaning, self.i)

    def _compared_later(self) -> bool:
        """Whether a number that belongs to the noun follows: "price under 900", "firmness of 6"."""
        index = self.skip_light(self.i + 1, "or", "have")
        item = self.at(index)
        while item is not None and item.says(*COMPARISONS, "currency") and not item.find("value", "kind"):
            index = self.skip_light(index + 1)
            item = self.at(index)
        return item is not None and item.number is not None and self.noun_after(index + 1) is None

    def _known(self, item: Item, meaning: Meaning, attribute: Attribute | None, frame: Frame) -> None:
        """As in "with deaths", "without a website"."""
        if attribute is not None and attribute.type in NUMERIC:
            condition: Condition = Test(meaning.name, "above", (0.0,), item.text)
        elif attribute is not None and attribute.type == "flag":
            condition = Test(meaning.name, "is", (True,), item.text)
        else:
            condition = Test(meaning.name, "known", (), item.text)
        self.add(frame, condition, meaning.name, item.text)

    # Values and names.

    def _value(self, item: Item, frame: Frame) -> bool:  # noqa: PLR0911
        if item.find("value", "range") is None:
            return False
        if self._leads_to_party(frame):
            return self._nested_party(frame)
        meanings = self._values_for(item, frame)
        if not meanings:
            return self._carries(item, frame)
        meaning = meanings[0]
        if meaning.role == "range":
            self.add(frame, range_test(meaning.name, *meaning.value, words=item.text), meaning.name, item.text)
            return True
        same = [each for each in meanings if each.name == meaning.name and each.kind == meaning.kind]
        test = self._test(frame.kind, same, item.text)
        if meaning.kind != frame.kind and not self.linker.attribute_named(frame.kind, meaning.name):
            if not frame.has_noun and self._asks_of_links(frame):
                return self._value_elsewhere(item, meaning, test, frame)
            if self._is_of_links(meaning.kind, frame) and self._tie(frame, [test]):
                return True
            if frame.has_noun or frame.parts:
                return self._value_elsewhere(item, meaning, test, frame)
            frame.kind = meaning.kind
        if meaning.name == "id":
            return self._name(item, test, frame)
        self.add(frame, test, meaning.name, item.text)
        noun = item.find("kind")
        frame.has_noun = frame.has_noun or (noun is not None and noun.name == frame.kind)
        return True

    def _asks_of_links(self, frame: Frame) -> bool:
        """Whether links are asked of, and other rows only named as their ends: "does X have a deal with Y"."""
        if not self.linker.kinds[frame.kind].links:
            return False
        for item in self.items:
            kinds = {meaning.name for meaning in item.meanings if meaning.role == "kind"}
            is_verb = item.find("verb", "stranded") and not any(
                each.role == "preposition" and each.kind == frame.kind for each in item.meanings
            )
            if item.find("party") or is_verb or (kinds and frame.kind not in kinds):
                return False
        return True

    def _carries(self, item: Item, frame: Frame) -> bool:
        """What only links have, where no relation is named: "firms that sell cooling equipment"."""
        meaning = item.find("value")
        relation = self.linker.relations.get(meaning.relation) if meaning is not None else None
        is_named = any(each.find("party", "verb") for each in self.items)
        if meaning is None or relation is None or relation.source != frame.kind or not frame.has_noun or is_named:
            return False
        tied = self._test(meaning.kind, [meaning], item.text)
        link = Related(relation.name, outgoing=True, to=EVERYTHING, link=(tied,), words=item.text)
        self.add(frame, link, relation.name, item.text)
        return True

    def _value_elsewhere(self, item: Item, meaning: Meaning, test: Test, frame: Frame) -> bool:
        """A value of another kind of row, which a relation leads to."""
        before = self.at(self.i - 1)
        link = self.relation_between(frame.kind, meaning.kind, before)
        if link is None:
            return False
        any_and = before is None or not before.says("between", "do", "have", "be")
        if frame.has_noun and self._verb_after(self.i + 1, link.relation) and self._context not in {"of", "by"}:
            frame.subject = Part(test, "id", item.text, self.i)
        else:
            at = self.i
            with self.aside():
                operands = self.operands(meaning.kind)
            self.i = max(self.i, at + 1)
            self._add_related(frame, link, operands or [("", False, test)], at=at, any_and=any_and)
        return True

    def _verb_after(self, index: int, relation: str) -> bool:
        item = self.at(self.skip_light(index, "not"))
        return item is not None and any(each.role == "verb" and each.relation == relation for each in item.meanings)

    def _values_for(self, item: Item, frame: Frame) -> list[Meaning]:
        """The meanings as values, those of this kind of row first; the word before can decide between attributes."""
        meanings = [each for each in item.meanings if each.role in {"value", "range"} and not each.relation]
        links = self.linker.kinds[frame.kind].links
        meanings += [
            Meaning("value", each.name, frame.kind, each.value)
            for each in item.meanings
            if each.role == "value" and each.relation in links and self.linker.attribute_named(frame.kind, each.name)
        ]
        before = self.at(self.i - 1)
        prepositions = [each.name for each in before.meanings if each.role == "preposition"] if before else []

        def rank(meaning: Meaning) -> tuple[bool, bool, int]:
            introduced = meaning.name in prepositions
            noun = self._noun is not None and self._noun[0].name == meaning.name and self._noun[1] >= self.i - 2
            belongs = meaning.kind == frame.kind or self.linker.attribute_named(frame.kind, meaning.name) is not None
            return (
                not belongs,
                not (introduced or noun),
                (meaning.name != "id") + self.linker.is_text(meaning),
            )

        return sorted(meanings, key=rank)

    def _has_owner(self, index: int) -> bool:
        """Whether "of" and a name follow a relation noun, whose other end is then that name."""
        item, following = self.at(index), self.at(self.skip_light(index))
        return item is not None and item.says("of") and following is not None and following.is_name

    def _as_party(self, test: Test, frame: Frame) -> bool:
        """As in "with X as a supplier", "counts X among its customers": the row stands at the relation's other end."""
        following = self.at(self.i + 1)
        if following is None or not following.says("as"):
            return False
        place = self.skip_light(self.i + 2, "those", "one", "possessive")
        party = item.find("party") if (item := self.at(place)) is not None else None
        if party is None:
            return False
        related = Related(party.relation, not party.value, test, words=test.words)
        start, self.i = self.i, place + 1
        self.add(frame, related, party.relation, test.words, at=start)
        return True

    def _name(self, item: Item, test: Test, frame: Frame) -> bool:
        """A named row: the owner of what follows, the subject of a verb, or one of the rows that are requested."""
        self._mentioned = test
        if self._as_party(test, frame):
            return True
        end = self._possessive(self.i + 1)
        owned = self._party_after(end)
        if owned is not None and end == self.i + 1 and self._has_owner(owned[1] + 1):
            owned = None  # "es A proveedor de B"
        if owned is not None and (end > self.i + 1 or self.skip_light(end) == end):
            self.i = end
            return self._owned(test, owned, frame)
        if end > self.i + 1 and (owned_verb := self.at(end)) is not None and owned_verb.find("verb"):
            self.unknown.append(owned_verb)  # "X's supplies"
        self.i = max(end, self.i + 1)
        follows_verb = self._starts_clause()
        last = frame.parts[-1] if frame.parts and self._light_since_part and self._conjunction else None
        is_excluded = last is not None and last.key == "id" and last.is_negated and not follows_verb
        can_be_subject = (frame.has_noun or frame.requested is not None) and not self._negation and not frame.is_named
        can_be_subject = can_be_subject and not is_excluded
        if can_be_subject and (follows_verb or (self._context not in {"be", "except"} and not frame.is_nested)):
            joined = self._conjunction if frame.subject is not None else ""
            self._conjunction = ""
            if frame.subject is not None and joined:
                frame.subject.condition = any_of(frame.subject.condition, test)
            else:
                frame.subject = Part(test, "id", item.text, self.i - 1)
            return True
        if frame.open_party is not None and frame.has_noun and not self._negation and not is_excluded:
            self._fill_party(frame, [("", False, test)])
            return True
        self.add(frame, test, "id", item.text)
        frame.is_named = frame.is_named or not frame.has_noun
        return True
