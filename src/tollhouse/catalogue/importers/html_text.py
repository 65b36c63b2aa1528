"""What a reader sees of a piece of HTML: its words, line by line, without tags, scripts and entities."""

import re
from html import unescape

LONGEST = 20_000
"""Characters of a description that are kept."""

_LONGEST_HTML = 400_000
_TOKEN = re.compile(r"<!--|<(/?)([a-zA-Z][\w:-]{0,40})[^<>]*>|<[!?][^<>]*>")
_SPACE = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "iframe", "svg", "title"})
_BLOCKS = frozenset(
    {
        *(
            "p",
            "div",
            "br",
            "li",
            "ul",
            "ol",
            "table",
            "tr",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "hr",
            "dl",
            "dt",
            "dd",
        ),
        *("section", "article", "header", "footer", "blockquote", "pre", "figure", "figcaption"),
    }
)


def plain_text(html: str) -> str:
    """The words of a piece of HTML, each block on a line of its own, at most LONGEST characters."""
    text = html[:_LONGEST_HTML]
    if "<" in text:
        text = _without_tags(text)
    text = _UNSEEN.sub(" ", unescape(text))
    if "<" in text and _TOKEN.search(text):
        # Escaped twice, as feeds do that carry HTML inside of XML inside of CDATA.
        text = _UNSEEN.sub(" ", unescape(_without_tags(text)))
    return _LINES.sub("\n", _SPACE.sub(" ", text)).strip()[:LONGEST].rstrip()


def one_line(text: str) -> str:
    """A title or a label: its words, on one line."""
    return " ".join(plain_text(text).split())


def _without_tags(text: str) -> str:
    pieces: list[str] = []
    position, hidden = 0, ""
    while token := _TOKEN.search(text, position):
        if not hidden:
            pieces.append(text[position : token.start()])
        position = token.end()
        name = (token[2] or "").lower()
        if token[0] == "<!--":
            end = text.find("-->", position)
            position = len(text) if end < 0 else end + 3
        elif hidden:
            hidden = "" if token[1] and name == hidden else hidden
        elif name in _HIDDEN and not token[1] and not token[0].endswith("/>"):
            hidden = name
        elif name in _BLOCKS:
            pieces.append("\n")
    return "".join(pieces) + ("" if hidden else text[position:])
