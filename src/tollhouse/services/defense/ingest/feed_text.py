"""Which characters a feed's bytes stand for, whatever its header claims, and what XML forbids among them."""

import codecs
import re

# Encodings of text that feeds really use. Python knows others, such as punycode, that cost far more to decode.
_KNOWN = re.compile(
    r"(?:us-)?ascii|utf-?(?:16|32)(?:-?[bl]e)?|(?:iso|latin)-?\d[-\w]*|(?:windows|cp)-?\d+|koi8-\w"
    r"|gb(?:k|2312|18030)|big5[-\w]*|(?:shift|s)-?jis[-\w]*|euc-\w+|mac-?\w+|tis-?620"
)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
# Nothing but ASCII and zeros to look at, so that "it is valid UTF-8" proves nothing.
_WIDE = ("utf16", "utf-16", "utf32", "utf-32")
_NOT_BY_UTF8 = ("iso-2022", "iso2022", *_WIDE)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
# As browsers do: who says Latin-1 means Microsoft's superset of it.
_LATIN = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"})
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed_text(raw: bytes, content_type: str = "") -> str:
    """The feed's text without XML declaration and without characters that XML 1.0 forbids.

    A byte order mark decides; then UTF-8, if the bytes are valid UTF-8 (servers name a default charset too often to
    be believed over that); then the charset of the HTTP header, the XML declaration's, and a guess.
    """
    text = _decoded(raw, content_type)
    return _FORBIDDEN.sub("", _DECLARATION.sub("", text.removeprefix("\ufeff")))


def _decoded(raw: bytes, content_type: str) -> str:
    for mark, name in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw.decode(name, "replace")
    claimed = _claimed(raw, content_type)
    if claimed.startswith(_NOT_BY_UTF8):
        return raw.decode(claimed, "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode(claimed, "replace") if claimed else _damaged(raw)


def _damaged(raw: bytes) -> str:
    """UTF-8 with a few broken bytes, or windows-1252 where most of what is not ASCII is broken."""
    text = raw.decode("utf-8", "replace")
    is_mostly_whole = text.count("\ufffd") * 2 <= len(_BEYOND_ASCII.findall(text))
    return text if is_mostly_whole else raw.decode("cp1252", "replace")


def _claimed(raw: bytes, content_type: str) -> str:
    """The encoding that the header or else the declaration names; empty when it is UTF-8, unknown or impossible."""
    header = _CHARSET.search(content_type)
    declared = _DECLARED.search(raw[:1024])
    for name in (header[1] if header else "", declared[1].decode("ascii") if declared else ""):
        lower = name.lower().replace("_", "-")
        if _KNOWN.fullmatch(lower) and _exists(lower) and not (lower.startswith(_WIDE) and _is_byte_wise(raw)):
            return "cp1252" if lower in _LATIN else lower
    return ""


def _exists(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def _is_byte_wise(raw: bytes) -> bool:
    """Whether the feed begins with ASCII, which in UTF-16 and UTF-32 would have zeros between its letters."""
    return b"\0" not in raw[:64]
