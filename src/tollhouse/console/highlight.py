"""Code as HTML with a class for each kind of token, the classes that `static/code.js` gives it in the browser."""

import html
import re
from functools import cache
from itertools import groupby

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Keyword, Name, Number, String, Token
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
def _class_of(kind: type[Token]) -> str:
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
