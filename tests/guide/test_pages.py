"""The guide as it is served: every page of the documentation, every operation, on every host, and nothing else."""

import html
import re
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from tests.guide.documents import ROOT
from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.console import guide
from tollhouse.console.markdown import highlight, render
from tollhouse.console.reference import described_endpoints
from tollhouse.http.code_samples import lacking
from tollhouse.services import EVERY_SERVICE, SERVICES

ADDRESS = re.compile(r'(?:href|src)="(/[^"]*)"')


# These tests only read, so they share one server and its event loop.
SHARED = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    async with served(migrated_copy(tmp_path_factory.mktemp("served"))) as opened:
        yield opened


@asynccontextmanager
async def served(folder, **options: Any):
    settings = Settings(data_dir=str(folder), recorded=False, background_work=False, **options)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client


def addresses(page: str) -> set[str]:
    return set(ADDRESS.findall(page))


def ids(page: str) -> list[str]:
    return re.findall(r'\sid="([^"]+)"', page)


def test_every_page_of_the_documentation_has_its_place_in_the_guide():
    folder = guide.docs_folder()
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")} | {"changelog"}
    assert sorted(guide.page_names()) == sorted(files)


@SHARED
async def test_every_page_is_served_whole_and_none_of_its_links_is_dead(client):
    listed = addresses((await client.get("/guide")).text)
    paths = [guide.page_path(name) for name in guide.page_names()]
    paths += [f"/guide/reference/{name}" for name in SERVICES]
    assert set(paths) <= listed
    known: dict[str, str] = {}
    for path in ["/guide", *paths]:
        page = await client.get(path)
        assert page.status_code == 200, path
        assert page.text.count("<h1") == 1, path
        assert len(ids(page.text)) == len(set(ids(page.text))), path
        known[path] = page.text
    for path in ["/guide", *paths]:
        text = known[path]
        for address in addresses(text):
            target, _, anchor = address.partition("#")
            if target not in known:
                answer = await client.get(target)
                assert answer.status_code == 200, (path, address)
                known[target] = answer.text if target.startswith(("/guide", "/problems")) else ""
            assert not anchor or anchor in ids(known[target]), (path, address)
        for anchor in re.findall(r'href="#([^"]+)"', text):
            assert html.unescape(anchor) in ids(html.unescape(text)), (path, anchor)


@SHARED
async def test_pages_allow_no_script_or_style_but_the_servers_files(client):
    for path in ("/guide", "/guide/settings", "/guide/quality", "/guide/reference/mattress"):
        page = await client.get(path)
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page.text), path


@SHARED
async def test_page_that_the_reader_has_already_is_not_sent_again(client):
    for path in ("/guide", "/guide/settings", "/guide/reference/infra", "/guide/changelog"):
        first = await client.get(path)
        again = await client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/guide/nothing", "/guide/decisions/nothing", "/guide/reference/nothing", "/guide/..%2fREADME",
     "/guide/settings.md", "/guide/screenshots/nothing.png", "/guide/decisions%2f0001-the-gate-speaks-asgi"],
)  # fmt: skip
@SHARED
async def test_page_that_is_not_there_is_a_problem(client, path):
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_host_of_one_service_has_the_guide_and_that_reference_alone(data_dir):
    async with served(data_dir, hosts={"chain.example": "infra"}) as client:
        there = {"Host": "chain.example"}
        assert (await client.get("/guide/settings", headers=there)).status_code == 200
        assert (await client.get("/guide/reference/infra", headers=there)).status_code == 200
        assert (await client.get("/guide/reference/defense", headers=there)).status_code == 404


