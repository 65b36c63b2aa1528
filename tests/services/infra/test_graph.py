"""Neighbours, paths, exposure and chokepoints, over HTTP and on graphs of the tests' own."""

import itertools
import random

import pytest

from tollhouse.services.infra.failure_simulation import FailureModel, SlotSupply
from tollhouse.services.infra.reachability import SupplyNetwork, paths_between


async def test_neighbours_in_one_direction(client):
    answer = (await client.get("/api/companies/asml/neighbours?direction=upstream")).json()
    assert [neighbour["id"] for neighbour in answer["neighbours"]] == ["zeiss_smt"]
    answer = (await client.get("/api/companies/ASML/neighbours?direction=downstream")).json()
    assert {n["id"] for n in answer["neighbours"]} == {"tsmc", "samsung", "intel", "sk_hynix", "micron"}


async def test_neighbours_of_a_kind(client):
    answer = (await client.get("/api/companies/nvidia/neighbours?kind=invests_in&kind=partners_with")).json()
    assert {n["id"] for n in answer["neighbours"]} == {
        "coreweave", "anthropic", "intel", "synopsys", "nebius", "vertiv", "schneider", "eaton"
    }  # fmt: skip
    assert {edge["kind"] for edge in answer["edges"]} == {"invests_in", "partners_with"}


async def test_competitors_are_derived_and_only_returned_on_request(client):
    plain = (await client.get("/api/companies/iren/neighbours")).json()
    assert "competes_with" not in {edge["kind"] for edge in plain["edges"]}
    rivals = (await client.get("/api/companies/iren/neighbours?kind=competes_with")).json()
    assert {n["id"] for n in rivals["neighbours"]} == {"coreweave", "nebius", "lambda"}
    assert {edge["evidence"][0]["class"] for edge in rivals["edges"]} == {"same_category"}


async def test_deeper_neighbours_keep_their_distance_and_the_limit(client):
    answer = (await client.get("/api/companies/openai/neighbours?direction=upstream&depth=2")).json()
    distances = {n["id"]: n["distance"] for n in answer["neighbours"]}
    assert distances["microsoft"] == 1
    assert distances["tsmc"] == 2
    cut = (await client.get("/api/companies/openai/neighbours?direction=upstream&depth=2&limit=3")).json()
    assert (cut["total"], cut["is_cut"]) == (3, True)


async def test_shortest_path_comes_first(client):
    answer = (await client.get("/api/paths?from=zeiss_smt&to=OpenAI")).json()
    assert answer["from"] == "zeiss_smt"
    assert answer["shortest"]["companies"][:3] == ["zeiss_smt", "asml", "tsmc"]
    lengths = [path["length"] for path in answer["paths"]]
    assert lengths == sorted(lengths)
    assert len({tuple(path["companies"]) for path in answer["paths"]}) == len(answer["paths"]) == answer["total"]


async def test_path_against_the_flow_is_none(client):
    answer = (await client.get("/api/paths?from=openai&to=zeiss_smt")).json()
    assert (answer["shortest"], answer["paths"], answer["is_cut"]) == (None, [], False)


async def test_company_is_no_link_away_from_itself(client):
    answer = (await client.get("/api/paths?from=asml&to=ASML")).json()
    assert answer["shortest"] == {"length": 0, "companies": ["asml"], "edges": []}


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("from=nobodyx&to=asml", "from"), ("from=asml&to=Nvidja", "to"), ("from=asml", "to")],
)
async def test_path_between_unknown_ends_is_refused(client, query, parameter):
    answer = await client.get(f"/api/paths?{query}")
    assert answer.status_code == 400
    assert answer.json()["parameter"] == parameter


async def test_near_matches_are_offered_for_a_query_parameter(client):
    answer = await client.get("/api/exposure?company=Nvidja")
    assert answer.status_code == 400
    assert "nvidia" in answer.json()["allowed"]


async def test_exposure_leaves_money_and_plans_out(client):
    answer = (await client.get("/api/exposure?company=eaton")).json()
    assert answer["downstream"]["total"] == answer["upstream"]["total"] == 0
    answer = (await client.get("/api/exposure?company=NVDA")).json()
    ids = {company["id"] for company in answer["downstream"]["companies"]}
    assert {"coreweave", "openai"} <= ids
    assert "synopsys" not in ids
    assert sum(answer["downstream"]["by_category"].values()) == answer["downstream"]["total"]


async def test_exposure_is_bounded_by_depth(client):
    near = (await client.get("/api/exposure?company=zeiss_smt&depth=1")).json()["downstream"]
    assert ([company["id"] for company in near["companies"]], near["is_cut"]) == (["asml"], True)


@pytest.mark.parametrize(("company", "count"), [("zeiss_smt", 31), ("asml", 30), ("tsmc", 27), ("ajinomoto", 23)])
async def test_as_many_fail_as_the_slots_say(client, company, count):
    answer = (await client.get(f"/api/chokepoints?company={company}")).json()
    assert answer["chokepoints"][0]["fails_count"] == len(answer["chokepoints"][0]["fails"]) == count
    assert "documented" in answer["caveat"]


