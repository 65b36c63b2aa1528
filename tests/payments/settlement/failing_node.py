"""A node that fails where a test says so: before it did what it was asked, after it, or by refusing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.node import _from_node
from tests.fakes.website import Asked, Reply, website

Json = dict[str, Any]
BROKEN = Reply(status=503)


@dataclass
class FailingNode:
    """`failures` are by method: how each of its next calls ends. A batch fails with any of its calls.

    `lost`: nothing was done; `unanswered`: it was done; anything else is the message it is refused with, undone.
    """

    url: str = ""
    failures: dict[str, list[str]] = field(default_factory=dict)
    calls: list[Json] = field(default_factory=list)

    def count(self, method: str) -> int:
        return sum(call["method"] == method for call in self.calls)

    def next_failure(self, calls: list[Json]) -> str | None:
        for call in calls:
            planned = self.failures.get(call["method"])
            if planned:
                return planned.pop(0)
        return None


@asynccontextmanager
async def failing_node(node_url: str) -> AsyncIterator[FailingNode]:
    node = FailingNode()

    def answer(asked: Asked) -> Reply:
        body = json.loads(asked.body)
        calls = body if isinstance(body, list) else [body]
        node.calls += calls
        failure = node.next_failure(calls)
        if failure == "lost":
            return BROKEN
        if failure is not None and failure != "unanswered":
            return _reply([{"id": call["id"], "error": {"code": -32000, "message": failure}} for call in calls], body)
        answers = _from_node(node_url, asked.body)
        return BROKEN if failure else Reply(body=json.dumps(answers).encode())

    async with website(answer) as site:
        node.url = site.url
        yield node


def _reply(answers: list[Json], body: Any) -> Reply:
    whole = [{"jsonrpc": "2.0", **one} for one in answers]
    return Reply(body=json.dumps(whole if isinstance(body, list) else whole[0]).encode())


async def within(awaitable: Any, seconds: float = 60.0) -> Any:
    async with asyncio.timeout(seconds):
        return await awaitable
