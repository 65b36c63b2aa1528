"""The OpenAPI 3.1 description of a service, generated from its endpoint declarations.

What a proxied API's own document says of its operations is merged into it.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tollhouse.errors import CODES
from tollhouse.http.code_samples import samples
from tollhouse.http.described import SCHEMA_REF, DescribedOperation, renamed
from tollhouse.http.endpoint import JSON, Endpoint
from tollhouse.http.openapi_schemas import Components, portable, untitled
from tollhouse.http.response import PROBLEM_SCHEMA, PROBLEM_TYPE
from tollhouse.http.service import Service
from tollhouse.http.terms import Terms
from tollhouse.money import usd

Json = dict[str, Any]

_AGENT_SCHEMES: Json = {
    name: {"type": "apiKey", "in": "header", "name": header, "description": text}
    for name, header, text in (
        ("agentAddress", "X-Agent-Address", "The registered wallet"),
        ("agentNonce", "X-Agent-Nonce", "8 to 64 random bytes in hex, used once"),
        ("agentSignature", "X-Agent-Signature", "EIP-191 signature over `<prefix>:<path>:<nonce>`"),
    )
}

_PROBLEM = {"$ref": f"{SCHEMA_REF}Problem"}
_EVERYWHERE = ("invalid-request", "not-acceptable", "uri-too-long", "headers-too-large", "internal-error",
               "storage-unavailable", "overloaded")  # fmt: skip


def description(service: Service, base_url: str, plans: Sequence[Json] = ()) -> Json:
    """The whole document; `base_url` is the address of the service, `plans` the price list."""
    operations = [operation for operation in service.endpoints if operation.is_described]
    components, problems = _components(operations), dict[str, Json]()
    paths: dict[str, Json] = {}
    for operation in operations:
        described = _operation(operation, components, problems)
        paths.setdefault(described_path(operation), {})[operation.method.lower()] = described
    # Only an absolute address may stand in a description.
    site = {"url": f"{base_url.rstrip('/')}/docs"} if base_url.startswith("http") else {}
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": service.title,
            "version": service.version,
            "description": service.description,
            "contact": {"name": "The operator of this server", **site},
            **({"license": {"name": service.licence}} if service.licence else {}),
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": name, "description": text} for name, text in service.tags.items()],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM_SCHEMA, **components.used_by(paths)},
            "responses": dict(sorted(problems.items())),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `th_live_…`"},
                **_AGENT_SCHEMES,
            },
        },
        "x-plans": list(plans),
    }
    merge_described(document, operations, service)
    return document


def described_path(operation: Endpoint) -> str:
    """The path of an endpoint as OpenAPI writes it."""
    return operation.path.replace(":path}", "}")


def _components(operations: list[Endpoint]) -> Components:
    def structs(kinds: list[Any]) -> list[type[Struct]]:
        return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)]

    accepted = structs([kind for one in operations for kind in (one.query, one.body)])
    return Components(
        accepted, structs([kind for one in operations for kind in (*one.responses.values(), *one.failures.values())])
    )


def _operation(operation: Endpoint, components: Components, problems: Json) -> Json:
    described: Json = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"{operation.description}\n\n{price_sentence(operation.terms)}".strip(),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, **portable(one)}
                for name, one in operation.path_parameters.items()
            ),
            *_query_parameters(operation, components),
        ],
        "responses": _responses(operation, components, problems),
        "security": _security(operation.terms),
        "x-price": _price(operation.terms),
        **_payment_info(operation.terms),
        "x-codeSamples": [
            {"lang": sample.label, "label": sample.label, "source": sample.source} for sample in samples(operation)
        ],
    }
    if operation.tag:
        described["tags"] = [operation.tag]
    if operation.body is not None:
        media: Json = {"schema": components.reference(operation.body)}
        if "body" in operation.examples:
            media["example"] = operation.examples["body"]
        described["requestBody"] = {"required": True, "content": {"application/json": media}}
    return described


def _security(terms: Terms) -> list[Json]:
    if terms.price is not None and terms.opens_to == "anyone":
        return [{}, {"bearer": []}]
    if terms.opens_to != "key":
        return []
    signed: list[Json] = [] if terms.price is None else [{name: [] for name in _AGENT_SCHEMES}]
    return [{"bearer": []}, *signed]


def _query_parameters(operation: Endpoint, components: Components) -> list[Json]:
    if operation.query is None:
        return []
    shape = components.query(operation.query)
    required = set(shape.get("required", ()))
    return [
        _query_parameter(name, schema, is_required=name in required) for name, schema in shape["properties"].items()
    ]


def _query_parameter(name: str, schema: Json, *, is_required: bool) -> Json:
    """The description of one query parameter. Optional parameters are omitted, never null."""
    schema = dict(schema)
    if schema.get("default", ...) is None:
        del schema["default"]
    if "anyOf" in schema:
        (declared,) = [part for part in schema.pop("anyOf") if part != {"type": "null"}]
        schema = {**declared, **schema}
    described: Json = {"name": name, "in": "query", "required": is_required}
    for key in ("description", "examples"):
        if key in schema:
            described |= {"description": schema.pop(key)} if key == "description" else {"example": schema[key][0]}
    if schema.get("type") == "array":
        # A list of fixed length is one text with commas.
        is_one = schema.get("minItems", 0) == schema.get("maxItems")
        described |= {"style": "form", "explode": not is_one}
    return {**described, "schema": schema}


def _responses(operation: Endpoint, components: Components, problems: Json) -> Json:
    """The responses of an operation. Those with a problem are shared: `problems` gets the ones that are new."""
    codes = problem_codes(operation)
    responses: Json = {"200": _success(operation, components)}
    if operation.method == "GET":
        responses["304"] = {
            "description": "Unchanged since the ETag sent in If-None-Match",
            "headers": _headers(operation),
        }
    for status in sorted({CODES[code][0] for code in codes}):
        codes_here = sorted(code for code in codes if CODES[code][0] == status)
        form, failure = operation.problem_form, operation.failures.get(status)
        media: Json = (
            {form.media_type: {"schema": portable(form.schema)}} if form else {PROBLEM_TYPE: {"schema": _PROBLEM}}
        )
        response = {
            "description": "; ".join(f"`{code}`: {CODES[code][1]}" for code in codes_here),
            "headers": _problem_headers(status),
            "content": media | ({JSON: {"schema": components.reference(failure)}} if failure else {}),
        }
        if form or failure:
            responses[str(status)] = response
            continue
        name = "Or".join("".join(word.capitalize() for word in code.split("-")) for code in codes_here)
        problems[name] = response
        responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return responses


def problem_codes(operation: Endpoint) -> list[str]:
    """Every problem code that a call of the endpoint can end with."""
    codes = [*_EVERYWHERE, *operation.problems, "invalid-parameter"]
    if operation.passes_through:
        # Nothing is read or negotiated here.
        codes = [code for code in codes if code not in {"not-acceptable", "invalid-parameter"}]
        codes += ["payload-too-large", "request-timeout", "upgrade-not-supported"]
    if operation.path_parameters:
        codes.append("not-found")
    if operation.body is not None:
        codes += ["invalid-body", "unsupported-media-type", "payload-too-large", "request-timeout"]
    if operation.terms.opens_to == "key":
        codes += ["missing-credentials", "invalid-key"]
    if operation.terms.takes_payments:
        codes += ["payment-required", "payment-invalid", "payment-pending", "payments-unavailable"]
        if operation.terms.opens_to == "anyone":
            codes += ["invalid-key", "tier-required"]
    if operation.terms.price is not None:
        codes += ["ambiguous-credentials", "invalid-signature", "nonce-reused", "insufficient-balance"]
    if operation.terms.entitlement:
        codes.append("tier-required")
    if operation.terms.is_metered:
        codes += ["rate-limited", "quota-exceeded"]
    return list(dict.fromkeys(codes))


def _success(operation: Endpoint, components: Components) -> Json:
    content: Json = {}
    for media_type, shape in operation.responses.items():
        is_struct = isinstance(shape, type) and issubclass(shape, Struct)
        content[media_type] = {"schema": components.reference(shape) if is_struct else portable(shape)}
        if media_type in operation.examples:
            content[media_type]["example"] = operation.examples[media_type]
    return {"description": "Success", "headers": _headers(operation), "content": content}


def _headers(operation: Endpoint) -> Json:
    headers: Json = {"X-Request-Id": _header("The id of this request, also in the server's log")}
    if operation.method == "GET":
        headers["ETag"] = _header("Send it in If-None-Match to get 304 when nothing changed")
    if operation.terms.takes_payments:
        headers["PAYMENT-RESPONSE"] = _header("How a payment was settled (x402 version 2; `X-PAYMENT-RESPONSE` for 1)")
    if operation.terms.opens_to == "key" or operation.terms.is_metered:
        headers |= {
            "X-RateLimit-Limit": _header("The limit of the day, or of the minute where the day has none"),
            "X-RateLimit-Remaining": _header("Requests remaining"),
            "X-Credits-Tier": _header("The key's tier; `agent` for a signed call"),
            "RateLimit-Policy": _header("All windows of the plan (IETF draft ratelimit-headers)"),
            "RateLimit": _header("Requests remaining in each window, and when it resets"),
        }
    return headers


def _problem_headers(status: int) -> Json:
    if status in (429, 503):
        return {"Retry-After": _header("Whole seconds to wait")}
    if status == 401:
        return {"WWW-Authenticate": _header("Bearer")}
    return {"X-Request-Id": _header("The id of this request, also in the server's log")}


def _header(text: str) -> Json:
    return {"description": text, "schema": {"type": "string"}}


def _price(terms: Terms) -> Json:
    price = terms.price
    if price is None and not terms.is_metered:
        return {"model": "free"}
    if price is not None and terms.takes_payments:
        per_unit = {"unit": price.unit, "usd_per_unit": usd(price.unit_micros)} if price.unit_micros else {}
        then = {"then_usd_per_request": usd(price.request_micros), **per_unit}
        if price.max_micros is not None:
            then["max_usd_per_request"] = usd(price.max_micros)
        free: Json = {"model": "request"} if terms.opens_to == "payer" else {"model": "allowance", **_counted(terms)}
        return {**free, **then}
    described: Json = {"model": "plan", **_counted(terms), "minimum_tier": terms.minimum_tier}
    if terms.entitlement:
        described["entitlement"] = terms.entitlement
    if price is not None:
        described["agent_price_usd"] = usd(price.micros())
    return described


def _counted(terms: Terms) -> Json:
    """How many requests of a plan's day a call counts as, where it is another number for some plans."""
    return {"requests": 1, **({"requests_by_plan": terms.requests} if terms.requests else {})}


