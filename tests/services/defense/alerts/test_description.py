"""The description tells of alerts and analysis, and its examples fit."""

from tests.http.test_openapi import operations, references, target, validator

PATHS = {
    "/api/alerts": {"get", "post"},
    "/api/alerts/{id}": {"get", "patch", "delete"},
    "/api/alerts/{id}/test": {"post"},
    "/api/alerts/{id}/deliveries": {"get"},
    "/api/alerts/preview": {"post"},
    "/api/alerts/{id}/deliveries/{delivery_id}/replay": {"post"},
    "/api/analysis": {"post"},
    "/api/analysis/queries": {"get", "post"},
    "/api/analysis/queries/{id}/run": {"post"},
    "/api/analysis/queries/{id}": {"delete"},
}


async def test_every_operation_is_described_with_tier_and_fitting_examples(house):
    document = (await house.client.get("/api/openapi.json")).json()
    assert {path: document["paths"][path].keys() & {"get", "post", "patch", "delete"} for path in PATHS} == PATHS
    assert all(target(document, reference) for reference in references(document))
    examples = 0
    for path, method, operation in operations(document):
        if path not in PATHS:
            continue
        entitlement = path.split("/")[2]
        assert operation["x-price"] == {
            "model": "plan", "requests": 1, "minimum_tier": "enterprise", "entitlement": entitlement
        }  # fmt: skip
        assert {"400", "401", "403", "429"} <= set(operation["responses"]), f"{method} {path}"
        for media in operation.get("requestBody", {}).get("content", {}).values():
            validator(document, media["schema"]).validate(media["example"])
            examples += 1
    assert examples == 5
