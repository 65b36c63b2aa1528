"""What describes a whole host at its root: one OpenAPI document, one MCP endpoint, one reference."""

import json
from typing import Any

import pytest

from tests.http.conftest import asgi_client
from tollhouse import app
from tollhouse.config.settings import Settings
from tollhouse.http.host_openapi import ServiceDocument, merge
from tollhouse.services import SERVICES


async def _document(client, path="") -> dict[str, Any]:
    return json.loads((await client.get(f"{path}/openapi.json")).content)


async def test_host_document_has_every_operation_of_every_service(server) -> None:
    whole = await _document(server)
    for name in SERVICES:
        for path, item in (await _document(server, f"/{name}/api"))["paths"].items():
            for method, operation in item.items():
                merged = whole["paths"][f"/{name}{path}"][method]
                assert merged["operationId"] == f"{name}_{operation['operationId']}"
                assert [one["name"] for one in merged.get("parameters", [])] == [
                    one["name"] for one in operation.get("parameters", [])
                ]
    assert whole["paths"]["/api/keys/create"]["post"]["operationId"] == "createKey"
    ids = [operation["operationId"] for item in whole["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    components = {f"#/components/{kind}/{name}" for kind, named in whole["components"].items() for name in named}
    assert set(_references(whole)) <= components
    assert whole["info"]["contact"]


async def test_host_document_is_also_yaml(server) -> None:
    import yaml

    text = (await server.get("/openapi.yaml")).text
    assert yaml.safe_load(text) == await _document(server)


async def test_root_offers_every_tool(server) -> None:
    names, message = set(), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for name in SERVICES:
        tools = (await server.post(f"/{name}/mcp", json=message)).json()["result"]["tools"]
        names |= {f"{name}_{tool['name']}" for tool in tools}
    listed = (await server.post("/mcp", json=message)).json()["result"]["tools"]
    assert {tool["name"] for tool in listed} == names
    assert all(len(name) <= 64 for name in names)
    params = {"name": "studio_getStudioCatalogue", "arguments": {}}
    called = (await server.post("/mcp", json={**message, "method": "tools/call", "params": params})).json()
    assert called["result"]["structuredContent"]["studio"]


async def test_reference_at_the_root_links_to_each_operation(server) -> None:
    page = (await server.get("/docs", headers={"Accept": "text/html"})).text
    for name in SERVICES:
        assert f'href="/guide/reference/{name}"' in page
    assert 'href="/guide/reference/defense#listEvents"' in page
    assert "POST /api/keys/create" in page


async def test_service_at_the_root_has_the_same_documents(data_dir) -> None:
    settings = Settings(data_dir=str(data_dir), recorded=False, background_work=False, service="studio",
                        contact="mailto:api@example.org")  # fmt: skip
    async with app.serving(settings) as gate, asgi_client(gate.handle) as client:
        whole = await _document(client)
        assert whole["paths"]["/api/catalogue"]["get"]["operationId"] == "getStudioCatalogue"
        assert whole["info"]["contact"] == {"email": "api@example.org"}
        assert (await client.get("/discovery/resources")).json()["items"] == []


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [one for value in node for one in _references(value)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [one for value in node.values() for one in _references(value)]


@pytest.mark.parametrize("first", [0, 1])
def test_component_is_shared_only_where_all_it_refers_to_is(first: int) -> None:
    def document(kind: str) -> dict[str, Any]:
        listed = {"type": "array", "items": {"$ref": "#/components/schemas/Item"}}
        answer = {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/List"}}}}
        operation = {"operationId": "list", "responses": {"200": answer}, "security": [{"key": []}]}
        return {
            "paths": {"/items": {"get": operation}},
            "components": {
                "schemas": {"List": listed, "Item": {"type": kind}, "Same": {"type": "null"}},
                "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": kind}},
            },
        }

    parts = [ServiceDocument("a-shop", "/a", document("string")), ServiceDocument("b", "/b", document("number"))]
    merged = merge([parts[first], parts[1 - first]], {"title": "", "version": "1"}, [])
    assert set(merged["components"]["schemas"]) == {"AShopList", "AShopItem", "BList", "BItem", "Same"}
    operation = merged["paths"]["/a/items"]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert merged["components"]["schemas"]["AShopList"]["items"] == {"$ref": "#/components/schemas/AShopItem"}
    assert (schema, operation["operationId"]) == ({"$ref": "#/components/schemas/AShopList"}, "a-shop_list")
    (scheme,) = operation["security"][0]
    assert merged["components"]["securitySchemes"][scheme]["name"] == "string"
