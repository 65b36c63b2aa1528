"""How an operation is called with curl, Python and JavaScript: programs made of its declaration, run as they stand.

What differs from caller to caller they read from the environment: `TOLLHOUSE_URL`, the address of the service,
`TOLLHOUSE_KEY`, and whatever the operation's example writes as `$NAME`.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from tollhouse.http.endpoint import JSON, Endpoint

URL = "TOLLHOUSE_URL"
KEY = "TOLLHOUSE_KEY"
# What `json()` reads, in Python and JavaScript.
READ_AS_JSON = frozenset({JSON, "application/ld+json"})
_WIDTH = 100
# Stands for a dollar sign that begins no variable, while a program is written.
_DOLLAR = "\ue000"
_VARIABLE = re.compile(r"\$([A-Z][A-Z0-9_]*)")


class Sample(Struct, frozen=True):
    """One program. `language` is what a code block is marked with."""

    language: str
    label: str
    source: str


class _Call(Struct, frozen=True):
    """One call, in which `$NAME` stands for variables. `address` is percent-encoded."""

    method: str
    address: str
    headers: dict[str, str]
    body: Any
    answers_json: bool

    @property
    def is_raw(self) -> bool:
        """Whether the whole body is one variable, sent as it is."""
        return isinstance(self.body, str)


def lacking(operation: Endpoint) -> list[str]:
    """What a call must have and the declaration gives no example of."""
    fields = msgspec.structs.fields(operation.query) if operation.query else ()
    parts = [name for name, value in _in_path(operation).items() if value is None]
    parts += [
        field.encode_name for field in fields if field.required and field.encode_name not in operation.sample.query
    ]
    takes_body = operation.body is not None or operation.takes_bytes
    if operation.described is not None:
        fields_given = {**operation.sample.query, **operation.sample.headers}
        needed = [one["name"] for one in operation.described.parameters_in("query", "header") if one.get("required")]
        parts += [name for name in needed if fields_given.get(name) is None]
        takes_body = bool(operation.described.request_body and operation.described.request_body.get("required"))
    return [*parts, "body"] if takes_body and _body(operation) is None else parts


def samples(operation: Endpoint) -> list[Sample]:
    """The same call in each language; none where it is `lacking` an example or the call must be paid for."""
    return [] if operation.terms.opens_to == "payer" or lacking(operation) else _programs(_call(operation))


def samples_of_call(operation: Endpoint, url: str, key: str, body: Any) -> list[Sample]:
    """One call at a whole, percent-encoded URL in each language, with this key unless it is empty.

    They read nothing from the environment.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if body is not None:
        headers["Content-Type"] = JSON
    call = _Call(operation.method, url, headers, _each_text(body, "$", _DOLLAR), _answers_json(operation))
    return [msgspec.structs.replace(one, source=one.source.replace(_DOLLAR, "$")) for one in _programs(call)]


def variables(operation: Endpoint) -> list[str]:
    """The variables of the environment that the samples read, `TOLLHOUSE_URL` first."""
    call = _call(operation)
    text = json.dumps([call.headers, call.address, call.body])
    return list(dict.fromkeys([URL, *_VARIABLE.findall(text)]))


def _programs(call: _Call) -> list[Sample]:
    return [
        Sample("sh", "curl", _curl(call)),
        Sample("python", "Python", _python(call)),
        Sample("js", "JavaScript", _javascript(call)),
    ]


def _call(operation: Endpoint) -> _Call:
    body = _body(operation)
    sent = {} if body is None else {"Content-Type": JSON}
    return _Call(
        operation.method,
        f"${URL}{example_address(operation)}",
        {**_credentials(operation), **sent, **operation.sample.headers},
        body,
        _answers_json(operation),
    )


def example_address(operation: Endpoint) -> str:
    """The path and query of the example call, percent-encoded, below the address of the service."""
    path = {name: quote(str(value), safe="$") for name, value in _in_path(operation).items()}
    query = urlencode(operation.sample.query, doseq=True, safe="$,:")
    return operation.path.format(**path) + (f"?{query}" if query else "")


def _answers_json(operation: Endpoint) -> bool:
    return next(iter(operation.responses), JSON) in READ_AS_JSON


def _each_text(value: Any, text: str, other: str) -> Any:
    """The value with one text in place of another, in every text in it."""
    if isinstance(value, dict):
        return {_each_text(name, text, other): _each_text(one, text, other) for name, one in value.items()}
    if isinstance(value, list):
        return [_each_text(one, text, other) for one in value]
    return value.replace(text, other) if isinstance(value, str) else value


