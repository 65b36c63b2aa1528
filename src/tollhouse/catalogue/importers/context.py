"""What a reader is told besides the feed's text."""

from urllib.parse import urljoin

from msgspec import Struct

from tollhouse.catalogue.importers.mapping import Mapping


class Context(Struct, frozen=True):
    """`site` is where the shop stands, with a slash at the end, or ""; `before` counts the entries of earlier pages."""

    site: str = ""
    before: int = 0
    mapping: Mapping = Mapping()

    def page(self, address: str) -> str:
        """An address of the shop made whole; as it is where nobody knows the shop's own."""
        if not address or not self.site:
            return address
        try:
            return urljoin(self.site, address)
        except ValueError:
            return address
