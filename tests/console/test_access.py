"""What every page shares: the drawer at its side, the call behind a view as a program, and the visitor's key."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from urllib.parse import parse_qsl

import httpx2

from tests.http.conftest import OPERATIONS
from tests.journeys.server import free_port
from tollhouse.http.mcp.tools import arguments_of, build_request


def test_drawer_returns_the_focus_stacks_where_asked_and_tells_only_the_reader_s_closing(visit):
    visitor = visit()
    visitor.open("/keys")
    page = visitor.page
    page.evaluate(
        """async () => {
          const { openDrawer, closeDrawer } = await import(document.documentElement.dataset.files + "/drawer.js");
          window.wereClosed = [];
          window.open_ = (title, more = {}) =>
            openDrawer({ title, body: ["Text of " + title], onClose: () => wereClosed.push(title), ...more });
          window.closeDrawer = closeDrawer;
        }"""
    )
    page.get_by_label("Email", exact=True).focus()
    page.evaluate("() => { open_('First'); open_('Second').show('Second, loaded', 'More'); }")
    assert page.get_by_role("dialog").count() == 1
    assert page.get_by_role("dialog", name="Second, loaded").inner_text().endswith("More")
    page.evaluate("() => { open_('Above', { over: true, wide: true }); }")
    visitor.check_both_layouts()
    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Above").wait_for(state="detached")
    page.get_by_role("dialog", name="Second").wait_for()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.mouse.click(4, 400)
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("() => [wereClosed, document.activeElement.id]") == [["Above", "Second"], "new-key-1-email"]
    page.evaluate("() => { open_('Third'); closeDrawer(); }")
    assert page.get_by_role("dialog").count() == 0
    assert page.evaluate("wereClosed.length") == 2


RUN = {
    "curl": ["bash", "-c"],
    "Python": [sys.executable, "-c"],
    "TypeScript": ["node", "--input-type=module", "-e"],
}


def test_stranger_takes_a_view_as_api_with_a_key_made_there_and_every_program_runs_as_printed(visit, start_server):
    port = free_port()
    server = start_server(port=port, public_url=f"http://localhost:{port}")
    visitor = visit(root=server.root)
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visitor.root)
    visitor.open("/keys")
    page = visitor.page
    calls = [
        {"title": "Events", "service": "defense", "path": "/feeds/events",
         "query": {"category": ["Battles"], "min_confidence": 0.1, "limit": 3}},
        {"title": "Products", "service": "mattress", "path": "/api/search",
         "query": {"q": '50% "$HOME" `firm`', "brand": ["A", "B"]}},
        {"title": "Question", "service": "infra", "method": "POST", "path": "/api/infra/chat",
         "body": {"message": "Who's $PATH \"supplier\" of \u201cTSMC\u201d?"}},
    ]  # fmt: skip
    page.evaluate(
        """async (calls) => {
          const { apiButton } = await import(document.documentElement.dataset.files + "/api_call.js");
          document.querySelector("main").prepend(apiButton(() => calls));
        }""",
        calls,
    )
    page.get_by_role("button", name="Get this as API").click()
    drawer = page.get_by_role("dialog", name="Get this as API")
    drawer.get_by_text("2 of 3").wait_for()
    assert "YOUR_KEY" in drawer.get_by_label("Program in curl").inner_text()
    drawer.get_by_role("row", name="Key, plan pro 49 USD a month 10,000 requests a day").wait_for()
    visitor.check_both_layouts()
    drawer.get_by_role("button", name="Create a free key").click()
    drawer.get_by_label("Email").fill("taker@example.org")
    page.keyboard.press("Enter")
    made = drawer.locator("code.key").inner_text()
    drawer.get_by_role("row", name="Your key, plan free free 100 of 100 requests left today").wait_for()
    assert f"Bearer {made[:8]}…{made[-4:]}'" in drawer.get_by_label("Program in curl").inner_text()
    with server.client(made) as client:
        events = client.get("/feeds/events?category=Battles&min_confidence=0.1&limit=3").json()

    def copied(tab: str) -> str:
        drawer.get_by_role("tab", name=tab).click()
        drawer.get_by_role("button", name="Copy", exact=True).first.click()
        drawer.get_by_role("button", name="Copied").wait_for()
        return str(page.evaluate("navigator.clipboard.readText()"))

    def outcome(tab: str) -> str:
        program = copied(tab)
        assert f"http://localhost:{port}/" in program
        done = subprocess.run([*RUN[tab], program], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert json.loads(outcome("curl")) == events
    assert ast.literal_eval(outcome("Python")) == events
    assert events["events"][0]["id"] in outcome("TypeScript")
    # As on a server that is reached over plain http, where there is no clipboard API.
    page.evaluate("Object.defineProperty(window, 'isSecureContext', { value: false })")
    client = json.loads(copied("MCP"))["mcpServers"]["tollhouse-defense"]
    arguments = json.loads(drawer.get_by_label("Arguments of the tool").inner_text())
    assert arguments == {"category": "Battles", "min_confidence": 0.1, "limit": 3}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "listEvents", "arguments": arguments}}
    answer = httpx2.post(client["url"], headers=client["headers"], json=call).json()
    assert answer["result"]["structuredContent"] == events
    for title in ("Products", "Question"):
        drawer.get_by_role("button", name=title).click()
        drawer.get_by_role("tab", name="MCP").wait_for()
        outcomes = {tab: outcome(tab) for tab in RUN}
        answers = [json.loads(outcomes["curl"]), ast.literal_eval(outcomes["Python"])]
        for answer in answers:
            answer.pop("conversation_id", None)
        assert answers[0] == answers[1]
        assert outcomes["TypeScript"]
        assert "th_live_" not in drawer.inner_text()
    visitor.check_load()


def test_arguments_of_a_tool_are_what_builds_the_same_request():
    query = [("limit", "5"), ("share", "0.5"), ("brand", "a"), ("brand", "b c"), ("box", "1.5,2"), ("is_new", "true")]
    path = {"id": "x y"}
    operation = replace(
        next(one for one in OPERATIONS if one.id == "listThings"), path="/things/{id}", path_parameters={"id": {}}
    )
    arguments = arguments_of(operation, path, query, {})
    assert arguments == {"id": "x y", "limit": 5, "share": 0.5, "brand": ["a", "b c"], "box": [1.5, 2], "is_new": True}
    built = build_request(operation, arguments)
    assert (built.path, parse_qsl(built.query.decode())) == ("/things/x%20y", query)
    assert arguments_of(operation, path, [("limit", "many")], {})["limit"] == "many"


def test_key_is_remembered_on_the_device_in_every_tab_until_it_is_forgotten_and_shows_its_days(visit, server):
    made = server.new_key("rememberer@example.org")
    visitor = visit()
    page = visitor.page
    visitor.open("/keys")
    other = page.context.new_page()
    other.goto(f"{server.root}/studio-catalogue")
    assert other.locator(".tools a[href='/keys']").inner_text() == "Get a key"
    page.get_by_label("Existing key").fill(made["api_key"])
    page.get_by_role("button", name="Use this key").click()
    page.get_by_text("No requests in the last 30 days").wait_for()
    assert page.locator(".tools a[href='/keys']").inner_text() == "Your key"
    assert page.evaluate("localStorage.getItem('tollhouse-key')") is None, "by default a tab keeps it"
    page.get_by_label("Remember on this device").last.check()
    other.locator(".tools a", has_text="Your key").wait_for()
    with server.client(made["api_key"]) as client:
        assert client.get("/feeds/events?limit=1").status_code == 200
        assert client.get("/feeds/events?limit=0").status_code == 400
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("slider", name="Requests a day of the last 30 days").wait_for()
    shown = page.locator("#upgrade").inner_text()
    assert f"tollhouse keys set-tier {made['key_id']} pro" in shown
    assert "mailto" not in page.locator("#upgrade").inner_html()
    visitor.check_both_layouts()
    page.get_by_role("button", name="Forget this key").click()
    other.locator(".tools a", has_text="Get a key").wait_for()
    assert page.evaluate("[localStorage.getItem('tollhouse-key'), sessionStorage.getItem('tollhouse-key')]") == [
        None,
        None,
    ]
    other.close()


# What a curious person does in 43 seconds; each is a whole page, which sends more than the action itself would.
ACTIONS = (
    "/", "/board", "/board?view=stories", "/board?view=entities", "/board?view=brief", "/board?category=Battles",
    "/board?country=ET", "/mattresses", "/mattresses?q=firm+queen", "/mattresses?size=Queen", "/mattresses?sort=price",
    "/value-chain", "/studio-catalogue", "/", "/board?q=rocket", "/mattresses?q=latex",
)  # fmt: skip


def test_visit_of_sixteen_actions_meets_no_limit_and_touches_no_allowance(visit, start_server):
    server = start_server(free_per_ip_per_day=1)
    visitor = visit(root=server.root)
    statuses: list[int] = []
    visitor.page.on("response", lambda answer: statuses.append(answer.status))
    for path in ACTIONS:
        visitor.open(path)
    assert max(statuses) < 400, [status for status in statuses if status >= 400]
    assert visitor.console_messages == []
    allowance = httpx2.get(f"{server.root}/mattress/api/products")
    assert (allowance.status_code, allowance.headers["x-ratelimit-remaining"]) == (200, "0")
    budget = httpx2.post(f"{server.root}/console/visit").json()["token"]
    used = httpx2.get(f"{server.root}/mattress/api/products", headers={"X-Visit-Token": budget})
    assert used.headers["x-ratelimit-limit"] == "2000"
    assert int(used.headers["x-ratelimit-remaining"]) >= 2_000 - 6 * len(ACTIONS)