def _credentials(operation: Endpoint) -> dict[str, str]:
    if operation.terms.opens_to == "key":
        return {"Authorization": f"Bearer ${KEY}"}
    if operation.terms.opens_to == "operator":
        # The variable that the server itself is started with.
        return {"Authorization": f"Bearer $TOLLHOUSE_{operation.terms.operator_setting.upper()}"}
    return {}


def _in_path(operation: Endpoint) -> dict[str, Any]:
    described = {name: schema.get("example") for name, schema in operation.path_parameters.items()}
    return described | operation.sample.path


def _body(operation: Endpoint) -> Any:
    return operation.examples.get("body") if operation.sample.body is None else operation.sample.body


def _curl(call: _Call) -> str:
    implied = "GET" if call.body is None else "POST"
    method = "" if call.method == implied else f" -X {call.method}"
    parts = [f'curl -sS --fail-with-body{method} "{call.address}"']
    parts += [f"-H {_shell_text(f'{name}: {value}')}" for name, value in call.headers.items()]
    if call.body is None:
        return " \\\n  ".join(parts)
    if call.is_raw:
        return " \\\n  ".join([*parts, f"-d {_shell_text(call.body)}"])
    text = _written(call.body, partial(json.dumps, ensure_ascii=False))
    # A quoted word keeps the shell from looking for variables in the text.
    word = "END" if _VARIABLE.search(text) else "'END'"
    return " \\\n  ".join([*parts, f"-d @- <<{word}"]) + f"\n{text}\nEND"


def _python(call: _Call) -> str:
    arguments = [_python_leaf(call.address)]
    # `json=` sends the body's type by itself.
    headers = {name: value for name, value in call.headers.items() if call.is_raw or name != "Content-Type"}
    if headers:
        arguments.append(f"headers={_written(headers, _python_leaf, 4, step=4)}")
    if call.body is not None:
        arguments.append(f"{'data' if call.is_raw else 'json'}={_written(call.body, _python_leaf, 4, step=4)}")
    inside = "".join(f"    {argument},\n" for argument in [*arguments, "timeout=30"])
    shown = "answer.json()" if call.answers_json else "answer.text"
    imports = "import os\n\nimport requests" if "os.environ" in inside else "import requests"
    return (
        f"{imports}\n\nanswer = requests.{call.method.lower()}(\n{inside})\nanswer.raise_for_status()\nprint({shown})"
    )


def _javascript(call: _Call) -> str:
    options = [f'method: "{call.method}"'] if call.method != "GET" else []
    if call.headers:
        options.append(f"headers: {_written(call.headers, _javascript_leaf, 2)}")
    if call.body is not None:
        text = _written(call.body, _javascript_leaf, 2)
        options.append(f"body: {text if call.is_raw else f'JSON.stringify({text})'}")
    inside = ", {\n" + "".join(f"  {option},\n" for option in options) + "}" if options else ""
    shown = "json" if call.answers_json else "text"
    return (
        f"const answer = await fetch({_javascript_leaf(call.address)}{inside});\n"
        f"if (!answer.ok) throw new Error(await answer.text());\nconsole.log(await answer.{shown}());"
    )


def _written(value: Any, leaf: Callable[[Any], str], indent: int = 0, *, step: int = 2) -> str:
    """The value as the language's literal, on one line where it fits; lists and objects look alike in all three.

    `leaf` writes a value that is no object and no list.
    """
    if not isinstance(value, dict | list):
        return leaf(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    members = list(value.values()) if isinstance(value, dict) else value
    written = [
        name + _written(member, leaf, indent + step, step=step) for name, member in zip(names, members, strict=True)
    ]
    flat = opening + ", ".join(written) + closing
    if len(flat) + indent <= _WIDTH and "\n" not in flat:
        return flat
    inside = ",\n".join(" " * (indent + step) + member for member in written)
    return f"{opening}\n{inside}\n{' ' * indent}{closing}"


def _shell_text(text: str) -> str:
    return f'"{text}"' if _VARIABLE.search(text) else f"'{text}'"


def _python_leaf(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    if (variable := _VARIABLE.fullmatch(value)) is not None:
        return f'os.environ["{variable[1]}"]'
    text = json.dumps(value, ensure_ascii=False)
    return "f" + _VARIABLE.sub(r"{os.environ['\1']}", text) if _VARIABLE.search(text) else text


def _javascript_leaf(value: Any) -> str:
    if isinstance(value, str):
        if (variable := _VARIABLE.fullmatch(value)) is not None:
            return f"process.env.{variable[1]}"
        if _VARIABLE.search(value):
            return "`" + _VARIABLE.sub(r"${process.env.\1}", value) + "`"
    return json.dumps(value, ensure_ascii=False)
