"""An answer that was paid for and may not have arrived: kept with its charge until it was wholly sent."""

import msgspec

KEPT_SECONDS = 600.0
"""How long the same signed request gets the same answer again (wire contract, section 3, Agents)."""


class StoredResponse(msgspec.Struct, frozen=True):
    """What has to be sent again, byte for byte, when the first sending broke off."""

    status: int
    media_type: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    etag: str = ""
    cache_control: str = ""
