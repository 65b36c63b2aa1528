"""Background jobs: shared out among processes, each in one at a time, whatever becomes of the machine that had it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from sqlalchemy import text

from tests.waiting import until
from tollhouse import jobs
from tollhouse.config.settings import Settings
from tollhouse.jobs import build_jobs, run_forever, run_jobs
from tollhouse.status.incident_store import Incidents
from tollhouse.storage import leases
from tollhouse.storage.database import Database, open_database

# Holds the job of a place and writes, again and again outside or once inside of a transaction that does not end.
HOLDER = """
import asyncio, sys
from pathlib import Path
from sqlalchemy import text
from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.storage import leases
from tollhouse.storage.database import open_database

url, folder, place, is_short = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "short"
is_inside = place == "inside"
if is_short:
    leases.LEASE_SECONDS, leases.RENEW_SECONDS, leases.SAFETY_SECONDS = 2.0, 0.3, 0.5
    leases._LOCK = text(leases._LOCK.text.replace("'10000'", "'1000'"))

async def write(database):
    async with database.writing() as connection:
        change = text("UPDATE feed_revision SET revision = revision + 1 WHERE feed = :place")
        await connection.execute(change, {"place": place})
        if is_inside:
            print("writing", flush=True)
            await asyncio.sleep(60)

