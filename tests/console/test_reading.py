"""Reading in the browser: the drawers of stories, events and entities, the brief, alerts and questions."""

import re

import pytest
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def feeds(server, key):
    with server.client(key) as client:
        yield client


def test_story_leads_to_its_event_its_names_and_back(visit, feeds):
    story = feeds.get("/feeds/stories", params={"limit": 1}).json()["stories"][0]
    detail = feeds.get(f"/feeds/stories/{story['id']}").json()
    visitor = visit()
    visitor.open(f"/board?view=stories&story={story['id']}")
    page = visitor.page
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_role("heading", level=2)).to_have_text(story["title"])
    reports = drawer.locator(".side-by-side li")
    assert reports.count() == story["article_count"]
    assert set(reports.first.locator("a").get_attribute("rel").split()) == {"noopener", "noreferrer", "nofollow"}
    drawer.locator(".place-map canvas").wait_for()
    groups = {one["outlet_country"] for one in detail["articles"]}
    assert drawer.locator(".side-by-side section").count() == len(groups)
    expect(drawer.locator(".reasons")).to_contain_text(detail["reasons"]["significance"])
    for other in detail["related_stories"]:
        expect(drawer.locator("a.title", has_text=other["title"])).to_be_visible()
    visitor.check_load()
    drawer.locator("a.title", has_text=detail["events"][0]["title"]).click()
    expect(drawer.get_by_role("heading", level=2)).to_have_text(detail["events"][0]["title"])
    expect(page).to_have_url(re.compile("event=conflict_"))
    page.go_back()
    expect(drawer.get_by_role("heading", level=2)).to_have_text(story["title"])
    drawer.get_by_role("link", name=detail["named"][0]["name"], exact=True).first.click()
    expect(drawer.get_by_role("heading", level=2)).to_have_text(detail["named"][0]["name"])
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/board\?view=stories$"))
    expect(drawer).to_have_count(0)


def test_event_shows_every_figure_of_deaths_with_its_sources_and_the_stored_reasons(visit, feeds):
    events = feeds.get("/feeds/events", params={"sort": "fatalities", "limit": 20}).json()["events"]
    toll = next(event for event in events if event["source_count"] > 5)
    detail = feeds.get(f"/feeds/events/{toll['id']}").json()
    figures = {str(report["fatalities"]) for report in detail["timeline"] if report["fatalities"] is not None}
    visitor = visit()
    visitor.open(f"/board?event={toll['id']}")
    drawer = visitor.page.get_by_role("dialog")
    expect(drawer.locator(".tolls tbody th")).to_have_count(len(figures))
    assert set(drawer.locator(".tolls tbody th").all_inner_texts()) == figures
    expect(drawer.locator(".tolls .counted th")).to_have_text(str(toll["fatalities"]))
    for name, reason in detail["provenance"]["reasons"].items():
        if name != "fatalities":
            expect(drawer.locator(".reasons dd").filter(has_text=reason).first).to_be_visible()
    visitor.check_load()


def test_entity_shows_when_and_with_whom_it_was_named_and_what_was_not_read(visit, feeds):
    entity = feeds.get("/feeds/entities", params={"limit": 1, "type": "person"}).json()["entities"][0]
    timeline = feeds.get(f"/feeds/entities/{entity['id']}").json()["timeline"]
    visitor = visit()
    visitor.open("/board?view=entities")
    page = visitor.page
    page.get_by_role("link", name=entity["name"], exact=True).click()
    drawer = page.get_by_role("dialog")
    plot = drawer.get_by_role("slider")
    plot.press("End")
    last = timeline["hours"][-1]
    assert f"Articles {last['mentions']}" in plot.get_attribute("aria-valuetext")
    expect(drawer.locator(".chart-figure output")).to_be_visible()
    drawer.get_by_text("Figures as a table").click()
    cells = drawer.locator(".figures td").all_inner_texts()
    assert cells == ["not known" if hour["mentions"] is None else str(hour["mentions"]) for hour in timeline["hours"]]
    unread = sum(hour["mentions"] is None for hour in timeline["hours"])
    assert f"Of the {unread} shaded hours nothing was read" in drawer.inner_text()
    visitor.check_load()
    first = drawer.locator(".together tbody tr").first
    name = first.get_by_role("link").inner_text()
    first.get_by_role("link").click()
    expect(drawer.get_by_role("heading", level=2)).to_have_text(name)


