"""The API reference of a service: every endpoint with its price, parameters, samples and problems."""

import html
import json
from collections.abc import Sequence
from typing import Any

from tollhouse.console.markdown import Heading, RenderedText, code_block, render, render_inline
from tollhouse.errors import CODES
from tollhouse.http.code_samples import KEY, URL, samples, variables
from tollhouse.http.endpoint import JSON, Endpoint
from tollhouse.http.openapi import described_path, description, price_sentence, problem_codes
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import about
from tollhouse.http.terms import Terms

MAX_CHOICES = 20

Json = dict[str, Any]


def reference_path(service: Service) -> str:
    """Where the reference of a service is served, on every host that has the service."""
    return f"/guide/reference/{service.name}"


def reference_title(service: Service) -> str:
    return f"{service.name}: API reference"


def described_endpoints(service: Service) -> list[Endpoint]:
    """The endpoints a reference describes: the service's own, and those every service has."""
    return [
        endpoint
        for endpoint in [*service.endpoints, *about(service)]
        if endpoint.is_described and not endpoint.paid_prefix
    ]


def render_reference(service: Service, address: str, prefix: str) -> RenderedText:
    """The whole page. `address` is the base URL of the service in the samples, `prefix` where this host has it."""
    endpoints = described_endpoints(service)
    document = description(service, address)
    sections = "".join(_section(endpoint, document, prefix) for endpoint in endpoints)
    title = service.title.removeprefix("Tollhouse: ")
    title = title[:1].upper() + title[1:]
    headings = [Heading(title, 1, "reference"), *(Heading(one.summary, 2, one.id) for one in endpoints)]
    return RenderedText(f"{_introduction(service, title, address)}{sections}", tuple(headings))


def render_overview(mounted: Sequence[tuple[Service, str]]) -> RenderedText:
    """The operations of every service of a host, with their prices and links to the references."""
    sections, headings = "", [Heading("API reference", 1, "reference")]
    for service, prefix in mounted:
        path, title = reference_path(service), service.title.removeprefix("Tollhouse: ")
        title = title[:1].upper() + title[1:]
        headings.append(Heading(title, 2, f"of-{service.name}"))
        rows = "".join(
            f"<tr><td><code>{one.method} {html.escape(f'{prefix}{one.path}')}</code></td>"
            f'<td><a href="{path}#{one.id}">{html.escape(one.summary)}</a></td>'
            f"<td>{render_inline(price_sentence(one.terms).removeprefix('Price: '))}</td></tr>"
            for one in described_endpoints(service)
        )
        sections += (
            f'<h2 id="of-{service.name}">{html.escape(title)}</h2><p><a href="{path}">{html.escape(title)}: every '
            f'parameter, with samples</a> · <a href="{prefix}/api/openapi.json">OpenAPI</a></p>'
            f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(title)}"><table><thead><tr>'
            f"<th>operation</th><th>summary</th><th>price</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    return RenderedText(
        '<h1 id="reference">API reference</h1><p>Every operation of this server. '
        '<a href="/openapi.json">One OpenAPI document</a> describes all of them, and <code>/mcp</code> offers them to '
        f"agents as tools.</p>{sections}",
        tuple(headings),
    )


def _introduction(service: Service, title: str, address: str) -> str:
    setup = f"export {URL}={address}"
    if needs_key := any(endpoint.terms.opens_to == "key" for endpoint in service.endpoints):
        setup += f"\nexport {KEY}=th_live_…"
    key = '<p class="small dim">A key that this browser keeps is filled in. <a href="/keys">Create a key</a></p>'
    return (
        f'<h1 id="reference">{html.escape(title)}: API reference</h1>{render(service.description).body}'
        "<p>The samples run as shown with curl, with Python and the package <code>requests</code>, and with Node.js 20 "
        f"or newer. Set the service's address{' and your key' if needs_key else ''} first:</p>{code_block(setup, 'sh')}"
        f"{key if needs_key else ''}"
    )


def _section(endpoint: Endpoint, document: Json, prefix: str) -> str:
    described: Json = document["paths"].get(described_path(endpoint), {}).get(endpoint.method.lower(), {})
    summary = html.escape(endpoint.summary)
    return (
        f'<section aria-labelledby="{endpoint.id}"><h2 id="{endpoint.id}">{summary} '
        f'<a class="anchor" href="#{endpoint.id}" aria-label="Link to {summary}">#</a></h2>'
        f'<p class="route"><code>{endpoint.method} {html.escape(endpoint.path)}</code></p>'
        f"{render(endpoint.description).body}"
        f"{render(f'{_access(endpoint.terms)} {price_sentence(endpoint.terms)}').body}"
        f"{_parameters(described)}{_body(endpoint, document)}{_samples(endpoint)}{_response(endpoint)}"
        f"{_problems(endpoint)}{_form(endpoint, described, prefix)}</section>"
    )


def _access(terms: Terms) -> str:
    if terms.opens_to == "operator":
        return f"Access: the operator, with the token in the setting `{terms.operator_setting}`."
    if terms.opens_to == "anyone":
        return "Access: anyone."
    if terms.opens_to == "payer":
        return "Access: anyone who pays for the call."
    tier = f"whose plan includes `{terms.entitlement}`" if terms.entitlement else "of any plan"
    signed = ", or a signature of [a registered wallet](/guide/agents-client)"
    return f"Access: a key {tier}{signed if terms.price is not None else ''}."


def _parameters(described: Json) -> str:
    rows = [
        (one["name"], _type(one.get("schema", {})), _meaning(one, one.get("schema", {}), one.get("required")))
        for one in described.get("parameters", [])
    ]
    return _table("Parameters", "parameter", rows)


