"""What the services say of themselves: every operation of their descriptions, and how each is called."""

from dataclasses import dataclass, field
from typing import Any

import httpx2

Json = dict[str, Any]


@dataclass(frozen=True)
class Described:
    """One operation as its description has it. `path` is whole, its parameters filled with the examples given there."""

    service: str
    method: str
    path: str
    told: Json = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.service}.{self.told['operationId']}"

    @property
    def parameters(self) -> list[Json]:
        """Those of the query."""
        return [parameter for parameter in self.told["parameters"] if parameter["in"] == "query"]

    @property
    def is_keyed(self) -> bool:
        return {"bearer": []} in self.told["security"]

    @property
    def body(self) -> Any:
        """The example of its body; None where it takes none."""
        content = self.told.get("requestBody", {}).get("content", {})
        return next((media.get("example", {}) for media in content.values()), None)

    @property
    def statuses(self) -> set[int]:
        return {int(status) for status in self.told["responses"]}


def described(root: str, service: str) -> list[Described]:
    """Every operation of a service that is mounted under its name."""
    document = httpx2.get(f"{root}/{service}/api/openapi.json", timeout=30).json()
    return [
        Described(service, method.upper(), f"/{service}{_filled(path, told)}", told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


def _filled(path: str, told: Json) -> str:
    for parameter in told["parameters"]:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(parameter.get("example", "x")))
    return path
