"""Which encoding a document's bytes are in: its byte order mark, what the bytes prove, what is claimed, a guess."""

import codecs
import re
from collections.abc import Callable, Iterator

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings of text that are really used. Python knows others, such as punycode, that cost far more to decode.
_KNOWN = re.compile(
    r"(?:us-)?ascii|utf-?(?:16|32)(?:-?[bl]e)?|(?:iso|latin)-?\d[-\w]*|(?:windows|cp)-?\d+|koi8-\w"
    r"|gb(?:k|2312|18030)|big5[-\w]*|(?:shift|s)-?jis[-\w]*|euc-\w+|mac-?\w+|tis-?620"
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_DECLARED = re.compile(
    rb"""<(?:\?xml|meta)[^>]{0,200}?(?:encoding|charset)\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE
)
_DECLARED_WITHIN_BYTES = 2_048
_WIDE = ("utf16", "utf-16", "utf32", "utf-32")
_SWITCHING = ("iso-2022", "iso2022")
# As browsers do: who says Latin-1 means Microsoft's superset of it.
_LATIN = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"})


def marked(raw: bytes) -> str:
    """The encoding that a byte order mark names; empty without one."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), "")


def decoded(raw: bytes, content_type: str) -> str:
    """The text, with U+FFFD for what is broken in it; a byte order mark stays."""
    return raw.decode(encoding_of(lambda: iter((raw,)), content_type), "replace")


def encoding_of(chunks: Callable[[], Iterator[bytes]], content_type: str) -> str:
    """The encoding of bytes that are read in parts, each time from their beginning.

    A mark decides; then UTF-8, if the bytes are valid UTF-8 (servers and files name others by default too often to be
    believed over that); then the charset of the HTTP header, the document's own, and a guess: UTF-8 with a few broken
    bytes, or windows-1252 where most of what is not ASCII is broken.
    """
    head = next(chunks(), b"")
    if mark := marked(head):
        return mark
    name, proven = claimed(head, content_type), _proven(chunks())
    # UTF-16 and UTF-32 are ASCII with zeros between; ISO 2022 switches alphabets within ASCII.
    if name.startswith(_WIDE) or (proven == "ascii" and name.startswith(_SWITCHING)):
        return name
    return "utf-8" if proven else name or _guessed(chunks())


def claimed(raw: bytes, content_type: str) -> str:
    """The encoding that the header or else the document names; empty when it is UTF-8, unknown or impossible."""
    header, declared = _CHARSET.search(content_type), _DECLARED.search(raw[:_DECLARED_WITHIN_BYTES])
    for name in (header[1] if header else "", declared[1].decode("ascii") if declared else ""):
        lower = name.lower().replace("_", "-")
        if _KNOWN.fullmatch(lower) and _exists(lower) and not (lower.startswith(_WIDE) and _is_byte_wise(raw)):
            return "cp1252" if lower in _LATIN else lower
    return ""


def _proven(chunks: Iterator[bytes]) -> str:
    """ASCII or UTF-8 if all of it is valid, else empty."""
    try:
        are_ascii = {text.isascii() for text in codecs.iterdecode(chunks, "utf-8")}
    except UnicodeDecodeError:
        return ""
    return "utf-8" if False in are_ascii else "ascii"


def _guessed(chunks: Iterator[bytes]) -> str:
    broken = beyond_ascii = 0
    for text in codecs.iterdecode(chunks, "utf-8", "replace"):
        broken += text.count("\ufffd")
        beyond_ascii += len(text) - len(text.encode("ascii", "ignore"))
    return "utf-8" if broken * 2 <= beyond_ascii else "cp1252"


def _exists(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def _is_byte_wise(raw: bytes) -> bool:
    """Whether it begins with ASCII, which in UTF-16 and UTF-32 would have zeros between its letters."""
    return b"\0" not in raw[:64]