def test_id_that_is_not_here_says_so_and_one_that_was_merged_says_into_what(visit, feeds):
    visitor = visit()
    visitor.open(f"/board?event=conflict_{'0' * 16}")
    drawer = visitor.page.get_by_role("dialog")
    expect(drawer.get_by_role("heading", level=2)).to_have_text("Event not found")
    assert visitor.violations() == []
    visitor.console_messages.clear()
    story = feeds.get("/feeds/stories", params={"limit": 1}).json()["stories"][0]["id"]
    detail = feeds.get(f"/feeds/stories/{story}").json() | {"succeeds": "story_00000000000000aa"}
    visitor.page.route("**/feeds/stories/story_00000000000000aa", lambda route: route.fulfill(json=detail))
    visitor.open("/board?story=story_00000000000000aa")
    expect(drawer.get_by_role("status")).to_contain_text("story_00000000000000aa was merged into this one")
    visitor.check_load()


def test_lists_keep_a_filter_that_is_refused_and_grow_page_by_page(visit, feeds):
    total = feeds.get("/feeds/stories", params={"limit": 1, "country": "Israel"}).json()["total"]
    visitor = visit()
    visitor.open("/board?view=stories&country=Atlantis")
    page = visitor.page
    assert "no country" in page.get_by_role("alert").inner_text()
    country = page.get_by_label("Country", exact=True)
    assert (country.input_value(), country.get_attribute("aria-invalid")) == ("Atlantis", "true")
    visitor.console_messages.clear()
    country.fill("Israel")
    country.press("Enter")
    page.get_by_text(f"{total} stories").first.wait_for()
    expect(page).to_have_url(re.compile("country=Israel"))
    page.get_by_role("button", name="Clear").click()
    rows = page.locator("#stories > li")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(100)
    visitor.check_load()
    visitor.open("/board?view=entities&type=person")
    everyone = feeds.get("/feeds/entities", params={"limit": 100, "type": "person"}).json()["entities"]
    expect(page.locator(".entities tbody tr")).to_have_count(len(everyone))
    page.get_by_label("Type", exact=True).select_option("platform")
    expect(page).to_have_url(re.compile("type=platform"))
    visitor.check_load()


def test_brief_states_the_source_of_each_figure_and_prints_them_all(visit, feeds):
    brief = feeds.get("/feeds/defense-brief").json()
    production = brief["production_summary"]
    visitor = visit()
    visitor.open("/board?view=brief")
    page = visitor.page
    page.locator(".programs").first.wait_for()
    panels = page.locator("article.gap")
    assert panels.count() == len(brief["capability_gaps"])
    for panel, gap in zip(panels.all(), brief["capability_gaps"], strict=True):
        text = panel.inner_text()
        assert gap["explanation"] in text
        assert f"{gap['gap_score']:.2f}" in text
        assert all(f"${gap['trend'][year]:.1f} B" in text for year in ("fy2025_b", "fy2026_b", "fy2027_requested_b"))
    assert brief["events_live"]["change"]["Battles"]["reason"] in page.locator(".not-known").first.inner_text()
    row = page.locator(".programs tbody tr").first
    row.get_by_role("button", name=f"Source of {production['programs'][0]['name']}").click()
    drawer = page.get_by_role("dialog")
    expect(drawer.locator(".notes li")).to_have_text(production["programs"][0]["source"])
    page.keyboard.press("Escape")
    visitor.check_load()
    page.set_viewport_size({"width": 674, "height": 900})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert not page.locator("header.site").is_visible()
    notes = page.locator(".all-notes .notes li").all_inner_texts()
    assert production["basis"] in notes
    assert production["programs"][0]["source"] in notes
    assert set(brief["capability_gaps"][0]["evidence"]) <= set(notes)
    assert visitor.overflow() <= 0
    page.emulate_media(media="screen")


