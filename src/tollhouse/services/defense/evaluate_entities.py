"""Evaluate entity extraction on annotated sentences: `tollhouse evaluate entities`.

Corpora with pronouns are read by the conventions of ACE and re3d; serving uses names only. These corpora mark nouns
("the regime") and pronouns too, include articles and adjectives in a mention, and count a country as an organization
where it acts as a government. A noun phrase is read from left to right: a determiner, modifiers, and a noun from the
lexicon or a name.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tollhouse.services.defense.entities import lexicon
from tollhouse.services.defense.entities.extractor import sentence_names, tag
from tollhouse.services.defense.entities.lexicon import PRONOUNS, EntityType, Known, Span, find_known

_ACTORS = frozenset(
    [
        "include",
        "includes",
        "join",
        "joins",
        "by",
        "with",
        "between",
        "against",
        "for",
        "as",
        "that",
        "notably",
        "ally",
        "allies",
    ]
)
_VERBS = frozenset([
    "is", "has", "will", "would", "can", "could", "should", "must", "was", "were", "are", "have", "had", "did", "does",
    "do", "may", "said", "says", "also", "not",
])  # fmt: skip
_LINKS = frozenset((",", "and", "or", "the"))
_PHRASE_ENDS = lexicon.PREPOSITIONS | lexicon.CLOSERS | lexicon.DETERMINERS


def sentence_mentions(words: Sequence[str]) -> list[Span]:
    """The mentions in a sentence's words, without overlaps."""
    lowers = [word.lower() for word in words]
    known = find_known(words, lowers)
    reader = _Reader(words, lowers, _as_governments(lowers, tag(words, known), known))
    mentions: list[Span] = []
    position = 0
    while position < len(words):
        span = reader.mention(position)
        if span:
            mentions.append(span)
        position = span.end if span else position + 1
    return mentions


def _as_governments(lowers: Sequence[str], names: Sequence[Span], known: Sequence[Known]) -> list[Span]:
    """Relabel countries that act as governments as organizations; countries in a list get the label of the first."""
    countries = {(name.start, name.end) for name in known if name.label == "country"}
    judged: list[Span] = []
    for name in names:
        if name.type != "location" or (name.start, name.end) not in countries:
            judged.append(name)
            continue
        before = judged[-1] if judged else None
        listed = before and before.end < name.start and _LINKS.issuperset(lowers[before.end : name.start])
        if before and listed and (before.start, before.end) in countries:
            judged.append(Span(name.start, name.end, before.type))
        else:
            judged.append(Span(name.start, name.end, "organization") if _acts(lowers, name) else name)
    return judged


def _acts(lowers: Sequence[str], name: Span) -> bool:
    if name.end == len(lowers) and name.start == 0:
        return False
    first = name.start - (name.start > 0 and lowers[name.start - 1] == "the")
    before = lowers[first - 1] if first else ""
    if before in lexicon.PLACE_PREPOSITIONS:
        return False
    after = lowers[name.end] if name.end < len(lowers) else "."
    if before in _ACTORS or not before or after in _VERBS or after in ("'", "\u2019", "'s", "\u2019s"):
        return True
    return after[0].isalpha() and after not in _PHRASE_ENDS


_VERB_ENDS = ("ed", "ing")
_MODIFIERS = lexicon.ADJECTIVES | lexicon.MODIFIERS
_APOSTROPHES = frozenset("'\u2019")
_BEFORE_NAMES = frozenset(["the", "this", "these", "our"])
_HYPHENS = frozenset("-\u2010\u2011\u2013")


