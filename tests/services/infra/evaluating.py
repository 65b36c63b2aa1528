"""How many questions the assistant answers exactly: `python -m tests.services.infra.evaluating dev|held [--wrong]`.

A question is right when the companies of the answer are the expected ones, as a set (a path: one of the shortest, in
its order), and the answer says the word or number that is asked for. Expectations are written as relations and worked
out here from the rows of the catalogue's files, not by the code that serves.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tollhouse.services.infra.assistant.assistant import Assistant, Reply
from tollhouse.services.infra.records import Records, bundled, read_records
from tollhouse.services.infra.supply_graph import SupplyGraph, load_supply_graph

FOLDER = Path(__file__).parent
NOT_SUPPLY = {"invests_in", "partners_with", "owns"}

Question = dict[str, Any]


class Gold:
    """What the rows say, worked out the plain way."""

    def __init__(self, records: Records) -> None:
        self.companies = {row.id: row for row in records.companies}
        self.edges = records.edges
        self.supply = [edge for edge in records.edges if edge.kind not in NOT_SUPPLY]

    def allows(self, expect: dict[str, Any], found: list[str]) -> bool:
        """Whether these companies are a right answer."""
        if "path" in expect:
            return found in self.shortest(*expect["path"])
        if "chokepoints" in expect:
            return found == self.chokepoints(expect["chokepoints"])
        return set(found) == self.expected(expect) and len(found) == len(set(found))

    def expected(self, expect: dict[str, Any]) -> set[str]:
        (name, value), *_ = expect.items()
        return set(getattr(self, f"_{name}")(value, expect))

    def shortest(self, source: str, target: str) -> list[list[str]]:
        """Every shortest path."""
        ring = [[source]]
        while ring:
            ring = [[*path, e.target] for path in ring for e in self.supply if e.source == path[-1]]
            ring = [path for path in ring if len(set(path)) == len(path)]
            if any(path[-1] == target for path in ring):
                return [path for path in ring if path[-1] == target]
        return []

    def chokepoints(self, count: int) -> list[str]:
        order = {company: place for place, company in enumerate(self.companies)}
        return sorted(order, key=lambda c: (-len(self._fails_without(c, {})), order[c]))[:count]

    def _ids(self, value: list[str], _: Any) -> list[str]:
        return value

    def _nothing(self, _value: bool, _: Any) -> list[str]:
        return []

    def _no_path(self, value: list[str], _: Any) -> list[str]:
        assert not self.shortest(*value)
        assert not self.shortest(*reversed(value))
        return []

    def _what(self, value: str, _: Any) -> list[str]:
        return [value]

    def _compare(self, value: list[str], _: Any) -> list[str]:
        return value

    _relation = _compare

    def _suppliers_of(self, value: str, expect: dict[str, Any]) -> set[str]:
        return self._fitting({e.source for e in self.supply if e.target == value and self._is_kind(e, expect)}, expect)

    def _customers_of(self, value: str, expect: dict[str, Any]) -> set[str]:
        return self._fitting({e.target for e in self.supply if e.source == value and self._is_kind(e, expect)}, expect)

    def _common_suppliers(self, value: list[str], _: Any) -> set[str]:
        return self._suppliers_of(value[0], {}) & self._suppliers_of(value[1], {})

    def _common_customers(self, value: list[str], _: Any) -> set[str]:
        return self._customers_of(value[0], {}) & self._customers_of(value[1], {})

    def _upstream(self, value: str, _: Any) -> set[str]:
        return self._closure(value, lambda company: self._suppliers_of(company, {}))

    def _downstream(self, value: str, _: Any) -> set[str]:
        return self._closure(value, lambda company: self._customers_of(company, {}))

    def _closure(self, start: str, step: Any) -> set[str]:
        seen, ring = {start}, {start}
        while ring:
            ring = {other for company in ring for other in step(company)} - seen
            seen |= ring
        return seen - {start}

    def _fails_without(self, value: str, _: Any) -> set[str]:
        return self._stopped({value})

    def _stopped(self, gone: set[str]) -> set[str]:
        slots: dict[tuple[str, str], set[str]] = defaultdict(set)
        for edge in self.supply:
            for slot in edge.slots:
                slots[edge.target, slot].add(edge.source)
        dead = set(gone)
        while True:
            more = {target for (target, _), fillers in slots.items() if fillers <= dead} - dead
            if not more:
                return dead - gone
            dead |= more

    def _ids_country_fail(self, value: str, _: Any) -> set[str]:
        return self._stopped({row.id for row in self.companies.values() if row.country == value})

    def _chokepoints_for(self, value: str, _: Any) -> set[str]:
        return {company for company in self.companies if value in self._stopped({company})}

    def _list(self, value: dict[str, str], _: Any) -> set[str]:
        return self._fitting(set(self.companies), value)

    _count = _list

    def _makers_of(self, value: str, _: Any) -> set[str]:
        return {row.id for row in self.companies.values() if any(value in product for product in row.products)}

    def _investors_of(self, value: str, _: Any) -> set[str]:
        return {e.source for e in self.edges if e.kind == "invests_in" and e.target == value}

    def _investments_of(self, value: str, _: Any) -> set[str]:
        return {e.target for e in self.edges if e.kind == "invests_in" and e.source == value}

    def _partners_of(self, value: str, _: Any) -> set[str]:
        pairs = [(e.source, e.target) for e in self.edges if e.kind == "partners_with"]
        return {a if b == value else b for a, b in pairs if value in (a, b)}

    def _competitors_of(self, value: str, _: Any) -> set[str]:
        return self._fitting(set(self.companies), {"category": self.companies[value].category}) - {value}

    def _most(self, value: str, _: Any) -> set[str]:
        count = {c: len(getattr(self, f"_{value}_of")(c, {})) for c in self.companies}
        return {company for company, number in count.items() if number == max(count.values())}

    def _is_kind(self, edge: Any, expect: dict[str, Any]) -> bool:
        return "kinds" not in expect or edge.kind in expect["kinds"]

    def _fitting(self, ids: set[str], expect: dict[str, Any]) -> set[str]:
        rows = [self.companies[i] for i in ids]
        wanted = {name: expect[name] for name in ("country", "category") if name in expect}
        return {row.id for row in rows if all(getattr(row, name) == value for name, value in wanted.items())}


def read_questions(name: str) -> list[Question]:
    """The questions of the half called `dev` or `held`."""
    lines = (FOLDER / f"questions_{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def evaluate(graph: SupplyGraph, questions: list[Question]) -> tuple[dict[str, float], list[tuple[Question, Reply]]]:
    """The share answered exactly, in all and of each set; and the wrong ones with what was answered."""
    gold, assistant = Gold(read_records(bundled())), Assistant(graph)
    right: dict[str, list[bool]] = defaultdict(list)
    wrong = []
    for question in questions:
        focus = None
        for turn in question["turns"]:
            reply, focus = assistant.reply(turn, focus)
        is_right = is_exact(gold, question["expect"], reply)
        for name in ("all", question["set"]):
            right[name].append(is_right)
        if not is_right:
            wrong.append((question, reply))
    return {name: round(sum(results) / len(results), 4) for name, results in right.items()}, wrong


def is_exact(gold: Gold, expect: dict[str, Any], reply: Reply) -> bool:
    """Whether the reply holds what is expected, and only that."""
    found = list(reply.companies)
    says = str(len(found)) if "count" in expect else expect.get("says", "")
    is_understood = reply.query is not None
    return gold.allows(expect, found) and says in reply.reply and is_understood == ("nothing" not in expect)


def main() -> None:
    half = sys.argv[1]
    shares, wrong = evaluate(load_supply_graph(), read_questions(half))
    if "--wrong" in sys.argv:
        for question, reply in wrong:
            sys.stderr.write(
                f"{question['turns']} {question['expect']}\n    {reply.reply[:160]} {reply.companies[:8]}\n"
            )
    sys.stdout.write(json.dumps({"half": half, "questions": len(read_questions(half)), "exact": shares}) + "\n")


if __name__ == "__main__":
    main()
