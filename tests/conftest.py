"""What every test may ask for: real servers, and a database of each kind."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import shared

pytest_plugins = [
    "tests.servers.postgres",
    "tests.servers.databases",
    "tests.servers.redis",
    "tests.servers.chain",
    "tests.console.browser",
    "tests.attacks.summary",
]


# What takes longest, longest first: modules, then the folders of the others.
LONG = (
    "journeys/test_schemathesis",
    "console/test_looks",
    "attacks",
    "faults",
    "payments/crashes",
    "webhooks/test_delivery",
    "catalogue/test_catalogue",
    "console",
    "payments/settlement/test_processes",
    "payments/x402/test_recovery",
    "client",
    "guide",
    "journeys",
    "payments",
    "webhooks",
    "services/defense",
)


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.open_folder()


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.close_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that start programs and wait for them go first, so that no worker is left alone with one at the end."""
    sizes = Counter(item.path for item in items)
    root = Path(__file__).parent

    def turn(item: pytest.Item) -> tuple[int, int, str]:
        folder = item.path.relative_to(root).as_posix()
        long = next((place for place, name in enumerate(LONG) if folder.startswith(name)), len(LONG))
        return long, -sizes[item.path], folder

    items.sort(key=turn)


@pytest.fixture(autouse=True)
def _usual_recursion_limit() -> None:
    """A library of the tests' own (py_ecc) raises the limit so far that deep nesting would overflow the C stack."""
    sys.setrecursionlimit(1_000)
