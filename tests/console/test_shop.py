"""What a shopper does: search in words, narrow, compare, and leave by a link to a shop."""

import re
from typing import Any

import httpx2
from playwright.sync_api import Page, expect

SEARCH = "/mattresses?q=queen+without+latex+under+1500+with+a+helicopter"
MISTYPED = "/mattresses?brand=Watlerest&max_price=cheap&firmness_min=6"


def prices(page: Page) -> list[float]:
    return [float(text.strip("$").replace(",", "")) for text in page.locator("#goods .price strong").all_inner_texts()]


def leave_by_shop_link(page: Page, root: str, product: dict[str, Any]) -> None:
    """The link has the name of the shop, and leads to the product's address there."""
    shops = httpx2.get(f"{root}/mattress/api/retailers").json()
    (shop,) = [one["name"] for one in shops["retailers"] if one["id"] == product["retailer"]]
    link = page.get_by_role("link", name=f"View at {shop}: {product['title']}")
    assert link.get_attribute("href") == product["affiliate_url"]
    assert set(link.get_attribute("rel").split()) == {"sponsored", "nofollow", "noopener", "noreferrer"}
    assert page.locator("#comparison .disclosure").is_visible()
    assert "fictional" in page.locator("#comparison").inner_text()
    followed: list[str] = []
    page.context.route("**/*", lambda route: (followed.append(route.request.url), route.fulfill(body="the shop")))
    with page.context.expect_page() as opened:
        link.click()
    opened.value.wait_for_load_state()
    opened.value.close()
    page.context.unroute_all()
    assert followed[0] == product["affiliate_url"]


def test_shopper_compares_and_leaves_by_a_shop_link(visit, server):
    visitor = visit()
    visitor.open("/")
    page = visitor.page
    assert page.locator("#mattress-goods .sparkline").count() > 0
    page.get_by_label("Search mattresses in plain words").fill("firm queen in stock")
    page.locator("#mattress-search").get_by_role("button", name="Search").click()
    page.locator("#mattress-chips").get_by_text("firmness from 7").wait_for()
    assert page.locator("#mattress-goods .shop-link").count() == 4
    page.locator("#mattress-all").click()
    page.wait_for_url("**/mattresses?q=firm+queen+in+stock")
    visitor.settle()
    page.get_by_label("Sort").select_option("price")
    page.wait_for_url("**sort=price**")
    visitor.settle()
    assert prices(page) == sorted(prices(page))
    # With include=price_history, the list needs no request for each product.
    listed = page.evaluate(
        "performance.getEntriesByType('resource').map((one) => one.name).filter((one) => one.includes('/api/'))"
    )
    assert not [url for url in listed if re.search(r"/api/products/[^?]", url)]

    for place in (0, 1, 2):
        page.get_by_label(re.compile("^Compare ")).nth(place).check()
    tray = page.get_by_label("Products to compare")
    assert "3 of 4" in tray.inner_text()
    chosen = page.url
    visitor.check()
    tray.get_by_role("button", name=re.compile("from the comparison")).last.click()
    expect(tray).to_contain_text("2 of 4")
    page.go_back()
    expect(tray).to_contain_text("3 of 4")
    assert page.url == chosen
    tray.get_by_role("link", name="Compare").click()
    page.wait_for_url("**compare=**")
    table = page.get_by_role("table")
    table.wait_for()
    expect(page.get_by_role("heading", name="Comparison")).to_be_focused()
    identities = re.search(r"compare=([^&]*)", page.url)[1].replace("%2C", ",").split(",")
    products = {
        one["id"]: one
        for one in httpx2.get(f"{server.root}/mattress/api/products", params={"id": identities}).json()["products"]
    }
    cheapest = min(products.values(), key=lambda one: one["sale_price"])
    row = table.get_by_role("row", name=re.compile("^Price AUD"))
    shown = [cell.replace("lowest", "").strip() for cell in row.get_by_role("cell").all_inner_texts()]
    assert [float(text.strip("$").replace(",", "")) for text in shown] == [
        products[one]["sale_price"] for one in identities
    ]
    assert "different" in (row.get_attribute("class") or "")
    assert row.locator(".badge").count() >= 1
    assert table.get_by_role("row", name=re.compile("^Size")).get_attribute("class") is None
    page.get_by_label("Only differences").check()
    page.wait_for_url("**rows=different**")
    expect(table.get_by_role("row", name=re.compile("^Size"))).to_have_count(0)
    visitor.check_both_layouts()

    leave_by_shop_link(page, server.root, cheapest)