@SHARED
async def test_reference_tells_of_every_operation_what_it_costs_and_how_to_call_it(client):
    for name in SERVICES:
        page = (await client.get(f"/guide/reference/{name}")).text
        text = html.unescape(re.sub(r"<[^>]*>", "", page))
        document = (await client.get(f"/{name}/api/openapi.json")).json()
        for path, item in document["paths"].items():
            if path.startswith("/x402/"):
                assert path not in text
                continue
            for method, operation in item.items():
                assert operation["operationId"] in ids(page), operation["operationId"]
                assert f"{method.upper()} {path}" in text
                assert len(operation["x-codeSamples"]) == 3
                for sample in operation["x-codeSamples"]:
                    assert sample["source"] in text, (operation["operationId"], sample["label"])
        assert "/problems/invalid-parameter" in page


async def test_every_operation_declares_an_example_of_all_it_needs(data_dir):
    settings = Settings(data_dir=str(data_dir), recorded=False)
    async with open_context(settings) as context:
        services = [await make(context) for make in EVERY_SERVICE.values()]
    operations = [one for service in services for one in described_endpoints(service)]
    assert len(operations) > 60
    assert {one.id: lacking(one) for one in operations if lacking(one)} == {}


@SHARED
async def test_guide_is_found_from_the_front_page_and_by_agents(client):
    front = await client.get("/", headers={"Accept": "text/html"})
    assert 'href="/guide"' in front.text
    assert "/guide/start-agent" in (await client.get("/llms.txt")).text
    linkset = (await client.get("/.well-known/api-catalog")).json()["linkset"]
    for one in linkset:
        named = [link["href"] for link in one["service-doc"]]
        assert any("/guide/reference/" in address for address in named)
        for address in named:
            assert (await client.get(address)).status_code == 200


def results(answer: Any) -> dict[str, dict[str, Any]]:
    return {one["address"]: one for one in answer.json()["results"]}


@SHARED
async def test_search_finds_the_words_of_pages_and_operations_and_shows_them(client):
    asks = {"Accept": "application/json"}
    quota = results(await client.get("/guide/search", params={"q": "quota exceeded"}, headers=asks))
    assert next(iter(quota)) == "/guide/problems#quota-exceeded"
    # Any inflected form, and the beginning of the last word.
    replayed = results(await client.get("/guide/search", params={"q": "replays of delivery"}, headers=asks))
    assert any(address.startswith("/guide/webhooks") for address in replayed)
    chokepoints = results(await client.get("/guide/search", params={"q": "what fails without a comp"}, headers=asks))
    found = chokepoints["/guide/reference/infra#listChokepoints"]
    assert found["page"] == "infra: API reference"
    matched = [piece["text"].lower() for one in quota.values() for piece in one["excerpt"] if piece["is_match"]]
    assert matched
    assert all(word.startswith(("quota", "exceed")) for word in matched)
    assert (await client.get("/guide/search", params={"q": "zzzyx"}, headers=asks)).json()["count"] == 0
    some = (await client.get("/guide/search", params={"q": "quota zzzyx"}, headers=asks)).json()
    assert (some["has_every_word"], some["count"] > 0) == (False, True)
    page = (await client.get("/guide/search", params={"q": "quota exceeded"})).text
    assert 'href="/guide/problems#quota-exceeded"' in page
    assert "<mark>" in page
    assert "<b>" not in (await client.get("/guide/search", params={"q": 'x"><b>'})).text
    answer = await client.get("/guide/search", params={"q": "x" * 201})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "q")


async def test_samples_name_this_server_and_its_services_but_not_a_server_of_ones_own(data_dir):
    async with served(data_dir, public_url="https://feeds.example", hosts={"shop.example": "mattress"}) as client:
        page = html.unescape(re.sub(r"<[^>]*>", "", (await client.get("/guide/start-agent")).text))
        assert '"url": "https://feeds.example/infra/mcp"' in page
        assert "127.0.0.1:8000" not in page
        assert "127.0.0.1:8000" in (await client.get("/guide/start-operator")).text
        reference = (await client.get("/guide/reference/defense")).text
        assert "=https://feeds.example/defense" in reference
        assert '<span data-fill="key">th_live_…</span>' in reference
        assert 'data-fill="address"' not in reference
        alone = (await client.get("/guide/mattress", headers={"Host": "shop.example"})).text
        assert re.search(r'<span data-fill="address">[^<]*</span>/api/products\?', alone)
    async with served(data_dir) as client:
        assert (
            '<span data-fill="address">http://127.0.0.1:8000</span>/infra/mcp'
            in (await client.get("/guide/start-agent")).text
        )


