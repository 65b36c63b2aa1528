"""`Host`, and what pages of other origins may do: refused before any work, and open where it should be."""

import json

import pytest
import pytest_asyncio

from tests.http.conftest import asgi_client
from tests.http.test_guard import Conversation
from tests.servers.databases import migrated_copy
from tollhouse import app
from tollhouse.config.settings import Settings

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
# What the official clients send: x402 of both versions, and the TypeScript SDK of MCP.
SENT_BY_CLIENTS = ("access-control-expose-headers,payment-signature", "x-payment,access-control-expose-headers",
                   "authorization,content-type,mcp-protocol-version,mcp-session-id", "last-event-id",
                   "x-agent-address, x-agent-nonce, x-agent-signature", "sign-in-with-x")  # fmt: skip
READ_BY_CLIENTS = ("payment-required", "payment-response", "x-payment-response", "mcp-session-id", "www-authenticate",
                   "x-ratelimit-limit", "x-ratelimit-remaining", "ratelimit", "ratelimit-policy", "retry-after",
                   "x-request-id", "etag", "x-credits-tier")  # fmt: skip
SHARED = pytest.mark.asyncio(loop_scope="module")


async def asked(gate, hosts, version="1.1"):
    """The status and the problem of a request with these `Host` headers."""
    conversation = Conversation(gate, path="/things", method="GET")
    conversation.scope["headers"] = [(b"host", host.encode("latin-1")) for host in hosts]
    conversation.scope["http_version"] = version
    return await conversation.tell([b""])


@pytest.mark.parametrize(
    "hosts",
    [
        (), ("",), ("a", "b"), ("a", "a"), ("a, b",), ("a b",), ("a/b",), ("user@a",), ("a:port",), ("a:65536",),
        ("a:-1",), ("[::1",), ("[::g]",), ("::1",), ("[]",), ("a?b",), ("a#b",), ("\xe9",), ("<a>",), ("a\\b",),
    ],
)  # fmt: skip
async def test_request_without_exactly_one_valid_host_is_refused(gate, hosts):
    status, problem = await asked(gate, hosts)
    assert (status, problem["code"]) == (400, "invalid-request")
    assert "Host" in problem["detail"]


@pytest.mark.parametrize("host", ["a", "A.example.org:8000", "a.", "127.0.0.1", "[::1]:8000", "[2001:db8::1]", "a_b:",
                                  "a:65535", "xn--bcher-kva.example", "203.0.113.7"])  # fmt: skip
async def test_every_valid_host_is_served(gate, host):
    assert (await asked(gate, (host,)))[0] == 200


@pytest.mark.parametrize(("version", "status"), [("1.0", 200), ("1", 200), ("1.1", 400), ("2", 400)])
async def test_only_http_1_0_may_leave_the_host_out(gate, version, status):
    """Granian names version 1.0 so, and gives an empty `Host` where there is none."""
    assert (await asked(gate, (), version))[0] == status
    assert (await asked(gate, ("",), version))[0] == status
    assert (await asked(gate, ("a", "b"), version))[0] == 400


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory):
    folder = migrated_copy(tmp_path_factory.mktemp("hosts"))
    settings = Settings(data_dir=str(folder), recorded=False, background_work=False, service="mattress",
                        public_url="https://api.example.org", allowed_hosts=("tollhouse.internal",))  # fmt: skip
    async with app.serving(settings) as gate, asgi_client(gate.handle, "http://127.0.0.1:8000") as opened:
        yield opened


@SHARED
@pytest.mark.parametrize("hosts", [(), ("a", "b")])
async def test_bad_host_is_refused_on_every_path_and_uses_no_allowance(client, hosts):
    left = (await client.get("/api/products?limit=1")).headers["x-ratelimit-remaining"]
    gate = client._transport.app.__self__
    for path in ("/", "/health", "/api/products", "/operator", "/metrics", "/nothing"):
        conversation = Conversation(gate, path=path, method="GET")
        conversation.scope["headers"] = [(b"host", host.encode()) for host in hosts]
        status, problem = await conversation.tell([b""])
        assert (status, problem["code"]) == (400, "invalid-request"), path
    assert int((await client.get("/api/products?limit=1")).headers["x-ratelimit-remaining"]) == int(left) - 1


@SHARED
@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "127.0.0.1:8000", 200), (None, "any.name.example", 200),
        ("https://shop.example", "127.0.0.1:8000", 200), ("https://shop.example", "api.example.org", 200),
        ("https://shop.example", "tollhouse.internal:8000", 200), ("null", "localhost:8000", 200),
        # Its owner pointed the page's own name at this machine.
        ("http://evil.example:8000", "evil.example:8000", 403), ("null", "evil.example:8000", 403),
        ("http://127.0.0.1:8000", "evil.example:8000", 403), ("not an origin", "127.0.0.1:8000", 403),
    ],
)  # fmt: skip
async def test_mcp_takes_pages_of_any_origin_but_none_that_was_led_here_by_another_name(client, origin, host, status):
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    answer = await client.post("/mcp", json=INITIALIZE, headers=headers)
    assert answer.status_code == status
    assert status == 200 or answer.json()["code"] == "origin-not-allowed"


@SHARED
@pytest.mark.parametrize("path", ["/api/products", "/mcp", "/api/keys/create"])
@pytest.mark.parametrize("requested", SENT_BY_CLIENTS)
async def test_page_of_another_origin_may_send_every_header(client, path, requested):
    method = "POST" if path != "/api/products" else "GET"
    preflight = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": requested}
    answer = await client.options(path, headers={"Origin": "https://shop.example", **preflight})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert method in answer.headers["access-control-allow-methods"].split(", ")
    allowed = {name.strip() for name in answer.headers["access-control-allow-headers"].split(",")}
    assert {name.strip() for name in requested.split(",")} <= allowed


@SHARED
async def test_header_names_are_checked_before_they_are_repeated(client):
    answer = await client.options("/api/products", headers={"Access-Control-Request-Headers": "a b; c"})
    assert answer.headers["access-control-allow-headers"] == "*, Authorization"


@SHARED
async def test_page_of_another_origin_may_read_what_clients_need(client):
    for answer in (await client.get("/api/products?limit=1"), await client.post("/mcp", json=INITIALIZE),
                   await client.get("/api/products?colour=red")):  # fmt: skip
        exposed = {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}
        assert set(READ_BY_CLIENTS) <= exposed
    assert json.loads(answer.content)["parameter"] == "colour"
