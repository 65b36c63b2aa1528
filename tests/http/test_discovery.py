"""What an agent finds without being told: the well-known files, at the root for all and under each prefix."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services import SERVICES

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory):
    """The whole application with nothing stored."""
    folder = migrated_copy(tmp_path_factory.mktemp("discovery"))
    settings = Settings(data_dir=str(folder), recorded=False, background_work=False)
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        yield client


async def found(client, path, media_type):
    answer = await client.get(path)
    assert answer.status_code == 200, path
    assert answer.headers["content-type"].startswith(media_type)
    return answer.text


async def test_root_describes_every_service(server):
    catalog = json.loads(await found(server, "/.well-known/api-catalog", "application/linkset+json"))
    assert [entry["anchor"] for entry in catalog["linkset"]] == [*(f"/{name}/" for name in SERVICES), "/"]
    llms = await found(server, "/llms.txt", "text/plain")
    assert llms.startswith("# Tollhouse")
    for name in SERVICES:
        assert f"/{name}/api/openapi.json" in llms
    assert "0.01 USD" in llms


async def test_every_link_of_the_catalogue_leads_somewhere(server):
    catalog = json.loads((await server.get("/.well-known/api-catalog")).content)
    for entry in catalog["linkset"]:
        for relation in ("service-desc", "service-doc", "status"):
            for link in entry[relation]:
                assert (await server.get(link["href"])).status_code == 200, link


@pytest.mark.parametrize("name", list(SERVICES))
async def test_prefix_describes_its_own_service_alone(server, name):
    llms = await found(server, f"/{name}/llms.txt", "text/plain")
    for other in SERVICES:
        assert (f"/{other}/api/openapi.json" in llms) == (other == name)
    card = json.loads(await found(server, f"/{name}/.well-known/agent-card.json", "application/json"))
    assert all(skill["id"].startswith(f"{name}.") for skill in card["skills"])
    assert card["skills"]


async def test_security_contact_is_told_and_not_outdated(server):
    lines = dict(
        line.split(": ", 1) for line in (await found(server, "/.well-known/security.txt", "text/plain")).splitlines()
    )
    # RFC 9116: an address with its scheme, never a web page without TLS, and less than a year from now.
    assert re.fullmatch(r"(mailto:[^@\s]+@[^@\s]+|https://\S+|tel:\S+)", lines["Contact"])
    left = datetime.fromisoformat(lines["Expires"]) - datetime.now(UTC)
    assert timedelta(days=30) < left < timedelta(days=365)


async def test_catalogue_says_by_which_rules_it_is_made(server):
    answer = await server.head("/.well-known/api-catalog")
    assert (
        answer.headers["content-type"] == 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
    )
    assert answer.headers["link"] == '</.well-known/api-catalog>; rel="api-catalog"'


@pytest.mark.parametrize("prefix", ["", *(f"/{name}" for name in SERVICES)])
async def test_agent_card_names_an_endpoint_that_answers(server, prefix):
    card = json.loads((await server.get(f"{prefix}/.well-known/agent-card.json")).content)
    required = {"name", "description", "version", "capabilities", "supportedInterfaces", "defaultInputModes",
                "defaultOutputModes", "skills"}  # fmt: skip
    assert all(card[name] for name in required)
    assert all(set(skill) >= {"id", "name", "description", "tags"} and skill["tags"] for skill in card["skills"])
    (interface,) = card["supportedInterfaces"]
    assert (interface["protocolBinding"], interface["protocolVersion"]) == ("JSONRPC", "1.0")
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "What is there?"}]}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    reply = (await server.post(interface["url"], json=sent)).json()["result"]["message"]
    assert (reply["role"], bool(reply["parts"][0]["text"])) == ("ROLE_AGENT", True)


async def test_unknown_well_known_path_is_a_json_404(server):
    answer = await server.get("/.well-known/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_single_service_describes_itself_at_the_root(data_dir):
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False, service="defense",
                        public_url="https://feeds.example.org", contact="mailto:security@example.org")  # fmt: skip
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        assert "https://feeds.example.org/feeds/events" in (await client.get("/llms.txt")).text
        assert "mailto:security@example.org" in (await client.get("/.well-known/security.txt")).text
