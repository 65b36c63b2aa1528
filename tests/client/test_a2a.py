"""Agents that talk: the official A2A client, unchanged, on a real server."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Struct

from tests.http.conftest import asgi_client
from tests.journeys.server import Server
from tollhouse import (
    AnsweringOperation,
    AppContext,
    Request,
    Service,
    Settings,
    create_app,
    endpoint,
    endpoints_of,
    free_then_paid,
)

SCRIPT = Path(__file__).parent / "converse.mjs"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("agents"), recorded="true")
    yield server
    server.kill()


QUESTIONS = (
    {"text": "Who supplies HBM to NVIDIA?"},
    {"text": "And who supplies TSMC?", "follows": True},
    {"text": "a firm queen mattress for side sleepers"},
    {"text": "How many battles were there in Ethiopia?"},
    {"text": "Anything", "skillId": "studio.getStudioCatalogue"},
    {"text": "xyzzy"},
    {"text": "Anything", "skillId": "none.such"},
)


@pytest.fixture(scope="module")
def conversation(server, node_modules, tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("converse")
    (folder / "node_modules").symlink_to(node_modules)
    shutil.copy(SCRIPT, folder)
    command = ["node", str(folder / SCRIPT.name), server.root, *map(json.dumps, QUESTIONS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def test_agent_of_another_vendor_converses_with_the_services(server, conversation) -> None:
    (interface,) = conversation["card"]["supportedInterfaces"]
    assert (interface["url"], interface["protocolVersion"]) == (f"{server.root}/a2a", "1.0")
    assert {skill["id"] for skill in conversation["card"]["skills"]} == {
        "defense.chat", "mattress.searchProducts", "infra.askConcierge", "studio.getStudioCatalogue"}  # fmt: skip
    graph, follow_up, products, battles, studio, unclear, unknown = conversation["replies"]
    for reply, skill in (
        (graph, "infra.askConcierge"), (follow_up, "infra.askConcierge"), (products, "mattress.searchProducts"),
        (battles, "defense.chat"), (studio, "studio.getStudioCatalogue"),
    ):  # fmt: skip
        assert reply["metadata"]["skillId"] == skill
        assert reply["metadata"]["price"].startswith("Price: ")
    assert "SK hynix" in _text(graph)
    assert "TSMC" in _text(follow_up)
    assert " results: " in _text(products)
    # The chat needs a key, and the reply says so.
    assert "key" in _text(battles)
    assert "0.01 USD" in _text(battles)
    assert "infra.askConcierge" in _text(unclear)
    assert "no such skill" in unknown["error"]


def _text(reply: dict[str, Any]) -> str:
    return str(reply["parts"][0]["content"]["value"])


def test_agent_with_a_key_is_answered_by_the_chat(server) -> None:
    key = server.operators_key("--tier", "pro")
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "How many battles were there in Ukraine?"}]}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
            "params": {"message": {**message, "metadata": {"skillId": "defense.chat"}}}}  # fmt: skip
    answered = httpx2.post(f"{server.root}/a2a", json=sent, headers={"Authorization": f"Bearer {key}"}).json()
    parts = answered["result"]["message"]["parts"]
    assert parts[1]["data"]["response"] == parts[0]["text"]
    assert server.used(key)["day"]["used"] == 1


def test_malformed_conversation_is_an_error_of_the_protocol(server) -> None:
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    for body, code in (
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"SendMessage"}', -32600),
        (_call("Dance", {}), -32601),
        (_call("GetTask", {"id": "1"}), -32001),
        (_call("SendStreamingMessage", {"message": message}), -32004),
        (_call("SendMessage", {}), -32602),
        (_call("SendMessage", {"message": {**message, "parts": [{"url": "x"}]}}), -32602),
        (_call("SendMessage", {"message": {**message, "parts": 3}}), -32602),
        (_call("SendMessage", {"message": {**message, "contextId": 3}}), -32602),
        (_call("SendMessage", {"message": {**message, "metadata": {"skillId": 3}}}), -32602),
    ):
        answer = httpx2.post(f"{server.root}/a2a", content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, code), body
    answer = httpx2.post(f"{server.root}/a2a", content=_call("SendMessage", {}), headers={"A2A-Version": "9.0"})
    assert answer.json()["error"]["code"] == -32009


def _call(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    words: str


class Echo(Struct, frozen=True):
    reply: str


async def test_service_of_ones_own_answers_agents(data_dir) -> None:
    class Answers:
        @endpoint("GET", "/api/echo", id="echo", terms=free_then_paid(2_000, 1, "echoes"))
        async def echo(self, request: Request[Words, None]) -> Echo:
            """Repeat the words."""
            return Echo(f"You wrote: {request.query.words}")

    async def health() -> dict[str, str]:
        return {"status": "ok"}

    async def open_echo(_context: AppContext) -> Service:
        return Service("echo", "Echo", "1", "Repeats words.", endpoints_of(Answers()), health, {"type": "object"},
                       assistant=AnsweringOperation("echo", "words", "reply"))  # fmt: skip

    settings = Settings(service="echo", data_dir=str(data_dir), background_work=False)
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    async with create_app(settings, services={"echo": open_echo}) as application, asgi_client(application) as client:
        replies = [
            (await client.post("/a2a", content=_call("SendMessage", {"message": message}))).json()["result"]["message"]
            for _ in range(2)
        ]
    assert replies[0]["parts"][0]["text"] == "You wrote: Hello"
    assert replies[0]["parts"][1]["data"] == {"reply": "You wrote: Hello"}
    # The allowance of one call is used up, and a message costs what the call costs.
    assert replies[1]["parts"][1]["data"]["code"] == "payment-required"
    assert "0.002 USD" in replies[1]["parts"][0]["text"]