async def main():
    database = open_database(Settings(database_url=url))
    try:
        async with database.leading(f"job-{place}", folder) as held:
            print("held" if held else "free", flush=True)
            while True:
                await write(database)
    except Problem as problem:
        print("refused", problem.detail, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


TAKEN_OVER_SECONDS = 15.0


class Proxy:
    """Passes bytes to a server; cut, it passes nothing and closes nothing, as a network that is gone."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._tasks = set()
        self._writers = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._is_open.clear()

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _accept(self, reader, writer) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, to_writer]
        for pair in ((reader, to_writer), (to_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pass(*pair)))

    async def _pass(self, reader, writer) -> None:
        while data := await reader.read(65_536):
            await self._is_open.wait()
            writer.write(data)
        await self._is_open.wait()
        writer.close()


@pytest.fixture
def short_leases(monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.3)
    monkeypatch.setattr(leases, "SAFETY_SECONDS", 0.5)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "REQUEST_PAUSE_SECONDS", 0.5)


@pytest.fixture
async def open_another() -> AsyncIterator[Callable[[str], Database]]:
    async with contextlib.AsyncExitStack() as stack:

        def another(url: str) -> Database:
            database = open_database(Settings(database_url=url))
            stack.push_async_callback(database.close)
            return database

        yield another


@pytest.fixture
def start_holder(tmp_path):
    started = []

    def start(url: str, place: str, leases: str = "short") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, url, str(tmp_path), place, leases]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline().strip() == "held"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Processes:
    """The runners of some processes, and which of them does what."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self.running = {}
        self.most_at_once = 0
        self._now = []

    def start(self, name, database, count) -> asyncio.Task:
        self.running[name] = set()
        works = [("shop", partial(self._work, name, number)) for number in range(count)]
        return asyncio.create_task(run_jobs(database, self._folder, Incidents(database), build_jobs(works)))

    def counts(self):
        return sorted(len(done) for done in self.running.values())

    async def _work(self, name, number) -> None:
        self._now.append(number)
        self.most_at_once = max(self.most_at_once, self._now.count(number))
        self.running[name].add(number)
        try:
            await asyncio.sleep(600)
        finally:
            self.running[name].discard(number)
            self._now.remove(number)


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_role_of_a_job_is_its_functions_name_and_unique():
    async def work() -> None: ...

    roles = [job.role for job in build_jobs([("shop", work), ("shop", work), ("defense", asyncio.sleep)])]
    assert roles == [
        "job-shop-test_role_of_a_job_is_its_functions_name_and_unique."[:61],
        "job-shop-test_role_of_a_job_is_its_functions_name_and_unique."[:61] + "~2",
        "job-defense-sleep",
    ]


@pytest.mark.usefixtures("short_leases")
@pytest.mark.both_databases
async def test_every_job_runs_once_and_goes_on_elsewhere_when_its_process_stops(database_url, open_another, tmp_path):
    processes = Processes(tmp_path)
    first = processes.start("first", open_another(database_url), 5)
    await until(lambda: processes.counts() == [5])
    second = processes.start("second", open_another(database_url), 5)
    await stop(first)
    await until(lambda: processes.counts() == [0, 5])
    await stop(second)
    assert processes.most_at_once == 1


@pytest.mark.usefixtures("short_leases")
async def test_processes_share_the_jobs_out_as_they_come_and_go(postgres_url, open_another, tmp_path):
    processes = Processes(tmp_path)
    runners = [processes.start("first", open_another(postgres_url), 6)]
    await until(lambda: processes.counts() == [6])
    runners += [processes.start(name, open_another(postgres_url), 6) for name in ("second", "third")]
    await until(lambda: processes.counts() == [2, 2, 2], 40)
    await stop(runners[0])
    await until(lambda: processes.counts() == [0, 3, 3], 40)
    await stop(*runners)
    assert processes.most_at_once == 1


@pytest.mark.usefixtures("short_leases")
async def test_servers_of_the_earlier_version_leave_the_work_to_this_one(postgres_url, open_another, tmp_path):
    database, old = open_another(postgres_url), open_another(postgres_url)
    async with old.leading("background-work", tmp_path) as held:
        assert held
        await database.held_jobs()
        with pytest.raises(leases.LeaseLost):
            async with old.writing():
                pass
    async with old.leading("background-work", tmp_path) as held:
        assert not held


async def test_task_whose_lease_is_lost_is_no_failure(postgres_url, open_another, tmp_path):
    database, old = open_another(postgres_url), open_another(postgres_url)

    async def work() -> None:
        await add_row(old, "late")

    async with old.leading("background-work", tmp_path):
        await database.held_jobs()
        with pytest.raises(leases.LeaseLost):
            await asyncio.wait_for(run_forever(Incidents(old), "server", work), 10)


async def revision(database, name):
    async with database.reading() as connection:
        return await connection.scalar(text("SELECT revision FROM feed_revision WHERE feed = :name"), {"name": name})


async def add_row(database, place) -> None:
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO feed_revision VALUES (:place, 0)"), {"place": place})


async def take_over(database, folder, place) -> int:
    """Wait for the job, and answer how much its former holder had written by then."""
    while True:
        async with database.leading(f"job-{place}", folder) as held:
            if held:
                written = await revision(database, place)
                async with database.writing():
                    return written
        await asyncio.sleep(0.05)


PLACES = ("outside", "inside")


async def is_writing(database, holder, place) -> None:
    if place == "inside":
        assert (await asyncio.to_thread(holder.stdout.readline)).strip() == "writing"
    else:
        await until(lambda: revision(database, place))


@pytest.mark.parametrize("place", PLACES)
async def test_late_write_of_a_holder_that_was_frozen_is_refused(
    postgres_url, open_another, start_holder, tmp_path, place
):
    database = open_another(postgres_url)
    await add_row(database, place)
    holder = start_holder(postgres_url, place)
    await is_writing(database, holder, place)
    os.kill(holder.pid, signal.SIGSTOP)
    written = await asyncio.wait_for(take_over(database, tmp_path, place), 20)
    os.kill(holder.pid, signal.SIGCONT)
    said = ""
    while not said.startswith("refused"):
        said = await asyncio.to_thread(holder.stdout.readline)
        assert said, "it says that its write was refused"
    assert await revision(database, place) == written


async def test_jobs_of_a_machine_whose_network_is_gone_are_taken_over_within_15_seconds(
    postgres_url, open_another, start_holder, tmp_path
):
    """With the leases as they are, by processes that have jobs of their own: nothing tells them, or the database."""
    address, _, name = postgres_url.rpartition("/")
    proxy = Proxy(int(address.rpartition(":")[2]))
    proxied = f"postgresql://postgres@127.0.0.1:{await proxy.start()}/{name}"
    database = open_another(postgres_url)
    for place in PLACES:
        await add_row(database, place)
        await is_writing(database, await asyncio.to_thread(start_holder, proxied, place, "usual"), place)
    taken, written = {}, {}

    async def work(database, place) -> None:
        taken[place] = asyncio.get_running_loop().time()
        written[place] = await revision(database, place)
        async with database.writing():
            pass
        await asyncio.sleep(600)

    processes, runners = Processes(tmp_path), []
    for process in ("second", "third"):
        own = open_another(postgres_url)
        works = [jobs.Job("shop", partial(work, own, place), f"job-{place}") for place in PLACES]
        processes.running[process] = set()
        works += build_jobs([("shop", partial(processes._work, process, number)) for number in range(4)])
        runners.append(asyncio.create_task(run_jobs(own, tmp_path, Incidents(own), works)))
    await until(lambda: sum(processes.counts()) == 4)
    assert taken == {}
    proxy.cut()
    cut_at = asyncio.get_running_loop().time()
    await until(lambda: written.keys() == set(PLACES), 30)
    assert max(taken.values()) - cut_at < TAKEN_OVER_SECONDS
    assert {place: await revision(database, place) for place in PLACES} == written
    await stop(*runners)
    await proxy.close()
