"""Which characters a feed's bytes stand for: unpacked, and decoded whatever it declares or forgets to."""

import codecs
import re
import zlib

from tollhouse.services.mattress.importers.article import MAX_BYTES, Unreadable

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(
    rb"""<(?:\?xml|meta)[^>]{0,200}?(?:encoding|charset)\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
# The encodings that shops use. Python knows others that cost far more to decode.
_KNOWN = re.compile(
    r"utf-?(?:8|16|32)(?:-?[bl]e)?|(?:us-)?ascii|(?:iso|latin)-?\d[-\w]*|(?:windows|cp)-?\d+|mac-?roman"
)
# As browsers do: who says Latin-1 means Microsoft's superset of it.
_LATIN = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


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

    A byte order mark decides, then `encoding` where someone says so; then UTF-8 if the bytes are valid UTF-8, since
    servers and files claim others by default; then what the header or the document declares, and windows-1252.
    """
    text = _decoded(raw, content_type, encoding).removeprefix("\ufeff")
    if "\0" in text:
        raise Unreadable("this is no text: it has zero bytes in it")
    return text


def _decoded(raw: bytes, content_type: str, encoding: str) -> str:
    for mark, name in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return _strictly(raw, name)
    if encoding:
        return _strictly(raw, encoding)
    if wide := _wide(raw):
        return _strictly(raw, wide)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _of_another(raw, _claimed(raw, content_type))


def _of_another(raw: bytes, claimed: str) -> str:
    """Bytes that are no valid UTF-8: as declared, or UTF-8 with a few broken bytes, or windows-1252."""
    if claimed:
        return raw.decode(claimed, "replace")
    text = raw.decode("utf-8", "replace")
    is_mostly_whole = text.count("\ufffd") * 2 <= len(_BEYOND_ASCII.findall(text))
    return text if is_mostly_whole else raw.decode("cp1252", "replace")


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


def _claimed(raw: bytes, content_type: str) -> str:
    header, declared = _CHARSET.search(content_type), _DECLARED.search(raw[:2048])
    for name in (header[1] if header else "", declared[1].decode("ascii") if declared else ""):
        lower = name.lower().replace("_", "-")
        if _KNOWN.fullmatch(lower) and not lower.startswith("utf") and _exists(lower):
            return "cp1252" if lower in _LATIN else lower
    return ""


def _exists(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True