def _payment_info(terms: Terms) -> Json:
    """`x-payment-info`, which directories of x402 services read."""
    if terms.price is None or not terms.takes_payments:
        return {}
    price: Json = {"mode": "fixed", "currency": "USD", "amount": usd(terms.price.micros())}
    if terms.price.unit_micros:
        price = {"mode": "dynamic", "currency": "USD", "min": usd(terms.price.request_micros)}
    if terms.price.max_micros is not None:
        least = min(terms.price.request_micros, terms.price.max_micros)
        price = {"mode": "dynamic", "currency": "USD", "min": usd(least), "max": usd(terms.price.max_micros)}
    return {"x-payment-info": {"price": price, "protocols": [{"x402": {}}]}}


def price_sentence(terms: Terms) -> str:
    """The price of one call in sentences."""
    counted = ", ".join(f"{count:,} on the plan {name}" for name, count in terms.requests.items())
    return f"{_price_of_call(terms)}{f' Requests that a call counts as: {counted}.' if counted else ''}"


def _price_of_call(terms: Terms) -> str:
    price = terms.price
    if price is None and not terms.is_metered:
        return "Price: free. Counts against no limit."
    if price is not None and terms.opens_to == "payer":
        return f"Price: {price.per_request} (x402, or wallet credit). No key is needed."
    if price is not None and terms.takes_payments:
        has_free = terms.free_requests(1) > 0
        free = "one of the free requests a day of the address, or " if has_free else ""
        beyond = "beyond that" if has_free else "without one"
        return f"Price: {free}one request of a paid plan; {beyond} {price.per_request} (x402, or wallet credit)."
    plan = "Price: one request of the key's plan"
    if terms.entitlement:
        plan += f", which must include `{terms.entitlement}` (the cheapest is {terms.minimum_tier}; see `x-plans`)"
    if price is None:
        return f"{plan}."
    return (
        f"{plan}, or {price.text} from a registered wallet's balance for a signed call. Without a key: the same price "
        "for each call of this path under `/x402` (x402)."
    )


