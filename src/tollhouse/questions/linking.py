"""Links the words of a question to function words, to the vocabulary of a service, and to names in its data."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tollhouse.questions.declared_words import Part, declared_words
from tollhouse.questions.lexicon import LONGEST_PHRASE, Lexicon, Node, stems
from tollhouse.questions.normalise import (
    LANGUAGES,
    Token,
    currency,
    fold,
    language_data,
    languages_of,
    phrase,
    tokenise,
)
from tollhouse.questions.query import ALL, Scalar, operands
from tollhouse.questions.spelling import (
    DECLARED,
    MOST_MISSPELT,
    ONE_ERROR_FROM,
    RARE,
    RARER,
    TYPO_COST,
    Corrections,
    Form,
    Spellings,
    likeliest,
    ranks,
    spellings,
)
from tollhouse.questions.synonyms import PREPOSITIONS, synonyms
from tollhouse.questions.times import TimePhrase, find_times, is_time_preposition
from tollhouse.questions.vocabulary import Attribute, Declaration, Named, Operation

Role = Literal[
    "function",
    "kind",
    "attribute",
    "value",
    "range",
    "extreme",
    "unit",
    "verb",
    "stranded",
    "party",
    "transitive",
    "preposition",
    "operation",
    "unavailable",
    "number",
    "ordinal",
    "time",
    "mark",
    "unknown",
]

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
# Concepts that questions begin with, and how much likelier they are there.
_BEGINNINGS = frozenset({"which", "who", "where", "when", "why", "how", "how_many", "list", "be", "do", "exists"})
BEGINNING = 0.15
SYNONYM_COST = 0.5
# The parts of speech of what a phrase can stand for: a noun, a verb, an adjective.
_PARTS = {
    "kind": "n",
    "attribute": "n",
    "party": "n",
    "verb": "v",
    "operation": "nva",
    "extreme": "a",
    "unavailable": "n",
}

# Function words that deny.
NEGATIONS = ("not", "without", "except", "neither", "nor")


class Meaning(Struct, frozen=True, gc=False):
    """What a phrase can stand for. `name` is the concept, attribute, relation, operation or subject.

    A "value", "range", "extreme" or "unit" belongs to attribute `name` of `kind`, or of the relation `relation`. The
    value of a "verb" and a "party" says whether it has, or is, the source of the relation.
    """

    role: Role
    name: str = ""
    kind: str = ""
    value: Any = None
    relation: str = ""


class Item(Struct, frozen=True):
    """A phrase of a question with what it can stand for, likeliest first. `cost` rises with inflection and typos."""

    text: str
    meanings: tuple[Meaning, ...]
    start: int
    end: int
    cost: float = 0.0
    glued: bool = False

    def find(self, *roles: Role) -> Meaning | None:
        return next((meaning for meaning in self.meanings if meaning.role in roles), None)

    def says(self, *concepts: str) -> bool:
        """Whether the phrase can be one of these function words or marks."""
        return any(meaning.role in {"function", "mark"} and meaning.name in concepts for meaning in self.meanings)

    @property
    def is_name(self) -> bool:
        """Whether the phrase can name a row."""
        return any(meaning.role == "value" and meaning.name == "id" for meaning in self.meanings)

    @property
    def number(self) -> float | None:
        meaning = self.find("number")
        return None if meaning is None else float(meaning.value)


class Linked(Struct, frozen=True):
    """A text as a sequence of items, and the typos that were corrected in it. `score`: how many words are known."""

    items: tuple[Item, ...]
    corrected: tuple[tuple[str, str], ...]
    language: str
    score: float = 0.0


class _Entry(Struct, frozen=True, gc=False):
    """A meaning, in one language or in all (""). `exact`: how it must be written; "" for any way."""

    meaning: Meaning
    language: str = ""
    exact: str = ""
    is_name: bool = False
    cost: float = 0.0


class _Match(Struct, frozen=True):
    """A phrase matched at tokens `first` to before `last`."""

    first: int
    last: int
    node: Node[_Entry]
    cost: float


class Linker:
    """The words of a declaration and of the names in the data. `words` are ordinary words of the data's texts.

    Ordinary words are never corrected to something else.
    """

    def __init__(
        self,
        declaration: Declaration,
        names: Iterable[Named],
        words: Collection[str] = (),
        earliest: datetime | None = None,
    ) -> None:
        self.earliest = earliest
        self.declaration = declaration
        self.kinds = {kind.name: kind for kind in declaration.kinds}
        self.relations = {relation.name: relation for relation in declaration.relations}
        self.operations = {operation.name: operation for operation in declaration.operations}
        self._attributes = {(kind.name, item.name): item for kind in declaration.kinds for item in kind.attributes}
        self._link_attributes = {
            (relation.name, item.name): item for relation in declaration.relations for item in relation.link
        }
        # The kind of row that the links of a relation are, by relation.
        self.link_kinds = {relation: kind for kind in declaration.kinds for relation in kind.links}
        self.text_words = words
        self._values = {fold(value) for item in self._attributes.values() for value in item.values}
        self._lexicon: Lexicon[_Entry] = Lexicon()
        self._known: dict[tuple[str, str], tuple[tuple[str, float], ...]] = {}
        self.has_time = any(item.type == "time" for item in self._attributes.values())
        for text, entry in _function_entries():
            self._add(text, entry, inflects=False)
        for text, meaning in _declared(declaration):
            declared = self.attribute(meaning) if meaning.role == "value" else None
            self._add(text, _Entry(meaning), inflects=declared is None or declared.inflects)
        self._add_synonyms(declaration)
        self._texts_of_value: dict[tuple[str, str], dict[Scalar, tuple[str, ...]]] = defaultdict(dict)
        for name in names:
            entry = self._add_text(name)
            # "Photoresist" and "photoresists" name one product.
            self._add(name.text, entry, inflects=self.is_text(entry.meaning) and not name.exact)

    def renamed(self, removed: Iterable[Named], added: Iterable[Named], words: Collection[str]) -> "Linker":
        """The linker of data with other names and ordinary words, which shares with this one what has not changed.

        No two names may have one value, and none that of a text. It links as a linker that is made anew of names in the
        order of the declared attributes, those of rows last, and of their values.
        """
        other = copy(self)
        for name in ("described", "_spellings", "_text_spellings"):
            other.__dict__.pop(name, None)
        other.text_words = words
        other._rename(removed, added)  # noqa: SLF001 - the same class
        return other

    def _rename(self, removed: Iterable[Named], added: Iterable[Named]) -> None:
        self._known = {}
        self._lexicon = self._lexicon.copy()
        self._texts_of_value = defaultdict(dict, {at: dict(texts) for at, texts in self._texts_of_value.items()})
        for name in removed:
            if name.attribute != "id":
                del self._texts_of_value[name.kind, name.attribute][name.value]
            self._lexicon.remove(name.text, self._entry(name))
        for name in added:
            self._add(name.text, self._add_text(name), inflects=False)
            self._lexicon.sort(name.text, self._rank)

    def _add_text(self, name: Named) -> _Entry:
        """What a name means, added to the texts of its attribute's values."""
        if name.attribute != "id":
            texts = self._texts_of_value[name.kind, name.attribute]
            texts[name.value] = (*texts.get(name.value, ()), name.text)
        return self._entry(name)

    def _entry(self, name: Named) -> _Entry:
        relation = name.kind if name.kind in self.relations else ""
        meaning = Meaning("value", name.attribute, name.kind, name.value, relation)
        return _Entry(meaning, exact=name.text if name.exact else "", is_name=True)

    def _rank(self, entry: _Entry) -> tuple[int, str]:
        """The order of the entries of a phrase: what is declared, then values by attribute, then rows."""
        if not entry.is_name:
            return -1, ""
        names = [each.name for each in self.kinds[entry.meaning.kind].attributes]
        name = entry.meaning.name
        return names.index(name) if name in names else len(names), str(entry.meaning.value)

    def attribute(self, meaning: Meaning) -> Attribute | None:
        """The declared attribute of a meaning; None for "id"."""
        if meaning.relation and meaning.role != "party":
            return self._link_attributes.get((meaning.relation, meaning.name))
        return self._attributes.get((meaning.kind, meaning.name))

    def attribute_named(self, kind: str, name: str) -> Attribute | None:
        """The attribute of a kind, or the number that is computed of its rows; None if it has none of that name.

        Nor is there a number by itself, by 0 or by 1.
        """
        first, operator, second = operands(name)
        if not operator:
            return self._attributes.get((kind, name))
        if second in (first, "0", "1"):
            return None
        named = [first] if second == ALL or second[0].isdigit() else [first, second]
        return Attribute(name=name, type="number") if all(self._has_number(kind, each) for each in named) else None

    def _has_number(self, kind: str, name: str) -> bool:
        """Whether rows of a kind have a number or a time of that name, or links that are counted."""
        relation, _, side = name.partition(".")
        if side in ("in", "out") and (declared := self.relations.get(relation)):
            return kind == (declared.target if side == "in" else declared.source)
        attribute = self._attributes.get((kind, name.removesuffix(".values")))
        return attribute is not None and (attribute.type in ("number", "money", "time") or side == "values")

    @cached_property
    def described(self) -> dict[Part, str]:
        """The first words of everything that is declared, by what it is in a query."""
        return declared_words(self.declaration, self._texts_of_value)

    def of_link(self, relation: str, name: str) -> bool:
        """Whether the links of a relation are rows of a kind that has this attribute."""
        kind = self.link_kinds.get(relation)
        return kind is not None and (kind.name, name) in self._attributes

    def counting(self, operation: Operation) -> Operation:
        """The operation on the same rows whose answer is a number, if there is one."""
        same = (one for one in self.operations.values() if one.counts and one.rows == operation.rows)
        return next((one for one in same if one.kind == operation.kind), operation)

    def is_ordinary(self, word: str) -> bool:
        """Whether a folded word is known from ordinary English or from the texts of the data."""
        forms = (word, word[:-1]) if word.endswith("s") else (word,)
        return any(form in self.text_words or form in ranks() for form in forms)

    def link(
        self,
        text: str,
        now: datetime | None = None,
        hours: int | None = None,
        *,
        language: str = "",
        corrections: Corrections = (),
    ) -> Linked:
        """The best sequence of items for a text, in the language that its words tell if none is given.

        Corrected words are linked as what they were corrected to.
        """
        text = _corrected(" ".join(text.split()), corrections)
        words = {fold(word) for _, word in corrections}
        tokens = [replace(token, is_typo=token.folded in words) for token in tokenise(text)]
        languages = [language] if language else self._languages_of(tokens)
        times = find_times(fold(text), now, hours, self.earliest) if self.has_time else []
        times = [phrase for phrase in times if self._is_time(phrase, text, tokens)]
        linked = (self._linked(tokens, times, each, corrections) for each in languages)
        return min(linked, key=_count_unknown)

    def _linked(self, tokens: list[Token], times: list[TimePhrase], language: str, corrections: Corrections) -> Linked:
        """The best sequence of items in one language."""
        items, score = self._best(tokens, self._matches(tokens, language), times, language)
        return Linked(tuple(items), corrections, language, score)

    def link_corrected(self, text: str) -> Linked:
        """The text with its likeliest corrections."""
        return self.link(text, corrections=next(self.spellings(text), (0.0, ()))[1])

    def spellings(self, text: str, *, widely: bool = False) -> Iterator[tuple[float, Corrections]]:
        """The corrections of words that are not known, cheapest first; none for a text without such words.

        `widely`: ordinary words that the text leaves unknown may be function words, and others words of the texts.
        """
        text = " ".join(text.split())
        tokens = tokenise(text)
        languages = self._languages_of(tokens)
        times = find_times(fold(text), _ANY_TIME, None) if self.has_time else []
        is_shouted = text.isupper()
        options: dict[str, tuple[tuple[str, float], ...]] = {}
        unknown: set[int] = set()
        if widely:
            nearest = next(self.spellings(text), (0.0, ()))[1]
            linked = [self.link(text, corrections=nearest, language=each) for each in languages]
            unknown = {item.start for each in linked for item in each.items if item.find("unknown")}
        known = {*language_data()["ordinals"], *language_data()["multipliers"]}
        for place, token in enumerate(tokens):
            word = token.folded
            is_said = (
                token.number is not None
                or word in known
                or (self.has_time and is_time_preposition(word))
                or any(time.start <= token.start < time.end for time in times)
            )
            if is_said or not word.isalpha() or len(word) < 2 or token.text in options:
                continue
            is_ordinary = self.is_ordinary(word)
            is_left = place in unknown and (not is_ordinary or (token.text.islower() and len(word) <= ONE_ERROR_FROM))
            if (is_ordinary or any(self._candidates(word, each) for each in languages)) and not is_left:
                continue
            near = self._near(word, languages)
            if widely and len(word) > 5 and not is_ordinary and languages[0] == "en" and token.text.islower():
                near += self._text_spellings.near(word, "")
            is_name = token.text[:1].isupper() and not is_shouted and (place > 0 or token.text[1:2].isupper())
            if is_ordinary or is_name:
                near = tuple(each for each in near if self._may_be(each[0], word, languages[0], is_name=is_name))
            if not options and not place:
                near = likeliest((other, cost - BEGINNING * self._begins(other)) for other, cost in near)
            if near:
                options[token.text] = near
        if options and len(options) <= MOST_MISSPELT:
            yield from spellings(list(options.items()))

    def _near(self, word: str, languages: Sequence[str]) -> tuple[tuple[str, float], ...]:
        return likeliest({pair for language in languages for pair in self._spellings.near(word, language, stems(word))})

    def _may_be(self, other: str, word: str, language: str, *, is_name: bool) -> bool:
        """Whether a name or an ordinary word may be misspelt so: with another letter a short name is another one."""
        if is_name:
            is_replaced = len(other) == len(word) <= ONE_ERROR_FROM and sorted(other) != sorted(word)
            # German nouns are written as names are.
            is_noun = language == "de" or "" in self._lexicon.languages.get(other, {""})
            return not (is_replaced or self.is_ordinary(word)) and is_noun
        return self._is_likelier(other, word)

    def _is_likelier(self, other: str, word: str) -> bool:
        """Whether a function word is far more frequent than an ordinary word."""
        is_function = bool(self._lexicon.languages.get(other, frozenset()) - {""})
        return is_function and RARER * ranks().get(other, DECLARED) < ranks().get(word, RARER * RARE)

    def _begins(self, word: str) -> bool:
        """Whether questions begin with the word."""
        node = self._lexicon.tree.child(word)
        return node is not None and any(entry.meaning.name in _BEGINNINGS for entry in node.entries)

    def _languages_of(self, tokens: Sequence[Token]) -> list[str]:
        """The languages that a text can be in. A value of the vocabulary tells none: "single", "King"."""
        return languages_of([token for token in tokens if token.folded not in self._values])

    @cached_property
    def _spellings(self) -> Spellings:
        data = language_data()
        forms: dict[str, Form] = {}
        known = self._lexicon
        for word, inflects in known.inflects.items():
            languages = known.languages[word]
            rank = max(DECLARED, len(known.names)) if word in known.names else ranks().get(word, DECLARED)
            rank = min(rank, DECLARED) if inflects else rank
            for form in (word, *_forms(word)) if inflects else (word,):
                if form == word or form not in forms:
                    forms[form] = Form(languages, rank, form != word)
        for word in (*data["numbers"], *data["multipliers"], *data["ordinals"], *" ".join(data["months"]).split()):
            forms.setdefault(word, Form(frozenset({""}), ranks().get(word, DECLARED)))
        by_row: dict[tuple[str, int], set[str]] = defaultdict(set)
        for stem, language, row in known.inflected:
            by_row[language, row].add(stem)
        return Spellings(forms, by_row)

    @cached_property
    def _text_spellings(self) -> Spellings:
        """The long words of the texts, which a misspelt one may stand for."""
        every = frozenset({""})
        return Spellings({word: Form(every, RARE) for word in self.text_words if len(word) > 4}, {})

    def _add(self, text: str, entry: _Entry, *, inflects: bool) -> None:
        self._lexicon.add(text, entry, language=entry.language, is_name=entry.is_name, inflects=inflects)

    def _add_synonyms(self, declaration: Declaration) -> None:
        """English words that mean the same as those declared, where all that they stand for is one thing."""
        declared = [(text, meaning) for text, meaning in _declared(declaration) if meaning.role in _PARTS]
        declared += [(text, entry.meaning) for text, entry in _function_entries() if entry.language == "en"]
        functions = {word for text, meaning in declared if meaning.role == "function" for word in phrase(text)}
        for other, numbers in synonyms((text, _PARTS.get(meaning.role, "nva")) for text, meaning in declared).items():
            meanings = {declared[number][1] for number in numbers}
            words = phrase(other)
            is_known = words[0] in self._lexicon.inflects if len(words) == 1 else functions.issuperset(words)
            is_one = len({(meaning.name, meaning.relation, meaning.value) for meaning in meanings}) == 1
            if is_one and not is_known and all(meaning.role != "function" for meaning in meanings):
                for meaning in meanings:
                    self._add(other, _Entry(meaning, cost=SYNONYM_COST), inflects=True)

    def _is_time(self, time: TimePhrase, text: str, tokens: list[Token]) -> bool:
        """Bare numbers are no hours when what they count follows: "between 10 and 20 deaths"."""
        said = text[time.start : time.end]
        if not re.search(r"(?<![\d:-])\d{1,2}\s*$", said) or ":" in said:
            return True
        after = [token for token in tokens if token.start >= time.end]
        while len(after) > 1 and after[0].folded in {"or", "more", "fewer", "less"}:
            after = after[1:]
        if not after:
            return True
        following = after[0]
        for word, _ in self._candidates(following.folded, "en"):
            node = self._lexicon.tree.child(word)
            for entry in node.entries if node else ():
                if entry.meaning.role in {"attribute", "unit", "party", "kind"}:
                    return False
        return True

    def _candidates(self, word: str, language: str) -> tuple[tuple[str, float], ...]:
        """The words of the lexicon that a word can be, itself or inflected, with costs."""
        known = self._known.get((word, language))
        if known is None:
            if len(self._known) > 20_000:
                self._known.clear()
            known = self._known[word, language] = tuple(self._search(word, language))
        return known

    def _search(self, word: str, language: str) -> list[tuple[str, float]]:
        matched: dict[str, float] = {}
        if word in self._lexicon.inflects:
            matched[word] = 0.0
        data = language_data()["irregular"]
        for form, extra in ((word, 0.0), (data.get(word, ""), 0.05)):
            if form and form != word and form in self._lexicon.inflects:
                matched.setdefault(form, 0.05)
            for stem, spoken, row in stems(form) if form else ():
                if spoken not in {"en", language}:
                    continue
                for other in self._lexicon.inflected.get((stem, spoken, row), ()):
                    change = len(word) + len(other) - 2 * len(stem)
                    matched.setdefault(other, extra + min(0.08 * change, 0.4) + 0.02)
        for one in _singulars(word):
            if one in self._lexicon.inflects:
                matched.setdefault(one, 0.1)
        return sorted(matched.items(), key=lambda pair: pair[1])

    def _matches(self, tokens: list[Token], language: str) -> list[list[_Match]]:
        """The phrases that begin at each token."""
        result: list[list[_Match]] = []
        for first, token in enumerate(tokens):
            matched: dict[int, _Match] = {}
            if token.is_word or token.number is not None:
                states: list[tuple[Node[_Entry], float]] = [(self._lexicon.tree, 0.0)]
                for index in range(first, min(first + 2 * LONGEST_PHRASE, len(tokens))):
                    current = tokens[index]
                    if index > first and current.folded in {"-", "'", ".", "/"} and current.glued:
                        continue
                    if not current.folded[0].isalnum() and current.folded not in {"+", "&", "#"}:
                        break
                    states = [
                        (child, cost + extra)
                        for node, cost in states
                        for word, extra in self._candidates(current.folded, language)
                        if (child := node.child(word)) is not None
                    ]
                    if not states:
                        break
                    for node, extra in states:
                        cost = extra + min((entry.cost for entry in node.entries), default=0.0)
                        if node.entries and self._fits(node, tokens[first : index + 1], language):
                            match = _Match(first, index + 1, node, cost)
                            if index + 1 not in matched or cost < matched[index + 1].cost:
                                matched[index + 1] = self._merged(matched.get(index + 1), match)
                            else:
                                matched[index + 1] = self._merged(match, matched[index + 1])
            result.append(list(matched.values()))
        return self._beside_nouns(result)

    def _beside_nouns(self, matches: list[list[_Match]]) -> list[list[_Match]]:
        """The matches without the words of attributes that count only beside a noun of their kind, where none is.

        What introduces values of links counts only so as well.
        """
        if not self.link_kinds and not any(attribute.beside_noun for attribute in self._attributes.values()):
            return matches
        every = (entry.meaning for those in matches for match in those for entry in match.node.entries)
        kinds = {meaning.name for meaning in every if meaning.role == "kind"}

        def counts(meaning: Meaning) -> bool:
            attribute = None if meaning.relation else self._attributes.get((meaning.kind, meaning.name))
            if attribute is None or meaning.kind in kinds:
                return True
            return not (attribute.beside_noun or (meaning.role == "preposition" and self.kinds[meaning.kind].links))

        return [[match for each in those if (match := _counting(each, counts))] for those in matches]

    @staticmethod
    def _merged(worse: _Match | None, better: _Match) -> _Match:
        """Both readings of the same words, the better one first, as far as the other does not cost much more."""
        if worse is None:
            return better
        is_function = any(entry.meaning.role == "function" for entry in better.node.entries)
        of_values = 0.05 if better.last - better.first > 1 else 0.02

        def is_near(entry: _Entry) -> bool:
            of_entry = of_values if entry.meaning.role == "value" else 0.15
            most = of_entry if is_function else 0.5
            return worse.cost - better.cost < most and entry not in better.node.entries

        added = [entry for entry in worse.node.entries if is_near(entry)]
        return _Match(better.first, better.last, Node(None, (*better.node.entries, *added)), better.cost)

    @staticmethod
    def _fits(node: Node[_Entry], tokens: list[Token], language: str) -> bool:
        return any(_is_usable(entry, tokens, language) for entry in node.entries)

    def _best(
        self, tokens: list[Token], matches: list[list[_Match]], times: list[TimePhrase], language: str
    ) -> tuple[list[Item], float]:
        """The sequence of items that leaves the fewest words unknown and has the longest phrases."""
        count = len(tokens)
        best: list[tuple[float, Any]] = [(0.0, None)] * (count + 1)
        for index in range(count - 1, -1, -1):
            token = tokens[index]
            # A hyphen inside a phrase is no reason to read its parts apart.
            alone = 0.0 if token.is_word or (token.folded == "-" and token.glued) else 0.3
            options: list[tuple[float, Any]] = [(best[index + 1][0] + alone, None)]
            for time in times:
                if time.start <= token.start < time.end and (index == 0 or tokens[index - 1].start < time.start):
                    last = next((place for place in range(index, count) if tokens[place].start >= time.end), count)
                    options.append((best[last][0] + 2.0 * (last - index), (last, time)))
            for match in matches[index]:
                words = sum(token.is_word or token.number is not None for token in tokens[match.first : match.last])
                named = any(entry.is_name for entry in match.node.entries) and token.text[:1].isupper()
                score = 1.4 * words - 0.5 + (0.1 + 0.1 * (words > 1)) * named + self._weight(match) - 0.5 * match.cost
                options.append((best[match.last][0] + score, match))
            best[index] = max(options, key=lambda option: option[0])
        return self._items(tokens, best, language), best[0][0]

    def _weight(self, match: _Match) -> float:
        """How much a match counts beside its length: words of the service before function words and texts."""
        meanings = [entry.meaning for entry in match.node.entries if entry.meaning.role != "function"]
        return 0.12 if any(not self.is_text(meaning) for meaning in meanings) else 0.02 if meanings else 0.0

    def is_text(self, meaning: Meaning) -> bool:
        """Whether a value is looked for in texts."""
        attribute = self.attribute(meaning) if meaning.role == "value" else None
        return attribute is not None and attribute.type == "text"

    @staticmethod
    def _items(tokens: list[Token], best: list[tuple[float, Any]], language: str) -> list[Item]:
        items: list[Item] = []
        index = 0
        while index < len(tokens):
            chosen = best[index][1]
            if isinstance(chosen, _Match):
                meanings = _meanings(chosen, tokens, language)
                items.append(_item(tokens, chosen.first, chosen.last, meanings, chosen.cost))
                index = chosen.last
            elif chosen is not None:
                last, time = chosen
                items.append(_item(tokens, index, last, (Meaning("time", value=time),)))
                index = last
            else:
                items.append(_item(tokens, index, index + 1, _plain(tokens[index])))
                index += 1
        return items