class _Reader:
    """Reads the phrases of one sentence."""

    def __init__(self, words: Sequence[str], lowers: Sequence[str], names: Sequence[Span]) -> None:
        self.words = words
        self.lowers = lowers
        self.names = {name.start: name for name in names}

    def mention(self, start: int) -> Span | None:
        """The mention that begins at this word."""
        span = self.phrase(start)
        if span:
            return self._with_of(self._with_possession(self._with_country(span)))
        type_ = lexicon.PRONOUNS.get(self.lowers[start])
        return Span(start, start + 1, type_, "pronoun") if type_ and self.words[start] != "US" else None

    def phrase(self, start: int) -> Span | None:
        """The noun phrase that begins at this word and ends in a noun of our lists or in a name."""
        has_article = self.lowers[start] in lexicon.DETERMINERS
        position = start + has_article
        best: Span | None = None
        while position < len(self.words):
            if name := self.names.get(position):
                best = Span(start if has_article or best else self._outset(start, position), name.end, name.type)
                position = name.end
            elif head := self._head(position):
                best = Span(start, position + head[1], head[0], "noun")
                position = best.end
                if self._plural(position - 1) and self.lowers[position - 1] not in lexicon.ADJECTIVES:
                    break
            elif self._describes(position, start) or (has_article and self._leads(position)):
                position += 1
            else:
                break
        if best and best.end < position and self.lowers[best.end].endswith(_VERB_ENDS):
            # "A plane flying over the town".
            position = best.end
        if best is None or not self._ends(best, position):
            return self._name(start)
        if has_article and best.form == "name" and self.lowers[start] not in _BEFORE_NAMES:
            return None
        if best.type == "platform" and best.end - best.start == 2 and self.lowers[best.start] in lexicon.DETERMINERS:
            # An undescribed weapon or craft goes without its article.
            return Span(best.start + 1, best.end, best.type, best.form)
        return self._with_second(best)

    def _head(self, position: int) -> tuple[EntityType, int] | None:
        lower = self.lowers[position]
        after = self.lowers[position + 1] if position + 1 < len(self.words) else ""
        if pair := lexicon.PAIRS.get((lower, after)):
            return pair, 2
        if {(lower, after), (lower, after.removesuffix("s"))} & lexicon.PLATFORM_NOUNS:
            return "platform", 2
        if type_ := lexicon.HEADS.get(lower):
            return type_, 1
        if {(lower,), (lower.removesuffix("s"),)} & lexicon.PLATFORM_NOUNS:
            return "platform", 1
        return ("organization", 1) if self.words[position] in lexicon.PEOPLES else None

    def _describes(self, position: int, start: int) -> bool:
        """Whether a word continues the phrase before its noun: a modifier, or a hyphen between two words."""
        word, lower = self.words[position], self.lowers[position]
        if word in _HYPHENS:
            return start < position < len(self.words) - 1
        is_verbal = lower in lexicon.VERBAL or (lower.endswith("ed") and lower not in lexicon.ADJECTIVES)
        if position == start and (lower in lexicon.INNER or is_verbal):
            return False
        return lower in _MODIFIERS or word in lexicon.DEMONYMS or word in lexicon.TITLES

    def _with_second(self, span: Span) -> Span:
        """Two nouns that share their article and adjectives: "the families and friends"."""
        if span.form != "noun" or self.lowers[span.end : span.end + 1] != ["and"] or span.end + 1 == len(self.words):
            return span
        second = self._head(span.end + 1)
        if second is None or second[0] != span.type or span.type == "platform" or not self._plural(span.end + 1):
            return span
        return Span(span.start, span.end + 1 + second[1], span.type, "noun")

    def _outset(self, start: int, name: int) -> int:
        """Where a name with no article begins: "northern Chad" is one, "stable Chad" is not."""
        for position in range(start, name):
            if self.words[position] in lexicon.DEMONYMS or self.lowers[position] in lexicon.DIRECTIONS:
                return position
        return name

    def _leads(self, position: int) -> bool:
        """An unknown word right before a noun of ours: "their former jailer"."""
        word = self.words[position]
        is_unknown = word.islower() and word not in _PHRASE_ENDS
        return is_unknown and position + 1 < len(self.words) and self.lowers[position + 1] in lexicon.HEADS

    def _ends(self, best: Span, position: int) -> bool:
        """Whether the phrase ends in its noun, which then describes nothing else."""
        if best.end != position:
            return False
        if best.form == "noun" and best.end - best.start == 1:
            # A noun alone: vague ones say too little, and others must be plural or a platform.
            stands = best.type == "platform" or self._plural(best.start) or self._is_office(best)
            if self.lowers[best.start] in lexicon.VAGUE or not stands:
                return False
        if position == len(self.words) or self._closes(position):
            return True
        if best.form == "name":
            return best.start in self.names or self._is_verb(position)
        # What flies or explodes also names the kind of an attack: "a rocket salvo".
        if best.type == "platform" or (self.lowers[best.start] in lexicon.DETERMINERS and self._is_verb(position)):
            return True
        return self._plural(position - 1) and self.lowers[position - 1] not in lexicon.ADJECTIVES

    def _is_office(self, span: Span) -> bool:
        """Whether it ends in an office that "of" or "for" goes on: "Minister for Defence"."""
        return self.words[span.end - 1] in lexicon.TITLES and self.lowers[span.end : span.end + 1] in (["of"], ["for"])

    def _is_verb(self, position: int) -> bool:
        """Whether a word looks like a verb, or like an adverb before one."""
        return self.lowers[position].endswith(("s", "ed", "ly", "ing"))

    def _closes(self, position: int) -> bool:
        """Whether no noun phrase goes on with this word."""
        return not self.words[position][0].islower() or self.lowers[position] in _PHRASE_ENDS

    def _plural(self, position: int) -> bool:
        lower = self.lowers[position]
        is_plural = lower[-1] == "s" and lower[-2:] != "ss"
        return is_plural or self.words[position] in lexicon.PEOPLES or lower in lexicon.UNCOUNTED

    def _name(self, start: int) -> Span | None:
        """The name at this word where the phrase as a whole is something else: "the [Kherson] offensive"."""
        name = self.names.get(start)
        if name or self.lowers[start] != "the":
            return name
        name = self.names.get(start + 1)
        if name is None:
            return None
        # One word that only describes what follows goes without the article; a name of several words keeps it.
        end = name.end
        stands_alone = end - name.start > 1 or end == len(self.words) or self._closes(end)
        return Span(start, end, name.type) if stands_alone or self.lowers[end].endswith(("s", "ed", "ly")) else None

    def _with_country(self, span: Span) -> Span:
        """A place and the country it lies in: "Odesa, Ukraine"."""
        country = self.names.get(span.end + 1) if self.words[span.end : span.end + 1] == [","] else None
        if span.form != "name" or span.type != "location" or not country or country.type != "location":
            return span
        if " ".join(self.lowers[span.start : span.end]).removeprefix("the ") in lexicon.COUNTRY_NAMES:
            return span
        after = self.lowers[country.end : country.end + 2]
        if after[:1] == ["and"] or (after[:1] == [","] and (after[1:] == ["and"] or country.end + 1 in self.names)):
            return span
        return Span(span.start, country.end, "location")

    def _with_possession(self, span: Span) -> Span:
        """What a possessor has, where that is a noun of ours: "Lukashenko's weary army"."""
        after, words = span.end, self.words
        if after < len(words) and self.lowers[after] in ("'s", "\u2019s"):
            after += 1
        elif after + 1 < len(words) and words[after] in _APOSTROPHES:
            after += 1 + (words[after + 1] == "s")
        had = self.phrase(after) if span.end < after < len(words) else None
        return Span(span.start, had.end, had.type, "noun") if had and had.form == "noun" else span

    def _with_of(self, span: Span) -> Span:
        """What a noun belongs to: "the port of Odesa", "members of the Rada", "Minister for Trade Jane Smith"."""
        end, is_office = span.end, self._is_office(span)
        is_part = self.lowers[end : end + 1] == ["of"] and self.lowers[end - 1] in lexicon.OF_HEADS
        if end + 1 < len(self.words) and (is_part or is_office):
            other = self.phrase(end + 1)
            if other:
                holder = self.names.get(other.end) if is_office else None
                is_held = holder and holder.type == "person"
                return Span(span.start, holder.end if holder and is_held else other.end, span.type, span.form)
        return span