def test_stranger_asks_opens_a_source_in_place_and_goes_on_with_a_suggestion(visit):
    visitor = visit()
    visitor.open("/ask?q=How+many+events+are+there+by+category%3F")
    page = visitor.page
    turn = page.locator(".turn").first
    turn.locator(".by", has_text="extractive").wait_for()
    expect(page).to_have_url(re.compile(r"/ask$"))
    bars = turn.locator(".figures-of-answer .bars li")
    expect(bars).to_have_count(4)
    assert "Political" in bars.first.inner_text()
    visitor.check_load()
    turn.locator(".cite").first.click()
    expect(page).to_have_url(re.compile(r"/ask\?event=conflict_"))
    drawer = page.get_by_role("dialog")
    drawer.locator("h3", has_text="Why these figures").wait_for()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    suggestion = turn.locator(".next button").first
    text = suggestion.inner_text()
    suggestion.click()
    second = page.locator(".turn").nth(1)
    expect(second.locator(".asked")).to_have_text(text)
    second.locator(".by").wait_for()
    assert second.locator(".refused").count() == 0
    page.get_by_label("Your question").fill("and how many died in Eritrea?")
    page.keyboard.press("Enter")
    page.locator(".turn").nth(2).locator(".said", has_text="Eritrea").wait_for()
    page.reload()
    expect(page.locator(".turn")).to_have_count(3)
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)


def test_refused_question_names_the_word_and_offers_questions_that_have_answers(visit):
    visitor = visit()
    visitor.open("/ask")
    page = visitor.page
    page.get_by_label("Your question").fill("What is the weather in Kenya?")
    page.get_by_role("button", name="Ask", exact=True).click()
    turn = page.locator(".turn").first
    turn.locator(".by", has_text="free").wait_for()
    assert "“weather”" in turn.locator(".said.refused").inner_text()
    assert "You can ask" not in turn.locator(".said").inner_text()
    offered = turn.locator(".next button")
    expect(offered).to_have_count(2)
    visitor.check()
    offered.first.click()
    page.locator(".turn").nth(1).locator(".by").wait_for()
    assert page.locator(".turn").nth(1).locator(".refused").count() == 0


def test_headline_that_looks_like_markup_stays_text(visit):
    visitor = visit()
    visitor.page.route("**/feeds/stories**", lambda route: route.fulfill(json=_hostile()))
    visitor.open("/board?view=stories&story=story_1")
    visitor.page.get_by_role("dialog").get_by_text("<img src=x onerror=alert(1)>").first.wait_for()
    assert visitor.page.locator("dialog img, #stories img").count() == 0
    assert visitor.page.locator("dialog a[href^=javascript]").count() == 0
    visitor.check_load()


def _hostile() -> dict[str, object]:
    text, at = "<img src=x onerror=alert(1)>", "2020-11-15T10:00:00Z"
    article = {
        "title": text, "url": "javascript:alert(1)", "publisher": text, "published": at, "outlet_country": text,
        "event_id": None, "fatalities": 3,
    }  # fmt: skip
    texts = dict.fromkeys(("title", "summary", "category"), text) | {"countries": [text], "sources": [text]}
    counts = {"article_count": 1, "source_count": 1, "significance": 0.5, "tone": 0}
    lists = {"articles": [article], "entities": [], "event_ids": [], "events": [], "reasons": {"title": text}}
    lists |= {"named": [{"id": "entity_1", "name": text, "type": "person"}], "related_stories": []}
    story = {"id": "story_1", "first_seen": at, "last_seen": at, **texts, **counts, **lists}
    page = {"total": 1, "count": 1, "as_of": at, "window_hours": 24, "source": "recorded", "stale": False}
    return {"stories": [story], "next_cursor": None, "applied_filters": {}, **page, **story}
