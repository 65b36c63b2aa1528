"""The version before goes on, and restarts, beside this one on the same PostgreSQL and Redis, and the money is right.

The version before is the last commit of the repository with the schema FORMER_SCHEMA. Increase it with each release.
"""

import asyncio
import io
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text

from tests.attacks.target import CALL_MICROS, DOLLAR, FEED, FEED_PATH, TREASURY, Target
from tests.journeys.server import Server
from tests.payments.x402.signed_payments import RELAYER, SELLER
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.payments.chain.local_chain import LocalChain
from tollhouse.services.defense.store import make_days_of_rows
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import MAIN, migrate
from tollhouse.storage.partitions import list_partitions

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
PLENTY = 10_000_000
PROGRAM = "from tollhouse.cli import main; main()"
CALLS = 40
# Ingests a provider's file for each slot of its arguments, and deletes what is older than eight days.
INGEST = """
import asyncio, sys
from pathlib import Path
from tollhouse.config.settings import Settings
from tollhouse.services.defense.ingest.batches import ingest_export
from tollhouse.services.defense.ingest.gdelt_sync import _delete_old
from tollhouse.storage.database import open_database

async def main(url, file, *slots):
    database = open_database(Settings(database_url=url))
    for slot in slots:
        raw = Path(file).read_bytes().replace(b"20191024143000", slot.encode())
        await ingest_export(database, f"{slot}.export.CSV", raw, "provider")
        await _delete_old(database, slot, 8)
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""
EXCERPT = ROOT / "tests" / "data" / "gdelt_excerpt.export.CSV"
FORMER_SCHEMA = "0020"


def git(*arguments: object) -> bytes:
    return subprocess.run(["git", *map(str, arguments)], cwd=ROOT, capture_output=True, check=True).stdout


def commit_before() -> str:
    """The parent of the commit that added the first migration after FORMER_SCHEMA."""
    [newer] = MAIN.versions.glob(f"{int(FORMER_SCHEMA) + 1:04}_*.py")
    added = git("log", "--diff-filter=A", "--format=%H", "--", newer).decode().split()[-1]
    return git("rev-parse", f"{added}^").decode().strip()


class FormerServer(Server):
    """A server of the sources in `SOURCES`."""

    SOURCES: Path

    def _start(self, words: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words], cwd=self.home, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env={**variables, "PYTHONPATH": str(self.SOURCES)}, start_new_session=True,
            )  # fmt: skip


@pytest.fixture(scope="module")
def former_sources(tmp_path_factory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("the version before is in the repository's history, and this is no clone")
    folder: Path = tmp_path_factory.mktemp("former")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit_before(), "src", "docs", "CHANGELOG.md"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class Update:
    """A server of the version before and, once it is started, one of this version."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        self.folder, self.settings = folder, settings
        self.servers = [self._former()]

    def _former(self, port: int = 0) -> Server:
        return FormerServer(self.folder / "former", "--recorded", port=port, **self.settings)

    def restart_former(self) -> None:
        former = self.servers[0]
        assert former.stop() == 0
        self.servers[0] = self._former(former.port)

    def start_new(self) -> None:
        self.servers.append(Server(self.folder / "new", "--recorded", **self.settings))

    def stop(self) -> None:
        for server in self.servers:
            server.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def update(former_sources, new_postgres_database, redis_server, tmp_path_factory) -> AsyncIterator[Update]:
    FormerServer.SOURCES = former_sources
    number = 40 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    async with LocalChain.start() as chain:
        settings: dict[str, object] = {
            "database_url": new_postgres_database(), "redis_url": f"{redis_server}/{number}", "evm_rpc_url": chain.url,
            "treasury_address": TREASURY.address, "deposit_confirmations": 1, "x402_pay_to": SELLER.address,
            "x402_facilitator_key": RELAYER.private_key, "free_per_ip_per_day": 0, "trusted_proxies": "127.0.0.0/8",
            "keys_per_address_per_hour": PLENTY, "encryption_key": "5a" * 32,
        }  # fmt: skip
        update = await asyncio.to_thread(Update, tmp_path_factory.mktemp("update"), settings)
        update.chain = chain
        try:
            yield update
        finally:
            await asyncio.to_thread(update.stop)


async def calls_are_charged_once(target: Target) -> None:
    """Concurrent signed calls of one wallet, shared out among all servers."""
    wallet = await target.wallet(DOLLAR)
    answers = await target.at_once(
        target.send(FEED, wallet.headers(FEED_PATH), process=number) for number in range(CALLS)
    )
    assert Counter(answer.status for answer in answers) == {200: CALLS}
    assert await target.credit(wallet) == DOLLAR - CALLS * CALL_MICROS
    assert await target.is_balanced()


async def test_version_before_works_and_restarts_beside_this_one(update):
    await asyncio.to_thread(update.start_new)
    names = ("database_url", "redis_url", "evm_rpc_url", "treasury_address", "deposit_confirmations")
    given = {name: update.settings[name] for name in names}
    settings = Settings(data_dir=str(update.folder / "reader"), **given)
    async with open_context(settings, answers_calls=False) as context:
        key = await context.keys.create("operator@example.org", "enterprise", per_minute=PLENTY)
        ports = [server.port for server in update.servers]
        target = Target("rolling", ports, context, update.chain, key.text)
        for is_restarted in (False, True):
            if is_restarted:
                await asyncio.to_thread(update.restart_former)
            headers = {"Authorization": f"Bearer {key.text}"}
            for number in range(len(ports)):
                assert (await target.send(FEED, headers, process=number)).status == 200
                made = await target.post("/api/keys/create", {"email": "new@example.org"}, process=number)
                taken = {"Authorization": f"Bearer {made.json['api_key']}"}
                for other in range(len(ports)):
                    assert (await target.send(FEED, taken, process=other)).status == 200
            await calls_are_charged_once(target)
        failures = [line for line in update.servers[0].told().splitlines() if "Traceback" in line]
        # This version takes the jobs over, perhaps while the version before writes.
        assert [line for line in failures if "The lease of 'background-work' was lost" not in line] == []


def ingest(url: str, sources: Path, *moments: datetime) -> None:
    """Ingest a file at each of these times with the program of these sources."""
    words = [sys.executable, "-c", INGEST, url, str(EXCERPT), *(f"{moment:%Y%m%d%H%M%S}" for moment in moments)]
    variables = {**os.environ, "PYTHONPATH": str(sources)}
    subprocess.run(words, env=variables, capture_output=True, check=True, timeout=60)


async def test_version_before_ingests_and_deletes_beside_this_one(former_sources, new_postgres_database):
    """Its rows are in partitions by day that this version made and drops."""
    url = new_postgres_database()
    database = open_database(Settings(database_url=url))
    await migrate(database)
    first = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)

    async def days_after(sources: Path, *days: int) -> int:
        moments = [first + timedelta(days=day, minutes=15 * (sources is former_sources)) for day in days]
        await asyncio.to_thread(ingest, url, sources, *moments)
        async with database.reading() as connection:
            return int(await connection.scalar(text("SELECT count(DISTINCT left(slot, 8)) FROM event_rows")))

    assert await days_after(former_sources, 0, 1) == 2
    assert await days_after(ROOT / "src", 1, 2) == 3
    assert await days_after(former_sources, 2, 30) == 1
    await make_days_of_rows(database, (first + timedelta(days=31)).date())
    assert await days_after(ROOT / "src", 31) == 2
    async with database.reading() as connection:
        days = [one.first for one in await list_partitions(connection, "event_rows") if one.is_day]
    assert min(days) == f"{first + timedelta(days=31):%Y%m%d}"
    await database.close()
