"""Check that no answer contradicts the data: `python -m tools.check_answers SERVICE SOURCE QUESTIONS.jsonl`.

QUESTIONS are lines of `tools.generate_questions`, with right answers that were computed without the engine. They run
through `tollhouse evaluate questions`, and each answer is put into one kind:

right; refused (it has an answer, and none was given); answered (it should have been refused); number, rows, names,
order (another one than the data's); none (the answer says that there is nothing, and there is something); text (the
number asked for, or a name, in the text is not the data's).

Prints a JSON object with the kinds by family and by language, and with the failures. The exit status is 1 if an answer
contradicts the data. SOURCE is a server or a file of rows, as for `tools.question_gold`.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tools.question_gold import SERVICES, load_names
from tools.question_gold.evaluation import REFUSE, Names

Kind = Literal["right", "refused", "answered", "number", "rows", "names", "order", "none", "text"]
CONTRADICTIONS = ("number", "rows", "names", "order", "none", "text")

TOLERANCE = 0.051
"""Shares are compared with one decimal."""

NUMBER = re.compile(r"(?<![\w.\[-])(\d[\d,]*(?:\.\d+)?)(?!\w)")
COUNTED = re.compile(r"(\d[\d,]*) (?!of )[a-z]+ \(")
"""The number of rows with which a list begins."""

CITATION = re.compile(r"\[\d+(?:-\d+)?\]")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", choices=sorted(SERVICES))
    parser.add_argument("source")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--key", help="API key of the server")
    parser.add_argument("--cases", type=Path, help="output of `tollhouse evaluate questions` on the same questions")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.questions.read_text(encoding="utf-8").splitlines()]
    cases = _cases(options.service, options.questions, options.cases)
    labels = _labels(options.service, load_names(options.service, options.source, options.key))
    report = _report(lines, cases, labels)
    json.dump(report, sys.stdout, ensure_ascii=False, indent=1)
    print()
    return int(any(report["kinds"].get(kind) for kind in CONTRADICTIONS))


def _cases(service: str, questions: Path, saved: Path | None) -> list[dict[str, Any]]:
    """The engine's answer to each line."""
    if saved is not None:
        text = saved.read_text(encoding="utf-8")
    else:
        command = [sys.executable, "-m", "tollhouse", "evaluate", "questions", service, str(questions)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    cases: list[dict[str, Any]] = json.loads(text)["cases"]
    return [{**case, "refused": _is_refused(case)} for case in cases]


def _is_refused(case: dict[str, Any]) -> bool:
    return bool(case["outcome"] == ("exact" if case["right"] == REFUSE else "refused"))


def _labels(service: str, names: Names) -> dict[str, str]:
    """How an answer may name each row."""
    if service == "infra":
        return {row["id"]: row["name"] for row in names["companies"]}
    if service == "mattress":
        return {row["id"]: row["title"] for row in names["products"]}
    rows = [*names["events"], *names["stories"]]
    return {row["id"]: row["title"] for row in rows} | {row["id"]: row["name"] for row in names["entities"]}


def _report(lines: list[dict[str, Any]], cases: list[dict[str, Any]], labels: dict[str, str]) -> dict[str, Any]:
    by_id = {case["id"]: case for case in cases}
    kinds: Counter[str] = Counter()
    families: dict[str, Counter[str]] = defaultdict(Counter)
    languages: dict[str, Counter[str]] = defaultdict(Counter)
    failures = []
    for line in lines:
        case = by_id[line["id"]]
        kind = check(line, case, labels)
        kinds[kind] += 1
        languages["typo" if "plain" in line else line["language"]][kind] += 1
        for family in line["kind"].split("+"):
            families[family][kind] += 1
        if kind != "right":
            failures.append({"kind": kind, "family": line["kind"], **_shown(line, case)})
    return {
        "n": len(lines),
        "kinds": dict(kinds.most_common()),
        "languages": {name: dict(counts) for name, counts in languages.items()},
        "families": {name: dict(counts) for name, counts in sorted(families.items(), key=_right_share)},
        "failures": failures,
    }


def check(line: dict[str, Any], case: dict[str, Any], labels: dict[str, str]) -> Kind:
    """The kind of one answer."""
    right = line["right"]
    if case["refused"] or right == REFUSE:
        if not case["refused"]:
            return "answered"
        return "right" if right == REFUSE else "refused"
    kind = _check_number(right, case) if isinstance(right, int | float) else _check_list(line, case, labels)
    if kind != "right":
        return kind
    if line.get("match") == "names":
        return "right"
    return "text" if any(_contradictions(right, case, labels)) else "right"


def _check_number(right: float, case: dict[str, Any]) -> Kind:
    value = case["value"]
    if value is None:
        return "right" if right and len(case["ids"] or case["names"]) == right else "number"
    if abs(value - right) <= TOLERANCE:
        return "right"
    return "none" if value == 0 else "number"


def _check_list(line: dict[str, Any], case: dict[str, Any], labels: dict[str, str]) -> Kind:
    right, match = line["right"], line.get("match")
    given = case["ids"]
    if match == "names":
        given = case["names"] or [labels.get(row, row) for row in given]
        right, given = ({name.casefold() for name in names} for names in (right, given))
    if right and not given:
        return "none"
    if match == "any":
        same = given in right
    elif match == "first":
        same = given == right or given[0] in right
    else:
        same = set(given) == set(right)
    if not same:
        return "names" if match == "names" else "rows"
    return "order" if match == "ordered" and given != right else "right"


def _contradictions(right: Any, case: dict[str, Any], labels: dict[str, str]) -> Iterator[str]:
    """What the text states against the right answer: another number, another count of rows, or another row."""
    text = CITATION.sub("", case["text"])
    stated = [float(number.replace(",", "")) for number in NUMBER.findall(text)]
    if isinstance(right, int | float):
        if right not in {0, 1} and stated and all(abs(number - right) > TOLERANCE for number in stated):
            yield f"{stated} instead of {right}"
        if right == 0 and text.startswith("Yes"):
            yield "yes, and there is nothing"
        return
    if (count := COUNTED.match(text)) and right and int(count[1].replace(",", "")) != len(right):
        yield f"{count[1]} instead of {len(right)}"
    of_right = {labels.get(row, "") for row in right if isinstance(row, str)}
    for label in _named(text, labels):
        if label not in of_right and isinstance(right[0] if right else "", str):
            yield f"{label} is none of the rows"


def _named(text: str, labels: dict[str, str]) -> Iterator[str]:
    """The labels of rows in the list that a text gives, which follows the conditions in parentheses."""
    _, separator, listed = text.partition("): ")
    for shown in listed.split(". ", 1)[0].split("; ") if separator else ():
        if shown.strip() in set(labels.values()):
            yield shown.strip()


def _right_share(family: tuple[str, Counter[str]]) -> float:
    return family[1]["right"] / family[1].total()


def _shown(line: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": line["id"],
        "turns": line["turns"],
        "right": line["right"],
        "text": case["text"],
        "value": case["value"],
        "ids": case["ids"],
        "names": case["names"],
        "query": case["query"],
    }


if __name__ == "__main__":
    sys.exit(main())
