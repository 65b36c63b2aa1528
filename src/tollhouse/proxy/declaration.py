"""Declarations of proxied APIs: the TOML file with an `[upstream]`, read strictly, and written by `tollhouse proxy`."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tollhouse.config.declaration import DeclarationText, toml_lines
from tollhouse.config.loader import variables
from tollhouse.money import usd
from tollhouse.proxy.caller_header import MIN_KEY_BYTES
from tollhouse.proxy.declaration_faults import head_faults, rules_faults, upstream_faults
from tollhouse.proxy.declared import Head, ProxyDeclaration, RouteRule, Secret, micros, pattern_of
from tollhouse.proxy.openapi_document import OpenApiDocument, read_document
from tollhouse.proxy.openapi_schemas import OpenApiError

_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,8000}[\x21-\x7e])?")

_COMMENT = (
    "# A toll in front of an API: who may call it, and what it costs. Restart the server after a change here.",
    "# docs/proxy.md explains every key.",
)


def parse_proxy(text: str, path: Path) -> ProxyDeclaration:
    """The API that a text declares, as if it were the file `path`; its document and secrets are read.

    Raises DeclarationError.
    """
    document = DeclarationText(path, text)
    head = document.converted(document.members(), Head, "")
    raw_rules = {key: document.converted(each, RouteRule, f"routes.{key}") for key, each in head.routes.items()}
    for key, fault in (*head_faults(head), *upstream_faults(head.upstream), *rules_faults(head, raw_rules)):
        raise document.error(key, fault)
    rules = {pattern_of(key): rule for key, rule in raw_rules.items()}
    try:
        openapi = _read_openapi(path.parent / head.upstream.openapi) if head.upstream.openapi else None
    except OpenApiError as error:
        raise document.error("upstream.openapi", f"{head.upstream.openapi}: {error}") from None
    declaration = ProxyDeclaration(
        name=path.stem,
        path=path,
        head=head,
        rules=rules,
        headers={
            name: _revealed(value, f"upstream.headers.{name}", document)
            for name, value in head.upstream.headers.items()
        },
        caller_key=_revealed(head.upstream.caller_key, "upstream.caller_key", document),
        document=openapi,
    )
    for key, fault in _unused_rules(declaration):
        raise document.error(key, fault)
    if declaration.caller_key and len(declaration.caller_key) < MIN_KEY_BYTES:
        raise document.error("upstream.caller_key", f"must have at least {MIN_KEY_BYTES} characters")
    return declaration


def declaration_toml(head: Head) -> str:
    general = {
        "title": head.title,
        "description": head.description,
        "licence": head.licence,
        "access": head.access or "",
    }
    lines = [*_COMMENT, "", *toml_lines({name: value for name, value in general.items() if value})]
    if head.price_usd is not None:
        lines += [f"price_usd = {usd(micros(head.price_usd))}", f"free_per_day = {head.free_per_day}"]
    lines += ["# Routes that no rule and no operation of the document is about: none, free, key, anyone or payer.",
              *toml_lines({"other_routes": head.other_routes})]  # fmt: skip
    lines += ["", "[upstream]", *toml_lines(msgspec.to_builtins(head.upstream))]
    return "\n".join(lines) + "\n"


def _read_openapi(path: Path) -> OpenApiDocument:
    try:
        return read_document(path.read_bytes())
    except OSError as error:
        raise OpenApiError(f"cannot be read: {error.strerror}") from None


def _revealed(value: str | Secret, key: str, document: DeclarationText) -> str:
    """The value itself. Raises DeclarationError, which never shows a secret."""
    if isinstance(value, str):
        text = value
    elif bool(value.env) == bool(value.file):
        raise document.error(key, 'must be a text, { env = "NAME" } or { file = "PATH" }')
    elif value.env:
        text = variables().get(value.env, "")
        if not text:
            raise document.error(key, f"the variable {value.env} is not set")
    else:
        try:
            text = (document.path.parent / value.file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise document.error(key, f"the file {value.file} cannot be read") from None
    if text and not _VALUE.fullmatch(text):
        raise document.error(key, "the value must be printable ASCII, without a space at either end")
    return text


def _unused_rules(declaration: ProxyDeclaration) -> Iterator[tuple[str, str]]:
    """Rules that change nothing."""
    document = declaration.document
    for pattern, rule in declaration.rules.items():
        where = f"routes.{pattern.key}"
        if document is not None and any(pattern.covers(one.method, one.path) for one in document.operations):
            continue
        if not rule.offered or (pattern.method and not pattern.is_open):
            continue
        if not pattern.is_open:
            yield where, "the document has no such operation: write the method to serve it, as in GET /path"
        elif document is not None and declaration.head.other_routes == "none":
            yield where, "no operation of the document is below this path, and other_routes is none"
