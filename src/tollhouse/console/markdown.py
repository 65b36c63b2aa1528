"""How Markdown becomes a part of a page: headings that can be linked to, tables that scroll, links that stay inside."""

import html
import posixpath
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

from tollhouse.console import guide_contents as contents

SCREENSHOTS = "screenshots/"
_NUMBER = ' class="number"'

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//")
_NO_WORD = re.compile(r"[^\w\- ]")

# Where a link leads, given what the file says; None where nothing is served.
Leads = Callable[[str], str | None]


class Heading(Struct, frozen=True):
    """A heading of a page: its text, its depth from 1, and the anchor that leads to it."""

    text: str
    depth: int
    anchor: str


class Text(Struct, frozen=True):
    """A rendered page: HTML that holds nothing but what Markdown can say."""

    body: str
    headings: tuple[Heading, ...]


def rendered(markdown: str, leads: Leads = lambda href: href) -> Text:
    """The whole text. HTML in it is shown as it is written, never passed on."""
    tokens = _markdown().parse(markdown)
    headings = _with_anchors(tokens)
    for token in tokens:
        _lead(token.children or [], leads)
    return Text(_markdown().renderer.render(tokens, _markdown().options, {}), tuple(headings))


def inline(markdown: str) -> str:
    """A sentence: code and stress within it, and nothing around it."""
    return str(_markdown().renderInline(markdown))


def leads_from(name: str, is_page: Callable[[str], bool]) -> Leads:
    """How links of the page `name` of the documentation lead: to other pages, to screenshots, to no file else."""
    folder = posixpath.dirname(name)

    def leads(href: str) -> str | None:
        if _SCHEME.match(href) or href.startswith(("#", "/")):
            return href
        path, _, anchor = href.partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        if target.startswith(SCREENSHOTS):
            return f"/guide/{target}"
        if target.endswith(".md") and is_page(target.removesuffix(".md")):
            return f"/guide/{target.removesuffix('.md')}{f'#{anchor}' if anchor else ''}"
        return "/guide" if target in ("../README.md", "decisions") else None

    return leads


def slug(text: str) -> str:
    """The anchor of a heading, as the usual hosts of Markdown make it, so that links work there too."""
    return _NO_WORD.sub("", text.lower()).strip().replace(" ", "-")


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return made


def _with_anchors(tokens: Sequence[Token]) -> list[Heading]:
    """Give every heading an id of its own; tells them."""
    headings: list[Heading] = []
    for opening, inside in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inside.children or [])
            anchor, taken = slug(text), {heading.anchor for heading in headings}
            while anchor in taken:
                anchor += "-1"
            opening.attrSet("id", anchor)
            headings.append(Heading(text, int(opening.tag[1:]), anchor))
    return headings


def _lead(children: Sequence[Token], leads: Leads) -> None:
    """Send links and pictures where they lead; a link to what is not served becomes its text."""
    is_dead = False
    for at, token in enumerate(children):
        if token.type == "link_open":
            target = leads(str(token.attrs["href"]))
            is_dead = target is None
            token.attrs = {} if target is None else {**token.attrs, "href": target}
            if target:
                # Whatever is between: at the least, the end of the link.
                _name(children[at + 1], target)
        elif token.type == "image":
            token.attrs = {**token.attrs, "src": leads(str(token.attrs["src"])) or "", "loading": "lazy"}
        if is_dead and token.type in ("link_open", "link_close"):
            token.tag = "span"


def _name(text: Token, target: str) -> None:
    """A link that is called like its file is called like the page here."""
    page = target.removeprefix("/guide/").partition("#")[0]
    if text.content.endswith(".md") and page in contents.pages():
        text.content = contents.title(page)


def _heading_close(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    opening, inside = tokens[index - 2], tokens[index - 1]
    if opening.tag == "h1":
        return "</h1>\n"
    label = html.escape("".join(child.content for child in inside.children or []))
    anchor = html.escape(str(opening.attrs["id"]))
    return f' <a class="anchor" href="#{anchor}" aria-label="Link to {label}">#</a></{opening.tag}>\n'


def code_block(text: str, language: str, label: str = "") -> str:
    """A block of code; a script adds the button that copies it."""
    about = html.escape(label or (f"Example in {language}" if language else "Example"))
    kind = f' class="language-{html.escape(language)}"' if language else ""
    return (
        f'<div class="snippet"><pre tabindex="0" role="region" aria-label="{about}">'
        f"<code{kind}>{html.escape(text.rstrip())}</code></pre></div>\n"
    )


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return code_block(tokens[index].content, tokens[index].info.strip().partition(" ")[0])


def _table_open(*_: Any) -> str:
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _cell_open(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Alignment as a class: the pages' policy allows no style of an element's own."""
    is_number = "right" in str(tokens[index].attrs.get("style", ""))
    return f"<{tokens[index].tag}{' class=' + chr(34) + 'number' + chr(34) if is_number else ''}>"


_RULES: dict[str, Callable[..., str]] = {
    "heading_close": _heading_close,
    "fence": _fence,
    "code_block": _fence,
    "table_open": _table_open,
    "table_close": _table_close,
    "th_open": _cell_open,
    "td_open": _cell_open,
}
