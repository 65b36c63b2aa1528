"""A service: a name, its operations, and what it says about its own health."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tollhouse.http.browsing import Browsing
from tollhouse.http.endpoint import Endpoint

Health = Callable[[], Awaitable[dict[str, Any]]]
Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Service:
    """`health` gives the members of `GET /health`.

    `work` runs for ever in one process of all that share a database, `follow` in every process that serves.
    `browsing`: the console has a page for it, made of these facts.
    """

    name: str
    title: str
    version: str
    description: str
    operations: Sequence[Endpoint]
    health: Health
    health_schema: dict[str, Any]
    work: Sequence[Work] = ()
    follow: Sequence[Work] = ()
    tags: dict[str, str] = field(default_factory=dict)
    browsing: Browsing | None = None
