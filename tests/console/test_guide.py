"""What a reader of the guide does: search, and run its samples as they are printed."""

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
    visitor.check()
    server.stop()


def test_samples_show_the_address_at_which_the_reader_found_the_server(visit, server):
    visitor = visit()
    visitor.open("/guide/start-agent")
    page = visitor.page
    assert page.locator("pre code").first.text_content().startswith(f"curl -sS --fail-with-body {server.root}/llms.txt")
    assert page.locator(".snippet button", has_text="Copy").count() == page.locator(".snippet").count()
    visitor.check_both_layouts()


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
