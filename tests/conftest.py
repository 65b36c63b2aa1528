"""What every test may ask for: real servers, and a database of each kind."""

import os
import sys
from pathlib import Path

import pytest

from tests.servers import shared

pytest_plugins = ["tests.servers.postgres", "tests.servers.redis", "tests.servers.chain"]


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.open_folder()


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.close_folder()


@pytest.fixture(autouse=True)
def _usual_recursion_limit() -> None:
    """A library of the tests' own (py_ecc) raises the limit so far that deep nesting would overflow the C stack."""
    sys.setrecursionlimit(1_000)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind that Tollhouse stores in."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/tollhouse.db"
    return str(request.getfixturevalue("postgres_url"))
