"""The description is valid OpenAPI 3.1 and says of every operation what a caller must know."""

import json
import re

import jsonschema_rs
import pytest
import yaml

from tollhouse.http.openapi import price_sentence
from tollhouse.http.terms import free_then_paid

METHODS = {"get", "post", "patch", "delete"}


def operations(document):
    return [
        (path, method, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def target(document, reference):
    node = document
    for part in reference.removeprefix("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def responses_of(document, operation):
    return {
        status: target(document, one["$ref"]) if "$ref" in one else one
        for status, one in operation["responses"].items()
    }


def validator(document, schema):
    """The schema with the components it may refer to."""
    whole = {**schema, "components": document["components"]}
    return jsonschema_rs.Draft202012Validator(whole)


def test_document_says_what_it_is(description):
    assert description["openapi"] == "3.1.0"
    assert description["info"]["version"] == "2.0"
    assert description["info"]["title"]
    assert description["servers"] == [{"url": "/defense"}]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/feeds/events", "get"), ("/feeds/events/{id}", "get"), ("/api/keys/create", "post"), ("/api/keys/verify", "get"),
     ("/api/keys/rotate", "post"), ("/api/keys/revoke", "post"), ("/health", "get"), ("/api/openapi.json", "get"),
     ("/api/openapi.yaml", "get")],
)  # fmt: skip
def test_operation_is_described(description, path, method):
    assert method in description["paths"][path]


def test_every_reference_leads_somewhere(description):
    found = set(references(description))
    assert found
    for reference in found:
        assert reference.startswith("#/")
        assert target(description, reference)


def test_every_schema_is_a_json_schema(description):
    for schema in description["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    for _, _, operation in operations(description):
        for parameter in operation["parameters"]:
            jsonschema_rs.meta.validate(parameter["schema"])


def test_operation_ids_are_unique_and_tags_are_declared(description):
    ids = [operation["operationId"] for _, _, operation in operations(description)]
    assert len(ids) == len(set(ids))
    declared = {tag["name"] for tag in description["tags"]}
    assert {tag for _, _, operation in operations(description) for tag in operation["tags"]} <= declared


def test_every_operation_tells_summary_price_and_statuses(description):
    for path, method, operation in operations(description):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert "Price:" in operation["description"], where
        assert operation["x-price"]["model"] in {"free", "plan", "request"}, where
        statuses = set(operation["responses"])
        assert {"200", "400", "500", "503"} <= statuses, where
        assert ("304" in statuses) == (method == "get"), where
        for status, response in responses_of(description, operation).items():
            assert response["description"], f"{where} {status}"
            if int(status) >= 400:
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}


def test_keyed_operations_tell_what_may_refuse_them(description):
    for path, method, operation in operations(description):
        if operation["security"]:
            assert {"401"} <= set(operation["responses"]), path
            assert "WWW-Authenticate" in responses_of(description, operation)["401"]["headers"]
        if operation["x-price"]["model"] == "plan":
            signed = {"agentAddress": [], "agentNonce": [], "agentSignature": []}
            is_for_agents = "agent_price_usd" in operation["x-price"]
            assert operation["security"] == [{"bearer": []}, *([signed] if is_for_agents else [])]
            assert ("402" in operation["responses"]) == is_for_agents
            responses = responses_of(description, operation)
            assert "Retry-After" in responses["429"]["headers"]
            headers = responses["200"]["headers"]
            assert {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-Credits-Tier", "RateLimit"} <= set(headers)
        if "requestBody" in operation:
            assert {"413", "415", "408"} <= set(operation["responses"]), f"{method} {path}"


def test_path_parameters_are_those_of_the_path(description):
    for path, _, operation in operations(description):
        named = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert named == re.findall(r"\{(\w+)\}", path)
        assert all(parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path")


def test_every_parameter_is_explained_and_its_example_fits(description):
    for path, _, operation in operations(description):
        names = [(parameter["in"], parameter["name"]) for parameter in operation["parameters"]]
        assert len(names) == len(set(names))
        for parameter in operation["parameters"]:
            where = f"{path} {parameter['name']}"
            assert parameter["description"], where
            assert "null" not in str(parameter["schema"].get("type")), where
            if "example" in parameter:
                validator(description, parameter["schema"]).validate(parameter["example"])
            if "default" in parameter["schema"]:
                validator(description, parameter["schema"]).validate(parameter["schema"]["default"])


def test_events_parameters_are_the_contracts(description):
    listed = {p["name"]: p["schema"] for p in description["paths"]["/feeds/events"]["get"]["parameters"]}
    assert set(listed) == {"limit", "category", "country", "region", "severity_tier", "min_confidence", "min_sources",
                           "bbox", "q", "since", "until", "entity", "relevance", "facets", "cursor", "sort",
                           "format"}  # fmt: skip
    assert (listed["limit"]["minimum"], listed["limit"]["maximum"], listed["limit"]["default"]) == (1, 100, 20)
    assert sorted(listed["category"]["enum"]) == ["Battles", "Economic", "Political", "Protests"]


def test_every_example_fits_its_schema(description):
    seen = 0
    for path, _, operation in operations(description):
        contents = [response.get("content", {}) for response in operation["responses"].values()]
        contents.append(operation.get("requestBody", {}).get("content", {}))
        for content in contents:
            for media_type, media in content.items():
                if "example" not in media:
                    continue
                seen += 1
                if "json" not in media_type or "ndjson" in media_type:
                    assert isinstance(media["example"], (str, dict))
                    continue
                try:
                    validator(description, media["schema"]).validate(media["example"])
                except jsonschema_rs.ValidationError as error:
                    raise AssertionError(f"{path} {media_type}: {error}") from None
    assert seen >= 4


def test_page_example_shows_an_event(description):
    media = description["paths"]["/feeds/events"]["get"]["responses"]["200"]["content"]["application/json"]
    assert media["example"]["events"]


def test_event_schema_has_the_documents_fields(description):
    event = description["components"]["schemas"]["Event"]
    assert {"id", "title", "event_date", "category", "subcategory", "geo", "fatalities", "metrics"} <= set(
        event["properties"]
    )


def test_plans_are_the_documents(description):
    plans = {plan["tier"]: plan for plan in description["x-plans"]}
    told = {
        tier: (plan["requests_per_day"], plan["requests_per_minute"], plan["price_per_month_usd"])
        for tier, plan in plans.items()
    }
    assert {tier: limits[:2] for tier, limits in told.items()} == {
        "free": (100, 10), "pro": (10_000, 100), "enterprise": (None, 1_000)
    }  # fmt: skip
    assert [float(told[tier][2]) for tier in ("free", "pro", "enterprise")] == [0, 49, 499]
    assert [plans[tier]["price_per_year_usd"] and float(plans[tier]["price_per_year_usd"])
            for tier in ("free", "pro", "enterprise")] == [None, 490, 4_990]  # fmt: skip


async def test_yaml_and_json_say_the_same(server, description):
    answer = await server.get("/defense/api/openapi.yaml")
    assert answer.headers["content-type"].startswith("application/yaml")
    loaded = yaml.safe_load(answer.text)
    assert json.loads(json.dumps(loaded)) == description


async def test_description_is_cacheable_and_free(server):
    answer = await server.get("/defense/api/openapi.json")
    assert answer.headers["etag"]
    again = await server.get("/defense/api/openapi.json", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


async def test_every_described_path_answers(server, description):
    for path, method, _ in operations(description):
        answer = await server.request(method.upper(), f"/defense{path.replace('{id}', 'conflict_0000000000000000')}")
        assert answer.status_code not in {404, 405, 500}, path


def test_price_names_free_requests_only_where_there_are_some():
    assert "one of the free requests a day" in price_sentence(free_then_paid(2_000, 50, "tides"))
    assert price_sentence(free_then_paid(2_000, 0, "tides")) == (
        "Price: one request of a paid plan; without one 0.002 USD a request (x402, or wallet credit)."
    )
