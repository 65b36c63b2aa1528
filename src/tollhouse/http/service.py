"""A service: a name, its operations, and what it says about its own health."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from tollhouse.http.endpoint import Endpoint
from tollhouse.http.pages import FrontPageEntry, Page

ComponentState = Literal["ok", "indexing", "stale", "failing"]


class Component(Struct, frozen=True):
    """A source or dataset of a service, as the status page shows it to everyone.

    `name` is stable and unique in its service. `rows` are the rows served, `as_of` the moment up to which the data
    reach, and `updated_at` when they were last read successfully; null where there is none. `detail` says what is
    wrong, without an address or a name of this installation.
    """

    name: str
    title: str
    state: ComponentState
    rows: int | None = None
    as_of: str | None = None
    updated_at: str | None = None
    detail: str = ""


Components = Callable[[], Awaitable[Sequence[Component]]]
Health = Callable[[], Awaitable[Struct | dict[str, Any]]]
Work = Callable[[], Awaitable[None]]


async def well() -> dict[str, Any]:
    """The health of a service that has nothing to say about it."""
    return {"status": "ok"}


class AnsweringOperation(Struct, frozen=True):
    """The operation of a service that answers a message in words, for agents that talk (A2A).

    `argument` takes the message, and is empty where the answer is always the same. `reply` is the member of the JSON
    answer that has the reply in words; empty where the answer is a list. `conversation` is both the argument and the
    member that continue a conversation. `examples` are messages that it answers.
    """

    operation: str
    argument: str
    reply: str = ""
    conversation: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """`health` gives the response of `GET /health`, and `health_schema` is its type, or a JSON Schema.

    Each of the `leader_tasks` runs in one process of all that share a database, under a lease with its function's name;
    the `per_process_tasks` run in every process that serves. Both run until the process ends.
    `components` are the sources and datasets that the status page shows; any process may call it.
    `licence` is that of everything it returns; empty where records have their own, or none is known.
    `pages` are for people, and `front_page` is the service's entry on the host's front page; without one it has none.
    `assistant` answers messages in words; without one the service has no part in conversations.
    `has_accounts`: the account endpoints stand under the prefix of this service too, as its specification writes them.
    `schemas` are the components that the described parts of endpoints refer to.
    """

    name: str
    title: str
    version: str
    description: str
    endpoints: Sequence[Endpoint]
    health: Health = well
    health_schema: type[Struct] | dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    leader_tasks: Sequence[Work] = ()
    per_process_tasks: Sequence[Work] = ()
    components: Components | None = None
    tags: dict[str, str] = field(default_factory=dict)
    pages: Sequence[Page] = ()
    front_page: FrontPageEntry | None = None
    has_accounts: bool = False
    licence: str = ""
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    assistant: AnsweringOperation | None = None
