"""The retailers this service knows: their names, their domains, and how their affiliate links are built."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from tollhouse.services.mattress.affiliate import Programme

OPERATORS_FILE = "mattress-retailers.toml"

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class RetailersError(ValueError):
    """A file of retailers that cannot be read; the text says which and why."""


class Retailer(Struct, frozen=True, forbid_unknown_fields=True):
    """A shop and the domains that are its own."""

    id: str
    name: str = ""
    domains: tuple[str, ...] = ()
    affiliate: Programme = Programme()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"a retailer's id is up to 40 small letters, digits and hyphens, not {self.id[:60]!r}")

    @property
    def shown_name(self) -> str:
        """Its name; without one, what its id reads like."""
        return self.name or self.id.replace("-", " ").title()

    @property
    def affiliate_domains(self) -> list[str]:
        """Every domain that its affiliate links lead through or to."""
        return sorted({domain for domain in (self.affiliate.link_host, *self.domains) if domain})


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    retailer: list[Retailer] = []


class Retailers:
    """All known retailers by id. One that no file names is known by its id alone, with untagged links."""

    def __init__(self, known: Iterable[Retailer]) -> None:
        self._known = {retailer.id: retailer for retailer in known}

    def of(self, identity: str) -> Retailer:
        """The retailer of an id. Raises ValueError for what cannot be one."""
        return self._known.get(identity) or Retailer(identity)


def load_retailers(data_dir: Path | None = None) -> Retailers:
    """The demonstration's retailers, and over them the operator's in `mattress-retailers.toml` of the data folder.

    Raises RetailersError for a file that is malformed.
    """
    theirs = data_dir / OPERATORS_FILE if data_dir else None
    added = _read(theirs.read_bytes(), str(theirs)) if theirs and theirs.exists() else ()
    return Retailers([*demo_retailers(), *added])


@cache
def demo_retailers() -> tuple[Retailer, ...]:
    """The fictional retailers of the bundled demonstration."""
    bundled = files("tollhouse.services.mattress").joinpath("data", "retailers.toml")
    return tuple(_read(bundled.read_bytes(), "retailers.toml"))


def _read(raw: bytes, name: str) -> list[Retailer]:
    try:
        return msgspec.toml.decode(raw, type=_File).retailer
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RetailersError(f"{name}: {error}") from None