def _counting(match: _Match, counts: Callable[[Meaning], bool]) -> _Match | None:
    """The match with those of its meanings that count; None where none does."""
    entries = tuple(entry for entry in match.node.entries if counts(entry.meaning))
    if len(entries) == len(match.node.entries):
        return match
    return _Match(match.first, match.last, Node(None, entries), match.cost) if entries else None


def _corrected(text: str, corrections: Corrections) -> str:
    """The text with words replaced, capitals as they were."""
    for typed, word in corrections:
        written = word.capitalize() if typed[:1].isupper() else word
        text = re.sub(rf"(?<!\w){re.escape(typed)}(?!\w)", written, text)
    return text


def _count_unknown(linked: Linked) -> int:
    return sum(item.find("unknown") is not None for item in linked.items)


def _item(tokens: list[Token], first: int, last: int, meanings: tuple[Meaning, ...], cost: float = 0.0) -> Item:
    said = " ".join(token.text for token in tokens[first:last])
    cost += TYPO_COST * any(token.is_typo for token in tokens[first:last])
    return Item(said, meanings, first, last, cost, tokens[first].glued)


def _is_usable(entry: _Entry, tokens: list[Token], language: str) -> bool:
    if entry.language and entry.language not in {language, "en" if language != "en" else language}:
        return False
    return not entry.exact or "".join(token.text for token in tokens) == "".join(entry.exact.split())


