"""Every export opens in a reader that is not ours, and holds the whole graph."""

import csv
import io

import pytest
from lxml import etree
from msgspec.structs import replace

from tollhouse.services.infra.exports import as_csv
from tollhouse.services.infra.records import bundled, read_records
from tollhouse.services.infra.supply_graph import SupplyGraph

GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"


async def test_export_has_everything(client):
    answer = await client.get("/infra-catalog.json")
    catalogue = answer.json()
    assert catalogue["generated_at"] == "2026-11-21T00:00:00Z"
    assert [len(catalogue[name]) for name in ("categories", "companies", "edges")] == [15, 65, 162]
    edge = catalogue["edges"][0]
    assert {"source", "target", "kind", "product", "evidence", "confidence"} <= set(edge)
    assert set(edge["evidence"][0]) == {"class", "url", "date"}


async def test_graphml_opens_in_networkx(client):
    networkx = pytest.importorskip("networkx")
    answer = await client.get("/infra-catalog.graphml")
    graph = networkx.parse_graphml(answer.text, force_multigraph=True)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (65, 162)
    assert graph.nodes["asml"]["name"] == "ASML"
    edges = graph.get_edge_data("zeiss_smt", "asml")
    assert edges["zeiss_smt.supplies_component.asml"]["confidence"] == pytest.approx(0.9)


async def test_graphml_keeps_the_rules_of_the_format(client):
    answer = await client.get("/infra-catalog.graphml")
    root = etree.fromstring(answer.content)
    keys = {(key.get("for"), key.get("id")) for key in root.iter(f"{GRAPHML}key")}
    nodes = {node.get("id"): node for node in root.iter(f"{GRAPHML}node")}
    edges = list(root.iter(f"{GRAPHML}edge"))
    assert (len(nodes), len(edges), len({edge.get("id") for edge in edges})) == (65, 162, 162)
    assert all({edge.get("source"), edge.get("target")} <= set(nodes) for edge in edges)
    used = {("node", data.get("key")) for node in nodes.values() for data in node}
    used |= {("edge", data.get("key")) for edge in edges for data in edge}
    assert used <= keys


async def test_cytoscape_nodes_and_edges_refer_to_each_other(client):
    elements = (await client.get("/infra-catalog.cytoscape.json")).json()["elements"]
    ids = {node["data"]["id"] for node in elements["nodes"]}
    assert len(elements["edges"]) == 162
    assert all({edge["data"]["source"], edge["data"]["target"]} <= ids for edge in elements["edges"])


async def test_cytoscape_opens_in_networkx(client):
    networkx = pytest.importorskip("networkx")
    document = (await client.get("/infra-catalog.cytoscape.json")).json()
    graph = networkx.cytoscape_graph(document)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (65, 162)


async def test_csv_has_one_row_per_edge(client):
    answer = await client.get("/infra-catalog.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 162
    assert list(rows[0]) == ["source", "target", "kind", "product", "confidence", "evidence_class"]


def test_csv_runs_no_formula_of_the_catalogue():
    records = read_records(bundled())
    edges = [replace(edge, product="@SUM(1)") for edge in records.edges]
    rows = list(csv.DictReader(io.StringIO(as_csv(SupplyGraph(replace(records, edges=edges))).decode())))
    assert {row["product"] for row in rows} == {"'@SUM(1)"}


@pytest.mark.parametrize("path", ["json", "graphml", "cytoscape.json", "csv"])
async def test_an_unchanged_export_is_not_sent_again(client, path):
    first = await client.get(f"/infra-catalog.{path}")
    again = await client.get(f"/infra-catalog.{path}", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