def merge_described(document: Json, operations: Sequence[Endpoint], service: Service) -> None:
    """Put what other documents say of the operations into this one, beside the prices and refusals of this server.

    A schema of theirs has its own name unless that is taken: then the service's name is put in front.
    """
    components = document["components"]
    prefix = service.name.title().replace("-", "")
    names = {name: f"{prefix}{name}" for name in service.schemas if name in components["schemas"]}
    for operation in operations:
        if operation.passes_through:
            item = document["paths"][described_path(operation)]
            method = operation.method.lower()
            without_own = _as_passed_on(item[method])
            theirs = operation.described
            item[method] = _merged(without_own, theirs, names, components["responses"]) if theirs else without_own
    for name, schema in service.schemas.items():
        made = portable(renamed(schema, names))
        components["schemas"][names.get(name, name)] = untitled(made) if name in names else made


def _as_passed_on(described: Json) -> Json:
    """The operation without what this server says only of its own answers: their ETags."""
    responses = {status: one for status, one in described["responses"].items() if status != "304"}
    success = responses["200"]
    headers = {name: one for name, one in success["headers"].items() if name != "ETag"}
    return {**described, "responses": {**responses, "200": {**success, "headers": headers}}}


def _merged(described: Json, theirs: DescribedOperation, names: dict[str, str], shared: Json) -> Json:
    """An answer that both describe, such as 404, has the content of both."""
    own = described["responses"]
    has_success = any(status.startswith(("2", "default")) for status in theirs.responses)
    responses = {status: one for status, one in own.items() if status != "200" or not has_success}
    for status, response in theirs.responses.items():
        added = portable(renamed(response, names))
        refusal = {} if status.startswith("2") else _resolved(own.get(status, {}), shared)
        responses[status] = {
            "description": "; ".join(filter(None, (added["description"], refusal.get("description", "")))),
            "headers": {**added.get("headers", {}), **(refusal or own["200"]).get("headers", {})},
            "content": {**added.get("content", {}), **refusal.get("content", {})},
        }
    whole = {
        **described,
        **theirs.extras,
        "parameters": portable(renamed(list(theirs.parameters), names)),
        "responses": dict(sorted(responses.items())),
    }
    return (
        whole
        if theirs.request_body is None
        else {**whole, "requestBody": portable(renamed(theirs.request_body, names))}
    )


def _resolved(response: Json, shared: Json) -> Json:
    name = response.get("$ref", "").rpartition("/")[2]
    resolved: Json = shared[name] if name else response
    return resolved