def _meanings(match: _Match, tokens: list[Token], language: str) -> tuple[Meaning, ...]:
    """The meanings of a phrase: names written with a capital inside the sentence come before function words."""
    said = tokens[match.first : match.last]
    entries = [entry for entry in match.node.entries if _is_usable(entry, said, language)]
    is_capital = said[0].text[:1].isupper() and (match.first > 0 or said[0].text[1:2].isupper())
    if any(entry.language == language for entry in entries):
        entries = [entry for entry in entries if entry.language in {language, ""}]
        is_small = len(said) == 1 and len(said[0].text) <= 3 and not said[0].text[1:2].isupper()
        if is_small and language != "en":
            entries = [entry for entry in entries if entry.language]
    if is_capital:
        entries.sort(key=lambda entry: not entry.is_name)
    meanings = [entry.meaning for entry in entries]
    if match.last == match.first + 1 and said[0].number is not None:
        meanings.append(Meaning("number", value=said[0].number))
    ordinal = language_data()["ordinals"].get(said[0].folded) if len(said) == 1 else None
    if ordinal:
        meanings.append(Meaning("ordinal", value=ordinal))
    return tuple(dict.fromkeys(meanings))


def _plain(token: Token) -> tuple[Meaning, ...]:
    if token.number is not None:
        return (Meaning("number", value=token.number),)
    ordinal = language_data()["ordinals"].get(token.folded)
    if ordinal:
        return (Meaning("ordinal", value=ordinal),)
    if (code := currency(token.folded)) is not None:
        return (Meaning("mark", "currency", value=code),)
    is_ending = token.glued and token.text.lower() in ORDINAL_ENDINGS
    return (Meaning("unknown", token.folded),) if token.is_word and not is_ending else (Meaning("mark", token.folded),)


