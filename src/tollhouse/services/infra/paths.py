"""Ways through the graph from one company to another: the shortest, and all simple ones up to bounds."""

from collections.abc import Iterator

from msgspec import Struct

from tollhouse.services.infra.reachability import Flow

# What one question may cost, whatever the graph looks like: nodes looked back at, and links looked at on the way there.
LOOK_BACK_NODES = 2_000
LINKS = 100_000


class Paths(Struct, frozen=True):
    """Simple paths, the shortest first, as tuples of nodes. `is_cut` when there may be more than were looked for."""

    found: tuple[tuple[int, ...], ...]
    is_cut: bool


class _LookBack:
    """How far nodes are from the target, as far back as that is worth finding out; and what may still be spent.

    `least` is how many links a path has at the least.
    """

    def __init__(self, flow: Flow, source: int, target: int, max_length: int) -> None:
        self.links_left = LINKS
        self._flow = flow
        self._distance = {target: 0}
        self._known_to = 0
        self._ring = [target]
        self.least = self._meeting(source, max_length)

    def leads_there(self, node: int, steps: int) -> bool:
        """False only when the target is surely further than that many steps."""
        distance = self._distance.get(node)
        if distance is None:
            return bool(self._ring) and steps > self._known_to
        return distance <= steps

    def look_further(self, depth: int) -> None:
        """Know the distances up to `depth`, as long as there are not too many."""
        while self._ring and self._known_to < depth and len(self._distance) < LOOK_BACK_NODES:
            self._one_ring()

    def _meeting(self, source: int, max_length: int) -> int:
        """Look from both ends at once, from the end that sees less, until the views meet."""
        ahead, ring, steps = {source}, [source], 0
        while ring and self._ring and steps + self._known_to < max_length:
            if len(self._ring) <= len(ring):
                self._one_ring()
            else:
                ring = list({other for node in ring for other in self._flow.customers(node)} - ahead)
                ahead.update(ring)
                steps += 1
            if any(node in self._distance for node in ring):
                return steps + self._known_to
        return max_length + 1

    def _one_ring(self) -> None:
        found = []
        for node in self._ring:
            for other in self._flow.suppliers(node):
                if other not in self._distance:
                    self._distance[other] = self._known_to + 1
                    found.append(other)
        self._ring = found
        self._known_to += 1


def paths_between(flow: Flow, source: int, target: int, *, max_length: int, limit: int) -> Paths:
    """Simple paths of at most `max_length` links, at most `limit` of them. Empty when there is none that short.

    A company is no link away from itself.
    """
    if source == target:
        return Paths(((source,),), is_cut=False)
    back = _LookBack(flow, source, target, max_length)
    if limit > 1:
        back.look_further((max_length + 1) // 2)
    found: list[tuple[int, ...]] = []
    for length in range(back.least, max_length + 1):
        for path in _of_length(flow, (source,), target, length, back):
            if len(found) >= limit:
                return Paths(tuple(found), is_cut=True)
            found.append(path)
        if back.links_left <= 0:
            return Paths(tuple(found), is_cut=True)
    return Paths(tuple(found), is_cut=False)


def _of_length(
    flow: Flow, path: tuple[int, ...], target: int, length: int, back: _LookBack
) -> Iterator[tuple[int, ...]]:
    """Paths with exactly that many more links, in the order of the nodes."""
    if back.links_left <= 0:
        return
    customers = flow.customers(path[-1])
    back.links_left -= len(customers)
    if length == 1:
        if target in customers:
            yield (*path, target)
        return
    for node in sorted(node for node in customers if back.leads_there(node, length - 1)):
        if node != target and node not in path:
            yield from _of_length(flow, (*path, node), target, length - 1, back)
