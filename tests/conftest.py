"""What every test may ask for: real servers, and a database of each kind."""

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

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
    "cluster",
    "attacks",
    "faults",
    "payments/crashes",
    "webhooks/test_delivery",
    "catalogue/test_catalogue",
    "console",
    "payments/settlement/test_processes",
    "payments/x402/test_recovery",
    "generators",
    "client",
    "guide",
    "journeys",
    "payments",
    "webhooks",
    "test_growth",
    "catalogue/importers/test_streaming",
    "services/infra/test_assistant",
    "services/defense",
    "services/tables/test_indexing",
    "questions/test_metamorphic",
    "middleware",
    "proxy",
)


def pytest_configure(config: pytest.Config) -> None:
    # Logs go to the standard output that a test captures: an application inside a test does not configure them.
    # A traceback with the values of variables, as structlog prints by default, would take a second of processor time.
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, renderer])
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.open_folder()


def pytest_make_parametrize_id(val: object) -> str | None:
    """An id without `::`: the last one of a test's name ends its module's, and workers take modules whole."""
    return val.replace("::", ":") if isinstance(val, str) and "::" in val else None


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shared.close_folder()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Each worker begins with other folders, so that it finds many modules compiled by another worker already."""
    report = yield
    if collector.path == Path(__file__).parent:
        worker, count = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
        first = len(report.result) * int(worker.removeprefix("gw")) // int(count)
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are read that all stay: looking among them for garbage takes a fifth of the time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Modules that start programs and wait for them go first, so that no worker is left alone with one at the end."""
    # The order must be the same in every worker.
    items.sort(key=lambda item: item.path)
    yield
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
