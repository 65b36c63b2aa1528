"""Which items a text means: its words, what they may have been meant to be, and how many of them must be there.

Every word that an item should have is a group: the word itself, its synonyms, the word it makes with its neighbour, or
what it was mistyped for. Items with every group come first. Where they are fewer than 20, those that lack one follow,
then those that lack two, and so on. Which items a text means never depends on filters, so a filter only ever narrows
what is found, and a facet's count is the total that choosing it leads to.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from math import comb

from msgspec import Struct
from tantivy import Occur, Query

from tollhouse.catalogue.index import SAMPLED, STEMS, WORDS, View
from tollhouse.catalogue.schema import Schema
from tollhouse.catalogue.scoring import Group, Phrase, Ranking, Scoring, all_of, any_of
from tollhouse.catalogue.tokens import FUNCTION_WORDS, MAX_CHARACTERS, Word, query_words, stem

# A shorter word is one letter away from too many others, and so is a stem that lost its ending: kids are no kip.
SHORTEST = 3
SHORTEST_STEM = 4
LONGEST = 30
READINGS = 3
# Of so few rows each may have been taken out since the last merge: they are counted one by one.
FEW = 16

_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Raws = tuple[str, ...]

ENOUGH = 20
REMEMBERED = 1_000
MOST_CHOICES = 30
# Larger than any sum of scores: one word more outweighs everything. Small enough for a float's 24 bits beside it.
A_WORD_MORE = 20_000.0


class Spelling:
    """The words of one view of a catalogue."""

    def __init__(self, view: View) -> None:
        self._view = view

    def is_known(self, stemmed: str) -> bool:
        """Whether an item has a word of this stem."""
        held = self._view.holders(STEMS, stemmed)
        if held > FEW:
            return True
        return held > 0 and self._view.count(Query.term_query(self._view.columns, STEMS, stemmed, "basic")) > 0

    def readings(self, word: Word) -> list[Raws]:
        """What an unknown word may have been meant to be, the likeliest first; nothing when it resembles none.

        A word with a digit in it is a model or a measure: TN-2110 is not TN-2120.
        """
        if not SHORTEST <= len(word.raw) <= LONGEST:
            return []
        if not any(letter.isdigit() for letter in word.raw):
            near = self._near(word.raw, WORDS)
            if not near and len(word.stem) >= SHORTEST_STEM:
                near = self._near(word.stem, STEMS)
            if near:
                return [(each,) for each in near[:READINGS]]
        return self._split(word.raw)

    def _near(self, written: str, column: str) -> list[str]:
        """Known words one letter from this one, those of most items first."""
        # Most unknown words resemble nothing: an automaton sees that at once, where hundreds of candidates take long.
        if not self._view.count(Query.fuzzy_term_query(self._view.columns, column, written, distance=1)):
            return []
        counted = [(self._view.holders(column, candidate), candidate) for candidate in set(one_letter_away(written))]
        ranked = sorted((-held, candidate) for held, candidate in counted if held)
        return [candidate for _, candidate in ranked if self.is_known(stem(candidate))]

    def _split(self, raw: str) -> list[Raws]:
        """The two known words it is made of: memoryfoam, 32gb."""
        best: tuple[int, Raws] = (0, ())
        for at in range(1, len(raw)):
            parts = raw[:at], raw[at:]
            is_seam = raw[at - 1].isdigit() != raw[at].isdigit()
            if is_seam or min(map(len, parts)) >= SHORTEST:
                best = max(best, (min(map(self._holders_of_word, parts)), parts))
        return [best[1]] if best[0] else []

    def _holders_of_word(self, raw: str) -> int:
        return self._view.holders(WORDS, raw)


def one_letter_away(word: str) -> Iterator[str]:
    """Every text with one letter left out, two swapped, one replaced, or one put in."""
    letters = _LETTERS if word.isascii() else _letters_beside(word)
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters if letter != after[0])
        if len(after) > 1 and after[0] != after[1]:
            yield before + after[1] + after[0] + after[2:]
        yield from (before + letter + after for letter in letters)


def _letters_beside(word: str) -> str:
    """The small letters of the alphabets that a word is written in, read off their places in Unicode."""
    blocks = {ord(letter) & ~0x7F for letter in word}
    letters = (chr(point) for block in sorted(blocks) for point in range(block, block + 0x80))
    return "".join(letter for letter in letters if letter.isalpha() and letter == letter.lower())


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
        self._synonyms = synonyms_by_stem(view.schema)
        self._scoring = Scoring(view)
        self._matches: dict[tuple[str, bool], Match] = {}

    def match(self, text: str, *, every_word: bool = False) -> Match:
        """The items a text means; only those that have all its words where `every_word` is asked for."""
        asked = text[:MAX_CHARACTERS], every_word
        if asked not in self._matches:
            if len(self._matches) >= REMEMBERED:
                self._matches.clear()
            self._matches[asked] = self._match(query_words(text), every_word=every_word)
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


def synonyms_by_stem(schema: Schema) -> dict[str, list[tuple[Phrase, list[Phrase]]]]:
    """By the first stem of a phrase: the phrase, and those that mean the same."""
    found: dict[str, list[tuple[Phrase, list[Phrase]]]] = {}
    for group in schema.synonyms:
        phrases = [tuple(word.stem for word in query_words(text)) for text in group]
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
