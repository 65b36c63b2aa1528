"""Which characters a feed's bytes stand for: unpacked, and decoded whatever it declares or forgets to."""

import zlib

from tollhouse import charset
from tollhouse.catalogue.importers.article import MAX_BYTES, Unreadable

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"


def unpacked(raw: bytes, cap_bytes: int = MAX_BYTES) -> bytes:
    """The bytes themselves, or what is packed in them by gzip. Raises Unreadable when that is damaged or too large."""
    if raw.startswith(_ZIP):
        raise Unreadable("this is a zip archive or a spreadsheet: unpack it, or save it as CSV")
    if not raw.startswith(_GZIP):
        if len(raw) > cap_bytes:
            raise Unreadable(f"the feed is larger than {cap_bytes} bytes")
        return raw
    unpacked_bytes = bytearray()
    while raw.startswith(_GZIP):
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            # Never one byte more than it takes to see that it is too much: a bomb unpacks a thousandfold.
            unpacked_bytes += inflater.decompress(raw, cap_bytes + 1 - len(unpacked_bytes))
        except zlib.error:
            raise Unreadable("the gzip file is damaged") from None
        if len(unpacked_bytes) > cap_bytes:
            raise Unreadable(f"the feed unpacks to more than {cap_bytes} bytes")
        if not inflater.eof:
            raise Unreadable("the gzip file is cut short")
        raw = inflater.unused_data
    return bytes(unpacked_bytes)


def text_of(raw: bytes, content_type: str = "", encoding: str = "") -> str:
    """A feed's text. Raises Unreadable for what is none.

    A byte order mark decides, then `encoding` where someone says so, then the zeros of UTF-16; else `charset.decoded`.
    """
    text = _decoded(raw, content_type, encoding).removeprefix("\ufeff")
    if "\0" in text:
        raise Unreadable("this is no text: it has zero bytes in it")
    return text


def _decoded(raw: bytes, content_type: str, encoding: str) -> str:
    certain = charset.marked(raw) or encoding or _wide(raw)
    return _strictly(raw, certain) if certain else charset.decoded(raw, content_type)


def _strictly(raw: bytes, name: str) -> str:
    try:
        return raw.decode(name)
    except (UnicodeDecodeError, LookupError):
        raise Unreadable(f"the feed is not text in {name[:40]}") from None


def _wide(raw: bytes) -> str:
    """UTF-16 without a mark shows by the zeros between its first letters."""
    head = raw[:64]
    if len(head) >= 8 and head[0] and head[2] and not any(head[1:8:2]):
        return "utf-16-le"
    if len(head) >= 8 and head[1] and head[3] and not any(head[0:8:2]):
        return "utf-16-be"
    return ""
