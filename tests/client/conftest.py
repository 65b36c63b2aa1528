"""What the samples need: the packages of the JavaScript one, and a server that checks what they send."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.conftest import recorded_data, start_server
from tests.servers.npm import node_modules_of
from tollhouse.accounts.wallets import AgentHeaders, signed_by
from tollhouse.errors import Problem
from tollhouse.evm import checksummed

__all__ = ["recorded_data", "start_server"]

LISTED = Path(__file__).parent / "npm"
MOUNT = "/defense"


class Checking(http.server.BaseHTTPRequestHandler):
    """Answers a GET below MOUNT with the wallet that signed it, or with the problem."""

    def do_GET(self) -> None:
        try:
            status, answer = 200, {"signed_by": self._signer(), "nonce": self.headers["X-Agent-Nonce"]}
        except Problem as problem:
            status, answer = problem.status, {"code": problem.code, "detail": problem.detail}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the test's own output is enough."""

    def _signer(self) -> str:
        path, _, query = self.path.removeprefix(MOUNT).partition("?")
        named = (self.headers[f"X-Agent-{name}"] or "" for name in ("Address", "Nonce", "Signature"))
        return checksummed(signed_by("service", path, query, AgentHeaders(*named)))


@pytest.fixture(scope="session")
def checking_url() -> Iterator[str]:
    """The address of a service on this machine that verifies signed calls."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Checking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{MOUNT}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The packages of `npm/package-lock.json`."""
    return node_modules_of(LISTED, "client")
