"""Reads numbers and orders: comparisons, ranges, approximations, superlatives, ranks."""

from tollhouse.questions.amounts import Relation, compared, is_multiplied, relation_named, with_scale
from tollhouse.questions.frames import COMPARISONS, NUMERIC, Frame, FrameReader
from tollhouse.questions.linking import Item, Meaning
from tollhouse.questions.normalise import language_data
from tollhouse.questions.query import AllOf, Order, Test
from tollhouse.questions.vocabulary import Attribute

_MULTIPLIERS = frozenset(language_data()["multipliers"])
SUPERLATIVES = ("most", "least", "top", "bottom", "latest", "earliest")

MILLION = 1e6


class Quantities(FrameReader):
    """Reads numbers and orders at the current place."""

    def number_at(self, index: int) -> tuple[float, int, bool] | None:
        """The number at a place, the place after it, and whether it is an amount of money."""
        is_money = False
        before = self.at(index - 1)
        if before is not None and before.text.lower() in {"single", "sole"}:
            return 1.0, index, False
        while (item := self.at(index)) is not None and item.number is None:
            if item.says("currency"):
                is_money = True
            elif not (item.says("of", "all", "filler", "than", "in", "to") and not item.find("value", "attribute")):
                return None
            index += 1
        if item is None or item.number is None:
            return None
        after = self.at(index + 1)
        if after is not None and after.says("currency"):
            return item.number, index + 2, True
        return item.number, index + 1, is_money

    def noun_after(self, index: int) -> tuple[Meaning, int] | None:
        """What a number counts or measures: the unit or noun after it, and the place behind that."""
        while (item := self.at(index)) is not None:
            meaning = item.find("unit", "party", "attribute", "kind")
            if meaning is not None:
                return meaning, index + 1
            if not item.says("of", "all", "filler", "or_more", "or_less") or item.find("value", "number"):
                return None
            index += 1
        return None

    def _shared_noun(self, index: int) -> tuple[Meaning, int] | None:
        """The noun that a second number shares with this one: "at least four and no more than six customers"."""
        joint, compared = self.at(index), self.at(index + 1)
        if joint is None or compared is None or not (joint.says("and", "but") and compared.says(*COMPARISONS)):
            return None
        number = self.number_at(index + 2)
        shared = self.noun_after(number[1]) if number is not None else None
        return (shared[0], index) if shared is not None else None

    def _comparison(self, item: Item, frame: Frame) -> bool:
        start = self.i
        if self._amount_requested(item, frame):
            return True
        name: Relation = relation_named(next((each for each in COMPARISONS if item.says(each)), ""))
        if name and (item.number is None):
            matched = self.number_at(start + 1)
            if matched is None or (
                item.find("value", "attribute", "kind") and not item.says("at_most", "at_least", "more", "less")
            ):
                return False
        else:
            matched = self.number_at(start) if item.number is not None or item.says("currency") else None
            name = ""
        if matched is None:
            return False
        value, index, is_money = matched
        second: float | None = None
        joint = self.at(index)
        if joint is not None and (joint.says("to", "-") or (name == "between" and joint.says("and", "-", "to"))):
            other = self.number_at(index + 1)
            following = self.at(index + 1)
            if other is not None and (
                following is not None and (following.number is not None or following.says("currency"))
            ):
                second, index, is_money = other[0], other[1], is_money or other[2]
                value = with_scale(value, second, is_said_once=is_multiplied(following.text))
        return self._compare(frame, name, (value, second), index, is_money=is_money)

    def _amount_requested(self, item: Item, frame: Frame) -> bool:
        """As in "how many billion dollars": the unit names the attribute that is requested."""
        before, last = self.at(self.skip_back(self.i - 1)), self.at(self.i - 1)
        is_scale = last is not None and last.says("in") and item.text.lower() in _MULTIPLIERS
        if (
            before is None
            or not (is_scale or before.says("how_many", "how_much"))
            or not (item.number is not None or item.find("unit"))
        ):
            return False
        index = self.i + (item.number is not None)
        unit = self.at(index)
        meaning = unit.find("unit") if unit is not None else None
        if is_scale and meaning is None:
            self.i = index
            return True
        if meaning is None or (frame.requested is not None and not is_scale):
            return False
        frame.requested = Meaning("attribute", meaning.name, meaning.kind)
        frame.kind = meaning.kind
        self.i = index + 1
        return True

    def skip_back(self, index: int) -> int:
        """The place of the last item before that is not only a filler."""
        while (item := self.at(index)) is not None and item.says("filler") and not item.says("how_many", "how_much"):
            index -= 1
        return index

    def _compare(
        self, frame: Frame, name: Relation, ends: tuple[float, float | None], index: int, *, is_money: bool
    ) -> bool:
        """Make the condition of a number at the current place, which ends before `index`."""
        start = self.i
        value, second = ends
        index, name = self._suffix(index, name)
        resolved = self._measured(frame, index, value, name, is_money=is_money)
        if resolved is None:
            return self._bare_number(frame, index, value, name)
        key, factor, index, is_group = resolved
        index, name = self._suffix(index, name)
        words = " ".join(item.text for item in self.items[start:index])
        if is_group:
            if name not in {"at_most", "below"}:
                frame.at_least = value + (name == "above")
            if name in {"at_most", "below", "is", "between"}:
                frame.at_most = (value if second is None else second) - (name == "below")
            self._implied_between(frame, start, index)
            self.i = index
            return True
        trailing = self.at(index)
        if trailing is not None and any(
            each.role in {"range", "extreme"} and each.name == key for each in trailing.meanings
        ):
            index += 1  # "300 pages long"
        self.i = index
        values = [value * factor] if second is None else [value * factor, second * factor]
        condition = compared(key, "between" if second is not None else name, values, words)
        self.add(frame, condition, key, words, at=start)
        return True

    def _implied_between(self, frame: Frame, start: int, end: int) -> None:
        """What the counted noun says of the rows: "at least one battle"."""
        for place in range(start, end):
            meaning = self.items[place].find("kind")
            for name, value in (meaning.value or ()) if meaning is not None and meaning.name == frame.kind else ():
                self.add(
                    frame, Test(name, "is", (value,), self.items[place].text), name, self.items[place].text, at=place
                )

    def _suffix(self, index: int, name: Relation) -> tuple[int, Relation]:
        """A comparison that follows its number: "6 or above", "900 max", "3+"."""
        item = self.at(index)
        if item is not None and not name:
            if item.says("or_more", "+") and not item.find("value", "kind"):
                return index + 1, "at_least"
            if item.says("or_less"):
                return index + 1, "at_most"
        return index, name

    def _measured(  # noqa: C901, PLR0911
        self, frame: Frame, index: int, value: float, name: str, *, is_money: bool
    ) -> tuple[str, float, int, bool] | None:
        """What a number is about, the factor of its unit, the place after, and whether it counts a group's rows."""
        matched = self.noun_after(index) or self._shared_noun(index)
        if matched is not None:
            meaning, after = matched
            attribute = self.linker.attribute(meaning)
            is_own = frame.has_noun or meaning.kind == frame.kind
            if meaning.role == "unit":
                own = [m for m in self.items[after - 1].meanings if m.role == "unit" and m.kind == frame.kind]
                return (own[0].name, float(own[0].value), after, False) if own else None
            if meaning.role == "attribute" and attribute is not None and attribute.type in NUMERIC:
                return meaning.name, _scaled(attribute, value), after, False
            if meaning.role == "attribute" and attribute is not None and attribute.several and is_own and name:
                return f"{meaning.name}.values", 1.0, after, False
            if frame.requested is not None or frame.group is not None:
                return "", 1.0, after, True
            if meaning.role == "party" and (name or self._context == "with"):
                return f"{meaning.relation}.{'in' if meaning.value else 'out'}", 1.0, after, False
            counted = self._counting(frame.kind, meaning)
            if counted is not None:
                return counted, 1.0, after, False
        if is_money and (money := self._typed(frame.kind, "money")):
            return money, self._money_factor(frame.kind, money), index, False
        if self._noun is not None and self._noun[1] >= self.i - 5:
            attribute = self.linker.attribute(self._noun[0])
            if attribute is not None and attribute.type in NUMERIC:
                if frame.requested == self._noun[0]:
                    frame.requested = None
                return attribute.name, _scaled(attribute, value), index, False
        earlier = self._earlier_number()
        if earlier is not None and (matched is None or name):
            return earlier, 1.0, index, False
        return self._preferred(frame, index, value, name) if matched is None or name else None

    def values_of(self, meaning: Meaning) -> str:
        """The number of values of an attribute whose texts a row has several of: its products; empty for others."""
        attribute = None if meaning.relation else self.linker.attribute(meaning)
        is_counted = attribute is not None and attribute.several and attribute.type == "text"
        return f"{meaning.name}.values" if is_counted and meaning.role == "attribute" else ""

    def _earlier_number(self) -> str | None:
        """The number that the question before compared: "over 400 instead"."""
        where = self.before.where if self.before is not None else None
        for test in where.of if isinstance(where, AllOf) else (where,):
            if isinstance(test, Test) and test.values and not isinstance(test.values[0], str | bool):
                return test.attribute
        return None

    def _counting(self, kind: str, meaning: Meaning) -> str | None:
        """The attribute or relation that counts what a noun names, for rows of a kind."""
        for attribute in self.linker.kinds[kind].attributes:
            if attribute.rows_of is not None and attribute.rows_of in {meaning.name, meaning.relation, meaning.kind}:
                return attribute.name
        if meaning.role == "kind" and meaning.name != kind:
            relation = self.relation_between(kind, meaning.name)
            return None if relation is None else f"{relation.relation}.{'out' if relation.outgoing else 'in'}"
        return None

    def _money_factor(self, kind: str, name: str) -> float:
        """What an amount with a currency sign is multiplied by: 1e-9 for an attribute in billions of dollars."""
        declared = next(attribute for attribute in self.linker.kinds[kind].attributes if attribute.name == name)
        return declared.units.get("usd", 1.0)

    def _typed(self, kind: str, of_type: str) -> str | None:
        matched = [attribute for attribute in self.linker.kinds[kind].attributes if attribute.type == of_type]
        matched.sort(key=lambda attribute: not attribute.preferred)
        return matched[0].name if matched else None

    def _preferred(self, frame: Frame, index: int, value: float, name: str) -> tuple[str, float, int, bool] | None:
        if not name:
            return None
        for attribute in self.linker.kinds[frame.kind].attributes:
            low, high = attribute.scale or (float("-inf"), float("inf"))
            if attribute.type in NUMERIC and attribute.preferred and low <= value <= high:
                return attribute.name, _scaled(attribute, value), index, False
        return None

    def _bare_number(self, frame: Frame, index: int, value: float, name: str) -> bool:
        """A number that is no condition: how many rows are included, or the pronoun "one"."""
        matched = self.noun_after(index) or self._noun_further(index)
        said = self.items[self.i].text.lower()
        if not name and matched is not None and matched[0].role in {"kind", "party", "attribute"} and value >= 1:
            if said not in {"one", "un", "una", "une", "ein", "eine"}:
                frame.limit = int(value)
            self.i = index
        elif not name and value == 1 and not said.isdigit():
            self.i = index
        else:
            self.unknown += [item for item in self.items[self.i : index] if item.number is not None]
            self.i = index
        return True

    def _noun_further(self, index: int) -> tuple[Meaning, int] | None:
        """The noun that a number counts, after adjectives: "five Japanese companies"."""
        while (item := self.at(index)) is not None and item.find("value", "range"):
            index += 1
        return self.noun_after(index)

    # Orders.

    def _superlative(self, item: Item, frame: Frame) -> bool:  # noqa: C901, PLR0911
        index, limit, skip = self._rank(item)
        word = self.at(index)
        if skip and self._is_order(index):  # "which country is second by number of events"
            frame.superlative, frame.limit, frame.skip = "most", 1, skip
            self.i = self.skip_comma(index)
            return True
        if word is None or not (word.says(*SUPERLATIVES) or (word.find("extreme") and index > self.i)):
            return False
        if word.find("extreme") and not word.says(*SUPERLATIVES):
            self.i, self.has_limit = index, self.has_limit or limit is not None
            frame.limit, frame.skip = limit or 1, skip
            return self._extreme(word, frame)
        if word.says("comparative_more", "comparative_less") and index == self.i and self._is_comparative(word):
            return False
        if word.says("descending", "ascending"):
            return False
        if word.says("top", "bottom") and not word.says("most", "least"):
            number = self.number_at(index + 1)
            following = self.at(index + 1)
            if number is not None and following is not None and following.number is not None:
                limit, index = int(number[0]), number[1] - 1
            elif word.says("latest", "earliest") and self._typed(frame.kind, "time"):
                return self._by_time(frame, word, index, limit, skip)
            elif word.text.lower() not in {"top", "bottom"}:
                return False
            following = self.at(index + 1)
            if following is not None and (following.says("most", "least") or following.find("extreme")):
                self.i = index + 1
                frame.limit = limit
                return (
                    self._superlative(following, frame)
                    if following.says("most", "least")
                    else self._extreme(following, frame)
                )
            return self._by_noun(frame, index + 1, limit, skip, descending=word.says("top"), words=word.text)
        if word.says("latest", "earliest"):
            return self._by_time(frame, word, index, limit, skip)
        number = self.number_at(index + 1)
        if number is not None and limit is None and (following := self.at(index + 1)) is not None and following.number:
            limit, index = int(number[0]), number[1] - 1
        return self._by_noun(frame, index + 1, limit, skip, descending=word.says("most"), words=word.text)

    def skip_comma(self, index: int) -> int:
        item = self.at(index)
        return index + (item is not None and item.says(","))

    def _is_order(self, index: int) -> bool:
        item = self.at(self.skip_comma(index))
        return item is not None and item.says("order_by")

    def read_order(self, frame: Frame) -> bool:  # noqa: C901
        """The order of "sorted by", and of "by number of": the largest first unless the question says otherwise."""
        index = self.i + 1
        while (item := self.at(index)) is not None and not item.find("extreme", "attribute", "party", "kind"):
            if not item.says("all", "of", "filler", "how_many", "sum"):
                return False
            index += 1
        meaning = item.find("extreme", "attribute", "party", "kind") if item is not None else None
        if item is None or meaning is None:
            return False
        attribute = self.linker.attribute(meaning)
        counted = self._counting(frame.kind, meaning)
        by = ""
        if meaning.role == "party":
            by = f"{meaning.relation}.{'in' if meaning.value else 'out'}"
        elif meaning.role == "extreme" or (attribute is not None and attribute.type in {*NUMERIC, "time"}):
            by = meaning.name
        elif counted is not None:
            by = counted
        elif values := self.values_of(meaning):
            by = values
        elif meaning.role != "kind" or frame.requested is None:
            return False
        words = " ".join(each.text for each in self.items[index : index + 3])
        is_ascending = any(each.says("ascending") for each in self.items[index:]) or frame.superlative == "least"
        if frame.requested is not None and meaning.role == "kind":
            frame.superlative = frame.superlative or "most"
            self.i = index
            return True
        self.i = index + 1
        frame.order, frame.order_words, frame.measured = Order(by, not is_ascending), words, meaning
        if frame.superlative and frame.limit is None:
            frame.limit = 1
        return True

    def _than_time(self, meaning: Meaning, frame: Frame, *, descending: bool) -> bool:
        """As in "newer than 14 November"."""
        index = self.skip_light(self.i + 2)
        item = self.at(index)
        time = item.find("time") if item is not None else None
        if time is None or item is None:
            return False
        moment = time.value.until or time.value.since if descending else time.value.since
        words = " ".join(each.text for each in self.items[self.i : index + 1])
        at, self.i = self.i, index + 1
        if moment is not None:
            test = Test(meaning.name, "at_least" if descending else "below", (moment.isoformat(),), words)
            self.add(frame, test, meaning.name, words, at=at)
        return True

    def _rank(self, item: Item) -> tuple[int, int | None, int]:
        """The place of the superlative after "third" or "3", the number of rows, and how many to leave out."""
        index = self.i
        ordinal = item.find("ordinal")
        following = self.at(index + 1)
        if ordinal is not None and ordinal.value > 1:
            return index + 1, 1, ordinal.value - 1
        if item.number is not None and following is not None:
            if following.glued and following.text.lower() in {"st", "nd", "rd", "th"}:
                return index + 2, 1, int(item.number) - 1
            if following.says("most", "least", "latest", "earliest") or (
                following.find("extreme") and not item.find("value")
            ):
                return index + 1, max(1, int(item.number)), 0
        return index, None, 0

    def _is_comparative(self, word: Item) -> bool:
        """Whether "more" compares two sides: "than" or "or" follows, or the word is no superlative at all."""
        if not word.says("most", "least"):
            return True
        before = self.at(self.i - 1)
        if before is not None and before.says("all", "with"):
            return False
        return self.than_at > self.i

    def _by_time(self, frame: Frame, word: Item, index: int, limit: int | None, skip: int) -> bool:
        by = self._typed(frame.kind, "time")
        following = self.number_at(index + 1)
        if by is None:
            self.unknown.append(word)
            self.i = index + 1
            return True
        if limit is None and following is not None and (item := self.at(index + 1)) is not None and item.number:
            limit, index = int(following[0]), following[1] - 1
        frame.order, frame.limit, frame.skip = Order(by, word.says("latest")), limit or frame.limit or 1, skip
        frame.order_words = word.text
        frame.superlative = "latest" if word.says("latest") else "earliest"
        self.i = index + 1
        return True

    def _by_noun(self, frame: Frame, index: int, limit: int | None, skip: int, *, descending: bool, words: str) -> bool:  # noqa: C901, PLR0912, PLR0913
        """The order of "most" and the noun after it."""
        place = index
        while (item := self.at(place)) is not None and not item.find("extreme", "attribute", "party", "kind", "value"):
            if not item.says("all", "of", "filler", "how_many", "sum", "average", "median"):
                break
            for form in ("sum", "average", "median"):
                if item.says(form):
                    self.forms.setdefault(form, place)
            place += 1
        self.i = index
        self.has_limit = self.has_limit or bool(limit or frame.limit)
        frame.limit, frame.skip = limit or frame.limit or 1, skip
        frame.superlative = "most" if descending else "least"
        meaning = item.find("extreme", "attribute", "party", "kind") if item is not None else None
        frame.order_words = words if item is None else f"{words} {item.text}"
        weight = self.linker.kinds[frame.kind].weight
        attribute = self.linker.attribute(meaning) if meaning else None
        if meaning is not None and meaning.role == "extreme":
            frame.order = Order(meaning.name, meaning.value == descending)
            self.i = place + 1
        elif meaning is not None and attribute is not None and attribute.type in {*NUMERIC, "time"}:
            frame.order, frame.measured = Order(meaning.name, descending), meaning
            self.i = place + 1
        elif (
            meaning is not None
            and meaning.role == "party"
            and (frame.has_noun or frame.requested or frame.is_named or {"who", "which"} & self.forms.keys())
        ):
            frame.order = Order(f"{meaning.relation}.{'in' if meaning.value else 'out'}", descending)
            frame.measured = meaning
            if frame.requested is None and not frame.has_noun:
                relation = self.linker.relations[meaning.relation]
                frame.kind = relation.target if meaning.value else relation.source
            self.i = place + 1
        elif meaning is not None and meaning.role == "attribute" and self._counting(frame.kind, meaning):
            frame.order = Order(self._counting(frame.kind, meaning) or "", descending)
            self.i = place + 1
        elif meaning is not None and meaning.kind == frame.kind and (values := self.values_of(meaning)):
            frame.order, frame.measured = Order(values, descending), meaning
            self.i = place + 1
        elif meaning is not None and meaning.role == "attribute" and frame.has_noun:
            frame.order = Order(weight, descending) if weight else None
        elif meaning is not None and meaning.role == "kind" and meaning.name != frame.kind and frame.has_noun:
            if meaning.value and item is not None:
                self.unknown.append(item)
            counted = self._counting(frame.kind, meaning)
            frame.order = Order(counted, descending) if counted else None
            self.i = place + 1 if counted else self.i
        else:
            frame.order = Order(weight, descending) if weight else None
        return True

    def _extreme(self, item: Item, frame: Frame) -> bool:
        """As in "cheapest", "cheaper than 900", "deadlier"."""
        matched = [meaning for meaning in item.meanings if meaning.role == "extreme" and not meaning.relation]
        if not matched:
            return False
        meaning = next((each for each in matched if each.kind == frame.kind), matched[0])
        if meaning.kind != frame.kind:
            if frame.has_noun or frame.is_named:
                return False
            frame.kind = meaning.kind
        descending = bool(meaning.value)
        before = self.at(self.i - 1)
        if before is not None and before.says("comparative_less") and not before.says("comparative_more"):
            descending = not descending
        following = self.at(self.i + 1)
        if following is not None and following.says("than"):
            if self._than_time(meaning, frame, descending=descending):
                return True
            number = self.number_at(self.i + 2)
            if number is not None:
                start = self.i
                unit = self.at(number[1])
                own = unit.find("unit") if unit is not None else None
                self.i = number[1] + (own is not None)
                factor = float(own.value) if own is not None and own.name == meaning.name else 1.0
                words = " ".join(each.text for each in self.items[start : self.i])
                test = compared(meaning.name, "above" if descending else "below", [number[0] * factor], words)
                self.add(frame, test, meaning.name, words, at=start)
                return True
            self.forms.setdefault("comparative_more" if descending else "comparative_less", self.i)
            frame.measured = meaning
            return True
        frame.order, frame.measured = Order(meaning.name, descending), meaning
        frame.limit = frame.limit or 1
        frame.superlative = frame.superlative or ("most" if descending else "least")
        frame.order_words = item.text
        return True


def _scaled(attribute: Attribute, value: float) -> float:
    """The factor of a number without a unit: one in millions or billions is of whole units of money."""
    is_whole = attribute.type == "money" and value >= MILLION
    return attribute.units.get("usd", 1.0) if is_whole else 1.0
