"""The reference of one service, drawn from its description: every operation with its price, parameters and samples."""

import html
import json
from collections.abc import Sequence
from typing import Any

from tollhouse.console.markdown import Heading, Text, code_block, inline, rendered
from tollhouse.errors import CODES
from tollhouse.http.code_samples import KEY, URL, samples, variables
from tollhouse.http.endpoint import JSON, Endpoint
from tollhouse.http.openapi import codes_of, description, price_sentence
from tollhouse.http.service import Service
from tollhouse.http.service_endpoints import about
from tollhouse.http.terms import Terms

MOST_CHOICES = 20

Json = dict[str, Any]


def described_operations(service: Service) -> list[Endpoint]:
    """What the reference explains: the service's own operations, and those every service has."""
    return [operation for operation in [*service.endpoints, *about(service)] if operation.is_described]


def reference(service: Service, address: str) -> Text:
    """The whole page. `address` is where the service is reached."""
    operations = described_operations(service)
    document = description(service, address)
    sections = "".join(_section(operation, document) for operation in operations)
    title = service.title.removeprefix("Tollhouse: ")
    title = title[:1].upper() + title[1:]
    headings = [Heading(title, 1, "reference"), *(Heading(one.summary, 2, one.id) for one in operations)]
    return Text(f"{_opening(service, title, address)}{sections}", tuple(headings))


def _opening(service: Service, title: str, address: str) -> str:
    setting = f"export {URL}={address}"
    if any(operation.terms.opens_to == "key" for operation in service.endpoints):
        setting += f"\nexport {KEY}=th_live_…"
    return (
        f'<h1 id="reference">{html.escape(title)}: reference</h1>{rendered(service.description).body}'
        "<p>The samples run as they stand: with curl, with Python and the package <code>requests</code>, and with "
        "Node.js 20 or newer. They read the service's address"
        f"{' and your key' if KEY in setting else ''} from the environment, once:</p>{code_block(setting, 'sh')}"
    )


def _section(operation: Endpoint, document: Json) -> str:
    told: Json = document["paths"].get(operation.path, {}).get(operation.method.lower(), {})
    return (
        f'<section aria-labelledby="{operation.id}"><h2 id="{operation.id}">{html.escape(operation.summary)} '
        f'<a class="anchor" href="#{operation.id}" aria-label="Link to {html.escape(operation.summary)}">#</a></h2>'
        f'<p class="route"><code>{operation.method} {html.escape(operation.path)}</code></p>'
        f"{rendered(operation.description).body}"
        f"{rendered(f'{_who(operation.terms)} {price_sentence(operation.terms)}').body}"
        f"{_parameters(told)}{_body(operation, document)}{_samples(operation)}{_answer(operation)}"
        f"{_problems(operation)}</section>"
    )


def _who(terms: Terms) -> str:
    if terms.opens_to == "operator":
        return f"For the operator, with the token of the setting `{terms.operator_token}`."
    if terms.opens_to == "anyone":
        return "For anyone."
    tier = f"whose plan includes `{terms.entitlement}`" if terms.entitlement else "of any plan"
    signed = ", or a signature of [a registered wallet](/guide/agents-client)"
    return f"For a key {tier}{signed if terms.agent_price_micros is not None else ''}."


def _parameters(told: Json) -> str:
    rows = [
        (one["name"], _type(one.get("schema", {})), _about(one, one.get("schema", {}), one.get("required")))
        for one in told.get("parameters", [])
    ]
    return _table("Parameters", "parameter", rows)


def _body(operation: Endpoint, document: Json) -> str:
    if operation.body is None:
        return ""
    schema = document["components"]["schemas"].get(operation.body.__name__, {})
    required = schema.get("required", ())
    rows = [
        (name, _type(member), _about(member, member, name in required))
        for name, member in schema.get("properties", {}).items()
    ]
    return _table("Body", "member", rows)


def _table(title: str, kind: str, rows: Sequence[tuple[str, str, str]]) -> str:
    """What can be given: names, types, and meanings in Markdown."""
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(form)}</td><td>{inline(meaning)}</td></tr>"
        for name, form, meaning in rows
    )
    return (
        f'<h3>{title}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}"><table><thead><tr>'
        f"<th>{kind}</th><th>type</th><th>meaning</th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _type(schema: Json) -> str:
    """The type in a word: what a reader needs before the exact schema of the description."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(part) for part in schema["anyOf"] if part != {"type": "null"}))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    kind = schema.get("type", "string" if "enum" in schema else "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _about(described: Json, schema: Json, is_required: Any) -> str:
    parts = ["in the path" if described.get("in") == "path" else "", str(described.get("description", "")).rstrip(".")]
    if choices := _choices(schema):
        parts.append(f"one of {', '.join(f'`{one}`' for one in choices)}" if len(choices) <= MOST_CHOICES else "")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        parts.append(f"{least} to {most}")
    default = schema.get("default")
    if is_required:
        parts.append("required")
    elif default not in (None, [], {}, ""):
        parts.append(f"default {json.dumps(default)}")
    return "; ".join(part for part in parts if part)


def _choices(schema: Json) -> list[Any]:
    parts = [schema, schema.get("items") or {}, *schema.get("anyOf", [])]
    return next((part["enum"] for part in parts if "enum" in part), [])


def _samples(operation: Endpoint) -> str:
    blocks = [
        f"<details{' open' if sample.label == 'curl' else ''}><summary>{sample.label}</summary>"
        f"{code_block(sample.source, sample.language, f'{operation.summary}, with {sample.label}')}</details>"
        for sample in samples(operation)
    ]
    return f"<h3>Call it</h3>{_needed(operation)}{''.join(blocks)}" if blocks else ""


def _needed(operation: Endpoint) -> str:
    """What the samples read from the environment beside the address and the key."""
    examples = {
        reference: operation.path_parameters[name].get("example", "")
        for name, reference in operation.sample.path.items()
        if name in operation.path_parameters
    }
    named = [
        f"<code>{name}</code>{f', such as <code>{html.escape(example)}</code>' if example else ''}"
        for name in variables(operation)
        if name not in {URL, KEY}
        for example in [examples.get(f"${name}", "")]
    ]
    return f"<p>These also read from the environment: {'; '.join(named)}.</p>" if named else ""


def _answer(operation: Endpoint) -> str:
    example = operation.examples.get(JSON)
    if example is None:
        return ""
    text = json.dumps(example, ensure_ascii=False, indent=2)
    block = code_block(text, "json", f"{operation.summary}, an answer")
    return f"<details><summary>An answer</summary>{block}</details>"


def _problems(operation: Endpoint) -> str:
    links = [
        f'<li><a href="/problems/{code}"><code>{code}</code></a>, {CODES[code][0]}: {html.escape(CODES[code][1])}</li>'
        for code in sorted(codes_of(operation), key=lambda code: (CODES[code][0], code))
    ]
    return f"<details><summary>Problems it can end in</summary><ul>{''.join(links)}</ul></details>"
