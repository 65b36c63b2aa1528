"""HTML to plain text: what a reader sees of a piece of HTML, without tags, scripts, comments and entities."""

import re
from html import unescape
from html.parser import HTMLParser

# Longer input is cut before it is parsed.
MAX_HTML = 400_000

_TAG = re.compile(r"<[a-zA-Z/!?]")
# Comments, and elements whose content is not markup. Removing them first keeps the parser linear on hostile input.
_RAW = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\b[^>]*>?|\Z)", re.DOTALL | re.IGNORECASE)
_CDATA = re.compile(r"<!\[CDATA\[|\]\]>")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r"\s*\n\s*")
# Control characters, invisible marks that reorder text, and halves of surrogate pairs.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_HIDDEN = frozenset({"script", "style", "head", "template", "noscript", "iframe", "svg", "title"})
_BLOCKS = frozenset({
    "p", "div", "br", "li", "ul", "ol", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "dl", "dt", "dd",
    "section", "article", "header", "footer", "blockquote", "pre", "figure", "figcaption",
})  # fmt: skip
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "cite", "code", "em", "font", "i", "mark", "q", "s", "small", "span", "strong", "sub",
    "sup", "u", "wbr",
})  # fmt: skip


def plain_text(html: str, limit: int) -> str:
    """The words of a piece of HTML, each block on its own line, at most `limit` characters."""
    text = html[:MAX_HTML]
    if "<" in text:
        text = _without_tags(text)
    elif "&" in text:
        text = unescape(text)
    if _TAG.search(text):
        # Escaped twice, as in feeds that carry HTML in CDATA in XML.
        text = _without_tags(text)
    return _LINE_ENDS.sub("\n", _SPACES.sub(" ", _INVISIBLE.sub(" ", text))).strip()[:limit].rstrip()


def one_line(html: str, limit: int = MAX_HTML) -> str:
    """The words of a piece of HTML on one line, at most `limit` characters, cut between words with an ellipsis."""
    return shortened(" ".join(plain_text(html, MAX_HTML).split()), limit)


def shortened(text: str, limit: int) -> str:
    """The text, or its first words and an ellipsis, at most `limit` characters."""
    if len(text) <= limit:
        return text
    head, _, _ = text[:limit].rpartition(" ")
    return (head or text[: limit - 1]).rstrip(" ,;:-") + "…"


def _without_tags(html: str) -> str:
    # An empty element in place of what is removed: its neighbours cannot join into new markup.
    html = _CDATA.sub(" ", _RAW.sub("<i></i>", html)).replace("<![", "<! [")
    end = html.rfind(">") + 1
    cut_tag = _TAG.search(html, end)
    parser = _TextParser()
    parser.feed(html[: cut_tag.start()] if cut_tag else html)
    parser.close()
    return "".join(parser.pieces)


class _TextParser(HTMLParser):
    """Collects the visible text of one document."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's API
        if self._hidden:
            self._depth += tag == self._hidden
        elif tag in _HIDDEN:
            self._hidden, self._depth = tag, 1
        else:
            self._separate(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as above
        if not self._hidden:
            self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._hidden:
            self._separate(tag)
        elif tag == self._hidden:
            self._depth -= 1
            self._hidden = tag if self._depth else ""

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)

    def _separate(self, tag: str) -> None:
        if tag not in _INLINE:
            self.pieces.append("\n" if tag in _BLOCKS else " ")
