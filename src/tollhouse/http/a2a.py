"""`POST /a2a`: the Agent2Agent protocol 1.0 over JSON-RPC. `SendMessage` asks the assistant of a service a question.

A message goes to the skill that `metadata.skillId` names, to the one its `contextId` belongs to, or to the one whose
words fit best. It is a call of that skill's operation: with the same credentials, limits and prices as over HTTP.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from tollhouse.errors import Problem
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.inner_calls import InnerCalls, whole_body
from tollhouse.http.json_rpc import INTERNAL, INVALID_PARAMS, METHOD_NOT_FOUND, Json, Message, RpcError, respond
from tollhouse.http.mcp.tools import build_request
from tollhouse.http.openapi import price_sentence
from tollhouse.http.request import HttpRequest
from tollhouse.http.response import render_problem
from tollhouse.http.router import Admitted, Route
from tollhouse.http.service import AnsweringOperation, Service
from tollhouse.http.terms import FREE

VERSION = "1.0"
AGENT = "ROLE_AGENT"
TASK_NOT_FOUND, UNSUPPORTED_OPERATION, UNSUPPORTED_VERSION = -32001, -32004, -32009
SHOWN_RESULTS = 5

_TASK_METHODS = frozenset({"GetTask", "CancelTask", "SubscribeToTask"})
_UNSUPPORTED = frozenset({"SendStreamingMessage", "ListTasks", "GetExtendedAgentCard"})
_WORD = re.compile(r"\w{3,}")


class Skill(Struct, frozen=True):
    """What an agent can be asked: the assistant of a service, mounted at `route`."""

    id: str
    route: Route
    assistant: AnsweringOperation

    @property
    def price(self) -> str:
        """What a message costs, as a sentence."""
        return price_sentence(self.route.endpoint.terms)

    def described(self) -> Json:
        """The skill in an agent card."""
        service, endpoint = self.route.service, self.route.endpoint
        return {
            "id": self.id,
            "name": service.title.removeprefix("Tollhouse: "),
            "description": f"{endpoint.summary}. {service.description.partition('. ')[0]}. {self.price}",
            "tags": [service.name, *([endpoint.tag] if endpoint.tag else [])],
            "examples": list(self.assistant.examples),
        }


def skills_of(mounted: Sequence[tuple[Service, str]]) -> list[Skill]:
    """The skills of the services that have an assistant."""
    return [
        Skill(f"{service.name}.{endpoint.id}", Route(service, endpoint, prefix), service.assistant)
        for service, prefix in mounted
        if service.assistant
        for endpoint in service.endpoints
        if endpoint.id == service.assistant.operation
    ]


class A2aEndpoint:
    """The skills of a host, or of one service."""

    def __init__(self, calls: InnerCalls, hosts: OwnHosts, skills: Sequence[Skill]) -> None:
        self._calls = calls
        self._hosts = hosts
        self._skills = {skill.id: skill for skill in skills}
        self._words = {skill.id: set(_words(_text_of(skill))) for skill in skills}

    def endpoint(self) -> Endpoint:
        return Endpoint("a2a", "POST", "/a2a", "Agent2Agent protocol", self.handle, FREE, takes_bytes=True,
                        responses={"application/json": {}}, is_described=False)  # fmt: skip

    async def handle(self, rpc_request: Request[None, bytes]) -> Response:
        return await respond(rpc_request, self._hosts, self._result, bad_request=200)

    async def _result(self, message: Message, request: HttpRequest) -> tuple[Json, Admitted | None]:
        _check_version(request)
        if message.method in _TASK_METHODS:
            raise RpcError(TASK_NOT_FOUND, "There are no tasks: each message is answered at once.")
        if message.method in _UNSUPPORTED:
            raise RpcError(UNSUPPORTED_OPERATION, "Only SendMessage is supported.")
        if message.method != "SendMessage":
            raise RpcError(METHOD_NOT_FOUND, f"Unknown method {message.method[:100]!r}.")
        sent = message.params.get("message")
        if not isinstance(sent, dict):
            raise RpcError(INVALID_PARAMS, "`message` must be an object.")
        text = _text(sent.get("parts"))
        context = sent.get("contextId") or ""
        if not isinstance(context, str):
            raise RpcError(INVALID_PARAMS, "`contextId` must be a string.")
        named, _, conversation = context.partition(":")
        skill = self._chosen(_skill_id(sent, message.params) or named, text)
        if skill is None:
            return {"message": self._choice()}, None
        return await self._answer(skill, text, conversation if named == skill.id else "", request)

    def _chosen(self, name: str, text: str) -> Skill | None:
        """The skill that is named, else the only one, else the one whose words fit best; None where none fits."""
        if name in self._skills:
            return self._skills[name]
        if name and "." in name:
            raise RpcError(INVALID_PARAMS, f"There is no such skill. Skills: {', '.join(self._skills)}.")
        if len(self._skills) == 1:
            return next(iter(self._skills.values()))
        sent = set(_words(text))
        # A word that many skills have says little about which one fits.
        score = {
            name: sum(1 / sum(word in each for each in self._words.values()) for word in sent & own)
            for name, own in self._words.items()
        }
        best = max(score, key=lambda name: score[name])
        return self._skills[best] if score[best] > 0 else None

    def _choice(self) -> Json:
        skills = [{"skillId": one.id, "name": one.described()["name"], "price": one.price} for one in
                  self._skills.values()]  # fmt: skip
        lines = [f"- {one['skillId']}: {one['name']}. {one['price']}" for one in skills]
        text = "No skill fits this message. Name one in `metadata.skillId`:\n" + "\n".join(lines)
        return _agent_message([{"text": text}, {"data": {"skills": skills}, "mediaType": "application/json"}], "", {})

    async def _answer(
        self, skill: Skill, text: str, conversation: str, request: HttpRequest
    ) -> tuple[Json, Admitted | None]:
        assistant, endpoint = skill.assistant, skill.route.endpoint
        arguments: Json = {assistant.argument: text} if assistant.argument else {}
        if conversation and assistant.conversation:
            arguments[assistant.conversation] = conversation
        admitted: Admitted | None = None
        try:
            answer, admitted = await self._calls.perform(
                skill.route, build_request(endpoint, arguments), request, _decoded, tool=skill.id
            )
            continued = answer.get(assistant.conversation) if assistant.conversation else ""
            words = answer.get(assistant.reply) if assistant.reply else None
            reply = words if isinstance(words, str) and words else _in_words(answer)
        except Problem as problem:
            if problem.status >= 500:
                raise RpcError(INTERNAL, problem.detail) from None
            answer, continued = msgspec.json.decode(render_problem(problem, request.id).body), conversation
            reply = f"{problem.detail} {skill.price}"
        address = f"{endpoint.method} {skill.route.prefix}{endpoint.path}"
        metadata = {"skillId": skill.id, "price": skill.price, "operation": address}
        parts: list[Json] = [{"text": reply}, {"data": answer, "mediaType": "application/json"}]
        parts.append({"text": f"Answered by {skill.id}, which is {address} over HTTP. {skill.price}"})
        return {"message": _agent_message(parts, f"{skill.id}:{continued or ''}", metadata)}, admitted


def _agent_message(parts: list[Json], context: str, metadata: Json) -> Json:
    message: Json = {"messageId": uuid4().hex, "role": AGENT, "parts": parts}
    return message | ({"contextId": context} if context else {}) | ({"metadata": metadata} if metadata else {})


def _skill_id(sent: Json, params: Json) -> str:
    for holder in (sent.get("metadata"), params.get("metadata")):
        name = holder.get("skillId") if isinstance(holder, Mapping) else None
        if name is not None:
            if not isinstance(name, str) or "." not in name:
                raise RpcError(INVALID_PARAMS, "`metadata.skillId` must be the id of a skill of the agent card.")
            return name
    return ""


def _text(parts: Any) -> str:
    """The text of a message. Raises RpcError where it has none."""
    texts = [one["text"] for one in parts if isinstance(one, dict) and isinstance(one.get("text"), str)] if isinstance(
        parts, list) else []  # fmt: skip
    text = "\n".join(texts).strip()
    if not text:
        raise RpcError(INVALID_PARAMS, "`message.parts` must have a part with `text`.")
    return text


def _words(text: str) -> Iterator[str]:
    """The words of a text in lower case, without the s of a plural."""
    return (word.removesuffix("s") for word in _WORD.findall(text.lower()))


def _text_of(skill: Skill) -> str:
    service, endpoint = skill.route.service, skill.route.endpoint
    texts = [service.name, service.title, service.description, *service.tags.values(), *skill.assistant.examples]
    return " ".join([*texts, endpoint.summary, endpoint.description, *(one.summary for one in service.endpoints)])


def _in_words(answer: Json) -> str:
    """A list of the first results by their names."""
    for value in answer.values():
        named = [one.get("title") or one.get("name") for one in value if isinstance(one, dict)] if isinstance(
            value, list) else []  # fmt: skip
        if any(named):
            total = answer.get("total", len(named))
            return f"{total} results: " + "; ".join(str(one) for one in named[:SHOWN_RESULTS] if one)
    return "No results." if answer.get("total") == 0 else msgspec.json.encode(answer).decode()[:1000]


async def _decoded(admitted: Admitted) -> Json:
    decoded = msgspec.json.decode(await whole_body(admitted.response))
    return decoded if isinstance(decoded, dict) else {"results": decoded}


def _check_version(request: HttpRequest) -> None:
    version = request.header(b"a2a-version")
    if version and version.partition(".")[0] != "1":
        raise RpcError(UNSUPPORTED_VERSION, f"Unsupported protocol version. Supported: {VERSION}.")
