"""Letting a model's words out as they come, as far as they are supported already.

A sentence that begins with what it cites leaves word by word. One that cites at its end begins to leave as far as its
words say nothing of their own: words of every sentence, and those that a figure shown was described in. The rest of it
is held until it cites. Where a number turns out unsupported the rest of its sentence is held as well, and if it stays
so, or cites nothing, what had left is taken back.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tollhouse.questions.citations import Citations, Reference
from tollhouse.questions.grounding import Evidence, finished, without_names

_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\[A-Z\"'(•*-])|\n+")
_SHORTENED = re.compile(r"(?:\b(?:No|Mr|Mrs|Ms|Dr|Gen|Lt|Col|Sgt|St|vs|approx|Inc|Ltd|Corp)|\b[A-Z])\.[\"')]*$")
# With what it cites, or with a word.
_BEGINNING = re.compile(r"\s*(?:(?:[-*•]\s*)?(?:\[[a-z]\d+(?:\s*,\s*[a-z]\d+)*\]\s*)+|[^\W\d_])")

_UNDECIDED = re.compile(r"(?:\S*\d[\d.,:%-]*|\[[^\]]*)$")
# The marker of what a sentence cites goes before these.
_STOPS = ".!? "


class Delta(Struct, frozen=True, tag="delta"):
    """More of the answer's text."""

    text: str


class Retract(Struct, frozen=True, tag="retract"):
    """Cut the answer's text back to its first `length` characters."""

    length: int


class Outlet:
    """Takes a model's text in, piece by piece, and lets the supported of it out."""

    def __init__(self, evidence: Evidence, citations: Citations) -> None:
        self._evidence = evidence
        self._citations = citations
        self._pending = ""
        self._begun = ""
        self._is_held = False
        self.text = ""
        self.unsupported: list[str] = []

    @property
    def cited(self) -> tuple[Reference, ...]:
        """What the text points at, in the order of its markers."""
        return tuple(self._citations.cited)

    def take(self, piece: str) -> Iterator[Delta | Retract]:
        """What may leave after this piece."""
        self._pending += piece
        while end := self._sentence_end():
            sentence, self._pending = self._pending[: end.start()], self._pending[end.end() :]
            yield from self._close(sentence)
        yield from self._lead()

    def finish(self) -> Iterator[Delta | Retract]:
        """What may leave now that the text is at its end."""
        sentence, self._pending = self._pending, ""
        yield from self._close(sentence)

    def _sentence_end(self) -> re.Match[str] | None:
        return next(
            (end for end in _END.finditer(self._pending) if not _SHORTENED.search(self._pending[: end.start()])), None
        )

    def _lead(self) -> Iterator[Delta]:
        """As much of an unfinished sentence as can be judged already."""
        # A digit may be the beginning of another number, and a bracket of another name.
        known = _UNDECIDED.sub("", self._pending)
        if self._is_held or not _BEGINNING.match(known):
            return
        if not self._may_leave(known):
            self._is_held = True
            return
        ready = without_names(known).rstrip(_STOPS)
        if len(ready) > len(self._begun) and ready.startswith(self._begun):
            yield self._out(ready[len(self._begun) :], is_new=not self._begun)
            self._begun = ready

    def _may_leave(self, known: str) -> bool:
        cited = self._evidence.cited_in(known)
        if cited:
            return self._evidence.shows_numbers(known, cited)
        return cited is not None and self._evidence.leaves_open(known)

    def _close(self, sentence: str) -> Iterator[Delta | Retract]:
        """A whole sentence: out with the rest of it, or back with its beginning."""
        begun, self._begun, self._is_held = self._begun, "", False
        if not sentence.strip():
            return
        if self._evidence.supports(sentence):
            whole = finished(sentence, self._evidence, self._citations)
            if whole.startswith(begun):
                yield self._out(whole[len(begun) :], is_new=not begun)
                return
            yield self._back(begun)
            yield self._out(whole, is_new=True)
            return
        self.unsupported.append(sentence.strip())
        if begun:
            yield self._back(begun)

    def _out(self, text: str, *, is_new: bool) -> Delta:
        said = f" {text}" if is_new and self.text else text
        self.text += said
        return Delta(said)

    def _back(self, begun: str) -> Retract:
        self.text = self.text[: len(self.text) - len(begun)].rstrip()
        return Retract(len(self.text))
