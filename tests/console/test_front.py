"""The front page and the board: a map, its filters, the time, the stories beside it, and the same data as API calls."""

import re
from collections import Counter

import pytest
from playwright.sync_api import expect

SHIFT = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) sum += one.value; })
    .observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => setTimeout(() => done(sum)));
})"""
BYTES = """() => performance.getEntries().filter((one) => ["navigation", "resource"].includes(one.entryType))
  .reduce((sum, one) => sum + one.encodedBodySize, 0)"""
MOST_SHIFT = 0.05
MOST_BYTES = 350_000


@pytest.fixture(scope="module")
def feeds(server, key):
    with server.client(key) as client:
        yield client


def total(feeds, **filters: object) -> int:
    return feeds.get("/feeds/events", params={"limit": 1, **filters}).json()["total"]


@pytest.mark.parametrize("width", [1440, 390])
def test_stranger_sees_the_map_and_the_stories_without_a_key(visit, feeds, width):
    visitor = visit(width=width)
    visitor.open("/")
    page = visitor.page
    stories = feeds.get("/feeds/stories", params={"limit": 10}).json()["stories"]
    expect(page.locator("#board .board-list a.title")).to_have_text([one["title"] for one in stories])
    summary = feeds.get("/feeds/defense-brief/summary").json()
    for sentence in summary["sentences"]:
        assert sentence["text"] in re.sub(r"\[\d+\]", "", page.locator(".board-sentences").inner_text())
    assert "15 Nov 2020, 11:00" in page.locator(".board-as-of").inner_text()
    assert "18%" in page.locator(".board-as-of").inner_text()
    assert page.evaluate(SHIFT) <= MOST_SHIFT
    assert page.evaluate(BYTES) <= MOST_BYTES
    visitor.check_load()


def test_citation_opens_in_place_and_leads_to_its_story(visit):
    visitor = visit()
    visitor.open("/")
    page = visitor.page
    cited = page.locator(".board-sentences .cite").last
    cited.click()
    assert cited.get_attribute("aria-expanded") == "true"
    title = page.locator("#board-note a").inner_text()
    page.locator("#board-note a").click()
    expect(page.get_by_role("dialog").get_by_role("heading", level=2)).to_have_text(title)
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("story="))


def test_filters_stand_in_the_address_with_counts_under_the_others(visit, feeds):
    visitor = visit()
    visitor.open("/board")
    page = visitor.page
    status = page.locator(".board-count")
    page.get_by_label("Category", exact=True).select_option("Battles")
    expect(status).to_contain_text(f"{total(feeds, category='Battles')} events")
    tiers = feeds.get("/feeds/events", params={"category": "Battles", "facets": "severity_tier"}).json()["facets"]
    offered = page.get_by_label("Severity", exact=True).locator("option").all_inner_texts()[1:]
    assert offered == [f"{one['value']} ({one['count']})" for one in tiers["severity_tier"]]
    tier = tiers["severity_tier"][0]
    page.get_by_label("Severity", exact=True).select_option(tier["value"])
    expect(status).to_contain_text(f"{tier['count']} event")
    page.reload()
    expect(status).to_contain_text(f"{tier['count']} event")
    assert page.get_by_label("Category", exact=True).input_value() == "Battles"
    page.go_back()
    expect(status).to_contain_text(f"{total(feeds, category='Battles')} events")
    page.get_by_role("link", name="Events", exact=True).click()
    events = feeds.get("/feeds/events", params={"category": "Battles", "limit": 25}).json()["events"]
    expect(page.locator("#board .board-list a.title")).to_have_text([one["title"] for one in events])
    visitor.check_load()


def test_mistyped_filter_stays_a_filter_with_the_reason_beside_it(visit):
    visitor = visit()
    visitor.open("/?country=Sudann")
    page = visitor.page
    said = page.get_by_role("alert")
    expect(said).to_contain_text("There is no country of that name or code")
    assert page.get_by_label("Country", exact=True).input_value() == "Sudann"
    expect(page.locator(".board-list")).to_contain_text("cannot be read")
    assert visitor.violations() == []
    said.get_by_role("link", name="Sudan", exact=True).click()
    expect(page).to_have_url(re.compile(r"country=Sudan$"))
    expect(said).to_have_count(0)


def test_map_is_zoomed_walked_and_opened_by_keyboard(visit, feeds):
    visitor = visit()
    visitor.open("/board")
    page = visitor.page
    surface = page.get_by_role("application")
    surface.focus()
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("at="))
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("at="))
    page.keyboard.press("n")
    expect(page.locator(".map-card")).to_be_visible()
    expect(page.locator("#said")).to_contain_text(re.compile("event|source"))
    for _ in range(12):
        if page.get_by_role("dialog").count():
            break
        page.keyboard.press("n")
        page.keyboard.press("Enter")
        visitor.settle()
    page.get_by_role("dialog").get_by_role("heading", level=2).wait_for()
    visitor.check()


def test_box_on_the_map_becomes_a_filter_that_the_api_answers_alike(visit, feeds):
    visitor = visit()
    visitor.open("/board")
    page = visitor.page
    page.get_by_role("button", name="Select an area").click()
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile("bbox="))
    bbox = re.search(r"bbox=([^&]+)", page.url)[1].replace("%2C", ",")
    expect(page.locator(".board-count")).to_contain_text(f"{total(feeds, bbox=bbox)} events")
    page.get_by_role("link", name="Remove the filter Area of the map").click()
    expect(page.locator(".board-count")).to_contain_text(f"{total(feeds)} events")


def test_time_is_selected_by_keyboard_and_played(visit, feeds):
    visitor = visit()
    visitor.open("/board")
    page = visitor.page
    start = page.get_by_role("slider", name="Start of the range")
    page.locator(".histogram-status", has_text="events").wait_for()
    start.press("End")
    start.press("PageDown")
    expect(page).to_have_url(re.compile("since="))
    since = re.search(r"since=([^&]+)", page.url)[1].replace("%3A", ":")
    expect(page.locator(".board-count")).to_contain_text(f"{total(feeds, since=since)} event")
    page.get_by_role("button", name="All", exact=True).click()
    expect(page).not_to_have_url(re.compile("since="))
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".histogram-status")).to_contain_text(f"24 hours: {total(feeds)} events")


def test_countries_and_density_are_links_and_a_country_is_chosen_on_the_map(visit, feeds):
    visitor = visit()
    visitor.open("/board?map=areas")
    page = visitor.page
    page.locator(".board-legend .class").first.wait_for()
    visitor.settle()
    visitor.check_both_layouts()
    page.set_viewport_size({"width": 1280, "height": 844})
    visitor.settle()
    box = page.locator("#map").bounding_box()
    # Australia, in the south-east of the map, is large enough to be met in the middle.
    page.mouse.click(box["x"] + box["width"] * 0.86, box["y"] + box["height"] * 0.78)
    expect(page).to_have_url(re.compile("country=Australia"))
    expect(page.locator(".board-count")).to_contain_text(f"{total(feeds, country='Australia')} events")
    page.get_by_role("link", name="Density", exact=True).click()
    expect(page).to_have_url(re.compile("map=density"))
    visitor.check_load()


def test_stories_are_walked_with_j_and_k_and_help_opens(visit):
    visitor = visit()
    visitor.open("/")
    page = visitor.page
    titles = page.locator("#board .board-list a.title")
    titles.first.wait_for()
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
    expect(titles.first).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search headlines")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_role("heading", name="Keyboard").wait_for()
    visitor.check()


def test_stranger_takes_the_view_as_a_call_and_gets_the_same_data(visit, server):
    visitor = visit()
    page = visitor.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visitor.root)
    visitor.open("/?category=Protests")
    shown = page.locator(".board-count").inner_text().split()[0]
    page.locator("#board").get_by_role("button", name="Get this as API").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Create a free key").click()
    drawer.get_by_label("Email").fill("mary@example.org")
    drawer.get_by_role("button", name="Create a free key").last.click()
    made = drawer.locator("code.key").inner_text()
    program = drawer.get_by_role("tabpanel").locator("pre").first.inner_text()
    path = re.search(r"/defense(/feeds/events\?[^'\s\"]*category=Protests[^'\s\"]*)", program)
    assert path, program
    with server.client(made) as client:
        assert str(client.get(path[1]).json()["total"]) == shown
    visitor.check_load()


def test_server_without_a_budget_for_readers_takes_a_key_on_the_map(visit, start_server):
    server = start_server("defense", console_free=0)
    visitor = visit(root=server.root)
    visitor.open("/")
    page = visitor.page
    form = page.get_by_role("region", name="API key", exact=True)
    assert visitor.violations() == []
    form.get_by_label("Email", exact=True).fill("ann@example.org")
    form.get_by_role("button", name="Create a free key").click()
    form.get_by_role("button", name="Show the map").click()
    page.locator("#board a.title").first.wait_for()
    expect(page.locator(".board-sentences")).to_contain_text("events were reported")
    server.stop()


def test_points_on_the_board_are_the_events_of_the_feed(feeds):
    body = feeds.get("/feeds/events/points", params={"facets": "country"}).json()
    counted = Counter(body["places"][at]["country"] for at in body["points"]["place"])
    counted.pop("", None)
    assert {one["value"]: one["count"] for one in body["facets"]["country"]} == counted
