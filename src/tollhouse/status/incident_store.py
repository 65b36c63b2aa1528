"""Incidents: a source that failed or was stale, a task or a server that stopped, with begin and end.

Times are seconds since 1970. An incident has an end once its component was seen in order again. One that returns within
`SAME_SECONDS` of its end continues, so that a component that fails every few seconds is one incident.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal
from uuid import uuid4

from msgspec import Struct
from sqlalchemy import Column, Double, Index, String, Table, delete, func, or_, select, update

from tollhouse import clock
from tollhouse.storage.database import Database, Transaction, metadata, upsert

Kind = Literal["failing", "stale", "stopped"]
Subject = tuple[str, str]
"""A service, or "server", and one of its components."""

SAME_SECONDS = 600.0
KEPT_SECONDS = 90 * 86_400.0
LONGEST_DETAIL = 300

incidents = Table(
    "incident",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("service", String(64), nullable=False),
    Column("component", String(80), nullable=False),
    Column("title", String(200), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("detail", String(LONGEST_DETAIL), nullable=False),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double),
    Index("incident_by_begin", "began_at"),
)

heartbeats = Table(
    "heartbeat",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("at", Double, nullable=False),
)


class Fault(Struct, frozen=True):
    """What is wrong with a component now, in words for everyone."""

    title: str
    kind: Kind
    detail: str


class Incident(Struct, frozen=True):
    """An incident. `ended_at` is null while it lasts."""

    id: str
    service: str
    component: str
    title: str
    kind: Kind
    detail: str
    began_at: float
    ended_at: float | None


class Incidents:
    """The incidents and heartbeats of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def observe(self, checked: Collection[Subject], faults: Mapping[Subject, Fault]) -> None:
        """Record the faults among what was checked just now, and end the incidents of what is in order again."""
        now = clock.seconds()
        async with self._database.reading() as connection:
            ongoing = {
                (one.service, one.component): one for one in await _select(connection, incidents.c.ended_at.is_(None))
            }
        ended = [one.id for subject, one in ongoing.items() if subject in checked and subject not in faults]
        begun = {subject: fault for subject, fault in faults.items() if subject not in ongoing}
        changed = {
            ongoing[subject].id: fault
            for subject, fault in faults.items()
            if subject in ongoing and (ongoing[subject].kind, ongoing[subject].detail) != (fault.kind, fault.detail)
        }
        if not ended and not begun and not changed:
            return
        async with self._database.writing("incidents") as transaction:
            for id_ in ended:
                await _change(transaction, id_, ended_at=now)
            for id_, fault in changed.items():
                await _change(transaction, id_, kind=fault.kind, detail=fault.detail[:LONGEST_DETAIL])
            for subject, fault in begun.items():
                await _begin(transaction, subject, fault, now)

    async def record_gap(self, subject: Subject, fault: Fault, began_at: float) -> None:
        """Record an incident that is over, from `began_at` to now."""
        async with self._database.writing("incidents") as transaction:
            id_ = await _begin(transaction, subject, fault, began_at)
            await _change(transaction, id_, ended_at=clock.seconds())

    async def newest(self, limit: int, since: float = 0.0) -> list[Incident]:
        """The incidents that lasted after `since`, the newest first."""
        lasted = or_(incidents.c.ended_at.is_(None), incidents.c.ended_at >= since)
        async with self._database.reading() as connection:
            return await _select(connection, lasted, limit)

    async def beat(self, name: str) -> None:
        async with self._database.writing() as transaction:
            await upsert(transaction, heartbeats, [{"name": name, "at": clock.seconds()}])

    async def last_beat(self, name: str) -> float | None:
        """When a kind of work ran last, or None."""
        async with self._database.reading() as connection:
            statement = select(func.max(heartbeats.c.at)).where(heartbeats.c.name == name)
            at: float | None = (await connection.execute(statement)).scalar()
        return at

    async def forget(self) -> None:
        """Delete the incidents that ended long ago."""
        async with self._database.writing() as transaction:
            await transaction.execute(delete(incidents).where(incidents.c.ended_at < clock.seconds() - KEPT_SECONDS))


async def _begin(transaction: Transaction, subject: Subject, fault: Fault, began_at: float) -> str:
    """Begin an incident, or continue the one that lasts or has just ended; return its id."""
    service, component = subject
    is_same = (incidents.c.service == service) & (incidents.c.component == component)
    is_recent = or_(incidents.c.ended_at.is_(None), incidents.c.ended_at >= began_at - SAME_SECONDS)
    previous = await _select(transaction, is_same & is_recent, 1)
    values: dict[str, Any] = {"kind": fault.kind, "detail": fault.detail[:LONGEST_DETAIL], "ended_at": None}
    if previous:
        await _change(transaction, previous[0].id, **values)
        return previous[0].id
    id_ = f"incident_{uuid4().hex[:16]}"
    row = {"id": id_, "service": service, "component": component, "title": fault.title, "began_at": began_at, **values}
    await transaction.execute(incidents.insert().values(row))
    return id_


async def _change(transaction: Transaction, id_: str, **values: Any) -> None:
    await transaction.execute(update(incidents).where(incidents.c.id == id_).values(**values))


async def _select(connection: Transaction, condition: Any, limit: int | None = None) -> list[Incident]:
    statement = select(incidents).where(condition).order_by(incidents.c.began_at.desc(), incidents.c.id).limit(limit)
    return [Incident(**row) for row in (await connection.execute(statement)).mappings()]