ORDINAL_ENDINGS = frozenset({"st", "nd", "rd", "th", "º", "ª"})
"""What makes a number before it an ordinal one."""


@cache
def _function_entries() -> tuple[tuple[str, _Entry], ...]:
    data = language_data()
    return tuple(
        (text, _Entry(Meaning("function", concept), language))
        for language in LANGUAGES
        for concept, phrases in data[language].items()
        for text in phrases
    )


def _declared(declaration: Declaration) -> Iterator[tuple[str, Meaning]]:  # noqa: C901
    """The phrases of a service's vocabulary with their meanings."""
    for kind in declaration.kinds:
        yield from ((noun, Meaning("kind", kind.name, kind.name)) for noun in kind.nouns)
        for noun, implied in kind.implied.items():
            yield noun, Meaning("kind", kind.name, kind.name, tuple(implied.items()))
        for attribute in kind.attributes:
            yield from _of_attribute(attribute, kind.name, "")
    for relation in declaration.relations:
        name = relation.name
        for words, is_source in ((relation.verbs, True), (relation.inverse_verbs, False)):
            yield from ((text, Meaning("verb", name, value=is_source, relation=name)) for text in words)
            for verb, _, preposition in (text.rpartition(" ") for text in words):
                if verb and preposition in PREPOSITIONS:
                    yield verb, Meaning("stranded", name, preposition, is_source, name)
        for nouns, party, is_source in (
            (relation.sources, relation.source, True),
            (relation.targets, relation.target, False),
        ):
            yield from ((text, Meaning("party", name, party, is_source, name)) for text in nouns)
        yield from ((text, Meaning("transitive", name, relation=name)) for text in relation.transitive)
        for attribute in relation.link:
            yield from _of_attribute(attribute, relation.source, name)
    for operation in declaration.operations:
        yield from ((text, Meaning("operation", operation.name)) for text in operation.phrases)
    for subject, phrases in declaration.unavailable.items():
        yield from ((text, Meaning("unavailable", subject)) for text in phrases)
    yield from ((text, Meaning("function", "filler")) for text in declaration.fillers)


