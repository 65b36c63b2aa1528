"""The grammar of questions: what a question asks of the rows that it describes, as a query or a refusal."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from tollhouse.questions.clauses import Clauses
from tollhouse.questions.coverage import is_open, is_plausible, unread
from tollhouse.questions.declined import REASONS, declined
from tollhouse.questions.execution import words_of
from tollhouse.questions.follow_ups import continued, mentions, override, rows_of, with_earlier, with_rows
from tollhouse.questions.frames import NUMERIC, Frame, Part, all_of, is_attribute, named_in, split
from tollhouse.questions.idioms import with_plain_forms
from tollhouse.questions.link_nouns import with_link_nouns
from tollhouse.questions.linking import Item, Linked, Linker, Meaning
from tollhouse.questions.normalise import MOST_TOKENS, tokenise
from tollhouse.questions.query import (
    COUNT,
    EVERYTHING,
    AllOf,
    Among,
    AnyOf,
    Call,
    Compare,
    Comparison,
    Condition,
    Exists,
    Figure,
    Function,
    Groups,
    List,
    Measure,
    Not,
    Open,
    OpenForm,
    Query,
    Reading,
    Reason,
    Refusal,
    Related,
    Rows,
    Share,
    Test,
)
from tollhouse.questions.sentences import focused, questions_within, with_orders, with_quoted_words, without_ellipsis
from tollhouse.questions.spelling import LINKED, Corrections, as_typed, understood_best
from tollhouse.questions.vocabulary import Attribute, Operation
from tollhouse.questions.years import with_years

# Forms that ask for a number: no text answers for the rows.
_NUMBERS = frozenset({"how_many", "how_much", "average", "median", "sum", "share", "difference", "compare"})
_EVERY = frozenset({"all", "all the", "all of", "every", "each", "alle", "todos", "todas", "tous", "toutes"})
# Words that deny a noun, not a verb.
_NONE = frozenset({"no", "lack", "lacks", "lacking", "kein", "keine", "keinen", "aucun", "aucune", "ningun", "ninguna"})
_WHICH = frozenset({"which", "who", "how_many", "how"})
_ONE = frozenset({"a", "an", "as", "one of", "ein", "eine", "als", "un", "una", "une", "como", "comme"})
# Reasons that a misspelt question has as well.
_SURE: tuple[Reason, ...] = (*REASONS.values(), "not_in_data", "outside_time")
_LESS = {"less", "fewer", "lower", "weniger", "menos", "moins"}
_OPEN: dict[str, OpenForm] = {
    "why": "why",
    "how": "happened",
    "timeline": "timeline",
    "summary": "summary",
    "happened": "happened",
}


def read_question(
    text: str, linker: Linker, *, now: datetime | None = None, hours: int | None = None, before: Query | None = None
) -> Reading | Refusal:
    """The query of a question, read after the query `before` of the same conversation; or why it has none."""
    if len(text) > MOST_TOKENS and len(tokenise(text)) >= MOST_TOKENS:
        return Refusal("unclear")

    def link(corrections: Corrections) -> Linked:
        return linker.link(text, now, hours, corrections=corrections)

    def read(corrections: Corrections) -> Reading | Refusal:
        return _read_spelled(link(corrections), linker, before)

    def judged(corrections: Corrections) -> tuple[int, float, Reading] | None:
        linked = link(corrections)
        reading = _read_spelled(linked, linker, before)
        return (_lost(reading, linker), -LINKED * linked.score, reading) if isinstance(reading, Reading) else None

    def whole(corrections: Corrections) -> tuple[int, float, Reading] | None:
        outcome = judged(corrections)
        return None if outcome is None or outcome[2].ignored or outcome[2].guessed else outcome

    spelled = list(linker.spellings(text))
    best = understood_best(spelled or [(0.0, ())], judged)
    if best is None:
        refusal = read(spelled[0][1] if spelled else ())
        if isinstance(refusal, Refusal) and refusal.reason in _SURE:
            return refusal
    if best is None or (spelled and (best[0].guessed or isinstance(best[0].query, Open))):
        best = understood_best(linker.spellings(text, widely=True), whole) or best
    if best is None:
        return read(())
    return best[0] if best[1] is None else Refusal("ambiguous", tuple(typed for typed, _ in best[0].corrected))


def _lost(reading: Reading, linker: Linker) -> int:
    """How many words a reading loses: those left out, and those of an open question that no text has."""
    words = reading.query.words if isinstance(reading.query, Open) else ()
    unread = [word for phrase in words for word in words_of(phrase) if word not in linker.text_words]
    ignored = [word for word in reading.ignored if " " not in word]
    return len(ignored) + len(unread) + reading.guessed + isinstance(reading.query, Open)


def _read_spelled(linked: Linked, linker: Linker, before: Query | None) -> Reading | Refusal:
    plain = with_plain_forms(with_years(linked, linker), linker)
    linked = with_quoted_words(focused(with_orders(plain)), linker)
    reading = read_linked(linked, linker, before)
    if not isinstance(reading, Refusal) or reading.reason not in ("unknown_words", "not_in_data"):
        return reading
    for question, around in questions_within(linked):
        within = read_linked(question, linker, before)
        if isinstance(within, Reading) and not isinstance(within.query, Open):
            return replace(within, ignored=(*around, *within.ignored))
    return reading


def read_linked(linked: Linked, linker: Linker, before: Query | None = None) -> Reading | Refusal:
    """The query of a question whose words are linked; or why it has none."""
    linked, left_out = without_ellipsis(with_link_nouns(linked, linker))
    rows = rows_of(before) if before is not None else None
    clauses = Clauses(linked, linker, rows)
    kind = rows.kind if rows is not None and _is_fragment(linked) else _kind(linked, linker)
    frame = clauses.read(Frame(kind))
    is_incomplete = bool(left_out) and not _complete(frame, left_out)
    if is_incomplete or (before is None and not frame.has_noun and _only_excludes(linked, frame)):
        return Refusal("unclear", tuple(item.text for item in left_out[:1]))
    question = _Question(linked, linker, clauses, frame)
    query = question.lead(before) or question.change() or question.in_common(before)
    refusal = question.refusal()
    if refusal is not None:
        return refusal
    if query is not None:
        pass
    elif before is not None and rows is not None:
        query = continued(before, rows, frame, clauses, question.query)
    else:
        query = question.query()
    if query is None:
        return Refusal("unclear")
    query = with_earlier(question.with_only(question.turned(question.through_links(query))), before)
    lost = unread(clauses.items, query, linker, before)
    if lost or not is_plausible(query):
        return Refusal("unclear", lost)
    return _reading(query, frame, clauses, linked)


def _complete(frame: Frame, names: Sequence[Item]) -> bool:
    """Give rows that a short clause leaves out the last relation: "suppliers of A that B does not have"."""
    parts = [part for part in frame.parts if isinstance(part.condition, Related) and _has_row(part.condition.to)]
    if not parts:
        return False
    related = parts[-1].condition
    assert isinstance(related, Related)
    for item in names:
        test = Test("id", "is", tuple(each.value for each in item.meanings if _is_name(each)), item.text)
        excluded = Related(related.relation, related.outgoing, test, related.link, related.transitive, item.text)
        frame.parts.append(Part(Not(excluded), related.relation, item.text, item.start, is_negated=True))
    return True


def _only_excludes(linked: Linked, frame: Frame) -> bool:
    """Whether rows are left out of what no question before has named: "and without X?"."""
    begins = next((item for item in linked.items if not item.says("and", "but", "filler", "if")), None)
    is_bare = not (frame.is_named or frame.requested or frame.group or frame.order or frame.superlative)
    excludes = begins is not None and begins.says("without", "except")
    return excludes and is_bare and bool(frame.parts) and all(part.is_negated for part in frame.parts)


def _is_name(meaning: Meaning) -> bool:
    return meaning.role == "value" and meaning.name == "id"


def _reading(query: Query, frame: Frame, clauses: Clauses, linked: Linked) -> Reading:
    parts = [*frame.parts, *(clauses.than.parts if clauses.than else ())]
    understood = [(part.key, part.words) for part in sorted(parts, key=lambda part: part.at)]
    if frame.order is not None:
        understood.append((frame.order.by, frame.order_words))
    corrected = linked.corrected
    ignored = tuple(as_typed(words, corrected) for words in clauses.ignored)
    return Reading(query, tuple((key, as_typed(words, corrected)) for key, words in understood), ignored, corrected)


def _kind(linked: Linked, linker: Linker) -> str:
    """The kind of row that a question is about: its first noun's, else that of its values."""
    for roles in (("kind",), ("party",), ("attribute",), ("value", "range", "extreme", "unit")):
        for item in linked.items:
            meaning = None if roles == ("kind",) and is_attribute(item, linked.items) else item.find(*roles)
            if meaning is not None and meaning.kind and not (meaning.relation and meaning.role != "party"):
                return meaning.kind
    return linker.declaration.kinds[0].name


