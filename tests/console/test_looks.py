"""Every page and every dialog at desktop and phone width, in light and dark, with no other host reachable."""

import pytest
from playwright.sync_api import Page

PAGES = (
    "/", "/keys", "/board", "/board?view=stories", "/board?view=entities", "/board?view=brief", "/board?q=nothing",
    "/mattresses", "/mattresses?q=firm+queen&sort=price", "/mattresses?brand=nobody",
    "/value-chain", "/value-chain?company=nvidia", "/value-chain?without=tsmc", "/value-chain?from=asml&to=openai",
    "/value-chain?company=nvidia&with=amd", "/value-chain?company=nobody", "/value-chain?category=memory",
    "/studio-catalogue", "/status", "/operator", "/problems/rate-limited", "/ask", "/alerts", "/wallet",
    "/tables", "/tables/books", "/tables/books?q=ka&sort=-price", "/tables/books/row?id=978-0000007",
    "/tables/books?_view=chart", "/tables/odd",
    "/guide", "/guide/settings", "/guide/reference/mattress",
)  # fmt: skip
WITHOUT_KEY = {"/keys": "Existing key", "/alerts": "Existing key", "/ask": "Your question"}


def _story(page: Page) -> None:
    page.locator("#stories a.title").first.click()
    page.get_by_role("dialog").locator("h3", has_text="Sources side by side").wait_for()


def _event(page: Page) -> None:
    page.locator("#board a.title").first.click()
    page.get_by_role("dialog").locator("h3", has_text="Why these figures").wait_for()


def _entity(page: Page) -> None:
    page.get_by_role("link", name="Ethiopia", exact=True).click()
    page.get_by_role("dialog").locator(".together").wait_for()


def _product(page: Page) -> None:
    page.locator("#goods h3 a").first.click()
    page.get_by_role("dialog").locator("h3", has_text="Price history").wait_for()


def _answer(page: Page) -> None:
    page.get_by_label("Your question").fill("How many battles were there in Ethiopia?")
    page.keyboard.press("Enter")
    page.locator(".turn .by").wait_for()


def _preview(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("Fighting in Ethiopia")
    page.get_by_label("Country").fill("Ethiopia")
    page.get_by_role("button", name="Preview over stored history").click()
    page.locator("#preview svg").wait_for()


STATES = {
    "story": ("/board?view=stories", _story),
    "event": ("/board?category=Battles&list=events", _event),
    "entity": ("/board?view=entities", _entity),
    "product": ("/mattresses?q=latex", _product),
    "answer": ("/ask", _answer),
    "preview": ("/alerts", _preview),
}


@pytest.fixture(scope="module")
def server(start_server, tables_home):
    """One for every page, tables included."""
    return start_server(home=tables_home)


@pytest.mark.parametrize("path", PAGES)
def test_page_is_accessible_and_loads_nothing_from_another_host(visit, key, path):
    visitor = visit()
    visitor.key(key)
    visitor.open(path)
    assert visitor.page.evaluate("sessionStorage.getItem('tollhouse-key')") == key
    assert visitor.page.locator("main h1").count() == 1
    visitor.check_both_layouts()


@pytest.mark.parametrize("path", WITHOUT_KEY)
def test_page_without_a_key_is_accessible(visit, path):
    visitor = visit(width=390)
    visitor.open(path)
    visitor.page.get_by_label(WITHOUT_KEY[path]).wait_for()
    visitor.check_both_layouts()


@pytest.mark.parametrize("state", STATES)
def test_dialogs_and_results_are_accessible(visit, key, state):
    path, act = STATES[state]
    visitor = visit()
    visitor.key(key)
    visitor.open(path)
    act(visitor.page)
    visitor.check_both_layouts()


def test_the_api_reference_sends_a_request_and_shows_its_response(visit):
    visitor = visit()
    visitor.open("/mattress/docs")
    section = visitor.page.locator(
        "section", has=visitor.page.get_by_role("heading", name="Search products in plain words")
    )
    section.get_by_role("button", name="Try it").click()
    section.get_by_label("limit", exact=True).fill("251")
    section.get_by_role("button", name="Send").click()
    section.get_by_label("Problem").wait_for()
    assert '"parameter": "limit"' in section.get_by_label("Problem").inner_text()
    section.get_by_label("limit", exact=True).fill("1")
    section.get_by_role("button", name="Send").click()
    section.get_by_label("Response", exact=True).wait_for()
    assert '"count": 1' in section.get_by_label("Response", exact=True).inner_text()
    visitor.console_messages.clear()
    visitor.check_both_layouts()


@pytest.mark.parametrize("path", ["/value-chian", "/defense/feeds/events", "/mattress/api/products?limit=many"])
def test_page_of_an_error_is_accessible(visit, path):
    visitor = visit()
    for width, scheme in ((1280, "light"), (390, "dark")):
        visitor.page.set_viewport_size({"width": width, "height": 844})
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.open(path)
        assert visitor.page.locator("main h1").count() == 1
        assert visitor.violations() == []
        assert visitor.overflow() <= 0
        assert visitor.foreign_requests == []
