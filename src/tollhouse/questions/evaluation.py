"""Scores the answers to labelled questions: `tollhouse evaluate questions`."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse.labelled_lines import read_lines
from tollhouse.questions.answering import Answer

Outcome = Literal["exact", "partly", "wrong", "refused"]
Match = Literal["set", "names", "ordered", "any", "first", "cites"]
REFUSE = "refuse"
# Shares are labelled with one decimal.
TOLERANCE = 0.051

Ask = Callable[[Sequence[str]], Awaitable[Answer]]


class LabelledQuestion(Struct, frozen=True):
    """One line of the file. `right` answers the last turn: a number, a list of ids, or "refuse".

    `match` says how a list is compared: as a "set" of ids; "names" instead of ids; "ordered"; "any": each member is a
    right answer; "first": the first row must be a member; "cites": something is cited, and nothing but members.
    """

    right: Any
    turns: tuple[str, ...] = ()
    question: str | None = None
    id: str = ""
    match: Match = "set"

    @property
    def conversation(self) -> tuple[str, ...]:
        return self.turns or (self.question or "",)


def outcome(line: LabelledQuestion, answer: Answer) -> Outcome:
    """How right the answer is."""
    right = line.right
    if right == REFUSE or answer.refusal is not None:
        refused = answer.refusal is not None
        return "wrong" if not refused else "exact" if right == REFUSE else "refused"
    if isinstance(right, int | float):
        if answer.value is None:
            return "partly" if len(answer.ids or answer.names) == right else "wrong"
        return "exact" if abs(answer.value - right) <= TOLERANCE else "wrong"
    return _COMPARED[line.match](right, answer)


def _any(right: list[list[str]], answer: Answer) -> Outcome:
    return "exact" if list(answer.ids) in right else "wrong"


def _first(right: list[str], answer: Answer) -> Outcome:
    return "exact" if answer.ids and answer.ids[0] in right else "wrong"


def _cites(right: list[str], answer: Answer) -> Outcome:
    cited = {reference.id for reference in answer.citations}
    return _overlap(set(right), cited, exact=bool(cited) and cited <= set(right))


def _names(right: list[str], answer: Answer) -> Outcome:
    names, expected = ({name.casefold() for name in some} for some in (answer.names, right))
    return _overlap(expected, names, exact=names == expected)


def _ordered(right: list[str], answer: Answer) -> Outcome:
    return _overlap(set(right), set(answer.ids), exact=list(answer.ids) == right)


def _set(right: list[str], answer: Answer) -> Outcome:
    return _overlap(set(right), set(answer.ids), exact=set(answer.ids) == set(right))


_COMPARED: dict[Match, Callable[[Any, Answer], Outcome]] = {
    "set": _set,
    "names": _names,
    "ordered": _ordered,
    "any": _any,
    "first": _first,
    "cites": _cites,
}


def _overlap(right: set[str], given: set[str], *, exact: bool) -> Outcome:
    return "exact" if exact else "partly" if right & given else "wrong"


def f1(line: LabelledQuestion, answer: Answer) -> float | None:
    """F1 of the ids against a labelled list; None for other labels."""
    if not isinstance(line.right, list) or line.match in ("any", "names", "cites"):
        return None
    right, given = set(line.right), set(answer.ids)
    if line.match == "first":
        return float(bool(answer.ids) and answer.ids[0] in right)
    if not right or not given:
        return float(right == given)
    return 2 * len(right & given) / (len(right) + len(given))


async def evaluate(gold: Path, ask: Ask, progress: Callable[[str], None]) -> dict[str, Any]:
    """Shares of the outcomes, and every question with its answer; `mean_f1` over the labelled lists of ids."""
    lines, malformed = read_lines(gold, LabelledQuestion, progress)
    counts: Counter[str] = Counter()
    cases, scores, times = [], [], []
    for line in lines:
        began = perf_counter()
        answer = await ask(line.conversation)
        times.append((perf_counter() - began) * 1000 / len(line.conversation))
        result = outcome(line, answer)
        counts[result] += 1
        if (score := f1(line, answer)) is not None:
            scores.append(score)
        cases.append(
            {"id": line.id, "turns": line.conversation, "outcome": result, "right": line.right, **_shown(answer)}
        )
    number = len(lines)
    return {
        **{
            name: round(counts[name] / number, 4) if number else 0.0 for name in ("exact", "partly", "wrong", "refused")
        },
        "mean_f1": round(sum(scores) / len(scores), 4) if scores else None,
        "p50_ms": round(sorted(times)[number // 2], 2) if number else None,
        "n": number,
        "malformed": malformed,
        "cases": cases,
    }


def _shown(answer: Answer) -> dict[str, Any]:
    return {
        "text": answer.text,
        "value": answer.value,
        "ids": list(answer.ids),
        "names": list(answer.names),
        "cited": [reference.id for reference in answer.citations],
        "query": msgspec.to_builtins(answer.query),
    }
