"""A language model behind any OpenAI-compatible server: one streamed turn at a time, every failure one Problem."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tollhouse import tracing
from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.logs import logger, masked

log = logger("chat")

MOST_CHARACTERS = 32_000
MOST_CALLS = 8
CHARACTERS_PER_TOKEN = 3

Message = dict[str, Any]


class Text(Struct, frozen=True):
    """A piece of the turn's text, as it comes."""

    text: str


class ToolCall(Struct, frozen=True):
    """A query that the model wants run; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class Turn(Struct, frozen=True):
    """The end of a turn. Tokens are the server's count, or an estimate from the characters where it gives none."""

    text: str
    calls: tuple[ToolCall, ...]
    prompt_tokens: int
    completion_tokens: int


class Model:
    """Talks to one server. No retries: the caller's deadline is short, and a failure is reported, not hidden."""

    def __init__(self, settings: Settings) -> None:
        try:
            import openai
        except ModuleNotFoundError:
            raise SettingError("llm_base_url: needs the extra: pip install 'tollhouse[chat]'") from None
        self._failures = openai.OpenAIError
        self._client = openai.AsyncOpenAI(
            base_url=settings.llm_base_url,
            api_key=settings.llm_api_key or "none",
            max_retries=0,
            timeout=settings.llm_timeout_seconds,
        )
        # Naming it loads the rest of the package now, and not while the first caller waits.
        self._completions = self._client.chat.completions
        # OpenAI's own newer models refuse the older name, which every other server knows.
        is_openai = (urlsplit(settings.llm_base_url).hostname or "").endswith("openai.com")
        self._cap = "max_completion_tokens" if is_openai else "max_tokens"

    async def turn(
        self, name: str, messages: Sequence[Message], options: dict[str, Any], most_tokens: int, deadline: float
    ) -> AsyncGenerator[Text | Turn, None]:
        """One turn of the model called `name`, ending with a Turn; `deadline` is of the loop's clock.

        Raises Problem `upstream-unavailable` when the server is down, slow, refuses, breaks off or answers nonsense.
        """
        conversation: Any = list(messages)
        # Outside of `extra_body` the SDK walks through every schema of every tool, for milliseconds, to change nothing.
        rest = {"stream_options": {"include_usage": True}, self._cap: most_tokens, **options}
        collected = _Collected()
        stream: Any = None
        span = tracing.Detached("language model", **{"gen_ai.request.model": name})
        try:
            prompt = self._completions.create(model=name, messages=conversation, stream=True, extra_body=rest)
            stream = await self._within(deadline, prompt)
            pieces = aiter(stream)
            while (chunk := await self._within(deadline, anext(pieces, None))) is not None:
                if text := self._read(collected, chunk):
                    yield Text(text)
            if not collected.is_finished:
                raise unavailable("broke off its answer")
            yield collected.turn(messages)
        finally:
            span.end()
            if stream is not None:
                await stream.close()

    async def _within(self, deadline: float, work: Any) -> Any:
        """The result of `work`, before the deadline. Raises Problem `upstream-unavailable`."""
        try:
            async with asyncio.timeout_at(deadline):
                return await work
        except TimeoutError:
            raise unavailable("did not answer in time") from None
        except self._failures as error:
            log.warning("language model failed", error=masked(f"{type(error).__name__}: {error}")[:300])
            raise unavailable(_reason(error)) from None
        except (OSError, ValueError, RuntimeError) as error:
            # A stream that breaks off, or that is not JSON, comes through as whatever the transport raises.
            log.warning("language model broke off", error=masked(f"{type(error).__name__}: {error}")[:300])
            raise unavailable("broke off its answer") from None

    def _read(self, collected: "_Collected", chunk: Any) -> str:
        try:
            return collected.take(chunk)
        except (AttributeError, TypeError, IndexError) as error:
            # The SDK does not validate what a server sends: a missing member shows only when it is used.
            log.warning("language model sent nonsense", error=str(error)[:300])
            raise unavailable("sent something that is no answer") from None


class _Collected:
    """A turn as its chunks come in."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._length = 0
        self._calls: dict[int, list[str]] = {}
        self._usage: tuple[int, int] | None = None
        self.is_finished = False

    def take(self, chunk: Any) -> str:
        """Add a chunk; returns its text."""
        if chunk.usage is not None:
            self._usage = int(chunk.usage.prompt_tokens), int(chunk.usage.completion_tokens)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.is_finished = self.is_finished or choice.finish_reason is not None
        for call in choice.delta.tool_calls or ():
            self._take_call(call)
        text: str = choice.delta.content or ""
        self._length += len(text)
        if self._length > MOST_CHARACTERS:
            raise unavailable("sent an answer that is too long")
        self._text.append(text)
        return text

    def _take_call(self, call: Any) -> None:
        parts = self._calls.setdefault(call.index or 0, ["", "", ""])
        if len(self._calls) > MOST_CALLS:
            raise unavailable("asked for too much at once")
        parts[0] = call.id or parts[0]
        if call.function is not None:
            parts[1] += call.function.name or ""
            parts[2] += call.function.arguments or ""
        self._length += len(parts[2])
        if len(parts[2]) > MOST_CHARACTERS:
            raise unavailable("sent an answer that is too long")

    def turn(self, messages: Sequence[Message]) -> Turn:
        """The whole turn."""
        text = "".join(self._text)
        calls = tuple(
            ToolCall(identity or f"call_{index}", name, arguments)
            for index, (identity, name, arguments) in sorted(self._calls.items())
        )
        sent = sum(len(str(message)) for message in messages)
        usage = self._usage or (sent // CHARACTERS_PER_TOKEN, self._length // CHARACTERS_PER_TOKEN)
        return Turn(text, calls, *usage)


def unavailable(what: str) -> Problem:
    """The model's failure as callers see it."""
    return Problem("upstream-unavailable", f"The language model {what}.", upstream="model")


def _reason(error: Exception) -> str:
    name = type(error).__name__
    if "Timeout" in name:
        return "did not answer in time"
    if "RateLimit" in name:
        return "is asked too much just now"
    return "cannot be reached or broke off" if "Connection" in name else "refused or failed to answer"
