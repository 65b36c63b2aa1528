"""The pages of a host: which there are, their policy, files and navigation."""

import html
import re
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import pytest_asyncio

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.admission.context import open_context
from tollhouse.config.settings import PlanSettings, Settings
from tollhouse.console import page_shell
from tollhouse.services import EVERY_SERVICE, SERVICES

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
CONSOLE = Path(page_shell.__file__).parent
PACKAGE = CONSOLE.parent
FILES = [path for folder in (CONSOLE / "static", *PACKAGE.glob("services/*/pages")) for path in folder.iterdir()]
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
PATHS = {
    "defense": {"/board", "/ask", "/alerts"},
    "mattress": {"/mattresses"},
    "studio": {"/studio-catalogue"},
    "infra": {"/value-chain"},
}
ACCOUNT_PATHS = {"/keys", "/wallet"}
ALL_PATHS = ACCOUNT_PATHS.union(*PATHS.values())
VENDORED = ("topojson-client", "world-atlas")
MOST_VENDORED_BYTES = 1_000_000


# These tests only read, so they share one server and its event loop.
SHARED = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    async with served(migrated_copy(tmp_path_factory.mktemp("served"))) as opened:
        yield opened


@asynccontextmanager
async def served(data_dir, **options: Any):
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False, **options)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client


def addresses(page: str) -> set[str]:
    """Every path of this server that a page links to or loads."""
    return {path.partition("?")[0] for path in re.findall(r'(?:href|src)="(/[^"#]*)"', page)}


@SHARED
async def test_front_page_is_json_for_programs_and_html_for_browsers(client):
    for accept in ({}, {"Accept": "application/json"}, {"Accept": "*/*"}):
        listed = (await client.get("/", headers=accept)).json()
        assert [service["name"] for service in listed["services"]] == list(SERVICES)
    page = await client.get("/", headers=HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in ("defense", "mattress", "infra", "studio"):
        assert f"/{name}/docs" in page.text
    assert "100 requests a day" in page.text
    assert "0.001 USDC" in page.text


@SHARED
async def test_every_page_has_the_strict_policy_and_nothing_inline_and_no_link_is_dead(client):
    for path in ("/", "/problems/rate-limited", "/operator", *ALL_PATHS):
        page = await client.get(path, headers=HTML)
        assert page.status_code == 200, path
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page.text), path
        assert page.text.count("<h1") == 1, path
        for address in addresses(page.text):
            assert (await client.get(address)).status_code == 200, (path, address)


@SHARED
async def test_navigation_shows_where_a_page_under_an_entry_belongs(client):
    page = await client.get("/guide/webhooks", headers=HTML)
    assert re.findall(r'<a href="([^"]+)" aria-current="true"', page.text) == ["/guide"]


@SHARED
async def test_unknown_parameter_of_a_page_is_refused_and_its_own_are_not(client):
    assert (await client.get("/board?category=Battles&country=SD&view=stories")).status_code == 200
    assert (await client.get("/mattresses?brand=A&brand=B&q=firm")).status_code == 200
    assert (await client.get("/board?colour=red")).json()["parameter"] == "colour"


@pytest.mark.parametrize("service", ["defense", "studio", "infra"])
async def test_single_service_has_only_its_own_pages_and_those_of_accounts(data_dir, service):
    async with served(data_dir, service=service) as client:
        assert (await client.get("/", headers=HTML)).status_code == 200
        for path in ALL_PATHS:
            status = (await client.get(path, headers=HTML)).status_code
            assert status == (200 if path in PATHS[service] | ACCOUNT_PATHS else 404), path
        assert (await client.get("/health")).json()["version"]


async def test_every_example_call_of_the_front_page_is_of_an_endpoint(data_dir):
    async with open_context(Settings(data_dir=str(data_dir), recorded=False)) as context:
        services = [await make(context) for make in SERVICES.values()]
    for service in services:
        assert service.front_page
        paths = {endpoint.path for endpoint in service.endpoints if endpoint.method == "GET"}
        for call in service.front_page.example_calls:
            assert call.partition("?")[0] in paths, (service.name, call)


def test_console_names_no_service():
    names = re.compile(rf"\b({'|'.join(EVERY_SERVICE)}|mattresses|/tables|tollhouse\.services)\b", re.IGNORECASE)
    own = [path for path in CONSOLE.rglob("*") if path.is_file() and "vendor" not in path.relative_to(CONSOLE).parts]
    texts = {path: path.read_text("utf-8") for path in own if path.suffix in {".py", ".js", ".css", ".html"}}
    assert len(texts) > 20
    assert {path.name: names.findall(text) for path, text in texts.items() if names.search(text)} == {}


async def test_configured_plan_is_on_the_front_page_and_the_keys_page(data_dir):
    team = PlanSettings(
        requests_per_day=500, requests_per_minute=20, price_usd_month=Decimal(9), entitlements=("chat",)
    )
    async with served(data_dir, plans={"team": team}) as client:
        front = await client.get("/", headers=HTML)
        assert "Team: 500 requests a day for 9 USD a month." in front.text
        keys = html.unescape((await client.get("/keys")).text)
        assert '"tier": "team", "requests_per_day": 500, "requests_per_minute": 20' in keys
        assert '"tier": "team"' in html.unescape((await client.get("/ask")).text)


