"""What the tests of the pages start from: a server over the recording; browser.py is a plugin of the whole run."""

from tests.journeys.conftest import key, recorded_data, server, start_server

__all__ = ["key", "recorded_data", "server", "start_server"]
