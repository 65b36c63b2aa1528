"""The documentation as its tests read it: pages, their blocks of code, the code within their sentences, their links."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_CONTINUED = re.compile(r"\\\n\s*")
_PROMPT = re.compile(r"^(?:\$ )?(?:sudo (?:-u \S+ )?)?")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(.*?)\n\2$", re.MULTILINE | re.DOTALL)


class Block(Struct, frozen=True):
    """A block of code. `page` is its path from the root, `line` where it begins."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt("commonmark", {"html": False}).enable("table").parse(page.read_text("utf-8")))


def blocks(page: Path) -> list[Block]:
    return [
        Block(name_of(page), (token.map or [0])[0] + 1, token.info.strip(), token.content)
        for token in tokens(page)
        if token.type in {"fence", "code_block"}
    ]


def every_block(*languages: str) -> list[Block]:
    """Of all pages; of these languages alone where some are named."""
    return [block for page in PAGES for block in blocks(page) if not languages or block.language in languages]


def spans(page: Path) -> list[str]:
    """The code within sentences and tables, as it is written."""
    return [child.content for child in _inside(page) if child.type == "code_inline"]


def links(page: Path) -> list[str]:
    """Where links and pictures lead."""
    targets = [child.attrs.get("href") or child.attrs.get("src") for child in _inside(page)]
    return [str(target) for target in targets if target]


def headings(page: Path) -> list[str]:
    whole = tokens(page)
    return [
        "".join(child.content for child in inside.children or [])
        for opening, inside in pairwise(whole)
        if opening.type == "heading_open"
    ]


def sections(page: Path) -> dict[str, str]:
    """The page's text by its second-level headings; what stands before the first is under the empty one."""
    first, *rest = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    return {"": first, **{heading: text for heading, _, text in (part.partition("\n") for part in rest)}}


def commands(text: str) -> list[str]:
    """The lines of a shell's block or transcript that could be commands: joined, without prompts and here-documents."""
    whole = _CONTINUED.sub(" ", _HEREDOC.sub("", text))
    return [_PROMPT.sub("", line.strip()) for line in whole.splitlines() if line.strip()]


def rows(section: str) -> list[list[str]]:
    """The cells of every table's rows, without heads."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = [at for at, row in enumerate(cells) if all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    left_out = {*rules, *(at - 1 for at in rules)}
    return [row for at, row in enumerate(cells) if at not in left_out]


def _inside(page: Path) -> Iterator[Token]:
    for token in tokens(page):
        yield from token.children or []
