"""The background jobs of a server: each runs in one process at a time of all that share the database.

On PostgreSQL the processes share them out: one that holds fewer than another requests one of its leases.
"""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.http.service import Work
from tollhouse.logs import logger
from tollhouse.status.incident_store import Fault, Incidents, Subject
from tollhouse.storage.database import Database
from tollhouse.storage.leases import JOB, REQUEST_SECONDS, LeaseLost

log = logger("jobs")

POLL_SECONDS = 1.0
REQUEST_PAUSE_SECONDS = 5.0
"""How long a process leaves a lease that another one requested to that one."""
CONSIDERATE_SECONDS = 0.25
MOST_CONSIDERATE_SECONDS = 1.5
RESTART_TASK_SECONDS = 5.0
LONGEST_TASK = 80
_LONGEST_ROLE = 64
_NOT_IN_ROLE = re.compile(r"[^A-Za-z0-9_.-]+")


class Job(Struct, frozen=True):
    """Work of a service, and the lease under which one process does it."""

    service: str
    work: Work
    role: str


def build_jobs(works: Sequence[tuple[str, Work]]) -> list[Job]:
    """A job for each work of a service; its role has the name of the function, and a number where it is not unique."""
    jobs: list[Job] = []
    for service, work in works:
        role = _NOT_IN_ROLE.sub("-", f"{JOB}{service}-{_name(work)}")[: _LONGEST_ROLE - 3]
        same = sum(job.role.partition("~")[0] == role for job in jobs)
        jobs.append(Job(service, work, f"{role}~{same + 1}" if same else role))
    return jobs


async def run_jobs(database: Database, folder: Path, incidents: Incidents, jobs: Sequence[Job]) -> None:
    """Run what no other process runs, until cancelled. On SQLite the leases are locked files in `folder`."""
    await _Runner(database, folder / "jobs", incidents, jobs).run()


class _Runner:
    """The jobs of one process. The fewer it runs, the sooner it takes one that is free."""

    def __init__(self, database: Database, folder: Path, incidents: Incidents, jobs: Sequence[Job]) -> None:
        self._database = database
        self._folder = folder
        self._incidents = incidents
        self._jobs = {job.role: job for job in jobs}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._free_since: dict[str, float] = {}
        self._left_until: dict[str, float] = {}
        self._request_at = 0.0

    async def run(self) -> None:
        try:
            while True:
                with contextlib.suppress(Problem):
                    await self._run_round()
                # A job that is free is taken as soon as it may be.
                await asyncio.sleep(min(POLL_SECONDS, CONSIDERATE_SECONDS) if self._free_since else POLL_SECONDS)
        finally:
            running = list(self._running.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _run_round(self) -> None:
        now = asyncio.get_running_loop().time()
        held = await self._database.held_jobs()
        is_alone = all(holder == self._database.holder for holder in held.values())
        idle = self._jobs.keys() - self._running.keys()
        self._free_since = {role: self._free_since.get(role, now) for role in idle - held.keys()}
        for role in sorted(self._free_since, key=list(self._jobs).index):
            wait = 0.0 if is_alone else min(len(self._running) * CONSIDERATE_SECONDS, MOST_CONSIDERATE_SECONDS)
            if now >= max(self._free_since[role] + wait, self._left_until.get(role, 0.0)):
                await self._begin(self._jobs[role])
        others = [role for role in idle if held.get(role, self._database.holder) != self._database.holder]
        if others and now >= self._request_at and await self._database.request_job(others, len(self._running)):
            self._request_at = now + REQUEST_SECONDS

    async def _begin(self, job: Job) -> None:
        """Take a job's lease, and run it until the lease is lost; return when it is known whether it was free."""
        is_known = asyncio.Event()
        task = self._running[job.role] = asyncio.create_task(self._hold(job, is_known))
        task.add_done_callback(lambda _: is_known.set())
        await is_known.wait()

    async def _hold(self, job: Job, is_known: asyncio.Event) -> None:
        try:
            async with self._database.leading(job.role, self._folder) as holds:
                if holds:
                    self._request_at = 0.0
                    log.info("job started", job=job.role)
                    is_known.set()
                    try:
                        await run_forever(self._incidents, job.service, job.work)
                    finally:
                        # Before another process may take it.
                        log.info("job ended", job=job.role)
        except Problem as problem:
            if isinstance(problem, LeaseLost) and problem.is_requested:
                self._left_until[job.role] = asyncio.get_running_loop().time() + REQUEST_PAUSE_SECONDS
            else:
                log.warning("job not run", job=job.role, error=problem.detail)
        finally:
            del self._running[job.role]


async def run_forever(incidents: Incidents, service: str, work: Work) -> None:
    """Run a task that should not end; restart it when it fails. The time until then is an incident of the service.

    Raises LeaseLost from the task: another process goes on with it, so this is no failure.
    """
    subject = service, f"task {_name(work)}"[:LONGEST_TASK]
    fault = Fault("Background task", "stopped", "A background task failed and was started again.")
    while True:
        await _record(incidents, subject, None)
        try:
            await work()
        except LeaseLost:
            raise
        except Exception:
            log.exception("background task failed", service=service, task=subject[1])
            await _record(incidents, subject, fault)
        await asyncio.sleep(RESTART_TASK_SECONDS)


async def _record(incidents: Incidents, subject: Subject, fault: Fault | None) -> None:
    """Record whether a task stands still, if the database is available."""
    with contextlib.suppress(Problem):
        await incidents.observe({subject}, {subject: fault} if fault else {})


def _name(work: Work) -> str:
    function = work.func if isinstance(work, partial) else work
    return str(getattr(function, "__qualname__", "work"))
