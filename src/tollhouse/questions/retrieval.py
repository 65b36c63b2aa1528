"""Passages for open questions: the lines of texts that say what was requested, each with the row that it comes from.

A line is scored by the words of the question that it or its row has, the rarer the more, and by the similarity of the
question and the line as text vectors. Words of the same meaning count as well. If no line reaches
 a threshold, there is no answer.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tollhouse.questions.execution import Tables, words_of
from tollhouse.questions.query import AllOf, Condition, Not, Open, Related, Rows, Test
from tollhouse.vectors import text_vectors

Matches = NDArray[np.float32]

# Chosen on the questions for choosing: below, lines that answer other questions come in.
LOWEST_SCORE = 0.5
# Lines that are this far below the best answer the question less well.
FARTHEST_BELOW = 0.2
LOWEST_IN_TIMELINE = 0.4
# How much of a line's score its words make; the rest is the similarity of the vectors.
SHARE_OF_WORDS = 0.75
# A word elsewhere in the row's text, and a word of the same meaning, count for this part of a word in the line.
IN_ROW = 0.7
SAME_MEANING = 0.7
# Words of a line that says why, and what they add for a question that asks so.
CAUSES = frozenset({"because", "after", "over", "due", "amid", "following", "reason", "cause"})
CAUSE_BONUS = 0.05
# From this similarity on (cosine), two words mean the same.
MEANING_COSINE = 0.66
MOST_SIMILAR = 20
# Two lines with this share of common words say the same.
SAME_WORDS = 0.6
MOST_PASSAGES = 6
# Words of fewer rows weigh no more, so that one word that no text has does not decide alone.
FEWEST_ROWS = 3
MOST_COMPARED = 40


class Passage(Struct, frozen=True):
    """One line of the text of the row at `place` of its kind; `time` is the row's, in seconds since 1970."""

    kind: str
    place: int
    text: str
    time: float = 0.0
    score: float = 0.0


class _Term(Struct, frozen=True):
    """A word or condition of the question: its weight, and what of it each line has, 0..1."""

    weight: float
    matches: Matches


