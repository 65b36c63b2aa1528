"""Which characters a feed's bytes stand for, whatever its header claims, and what XML forbids among them."""

import re

from tollhouse import charset

_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed_text(raw: bytes, content_type: str = "") -> str:
    """The feed's text without XML declaration and without characters that XML 1.0 forbids."""
    text = charset.decoded(raw, content_type)
    return _FORBIDDEN.sub("", _DECLARATION.sub("", text.removeprefix("\ufeff")))
