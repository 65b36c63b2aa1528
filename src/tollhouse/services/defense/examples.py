"""Examples for the OpenAPI description, from the bundled recording of November 2020."""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec


@cache
def example(name: str) -> Any:
    """The example of this name in data/examples.json."""
    raw = files("tollhouse.services.defense").joinpath("data", "examples.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, Any])[name]


def id_parameter(prefix: str, example_id: str, digits: int = 16, name: str = "id") -> dict[str, dict[str, Any]]:
    """A path parameter that is an id: the prefix, an underscore and hexadecimal digits."""
    schema = {"type": "string", "pattern": f"^{prefix}_[0-9a-f]{{{digits}}}$"}
    return {
        name: {"description": f"The id, `{prefix}_` and {digits} hex digits", "example": example_id, "schema": schema}
    }