class Passages:
    """The lines of the texts of one dataset, with an index of their words."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._lines: list[Passage] = []
        self._first_row: dict[str, int] = {}
        row_of: list[int] = []
        rank: list[int] = []
        for kind in tables.kinds:
            texts, times = tables.dataset.texts(kind), self._times(kind)
            self._first_row[kind] = self._size = len(rank)
            for place, row in enumerate(tables.dataset.rows(kind)):
                lines = [line for line in texts.get(tables.dataset.id(kind, row), "").split("\n") if line]
                self._lines += [Passage(kind, place, line, times.get(place, 0.0)) for line in lines]
                row_of += [len(rank)] * len(lines)
                rank.append(place)
            self._size = len(rank)
        self._row = np.array(row_of, np.int64)
        self._rank = np.array(rank, np.int64)
        postings: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            for word in set(words_of(line.text)):
                postings.setdefault(word, []).append(number)
        self._postings = {word: np.array(having, np.int64) for word, having in postings.items()}
        self._words = list(postings)

    def find(self, query: Open, most: int = MOST_PASSAGES) -> list[Passage]:
        """The passages that answer the question, the best first; a timeline in the order of time."""
        is_timeline = query.form == "timeline"
        words = list(dict.fromkeys(word for text in query.words for word in words_of(text)))
        stated = list(self._stated(query.rows.where))
        requested = [self._word(word) for word in words]
        terms = [*requested, *stated]
        weights = sum(term.weight for term in terms)
        if not weights or not self._lines:
            return []
        scores = sum((term.weight * term.matches for term in terms), np.zeros(len(self._lines), np.float32)) / weights
        if requested:
            scores[np.maximum.reduce([term.matches for term in requested]) == 0] = 0.0
        for term in stated:
            # What is said of somebody or somewhere else is no answer.
            scores[term.matches == 0] = 0.0
        scores[self._excluded(query.rows)] = 0.0
        scores = self._with_meaning(scores, " ".join(query.words))
        if query.form == "why":
            causes = [self._postings[word] for word in CAUSES if word in self._postings]
            says_why = (
                np.isin(np.arange(len(scores)), np.concatenate(causes)) if causes else np.zeros(len(scores), bool)
            )
            scores[says_why & (scores > 0)] += CAUSE_BONUS
        best = float(scores.max())
        if best < LOWEST_SCORE:
            return []
        lowest = LOWEST_IN_TIMELINE if is_timeline else max(LOWEST_SCORE, best - FARTHEST_BELOW)
        # Of equals, the rows that come first in their own kind.
        order = np.lexsort((self._rank[self._row], -np.round(scores, 2)))
        chosen = self._distinct(
            [int(n) for n in order[: 20 * most] if scores[n] >= lowest], 2 * most if is_timeline else most
        )
        passages = [replace(self._lines[number], score=float(scores[number])) for number in chosen]
        return sorted(passages, key=lambda passage: passage.time) if is_timeline else passages

    def warm(self) -> None:
        """Read the vectors of the words, so that the first question does not wait for them."""
        _ = self._vectors

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows that have texts."""
        return frozenset(line.kind for line in self._lines)

    @property
    def has_lines(self) -> bool:
        return bool(self._lines)

    def unknown(self, words: Iterable[str]) -> tuple[str, ...]:
        """The words that no text has."""
        return tuple(text for text in words if not any(word in self._postings for word in words_of(text)))

    def _word(self, word: str) -> _Term:
        matches = np.maximum.reduce([self._having(form) for form in (word, *_stems(word))])
        # Not by a matrix product: its threads cost more than they save here.
        similar = np.einsum("ij,j->i", self._vectors, text_vectors().embed([word])[0])
        for place in np.flatnonzero(similar >= MEANING_COSINE)[:MOST_SIMILAR]:
            matches = np.maximum(matches, SAME_MEANING * self._having(self._words[place]))
        return _Term(self._weight(matches), matches)

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        return text_vectors().embed(self._words)

    def _having(self, word: str) -> Matches:
        """1 for the lines that have the word, IN_ROW for the other lines of their rows."""
        matches = np.zeros(len(self._lines), np.float32)
        if (having := self._postings.get(word)) is not None:
            rows = np.zeros(self._size, bool)
            rows[self._row[having]] = True
            matches[rows[self._row]] = IN_ROW
            matches[having] = 1.0
        return matches

    def _weight(self, matches: Matches) -> float:
        rows = np.zeros(self._size, bool)
        rows[self._row[matches > 0]] = True
        return log(1 + self._size / max(FEWEST_ROWS, int(rows.sum())))

    def _stated(self, condition: Condition) -> Iterable[_Term]:
        """A term for each condition on rows with texts: those that pass have it, and lines that have its words."""
        if isinstance(condition, AllOf):
            for part in condition.of:
                yield from self._stated(part)
        elif not isinstance(condition, Not):
            matches = np.zeros(len(self._lines), np.float32)
            is_met_by_texts = False
            for kind in self._tables.kinds:
                passing = self._passing(kind, condition)
                if passing is not None and self._of_rows(kind, np.ones_like(passing)).any():
                    matches[self._of_rows(kind, passing)] = 1.0
                    is_met_by_texts = True
            words = [word for text in _words(condition) for word in words_of(text)]
            if words:
                matches = np.maximum(matches, np.minimum.reduce([self._having(word) for word in words]))
            if is_met_by_texts:
                yield _Term(self._weight(matches), matches)

    def _excluded(self, rows: Rows) -> NDArray[np.bool_]:
        """The lines of rows that an exclusion names."""
        excluded = np.zeros(len(self._lines), bool)
        parts = rows.parts
        for part in parts:
            for kind in self._tables.kinds if isinstance(part, Not) else ():
                passing = self._passing(kind, part)
                if passing is not None:
                    excluded |= self._of_rows(kind, ~passing)
        return excluded

    def _passing(self, kind: str, condition: Condition) -> NDArray[np.bool_] | None:
        """The rows of a kind that pass; None if the kind has no such attribute or relation."""
        try:
            return self._tables.mask(kind, condition)
        except (KeyError, IndexError):
            return None

    def _of_rows(self, kind: str, passing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The lines of these rows."""
        rows = np.zeros(self._size, bool)
        first = self._first_row[kind]
        rows[first : first + len(passing)] = passing
        return rows[self._row]

    def _with_meaning(self, scores: Matches, question: str) -> Matches:
        """The scores of the best lines with the similarity of their vectors; 0 for the others."""
        best = np.argsort(-scores, kind="stable")[:MOST_COMPARED]
        best = best[scores[best] > 0]
        mixed = np.zeros_like(scores)
        if not question:
            mixed[best] = scores[best]
        elif len(best):
            vectors = text_vectors().embed([question, *(self._lines[number].text for number in best)])
            similar = np.einsum("ij,j->i", vectors[1:], vectors[0])
            mixed[best] = SHARE_OF_WORDS * scores[best] + (1 - SHARE_OF_WORDS) * np.maximum(similar, 0)
        return mixed

    def _distinct(self, order: Sequence[int], most: int) -> list[int]:
        """The first lines that are of different rows and say different things."""
        chosen: list[int] = []
        rows: set[int] = set()
        said: list[set[str]] = []
        for number in order:
            words = set(words_of(self._lines[number].text))
            is_new = not any(len(words & other) >= SAME_WORDS * len(words | other) for other in said)
            if self._row[number] not in rows and is_new:
                chosen.append(number)
                rows.add(int(self._row[number]))
                said.append(words)
            if len(chosen) == most:
                break
        return chosen

    def _times(self, kind: str) -> dict[int, float]:
        """The time of each row: its preferred attribute of time."""
        times = [attribute for attribute in self._tables.kinds[kind].attributes if attribute.type == "time"]
        if not times:
            return {}
        chosen = next((attribute for attribute in times if attribute.preferred), times[0])
        column = self._tables.column(kind, chosen.name)
        return dict(zip(column.row.tolist(), column.number.tolist(), strict=True))


def _stems(word: str) -> Iterable[str]:
    """What an English verb form may come from: "setting" from "set", "fired" from "fire"."""
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2:
            yield from (stem, f"{stem}e", *([stem[:-1]] if stem[-1] == stem[-2] else []))


def _words(condition: Condition) -> list[str]:
    """The question's own words of a condition."""
    if isinstance(condition, Test):
        return [condition.words]
    return [condition.words, *_words(condition.to)][:1] if isinstance(condition, Related) else []
