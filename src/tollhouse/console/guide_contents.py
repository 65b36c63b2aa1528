"""Which pages the guide has and in which order: the files of docs/, each in one group."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from tollhouse.console.page_facts import docs_file

DECISIONS = "decisions"
_FIRST = "settings.md"


class Group(Struct, frozen=True):
    """Pages that belong together. A name is the file's path in docs/ without its ending."""

    title: str
    names: tuple[str, ...]


_NAMED = (
    Group("Start", ("start-person", "start-agent", "start-operator")),
    Group(
        "Services",
        ("defense", "defense-brief", "alerts", "analysis", "chat", "mattress", "importers", "studio", "infra",
         "facilitator", "catalogue", "own-service"),
    ),
    Group("Paying", ("agents", "agents-client", "x402", "upgrades", "ledger")),
    Group("Operating", ("operations", "deploy", "backup", "console", "webhooks", "local-chain")),
    Group("Reference", ("problems", "settings", "performance", "quality", "quality-chat", "quality-concierge")),
)  # fmt: skip


@cache
def groups() -> tuple[Group, ...]:
    """The pages there are, by group; the decisions come in the order they were taken."""
    there = set(_names_in(folder()))
    named = [Group(group.title, tuple(name for name in group.names if name in there)) for group in _NAMED]
    return (*named, Group("Decisions", tuple(sorted(name for name in there if name.startswith(f"{DECISIONS}/")))))


def pages() -> list[str]:
    """The names of all pages, in order."""
    return [name for group in groups() for name in group.names]


def left_out() -> list[str]:
    """Files of docs/ that no group names: a test keeps this empty."""
    return sorted({*_names_in(folder())} - {*pages()})


def folder() -> Path:
    """Where the documentation is."""
    return docs_file(_FIRST).parent


def source(name: str) -> str:
    """The page as it was written. `name` is one of `pages()`."""
    return (folder() / f"{name}.md").read_text("utf-8")


@cache
def title(name: str) -> str:
    """The page's own first heading."""
    return source(name).partition("\n")[0].removeprefix("# ").strip()


def address(name: str) -> str:
    """Where the page is served."""
    return f"/guide/{name}"


def _names_in(where: Path) -> Iterator[str]:
    for path in where.rglob("*.md"):
        yield path.relative_to(where).with_suffix("").as_posix()
