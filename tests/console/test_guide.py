"""What a reader of the guide does: search, copy its samples, and run them as they are printed."""

import json
import re

import httpx2
from playwright.sync_api import expect

from tests.guide.quick_starts import PrintedBlock, gone_through, printed_blocks, script
from tests.journeys.server import free_port


def test_agent_developer_runs_each_quick_start_as_printed(visit, start_server, tmp_path):
    """Against a server with another port and `public_url`. tests/guide/test_starts.py runs what needs a chain."""
    port = free_port()
    server = start_server(port=port, public_url=f"http://localhost:{port}")
    visitor = visit(root=server.root)
    ran = {}
    for page, until in (("start-person", ""), ("start-agent", "pay-from-a-wallet")):
        visitor.open(f"/guide/{page}")
        blocks = printed_blocks(visitor.page.content(), until)
        assert any(f"http://localhost:{port}/" in block.text for block in blocks)
        ran[page] = gone_through(script(blocks, tmp_path), tmp_path)
    made = json.loads(ran["start-person"][1])["api_key"]
    assert len(ran["start-person"][7].splitlines()) == 5
    assert "findPaths" in ran["start-agent"][2]
    configured = next(block.text for block in blocks if block.language == "json")
    assert json.loads(configured)["mcpServers"]["infra"]["url"] == f"http://localhost:{port}/infra/mcp"

    # The reference has the key that the browser keeps.
    visitor.key(made)
    visitor.open("/guide/reference/defense")
    page = visitor.page
    page.locator(".filled-key").wait_for()
    setup = page.locator("article > .snippet code").first.text_content()
    assert f"export TOLLHOUSE_KEY={made}" in setup
    curl = page.locator("section[aria-labelledby=listStories] .snippet code").first.text_content()
    (answer,) = gone_through(script([PrintedBlock("sh", f"{setup}\n{curl}", "")], tmp_path), tmp_path)
    assert json.loads(answer)["stories"]
    visitor.check_load()
    server.stop()


def test_samples_show_the_address_at_which_the_reader_found_the_server(visit, server):
    visitor = visit()
    visitor.open("/guide/start-agent")
    page = visitor.page
    assert page.locator("pre code").first.text_content().startswith(f"curl -sS --fail-with-body {server.root}/llms.txt")
    assert page.locator(".snippet button", has_text="Copy").count() == page.locator(".snippet").count()
    visitor.check_load()


def test_reader_finds_a_section_by_its_words(visit, server):
    visitor = visit()
    visitor.open("/guide/changelog")
    page = visitor.page
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search the guide")
    expect(box).to_be_focused()
    page.keyboard.type("used up all")
    page.keyboard.type("owance")
    page.get_by_role("option").first.wait_for()
    visitor.check()
    page.keyboard.press("Enter")
    page.wait_for_url("**/guide/search?q=used+up+allowance")
    found = page.locator(".results li")
    assert found.count() > 2
    words = {word.lower() for word in found.locator("mark").all_inner_texts()}
    assert words
    assert all(re.match("us|up|allow", word) for word in words)
    visitor.check_both_layouts()
    address = found.first.locator("a").get_attribute("href")
    found.first.locator("a").click()
    page.wait_for_url(f"**{address}")
    assert page.locator(address[address.index("#") :]).count() == 1
    page.get_by_role("link", name=re.compile("^Next")).click()
    page.wait_for_url(re.compile(r"/guide/[^#]+$"))
    assert httpx2.get(page.url).status_code == 200


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
    visitor.check_load()


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
