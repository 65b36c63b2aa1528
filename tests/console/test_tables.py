"""A person searches a table that somebody declared: the generic pages in a real browser."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx2
import pytest

from tests.journeys.server import run
from tests.servers.databases import migrated_copy
from tests.services.tables.books import as_csv
from tests.services.tables.half_indexed import READY, ROWS, half_indexed, wide

PAGE = "/tables/books"


@pytest.fixture(scope="module")
def server(start_server, tables_home):
    spots = [[f"Spot {n}", f"{48 + n / 50:.3f}", f"{7 + n / 40:.3f}", f"{n % 7 + 1}%"] for n in range(60)]
    (tables_home / "spots.csv").write_text(as_csv([*spots, ["Nowhere", "", "", "3%"]], ("Name", "lat", "lng", "Slope")))
    made = run("new", "spots", "--from", "spots.csv", "--free-per-day", 10_000, cwd=tables_home)
    assert made.returncode == 0, made.stderr
    return start_server(home=tables_home)


def listed(server, query: str) -> dict:
    return httpx2.get(f"{server.root}/books/api/items?{query}").json()


def names(page) -> list[str]:
    return page.locator("#rows th").all_inner_texts()


def test_person_sorts_and_filters_the_grid_by_mouse_and_keyboard_and_takes_the_rows_along(visit, server):
    visitor = visit()
    visitor.open(PAGE)
    page = visitor.page
    assert page.locator("#found").inner_text() == "300 rows"
    # By mouse: a facet, then a header twice; units stand in the header, decimals are aligned.
    page.locator("#facets").get_by_label("cellar").check()
    page.wait_for_url("**shelf=cellar**")
    page.get_by_role("button", name="Price", exact=True).click()
    page.wait_for_url("**sort=price**")
    page.get_by_role("button", name="Price", exact=True).click()
    page.wait_for_url("**sort=-price**")
    visitor.settle()
    expected = listed(server, "shelf=cellar&sort=-price&limit=100")
    assert names(page) == [item["book_title"] for item in expected["items"]]
    assert page.get_by_role("columnheader", name="Price").get_attribute("aria-sort") == "descending"
    assert page.locator("#rows td.number").first.inner_text() == f"€{expected['items'][0]['price']:.2f}"
    # By keyboard: a range, words in one column, a year that stands for its days.
    page.get_by_label("Price: from", exact=True).last.focus()
    page.keyboard.type("1,0")
    page.get_by_label("Price: from", exact=True).last.fill("50")
    page.keyboard.press("Enter")
    page.wait_for_url("**min_price=50**")
    page.get_by_label("Published: to", exact=True).fill("2000")
    page.keyboard.press("Tab")
    page.wait_for_url("**max_published=2000-12-31**")
    visitor.settle()
    narrowed = listed(server, "shelf=cellar&min_price=50&max_published=2000-12-31&sort=-price&limit=100")
    assert page.locator("#found").inner_text() == f"{narrowed['total']} rows"
    word = narrowed["items"][0]["author"].split()[0]
    page.get_by_label("Author: has", exact=True).fill(word)
    page.keyboard.press("Enter")
    page.wait_for_url("**author__has=**")
    visitor.settle()
    having = listed(server, f"shelf=cellar&min_price=50&max_published=2000-12-31&sort=-price&author__has={word}")
    assert having["total"] >= 1
    assert names(page) == [item["book_title"] for item in having["items"]]
    assert all(word in item["author"] for item in having["items"])
    visitor.check_load()
    page.get_by_text("Download").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="NDJSON").click()
    assert len(download.value.path().read_text().splitlines()) == having["total"]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Clear filters").click()
    visitor.settle()
    assert page.locator("#found").inner_text() == "300 rows"
    page.go_back()
    visitor.settle()
    assert page.locator("#found").inner_text() == f"{having['total']} row{'s' if having['total'] > 1 else ''}"


def test_pages_and_columns_are_in_the_address_and_a_row_has_neighbours_and_a_way_back(visit, server):
    visitor = visit()
    visitor.open(f"{PAGE}?sort=-pages")
    page = visitor.page
    page.get_by_role("link", name="Next →").click()
    page.wait_for_url("**offset=100**")
    page.get_by_text("Columns", exact=True).click()
    page.locator("#columns").get_by_label("Shelf").uncheck()
    page.wait_for_url("**_columns=**")
    visitor.settle()
    assert "Shelf" not in page.locator("#head").inner_text()
    expected = listed(server, "sort=-pages&offset=100&limit=100")["items"]
    assert names(page) == [item["book_title"] for item in expected]
    page.locator("#rows a").nth(1).click()
    page.locator("#neighbours a").first.wait_for()
    assert page.locator("h1").inner_text() == expected[1]["book_title"]
    assert "102 of 300" in page.locator("#neighbours").inner_text()
    assert "CC0-1.0" in page.locator("#row").inner_text()
    similar = httpx2.get(f"{server.root}/books/api/items/{expected[1]['id']}/similar?limit=6").json()["items"]
    assert names(page) == [item["book_title"] for item in similar]
    visitor.check_load()
    page.get_by_role("link", name=expected[2]["book_title"]).first.click()
    page.get_by_text("103 of 300").wait_for()
    assert page.locator("h1").inner_text() == expected[2]["book_title"]
    page.locator("#way a").click()
    visitor.settle()
    assert "offset=100" in page.url
    assert "id=" not in page.url
    assert names(page) == [item["book_title"] for item in expected]
    visitor.open("/tables/books/row?id=none")
    assert page.locator("h1").inner_text() == "No such row"


def test_mistyped_filter_stays_with_its_message_beside_it(visit):
    visitor = visit()
    visitor.open(f"{PAGE}?min_price=cheap&shelf=cellar")
    page = visitor.page
    field = page.locator("#filter-min_price")
    assert field.input_value() == "cheap"
    assert field.get_attribute("aria-invalid") == "true"
    message = page.locator("#filter-min_price-message")
    assert "must be a number" in message.inner_text()
    assert page.get_by_role("alert").get_by_text("min_price").is_visible()
    assert visitor.violations() == []
    field.fill("5")
    field.press("Enter")
    page.wait_for_url("**min_price=5**")
    visitor.settle()
    assert page.locator("#rows tr").count() > 0
    assert message.count() == 0


def test_search_suggests_values_and_corrects_spelling_and_says_what_is_not_there(visit, server):
    title = httpx2.get(f"{server.root}/books/api/items/978-0000007").json()["item"]["book_title"]
    word = title.split()[0].lower()
    visitor = visit()
    visitor.open(PAGE)
    page = visitor.page
    search = page.locator("#q")
    search.fill("cell")
    page.get_by_role("option", name="cellar Shelf").wait_for()
    search.press("ArrowDown")
    search.press("Enter")
    page.wait_for_url("**shelf=cellar**")
    visitor.open(PAGE)
    search.fill(f"{word[:-1]}q")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_text("spelling corrected").first.wait_for()
    assert title in page.locator("#rows").inner_text()
    visitor.open(f"{PAGE}?q=zyzzyva")
    page.get_by_text("No row matches").wait_for()
    assert not page.get_by_text("Download").is_visible()
    page.get_by_role("link", name="Remove all filters").click()
    visitor.settle()
    assert page.locator("#found").inner_text() == "300 rows"


def test_chart_counts_rows_by_a_number_a_date_and_a_value_under_the_filters(visit, server):
    visitor = visit()
    visitor.open(f"{PAGE}?shelf=cellar&_view=chart")
    page = visitor.page
    total = listed(server, "shelf=cellar")["total"]
    page.locator("#chart-view .figure svg").wait_for()
    assert f"{total} rows · one bar per year" in page.locator("#chart-view").inner_text()
    page.get_by_label("Rows by", exact=True).select_option("Price")
    page.wait_for_url("**_chart=price**")
    visitor.settle()
    page.get_by_text("Figures as a table").click()
    prices = httpx2.get(f"{server.root}/books/api/histogram/price?shelf=cellar").json()
    shown = page.locator("#chart-view table tbody tr td:last-child").all_inner_texts()
    assert [int(text) for text in shown] == [bar["count"] for bar in prices["bars"]]
    visitor.check_load()
    page.get_by_label("Rows by", exact=True).select_option("Subjects")
    visitor.settle()
    page.locator("#chart-view .bars button").first.click()
    page.wait_for_url("**subjects=**")


def test_map_shows_the_rows_that_have_a_position(visit):
    visitor = visit()
    page = visitor.page
    page.emulate_media(reduced_motion="reduce")
    visitor.open("/tables/spots?_view=map")
    page.get_by_text("60 of 61 rows have a position").wait_for()
    surface = page.get_by_role("application")
    assert float(surface.get_attribute("data-zoom") or 0) > 1, "the view fits the rows"
    surface.focus()
    page.keyboard.press("n")
    assert "Spot" in page.locator("#said").inner_text() or page.locator(".map-card").is_visible()
    visitor.check()
    page.get_by_role("link", name="Table", exact=True).click()
    page.locator("#rows tr").first.wait_for()
    # A percentage says so in its header.
    assert "Slope %" in page.locator("#head").inner_text()


def test_table_that_is_being_indexed_shows_how_many_rows_are_ready_until_all_are(visit, start_server, tmp_path):
    migrated_copy(tmp_path / "data")
    (tmp_path / "wide.csv").write_text(wide(READY))
    made = run("new", "wide", "--from", "wide.csv", "--free-per-day", 10_000, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    is_held, release = Event(), Event()

    async def hold() -> None:
        async with half_indexed(tmp_path, tmp_path / "services" / "wide.toml"):
            is_held.set()
            await asyncio.to_thread(release.wait)

    # The browser has the event loop of this thread.
    with ThreadPoolExecutor(1) as executor:
        holding = executor.submit(asyncio.run, hold())
        try:
            assert is_held.wait(30)
            visitor = visit(root=start_server(home=tmp_path, is_recorded=False).root)
            page = visitor.page
            page.goto(f"{visitor.root}/tables/wide")
            page.get_by_text("Indexing 50%").wait_for()
            assert f"{READY:,} of {ROWS:,} rows are ready" in page.locator("#progress").inner_text()
            page.get_by_text(f"at least {READY} rows").first.wait_for()
            assert page.locator("#rows tr").count() == 100
            assert page.get_by_role("progressbar").get_attribute("value") == str(READY)
            assert not page.get_by_text("Download").is_visible()
            assert visitor.violations() == []
        finally:
            release.set()
            holding.result()
        page.get_by_text(f"{ROWS:,} rows", exact=True).first.wait_for()
        assert page.locator("#progress").is_hidden()
        assert visitor.console_messages == []


def test_front_page_has_a_table_to_search(visit, server):
    visitor = visit()
    visitor.open("/")
    page = visitor.page
    piece = page.locator("section:has(#tables-grid)")
    piece.get_by_role("button", name="books").click()
    rows = piece.locator("#tables-rows th")
    piece.get_by_text("300 rows in books").wait_for()
    assert rows.count() == 6
    search = page.locator("#tables-q")
    search.fill("cell")
    page.get_by_role("option", name="cellar Shelf").wait_for()
    search.press("Escape")
    search.fill("poetry")
    search.press("Enter")
    total = httpx2.get(f"{server.root}/books/api/search?q=poetry&limit=1").json()["total"]
    piece.get_by_text(f"{total} rows in books").wait_for()
    rows.first.get_by_role("link").click()
    page.wait_for_url("**/tables/books/row?id=*")


def test_price_of_a_table_is_on_every_page_that_lists_it(server):
    offered = "10,000 free requests a day, then 0.001 USDC each"
    for path in ("/tables", PAGE):
        assert offered in httpx2.get(f"{server.root}{path}").text


def test_text_of_a_table_is_never_markup(visit):
    visitor = visit()
    visitor.open("/tables/odd")
    assert visitor.page.locator("#rows tr").count() == 3
    assert visitor.page.locator("main b").count() == 0
    assert "</script><b>x</b>" in visitor.page.locator("#rows").inner_text()
