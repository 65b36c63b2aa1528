"""Directories, unchanged, on a real server: `@agentcash/discovery`, the SDK's Bazaar client, the MCP registry."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.journeys.server import Server

SCRIPT = Path(__file__).parent / "discover.mjs"
SELLER = "0x" + "11" * 20
# Nothing is paid here: neither of them is called.
UNREACHABLE = "http://127.0.0.1:9"
DESCRIBED = ["/defense/x402/feeds/events", "/defense/x402/feeds/events/evt_1", "/defense/x402/chat",
             "/mattress/api/search", "/mattress/catalog/search"]  # fmt: skip
PROBED = ["/defense/x402/feeds/events", "/defense/x402/feeds/events/evt_1", "/defense/x402/chat",
          "/mattress/x402/api/products/p1", "/mattress/x402/catalog/search"]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    settings = {"evm_rpc_url": UNREACHABLE, "x402_facilitator_url": UNREACHABLE, "x402_pay_to": SELLER,
                "recorded": "true", "contact": "mailto:api@example.org"}  # fmt: skip
    server = Server(tmp_path_factory.mktemp("directories"), **settings)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def seen(server, node_modules, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("discover")
    (folder / "node_modules").symlink_to(node_modules)
    shutil.copy(SCRIPT, folder)
    command = ["node", str(folder / SCRIPT.name), server.root, *DESCRIBED, "probe", *PROBED]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def test_directory_lists_every_paid_operation_with_its_price(server, seen) -> None:
    assert seen["found"]["found"] is True
    assert seen["warnings"] == []
    listed = {(one["method"], one["path"]): one for one in seen["found"]["endpoints"]}
    document = httpx2.get(f"{server.root}/openapi.json").json()
    described = {
        (method.upper(), path): one for path, item in document["paths"].items() for method, one in item.items()
    }
    assert listed.keys() == described.keys()
    paid = {name for name, one in listed.items() if one.get("authMode") == "paid"}
    assert paid == {name for name, one in described.items() if "x-payment-info" in one}
    assert {("GET", "/defense/x402/feeds/events"), ("GET", "/mattress/api/search")} <= paid
    assert listed["GET", "/defense/x402/feeds/events"]["price"] == "0.01 USD"
    assert all(listed[name]["protocols"] == ["x402"] and listed[name]["price"] for name in paid)


@pytest.mark.parametrize("paths", [DESCRIBED, PROBED])
def test_directory_checks_paid_operations_without_a_warning(seen, paths) -> None:
    probe = paths is PROBED
    checks = {one["path"]: one for one in seen["checks"] if one["probe"] is probe}
    for path in paths:
        method = "POST" if path.endswith(("/catalog/search", "/chat")) else "GET"
        (checked,) = [one for one in checks[path]["advisories"] if one["method"] == method]
        assert (checked["authMode"], checked["hasSchemas"], checked["warnings"]) == ("paid", True, []), path
        assert not probe or checked["amounts"] == ["10000" if "/defense/" in path else "1000"]


def test_list_of_resources_serves_the_bazaar_client(seen) -> None:
    first, second = seen["pages"]
    assert first["pagination"]["total"] == second["pagination"]["total"] > 20
    urls = [one["resource"] for page in (first, second) for one in page["items"]]
    assert len(set(urls)) == 6
    assert all(one["accepts"][0]["payTo"].lower() == SELLER for one in first["items"])
    assert seen["others"]["items"] == []
    assert {one["extensions"]["bazaar"]["info"]["input"]["type"] for one in seen["tools"]["items"]} == {"mcp"}


def test_every_listed_resource_exists(server) -> None:
    facts = httpx2.get(f"{server.root}/.well-known/x402").json()
    for url in facts["resources"]:
        allowed = httpx2.request("OPTIONS", url).headers["allow"]
        method = "POST" if "POST" in allowed else "GET"
        # No credentials, no body, no parameters: the challenge comes first.
        assert httpx2.request(method, url).status_code == 402, url
    for link in ("openapi", "instructions", "discovery"):
        assert httpx2.get(facts[link]).status_code == 200


def test_entry_for_the_mcp_registry_keeps_its_limits(server) -> None:
    entry = httpx2.get(f"{server.root}/server.json", headers={"Host": f"127.0.0.1:{server.port}"}).json()
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    (remote,) = entry["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", f"{server.root}/mcp")
    assert entry["$schema"].endswith("/2025-12-11/server.schema.json")
