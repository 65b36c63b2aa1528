"""The application's OpenAPI document with the prices of its tolled routes."""

import pytest

from tests.middleware.apps import of_fastapi, of_litestar
from tests.middleware.conftest import UNCLOSED
from tests.middleware.lifespan import running
from tollhouse import Settings, toll
from tollhouse.http.endpoint import Endpoint
from tollhouse.middleware.openapi import priced

pytestmark = pytest.mark.filterwarnings(UNCLOSED)


@pytest.fixture
def settings(data_dir):
    return Settings(data_dir=str(data_dir), background_work=False)


@pytest.mark.parametrize(
    ("make", "path"),
    [(of_fastapi, "/openapi.json"), (of_litestar, "/schema/openapi.json")],
    ids=["FastAPI", "Litestar"],
)
async def test_document_has_the_prices_of_tolled_operations_only(settings, make, path):
    async with running(make(settings)) as client:
        document = (await client.get(path, headers={"Accept-Encoding": "gzip", "If-None-Match": "*"})).json()
        operation = document["paths"]["/forecast/{city}"]["get"]
        assert operation["x-payment-info"]["price"]["amount"] == "0.002"
        assert "0.002 USD" in operation["description"]
        assert {"bearer": []} in operation["security"]
        assert {"200", "401", "402", "429"} <= set(operation["responses"])
        free = document["paths"]["/forecast/latest"]["get"]
        assert not {"x-price", "x-payment-info", "security"} & set(free)
        for reference in references(document):
            node = document
            for part in reference.removeprefix("#/").split("/"):
                node = node[part]
        assert client.headers.get("x-ratelimit-limit") is None


def references(value):
    if isinstance(value, dict):
        for name, one in value.items():
            yield from [one] if name == "$ref" else references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


async def handle(_request):
    raise AssertionError


def endpoint_of(method, path):
    terms = toll("0.25").terms("api")
    return Endpoint("x", method, path, "X", handle, terms, responses={"application/json": {}})


def test_component_with_a_name_of_ours_keeps_its_meaning():
    theirs = {
        "openapi": "3.1.0",
        "info": {"title": "Theirs", "version": "1"},
        "paths": {
            "/a": {"parameters": [], "get": {"operationId": "a", "responses": {"402": {"description": "Theirs"}}}}
        },
        "components": {
            "schemas": {"Problem": {"type": "string"}},
            "securitySchemes": {"bearer": {"type": "mutualTLS"}},
        },
    }
    document = priced(theirs, endpoint_of)
    assert document["components"]["schemas"]["Problem"] == {"type": "string"}
    assert document["components"]["schemas"]["TollhouseProblem"]["type"] == "object"
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "mutualTLS"}
    operation = document["paths"]["/a"]["get"]
    assert operation["security"] == [{}, {"Tollhousebearer": []}]
    assert operation["responses"]["402"] == {"description": "Theirs"}
    assert "#/components/schemas/Problem" not in [
        one for section in ("responses", "headers") for one in references(document["components"].get(section, {}))
    ]


def test_document_without_tolled_operations_stays_as_it_is():
    document = {"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}
    assert priced(document, lambda *_: None) is document