def _is_fragment(linked: Linked) -> bool:
    return not any(item.find("kind", "party") for item in linked.items)


class _Question:
    """A question that was read: its frame, and the query that its form makes of it."""

    def __init__(self, linked: Linked, linker: Linker, clauses: Clauses, frame: Frame) -> None:
        self._items = linked.items
        self._linker = linker
        self._clauses = clauses
        self._forms = clauses.forms
        self._frame = frame
        self._is_unclear = False

    def refusal(self) -> Refusal | None:  # noqa: PLR0911
        """Why the question has no query; None where it has one."""
        forms, clauses = self._forms, self._clauses
        if clauses.operations and self._named(anywhere=True):
            # What is said of a case around the operation and its rows only words it.
            clauses.unknown = [item for item in clauses.unknown if not item.text.islower()]
        # What would happen in a case that an operation works out is no prediction.
        works_out = any(item.says("if", "without", "in", "from") for item in self._items)
        concepts = [each for each in REASONS if each in forms]
        if clauses.operations:
            allowed = ("opinion", "prediction") if works_out else ("opinion",)
            concepts = [each for each in concepts if REASONS[each] not in allowed]
        refusal = declined([self._items[forms[each]] for each in concepts], concepts)
        if refusal is not None:
            return refusal
        if clauses.outside:
            return Refusal("outside_time", tuple(clauses.outside))
        counted = self._counted_value()
        if counted is not None:
            return Refusal("not_in_data", (counted.text,))
        if clauses.unavailable and _OPEN.keys().isdisjoint(forms):
            return Refusal("not_in_data", _texts(clauses.unavailable))
        if "small_talk" in forms or not self._has_content():
            if clauses.unknown and "small_talk" not in forms:
                return Refusal("unknown_words", _texts(clauses.unknown), open=self._fallback())
            return Refusal("small_talk" if self._is_social() else "unclear")
        if clauses.unknown and self._open_form() is None:
            return Refusal("unknown_words", _texts(clauses.unknown), open=self._fallback())
        return None

    def _counted_value(self) -> Item | None:
        """As in "how many GPUs": a number of something that is only a word in texts."""
        if "how_many" not in self._forms or self._frame.requested is not None:
            return None
        place = self._clauses.skip_light(self._forms["how_many"] + 1)
        item, following = self._clauses.at(place), self._clauses.at(self._clauses.skip_light(place + 1))
        is_text = (
            item is not None
            and item.find("value")
            and all(self._linker.is_text(meaning) for meaning in item.meanings if meaning.role == "value")
        )
        is_noun = (
            item is None
            or item.find("kind", "party", "attribute")
            or (following and following.find("kind", "party", "value"))
        )
        return item if is_text and not is_noun else None

    def _fallback(self) -> Open | None:
        """What to look for in the texts where only words are unknown; nothing for a number or a pronoun of nothing."""
        frame = self._frame
        counted = {"comparative_more", "comparative_less"}
        compares = self._clauses.than or counted & self._forms.keys()
        is_structured = frame.superlative or frame.order or frame.requested or frame.group or compares
        which = self._items[self._forms["which"]].text.lower() if "which" in self._forms else "what"
        asks_rows = frame.has_noun and (which not in ("what", "whats", "was") or "list" in self._forms)
        if (is_structured and len(self._clauses.unknown) < 3) or asks_rows or not _NUMBERS.isdisjoint(self._forms):
            return None
        return None if any(item.says("it") for item in self._clauses.unknown) else self._open("happened")

    def _is_social(self) -> bool:
        return "small_talk" in self._forms or all(
            item.find("mark") or item.says("greeting", "filler") for item in self._items
        )

    def _has_content(self) -> bool:
        frame = self._frame
        described = frame.parts or frame.has_noun or frame.requested or frame.group or frame.order or frame.superlative
        is_compared = self._clauses.than is not None
        what_time = "when" in self._forms and not self._frame.parts and not frame.has_noun
        return not what_time and bool(
            described or is_compared or self._clauses.operations or self._open_form() or mentions(self._clauses)
        )

    def _open_form(self) -> OpenForm | None:
        """The form of an open question; None for a question about rows and figures."""
        forms, frame = self._forms, self._frame
        for concept, form in _OPEN.items():
            as_list = form == "happened" and "list" in forms and frame.has_noun and frame.parts
            if concept in forms and not as_list and not ({"how_many", "average", "median"} & forms.keys()):
                return form
        if "who" in forms and not self._asks_rows():
            return "who"
        if "when" in forms and frame.order is None and not frame.is_named and not self._linker.kinds[frame.kind].links:
            return "happened"
        return None

    def _asks_rows(self) -> bool:
        """Whether "who" asks for rows: of a kind of persons, or those that a relation leads to."""
        frame = self._frame
        person = self._linker.kinds[frame.kind].person
        return bool(
            person
            or frame.has_noun
            or frame.requested
            or frame.superlative
            or any(isinstance(inner, Related) for part in frame.parts for inner in _inside(part.condition))
        )

    def _open(self, form: OpenForm) -> Open:
        frame = self._frame
        words = (*self._clauses.topic, *_texts(self._clauses.unavailable), *_texts(self._clauses.unknown))
        return Open(Rows(frame.kind, frame.where, frame.order, None), tuple(dict.fromkeys(words)), form)

    @property
    def _rows(self) -> Rows:
        frame = self._frame
        if {"descending", "ascending"} & self._forms.keys() and not self._clauses.has_limit:
            return Rows(frame.kind, frame.where, frame.order)
        return Rows(frame.kind, frame.where, frame.order, frame.limit, frame.skip)

    def query(self) -> Query | None:  # noqa: C901, PLR0911, PLR0912
        """The query that the question's form makes of its rows; None where that stays unclear."""
        forms, frame = self._forms, self._frame
        if self._clauses.operations and not self._asks_beside_operation():
            return self._call()
        form = self._open_form()
        if form is not None:
            return self._open(form)
        if "share" in forms and not self._is_common_share():
            return self._share()
        compared = self._compare()
        if self._is_unclear:
            return None
        if compared is not None:
            return compared
        if (
            "who" in forms
            and not frame.has_noun
            and not any(part.key == "id" and not part.is_negated for part in frame.parts)
        ):
            who = self._linker.kinds[frame.kind].who
            frame.parts += [Part(Test(name, "is", (value,), "who"), name, "who", 0) for name, value in who.items()]
        if "where" in forms and frame.requested is None and frame.group is None:
            if "which" not in forms:
                return self._place()
            is_object = self._items[self._forms["which"]].text.lower().startswith(("from ", "to ", "by "))
            return None if is_object else List(self._rows)
        if self._counts_tested():
            frame.requested = None
        if frame.group is not None or self._has_groups():
            return self._groups()
        if frame.requested is not None:
            return self._attribute_query()
        if "when" in forms:
            times = [item.name for item in self._linker.kinds[frame.kind].attributes if item.type == "time"]
            return List(self._rows, times[0]) if times else None
        if frame.measured is not None and {"average", "median"} & forms.keys():
            return Figure(Rows(frame.kind, frame.where), self._measure())
        if frame.measured is not None and self._clauses.values_of(frame.measured) and frame.order is None:
            return Figure(Rows(frame.kind, frame.where), self._measure())
        if "sum" in forms and (weight := self._weight_of_several()):
            return Figure(Rows(frame.kind, frame.where), Measure("sum", weight))
        if "how_many" in forms or ("sum" in forms and "list" not in forms and "which" not in forms):
            return Figure(Rows(frame.kind, frame.where))
        if self._is_yes_no():
            return self._universal() or Exists(Rows(frame.kind, frame.where))
        return List(self._rows)

    def change(self) -> Query | None:
        """By how much, or what percentage, a number is above or below another one of the same row: of another year."""
        frame = self._frame
        named = [each for item in self._items if (each := self._number_named(item)) is not None]
        while len(named) > 1 and named[-1] == named[-2]:
            named.pop()
        changing = {item.text for item in self._items if item.says("increase", "decrease")}
        is_plain = "share" not in self._forms
        compares = {"difference", "comparative_more", "comparative_less"} & self._forms.keys() or changing
        if len(named) < 2 or named[-1] == named[-2]:
            return None
        if is_plain and not (compares and all(self._of_year(name) for name in named[-2:])):
            return None
        is_decrease = any(item.says("decrease") for item in self._items)
        parts = [part.condition for part in frame.parts if part.words not in changing]
        self._know("increase", "decrease", "share")
        later, earlier = named[-1], named[-2]
        if is_plain and any(item.says("than") for item in self._items):
            later, earlier = earlier, later
        elif is_plain:
            earlier, later = sorted((earlier, later), key=lambda name: getattr(self._of_year(name), "year", 0))
        is_less = is_decrease or (is_plain and any(_LESS & {*item.text.lower().split()} for item in self._items))
        names: tuple[Function, Function] = ("more", "less") if is_plain else ("increase", "decrease")
        return Figure(Rows(frame.kind, all_of(parts)), Measure(names[is_less], later, earlier))

    def _of_year(self, name: str) -> Attribute | None:
        attribute = self._linker.attribute_named(self._frame.kind, name)
        return attribute if attribute is not None and attribute.year else None

    def in_common(self, before: Query | None) -> Query | None:
        """What the rows have in common that the two questions before named: "which customers do those two share?"."""
        links = [part.condition for part in self._frame.parts]
        if not isinstance(before, List) or not before.earlier or not ({"common", "both", "share"} & self._forms.keys()):
            return None
        named = [named_in(rows.where) for rows in (*before.earlier, before.rows)]
        if None in named:
            return None
        link = links[0] if len(links) == 1 else None
        if not isinstance(link, Related) or link.to != EVERYTHING:
            return None
        rows = Rows(self._frame.kind, all_of([replace(link, to=one) for one in named if one is not None]))
        return Figure(rows) if "how_many" in self._forms else List(rows)

    def _know(self, *concepts: str) -> None:
        """Take words that only the form of the question needs from those that are not known."""
        unknown = self._clauses.unknown
        self._clauses.unknown = [item for item in unknown if not (item.says(*concepts) or item.find("ordinal"))]

    def _number_named(self, item: Item) -> str | None:
        """The number of the frame's rows that a phrase names."""
        own = (each for each in item.meanings if each.role == "attribute" and each.kind == self._frame.kind)
        return next((each.name for each in own if self._is_numeric(each.kind, each.name)), None)

    def lead(self, before: Query | None) -> Query | None:
        """By how much the first row of an order is ahead of the next one: "how far ahead of the second"."""
        is_next = any(
            item.says("runner_up") or ((one := item.find("ordinal")) and one.value == 2) for item in self._items
        )
        if not is_next or not ("difference" in self._forms or any(item.says("ahead") for item in self._items)):
            return None
        own = Rows(self._frame.kind, self._frame.where, self._frame.order)
        rows = own if own.order is not None else before.rows if isinstance(before, List) else None
        if rows is None or rows.order is None:
            return None
        self._know("runner_up", "ahead", "difference")
        sides = tuple(Rows(rows.kind, rows.where, rows.order, 1, skip) for skip in (0, 1))
        return Compare(sides, Measure("largest", rows.order.by), difference=True)

    def _weight_of_several(self) -> str | None:
        """The number by which rows are the largest, where nothing but several rows is named: "A and B together"."""
        where, weight = self._frame.where, self._linker.kinds[self._frame.kind].weight
        named = isinstance(where, Test) and where.attribute == "id" and len(where.values) > 1
        return weight if named and weight and self._is_numeric(self._frame.kind, weight) else None

    def with_only(self, query: Query) -> Query:
        """The query of rows that have a named row and no other: "for which X is the only supplier"."""
        place = next((place for place, item in enumerate(self._items) if self._is_only_party(place, item)), None)
        if place is None or not isinstance(query, List | Figure | Exists) or isinstance(query.rows.where, Test):
            return query
        party = self._items[place].find("party")
        parts = query.rows.parts
        links = [part for part in parts if isinstance(part, Related) and named_in(part) is not None]
        if party is None or len(links) != 1 or links[0].relation != party.relation:
            return query
        link = links[0]
        one = Test(f"{link.relation}.{'in' if party.value else 'out'}", "is", (1.0,), self._items[place].text)
        turned = Related(link.relation, not party.value, link.to, link.link, link.transitive, link.words)
        where = all_of([*(part for part in parts if part is not link), turned, one])
        return with_rows(query, lambda old: Rows(old.kind, where, old.order, old.limit, old.skip))

    def _is_only_party(self, place: int, item: Item) -> bool:
        """Whether an only party is meant that rows have: "whose only supplier", "as their only supplier"."""
        before = self._items[:place]
        if item.find("party") is None or not before or not before[-1].says("only", "exactly"):
            return False
        words = [each.text.lower() for each in before]
        of_which = any(one in {"for", "of"} and other in {"which", "whom"} for one, other in pairwise(words))
        return of_which or {"as", "whose", "for which", "of which", "for whom"}.intersection(words) != set()

    def through_links(self, query: Query) -> Query:
        """The query of the rows at the other ends of a row's links: "the companies that X has a deal with"."""
        if not isinstance(query, List | Figure):
            return query
        parts = query.rows.parts
        names = [part for part in parts if isinstance(part, Test) and part.attribute == "id"]
        links = [part for part in parts if isinstance(part, Related) and self._leads_to_links(part)]
        owners = [each for part in links if (each := named_in(part)) is not None]
        if len(links) != 1 or len(names) + len(owners) != 1 or len((names or owners)[0].values) != 1:
            return query
        link, owner = links[0], (names or owners)[0]
        ends = Related(link.relation, not link.outgoing, owner, words=owner.words)
        to = all_of([link.to, ends]) if names else link.to
        rest = [part for part in parts if part not in (link, *names)]
        where = all_of([replace(link, to=to), Not(Test("id", "is", owner.values, owner.words)), *rest])
        return with_rows(query, lambda old: Rows(old.kind, where, old.order, old.limit, old.skip))

    def _leads_to_links(self, related: Related) -> bool:
        """Whether a relation leads from other rows to links."""
        relation = self._linker.relations[related.relation]
        return not related.outgoing and bool(self._linker.kinds[relation.source].links)

    def turned(self, query: Query) -> Query:
        """The query of rows at the other end, where a row is named and what it is related to is asked for.

        As in "X has which customers?" and "X is a customer of whom?": no one asks for X itself.
        """
        if not isinstance(query, List | Figure | Groups):
            return query
        parts = query.rows.parts
        names = [part for part in parts if isinstance(part, Test) and part.attribute == "id"]
        if is_plausible(query):
            states = isinstance(query, List) and query.attribute is None and query.rows.order is None
            asks = (
                states
                and not ({*_WHICH, "only"} & self._forms.keys())
                and not self._lists()
                and not self._clauses.refers_back
            )
            is_stated = len(names) == 1 and any(isinstance(part, Related) for part in parts)
            return Exists(query.rows) if asks and is_stated else query
        if len(names) != 1:
            return query
        links = [part for part in parts if isinstance(part, Related) and is_open(part, names[0])]
        if len(links) != 1 or len(names) + len(links) < len(parts):
            return query
        if isinstance(links[0].to, Related):
            return query
        link = links[0]
        relation = self._linker.relations[link.relation]
        outgoing = link.outgoing != self._turns(link)
        of_all = [Test("id", "is", (value,), names[0].words) for value in names[0].values]
        ends = of_all if any(item.says("both", "common") for item in self._items) else names
        turned = all_of([Related(link.relation, outgoing, end, link.link, link.transitive, link.words) for end in ends])
        kind = relation.source if outgoing else relation.target
        return with_rows(query, lambda old: Rows(kind, turned, old.order, old.limit, old.skip))

    def _turns(self, link: Related) -> bool:
        """Whether a row is named as the subject of a relation: by a verb, by "has customers", by "is a customer"."""
        for part in self._frame.parts:
            if part.key != link.relation:
                continue
            place = next(
                (i for i, item in enumerate(self._items) if i >= part.at and item.find("verb", "party")), part.at
            )
            party = self._items[place].find("party")
            if party is None or (self._items[place].text == link.words and self._items[place].find("verb")):
                return True
            if link.outgoing != bool(party.value):
                return True  # "has customers"
            before = self._clauses.at(place - 1)
            return before is not None and before.text.lower() in _ONE
        return True

    def _universal(self) -> Query | None:
        """As in "are all foundries public?": whether the rows have the last property."""
        verb = next((place for place, item in enumerate(self._items) if item.says("be", "do", "have")), -1)
        following = self._clauses.at(verb + 1)
        parts = self._frame.parts
        if following is None or following.text.lower() not in _EVERY or not parts:
            return None
        whole = Rows(self._frame.kind, all_of([part.condition for part in parts[:-1]]))
        return Share(Rows(self._frame.kind, parts[-1].condition), whole, is_every=True)

    def _is_common_share(self) -> bool:
        """As in "Which suppliers do A and B share" is no question for a percentage."""
        return (
            self._items[self._forms["share"]].says("common")
            and "what" not in self._forms
            and "how_many" not in self._forms
            and "have" not in self._forms
            and (self._forms["share"] > 1 or self._precedes_party(self._forms["share"]))
        )

    def _precedes_party(self, place: int) -> bool:
        following = self._clauses.at(place + 1)
        return following is not None and following.find("party") is not None

    def _is_yes_no(self) -> bool:
        forms = self._forms
        asks_otherwise = {"which", "who", "where", "when", "how_much", "difference"} & forms.keys()
        counts = "how_many" in forms and "number" not in self._items[forms["how_many"]].text.lower()
        if asks_otherwise or counts or ("how_many" in forms and not self._clauses.is_compared):
            return False
        colon = next((i for i, item in enumerate(self._items) if item.says(":")), -1)
        start = colon if colon < len(self._items) - 3 else -1
        first = next(
            (
                i
                for i, item in enumerate(self._items)
                if i > start and not item.find("mark") and not item.says("greeting", "filler")
            ),
            0,
        )
        if "whether" in forms or (
            self._clauses.than is not None and self._items[-1].says("?") and self._is_bare(first)
        ):
            return True
        exists = forms.get("exists")
        if exists is not None:
            return not self._lists() or forms["list"] > exists
        leading = self._items[first]
        is_ordered = self._frame.order is not None or self._frame.superlative
        if leading.text.lower() == "any" and self._items[-1].says("?") and not is_ordered:
            return True
        if leading.find("verb") and not leading.find("value", "party", "attribute"):
            return True
        return (
            leading.says("be", "do", "have")
            and not leading.find("value", "kind")
            and (start >= 0 or first in {forms.get("be"), forms.get("do"), forms.get("have")})
        )

    def _is_bare(self, first: int) -> bool:
        """Whether a comparison has no verb and is one question: "more events in A than in B?"."""
        begins = self._items[first].says("comparative_more", "comparative_less") and self._items[-1].says("?")
        return begins and self._clauses.than is not None and not any(item.says("or", ":") for item in self._items)

    def _measure(self) -> Measure:
        """The measure of rows or groups: of the attribute requested for, else their number."""
        frame, forms = self._frame, self._forms
        hint = self._clauses.noun if {"comparative_more", "comparative_less"} & forms.keys() else None
        for meaning in (frame.measured, frame.requested, hint):
            if meaning is not None and meaning.role == "party":
                name = f"{meaning.relation}.{'in' if meaning.value else 'out'}"
                break
            if meaning is not None and self._is_numeric(meaning.kind, meaning.name):
                name = meaning.name
                break
            if meaning is not None and meaning == frame.measured and (counted := self._clauses.values_of(meaning)):
                name = counted
                break
        else:
            return Measure()
        function: Function = "average" if "average" in forms else "median" if "median" in forms else "sum"
        return Measure(function, name)

    def _is_numeric(self, kind: str, name: str) -> bool:
        attribute = self._linker.attribute_named(kind, name)
        return attribute is not None and attribute.type in NUMERIC

    def _has_groups(self) -> bool:
        """Whether the attribute requested for divides the rows: "which country", "how many countries"."""
        requested = self._frame.requested
        if requested is None or self._is_numeric(requested.kind, requested.name) or self._is_one_row():
            return False
        attribute = self._linker.attribute(requested)
        if attribute is not None and attribute.type == "time":
            return "day" in attribute.units and (self._frame.superlative != "" or "how_many" in self._forms)
        return attribute is not None and attribute.type in {"keyword", "place", "flag"}

    def _counts_tested(self) -> bool:
        """Whether rows are counted whose attribute is named with its value: "the number of rows whose class is A"."""
        requested, place = self._frame.requested, self._forms.get("how_many")
        if requested is None or place is None or not any(part.key == requested.name for part in self._frame.parts):
            return False
        noun = next((each for each in self._items[place + 1 :] if each.find("kind", "party", "attribute")), None)
        return noun is not None and noun.find("kind") is not None and not noun.find("attribute")

    def _is_one_row(self) -> bool:
        ids = [part for part in self._frame.parts if part.key in {"id", ""} and isinstance(part.condition, Test)]
        ids = [part for part in ids if isinstance(part.condition, Test) and part.condition.attribute == "id"]
        if self._clauses.refers_back and self._frame.limit == 1:
            return True
        return bool(ids) or (
            self._frame.order is not None
            and self._frame.superlative != ""
            and self._frame.has_noun
            and self._frame.measured is not None
            and self._frame.measured.role == "extreme"
        )

    def _is_said_of_each(self) -> bool:
        """Whether each row has its own number: a row that is named, and links, whose numbers no one adds up."""
        return self._is_one_row() or bool(self._linker.kinds[self._frame.kind].links)

    def _groups(self) -> Query:
        frame, forms = self._frame, self._forms
        by = frame.group or frame.requested
        assert by is not None
        rows, without, also = self._grouped_rows(by)
        counts = "how_many" in forms and frame.group is None and not frame.superlative
        limit = None if not frame.superlative and frame.limit is None else frame.limit or 1
        measure = self._measure()
        return Groups(
            rows,
            by.name,
            measure,
            frame.superlative != "least",
            limit,
            frame.skip,
            frame.at_least,
            frame.at_most,
            counts,
            mean="average" in forms and measure == COUNT and frame.group is not None,
            without=without,
            also=also,
        )

    def _grouped_rows(self, by: Meaning) -> tuple[Rows, Rows | None, Rows | None]:
        """The rows of groups, those that a group may not have ("but no X"), those that it must have ("both X, Y")."""
        kind, parts = self._frame.kind, self._frame.parts
        every = Rows(kind, self._frame.where)
        if self._frame.group is not None:
            return every, None, None
        denial = next((i for i, item in enumerate(self._items) if self._denies_rows(i, item, by)), None)
        denied = [part for part in parts if isinstance(part.condition, Not) and part.key != by.name]
        if denial is not None and len(denied) == 1 and denied[0].at >= denial:
            rest = [part.condition for part in parts if part is not denied[0]]
            assert isinstance(denied[0].condition, Not)
            return Rows(kind, all_of(rest)), Rows(kind, denied[0].condition.of), None
        both = next((i for i, item in enumerate(self._items) if item.says("both")), None)
        if both is not None and not denied and self._follows_group(both, by):
            halves = [half for part in parts for half in _halves(part.condition)]
            if len(halves) == 2:
                return Rows(kind, halves[0]), None, Rows(kind, halves[1])
        return every, None, None

    def _denies_rows(self, place: int, item: Item, by: Meaning) -> bool:
        """Whether a group may have none of the rows that follow: "countries without X", "with X but no Y"."""
        following = self._clauses.at(place + 1)
        has_not = item.says("not") and following is not None and following.says("have")
        is_none = has_not or item.says("without") or item.text.lower() in _NONE
        return is_none and self._follows_group(place, by, "but", "and")

    def _follows_group(self, place: int, by: Meaning, *words: str) -> bool:
        """Whether the noun of the groups, or one of these words, is the last before a place that is no auxiliary."""
        for item in reversed(self._items[:place]):
            if by in item.meanings or item.says(*words):
                return True
            if not item.says("have", "be", "do", "with", "that", "exists", "filler", "all", "occur"):
                return False
        return False

    def _attribute_query(self) -> Query:
        """One attribute of the rows: its figure, or its value of each row."""
        frame, forms = self._frame, self._forms
        requested = frame.requested
        assert requested is not None
        is_numeric = self._is_numeric(requested.kind, requested.name)
        if (
            is_numeric
            and frame.order is None
            and (forms.keys() & {"how_many", "how_much", "average", "median", "sum"} or not self._is_said_of_each())
        ):
            return Figure(Rows(frame.kind, frame.where), self._measure())
        if self._is_yes_no():
            return Exists(Rows(frame.kind, all_of([frame.where, Test(requested.name, "known")])))
        if "who" in forms and frame.order is not None and frame.order.by == requested.name:
            return List(self._rows)
        return List(self._rows, requested.name)

    def _place(self) -> Query:
        frame = self._frame
        places = [item for item in self._linker.kinds[frame.kind].attributes if item.type == "place"]
        if not places:
            return List(self._rows)
        if self._is_one_row() or frame.order is not None:
            return List(self._rows, places[0].name)
        return Groups(Rows(frame.kind, frame.where), places[0].name)

    def _call(self) -> Query | None:
        """An operation with the rows that are named in the question."""
        frame, clauses = self._frame, self._clauses
        operation = self._most_specific()
        if self._counts_steps():
            operation = self._linker.counting(operation)
        least, most = operation.rows
        sets = [Rows(frame.kind, test) for test in self._named(anywhere=least > 1)]
        if least < 2:
            sets = self._cause_and_effect(most)
        if len(sets) < least or (least == 1 and "compare" in self._forms):
            return None
        numbers = [item.number for item in self._items if item.number is not None]
        limit = (frame.limit or int(numbers[0])) if numbers else None
        asks = (
            least > 1
            and not operation.counts
            and not (_WHICH & self._forms.keys())
            and (self._is_yes_no() or self._begins_with("any", "can"))
        )
        return Call(operation.name, tuple(sets[:most]), tuple(clauses.topic), limit, asks)

    def _most_specific(self) -> Operation:
        """Of the operations that are named on the same rows the one declared last: steps and ends before their path."""
        named = [self._linker.operations[meaning.name] for meaning, _ in self._clauses.operations]
        declared = list(self._linker.operations.values())
        return max((one for one in named if one.rows == named[0].rows), key=declared.index)

    def _counts_steps(self) -> bool:
        """Whether a number is asked for of what an operation's own word names: "the number of links"."""
        for place, item in enumerate(self._items):
            if item.says("how_many") or item.text.lower().endswith("number of"):
                after = self._items[place + 1 :]
                named = next((each for each in after if each.find("kind", "party", "operation")), None)
                return named is not None and named.find("operation") is not None
        return False

    def _lists(self) -> bool:
        """Whether a list is asked for; "tell me" only leads in a question."""
        return "list" in self._forms and "tell" not in self._items[self._forms["list"]].text.lower()

    def _begins_with(self, *words: str) -> bool:
        first = next((item for item in self._items if not item.find("mark") and not item.says("greeting")), None)
        return first is not None and first.text.lower().split()[0] in words

    def _asks_beside_operation(self) -> bool:
        """As in "what money does the brief give X": an operation on no rows, and rows that are ordered or asked of."""
        operation = self._linker.operations[self._clauses.operations[0][0].name]
        is_ordered = self._frame.has_noun and self._frame.order is not None
        return operation.rows == (0, 0) and (is_ordered or self._frame.requested is not None)

    def _rows_of(self, parts: Sequence[Part]) -> list[Rows]:
        """The rows that are named in parts; without names those that are described."""
        inner = [one for part in parts for one in _inside(part.condition)]
        named = [one for part in parts if part.key == "id" for one in _inside(part.condition)]
        linked = [one.to if isinstance(one, Related) else one for one in inner]
        for among in (named, inner, linked):
            values = [value for one in among if isinstance(one, Test) and one.attribute == "id" for value in one.values]
            if values:
                return [Rows(self._frame.kind, Test("id", "is", tuple(dict.fromkeys(values))))]
        return [Rows(self._frame.kind, all_of(inner))] if inner else []

    def _cause_and_effect(self, most: int) -> list[Rows]:
        """The rows of the case that is supposed, and apart from them other rows that are named."""
        start = next((i for i, item in enumerate(self._items) if item.says("if", "without")), None)
        parts = self._frame.parts
        if start is None:
            return self._rows_of(parts)
        ends = (
            i for i in range(start, len(self._items)) if self._items[i].says(",", ":", "?", ".", ";", "who", "which")
        )
        end = next(ends, len(self._items))
        causes = [part for part in parts if start < part.at <= end]
        effects = [part for part in parts if part.key == "id" and part not in causes]
        sides = [*self._rows_of(causes or parts), *(self._rows_of(effects) if causes else ())]
        return sides[:most]

    def _named(self, *, anywhere: bool = False) -> list[Test]:
        """The rows that are named, each by itself, in the order of the question. `anywhere`: also by relations."""
        if anywhere:
            names = [[each for each in item.meanings if _is_name(each)] for item in self._items]
            return [
                Test("id", "is", (meanings[0].value,), item.text)
                for item, meanings in zip(self._items, names, strict=True)
                if meanings
            ]
        tests = [
            inner
            for part in sorted(self._frame.parts, key=lambda part: part.at)
            if part.key == "id"
            for inner in _inside(part.condition)
            if isinstance(inner, Test)
        ]
        return [Test("id", "is", (value,), test.words) for test in tests for value in test.values]

    def _share(self) -> Query | None:
        """What is said after the verb is the part; what stands before it is the whole."""
        frame = self._frame
        start = self._forms["share"]
        if not any(item.find("kind", "party", "value") for item in self._items[start:]):
            start = 0  # "How much of it is Taiwanese, in per cent?"
        nouns = [
            index
            for index, item in enumerate(self._items)
            if index > start and item.find("kind", "party", "value", "attribute")
        ]
        after = range(nouns[0] + 1, len(self._items)) if nouns else ()
        ends = [index for index in after if self._items[index].says("be", "have", "do", "occur", "with")]
        verbs = [index for index in after if self._is_predicate(self._items[index])]
        split = next(iter((*ends, *verbs)), self._place_of_happening(nouns[0]) if nouns else None)
        where = frame.where
        if split is not None and any(part.at > split or (part.at == split) for part in frame.parts):
            whole = [part.condition for part in frame.parts if part.at < split]
        else:
            whole = [part.condition for part in frame.parts[1:]]
        return Share(Rows(frame.kind, where), Rows(frame.kind, all_of(whole)))

    @staticmethod
    def _is_predicate(item: Item) -> bool:
        return item.find("verb") is not None or (item.find("preposition") is not None and " " in item.text)

    def _place_of_happening(self, start: int) -> int | None:
        """Where a verb without meaning stands before a preposition: "happened in", "took place in"."""
        for index in range(start + 1, len(self._items) - 1):
            item, following = self._items[index], self._items[index + 1]
            is_place = following.find("preposition") or following.says("in", "from", "of")
            if item.says("filler") and not item.says("all", "of", "in", "from") and is_place:
                return index
        return None

    def _compare(self) -> Query | None:
        """The sides of a comparison, if the question has one."""
        forms, frame = self._forms, self._frame
        asks = {"compare", "difference", "comparative_more", "comparative_less", "as_many"} & forms.keys()
        if not asks:
            return None
        rows = Rows(frame.kind, frame.where)
        if self._clauses.before is not None and self._clauses.than is not None and not frame.parts:
            rows = Rows(self._clauses.before.kind, self._clauses.before.where)
        if self._clauses.than is not None and (self._clauses.than.parts or self._clauses.than.has_noun):
            if (
                any(part.key == "id" for part in self._clauses.than.parts)
                and not self._is_one_row()
                and not _has_row(frame.where)
            ):
                return self._exceeding()
            keys = {part.key for part in frame.parts}
            shared = [part.condition for part in self._clauses.than.parts if part.key not in keys and part.key != "id"]
            if any(part.key in keys for part in self._clauses.than.parts):
                rows = Rows(frame.kind, all_of([frame.where, *shared]))  # "more battles than protests in Iraq"
            sides: Sequence[Rows] = (rows, override(rows, self._clauses.than.parts))
        else:
            sides = [Rows(frame.kind, one) for one in split(frame.where)]
        return self._compared(sides) if len(sides) > 1 else None

    def _exceeding(self) -> Query | None:
        """The rows that have more than a named one: "which companies have more customers than TSMC"."""
        measure, than = self._measure(), self._clauses.than
        named = [one for part in (than.parts if than else ()) if part.key == "id" for one in _inside(part.condition)]
        row = named[0] if len(named) == 1 else None
        if measure.attribute is None or not isinstance(row, Test) or len(row.values) != 1:
            self._is_unclear = True
            return None
        comparison: Comparison = "below" if "comparative_less" in self._forms else "above"
        if "as_many" in self._forms:
            comparison = "at_least" if any(item.says("at_least") for item in self._items) else "is"
        test = Test(measure.attribute, comparison, (), row.words, str(row.values[0]))
        rows = Rows(self._frame.kind, all_of([self._frame.where, test]))
        if "how_many" in self._forms:
            return Figure(rows)
        return Exists(rows) if self._is_yes_no() else List(rows)

    def _compared(self, sides: Sequence[Rows]) -> Query:
        forms = self._forms
        yes_no = "difference" not in forms and self._is_yes_no()
        counts = ("how_many" in forms and "compare" not in forms) or "how_much" in forms
        difference = "difference" in forms or (counts and not yes_no)
        return Compare(tuple(sides), self._measure(), difference, "comparative_less" not in forms, yes_no)


def _has_row(condition: Condition) -> bool:
    """Whether the condition names a row, itself or at the other end of a relation."""
    if isinstance(condition, Test):
        return condition.attribute == "id"
    if isinstance(condition, Related):
        return _has_row(condition.to)
    if isinstance(condition, Among):
        return True
    of = (condition.of,) if isinstance(condition, Not) else condition.of
    return any(_has_row(inner) for inner in of)


def _inside(condition: Condition) -> list[Condition]:
    """A condition and those that it is made of, on the same rows."""
    if isinstance(condition, AllOf | AnyOf):
        return [inner for one in condition.of for inner in _inside(one)]
    return _inside(condition.of) if isinstance(condition, Not) else [condition]


def _texts(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(item.text for item in items)


__all__ = ["Part", "read_question", "with_rows"]


def _halves(condition: Condition) -> list[Condition]:
    """The two rows that a condition joins by "or"; else the condition."""
    if isinstance(condition, AnyOf):
        return list(condition.of)
    if isinstance(condition, Test) and condition.comparison == "is" and len(condition.values) == 2:
        return [replace(condition, values=(value,)) for value in condition.values]
    return [condition]
