"""Dialogues with a language model: turns, tool calls, and the tokens that they may cost."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from math import ceil
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from tollhouse import clock
from tollhouse.errors import Problem
from tollhouse.metering.meter import Meter, Reservation, Windows
from tollhouse.questions.grounding import Citations, Delta, Evidence, Reference, Retract, SentenceStream, Step
from tollhouse.questions.language_model import Message, Model, Text, Turn, unavailable

# The meter counts calls: one of its calls stands for so many tokens here.
TOKENS_PER_UNIT = 4_000


class Budget:
    """`tokens_per_day` for each caller; 0 is no ceiling."""

    def __init__(self, meter: Meter, tokens_per_day: int) -> None:
        self._meter = meter
        self._windows = Windows(tokens_per_day // TOKENS_PER_UNIT, None) if tokens_per_day else None

    async def hold(self, subject: str, most_tokens: int) -> list[Reservation]:
        """Reserve what an answer may cost at most. Raises Problem `quota-exceeded` when it does not fit the day."""
        held: list[Reservation] = []
        for _ in range(ceil(most_tokens / TOKENS_PER_UNIT) if self._windows else 0):
            assert self._windows is not None
            unit = await self._meter.reserve(f"chat-tokens:{subject}", self._windows)
            if unit.verdict.refused_by:
                await self._release(held)
                raise quota_exceeded(unit, "the language model's tokens")
            held.append(unit)
        return held

    async def settle(self, held: Sequence[Reservation], spent_tokens: int) -> None:
        """Release the tokens that were not spent."""
        await self._release(held[ceil(spent_tokens / TOKENS_PER_UNIT) :])

    async def _release(self, units: Sequence[Reservation]) -> None:
        for unit in units:
            await self._meter.release(unit)


def quota_exceeded(reservation: Reservation, what: str) -> Problem:
    """The problem of a caller whose daily limit is reached."""
    wait = reservation.verdict.retry_after_seconds(clock.seconds())
    return Problem(
        "quota-exceeded",
        f"Daily limit reached: {what}. Retry after {wait} s.",
        headers={"Retry-After": str(wait)},
        retry_after_seconds=wait,
        window="day",
    )


MOST_ROUNDS = 4
MOST_REPLY_TOKENS = 800
MOST_TOKENS = 24_000

NOTHING = "NOT IN THE FEEDS"


class Tools(Protocol):
    """The queries a model may run."""

    @property
    def described(self) -> Sequence[dict[str, Any]]:
        """Each as the interface describes a function."""

    def run(self, name: str, arguments: str, evidence: Evidence) -> str:
        """What the model is shown; what it may cite of that is put into the evidence. Never raises for its mistakes."""


class Prompt(Struct, frozen=True):
    """The messages for a model. `deadline` is on the event loop's clock and covers the whole answer."""

    model: str
    messages: tuple[Message, ...]
    deadline: float


class FinishedAnswer(Struct, frozen=True, tag="answered"):
    """The whole answer; `text` is empty where nothing that the model said was supported."""

    text: str
    citations: tuple[Reference, ...]
    prompt_tokens: int
    completion_tokens: int


class Dialogue:
    """One answer in progress. `spent_tokens` is correct at any time, also after the caller disconnects."""

    def __init__(self, model: Model, tools: Tools, evidence: Evidence) -> None:
        self._model = model
        self._tools = tools
        self._evidence = evidence
        self._prompt_tokens = 0
        self._completion_tokens = 0

    @property
    def spent_tokens(self) -> int:
        return self._prompt_tokens + self._completion_tokens

    async def answer(self, prompt: Prompt) -> AsyncGenerator[Step | Delta | Retract | FinishedAnswer, None]:
        """The answer as it comes, ending with FinishedAnswer. Raises Problem `upstream-unavailable`."""
        stream = SentenceStream(self._evidence, Citations())
        messages = list(prompt.messages)
        # Closed as soon as the caller disconnects, so that the model stops as well.
        async with aclosing(self._rounds(prompt, messages, stream)) as rounds:
            async for said in rounds:
                yield said
        yield FinishedAnswer(stream.text, stream.cited, self._prompt_tokens, self._completion_tokens)

    async def _rounds(
        self, prompt: Prompt, messages: list[Message], stream: SentenceStream
    ) -> AsyncGenerator[Step | Delta | Retract, None]:
        """Run turns until the model answers without a tool call."""
        turn = Turn("", (), 0, 0)
        for remaining in range(MOST_ROUNDS, -1, -1):
            choice = "auto" if remaining else "none"
            options = {"tools": list(self._tools.described), "tool_choice": choice}
            async with aclosing(self._turn(prompt, messages, options)) as turns:
                async for part in turns:
                    if isinstance(part, Turn):
                        turn = part
                        continue
                    for said in stream.take(part.text):
                        yield said
            if not turn.calls:
                break
            if not remaining:
                raise unavailable("called tools without end")
            messages.append(_as_message(turn))
            for call in turn.calls:
                yield Step("query", call.name)
                shown = self._tools.run(call.name, call.arguments, self._evidence)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": shown})
        for said in stream.finish():
            yield said
        if not turn.text.strip():
            raise unavailable("answered nothing")

    async def _turn(
        self, prompt: Prompt, messages: Sequence[Message], options: dict[str, Any]
    ) -> AsyncGenerator[Text | Turn, None]:
        """A turn, counted."""
        if self.spent_tokens >= MOST_TOKENS:
            raise unavailable("needed more tokens than an answer may cost")
        turn = self._model.turn(prompt.model, messages, options, MOST_REPLY_TOKENS, prompt.deadline)
        async with aclosing(turn) as parts:
            async for part in parts:
                if isinstance(part, Turn):
                    self._prompt_tokens += part.prompt_tokens
                    self._completion_tokens += part.completion_tokens
                yield part


def _as_message(turn: Turn) -> Message:
    message: Message = {"role": "assistant", "content": turn.text}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    return message


def encode_json(shown: Any) -> str:
    return msgspec.json.encode(shown).decode()