def _body(endpoint: Endpoint, document: Json) -> str:
    schemas = document["components"]["schemas"]
    if endpoint.described is not None and endpoint.described.json_body is not None:
        given = endpoint.described.json_body.get("schema", {})
        schema = schemas.get(str(given.get("$ref", "")).rpartition("/")[2], given)
    elif endpoint.body is not None:
        schema = schemas.get(endpoint.body.__name__, {})
    else:
        return ""
    required = schema.get("required", ())
    rows = [
        (name, _type(member), _meaning(member, member, name in required))
        for name, member in schema.get("properties", {}).items()
    ]
    return _table("Body", "member", rows)


def _table(title: str, kind: str, rows: Sequence[tuple[str, str, str]]) -> str:
    """A table of names, types, and meanings in Markdown."""
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(type_name)}</td><td>{render_inline(meaning)}</td></tr>"
        for name, type_name, meaning in rows
    )
    return (
        f'<h3>{title}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}"><table><thead><tr>'
        f"<th>{kind}</th><th>type</th><th>meaning</th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _type(schema: Json) -> str:
    """The type in a few words. The exact schema is in the OpenAPI description."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(part) for part in schema["anyOf"] if part != {"type": "null"}))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    kind = schema.get("type", "string" if "enum" in schema else "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _meaning(described: Json, schema: Json, is_required: Any) -> str:
    parts = ["in the path" if described.get("in") == "path" else "", str(described.get("description", "")).rstrip(".")]
    if choices := _choices(schema):
        parts.append(f"one of {', '.join(f'`{one}`' for one in choices)}" if len(choices) <= MAX_CHOICES else "")
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None and maximum is not None:
        parts.append(f"{minimum} to {maximum}")
    default = schema.get("default")
    if is_required:
        parts.append("required")
    elif default not in (None, [], {}, ""):
        parts.append(f"default {json.dumps(default)}")
    return "; ".join(part for part in parts if part)


def _choices(schema: Json) -> list[Any]:
    parts = [schema, schema.get("items") or {}, *schema.get("anyOf", [])]
    return next((part["enum"] for part in parts if "enum" in part), [])


def _samples(endpoint: Endpoint) -> str:
    blocks = [
        f"<details{' open' if sample.label == 'curl' else ''}><summary>{sample.label}</summary>"
        f"{code_block(sample.source, sample.language, f'{endpoint.summary}, with {sample.label}')}</details>"
        for sample in samples(endpoint)
    ]
    return f"<h3>Example</h3>{_variables(endpoint)}{''.join(blocks)}" if blocks else ""


def _variables(endpoint: Endpoint) -> str:
    """The other environment variables that the samples read."""
    examples = {
        reference: endpoint.path_parameters[name].get("example", "")
        for name, reference in endpoint.sample.path.items()
        if name in endpoint.path_parameters
    }
    named = [
        f"<code>{name}</code>{f', such as <code>{html.escape(example)}</code>' if example else ''}"
        for name in variables(endpoint)
        if name not in {URL, KEY}
        for example in [examples.get(f"${name}", "")]
    ]
    return f"<p>Also set: {'; '.join(named)}.</p>" if named else ""


def _response(endpoint: Endpoint) -> str:
    example = endpoint.examples.get(JSON)
    if example is None:
        return ""
    text = json.dumps(example, ensure_ascii=False, indent=2)
    block = code_block(text, "json", f"{endpoint.summary}, a response")
    return f"<details><summary>Response</summary>{block}</details>"


def _form(endpoint: Endpoint, described: Json, prefix: str) -> str:
    """What the page's script makes a form of that sends the request; nothing where the body is not JSON."""
    theirs = endpoint.described
    takes_json = endpoint.body is not None or (theirs is not None and theirs.json_body is not None)
    if endpoint.takes_bytes or (theirs is not None and theirs.request_body is not None and not takes_json):
        return ""
    examples = {**endpoint.sample.path, **endpoint.sample.query}
    body = json.dumps(endpoint.sample.body or {}, ensure_ascii=False, indent=2)
    called = {
        "id": endpoint.id,
        "method": endpoint.method,
        "path": f"{prefix}{endpoint.path}",
        "parameters": [
            _field(one, examples) for one in described.get("parameters", []) if one.get("in") in ("path", "query")
        ],
        "body": body if takes_json else None,
        "accept": next(iter(endpoint.responses), JSON),
        "needs_key": endpoint.terms.opens_to == "key",
    }
    data = html.escape(json.dumps(called, ensure_ascii=False))
    return f'<div class="try" data-name="{html.escape(endpoint.summary)}" data-call="{data}"></div>'


def _field(parameter: Json, examples: Json) -> Json:
    """A parameter as the form shows it, with the declaration's example unless that is a variable."""
    schema, name = parameter.get("schema", {}), parameter["name"]
    choices = _choices(schema)
    example = examples.get(name, parameter.get("example", schema.get("example")))
    is_variable = isinstance(example, str) and example.startswith("$")
    return {
        "name": name,
        "in": parameter["in"],
        "required": bool(parameter.get("required")),
        "choices": choices if len(choices) <= MAX_CHOICES and schema.get("type") != "array" else [],
        "is_list": schema.get("type") == "array",
        "example": "" if example is None or is_variable else example,
    }


def _problems(endpoint: Endpoint) -> str:
    links = [
        f'<li><a href="/problems/{code}"><code>{code}</code></a>, {CODES[code][0]}: {html.escape(CODES[code][1])}</li>'
        for code in sorted(problem_codes(endpoint), key=lambda code: (CODES[code][0], code))
    ]
    return f"<details><summary>Problems</summary><ul>{''.join(links)}</ul></details>"
