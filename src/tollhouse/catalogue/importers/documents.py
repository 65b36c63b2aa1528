"""Documents: the bytes of a file or of an HTTP response, decompressed and decoded."""

import zlib

from msgspec import Struct

from tollhouse import charset
from tollhouse.catalogue.importers.items import MAX_BYTES, UnreadableFeed

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"


class Document(Struct, frozen=True):
    """One file, or one response. `url` is the address after redirects."""

    body: bytes
    content_type: str = ""
    url: str = ""

    def text(self, encoding: str = "") -> str:
        """The decompressed text. Raises UnreadableFeed."""
        return decoded_text(decompressed(self.body), self.content_type, encoding)


def decompressed(raw: bytes, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes, unpacked if they are gzip. Raises UnreadableFeed when they are damaged or too large."""
    if raw.startswith(_ZIP):
        raise UnreadableFeed("this is a zip archive or a spreadsheet: unpack it, or use the format xlsx")
    if not raw.startswith(_GZIP):
        if len(raw) > max_bytes:
            raise UnreadableFeed(f"the feed is larger than {max_bytes} bytes")
        return raw
    unpacked = bytearray()
    while raw.startswith(_GZIP):
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            # One byte more than allowed is enough to see that it is too much: a bomb unpacks a thousandfold.
            unpacked += inflater.decompress(raw, max_bytes + 1 - len(unpacked))
        except zlib.error:
            raise UnreadableFeed("the gzip file is damaged") from None
        if len(unpacked) > max_bytes:
            raise UnreadableFeed(f"the feed unpacks to more than {max_bytes} bytes")
        if not inflater.eof:
            raise UnreadableFeed("the gzip file is cut short")
        raw = inflater.unused_data
    return bytes(unpacked)


def decoded_text(raw: bytes, content_type: str = "", encoding: str = "") -> str:
    """The text of a feed. Raises UnreadableFeed for binary data.

    A byte order mark decides, then `encoding`, then the zeros of UTF-16 without a mark, then `charset.decoded`.
    """
    certain = charset.marked(raw) or encoding or _utf_16_without_mark(raw)
    if certain:
        try:
            text = raw.decode(certain)
        except (UnicodeDecodeError, LookupError):
            raise UnreadableFeed(f"the feed is not text in {certain[:40]}") from None
    else:
        text = charset.decoded(raw, content_type)
    if "\0" in text:
        raise UnreadableFeed("this is no text: it contains zero bytes")
    return text.removeprefix("\ufeff")


def _utf_16_without_mark(raw: bytes) -> str:
    head = raw[:64]
    if len(head) >= 8 and head[0] and head[2] and not any(head[1:8:2]):
        return "utf-16-le"
    if len(head) >= 8 and head[1] and head[3] and not any(head[0:8:2]):
        return "utf-16-be"
    return ""