@SHARED
async def test_pages_follow_each_other_to_the_changelog(client):
    first = guide.page_path(guide.page_names()[0])
    seen = [first]
    while following := re.search(r'rel="next" href="([^"]+)"', (await client.get(seen[-1])).text):
        seen.append(following[1])
    assert {guide.page_path(name) for name in guide.page_names()} <= set(seen)
    assert len(seen) == len(set(seen))
    changes = (await client.get("/guide/changelog")).text
    assert 'id="unreleased"' in changes
    assert 'href="/guide/security"' in changes


def test_code_is_highlighted_without_changing_it():
    code = 'curl -sS "http://x/<y>" # a & b\nexport A=1\n'
    shown = highlight(code, "sh")
    assert html.unescape(re.sub(r"<[^>]*>", "", shown)) == code.rstrip()
    assert '<span class="tok-keyword">curl</span>' in shown
    assert '<span class="tok-comment"># a &amp; b' in shown
    assert highlight("a < b", "text") == highlight("a < b", "no-such-language") == "a &lt; b"


def test_markup_in_a_page_is_shown_and_never_passed_on():
    made = render("# A <b>\n\n<script>alert(1)</script> [x](javascript:alert(1)) ![y](javascript:z)").body
    assert "<script" not in made
    assert "<b>" not in made
    assert 'href="javascript' not in made
    assert 'src="javascript' not in made


def test_links_of_a_page_lead_to_pages_pictures_and_no_other_file():
    decision = guide.page_groups()[-1].pages[0]
    resolve = guide.resolve_links_of(decision)
    assert resolve("../settings.md#a", "x") == ("/guide/settings#a", "x")
    assert resolve(f"{decision.partition('/')[2]}.md", "x") == (f"/guide/{decision}", "x")
    assert resolve("../screenshots/board.png", "") == ("/guide/screenshots/board.png", "")
    assert resolve("../../README.md", "x") == ("/guide", "x")
    assert resolve("../../src/tollhouse/app.py", "x") == (None, "x")
    assert resolve("../../../etc/passwd", "x") == (None, "x")
    assert resolve("https://example.org/x.md", "x") == ("https://example.org/x.md", "x")


def test_link_that_is_called_like_a_file_is_called_like_its_page():
    made = render("See [ledger.md](ledger.md) and [here](ledger.md).", guide.resolve_links_of("agents"))
    assert 'See <a href="/guide/ledger">The ledger</a> and <a href="/guide/ledger">here</a>.' in made.body


def test_headings_of_one_text_get_anchors_of_their_own():
    text = render("# The page\n\n## Twice\n\n## Twice\n\n### `code` & more")
    assert [heading.anchor for heading in text.headings] == ["the-page", "twice", "twice-1", "code--more"]


def test_every_picture_of_the_documentation_is_served():
    assert list((ROOT / "docs" / "screenshots").glob("*.png"))
    assert {path.suffix for path in (ROOT / "docs" / "screenshots").iterdir()} == {".png"}


@pytest.mark.parametrize(("path", "page"), [("/defense", "/board"), ("/studio", "/studio-catalogue")])
async def test_address_of_a_service_leads_people_to_its_page_and_programs_to_its_documents(client, path, page):
    shown = await client.get(path, headers={"Accept": "text/html"})
    assert (shown.status_code, shown.headers["location"]) == (303, page)
    listed = (await client.get(path)).json()
    assert (listed["name"], listed["openapi"]) == (path[1:], f"{path}/api/openapi.yaml")
    assert (await client.get(listed["openapi"])).status_code == 200
