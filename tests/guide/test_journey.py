"""A reader of the guide in a real browser: from the front page to a sample, by search, at every width."""

import pytest


@pytest.mark.parametrize("path", ["/guide", "/guide/settings", "/guide/console", "/guide/reference/mattress"])
def test_page_of_the_guide_is_accessible(visit, path):
    visitor = visit()
    visitor.open(path)
    visitor.check_both_layouts()


def test_reader_goes_from_the_front_page_to_an_operation_and_copies_its_sample(visit):
    visitor = visit()
    page = visitor.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.open("/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Docs").click()
    page.get_by_role("link", name="infra", exact=True).click()
    page.get_by_role("navigation", name="On this page").get_by_role(
        "link", name="List what fails without a company or country"
    ).click()
    assert page.url.endswith("/guide/reference/infra#listChokepoints")
    section = page.locator("section[aria-labelledby=listChokepoints]")
    section.get_by_text("Python", exact=True).click()
    sample = section.locator("details[open] code", has_text="import requests")
    assert "/api/chokepoints?country=Taiwan" in sample.inner_text()
    section.locator(".snippet", has_text="import requests").get_by_role("button").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("import os")
    section.locator("summary", has_text="Problems").click()
    section.get_by_role("link", name="invalid-parameter").click()
    assert page.url.endswith("/problems/invalid-parameter")
    visitor.check()


def test_reference_names_the_address_at_which_the_reader_found_the_server(visit, server):
    visitor = visit()
    visitor.open("/guide/reference/infra")
    assert f"export TOLLHOUSE_URL={server.root}/infra" in visitor.page.locator("article").inner_text()


def test_reader_finds_a_heading_by_its_words(visit):
    visitor = visit(width=390)
    visitor.open("/guide")
    visitor.page.get_by_label("Search the headings").fill("quota exceeded")
    visitor.page.get_by_role("link", name="quota-exceeded").click()
    assert visitor.page.url.endswith("/guide/problems#quota-exceeded")
    visitor.check()


def test_search_without_a_match_says_so(visit):
    visitor = visit()
    visitor.open("/guide")
    visitor.page.get_by_label("Search the headings").fill("zyzzyva")
    visitor.page.get_by_text("No heading contains these words.").wait_for()


def test_page_can_be_read_without_scripts(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server.root}/guide/settings")
    assert page.get_by_role("heading", name="Settings").is_visible()
    assert not page.get_by_text("These pages need JavaScript").is_visible()
    context.close()
