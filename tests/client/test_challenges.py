"""The challenge of every priced operation of every service, as the official SDKs of both languages check it."""

import asyncio
import json
import shutil
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from x402.extensions.bazaar import validate_and_extract, validate_discovery_extension_spec

from tests.http.conftest import asgi_client
from tests.servers.databases import migrated_copy
from tests.services.tables.books import books, declare
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.services import load_settings

VALIDATOR = Path(__file__).parent / "validate_bazaar.mjs"
SELLER = "0x" + "11" * 20
# Nothing is paid here: neither of them is called.
UNREACHABLE = "http://127.0.0.1:9"
LONGEST_HEADER = 8_000
# Another server passes requests below this path on, without it.
ORIGIN, MOUNTED_AT = "https://shop.example.org", "/shop"


# An API of somebody else's, of whose description nothing was written for this.
NODE = {
    "type": "object",
    "required": ["label"],
    "properties": {
        "label": {"type": "string", "nullable": True},
        "below": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
    },
}
FOREIGN = {
    "openapi": "3.0.3", "info": {"title": "Trees", "version": "1"},
    "components": {"schemas": {"Node": NODE}},
    "paths": {
        "/trees/{tree_id}/nodes": {
            "parameters": [{"name": "tree_id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {
                "summary": "Nodes", "parameters": [{"name": "since", "in": "query", "required": True,
                                                    "schema": {"type": "string", "pattern": "^[0-9]{8}$"}}],
                "responses": {"200": {"description": "", "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}},
            },
            "post": {
                "summary": "Add", "requestBody": {"content": {"multipart/form-data": {
                    "schema": {"type": "object", "required": ["file"],
                               "properties": {"file": {"type": "string", "format": "binary"}}}}}},
                "responses": {"201": {"description": ""}},
            },
            "put": {
                "summary": "Replace", "requestBody": {"content": {"application/json": {
                    "schema": {"oneOf": [{"$ref": "#/components/schemas/Node"}, {"type": "string"}]}}}},
                "responses": {"default": {"description": "", "content": {"text/plain": {}}}},
            },
        },
    },
}  # fmt: skip
DECLARED = """title = "Trees"
access = "payer"
price_usd = 0.001

[upstream]
url = "http://127.0.0.1:9"
openapi = "trees.json"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Every service with its bundled data, a table and a proxied API, and one free request a day."""
    folder = tmp_path_factory.mktemp("challenges")
    migrated_copy(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        declare(folder, books(40), free_per_day=1)
    (folder / "services" / "trees.toml").write_text(DECLARED)
    (folder / "services" / "trees.json").write_text(json.dumps(FOREIGN))
    return load_settings(
        None, data_dir=str(folder / "data"), services_dir=str(folder / "services"), background_work=False,
        recorded=True, evm_rpc_url=UNREACHABLE, x402_facilitator_url=UNREACHABLE, x402_pay_to=SELLER,
        free_per_ip_per_day=1, public_url=f"{ORIGIN}{MOUNTED_AT}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def challenges(home) -> list[dict[str, Any]]:
    """What a call without credentials gets: the header of each operation over HTTP, and of each tool."""
    return asyncio.run(_collect(home))


async def _collect(settings: Settings) -> list[dict[str, Any]]:
    collected = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(app.serving(settings))
        client = await stack.enter_async_context(asgi_client(server.handle, ORIGIN))
        for service in json.loads((await client.get("/")).content)["services"]:
            base = service["base_url"].removeprefix(settings.public_url)
            document = (await client.get(f"{base}/api/openapi.json")).json()
            sold = [
                (operation, method, f"{base}{path}")
                for path, item in document["paths"].items()
                for method, operation in item.items()
                if "x-payment-info" in operation
            ]
            # An operation with a price stands twice more, where each call is paid; only one of those is described.
            twins = [
                (operation, method, f"{base}{prefix}{path.removeprefix(base).removeprefix('/x402')}")
                for operation, method, path in sold
                for prefix in ("/siwx", *(["/x402"] if operation["x-price"]["model"] != "request" else []))
            ]
            every = {(method, path): (operation, method, path) for operation, method, path in [*sold, *twins]}
            for operation, method, path in every.values():
                # Nothing is valid about this call: neither its body nor its parameters are read before it is paid.
                answer = await _refused(client, method.upper(), path)
                collected.append(_collected(answer.headers["payment-required"], path, operation["operationId"], method))
            tools = {operation["operationId"] for operation, *_ in sold}
            collected += [one async for one in _tools(client, base, tools)]
    return collected


async def _refused(client: Any, method: str, path: str) -> Any:
    for _ in range(2):
        answer = await client.request(method, path, params={"no": "such parameter"}, content=b"{")
        if answer.status_code == 402:
            return answer
        await client.request(method, path)
    raise AssertionError(f"{method} {path}: {answer.status_code}")


async def _tools(client: Any, base: str, names: set[str]) -> AsyncIterator[dict[str, Any]]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = (await client.post(f"{base}/mcp", json=message)).json()["result"]["tools"]
    for tool in tools:
        if tool["name"] not in names:
            continue
        arguments = dict.fromkeys(tool["inputSchema"].get("required", []), "x")
        params = {"name": tool["name"], "arguments": arguments}
        called = (await client.post(f"{base}/mcp", json={**message, "method": "tools/call", "params": params})).json()
        challenge = called["result"]["structuredContent"]
        assert challenge["x402Version"] == 2, called
        yield {"path": base, "id": tool["name"], "method": "mcp", "size": 0, "challenge": challenge}


def _collected(header: str, path: str, name: str, method: str) -> dict[str, Any]:
    challenge = json.loads(b64decode(header))
    return {"path": path, "id": name, "method": method, "size": len(header), "challenge": challenge}


def test_challenges_fit_the_header_of_every_client(challenges) -> None:
    assert len(challenges) > 30
    assert [one for one in challenges if one["size"] > LONGEST_HEADER] == []


def test_challenges_say_how_to_call_and_what_returns(challenges) -> None:
    for one in challenges:
        extension = one["challenge"]["extensions"]["bazaar"]
        jsonschema.Draft202012Validator.check_schema(extension["schema"])
        jsonschema.validate(extension["info"], extension["schema"])
        assert "$ref" not in json.dumps(extension), one["path"]
        given = extension["info"]["input"]
        if one["method"] == "mcp":
            assert (given["type"], given["toolName"]) == ("mcp", one["id"])
            assert given["inputSchema"]["type"] == "object"
            continue
        assert (given["type"], given["method"].lower()) == ("http", one["method"])
        assert ("bodyType" in given) == (one["method"] in {"post", "put"})
        assert extension["schema"]["properties"]["output"]["properties"]["example"], one["path"]
        if "{" in one["path"]:
            assert extension["routeTemplate"] == MOUNTED_AT + one["path"].replace("{", ":").replace("}", "")
            assert all(given["pathParams"].values())


def test_what_directories_list_is_not_taken_for_a_sign_in(challenges) -> None:
    for one in challenges:
        offers = "sign-in-with-x" in one["challenge"]["extensions"]
        assert not offers or "/x402/" not in one["path"], one["path"]
        assert offers or "/siwx/" not in one["path"], one["path"]


def test_list_of_products_is_described_in_full(challenges) -> None:
    listed = next(one for one in challenges if one["path"] == "/mattress/x402/api/products")
    schema = listed["challenge"]["extensions"]["bazaar"]["schema"]["properties"]
    assert schema["input"]["properties"]["queryParams"]["properties"]["max_price"]["type"] == "number"
    assert schema["output"]["properties"]["example"]["properties"]["products"]["type"] == "array"


def test_official_python_sdk_accepts_each_challenge(challenges) -> None:
    for one in challenges:
        extension = one["challenge"]["extensions"]["bazaar"]
        assert validate_and_extract(extension).errors == [], one["path"]
        assert validate_discovery_extension_spec(extension).errors == [], one["path"]


def test_official_javascript_sdk_accepts_each_challenge(challenges, node_modules, tmp_path) -> None:
    (tmp_path / "node_modules").symlink_to(node_modules)
    shutil.copy(VALIDATOR, tmp_path)
    sent = json.dumps([one["challenge"] for one in challenges])
    ran = subprocess.run(
        ["node", tmp_path / VALIDATOR.name], input=sent, capture_output=True, text=True, timeout=60, check=True
    )
    for one, result in zip(challenges, json.loads(ran.stdout), strict=True):
        assert result["errors"] == [], one["path"]
        if one["method"] == "mcp":
            assert result["listed"]["tool"] == one["id"]
        else:
            template = one["path"].replace("{", ":").replace("}", "")
            assert result["listed"]["url"] == f"{ORIGIN}{MOUNTED_AT}{template}"
            assert result["listed"]["method"] == one["method"].upper()