async def test_host_of_a_service_has_its_pages_and_its_own_health(data_dir):
    async with served(data_dir, hosts={"chain.example": "infra"}) as client:
        there = {"Host": "chain.example"}
        assert (await client.get("/value-chain", headers=there)).status_code == 200
        assert (await client.get("/board", headers=there)).status_code == 404
        assert "company_count" in (await client.get("/health", headers=there)).json()
        assert "company_count" not in (await client.get("/health")).json()


@SHARED
async def test_every_module_a_page_imports_is_served(client):
    page = await client.get("/board", headers=HTML)
    (files,) = set(re.findall(r'data-files="([^"]+)"', page.text))
    for script in (path for path in SCRIPTS if "tables" not in path.parts):
        place = "" if script.is_relative_to(CONSOLE) else f"{script.parent.parent.name}/"
        response = await client.get(f"{files}/{place}{script.name}")
        assert response.headers["content-type"].startswith("text/javascript"), script
        for imported in re.findall(r'from "\./([^"]+)"', response.text):
            assert (script.parent / imported).exists(), (script.name, imported)
        for imported in re.findall(r'from "\.\./([^"]+)"', response.text):
            assert (CONSOLE / "static" / imported).exists(), (script.name, imported)


def test_scripts_never_make_markup_of_text():
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", ".html(", "eval(", "Function("):
            assert way not in text, (script.name, way)


def test_scripts_and_styles_name_no_other_host():
    for file in FILES:
        if file.suffix == ".py" or file.is_dir():
            continue
        for url in re.findall(r"https?://[^\s\"'`)]+", file.read_text("utf-8")):
            # Names of XML vocabularies.
            assert url.startswith(("http://www.w3.org/", "http://graphml.graphdrawing.org/")), (file.name, url)


def test_vendored_files_are_small_and_come_with_licence_and_version():
    folders = [CONSOLE / "vendor" / name for name in VENDORED]
    for folder in folders:
        assert re.fullmatch(r"\d+\.\d+\.\d+\n", (folder / "VERSION").read_text())
        assert (folder / "LICENSE").read_text().startswith("Copyright")
    notice = (CONSOLE.parents[2] / "NOTICE").read_text("utf-8")
    assert all(f"vendor/{name}" in notice for name in VENDORED)
    assert sum(file.stat().st_size for folder in folders for file in folder.iterdir()) < MOST_VENDORED_BYTES


@SHARED
async def test_every_module_that_a_page_imports_is_preloaded_once_and_no_other(client):
    page = (await client.get("/board", headers=HTML)).text
    scripts = re.findall(r'<script type="module" src="([^"]+)"', page)
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]+)"', page)
    assert len(set(preloaded)) == len(preloaded)
    needed, waiting = set(scripts), [*scripts]
    while waiting:
        path = waiting.pop()
        for found in re.findall(r'from "(\.[^"]+)";', (await client.get(path)).text):
            imported = urljoin(path, found)
            waiting += [imported] if imported not in needed else []
            needed.add(imported)
    assert set(preloaded) == needed - set(scripts)


@SHARED
async def test_samples_of_a_call_are_of_the_operation_that_answers_it_and_state_its_terms(client):
    async def samples(path: str, **more: Any) -> Any:
        return await client.post("/console/samples", json={"path": path, "origin": "http://here.example", **more})

    event = (await samples("/feeds/events/a%20b%2Fc", service="defense", query=[["x", "é"]])).json()
    assert event["url"] == "http://here.example/defense/feeds/events/a%20b%2Fc?x=%C3%A9"
    assert event["tool"] == {
        "url": "http://here.example/defense/mcp", "tool": "getEvent", "arguments": {"id": "a b%2Fc", "x": "é"},
    }  # fmt: skip
    assert (event["has_key"], event["access"]["needs_key"], event["access"]["free_per_day"]) == (True, True, None)
    search = (await samples("/api/search", service="mattress", query=[["q", "latex"]])).json()
    assert (search["has_key"], search["access"]["request_usd"], search["access"]["free_per_day"]) == (
        False,
        "0.001",
        100,
    )
    left = search["access"]["free_left"]
    assert (await client.get("/mattress/api/search?q=latex")).status_code == 200
    assert (await samples("/api/search", service="mattress")).json()["access"]["free_left"] == left - 1
    chat = (await samples("/chat", service="defense", method="POST", body={"prompt": "$HOME?"})).json()
    assert (chat["access"]["entitlement"], chat["access"]["minimum_tier"]) == ("chat", "pro")
    assert all("$HOME?" in one["source"] for one in chat["samples"])
    for refused, status in (("/none", 404), ("/chat", 405)):
        assert (await samples(refused, service="defense")).status_code == status
    for wrong in (
        {"service": "none"},
        {"service": "defense", "origin": "http://x`id`"},
        {"service": "defense", "method": "TRACE"},
    ):
        answer = await samples("/chat", **wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-body")
