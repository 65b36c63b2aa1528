"""Which characters a feed's bytes stand for, whatever its header claims, and what XML forbids among them."""

import re

from tollhouse import charset

_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# It switches alphabets in ASCII: that its bytes are valid UTF-8 proves nothing.
_SWITCHING = ("iso-2022", "iso2022")


def feed_text(raw: bytes, content_type: str = "") -> str:
    """The feed's text without XML declaration and without characters that XML 1.0 forbids.

    A byte order mark decides; then UTF-8, if the bytes are valid UTF-8 (servers name a default charset too often to
    be believed over that); then the charset of the HTTP header, the XML declaration's, and a guess.
    """
    text = _decoded(raw, content_type)
    return _FORBIDDEN.sub("", _DECLARATION.sub("", text.removeprefix("\ufeff")))


def _decoded(raw: bytes, content_type: str) -> str:
    if marked := charset.marked(raw):
        return raw.decode(marked, "replace")
    claimed = charset.claimed(raw, content_type)
    if claimed.startswith(_SWITCHING) or charset.is_wide(claimed):
        return raw.decode(claimed, "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode(claimed, "replace") if claimed else charset.damaged(raw)
