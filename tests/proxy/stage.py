"""Applications that know nothing of a toll, each in a process of its own, and `tollhouse` in front of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.journeys.command import start_command
from tests.journeys.server import START_SECONDS, Program, free_port, poll
from tests.servers.npm import node_modules_of
from tests.servers.processes import ForkedProcess

HERE = Path(__file__).parent


@contextmanager
def running(command: list[str], port: int, log: Path, cwd: Path, **variables: str) -> Iterator[str]:
    """The URL of an application, once it answers; it is killed at the end."""
    with log.open("ab") as file:
        environment = {**os.environ, **variables}
        process = subprocess.Popen(command, cwd=cwd, stdout=file, stderr=file, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        return httpx2.get(f"{url}/nothing").status_code == 404

    try:
        poll(answers, START_SECONDS)
        yield url
    finally:
        # With its workers.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def express(folder: Path) -> Iterator[str]:
    """`express_app.mjs`, with the Express of `npm/package-lock.json`."""
    # Packages are looked up beside the script.
    (folder / "node_modules").symlink_to(node_modules_of(HERE / "npm", "upstreams"))
    (folder / "app.mjs").write_bytes((HERE / "express_app.mjs").read_bytes())
    port = free_port()
    with running(["node", "app.mjs"], port, folder / "express.log", folder, PORT=str(port)) as url:
        yield url


@contextmanager
def fastapi(folder: Path) -> Iterator[str]:
    """`fastapi_app.py`, served by granian."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "asgi",
        "--port",
        str(port),
        "tests.proxy.fastapi_app:app",
    ]
    with running(command, port, folder / "fastapi.log", HERE.parents[1]) as url:
        yield url


class Toll(Program):
    """`tollhouse proxy …` or `tollhouse serve …` with one service at the root, waited for."""

    def __init__(self, home: Path, *arguments: object, **settings: object) -> None:
        self.root = f"http://127.0.0.1:{(port := free_port())}"
        self.base = self.root
        self.data_dir = home / "data"
        super().__init__([*arguments, "--port", port, "--data-dir", self.data_dir], home, settings)
        try:
            poll(self._is_healthy, START_SECONDS)
        except BaseException:
            self.kill()
            raise

    def _start(self, words: list[str], variables: dict[str, str]) -> ForkedProcess:
        return start_command(words, self.home, variables, self.log)

    def _is_healthy(self) -> bool:
        assert self.process.poll() is None, f"the server ended:\n{self.told()}"
        return httpx2.get(f"{self.root}/health", timeout=5).status_code == 200

    def get(self, path: str, **options: object) -> httpx2.Response:
        return httpx2.get(f"{self.root}{path}", **options)

    def post(self, path: str, **options: object) -> httpx2.Response:
        return httpx2.post(f"{self.root}{path}", **options)

    def new_key(self, email: str = "ada@example.org") -> str:
        answer = self.post("/api/keys/create", json={"email": email})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["api_key"])
