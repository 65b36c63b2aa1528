"""What the tests of the guide start from: a server over the recording."""

from tests.journeys.conftest import key, recorded_data, server, start_server

__all__ = ["key", "recorded_data", "server", "start_server"]
