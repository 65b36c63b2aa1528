"""JSON-RPC 2.0 to one node: questions repeated when no usable answer came, commands never, and a circuit breaker."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tollhouse.payments.chain.circuit_breaker import Breaker
from tollhouse.payments.chain.errors import ChainRefused, ChainUnavailable
from tollhouse.payments.chain.transport import Bounds, Endpoint

LARGEST_BATCH = 50
LONGEST_MESSAGE = 300

# Said by nodes that are busy, broken or no nodes of this kind: no word on what was asked.
_UNABLE = frozenset({-32700, -32600, -32601, -32603, -32002, -32005})
_JITTER = random.SystemRandom()

Question = tuple[str, Sequence[Any]]


class _Error(Struct, frozen=True):
    code: int
    message: str = ""
    data: Any = None


class _Answer(Struct, frozen=True):
    id: int | None = None
    result: Raw | UnsetType = UNSET
    error: _Error | None = None


class Rpc:
    """One node. Every method raises ChainUnavailable when no usable answer came in time."""

    def __init__(self, url: str, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._endpoint = Endpoint(url, self._bounds)
        self._breaker = Breaker(self._bounds.most_failures, self._bounds.open_seconds)
        self._last_id = 0

    async def command(self, method: str, *params: Any) -> Raw:
        """Say it once. After a ChainUnavailable nobody knows whether the node did it. Raises ChainRefused."""
        [answer] = await self._once([(method, params)])
        return _granted(answer)

    async def question(self, method: str, *params: Any) -> Raw:
        """Ask until there is an answer or time is up. Raises ChainRefused."""
        [answer] = await self._repeated([(method, params)])
        return _granted(answer)

    async def questions(self, questions: Sequence[Question]) -> list[Raw]:
        """Ask many things at once; the answers in the same order. One that is refused makes all ChainUnavailable."""
        answers: list[Raw] = []
        for start in range(0, len(questions), LARGEST_BATCH):
            some = await self._repeated(questions[start : start + LARGEST_BATCH])
            if any(isinstance(answer, ChainRefused) for answer in some):
                raise ChainUnavailable("a part of a batch was refused")
            answers += [answer for answer in some if not isinstance(answer, ChainRefused)]
        return answers

    async def close(self) -> None:
        """Give every connection back."""
        await self._endpoint.close()

    async def _repeated(self, questions: Sequence[Question]) -> list[Raw | ChainRefused]:
        try:
            async with asyncio.timeout(self._bounds.deadline_seconds):
                for attempt in range(1, self._bounds.most_attempts):
                    try:
                        return await self._once(questions)
                    except ChainUnavailable:
                        if self._breaker.is_open:
                            raise
                        # Doubling, and never in step with others that failed at the same moment.
                        await asyncio.sleep(self._bounds.retry_pause_seconds * 2**attempt * _JITTER.uniform(0.25, 0.75))
                return await self._once(questions)
        except TimeoutError:
            failure = f"no usable answer within {self._bounds.deadline_seconds:g} seconds"
        raise ChainUnavailable(failure)

    async def _once(self, questions: Sequence[Question]) -> list[Raw | ChainRefused]:
        ids = range(self._last_id + 1, self._last_id + 1 + len(questions))
        self._last_id = ids[-1]
        asked = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in zip(ids, questions, strict=True)
        ]
        with self._breaker.guarding():
            body = await self._endpoint.post(msgspec.json.encode(asked[0] if len(asked) == 1 else asked))
            return _answers(body, ids)


def _answers(body: bytes, ids: range) -> list[Raw | ChainRefused]:
    """One for each id. ChainUnavailable unless the body answers each exactly once."""
    try:
        answers = [msgspec.json.decode(body, type=_Answer)] if len(ids) == 1 else _decoded_batch(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        answers = []
    if sorted(answer.id for answer in answers if answer.id is not None) != list(ids) or len(answers) != len(ids):
        raise ChainUnavailable("an answer that is no JSON-RPC, or to another question")
    return [_outcome(answer) for answer in sorted(answers, key=lambda answer: answer.id or 0)]


def _decoded_batch(body: bytes) -> list[_Answer]:
    return msgspec.json.decode(body, type=list[_Answer])


def _outcome(answer: _Answer) -> Raw | ChainRefused:
    if answer.error is not None:
        if answer.error.code in _UNABLE:
            raise ChainUnavailable(f"error {answer.error.code}")
        return ChainRefused(answer.error.code, answer.error.message[:LONGEST_MESSAGE], _revert(answer.error.data))
    if isinstance(answer.result, UnsetType):
        raise ChainUnavailable("an answer with neither result nor error")
    return answer.result


def _granted(answer: Raw | ChainRefused) -> Raw:
    if isinstance(answer, ChainRefused):
        raise answer
    return answer


def _revert(data: Any) -> bytes:
    try:
        return bytes.fromhex(data.removeprefix("0x")) if isinstance(data, str) else b""
    except ValueError:
        return b""
