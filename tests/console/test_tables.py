"""A person searches a table that somebody declared: the generic page in a real browser."""

import httpx2
import pytest

PAGE = "/tables/books"


@pytest.fixture(scope="module")
def server(start_server, tables_home):
    return start_server(home=tables_home)


def test_person_narrows_the_table_down_opens_an_item_and_takes_the_rest_along(visit, server):
    visitor = visit()
    visitor.open(PAGE)
    page = visitor.page
    assert "300 items" in page.locator("#found").inner_text()
    page.get_by_label("cellar").check()
    page.wait_for_url("**shelf=cellar**")
    matching = httpx2.get(f"{server.root}/books/api/items?shelf=cellar&limit=1").json()["total"]
    page.get_by_text(f"{matching} items", exact=False).first.wait_for()
    page.get_by_label("Price (€): from").fill("50")
    page.get_by_role("button", name="Set Price (€)").click()
    page.wait_for_url("**min_price=50**")
    visitor.settle()
    narrowed = httpx2.get(f"{server.root}/books/api/items?shelf=cellar&min_price=50&sort=-price").json()
    with page.expect_download() as download:
        page.get_by_role("link", name="NDJSON").click()
    assert len(download.value.path().read_text().splitlines()) == narrowed["total"]
    page.get_by_label("Sort").select_option("-price")
    page.wait_for_url("**sort=-price**")
    dearest = narrowed["items"][0]["book_title"]
    page.locator("#goods h3 a").filter(has_text=dearest).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Similar items").wait_for()
    assert dialog.locator("h2").inner_text() == dearest
    assert visitor.violations() == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_text("300 items", exact=False).first.wait_for()
    assert visitor.console_messages == []
    assert visitor.foreign_requests == []


def test_price_of_a_table_is_on_every_page_that_lists_it(server):
    offered = "10,000 free requests a day, then 0.001 USDC each"
    front = httpx2.get(server.root, headers={"Accept": "text/html"}).text
    assert f"books &lt;of&gt; all kinds, odd &lt;of&gt; all kinds: {offered}" in front
    for path in ("/tables", PAGE):
        assert offered in httpx2.get(f"{server.root}{path}").text


def test_search_without_a_match_says_so_and_offers_no_file(visit):
    visitor = visit()
    visitor.open(f"{PAGE}?q=zyzzyva")
    visitor.page.get_by_text("No item matches").wait_for()
    assert not visitor.page.get_by_role("link", name="NDJSON").is_visible()


def test_search_corrects_spelling_and_says_so(visit, server):
    title = httpx2.get(f"{server.root}/books/api/items/978-0000007").json()["item"]["book_title"]
    word = title.split()[0].lower()
    visitor = visit()
    visitor.open(PAGE)
    visitor.page.get_by_label("Search", exact=True).fill(f"{word[:-1]}q")
    visitor.page.get_by_role("button", name="Search", exact=True).click()
    visitor.page.get_by_text("spelling corrected").first.wait_for()
    assert title in visitor.page.locator("#goods").inner_text()


def test_text_of_a_table_is_never_markup(visit):
    visitor = visit()
    visitor.open("/tables/odd")
    assert visitor.page.locator("#goods li").count() == 3
    assert visitor.page.locator("main b").count() == 0
    assert "</script><b>x</b>" in visitor.page.locator("#goods").inner_text()
