"""A started `tollhouse serve` as its operator and its callers meet it: a process, a port, a folder."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from tests.journeys.command import run_command, start_command
from tests.servers.processes import ForkedProcess
from tollhouse.admission.operator_access import TOKEN_FILE
from tollhouse.services import EVERY_SERVICE

PROGRAM = Path(sys.executable).parent / "tollhouse"
START_SECONDS = 60.0
RUN_SECONDS = 60.0
STOP_SECONDS = 40.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**settings: object) -> dict[str, str]:
    """This process's environment without its settings, and with those given; no feeds but those a test names."""
    settings = {"feeds": "", **settings}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOLLHOUSE_")}
    return {**inherited, **{f"TOLLHOUSE_{name.upper()}": str(value) for name, value in settings.items()}}


def run(*arguments: object, cwd: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return run_command([str(argument) for argument in arguments], cwd, environment(**settings), RUN_SECONDS)


def poll(claim: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What `claim` answers once it is true; what cannot be reached or is not there yet counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = claim()
        except (httpx2.HTTPError, KeyError, IndexError):
            answer = None
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not so after {seconds} s; last answer: {answer!r}"
        time.sleep(0.05)


class Program:
    """A long-running command in a process group of its own.

    With `limits`, commands for the shell that starts it, it is the installed program; otherwise a forked process.
    """

    def __init__(
        self,
        arguments: list[object],
        home: Path,
        settings: dict[str, object],
        limits: str | None = None,
    ) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / "program.log"
        self.log.touch()
        self._limits = limits
        self.process = self._start([str(argument) for argument in arguments], environment(**settings))

    def _start(self, words: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._limits is None:
            return start_command(words, self.home, variables, self.log)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["sh", "-c", f'{self._limits}exec "$@"', "sh", PROGRAM, *words],
                cwd=self.home,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        return self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Ask it to end; tells its exit status."""
        if self.process.poll() is None:
            self.terminate()
        try:
            return self.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the whole group as a machine's failure would."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # It has ended, or is not yet the leader of a group.
            self.process.kill()
        else:
            poll(lambda: not self._group_lives())
        self.process.wait(STOP_SECONDS)

    def told(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def _group_lives(self) -> bool:
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        # Orphans of a killed parent stay as zombies until whoever adopts them looks.
        states = subprocess.run(
            ["ps", "-o", "stat=", "-g", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        return any(not state.startswith("Z") for state in states)


class Server(Program):
    """`tollhouse serve`, waited for."""

    def __init__(
        self,
        home: Path,
        *arguments: object,
        port: int = 0,
        limits: str | None = None,
        **settings: object,
    ) -> None:
        self.port = port or free_port()
        self.root = f"http://127.0.0.1:{self.port}"
        is_alone = EVERY_SERVICE.keys() & set(arguments) or (arguments and not str(arguments[0]).startswith("-"))
        self.base = self.root if is_alone else f"{self.root}/defense"
        self.data_dir = home / "data"
        command = ["serve", *arguments, "--port", self.port, "--data-dir", self.data_dir]
        super().__init__(command, home, settings, limits)
        self._wait_until_healthy()

    def client(self, key: str = "", **options: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.base, headers=headers, timeout=30, **options)

    def new_key(self, email: str = "ada@example.org", **members: object) -> dict[str, Any]:
        answer = httpx2.post(f"{self.base}/api/keys/create", json={"email": email, **members})
        assert answer.status_code == 200, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def operators_key(self, *options: object, **settings: object) -> str:
        """A key from `tollhouse keys create`, with a plan that does not get in a test's way."""
        made = run("keys", "create", "--email", "op@example.org", "--data-dir", self.data_dir, *options,
                   cwd=self.home, **settings)  # fmt: skip
        assert made.returncode == 0, made.stderr
        return str(json.loads(made.stdout)["api_key"])

    def used(self, key: str) -> dict[str, dict[str, Any]]:
        answer = httpx2.get(f"{self.base}/api/keys/verify", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
        usage: dict[str, dict[str, Any]] = answer.json()["usage"]
        return usage

    def operators_header(self) -> dict[str, str]:
        """The header with the token that the server made at its first start."""
        return {"Authorization": f"Bearer {(self.data_dir / TOKEN_FILE).read_text()}"}

    def metrics(self) -> str:
        return httpx2.get(f"{self.root}/metrics", headers=self.operators_header()).text

    def health(self) -> dict[str, Any]:
        facts: dict[str, Any] = httpx2.get(f"{self.base}/health", timeout=5).json()
        return facts

    def _wait_until_healthy(self) -> None:
        def healthy() -> bool:
            assert self.process.poll() is None, f"the server ended:\n{self.told()}"
            return httpx2.get(f"{self.base}/health", timeout=5).status_code == 200

        try:
            poll(healthy, START_SECONDS)
        except BaseException:
            self.kill()
            raise