Sentence = list[tuple[str, str]]
Place = tuple[int, int, int, EntityType]

# Our types by annotators' names for them, in lower case and without signs.
_TYPES: dict[str, EntityType] = {
    "person": "person", "per": "person", "organization": "organization", "organisation": "organization",
    "org": "organization", "corporation": "organization", "company": "organization", "group": "organization",
    "norp": "organization", "location": "location", "loc": "location", "gpe": "location", "geoloc": "location",
    "facility": "location", "fac": "location", "platform": "platform", "militaryplatform": "platform",
    "weapon": "platform", "aircraft": "platform", "vehicle": "platform",
}  # fmt: skip


def evaluate(path: Path, progress: Callable[[str], None]) -> dict[str, Any]:
    """Strict F1, precision and recall of spans of the four types: a span counts if words and type are equal.

    Some corpora mark only names, others also nouns and pronouns. If a corpus marks at least a tenth of the pronouns,
    mentions by the conventions of ACE are compared (`ace_mentions`), otherwise the served names. Platforms are ignored
    in corpora without them. `by_type` has the figures of each type; `tokens_per_s` is per second of CPU time.
    """
    sentences = list(read_conll(path))
    gold = {place for number, sentence in enumerate(sentences) for place in _gold(number, sentence)}
    whole = _marks_pronouns(sentences, gold)
    progress(f"{len(sentences)} sentences, {len(gold)} spans; the corpus marks {'all mentions' if whole else 'names'}")
    started = time.process_time()
    predicted = _find_spans(sentences, sentence_mentions if whole else sentence_names)
    seconds = time.process_time() - started
    if not _only(gold, "platform"):
        predicted -= _only(predicted, "platform")
    types = sorted({place[3] for place in gold | predicted})
    by_type = {type_: _figures(_only(gold, type_), _only(predicted, type_)) for type_ in types}
    tokens = sum(map(len, sentences))
    return {**_figures(gold, predicted), "by_type": by_type, "tokens_per_s": round(tokens / seconds) if seconds else 0}


