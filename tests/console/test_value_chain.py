"""What a researcher does on the value chain's page and on its piece of the front page."""

import csv
import io
import json

import httpx2
import networkx as nx
from playwright.sync_api import expect


def _download(page, name: str) -> str:
    with page.expect_download() as saved:
        page.get_by_role("button", name=name, exact=True).click()
    return saved.value.path().read_text("utf-8")


def test_researcher_knocks_out_a_company_and_takes_the_result_along(visit, server):
    answer = httpx2.get(f"{server.root}/infra/api/chokepoints?company=tsmc").json()["chokepoints"][0]
    edges = httpx2.get(f"{server.root}/infra/infra-catalog.json").json()["edges"]
    last = max(one["round"] for one in answer["fails"])
    visitor = visit()
    page, place = visitor.page, visitor.page.locator("#graph")
    visitor.open("/value-chain")
    page.get_by_role("link", name="Take TSMC out").click()
    player = page.locator("#player")
    expect(player).to_contain_text(f"{answer['fails_count']} of 64 stopped", timeout=10_000)
    assert place.get_attribute("data-stopped") == str(answer["fails_count"])
    panel = page.locator("#fails-panel")
    assert "not a forecast" in panel.inner_text()
    for step in range(1, last + 1):
        count = sum(one["round"] == step for one in answer["fails"])
        expect(panel.locator("details.round").nth(step - 1).locator("li")).to_have_count(count)

    # One step back by keyboard: the address names the step, and the link shows it again.
    page.get_by_label("Distance from the loss").focus()
    page.keyboard.press("ArrowLeft")
    before = answer["fails_count"] - sum(one["round"] == last for one in answer["fails"])
    expect(player).to_contain_text(f"{before} of 64 stopped")
    assert f"step={last - 1}" in page.url
    visitor.open("/value-chain?without=tsmc&step=1")
    expect(player).to_contain_text(f"{sum(one['round'] == 1 for one in answer['fails'])} of 64 stopped")

    # What is in view is what is saved, in each format.
    stopped = {"tsmc", *(one["id"] for one in answer["fails"] if one["round"] == 1)}
    page.get_by_text("Export", exact=True).click()
    saved = json.loads(_download(page, "JSON"))
    assert {one["id"] for one in saved["companies"]} == stopped
    assert [one for one in edges if one["id"] in {edge["id"] for edge in saved["edges"]}] == saved["edges"]
    rows = list(csv.DictReader(io.StringIO(_download(page, "CSV"))))
    assert [(row["source"], row["target"]) for row in rows] == [(e["source"], e["target"]) for e in saved["edges"]]
    graph = nx.parse_graphml(_download(page, "GraphML"), force_multigraph=True)
    assert set(graph) == stopped
    assert graph.number_of_edges() == len(saved["edges"]) > 0
    visitor.check_load()

    # Without motion, the end stands there at once.
    page.emulate_media(reduced_motion="reduce")
    visitor.open("/value-chain?country=Taiwan")
    expect(player).to_contain_text("stopped step")
    assert page.get_by_label("Distance from the loss").evaluate("one => one.value === one.max")
    page.emulate_media(reduced_motion="no-preference")


def test_researcher_reads_evidence_and_compares(visit, server):
    edges = httpx2.get(f"{server.root}/infra/infra-catalog.json").json()["edges"]
    visitor = visit()
    page, graph = visitor.page, visitor.page.locator("#graph")
    visitor.open("/value-chain")
    page.locator("#chokepoints li").first.wait_for()

    # By keyboard alone: into the graph, along a layer, and into a company.
    page.locator("#graph canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(graph).not_to_have_attribute("data-chosen", "")
    page.get_by_label("Company", exact=True).fill("nvd")
    page.get_by_role("option", name="NVIDIA").click()
    panel = page.locator("#company-panel")
    expect(panel.locator("h2")).to_have_text("NVIDIA")
    assert graph.get_attribute("data-chosen") == "nvidia"
    count = sum("nvidia" in (edge["source"], edge["target"]) for edge in edges)
    evidence = panel.locator(".evidence")
    assert evidence.count() == count
    assert all("no page was opened" in text for text in evidence.all_text_contents())
    expect(panel.locator(".exposure dd")).to_have_count(3)

    def of(company: str) -> set[str]:
        kinds = {"invests_in", "partners_with", "owns"}
        return {edge["source"] for edge in edges if edge["target"] == company and edge["kind"] not in kinds}

    page.get_by_label("Compare with").fill("AMD")
    page.get_by_role("button", name="Show", exact=True).click()
    compare = page.locator("#compare-panel")
    expect(compare.locator("h3").first).to_have_text(f"Shared suppliers ({len(of('nvidia') & of('amd'))})")
    expect(compare.locator("tbody tr", has_text="All upstream").locator("td").first).to_have_text("29")
    assert "company=nvidia&with=amd" in page.url

    page.get_by_role("button", name="Get this as API").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Exposure of AMD").click()
    expect(drawer.locator(".api-route code")).to_have_text(f"{server.root}/infra/api/exposure?company=amd")
    drawer.locator(".api-answer").get_by_text("upstream").first.wait_for()
    page.keyboard.press("Escape")

    page.get_by_role("link", name="Paths between them").click()
    page.locator("#paths-panel", has_text="No path along supply links is known").wait_for()
    page.get_by_label("From", exact=True).fill("ASML")
    page.get_by_label("To", exact=True).fill("OpenAI")
    page.get_by_role("button", name="Find paths").click()
    page.locator("#paths-panel li").first.wait_for()
    assert graph.get_attribute("data-chosen") == "asml"
    visitor.check()


def test_question_shows_what_was_understood_or_that_nothing_was(visit):
    visitor = visit()
    page, graph = visitor.page, visitor.page.locator("#graph")
    visitor.open("/value-chain")
    page.get_by_label("Your question").fill("Who supplies HBM to NVIDIA?")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator("#answers article", has_text="SK hynix")
    answer.get_by_text("What was understood").click()
    answer.get_by_role("button", name="Show in the graph").click()
    expect(graph).to_have_attribute("data-shown", "3")
    page.get_by_label("Your question").fill("What is the revenue of NVIDIA?")
    page.get_by_role("button", name="Ask").click()
    refused = page.locator("#answers article").first
    expect(refused).to_contain_text("nothing was looked up")
    refused.get_by_role("group", name="Suggestions").get_by_role("button").last.click()
    expect(page.locator("#answers article", has_text="SK hynix")).to_have_count(2)
    visitor.check()


def test_front_page_shows_what_stops_and_lets_the_reader_pull(visit, server):
    worst = httpx2.get(f"{server.root}/infra/api/chokepoints?limit=1").json()["chokepoints"][0]
    visitor = visit()
    page = visitor.page
    page.emulate_media(reduced_motion="reduce")
    visitor.open("/")
    button = page.get_by_role("button", name=f"Take {worst['name']} out")
    button.click()
    expect(page.locator("#pull-count")).to_contain_text(f"{worst['fails_count']} of 64 others stopped")
    lost = page.locator("#pull-graph g.lost")
    before = lost.get_attribute("transform")
    box = lost.locator("circle").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 80, steps=5)
    page.mouse.up()
    assert lost.get_attribute("transform") != before
    button.click()
    expect(page.locator("#pull-graph g.stopped")).to_have_count(0)
    page.emulate_media(reduced_motion="no-preference")
