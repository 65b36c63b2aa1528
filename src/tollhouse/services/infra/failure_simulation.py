"""Failure simulation: a company fails when any of its input slots has lost every supplier."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

# Budget of one ranking: supplies visited.
MAX_STEPS = 200_000


class SlotSupply(Struct, frozen=True):
    supplier: int
    customer: int
    slot: str


class Failure(Struct, frozen=True):
    """A failed company, the round in which it failed, and the first slot without a supplier."""

    node: int
    round: int
    slot: str


class Chokepoint(Struct, frozen=True):
    """A company and the failures that its own failure causes."""

    node: int
    failures: tuple[Failure, ...]


class ChokepointRanking(Struct, frozen=True):
    """Chokepoints, the one with most failures first. `is_cut` if the budget did not suffice for all."""

    chokepoints: tuple[Chokepoint, ...]
    is_cut: bool


class FailureModel:
    """The input slots of all companies, with their suppliers."""

    def __init__(self, supplies: Iterable[SlotSupply]) -> None:
        suppliers: dict[tuple[int, str], set[int]] = defaultdict(set)
        for supply in supplies:
            suppliers[supply.customer, supply.slot].add(supply.supplier)
        self._slots = list(suppliers)
        self._supplier_counts = [len(suppliers[slot]) for slot in self._slots]
        self._slots_of: dict[int, list[int]] = defaultdict(list)
        for number, slot in enumerate(self._slots):
            for supplier in suppliers[slot]:
                self._slots_of[supplier].append(number)

    def simulate_failure(self, nodes: Sequence[int]) -> tuple[Failure, ...]:
        """The companies that fail, round by round, if the given ones fail. These are not included."""
        lost: Counter[int] = Counter()
        failed = set(nodes)
        failures: list[Failure] = []
        ring, turn = list(nodes), 1
        while ring:
            failed_now: list[Failure] = []
            for number in sorted(number for node in ring for number in self._slots_of.get(node, ())):
                lost[number] += 1
                customer, slot = self._slots[number]
                if lost[number] == self._supplier_counts[number] and customer not in failed:
                    failed.add(customer)
                    failed_now.append(Failure(customer, turn, slot))
            failures += sorted(failed_now, key=lambda failure: failure.node)
            ring, turn = [failure.node for failure in failed_now], turn + 1
        return tuple(failures)

    def sole_suppliers(self) -> list[int]:
        """Companies that are the only supplier of a slot, most slots first. Only these can be chokepoints."""
        alone = Counter(
            node for node, numbers in self._slots_of.items() for number in numbers if self._supplier_counts[number] == 1
        )
        return [node for node, _ in sorted(alone.items(), key=lambda pair: (-pair[1], pair[0]))]

    def ranking(self, steps: int = MAX_STEPS) -> ChokepointRanking:
        """Rank the companies whose failure causes other failures."""
        chokepoints: list[Chokepoint] = []
        for node in self.sole_suppliers():
            if steps <= 0:
                break
            failures = self.simulate_failure([node])
            steps -= sum(len(self._slots_of.get(other, ())) for other in (node, *(f.node for f in failures)))
            chokepoints.append(Chokepoint(node, failures))
        chokepoints.sort(key=lambda chokepoint: (-len(chokepoint.failures), chokepoint.node))
        return ChokepointRanking(tuple(chokepoints), is_cut=steps <= 0)
