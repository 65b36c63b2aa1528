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


def test_page_can_be_read_without_scripts(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server.root}/guide/settings")
    assert page.get_by_role("heading", name="Settings").is_visible()
    assert not page.get_by_text("These pages need JavaScript").is_visible()
    page.get_by_label("Search the guide").fill("quota exceeded")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="quota-exceeded").click()
    assert page.url.endswith("/guide/problems#quota-exceeded")
    page.goto(f"{server.root}/guide/search?q=zyzzyva")
    assert page.get_by_text("No section of the guide has these words.").is_visible()
    context.close()
