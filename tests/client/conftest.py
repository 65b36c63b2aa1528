"""What the samples need: the packages of the JavaScript one, and a server that checks what they send."""

import fcntl
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tollhouse.access.wallets import AgentHeaders, signed_by
from tollhouse.errors import Problem
from tollhouse.evm.address import checksummed

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
    """The packages of `npm/package-lock.json`, installed once beside this Python; no script of theirs is run."""
    npm = shutil.which("npm")
    # Say what to install rather than pass without having tested.
    assert npm, "these tests need Node.js 20 or newer with npm on the PATH (apt install npm, brew install node)"
    home = Path(sys.prefix) / "npm-client"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(npm, home)
    return home / "node_modules"


def _install(npm: str, home: Path) -> None:
    stamp = home / "installed.json"
    listed = (LISTED / "package-lock.json").read_bytes()
    if stamp.exists() and stamp.read_bytes() == listed:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LISTED / name, home)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    stamp.write_bytes(listed)
