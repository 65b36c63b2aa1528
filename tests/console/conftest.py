"""What the tests of the pages start from: a server over the recording, and a visitor's browser."""

from tests.console.browser import axe, browser, pytest_terminal_summary, visit
from tests.journeys.conftest import key, recorded_data, server, start_server

__all__ = ["axe", "browser", "key", "pytest_terminal_summary", "recorded_data", "server", "start_server", "visit"]
