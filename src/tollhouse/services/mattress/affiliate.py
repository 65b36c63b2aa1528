"""Affiliate links: a product's page at its retailer, led through the network that pays for the visit."""

from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

Network = Literal["awin", "impact", "commission-factory", "rakuten", "tag", "none"]

# `{url}` is the product's page, percent-encoded as a whole; hosts are the networks' own unless a programme has another.
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
_NEEDED: dict[Network, tuple[str, ...]] = {
    "awin": ("merchant", "publisher"),
    "impact": ("host", "merchant", "publisher", "campaign"),
    "commission-factory": ("merchant", "publisher"),
    "rakuten": ("merchant", "publisher"),
    "tag": ("parameter", "publisher"),
    "none": (),
}


class Programme(Struct, frozen=True, forbid_unknown_fields=True):
    """How visits to a retailer are paid for. Impact gives each merchant a `host`; the others have one of their own.

    `tag` adds `parameter=publisher` to the retailer's own address; `none` leaves it alone. Raises ValueError for a
    programme without what its network needs.
    """

    network: Network = "none"
    publisher: str = ""
    merchant: str = ""
    campaign: str = ""
    host: str = ""
    parameter: str = "ref"

    def __post_init__(self) -> None:
        missing = [name for name in _NEEDED[self.network] if not getattr(self, name)]
        if missing:
            raise ValueError(f"an affiliate programme of {self.network} needs {', '.join(missing)}")

    @property
    def link_host(self) -> str:
        """Where links lead first; "" where that is the retailer."""
        return self.host or _HOSTS.get(self.network, "")

    def link(self, page: str) -> str:
        """The address to give out for a product's page."""
        if self.network == "none":
            return page
        if self.network == "tag":
            return _tagged(page, self.parameter, self.publisher)
        return _TEMPLATES[self.network].format(
            host=self.link_host,
            merchant=quote(self.merchant, safe=""),
            publisher=quote(self.publisher, safe=""),
            campaign=quote(self.campaign, safe=""),
            url=quote(page, safe=""),
        )


def _tagged(page: str, parameter: str, value: str) -> str:
    """The address with this parameter in its query, once, before any fragment."""
    parts = urlsplit(page)
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != parameter]
    return urlunsplit(parts._replace(query=urlencode([*pairs, (parameter, value)])))
