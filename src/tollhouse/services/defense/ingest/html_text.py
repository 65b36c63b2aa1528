"""What a reader sees of a piece of HTML: its words, without tags, scripts and entities."""

import re
from html import unescape

# Longer pieces are cut before anything else is done to them.
LONGEST = 100_000

_TAG = re.compile(r"<!--.*?(?:-->|$)|<(/?)([a-zA-Z][\w:-]*)[^<>]*>|<[!?][^<>]*>", re.DOTALL)
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\ufeff]+")
_HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "iframe", "svg"})
_INLINE = frozenset(
    {
        *("a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "mark"),
        *("q", "s", "small", "span", "strong", "sub", "sup", "u", "wbr"),
    }
)


def plain_text(html: str, limit: int) -> str:
    """The words of a piece of HTML on one line, at most `limit` characters, cut between words."""
    text = html[:LONGEST]
    if "<" in text:
        text = _without_tags(text)
    if "&" in text:
        # What only looks like a tag once unescaped goes too: a title never needs one.
        text = _without_tags(unescape(text))
    return shortened(_SPACE.sub(" ", text).strip(), limit)


def shortened(text: str, limit: int) -> str:
    """The text, or its first words with an ellipsis, at most `limit` characters."""
    if len(text) <= limit:
        return text
    head, _, _ = text[:limit].rpartition(" ")
    return (head or text[: limit - 1]).rstrip(" ,;:-") + "…"


def _without_tags(text: str) -> str:
    pieces: list[str] = []
    hidden = ""
    position = 0
    for tag in _TAG.finditer(text):
        name = (tag[2] or "").lower()
        if not hidden:
            pieces += (text[position : tag.start()], "" if name in _INLINE else " ")
        position = tag.end()
        if hidden and tag[1] and name == hidden:
            hidden = ""
        elif not hidden and not tag[1] and name in _HIDDEN and not tag[0].endswith("/>"):
            hidden = name
    return "".join(pieces) + ("" if hidden else text[position:])