def _of_attribute(attribute: Attribute, kind: str, relation: str) -> Iterator[tuple[str, Meaning]]:
    name = attribute.name
    yield from ((noun, Meaning("attribute", name, kind, relation=relation)) for noun in attribute.nouns)
    yield from ((text, Meaning("preposition", name, kind, relation=relation)) for text in attribute.prepositions)
    for text, phrases in attribute.values.items():
        value: Scalar = text == "true" if attribute.type == "flag" else text
        if attribute.type != "flag":
            yield text, Meaning("value", name, kind, value, relation)
        yield from ((words, Meaning("value", name, kind, value, relation)) for words in phrases)
    for text, bounds in attribute.ranges.items():
        yield text, Meaning("range", name, kind, bounds, relation)
    for phrases, descending in ((attribute.most, True), (attribute.least, False)):
        for text in phrases:
            for form in _degrees(text):
                yield form, Meaning("extreme", name, kind, descending, relation)
    yield from ((text, Meaning("unit", name, kind, factor, relation)) for text, factor in attribute.units.items())


def _degrees(text: str) -> tuple[str, ...]:
    """A superlative with its comparative: "heaviest" and "heavier"."""
    if text.endswith("est") and len(text) > 5:
        return text, text[:-3] + "er"
    if text.endswith(("ste", "sten")) and len(text) > 6:
        return text, text.removesuffix("n").removesuffix("ste") + "er"
    return (text,)


def _singulars(word: str) -> tuple[str, ...]:
    """What an English plural can be one of."""
    if len(word) <= 3 or not word.endswith("s"):
        return ()
    ends = {"ies": "y", "ves": "f", "es": ""}
    return word[:-1], *(word.removesuffix(ending) + single for ending, single in ends.items() if word.endswith(ending))


def _forms(word: str) -> tuple[str, ...]:
    """English inflections of a word."""
    if len(word) < 3 or not word.isascii():
        return ()
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies", word[:-1] + "ied", word + "ing"
    stem = word.removesuffix("e")
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s"), stem + "ed", stem + "ing"
