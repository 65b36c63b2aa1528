"""The rules of the house that no linter knows, read off the tree."""

import ast
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import tollhouse.config.settings
import tollhouse.errors
from tollhouse.config.section import declarations
from tollhouse.services import SECTIONS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tollhouse"
DRIVERS = {"sqlalchemy", "alembic", "aiosqlite", "sqlite3", "asyncpg"}
STATEMENT = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE FROM)\s")
MONEY = re.compile(r"(?:^|_)(?:usdc?|micros|cents|balance|fee)(?:_|$)")
REGISTRY = re.compile(
    r"py[p]i[.]org|python[h]osted[.]org|npm[j]s[.](?:com|org)|yarn[p]kg[.]com|crates[.]io|un[p]kg[.]com|jsd[e]livr[.]net"
    r"|proxy[.]go[l]ang[.]org|deb[.]de[b]ian[.]org"
)
# Not inside an address: https://example.com/home/news/ is no path of a machine.
MACHINE = re.compile(r"(?<![\w.%~/-])/(?:(?:work|root)/\w|home/\w+/|Users/\w+/|opt/py)")

Rule = Callable[[ast.Module], Iterator[int]]


@lru_cache(1)
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every imported name with its line: `import a.b` is a.b, `from a import b` is a.b too."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def speaks_sql(tree: ast.Module) -> Iterator[int]:
    yield from (line for line, name in imported(tree) if name.split(".")[0] in DRIVERS)
    prose = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        if is_text and STATEMENT.search(node.value):
            yield node.lineno


def reads_environment(tree: ast.Module) -> Iterator[int]:
    readers = {"os.environ", "os.environb", "os.getenv", "os.getenvb"}
    yield from (line for line, name in imported(tree) if name in readers)
    attributes = (node for node in nodes_of(tree) if isinstance(node, ast.Attribute) and f"os.{node.attr}" in readers)
    yield from (node.lineno for node in attributes if ast.unparse(node) in readers)


def dodges_arrows(tree: ast.Module) -> Iterator[int]:
    yield from (line for line, name in imported(tree) if name.endswith(".TYPE_CHECKING"))
    yield from (n.lineno for n in nodes_of(tree) if isinstance(n, ast.Attribute) and n.attr == "TYPE_CHECKING")


def floats_money(tree: ast.Module) -> Iterator[int]:
    for node in nodes_of(tree):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
                pass
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                pass
            case ast.FunctionDef(name=name, returns=ast.expr() as annotation):
                pass
            case ast.AsyncFunctionDef(name=name, returns=ast.expr() as annotation):
                pass
            case _:
                continue
        if MONEY.search(name) and re.search(r"\bfloat\b", ast.unparse(annotation)):
            yield node.lineno


def reads_the_clock(tree: ast.Module) -> Iterator[int]:
    clocks = re.compile(r"(?:^|\.)(?:datetime\.(?:now|utcnow|today)|date\.today|time\.time(?:_ns)?)$")
    for node in nodes_of(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="now" | "utcnow" | "today" | "time" | "time_ns") as called):
                if clocks.search(ast.unparse(called)):
                    yield node.lineno


def is_store(path: Path) -> bool:
    return (
        path.stem == "store"
        or path.stem.endswith("_store")
        or path.stem.startswith("store_")
        or "storage" in path.relative_to(SOURCE).parts
    )


RULES: dict[Rule, Callable[[Path], bool]] = {
    speaks_sql: is_store,
    reads_environment: lambda path: path == SOURCE / "config" / "loader.py",
    dodges_arrows: lambda _: False,
    floats_money: lambda _: False,
    reads_the_clock: lambda path: path == SOURCE / "clock.py",
}
"""Each rule, and where it does not hold."""


