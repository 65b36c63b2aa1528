"""Matching of items by the words of a text, with synonyms, joined words and spelling correction.

Every word of the text is a group: the word itself, its synonyms, the word it forms with its neighbour, or its
corrections. Items with every group come first. If there are fewer than 20, items that lack one group follow, then items
that lack two, and so on. The matches of a text never depend on filters, so a filter only narrows the result, and a
facet's count is the total that selecting it leads to.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from math import comb

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.index import SAMPLED, STEMS, WORDS, View, equal
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.scoring import Group, Phrase, Ranking, Scoring, all_of, any_of
from tollhouse.catalogue.tokens import MAX_CHARACTERS, STOPWORDS, Word, head_stem, query_words, stem

# A shorter word, or a shorter stem, is one letter away from too many others.
SHORTEST = 3
SHORTEST_STEM = 4
LONGEST = 30
MAX_CORRECTIONS = 3
# Up to this many rows may all have been removed since the last merge, so they are counted exactly.
FEW = 16

_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Raws = tuple[str, ...]

ENOUGH = 20
CACHED_MATCHES = 1_000
MAX_COMBINATIONS = 30
# Larger than any sum of scores, so that one more word outweighs everything; small enough for the precision of floats.
WORD_BONUS = 20_000.0


class Spelling:
    """Spelling correction with the words of one view (Norvig, "How to Write a Spelling Corrector", 2007)."""

    def __init__(self, view: View) -> None:
        self._view = view

    def is_known(self, stemmed: str) -> bool:
        rows = self._view.row_count(STEMS, stemmed)
        if rows > FEW:
            return True
        return rows > 0 and self._view.count(Query.term_query(self._view.columns, STEMS, stemmed, "basic")) > 0

    def corrections(self, word: Word) -> list[Raws]:
        """Corrections of an unknown word, the most likely first.

        A word with a digit is a model or a measure and is only split: TN-2110 is not TN-2120.
        """
        if not SHORTEST <= len(word.raw) <= LONGEST:
            return []
        if not any(letter.isdigit() for letter in word.raw):
            near = self._near(word.raw, WORDS)
            if not near and len(word.stem) >= SHORTEST_STEM:
                near = self._near(word.stem, STEMS)
            if near:
                return [(each,) for each in near[:MAX_CORRECTIONS]]
        return self._split(word.raw)

    def _near(self, written: str, column: str) -> list[str]:
        """Known words one letter away, the most frequent first."""
        # Most unknown words have no correction. The fuzzy query finds that out faster than hundreds of candidates.
        if not self._view.count(Query.fuzzy_term_query(self._view.columns, column, written, distance=1)):
            return []
        counted = [(self._view.row_count(column, candidate), candidate) for candidate in set(one_letter_away(written))]
        ranked = sorted((-rows, candidate) for rows, candidate in counted if rows)
        return [candidate for _, candidate in ranked if self.is_known(stem(candidate))]

    def _split(self, raw: str) -> list[Raws]:
        """The two known words it consists of: memoryfoam, 32gb."""
        best: tuple[int, Raws] = (0, ())
        for at in range(1, len(raw)):
            parts = raw[:at], raw[at:]
            is_seam = raw[at - 1].isdigit() != raw[at].isdigit()
            if is_seam or min(map(len, parts)) >= SHORTEST:
                best = max(best, (min(self._view.row_count(WORDS, part) for part in parts), parts))
        return [best[1]] if best[0] else []


def one_letter_away(word: str) -> Iterator[str]:
    """Every text with one letter removed, two swapped, one replaced, or one inserted."""
    letters = _LETTERS if word.isascii() else _alphabet(word)
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters if letter != after[0])
        if len(after) > 1 and after[0] != after[1]:
            yield before + after[1] + after[0] + after[2:]
        yield from (before + letter + after for letter in letters)


def _alphabet(word: str) -> str:
    """The lower-case letters of the Unicode blocks that a word uses."""
    blocks = {ord(letter) & ~0x7F for letter in word}
    letters = (chr(point) for block in sorted(blocks) for point in range(block, block + 0x80))
    return "".join(letter for letter in letters if letter.isalpha() and letter == letter.lower())


class Match(Struct, frozen=True):
    """The matching items, their ranking, and corrected words.

    `heads` are the stems of the word that names what is searched for, and of the last words of its synonyms.
    """

    matches: Query
    ranking: Ranking
    corrected: dict[str, str]
    heads: frozenset[str]


class Matcher:
    def __init__(self, view: View) -> None:
        self._view = view
        self._spelling = Spelling(view)
        self._synonyms = synonyms_by_stem(view.schema)
        self._scoring = Scoring(view)
        self.score = self._scoring.word_query
        self._matches: dict[tuple[str, bool], Match] = {}

    def match(self, text: str, *, every_word: bool = False) -> Match:
        """The items that match a text; with `every_word`, only those with all its words."""
        key = text[:MAX_CHARACTERS], every_word
        if key not in self._matches:
            if len(self._matches) >= CACHED_MATCHES:
                self._matches.clear()
            words = query_words(text)
            by_stem, corrected = self._groups(words)
            groups = tuple(by_stem.values())
            heads = frozenset(phrase[-1] for phrase in by_stem.get(head_stem(words), ()))
            matches, fuller, required = self._relax(groups, every_word=every_word)
            ranking = self._scoring.ranking(groups, matches, fuller, required)
            self._matches[key] = Match(matches, ranking, corrected, heads)
        return self._matches[key]

    def _groups(self, words: Sequence[Word]) -> tuple[dict[str, Group], dict[str, str]]:
        """One group for each distinct word that is no stopword, by its stem, and the corrections."""
        corrected: dict[str, str] = {}
        alternatives: dict[str, list[Phrase]] = {}
        significant = [word for word in words if word.raw not in STOPWORDS] or words
        for word in significant:
            if word.stem not in alternatives:
                alternatives[word.stem] = list(self._readings(word, corrected))
        for covered, phrase in (*self._joined(words), *self._synonymous(words)):
            for stemmed in covered:
                if stemmed in alternatives:
                    alternatives[stemmed].append(phrase)
        return {stemmed: tuple(dict.fromkeys(phrases)) for stemmed, phrases in alternatives.items()}, corrected

    def _readings(self, word: Word, corrected: dict[str, str]) -> Iterable[Phrase]:
        """The word, or its corrections if no item has it."""
        if self._spelling.is_known(word.stem):
            return [(word.stem,)]
        corrections = self._spelling.corrections(word)
        if corrections:
            corrected[word.raw] = " ".join(corrections[0])
        return [tuple(map(stem, raws)) for raws in corrections] or [(word.stem,)]

    def _joined(self, words: Sequence[Word]) -> Iterable[tuple[Phrase, Phrase]]:
        """Neighbouring words that some item has as one word: head set, headset."""
        for one, other in pairwise(words):
            joined = stem(one.raw + other.raw)
            if self._spelling.is_known(joined):
                yield (one.stem, other.stem), (joined,)

    def _synonymous(self, words: Sequence[Word]) -> Iterable[tuple[Phrase, Phrase]]:
        stems = tuple(word.stem for word in words)
        for start in range(len(stems)):
            for phrase, others in self._synonyms.get(stems[start], ()):
                if stems[start : start + len(phrase)] == phrase:
                    yield from ((phrase, other) for other in others)

    def _having(self, group: Group) -> Query:
        """Items with one of the phrases, unscored."""
        return any_of([all_of([equal(self._view.columns, "text", STEMS, stemmed) for stemmed in one]) for one in group])

    def _relax(self, word_groups: Sequence[Group], *, every_word: bool) -> tuple[Query, list[Query], int]:
        """Items with all groups, or with fewer until there are enough.

        Also the queries that rank items with more groups first, and the number of required groups.
        """
        groups = [self._having(group) for group in word_groups]
        shares = [self._share(group) for group in word_groups]
        fuller: list[Query] = []
        for required in range(len(groups), 0, -1):
            level = _at_least(groups, required)
            if required == 1 or every_word:
                return level, fuller, required
            count = self._count(groups, shares, required)
            if count >= ENOUGH:
                return level, fuller, required
            if count:
                fuller.append(Query.const_score_query(level, WORD_BONUS))
        return Query.empty_query(), [], 0

    def _count(self, groups: Sequence[Query], shares: Sequence[float], required: int) -> int:
        """How many items have this many groups; if a sample has enough of them, their number in the sample."""
        if self._is_common(shares, required):
            sampled = self._view.count(_at_least(groups, required, self._view.sample))
            if sampled >= ENOUGH:
                return sampled
        return self._view.count(_at_least(groups, required))

    def _share(self, group: Group) -> float:
        """The approximate share of rows that have a group."""
        held = [min(self._view.row_count(STEMS, stemmed) for stemmed in phrase) for phrase in group]
        return min(1.0, sum(held) / max(1, len(self._view)))

    def _is_common(self, shares: Sequence[float], required: int) -> bool:
        """Whether a sample is expected to have enough items with this many groups, if words were independent."""
        chances = [1.0]
        for share in shares:
            chances = [a * (1 - share) + b * share for a, b in zip([*chances, 0.0], [0.0, *chances], strict=True)]
        return sum(chances[required:]) * len(self._view) / SAMPLED > 2 * ENOUGH


def synonyms_by_stem(schema: Schema) -> dict[str, list[tuple[Phrase, list[Phrase]]]]:
    """By the first stem of a phrase: the phrase, and its synonyms."""
    synonyms: dict[str, list[tuple[Phrase, list[Phrase]]]] = {}
    for group in schema.synonyms:
        phrases = [tuple(word.stem for word in query_words(text)) for text in group]
        for phrase in filter(None, phrases):
            others = [other for other in phrases if other and other != phrase]
            synonyms.setdefault(phrase[0], []).append((phrase, others))
    return synonyms


def _at_least(groups: Sequence[Query], required: int, *all_have: Query) -> Query:
    if comb(len(groups), required) > MAX_COMBINATIONS:
        each_counts = [(Occur.Should, group) for group in groups]
        return all_of([Query.boolean_query(each_counts, minimum_number_should_match=required), *all_have])
    # Combinations with rare words skip the many items of a common word; counting words would read them all.
    return any_of([all_of([*some, *all_have]) for some in combinations(groups, required)])
