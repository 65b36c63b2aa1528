"""The status page: the state of each service, the age of its sources, and incidents; `/status.json` for programs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tollhouse import __version__, clock
from tollhouse.admission.context import AppContext
from tollhouse.console.page_shell import HERE, HTML, PageShell, fill_template
from tollhouse.errors import Problem
from tollhouse.http.endpoint import JSON, Endpoint, Request, Response
from tollhouse.http.response import fresh_json
from tollhouse.http.service import Component, Service
from tollhouse.http.service_endpoints import serve
from tollhouse.http.terms import FREE
from tollhouse.logs import logger
from tollhouse.status.incident_store import KEPT_SECONDS, Fault, Incident, Subject

log = logger("status")

OBSERVE_SECONDS = 5.0
FORGET_SECONDS = 3_600.0
STOPPED_SECONDS = 120.0
"""Without a heartbeat for so long, a kind of work counts as stopped."""
INCIDENTS_SHOWN = 100
SERVER, BACKGROUND = ("server", "requests"), ("server", "background")

State = Literal["ok", "indexing", "stale", "failing"]
_ORDER: tuple[State, ...] = ("ok", "indexing", "stale", "failing")
_UNREADABLE = "Its state could not be read."


class ComponentStatus(Component, frozen=True):
    """A component with the age of its newest data, or of its last successful reading, in seconds."""

    age_seconds: int | None = None


class ServiceStatus(Struct, frozen=True):
    """A service with its components. `state` is the worst of theirs."""

    name: str
    title: str
    state: State
    components: list[ComponentStatus]


class IncidentReport(Struct, frozen=True):
    """An incident. `ended_at` is null while it lasts."""

    id: str
    service: str
    component: str
    title: str
    kind: str
    detail: str
    began_at: str
    ended_at: str | None
    duration_seconds: int


class Status(Struct, frozen=True):
    """The response of `GET /status.json`. `incidents` are those of the last 90 days, the newest first."""

    state: State
    as_of: str
    version: str
    services: list[ServiceStatus]
    incidents: list[IncidentReport]


class StatusBoard:
    """The state of a server's services. `run` records incidents; one process of all that serve does so at a time."""

    def __init__(self, context: AppContext, services: Sequence[Service]) -> None:
        self.context = context
        self._services = services

    async def run(self) -> None:
        """Observe every few seconds, until cancelled."""
        folder = Path(self.context.settings.data_dir)
        while True:
            async with self.context.database.leading("status", folder) as leads:
                if leads:
                    await self._report_gap()
                    await self._observe_forever()
            await asyncio.sleep(OBSERVE_SECONDS)

    async def current(self, services: Sequence[Service]) -> Status:
        """The state of these services, and the incidents of them and of the server."""
        now = clock.seconds()
        reports = [await _read(service) for service in services]
        background = await self._background()
        if background:
            reports.append(ServiceStatus("server", "Server", _worst([background]), [background]))
        names = {report.name for report in reports} | {"server"}
        newest = await self.context.incidents.newest(INCIDENTS_SHOWN, now - KEPT_SECONDS)
        return Status(
            state=_worst(reports),
            as_of=clock.iso(clock.now()),
            version=__version__,
            services=reports,
            incidents=[_report(one, now) for one in newest if one.service in names],
        )

    def endpoints(self, shell: PageShell, services: Sequence[Service]) -> list[Endpoint]:
        """`/status` and `/status.json` of a host with these services."""
        main = fill_template(HERE / "pages" / "status.html", {})
        page = shell.page("/status", "Status · Tollhouse", main, scripts=("status.css", "status.js"))

        async def status(_request: Request[Any, Any]) -> Response:
            return fresh_json(await self.current(services))

        return [
            Endpoint("page /status", "GET", "/status", "Status", serve(page), FREE,
                     responses={HTML.partition(";")[0]: {}}, is_described=False),
            Endpoint("getStatus", "GET", "/status.json", "Status", status, FREE,
                     responses={JSON: Status}, is_described=False),
        ]  # fmt: skip

    async def _report_gap(self) -> None:
        """Record the time in which no process served, if it was long."""
        last = await self.context.incidents.last_beat("serving")
        if last is not None and clock.seconds() - last > STOPPED_SECONDS:
            fault = Fault("Server", "stopped", "No process of this server was running.")
            await self.context.incidents.record_gap(SERVER, fault, last)

    async def _observe_forever(self) -> None:
        forgotten = 0.0
        while True:
            try:
                await self._observe()
                if clock.seconds() - forgotten > FORGET_SECONDS:
                    forgotten = clock.seconds()
                    await self.context.incidents.forget()
            except Problem as problem:
                log.warning("state not recorded", error=problem.detail)
            await asyncio.sleep(OBSERVE_SECONDS)

    async def _observe(self) -> None:
        incidents = self.context.incidents
        faults: dict[Subject, Fault] = {}
        checked: set[Subject] = {SERVER}
        for service in self._services:
            for component in (await _read(service)).components:
                subject = (service.name, component.name)
                checked.add(subject)
                if component.state in {"stale", "failing"}:
                    faults[subject] = Fault(component.title, component.state, component.detail)
        # A source that is no longer configured has no state, so its incident ends.
        checked |= {(one.service, one.component) for one in await incidents.newest(INCIDENTS_SHOWN)
                    if one.ended_at is None and not one.component.startswith("task ")}  # fmt: skip
        background = await self._background()
        if background and background.state == "failing":
            faults[BACKGROUND] = Fault(background.title, "stopped", background.detail)
        await incidents.observe(checked, faults)
        await incidents.beat("serving")

    async def _background(self) -> ComponentStatus | None:
        """The background work, once it has run for the first time."""
        last = await self.context.incidents.last_beat("background")
        if last is None:
            return None
        age = int(clock.seconds() - last)
        is_stopped = age > STOPPED_SECONDS
        stopped = "No process does the background work: sources are not read, deliveries are not sent."
        return ComponentStatus(
            "background", "Background work", "failing" if is_stopped else "ok",
            updated_at=clock.iso(clock.at(last)), detail=stopped if is_stopped else "", age_seconds=age,
        )  # fmt: skip


async def _read(service: Service) -> ServiceStatus:
    """The state of a service; a state that cannot be read is a failure of the service."""
    try:
        components = list(await service.components()) if service.components else []
    except Exception:
        log.exception("state of a service not read", service=service.name)
        components = [Component("service", service.title, "failing", detail=_UNREADABLE)]
    aged = [ComponentStatus(**msgspec.structs.asdict(one), age_seconds=_age(one)) for one in components]
    return ServiceStatus(service.name, service.title.removeprefix("Tollhouse: "), _worst(aged), aged)


def _age(component: Component) -> int | None:
    moment = component.as_of or component.updated_at
    return max(0, clock.age_seconds(moment)) if moment else None


def _worst(parts: Sequence[ComponentStatus | ServiceStatus]) -> State:
    return max((part.state for part in parts), key=_ORDER.index, default="ok")


def _report(incident: Incident, now: float) -> IncidentReport:
    ended = incident.ended_at
    return IncidentReport(
        incident.id, incident.service, incident.component, incident.title, incident.kind, incident.detail,
        began_at=clock.iso(clock.at(incident.began_at)),
        ended_at=None if ended is None else clock.iso(clock.at(ended)),
        duration_seconds=int((now if ended is None else ended) - incident.began_at),
    )  # fmt: skip
