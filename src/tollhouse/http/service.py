"""A service: a name, its operations, and what it says about its own health."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from tollhouse.http.endpoint import Endpoint
from tollhouse.http.pages import FrontPageEntry, Page

Health = Callable[[], Awaitable[Struct | dict[str, Any]]]
Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Service:
    """`health` gives the response of `GET /health`, and `health_schema` is its type, or a JSON Schema.

    `leader_tasks` run in one process of all that share a database, `per_process_tasks` in every process that serves;
    both run until the process ends.
    `pages` are for people, and `front_page` is the service's entry on the host's front page; without one it has none.
    `has_accounts`: the account endpoints stand under the prefix of this service too, as its specification writes them.
    """

    name: str
    title: str
    version: str
    description: str
    endpoints: Sequence[Endpoint]
    health: Health
    health_schema: type[Struct] | dict[str, Any]
    leader_tasks: Sequence[Work] = ()
    per_process_tasks: Sequence[Work] = ()
    tags: dict[str, str] = field(default_factory=dict)
    pages: Sequence[Page] = ()
    front_page: FrontPageEntry | None = None
    has_accounts: bool = False
