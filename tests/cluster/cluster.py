"""Three servers and two workers, each with a data folder of its own, on one PostgreSQL, one Redis and one chain."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from tests.attacks.target import TREASURY
from tests.fakes.gdelt import FakeGdelt
from tests.journeys.server import Program, Server, free_port, poll, run
from tests.payments.x402.signed_payments import RELAYER, SELLER
from tests.servers import redis as redis_server
from tests.servers.postgres import OwnPostgres
from tollhouse.payments.chain.local_chain import LocalChain

SERVERS, WORKERS = 3, 2
PLENTY = 10_000_000


@dataclass
class Term:
    """When a worker did a job, by its own clock; `until` is later than any moment while it does."""

    job: str
    worker: int
    since: float
    until: float = inf


class Cluster:
    """The machines. `home` of each is a folder that no other one reads."""

    def __init__(self, folder: Path, chain: LocalChain, gdelt: FakeGdelt) -> None:
        self._folder, self.chain = folder, chain
        self.postgres, self._redis_port = OwnPostgres(), free_port()
        (folder / "redis").mkdir()
        self._redis = redis_server._start(folder / "redis", self._redis_port)
        self.settings: dict[str, object] = {
            "database_url": self.postgres.url, "redis_url": f"redis://127.0.0.1:{self._redis_port}/0",
            "gdelt_url": gdelt.url, "gdelt_poll_seconds": 0.2, "recorded": "false", "webhook_allow_loopback": "true",
            "evm_rpc_url": chain.url, "treasury_address": TREASURY.address, "deposit_confirmations": 1,
            "x402_pay_to": SELLER.address, "x402_facilitator_key": RELAYER.private_key, "free_per_ip_per_day": 0,
            "trusted_proxies": "127.0.0.0/8", "keys_per_address_per_hour": PLENTY, "failed_attempts_per_minute": PLENTY,
            "encryption_key": "5a" * 32,
        }  # fmt: skip
        self.ports = [free_port() for _ in range(SERVERS)]
        self._killed_by: list[list[float]] = [[] for _ in range(WORKERS)]
        self.servers: list[Server] = []
        self.workers: list[Program] = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        with ThreadPoolExecutor() as starting:
            started = [starting.submit(self._started, number) for number in range(SERVERS)]
        self.servers = [server.result() for server in started if server.exception() is None]
        assert len(self.servers) == SERVERS, started
        self.workers = [self._working(number) for number in range(WORKERS)]
        for server in self.servers:
            poll(partial(self._has_events, server), 60)

    @staticmethod
    def _has_events(server: Server) -> bool:
        return bool(server.health()["feeds"]["events"]["events"])

    def _started(self, number: int) -> Server:
        return Server(self._folder / f"server-{number}", "--no-worker", port=self.ports[number], **self.settings)

    def _working(self, number: int) -> Program:
        home = self._folder / f"worker-{number}"
        return Program(["worker", "--data-dir", home / "data"], home, self.settings)

    def command(self, number: int, *arguments: object) -> Any:
        """What a command of `tollhouse` prints on the machine of a server."""
        data_dir = self.servers[number % SERVERS].data_dir
        done = run(*arguments, "--data-dir", data_dir, cwd=self._folder, **self.settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def kill_server(self, number: int) -> None:
        self.servers[number].kill()

    def start_server(self, number: int) -> None:
        self.servers[number] = self._started(number)

    def kill_worker(self, number: int) -> float:
        """When that was."""
        killed_at = time.time()
        self.workers[number].kill()
        self._killed_by[number].append(time.time())
        return killed_at

    def start_worker(self, number: int) -> None:
        self.workers[number] = self._working(number)

    def terms(self) -> list[Term]:
        """What the workers did so far, in the order of the starts."""
        terms = [term for number in range(WORKERS) for term in self._terms_of(number)]
        return sorted(terms, key=lambda term: term.since)

    def _terms_of(self, number: int) -> list[Term]:
        terms: list[Term] = []
        lines = [line for line in self.workers[number].told().splitlines() if '"event": "job ' in line]
        for event in map(json.loads, lines):
            at = datetime.fromisoformat(event["timestamp"]).timestamp()
            if event["event"] == "job started":
                terms.append(Term(event["job"], number, at))
            elif event["event"] == "job ended":
                next(term for term in reversed(terms) if term.job == event["job"]).until = at
        for term in terms:
            term.until = min([term.until, *(at for at in self._killed_by[number] if at > term.since)])
        return terms

    def crash_postgres(self) -> None:
        self.postgres.crash()
        self.postgres.start()
        self.postgres.wait_until_ready()

    def stop_redis(self) -> None:
        self._redis.send_signal(signal.SIGTERM)
        self._redis.wait(10)

    def start_redis(self) -> None:
        self._redis = redis_server._start(self._folder / "redis", self._redis_port)

    def stop(self) -> None:
        for program in (*self.workers, *self.servers):
            program.kill()
        self._redis.kill()
        self._redis.wait()
        self.postgres.crash()
