"""Markdown rendered as HTML: headings with anchors, tables that scroll, links of the caller, highlighted code."""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Keyword, Name, Number, String
from pygments.token import Token as SyntaxToken
from pygments.util import ClassNotFound

# The first that contains a token's type decides.
_CLASSES = (
    (Comment, "comment"), (Name.Tag, "name"), (Name.Builtin, "keyword"), (Name.Variable, "name"),
    (Name.Attribute, "name"), (String, "string"), (Number, "number"), (Keyword, "keyword"),
)  # fmt: skip

_COMMANDS = frozenset(
    {"cat", "curl", "docker", "git", "make", "npm", "pip", "python3", "sudo", "systemctl", "tollhouse"}
)
_OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]*")


def highlight(code: str, language: str) -> str:
    """The code, escaped, in spans with classes; without spans in a language that has no lexer."""
    lexer = _lexer(language)
    if lexer is None:
        return html.escape(code)
    kinds = ((_class_of(kind) or _shell_class(lexer, text), text) for kind, text in lexer.get_tokens(code))
    runs = ((name, html.escape("".join(text for _, text in run))) for name, run in groupby(kinds, lambda one: one[0]))
    marked = "".join(f'<span class="tok-{name}">{text}</span>' if name else text for name, text in runs)
    # A lexer ends the code with a line break.
    return marked.rstrip("\n")


@cache
def _class_of(kind: type[SyntaxToken]) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


def _shell_class(lexer: Lexer, text: str) -> str:
    """Commands and options, which the lexer of shells takes for text."""
    if not isinstance(lexer, BashLexer):
        return ""
    return "keyword" if text in _COMMANDS else "name" if _OPTION.fullmatch(text) else ""


@cache
def _lexer(language: str) -> Lexer | None:
    if language in ("", "text"):
        return None
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


_PUNCTUATION = re.compile(r"[^\w\- ]")

# Given the target and the text of a link: its address, None where nothing is served, and its text.
ResolveLink = Callable[[str, str], tuple[str | None, str]]


class Heading(Struct, frozen=True):
    """A heading of a page: its text, its level from 1, and its anchor."""

    text: str
    level: int
    anchor: str


class RenderedText(Struct, frozen=True):
    """HTML made from Markdown, and the headings in it."""

    body: str
    headings: tuple[Heading, ...]


def render(markdown: str, resolve: ResolveLink = lambda target, text: (target, text)) -> RenderedText:
    """The whole text. HTML in it is escaped."""
    tokens = _parser().parse(markdown)
    headings = _add_anchors(tokens)
    for token in tokens:
        _resolve_links(token.children or [], resolve)
    return RenderedText(_parser().renderer.render(tokens, _parser().options, {}), tuple(headings))


def render_inline(markdown: str) -> str:
    """A sentence, with code and emphasis but no block around it."""
    return str(_parser().renderInline(markdown))


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it, so that links work there too."""
    return _PUNCTUATION.sub("", text.lower()).strip().replace(" ", "-")


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _add_anchors(tokens: Sequence[Token]) -> list[Heading]:
    """Give every heading a unique id. Returns the headings."""
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


def _resolve_links(children: Sequence[Token], resolve: ResolveLink) -> None:
    """Set the addresses of links and images. A link to something that is not served becomes its text."""
    is_dead = False
    for index, token in enumerate(children):
        if token.type == "link_open":
            # At least the end of the link follows.
            following = children[index + 1]
            address, following.content = resolve(str(token.attrs["href"]), following.content)
            is_dead = address is None
            token.attrs = {} if address is None else {**token.attrs, "href": address}
        elif token.type == "image":
            token.attrs = {**token.attrs, "src": resolve(str(token.attrs["src"]), "")[0] or "", "loading": "lazy"}
        if is_dead and token.type in ("link_open", "link_close"):
            token.tag = "span"


def _heading_close(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    opening, inside = tokens[index - 2], tokens[index - 1]
    if opening.tag == "h1":
        return "</h1>\n"
    label = html.escape("".join(child.content for child in inside.children or []))
    anchor = html.escape(str(opening.attrs["id"]))
    return f' <a class="anchor" href="#{anchor}" aria-label="Link to {label}">#</a></{opening.tag}>\n'


def code_block(text: str, language: str, label: str = "") -> str:
    """A block of code. A script adds its copy button."""
    name = html.escape(label or (f"Example in {language}" if language else "Example"))
    language_class = f' class="language-{html.escape(language)}"' if language else ""
    return (
        f'<div class="snippet"><pre tabindex="0" role="region" aria-label="{name}">'
        f"<code{language_class}>{highlight(text.rstrip(), language)}</code></pre></div>\n"
    )


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    return code_block(tokens[index].content, tokens[index].info.strip().partition(" ")[0])


def _cell_open(_renderer: Any, tokens: Sequence[Token], index: int, *_: Any) -> str:
    """Alignment as a class: the content security policy allows no inline styles."""
    is_number = "right" in str(tokens[index].attrs.get("style", ""))
    return f'<{tokens[index].tag} class="number">' if is_number else f"<{tokens[index].tag}>"


_RULES: dict[str, Callable[..., str]] = {
    "heading_close": _heading_close,
    "fence": _fence,
    "code_block": _fence,
    "table_open": lambda *_: '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
    "th_open": _cell_open,
    "td_open": _cell_open,
}