async def test_worst_chokepoint_comes_first(client):
    answer = (await client.get("/api/chokepoints?limit=5")).json()
    counts = [chokepoint["fails_count"] for chokepoint in answer["chokepoints"]]
    assert answer["chokepoints"][0]["id"] == "zeiss_smt"
    assert counts == sorted(counts, reverse=True)
    assert (answer["count"], answer["is_cut"]) == (5, False)


async def test_whole_country_can_be_taken_away(client):
    answer = (await client.get("/api/chokepoints?country=Taiwan")).json()
    assert answer["chokepoints"][0]["id"] == "TW"
    assert "nvidia" in {fallen["id"] for fallen in answer["chokepoints"][0]["fails"]}
    both = (await client.get("/api/chokepoints?country=Taiwan&company=asml")).json()["chokepoints"][0]
    assert both["name"] == "ASML and Taiwan"
    assert both["fails_count"] > answer["chokepoints"][0]["fails_count"]


async def test_concentration_counts_companies_once(client):
    answer = (await client.get("/api/concentration")).json()
    assert sum(part["companies"] for part in answer["overall"]["countries"]) == 65
    energy = next(spread for spread in answer["categories"] if spread["category"] == "energy")
    assert energy["hhi"] == 1
    assert sum(part["companies"] for part in answer["supply_edges_from"]) == 150


async def test_coverage_says_what_is_missing(client):
    answer = (await client.get("/api/coverage")).json()
    assert (answer["companies"], answer["edges"], answer["supply_edges"]) == (65, 162, 150)
    assert answer["edges_with_url"] == 0
    assert answer["without_supply_edges"] == ["vertiv", "eaton"]


def test_paths_match_an_exhaustive_search():
    rng = random.Random(7)
    for _ in range(40):
        links = {(rng.randrange(9), rng.randrange(9)) for _ in range(20)}
        flow = SupplyNetwork(9, [link for link in links if link[0] != link[1]])
        source, target = rng.sample(range(9), 2)
        search = paths_between(flow, source, target, max_length=5, limit=10_000)
        middles = (m for size in range(5) for m in itertools.permutations(set(range(9)) - {source, target}, size))
        tried = {(source, *m, target) for m in middles if set(itertools.pairwise((source, *m, target))) <= links}
        assert set(search.paths) == tried
        assert not search.is_cut
        assert paths_between(flow, source, target, max_length=5, limit=1).paths == search.paths[:1]
        assert [len(path) for path in search.paths] == sorted(len(path) for path in search.paths)


def test_paths_stop_at_their_limit():
    flow = SupplyNetwork(12, [(i, j) for i in range(12) for j in range(12) if i != j])
    search = paths_between(flow, 0, 11, max_length=10, limit=50)
    assert (len(search.paths), search.is_cut) == (50, True)


def test_hopeless_search_ends_within_its_budget():
    layers = [range(1 + 30 * n, 31 + 30 * n) for n in range(9)]
    links = [(0, node) for node in layers[0]]
    links += [(a, b) for one, two in itertools.pairwise(layers) for a in one for b in two]
    flow = SupplyNetwork(400, [*links, (398, 399)])
    assert paths_between(flow, 0, 399, max_length=10, limit=10).paths == ()


def test_walk_is_cut_only_if_nodes_remain():
    flow = SupplyNetwork(4, [(0, 1), (1, 2), (2, 3), (3, 1)])
    assert not flow.walk(0, upstream=False, depth=3, limit=10).is_cut
    assert flow.walk(0, upstream=False, depth=2, limit=10).is_cut
    assert flow.walk(0, upstream=False, depth=3, limit=2).is_cut
    assert [step.node for step in flow.walk(3, upstream=True, depth=9, limit=10).steps] == [2, 1, 0]


def test_second_supplier_of_a_slot_saves_the_customer():
    slots = FailureModel(
        [SlotSupply(0, 2, "wafers"), SlotSupply(1, 2, "wafers"), SlotSupply(0, 3, "tools"), SlotSupply(3, 4, "chips")]
    )
    assert [(f.node, f.round, f.slot) for f in slots.simulate_failure([0])] == [(3, 1, "tools"), (4, 2, "chips")]
    assert slots.simulate_failure([1]) == ()
    assert {failure.node for failure in slots.simulate_failure([0, 1])} == {2, 3, 4}


def test_a_circle_of_suppliers_fails_once():
    slots = FailureModel([SlotSupply(0, 1, "a"), SlotSupply(1, 2, "b"), SlotSupply(2, 1, "c"), SlotSupply(2, 0, "d")])
    assert [failure.node for failure in slots.simulate_failure([0])] == [1, 2]


def test_ranking_says_when_its_budget_ended():
    slots = FailureModel([SlotSupply(node, node + 1, "x") for node in range(50)])
    assert not slots.ranking().is_cut
    assert slots.ranking().chokepoints[0].node == 0
    assert slots.ranking(steps=60).is_cut
