"""The operation `POST /chat`, declared."""

from typing import Any

from tollhouse.http.endpoint import JSON, Endpoint
from tollhouse.http.terms import AGENT_CALL_MICROS, key_with
from tollhouse.services.defense.chat.endpoints import EVENT_STREAM, ChatEndpoints
from tollhouse.services.defense.chat.types import ChatReply, ChatRequest

TERMS = key_with("chat", agent_price_micros=AGENT_CALL_MICROS)

_EXAMPLE_REQUEST: dict[str, Any] = {"prompt": "How many battles were there in Rwanda?"}
_EXAMPLE_REPLY: dict[str, Any] = {
    "response": "None: the feeds hold 0 battle events in Rwanda. "
    "Window: the 24 hours up to 2020-11-15 11:00 UTC (a recording).",
    "model": "extractive",
    "citations": [],
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "conversation_id": "conv_gm0d7n0Cq2YH6rEXAMPLE",
}
_EVENTS: dict[str, Any] = {
    "type": "object",
    "description": "Server-sent events, each like this: `delta` (`text` to append), `retract` (cut the text back to "
    "`length` characters), and at the end `done` (the whole answer) or `error` (`code`, `status`, `detail`).",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["delta", "retract", "done", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "The event as JSON"},
    },
}


def chat_operation(desk: ChatEndpoints) -> Endpoint:
    """One question to the feeds."""
    return Endpoint(
        id="chat",
        method="POST",
        path="/chat",
        summary="Ask about the last 24 hours in plain words",
        description=(
            "Every figure comes from a query over the feeds, and every claim cites its stories or events: `[1]` "
            "points at the first of `citations`. `x-plans` lists the questions a day of each plan. A "
            "question that the feeds cannot answer is told so. `stream` answers as server-sent events."
        ),
        handler=desk.chat,
        terms=TERMS,
        body=ChatRequest,
        responses={JSON: ChatReply, EVENT_STREAM: _EVENTS},
        problems=("upstream-unavailable", "quota-exceeded"),
        tag="chat",
        is_tool=True,
        examples={"body": _EXAMPLE_REQUEST, JSON: _EXAMPLE_REPLY},
    )
