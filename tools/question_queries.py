"""Work out the queries of labelled questions: `python -m tools.question_queries NAME ...`.

NAME is the name of a file in data/questions, or of one in tests/data/questions that is not held out. A query counts as
a question's if its answer is the right one; it is looked for among the engine's reading and the parser's plans of the
question, of its plainer wording and of its paraphrases, and the one that most of these agree on is kept. Where there is
none, the known one is kept if its answer is right: some were written by hand. They are written to
data/question_queries.jsonl, from which the parser learns.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.questions.answering import Answer, Engine
from tollhouse.questions.evaluation import REFUSE, LabelledQuestion, outcome
from tollhouse.questions.planning import likeliest
from tollhouse.questions.plans import key
from tollhouse.questions.query import Query, Reading, Reason, Refusal
from tools.question_engines import engine_of, service_of

DATA = Path(__file__).parent / "data"
_TESTED = Path("tests/data/questions")
FOLDERS = (_TESTED, _TESTED / "tables", DATA / "questions", DATA / "questions" / "tables")
PARAPHRASES, REWORDINGS, QUERIES = (
    DATA / name for name in ("question_paraphrases.jsonl", "question_rewordings.json", "question_queries.jsonl")
)
LEAST = 0.3
"""Queries with less weight, of all that were found for a question, are not kept."""


class KnownQuery(Struct, frozen=True, omit_defaults=True):
    """The query of a labelled question, or the reason why it has none; `before` is that of the turn before."""

    id: str
    query: Query | None = None
    refused: Reason | None = None
    before: Query | None = None

    @property
    def right(self) -> Query | Refusal:
        """What is to be read."""
        return self.query or Refusal(self.refused or "unclear")


def labelled(name: str) -> list[LabelledQuestion]:
    """The questions of a file, with ids for the labels of rows."""
    file = next(file for folder in FOLDERS if (file := folder / f"{name}.jsonl").exists())
    lines = [msgspec.json.decode(line, type=LabelledQuestion) for line in file.read_text(encoding="utf-8").splitlines()]
    return [with_ids(line, engine_of(service_of(name))) for line in lines] if file.parent.name == "tables" else lines


def with_ids(line: LabelledQuestion, engine: Engine) -> LabelledQuestion:
    """Rows of a table by their ids; the files have their labels."""
    if line.match == "names" or not isinstance(line.right, list):
        return line
    data = engine.dataset
    (kind,) = data.declaration.kinds
    ids = {
        text: data.id(kind.name, row)
        for row in data.rows(kind.name)
        for text in (data.label(kind.name, row), data.id(kind.name, row))
    }
    return msgspec.structs.replace(line, right=[ids[str(label)] for label in line.right])


def known_queries() -> dict[str, KnownQuery]:
    """What was worked out before, by id."""
    text = QUERIES.read_text(encoding="utf-8") if QUERIES.exists() else ""
    return {known.id: known for known in (msgspec.json.decode(line, type=KnownQuery) for line in text.splitlines())}


def paraphrases() -> dict[str, list[str]]:
    """Other ways to put the last turn of each question, by id."""
    lines = map(json.loads, PARAPHRASES.read_text(encoding="utf-8").splitlines())
    return {line["id"]: line["paraphrases"] for line in lines}


def wordings() -> dict[str, list[str]]:
    """Plainer wordings and paraphrases of each question, by id."""
    found = {name: [text] for name, text in json.loads(REWORDINGS.read_text(encoding="utf-8")).items()}
    for name, texts in paraphrases().items():
        found.setdefault(name, []).extend(texts)
    return found


def main() -> int:
    others = wordings()
    for name in sys.argv[1:]:
        engine = engine_of(service_of(name))
        lines = labelled(name)
        found = [_query(engine, line, f"{name}:{line.id}", others) for line in lines]
        queries = {each.id: each for each in found if each is not None}
        print(f"{name}: {len(queries)} of {len(lines)} questions have a query", file=sys.stderr, flush=True)
        rest = {each: known for each, known in known_queries().items() if each.rpartition(":")[0] != name}
        _write((rest | queries).values())
    return 0


def _write(queries: Iterable[KnownQuery]) -> None:
    """Without the words of conditions, which no plan has; a follow-up reads those of the query before."""
    known = (_short(msgspec.to_builtins(each)) for each in queries)
    short = (each | {"query": _wordless(each["query"])} if "query" in each else each for each in known)
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in short)
    QUERIES.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _wordless(part: Any) -> Any:
    if isinstance(part, dict):
        is_said = {name: name == "words" and isinstance(each, str) for name, each in part.items()}
        return {name: _wordless(each) for name, each in part.items() if not is_said[name]}
    return [_wordless(each) for each in part] if isinstance(part, list) else part


def _short(part: Any) -> Any:
    """What has no default of its own."""
    if isinstance(part, dict):
        return {name: _short(each) for name, each in part.items() if not _is_default(name, each)}
    return [_short(each) for each in part] if isinstance(part, list | tuple) else part


def _is_default(name: str, value: Any) -> bool:
    if isinstance(value, list | tuple):
        return not value and name != "words"
    if isinstance(value, bool):
        return not value and name not in ("descending", "outgoing")
    return value in ("", None) or (name == "skip" and value == 0)


def _query(engine: Engine, line: LabelledQuestion, name: str, others: Mapping[str, Sequence[str]]) -> KnownQuery | None:
    *earlier, last = line.conversation
    before: Query | None = None
    for turn in earlier:
        before = engine.answer(turn, before).query or before
    weights: dict[Any, float] = {}
    queries: dict[Any, Query | Refusal] = {}
    for number, text in enumerate((last, *others.get(name, ()))):
        # What the question itself is read as counts as much as three of its paraphrases.
        for weight, read in _readings(engine, text, before):
            if _is_right(engine, line, text, read):
                weights[key(read)] = weights.get(key(read), 0) + weight * (1 if number else 3)
                queries.setdefault(key(read), read)
        if not number and max(weights.values(), default=0) > 3 * 1.5:
            break
    best = max(weights, key=lambda each: weights[each], default=None)
    if best is None or weights[best] < LEAST:
        known = known_queries().get(name)
        if known is not None and known.query is not None and _is_right(engine, line, last, known.query):
            return known
        return KnownQuery(name, refused="opinion", before=before) if line.right == REFUSE else None
    right = queries[best]
    if isinstance(right, Refusal):
        return KnownQuery(name, refused=right.reason, before=before)
    return KnownQuery(name, query=right, before=before)


def _readings(engine: Engine, text: str, before: Query | None) -> Iterator[tuple[float, Query | Refusal]]:
    """Queries that a text may mean, with a weight."""
    reading = engine.read(text, before)
    yield 1.0, reading.query if isinstance(reading, Reading) else reading
    for planned in likeliest(engine.question(text, before)):
        yield math.exp(planned.score), planned.made.query if isinstance(planned.made, Reading) else planned.made


def _is_right(engine: Engine, line: LabelledQuestion, text: str, read: Query | Refusal) -> bool:
    if isinstance(read, Refusal):
        return line.right == REFUSE
    try:
        answer = engine.answer_reading(text, Reading(read))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError):
        return False
    return isinstance(answer, Answer) and outcome(line, answer) == "exact"


if __name__ == "__main__":
    sys.exit(main())
