"""What the declarations of the endpoints share: examples, from the bundled recording of November 2020, and terms."""

from functools import cache, partial
from importlib.resources import files
from typing import Any

import msgspec

from tollhouse.http.endpoint import JSON, endpoint
from tollhouse.http.terms import KEY_OR_AGENT

feed_endpoint = partial(endpoint, terms=KEY_OR_AGENT, tag="feeds", is_tool=True, visit_types=(JSON,))


@cache
def example(name: str) -> Any:
    raw = files("tollhouse.services.defense").joinpath("data", "examples.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, Any])[name]


def id_parameter(prefix: str, example_id: str, digits: int = 16, name: str = "id") -> dict[str, dict[str, Any]]:
    """A path parameter that is an id: the prefix, an underscore and hexadecimal digits."""
    schema = {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{{digits}}}$"}
    return {
        name: {"description": f"The id, `{prefix}_` and {digits} hex digits", "example": example_id, "schema": schema}
    }
