"""What stops when companies fail: a company fails when any of its input slots has lost every supplier."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

# What one list of chokepoints may cost, in supplies looked at.
STEPS = 200_000


class SlotSupply(Struct, frozen=True):
    """A supplier fills a slot of a customer."""

    supplier: int
    customer: int
    slot: str


class Failure(Struct, frozen=True):
    """A company that stops, in which round, and the slot that ran dry first."""

    node: int
    round: int
    slot: str


class Chokepoint(Struct, frozen=True):
    """A company and what stops without it."""

    node: int
    failures: tuple[Failure, ...]


class ChokepointRanking(Struct, frozen=True):
    """Chokepoints, the one that stops most first. `is_cut` when the budget ended before all were looked at."""

    chokepoints: tuple[Chokepoint, ...]
    is_cut: bool


class FailureModel:
    """Every input slot of every company, and who fills it."""

    def __init__(self, supplies: Iterable[SlotSupply]) -> None:
        fillers: dict[tuple[int, str], set[int]] = defaultdict(set)
        for supply in supplies:
            fillers[supply.customer, supply.slot].add(supply.supplier)
        self._slots = list(fillers)
        self._filled_by = [len(fillers[slot]) for slot in self._slots]
        self._fills: dict[int, list[int]] = defaultdict(list)
        for number, slot in enumerate(self._slots):
            for supplier in fillers[slot]:
                self._fills[supplier].append(number)

    def simulate_failure(self, nodes: Sequence[int]) -> tuple[Failure, ...]:
        """What fails when these do, round by round; they themselves are not in it."""
        lost: Counter[int] = Counter()
        failed = set(nodes)
        failures: list[Failure] = []
        ring, turn = list(nodes), 1
        while ring:
            fallen: list[Failure] = []
            for number in sorted(number for node in ring for number in self._fills.get(node, ())):
                lost[number] += 1
                customer, slot = self._slots[number]
                if lost[number] == self._filled_by[number] and customer not in failed:
                    failed.add(customer)
                    fallen.append(Failure(customer, turn, slot))
            failures += sorted(fallen, key=lambda failure: failure.node)
            ring, turn = [failure.node for failure in fallen], turn + 1
        return tuple(failures)

    def sole_fillers(self) -> list[int]:
        """The companies that fill some slot alone, most such slots first: no other can be a chokepoint."""
        alone = Counter(
            node for node, numbers in self._fills.items() for number in numbers if self._filled_by[number] == 1
        )
        return [node for node, _ in sorted(alone.items(), key=lambda pair: (-pair[1], pair[0]))]

    def ranking(self, steps: int = STEPS) -> ChokepointRanking:
        """Every company whose failure stops another."""
        found: list[Chokepoint] = []
        for node in self.sole_fillers():
            if steps <= 0:
                break
            failures = self.simulate_failure([node])
            steps -= sum(len(self._fills.get(other, ())) for other in (node, *(f.node for f in failures)))
            found.append(Chokepoint(node, failures))
        found.sort(key=lambda chokepoint: (-len(chokepoint.failures), chokepoint.node))
        return ChokepointRanking(tuple(found), is_cut=steps <= 0)