@pytest.fixture(scope="module")
def offences() -> dict[Rule, list[str]]:
    """`path:line` of each place where a source file breaks a rule."""
    found: dict[Rule, list[str]] = {rule: [] for rule in RULES}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for rule, is_allowed in RULES.items():
            if not is_allowed(path):
                found[rule] += [f"{path.relative_to(ROOT)}:{line}" for line in rule(tree)]
    return found


def tracked_files() -> list[Path]:
    """What git tracks or would track; without git (an unpacked archive), every file outside the caches."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    git = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False) if (ROOT / ".git").exists() else None
    if git is not None and git.returncode == 0:
        paths = [ROOT / os.fsdecode(name) for name in git.stdout.split(b"\0") if name]
    else:
        caches = re.compile(r"^(?:\.venv|\.git|data|.*cache.*|build|dist)$")
        paths = [p for p in ROOT.rglob("*") if not any(map(caches.match, p.relative_to(ROOT).parts))]
    return [path for path in paths if path.is_file()]


def test_no_module_is_named_for_nothing():
    empty = {"utils", "util", "helpers", "helper", "common", "core", "misc", "base"}
    named = [path for path in SOURCE.rglob("*.py") if empty & {*path.relative_to(SOURCE).with_suffix("").parts}]
    assert named == []


def test_sql_stays_in_stores_and_storage(offences):
    assert offences[speaks_sql] == []


def test_only_the_settings_loader_reads_the_environment(offences):
    assert offences[reads_environment] == []


def test_no_import_is_hidden_from_the_arrows(offences):
    assert offences[dodges_arrows] == []


def test_money_is_never_a_float(offences):
    assert offences[floats_money] == []


def test_only_clock_reads_the_time(offences):
    assert offences[reads_the_clock] == []


@pytest.mark.parametrize(("secret", "name"), [(REGISTRY, "a package registry"), (MACHINE, "a path of one machine")])
def test_no_file_names(secret, name):
    found = []
    for path in tracked_files():
        text = path.read_text("utf-8", errors="replace")
        lines = ((text.count("\n", 0, match.start()) + 1, match[0]) for match in secret.finditer(text))
        found += [f"{path.relative_to(ROOT)}:{number}: {named}" for number, named in lines]
    assert found == [], f"names {name}"


def test_every_setting_is_documented():
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    settings = list(declarations([*tollhouse.config.settings.SECTIONS, *SECTIONS]))
    assert settings
    assert [name for name in settings if f"`{name}`" not in page] == []


def test_every_problem_has_its_section():
    page = (ROOT / "docs" / "problems.md").read_text("utf-8")
    codes = tollhouse.errors.CODES
    assert codes
    assert [code for code in codes if not re.search(rf"^##+ `?{re.escape(code)}`?\s*$", page, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (speaks_sql, "import sqlalchemy as sa"),
        (speaks_sql, "from sqlite3 import connect"),
        (speaks_sql, "query = f'SELECT {column} FROM wallets'"),
        (reads_environment, "import os\nos.environ['HOME']"),
        (reads_environment, "from os import getenv"),
        (dodges_arrows, "from typing import TYPE_CHECKING"),
        (dodges_arrows, "import typing\nif typing.TYPE_CHECKING: ..."),
        (floats_money, "price_usd: float = 0.001"),
        (floats_money, "def charge(amount_micros: int | float): ..."),
        (floats_money, "async def balance_usd() -> float: ..."),
        (reads_the_clock, "import time\ntime.time()"),
        (reads_the_clock, "from datetime import datetime, UTC\ndatetime.now(UTC)"),
    ],
)
def test_rule_finds_what_breaks_it(rule, code):
    assert list(rule(ast.parse(code)))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (speaks_sql, "def f():\n    'SELECT the cheapest offer.'"),
        (reads_environment, "import os\nos.path.join('a', 'b')"),
        (floats_money, "price_usd: Decimal\nlatitude: float"),
        (reads_the_clock, "from tollhouse import clock\nclock.now()"),
    ],
)
def test_rule_spares_what_is_right(rule, code):
    assert not list(rule(ast.parse(code)))
