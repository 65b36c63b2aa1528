"""Our compiled contracts (sources in contracts/, rebuilt by `make contracts`): their code, as nodes take it."""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).parent / "contracts.json"


class Contract(Struct, frozen=True):
    """`creation` deploys it (constructor arguments are appended); `runtime` is what then stands at its address."""

    creation: str
    runtime: str


class _Artefacts(Struct, frozen=True):
    contracts: dict[str, Contract]


@cache
def contracts() -> dict[str, Contract]:
    """Every contract by its name."""
    return msgspec.json.decode(FILE.read_bytes(), type=_Artefacts).contracts
