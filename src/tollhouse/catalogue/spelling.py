"""What a mistyped word was meant to be: a word of the catalogue one letter away, or two of its words run together.

The candidates are made, not looked for: Peter Norvig, "How to Write a Spelling Corrector" (2007).
"""

from collections.abc import Iterator

from tantivy import Query

from tollhouse.catalogue.index import View
from tollhouse.catalogue.index_columns import STEMS, WORDS
from tollhouse.catalogue.tokens import Word, stem

# A shorter word is one letter away from too many others, and so is a stem that lost its ending: kids are no kip.
SHORTEST = 3
SHORTEST_STEM = 4
LONGEST = 30
READINGS = 3
# Of so few rows each may have been taken out since the last merge: they are counted one by one.
FEW = 16

_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Raws = tuple[str, ...]


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
