"""An answer by a model: it may run queries, must cite what they returned, and gets one chance to mend its words."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tollhouse.questions.citations import Citations, Reference
from tollhouse.questions.grounding import Evidence
from tollhouse.questions.language_model import Message, Model, Text, ToolCall, Turn, unavailable
from tollhouse.questions.sentence_stream import Delta, Outlet, Retract

MOST_ROUNDS = 4
MOST_REPLY_TOKENS = 800
MOST_TOKENS = 24_000

NOTHING = "NOT IN THE FEEDS"

_MEND = (
    "These sentences were left out, because a number in them stands in nothing they cite, or they cite nothing:\n"
    "{sentences}\nWrite only those again that the results support, each beginning with the names it rests on. "
    f"If none is supported, write {NOTHING}."
)


class Tools(Protocol):
    """The queries a model may run."""

    @property
    def described(self) -> Sequence[dict[str, Any]]:
        """Each as the interface describes a function."""

    def run(self, name: str, arguments: str, evidence: Evidence) -> str:
        """What the model is shown; what it may cite of that is put into the evidence. Never raises for its mistakes."""


class Asking(Struct, frozen=True):
    """Which model is asked what. `deadline` is of the loop's clock and holds for the whole answer."""

    model: str
    messages: tuple[Message, ...]
    deadline: float


class Answered(Struct, frozen=True, tag="answered"):
    """The whole answer; `text` is empty where nothing that the model said was supported."""

    text: str
    citations: tuple[Reference, ...]
    prompt_tokens: int
    completion_tokens: int


class Dialogue:
    """One answer in the making. `spent_tokens` is right at any time, also when the caller leaves."""

    def __init__(self, model: Model, tools: Tools, evidence: Evidence) -> None:
        self._model = model
        self._tools = tools
        self._evidence = evidence
        self._prompt_tokens = 0
        self._completion_tokens = 0

    @property
    def spent_tokens(self) -> int:
        return self._prompt_tokens + self._completion_tokens

    async def answer(self, asking: Asking) -> AsyncGenerator[Delta | Retract | Answered, None]:
        """The answer as it comes, ending with Answered. Raises Problem `upstream-unavailable`."""
        outlet = Outlet(self._evidence, Citations())
        messages = list(asking.messages)
        # Closed at once when the caller leaves, so that the model stops as well.
        rounds = self._rounds(asking, messages, outlet)
        try:
            async for said in rounds:
                yield said
        finally:
            await rounds.aclose()
        if outlet.unsupported and self.spent_tokens < MOST_TOKENS:
            mending = self._mended(asking, messages, outlet)
            try:
                async for said in mending:
                    yield said
            finally:
                await mending.aclose()
        yield Answered(outlet.text, outlet.cited, self._prompt_tokens, self._completion_tokens)

    async def _rounds(
        self, asking: Asking, messages: list[Message], outlet: Outlet
    ) -> AsyncGenerator[Delta | Retract, None]:
        """Turn after turn until the model answers without asking for a query."""
        turn = Turn("", (), 0, 0)
        for left in range(MOST_ROUNDS, -1, -1):
            choice = "auto" if left else "none"
            turns = self._turn(asking, messages, {"tools": list(self._tools.described), "tool_choice": choice})
            try:
                async for part in turns:
                    if isinstance(part, Turn):
                        turn = part
                        continue
                    for said in outlet.take(part.text):
                        yield said
            finally:
                await turns.aclose()
            if not turn.calls:
                break
            if not left:
                raise unavailable("asked for queries without end")
            messages += [_as_message(turn), *(self._called(call) for call in turn.calls)]
        for said in outlet.finish():
            yield said
        if not turn.text.strip():
            raise unavailable("answered nothing")
        messages.append(_as_message(turn))

    async def _mended(
        self, asking: Asking, messages: list[Message], outlet: Outlet
    ) -> AsyncGenerator[Delta | Retract, None]:
        """One more turn, for the sentences that fell out."""
        sentences = "\n".join(f"- {sentence}" for sentence in outlet.unsupported)
        messages.append({"role": "user", "content": _MEND.format(sentences=sentences)})
        turns = self._turn(asking, messages, {})
        try:
            async for part in turns:
                if isinstance(part, Text):
                    for said in outlet.take(part.text):
                        yield said
        finally:
            await turns.aclose()
        for said in outlet.finish():
            yield said

    async def _turn(
        self, asking: Asking, messages: Sequence[Message], options: dict[str, Any]
    ) -> AsyncGenerator[Text | Turn, None]:
        """A turn, counted."""
        if self.spent_tokens >= MOST_TOKENS:
            raise unavailable("needed more tokens than an answer may cost")
        parts = self._model.turn(asking.model, messages, options, MOST_REPLY_TOKENS, asking.deadline)
        try:
            async for part in parts:
                if isinstance(part, Turn):
                    self._prompt_tokens += part.prompt_tokens
                    self._completion_tokens += part.completion_tokens
                yield part
        finally:
            await parts.aclose()

    def _called(self, call: ToolCall) -> Message:
        shown = self._tools.run(call.name, call.arguments, self._evidence)
        return {"role": "tool", "tool_call_id": call.id, "content": shown}


def _as_message(turn: Turn) -> Message:
    message: Message = {"role": "assistant", "content": turn.text}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    return message


def as_json(shown: Any) -> str:
    """What a model is shown of a result."""
    return msgspec.json.encode(shown).decode()
