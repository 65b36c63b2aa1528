"""What questions to the company graph cost: at the catalogue's size, and at 100,000 companies with 1,000,000 edges.

`python benchmarks/graph.py [--small]` prints one JSON object. The baseline is networkx, answering the same questions
on the same graph in the same process, where it offers the question: both sides find the same things, which is checked.
"""

import json
import random
import statistics
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from time import perf_counter, process_time
from typing import Any

import networkx as nx

from tollhouse.services.infra.assistant.assistant import Assistant
from tollhouse.services.infra.failure_simulation import FailureModel, SlotSupply
from tollhouse.services.infra.reachability import SupplyNetwork, paths_between
from tollhouse.services.infra.supply_graph import load_supply_graph

NODES, EDGES, QUESTIONS = 100_000, 1_000_000, 200
DEPTH, MOST = 3, 1_000
LENGTH, PATHS = 4, 20
SLOTS_EACH = 4

Link = tuple[int, int]


def main() -> None:
    nodes, edges = (2_000, 20_000) if "--small" in sys.argv else (NODES, EDGES)
    rng = random.Random(1)
    links = _made_up(rng, nodes, edges)
    figures = {"catalogue": _catalogue(), "nodes": nodes, "edges": len(links), **_large(rng, nodes, links)}
    print(json.dumps(figures))


def _catalogue() -> dict[str, Any]:
    """Microseconds per question, the median over all companies."""
    graph = load_supply_graph()
    assistant, ids = Assistant(graph), [company.id for company in graph.companies]
    pairs = [(graph.node(a), graph.node(b)) for a, b in zip(ids, reversed(ids), strict=True) if a != b]
    names = [company.name for company in graph.companies]
    other = nx.DiGraph([(node, each) for node in range(len(ids)) for each in graph.network.customers(node)])
    other.add_nodes_from(range(len(ids)))
    ours = {
        "paths": _median(lambda p: paths_between(graph.network, *p, max_length=6, limit=20), pairs),
        "exposure": _median(lambda n: graph.network.walk(n, upstream=True, depth=20, limit=250), range(len(ids))),
    }
    theirs = {
        "paths": _median(lambda p: list(islice(nx.all_simple_paths(other, *p, cutoff=6), 20)), pairs),
        "exposure": _median(lambda n: list(nx.bfs_edges(other, n, reverse=True, depth_limit=20)), range(len(ids))),
    }
    chat = _median(lambda name: assistant.answer(f"Who supplies {name}?", None), names)
    query = assistant.engine.answer(f"Who supplies {names[0]}?").query
    return {
        "median_us": {"tollhouse": ours, "networkx": theirs},
        "times_faster": {name: round(theirs[name] / ours[name], 2) for name in ours},
        "knock_out_us": _median(lambda n: graph.failures.simulate_failure([n]), range(len(ids))),
        "ranking_us": _median(lambda _: graph.failures.ranking(), range(20)),
        "search_us": _median(graph.search, names),
        "chat_us": chat,
        "chat_of_given_query": round(chat / _median(assistant.engine.answer_query, [query] * 20), 1),
    }


def _large(rng: random.Random, nodes: int, links: list[Link]) -> dict[str, Any]:
    began = perf_counter()
    flow = SupplyNetwork(nodes, links)
    built = perf_counter() - began
    began = perf_counter()
    other = nx.DiGraph()
    other.add_nodes_from(range(nodes))
    other.add_edges_from(links)
    built_other = perf_counter() - began
    slots = FailureModel(SlotSupply(a, b, f"slot{rng.randrange(SLOTS_EACH)}") for a, b in links)
    starts = [rng.randrange(nodes) for _ in range(QUESTIONS)]
    pairs = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(QUESTIONS)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    _check(flow, other, starts[:20], pairs[:20])
    ours = {
        "exposure": _median(lambda n: flow.walk(n, upstream=False, depth=DEPTH, limit=MOST), starts),
        "paths": _median(lambda p: paths_between(flow, *p, max_length=LENGTH, limit=PATHS), pairs),
        "shortest": _median(lambda p: paths_between(flow, *p, max_length=12, limit=1), pairs),
    }
    theirs = {
        "exposure": _median(lambda n: _networkx_walk(other, n), starts),
        "paths": _median(lambda p: _networkx_paths(other, *p), pairs[:50]),
        "shortest": _median(lambda p: _networkx_shortest(other, *p), pairs),
    }
    began = perf_counter()
    ranking = slots.ranking()
    return {
        "build_s": {"tollhouse": round(built, 2), "networkx": round(built_other, 2)},
        "median_us": {"tollhouse": ours, "networkx": theirs},
        "times_faster": {name: round(theirs[name] / ours[name], 2) for name in ours},
        "knock_out_us": _median(lambda n: slots.simulate_failure([n]), starts),
        "ranking_s": round(perf_counter() - began, 2),
        "ranking_is_cut": ranking.is_cut,
    }


def _made_up(rng: random.Random, nodes: int, edges: int) -> list[Link]:
    """Links with a few large suppliers, as supply chains have them: the source of a link is drawn by a power law."""
    found: set[Link] = set()
    while len(found) < edges:
        source, target = int(nodes * rng.random() ** 2), rng.randrange(nodes)
        if source != target:
            found.add((source, target))
    return sorted(found)


def _check(flow: SupplyNetwork, other: "nx.DiGraph[int]", starts: list[int], pairs: list[Link]) -> None:
    """Both sides must answer the same, or the ratio means nothing."""
    for start in starts:
        ours = {step.node for step in flow.walk(start, upstream=False, depth=2, limit=10**9).steps}
        theirs = set(nx.single_source_shortest_path_length(other, start, cutoff=2)) - {start}
        assert ours == theirs
    for source, target in pairs:
        found = paths_between(flow, source, target, max_length=12, limit=1).paths
        theirs_length = len(_networkx_shortest(other, source, target))
        assert (len(found[0]) if found else 0) == theirs_length


def _networkx_walk(graph: "nx.DiGraph[int]", start: int) -> list[Link]:
    return list(islice(nx.bfs_edges(graph, start, depth_limit=DEPTH), MOST))


def _networkx_paths(graph: "nx.DiGraph[int]", source: int, target: int) -> list[list[int]]:
    return list(islice(nx.all_simple_paths(graph, source, target, cutoff=LENGTH), PATHS))


def _networkx_shortest(graph: "nx.DiGraph[int]", source: int, target: int) -> list[int]:
    try:
        path: list[int] = nx.shortest_path(graph, source, target)
    except nx.NetworkXNoPath:
        return []
    return path


def _median(ask: Callable[[Any], Any], questions: Iterable[Any]) -> float:
    """Microseconds of processor time, after one round that nothing is taken from."""
    questions = list(questions)
    ask(questions[0])
    took = []
    for question in questions:
        began = process_time()
        ask(question)
        took.append((process_time() - began) * 1e6)
    return round(statistics.median(took), 1)


if __name__ == "__main__":
    main()