def test_suggestions_narrow_to_a_filter_and_open_a_product_with_its_prices(visit):
    visitor = visit()
    visitor.open("/mattresses")
    page = visitor.page
    box = page.get_by_role("combobox", name="What are you looking for?")
    box.press_sequentially("wat")
    page.get_by_role("option", name=re.compile("^Wattlerest Brand")).wait_for()
    visitor.check()
    box.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") == page.get_by_role("option").first.get_attribute("id")
    box.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    box.press("ArrowDown")
    page.get_by_role("option").first.wait_for()
    box.press("ArrowDown")
    box.press("Enter")
    page.wait_for_url("**brand=Wattlerest**")
    visitor.settle()
    size = page.get_by_role("group", name="Size").locator("label", has_text=re.compile("^Queen"))
    count = int(size.locator(".count").inner_text())
    size.get_by_role("checkbox").check()
    page.wait_for_url("**size=Queen**")
    visitor.settle()
    assert page.locator("#found").inner_text() == f"{count} mattresses"
    assert "fictional" in page.locator("#made-up").inner_text()
    page.locator("#goods h3 a").first.click()
    drawer = page.get_by_role("dialog")
    drawer.locator("h3", has_text="Price history").wait_for()
    assert (
        drawer.get_by_role("row", name=re.compile("^Firmness"))
        .get_by_text("stated by the retailer's feed")
        .is_visible()
    )
    assert drawer.locator(".offers-by-size [aria-current]").count() == 1
    assert drawer.get_by_role("link", name=re.compile("^View at")).is_visible()
    assert "fictional" in drawer.locator(".notice").inner_text()
    assert visitor.violations() == []
    page.reload()
    drawer.locator("h3", has_text="Sizes and shops").wait_for()
    drawer.get_by_role("button", name="Close").click()
    expect(page).not_to_have_url(re.compile("product="))
    visitor.check_load()


def test_filters_read_from_a_text_are_shown_and_each_can_be_removed(visit):
    visitor = visit()
    visitor.open(SEARCH)
    page = visitor.page
    chips = page.get_by_role("group", name="Filters that apply")
    assert chips.locator("b").all_inner_texts() == ["Queen", "not latex", "up to $1,499.99"]
    assert "from “under 1500”" in chips.inner_text()
    assert "Not used: “helicopter”" in chips.inner_text()
    before = page.locator("#found").inner_text()
    # The filters show what was read, and changing one keeps the rest of it.
    queen, king = (page.locator(f"#size-{size}") for size in ("Queen", "King"))
    expect(queen).to_be_checked()
    assert page.get_by_label("Price: to").input_value() == "1499.99"
    assert page.locator("#sort option").first.inner_text() == "Price, low first"
    king.check()
    page.wait_for_url("**material_not=latex**")
    visitor.settle()
    assert chips.locator("b").all_inner_texts()[:2] == ["Queen", "King"]
    page.go_back()
    visitor.settle()
    page.get_by_role("button", name="Remove filter: not latex").click()
    page.wait_for_url("**size=Queen**")
    visitor.settle()
    assert chips.locator("b").count() == 2
    assert "material_not" not in page.url
    assert page.locator("#found").inner_text() != before
    page.go_back()
    visitor.settle()
    assert chips.locator("b").count() == 3
    visitor.check_load()


def test_mistyped_filters_stay_with_a_message_and_the_others_apply(visit):
    visitor = visit()
    visitor.open(MISTYPED)
    page = visitor.page
    chips = page.get_by_role("group", name="Filters that apply")
    wrong = chips.locator(".wrong")
    assert wrong.count() == 2
    assert "must be a number. Not applied." in wrong.filter(has_text="cheap").inner_text()
    assert "max_price=cheap" in page.url
    wrong.get_by_role("link", name="Wattlerest").click()
    page.wait_for_url("**brand=Wattlerest**")
    visitor.settle()
    assert page.locator("#goods .product-card").count() > 0
    assert chips.get_by_text("firmness from 6").is_visible()
    assert visitor.violations() == []
    # The browser itself reports the refused request; the page has nothing to add.
    visitor.console_messages.clear()
    visitor.open("/mattresses?compare=nobody.nothing,coastal-kip.wattlerest-cove-queen,c.3,d.4,e.5")
    assert "Left out: e.5." in page.locator("#comparison").inner_text()
    visitor.open("/mattresses?compare=nobody.nothing,coastal-kip.wattlerest-cove-queen")
    assert "nobody.nothing" in page.get_by_role("alert").inner_text()
    assert page.get_by_role("columnheader").count() == 1
    visitor.check_load()


def test_used_up_budget_is_explained(visit, start_server):
    server = start_server("mattress", console_free=2)
    visitor = visit(root=server.root, width=390)
    visitor.open("/mattresses")
    assert visitor.page.locator("#goods .shop-link").count() > 0
    visitor.open("/mattresses?q=latex")
    assert "Try again" in visitor.page.get_by_role("alert").inner_text()
    assert visitor.violations() == []
    server.stop()