def read_conll(path: Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL file as lists of (token, label): first and last column of each line."""
    sentence: Sentence = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            if len(fields) > 1:
                sentence.append((fields[0], fields[-1]))
            elif sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _gold(number: int, sentence: Sentence) -> Iterator[Place]:
    """The spans of our types, in IOB1 or IOB2 labels."""
    start, before = 0, "O"
    for position, label in enumerate([*(label for _, label in sentence), "O"]):
        if before != "O" and (label[:1] != "I" or label[2:] != before[2:]):
            if type_ := our_type(before[2:]):
                yield number, start, position, type_
            before = "O"
        if before == "O" and label != "O":
            start, before = position, label


def our_type(label: str) -> EntityType | None:
    """Our type for an annotator's label, ignoring case; None if there is none."""
    return _TYPES.get("".join(filter(str.isalpha, label)).lower())


def _find_spans(sentences: Sequence[Sentence], find: Callable[[Sequence[str]], list[Span]]) -> set[Place]:
    return {
        (number, span.start, span.end, span.type)
        for number, sentence in enumerate(sentences)
        for span in find([word for word, _ in sentence])
    }


def _marks_pronouns(sentences: Sequence[Sentence], gold: set[Place]) -> bool:
    places = [
        (number, position)
        for number, sentence in enumerate(sentences)
        for position, (word, _) in enumerate(sentence)
        # "US" is the country.
        if word.lower() in PRONOUNS and word != "US"
    ]
    marked = {(number, start) for number, start, end, _ in gold if end - start == 1}
    return 10 * len(marked.intersection(places)) > len(places)


def _only(places: set[Place], type_: EntityType) -> set[Place]:
    return {place for place in places if place[3] == type_}


def _figures(gold: set[Place], predicted: set[Place]) -> dict[str, float]:
    right = len(gold & predicted)
    return {
        "f1": _share(2 * right, len(gold) + len(predicted)),
        "precision": _share(right, len(predicted)),
        "recall": _share(right, len(gold)),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
