"""The supply network as a graph of numbers: bounded walks, and simple paths between two companies."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rustworkx import PyDiGraph

# Bounds of one path search: nodes visited backwards from the target, and links followed forwards.
MAX_BACKWARD_NODES = 2_000
MAX_LINKS = 100_000


class Step(Struct, frozen=True):
    """A node reached by a walk, its distance, and the node it was reached from."""

    node: int
    distance: int
    via: int


class Walk(Struct, frozen=True):
    """The nodes a walk reached, nearest first. `is_cut` if the limit or the depth left some out."""

    steps: tuple[Step, ...]
    is_cut: bool


class SupplyNetwork:
    """A directed graph of numbered nodes. Links run from supplier to customer; parallel links count once."""

    def __init__(self, size: int, links: Iterable[tuple[int, int]]) -> None:
        graph: PyDiGraph[int, None] = PyDiGraph(multigraph=False)
        graph.add_nodes_from(range(size))
        graph.add_edges_from_no_data(list(links))
        self._graph = graph

    def suppliers(self, node: int) -> Sequence[int]:
        return self._graph.predecessor_indices(node)

    def customers(self, node: int) -> Sequence[int]:
        return self._graph.successor_indices(node)

    def walk(self, start: int, *, upstream: bool, depth: int, limit: int) -> Walk:
        """All nodes within `depth` steps towards suppliers (upstream) or customers, at most `limit`."""
        neighbours = self.suppliers if upstream else self.customers
        steps: list[Step] = []
        seen, ring = {start}, [start]
        for distance in range(1, depth + 1):
            next_ring: list[int] = []
            for node in ring:
                for other in sorted(neighbours(node)):
                    if other in seen:
                        continue
                    if len(steps) >= limit:
                        return Walk(tuple(steps), is_cut=True)
                    seen.add(other)
                    next_ring.append(other)
                    steps.append(Step(other, distance, node))
            ring = next_ring
        return Walk(tuple(steps), is_cut=any(other not in seen for node in ring for other in neighbours(node)))


class PathSearch(Struct, frozen=True):
    """Simple paths as tuples of nodes, the shortest first. `is_cut` if there may be more."""

    paths: tuple[tuple[int, ...], ...]
    is_cut: bool


class _BackwardSearch:
    """Distances to the target, as far back as they are useful, and the remaining budget of links.

    `min_length` is a lower bound of the length of a path.
    """

    def __init__(self, network: SupplyNetwork, source: int, target: int, max_length: int) -> None:
        self.links_remaining = MAX_LINKS
        self._network = network
        self._distance = {target: 0}
        self._known_to = 0
        self._ring = [target]
        self.min_length = self._meet(source, max_length)

    def may_reach(self, node: int, steps: int) -> bool:
        """False only if the target is certainly further than that many steps."""
        distance = self._distance.get(node)
        if distance is None:
            return bool(self._ring) and steps > self._known_to
        return distance <= steps

    def extend(self, depth: int) -> None:
        """Compute the distances up to `depth`, within the limit of nodes."""
        while self._ring and self._known_to < depth and len(self._distance) < MAX_BACKWARD_NODES:
            self._add_ring()

    def _meet(self, source: int, max_length: int) -> int:
        """Search from both ends, always from the smaller ring, until they meet."""
        ahead, ring, steps = {source}, [source], 0
        while ring and self._ring and steps + self._known_to < max_length:
            if len(self._ring) <= len(ring):
                self._add_ring()
            else:
                ring = list({other for node in ring for other in self._network.customers(node)} - ahead)
                ahead.update(ring)
                steps += 1
            if any(node in self._distance for node in ring):
                return steps + self._known_to
        return max_length + 1

    def _add_ring(self) -> None:
        ring = []
        for node in self._ring:
            for other in self._network.suppliers(node):
                if other not in self._distance:
                    self._distance[other] = self._known_to + 1
                    ring.append(other)
        self._ring = ring
        self._known_to += 1


def paths_between(network: SupplyNetwork, source: int, target: int, *, max_length: int, limit: int) -> PathSearch:
    """At most `limit` simple paths of at most `max_length` links. The path from a node to itself has no links."""
    if source == target:
        return PathSearch(((source,),), is_cut=False)
    backward = _BackwardSearch(network, source, target, max_length)
    if limit > 1:
        backward.extend((max_length + 1) // 2)
    paths: list[tuple[int, ...]] = []
    for length in range(backward.min_length, max_length + 1):
        for path in _extensions(network, (source,), target, length, backward):
            if len(paths) >= limit:
                return PathSearch(tuple(paths), is_cut=True)
            paths.append(path)
        if backward.links_remaining <= 0:
            return PathSearch(tuple(paths), is_cut=True)
    return PathSearch(tuple(paths), is_cut=False)


def _extensions(
    network: SupplyNetwork, path: tuple[int, ...], target: int, length: int, backward: _BackwardSearch
) -> Iterator[tuple[int, ...]]:
    """Paths to the target with exactly `length` more links, ordered by node."""
    if backward.links_remaining <= 0:
        return
    customers = network.customers(path[-1])
    backward.links_remaining -= len(customers)
    if length == 1:
        if target in customers:
            yield (*path, target)
        return
    for node in sorted(node for node in customers if backward.may_reach(node, length - 1)):
        if node != target and node not in path:
            yield from _extensions(network, (*path, node), target, length - 1, backward)
