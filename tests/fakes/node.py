"""A provider between us and a real node, which answers wrongly where a test says so."""

import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.website import Asked, Reply, website

Call = dict[str, Any]
Twist = Callable[[Call, Any], Any]
"""From a call and the real node's result to the result that is told."""


@dataclass
class Provider:
    """`break_with` replaces every whole answer; `twists` change the results of single methods."""

    url: str = ""
    methods: list[str] = field(default_factory=list)
    twists: dict[str, Twist] = field(default_factory=dict)
    break_with: Callable[[], Reply] | None = None


@asynccontextmanager
async def provider(node_url: str) -> AsyncIterator[Provider]:
    told = Provider()

    def answer(asked: Asked) -> Reply:
        calls = json.loads(asked.body)
        told.methods += [call["method"] for call in (calls if isinstance(calls, list) else [calls])]
        if told.break_with:
            return told.break_with()
        answers = _from_node(node_url, asked.body)
        if isinstance(calls, list):
            by_id = {call["id"]: call for call in calls}
            answers = [_twisted(told, by_id[one["id"]], one) for one in answers]
        else:
            answers = _twisted(told, calls, answers)
        return Reply(body=json.dumps(answers).encode(), headers={"Content-Type": "application/json"})

    async with website(answer) as site:
        told.url = f"{site.url}/secret-token-in-the-path"
        yield told


def _from_node(url: str, body: bytes) -> Any:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
        return json.load(response)


def _twisted(told: Provider, call: Call, answer: Any) -> Any:
    twist = told.twists.get(call["method"])
    return {**answer, "result": twist(call, answer.get("result"))} if twist else answer
