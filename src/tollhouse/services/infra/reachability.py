"""Who supplies whom as a graph of numbers, and bounded walks through it."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rustworkx import PyDiGraph


class Step(Struct, frozen=True):
    """A node reached by a walk: how far it is, and the node it was reached from."""

    node: int
    distance: int
    via: int


class Walk(Struct, frozen=True):
    """What a walk reached, nearest first. `is_cut` when the limit stopped it, or something lies beyond its depth."""

    steps: tuple[Step, ...]
    is_cut: bool


class Flow:
    """Nodes are numbers from 0; a link runs from supplier to customer. Parallel links count once."""

    def __init__(self, size: int, links: Iterable[tuple[int, int]]) -> None:
        graph: PyDiGraph[int, None] = PyDiGraph(multigraph=False)
        graph.add_nodes_from(range(size))
        graph.add_edges_from_no_data(list(links))
        self._graph = graph

    def suppliers(self, node: int) -> Sequence[int]:
        """The nodes that supply this one directly."""
        return self._graph.predecessor_indices(node)

    def customers(self, node: int) -> Sequence[int]:
        """The nodes this one supplies directly."""
        return self._graph.successor_indices(node)

    def walk(self, start: int, *, upstream: bool, depth: int, limit: int) -> Walk:
        """Everything within `depth` steps against the flow (upstream) or with it, at most `limit` nodes."""
        neighbours = self.suppliers if upstream else self.customers
        steps: list[Step] = []
        seen, ring = {start}, [start]
        for distance in range(1, depth + 1):
            found: list[int] = []
            for node in ring:
                for other in sorted(neighbours(node)):
                    if other in seen:
                        continue
                    if len(steps) >= limit:
                        return Walk(tuple(steps), is_cut=True)
                    seen.add(other)
                    found.append(other)
                    steps.append(Step(other, distance, node))
            ring = found
        return Walk(tuple(steps), is_cut=any(other not in seen for node in ring for other in neighbours(node)))
