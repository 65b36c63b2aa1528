"""Which items a text means: its words, what they may have been meant to be, and how many of them must be there.

Every word that an item should have is a group: the word itself, its synonyms, the word it makes with its neighbour, or
what it was mistyped for. Items with every group come first. Where they are fewer than 20, those that lack one follow,
then those that lack two, and so on. Which items a text means never depends on filters, so a filter only ever narrows
what is found, and a facet's count is the total that choosing it leads to.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from math import comb

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.index import View
from tollhouse.catalogue.index_columns import SAMPLED, STEMS
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.scoring import Group, Phrase, Ranking, Scoring, all_of, any_of
from tollhouse.catalogue.spelling import Spelling
from tollhouse.catalogue.tokens import FUNCTION_WORDS, MAX_CHARACTERS, Word, stem, words_asked

ENOUGH = 20
REMEMBERED = 1_000
MOST_CHOICES = 30
# Larger than any sum of scores: one word more outweighs everything. Small enough for a float's 24 bits beside it.
A_WORD_MORE = 20_000.0


class Match(Struct, frozen=True):
    """The items a text means, the same scored, what mistyped words were taken for, and the words as they are now."""

    meant: Query
    ranking: Ranking
    corrected: dict[str, str]
    groups: tuple[Group, ...]


class Matcher:
    """Reads texts against one view of a catalogue."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._spelling = Spelling(view)
        self._synonyms = synonyms_of(view.schema)
        self._scoring = Scoring(view)
        self._matches: dict[tuple[str, bool], Match] = {}

    def match(self, text: str, *, every_word: bool = False) -> Match:
        """The items a text means; only those that have all its words where `every_word` is asked for."""
        asked = text[:MAX_CHARACTERS], every_word
        if asked not in self._matches:
            if len(self._matches) >= REMEMBERED:
                self._matches.clear()
            self._matches[asked] = self._match(words_asked(text), every_word=every_word)
        return self._matches[asked]

    def _match(self, words: Sequence[Word], *, every_word: bool) -> Match:
        groups, corrected = self._groups(words)
        meant, fuller, wanted = self._levelled(groups, every_word=every_word)
        ranking = self._scoring.ranking(groups, meant, fuller, wanted)
        return Match(meant, ranking, corrected, groups)

    def score(self, stemmed: str) -> Query:
        """Items that have a word in a searched field, scored."""
        return self._scoring.of_word(stemmed)

    def _groups(self, words: Sequence[Word]) -> tuple[tuple[Group, ...], dict[str, str]]:
        """One group for each different word that says something, and the corrections made."""
        corrected: dict[str, str] = {}
        alternatives: dict[str, list[Phrase]] = {}
        meaning = [word for word in words if word.raw not in FUNCTION_WORDS] or words
        for word in meaning:
            if word.stem not in alternatives:
                alternatives[word.stem] = list(self._readings(word, corrected))
        for covered, phrase in (*self._joined(words), *self._synonymous(words)):
            for stemmed in covered:
                if stemmed in alternatives:
                    alternatives[stemmed].append(phrase)
        return tuple(tuple(dict.fromkeys(found)) for found in alternatives.values()), corrected

    def _readings(self, word: Word, corrected: dict[str, str]) -> Iterable[Phrase]:
        """The word, or what it must have been meant to be when no item has it."""
        if self._spelling.is_known(word.stem):
            return [(word.stem,)]
        meant = self._spelling.readings(word)
        if meant:
            corrected[word.raw] = " ".join(meant[0])
        return [tuple(map(stem, raws)) for raws in meant] or [(word.stem,)]

    def _joined(self, words: Sequence[Word]) -> Iterable[tuple[Phrase, Phrase]]:
        """Neighbours that some item writes as one word: head set, headset."""
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
        """Items that have one of the phrases, unscored."""
        return any_of([all_of([self._item_with(stemmed) for stemmed in phrase]) for phrase in group])

    def _item_with(self, stemmed: str) -> Query:
        return Query.term_query(self._view.columns, STEMS, stemmed, index_option="basic")

    def _levelled(self, meaning: Sequence[Group], *, every_word: bool) -> tuple[Query, list[Query], int]:
        """Items with all groups, and with fewer while there are not enough.

        Also what puts those with more first, and how many groups it came to.
        """
        groups = [self._having(group) for group in meaning]
        shares = [self._share(group) for group in meaning]
        fuller: list[Query] = []
        for wanted in range(len(groups), 0, -1):
            level = _at_least(groups, wanted)
            if wanted == 1 or every_word:
                return level, fuller, wanted
            found = self._found(groups, shares, wanted)
            if found >= ENOUGH:
                return level, fuller, wanted
            if found:
                fuller.append(Query.const_score_query(level, A_WORD_MORE))
        return Query.empty_query(), [], 0

    def _found(self, groups: Sequence[Query], shares: Sequence[float], wanted: int) -> int:
        """How many items have so many groups; where a sample has enough of them, those of the sample."""
        if self._is_common(shares, wanted):
            some = self._view.count(_at_least(groups, wanted, self._view.sample))
            if some >= ENOUGH:
                return some
        return self._view.count(_at_least(groups, wanted))

    def _share(self, group: Group) -> float:
        """Of all rows about how many have a group."""
        held = [min(self._view.holders(STEMS, stemmed) for stemmed in phrase) for phrase in group]
        return min(1.0, sum(held) / max(1, len(self._view)))

    def _is_common(self, shares: Sequence[float], wanted: int) -> bool:
        """Whether enough items of a sample should have so many groups, if words met by chance."""
        chances = [1.0]
        for share in shares:
            chances = [a * (1 - share) + b * share for a, b in zip([*chances, 0.0], [0.0, *chances], strict=True)]
        return sum(chances[wanted:]) * len(self._view) / SAMPLED > 2 * ENOUGH


def synonyms_of(schema: Schema) -> dict[str, list[tuple[Phrase, list[Phrase]]]]:
    """By the first stem of a phrase: the phrase, and those that mean the same."""
    found: dict[str, list[tuple[Phrase, list[Phrase]]]] = {}
    for group in schema.synonyms:
        phrases = [tuple(word.stem for word in words_asked(text)) for text in group]
        for phrase in filter(None, phrases):
            others = [other for other in phrases if other and other != phrase]
            found.setdefault(phrase[0], []).append((phrase, others))
    return found


def _at_least(groups: Sequence[Query], wanted: int, *all_have: Query) -> Query:
    if comb(len(groups), wanted) > MOST_CHOICES:
        each_counts = [(Occur.Should, group) for group in groups]
        return all_of([Query.boolean_query(each_counts, minimum_number_should_match=wanted), *all_have])
    # Rare words that must meet rule out a common one's many items unread, where counting words would read them all.
    return any_of([all_of([*some, *all_have]) for some in combinations(groups, wanted)])
