"""Retailers: their names, their domains, and the affiliate links to their product pages."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

Network = Literal["awin", "impact", "commission-factory", "rakuten", "tag", "none"]

# `{url}` is the percent-encoded URL of the product's page; `host` is the network's own unless a programme sets one.
_TEMPLATES: dict[Network, str] = {
    "awin": "https://{host}/cread.php?awinmid={merchant}&awinaffid={publisher}&ued={url}",
    "impact": "https://{host}/c/{publisher}/{campaign}/{merchant}?u={url}",
    "commission-factory": "https://{host}/{publisher}/t/{merchant}?Url={url}",
    "rakuten": "https://{host}/deeplink?id={publisher}&mid={merchant}&murl={url}",
}
_HOSTS: dict[Network, str] = {
    "awin": "www.awin1.com",
    "commission-factory": "t.cfjump.com",
    "rakuten": "click.linksynergy.com",
}
# What the other networks need. Those with a host of their own need `merchant` and `publisher`.
_NEEDED: dict[Network, tuple[str, ...]] = {
    "impact": ("host", "merchant", "publisher", "campaign"),
    "tag": ("parameter", "publisher"),
    "none": (),
}

OPERATORS_FILE = "mattress-retailers.toml"

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class AffiliateProgramme(Struct, frozen=True, forbid_unknown_fields=True):
    """The affiliate programme of a retailer. Impact gives each merchant a `host`; other networks have one for all.

    `tag` adds `parameter=publisher` to the retailer's own URL; `none` leaves it unchanged. Raises ValueError if a
    member that the network needs is missing.
    """

    network: Network = "none"
    publisher: str = ""
    merchant: str = ""
    campaign: str = ""
    host: str = ""
    parameter: str = "ref"

    def __post_init__(self) -> None:
        missing = [name for name in _NEEDED.get(self.network, ("merchant", "publisher")) if not getattr(self, name)]
        if missing:
            raise ValueError(f"network {self.network!r} requires: {', '.join(missing)}")

    @property
    def link_host(self) -> str:
        """The host of the network's links; "" for links straight to the retailer."""
        return self.host or _HOSTS.get(self.network, "")

    def link(self, page: str) -> str:
        if self.network == "none":
            return page
        if self.network == "tag":
            parts = urlsplit(page)
            query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != self.parameter]
            return urlunsplit(parts._replace(query=urlencode([*query, (self.parameter, self.publisher)])))
        return _TEMPLATES[self.network].format(
            host=self.link_host,
            merchant=quote(self.merchant, safe=""),
            publisher=quote(self.publisher, safe=""),
            campaign=quote(self.campaign, safe=""),
            url=quote(page, safe=""),
        )


class RetailersError(ValueError):
    """An invalid file of retailers; the message names the file and the reason."""


class Retailer(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    name: str = ""
    domains: tuple[str, ...] = ()
    affiliate: AffiliateProgramme = AffiliateProgramme()

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(
                f"retailer id {self.id[:60]!r} is invalid: use up to 40 lower-case letters, digits and hyphens"
            )

    @property
    def display_name(self) -> str:
        return self.name or self.id.replace("-", " ").title()

    @property
    def affiliate_domains(self) -> list[str]:
        return sorted({domain for domain in (self.affiliate.link_host, *self.domains) if domain})


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    retailer: list[Retailer] = []


class Retailers:
    """The configured retailers by id. Any other retailer has just an id, and links without an affiliate programme."""

    def __init__(self, known: Iterable[Retailer]) -> None:
        self._known = {retailer.id: retailer for retailer in known}

    def get(self, identity: str) -> Retailer:
        """The retailer with this id. Raises ValueError if the id is malformed."""
        return self._known.get(identity) or Retailer(identity)


def load_retailers(data_dir: Path | None = None) -> Retailers:
    """The demonstration's retailers, overridden by `mattress-retailers.toml` in the data directory.

    Raises RetailersError if the file is malformed.
    """
    file = data_dir / OPERATORS_FILE if data_dir else None
    configured = _read(file.read_bytes(), str(file)) if file and file.exists() else ()
    return Retailers([*demo_retailers(), *configured])


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
