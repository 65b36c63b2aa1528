"""A JSON-RPC client for one Ethereum node: typed calls, retries, time and size limits, and a circuit breaker."""

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx2
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tollhouse.payments.chain import replies
from tollhouse.payments.chain.replies import (
    CIRCUIT_IS_OPEN,
    Block,
    ChainRefused,
    ChainUnavailable,
    FeeHistory,
    Log,
    Receipt,
    Transaction,
)


class Breaker:
    """Opens after `most_failures` in a row; after `pause_seconds` one call may try, and its success closes it."""

    def __init__(self, most_failures: int, pause_seconds: float) -> None:
        self._most_failures = most_failures
        self._pause_seconds = pause_seconds
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether so many attempts failed in a row that the next has to wait."""
        return self._failures >= self._most_failures

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """One attempt. ChainUnavailable at once while open; one raised inside counts as the node's failure."""
        is_probe = self._admit()
        try:
            yield
        except ChainUnavailable:
            self._failures += 1
            self._opened_at = _now()
            raise
        except asyncio.CancelledError:
            raise  # the caller went away: that says nothing about the node
        except BaseException:
            self._failures = 0
            raise
        else:
            self._failures = 0
        finally:
            if is_probe:
                self._is_probed = False

    def _admit(self) -> bool:
        """Whether this attempt is the probe."""
        if not self.is_open:
            return False
        if self._is_probed or _now() < self._opened_at + self._pause_seconds:
            raise ChainUnavailable(CIRCUIT_IS_OPEN)
        self._is_probed = True
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()


# It would tell the whole address of every request.
logging.getLogger("httpx2").setLevel(logging.WARNING)

# A node's refusal may come with these, its JSON inside.
_WITH_ANSWER = frozenset({200, 400})


class Bounds(Struct, frozen=True):
    """How long and how large a conversation with a node may get.

    `attempt_seconds` bounds one exchange, `deadline_seconds` all attempts at one question together.
    """

    attempt_seconds: float = 5.0
    deadline_seconds: float = 12.0
    most_attempts: int = 3
    retry_pause_seconds: float = 0.2
    body_bytes: int = 8 * 1024 * 1024
    connections: int = 32
    most_failures: int = 5
    open_seconds: float = 5.0


class Endpoint:
    """One node's HTTP address. Every failure is a ChainUnavailable without a cause that could name it."""

    def __init__(self, url: str, bounds: Bounds) -> None:
        self._url = url
        self._bounds = bounds
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=bounds.connections, max_keepalive_connections=bounds.connections),
            # Whatever comes is counted as it comes: no unpacking, so no body that grows.
            headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
            timeout=bounds.attempt_seconds,
            follow_redirects=False,
        )

    async def post(self, body: bytes) -> bytes:
        """What the node answers to one POST. Raises ChainUnavailable."""
        try:
            async with asyncio.timeout(self._bounds.attempt_seconds):
                return await self._exchange(body)
        except (TimeoutError, httpx2.TimeoutException):
            failure = f"no whole answer within {self._bounds.attempt_seconds:g} seconds"
        # A port that cannot be, for one, comes as a group.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ExceptionGroup) as cause:
            failure = type(cause).__name__
        raise ChainUnavailable(failure)

    async def close(self) -> None:
        """Give every connection back."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> bytes:
        async with self._client.stream("POST", self._url, content=body) as response:
            if response.status_code not in _WITH_ANSWER:
                raise ChainUnavailable(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ChainUnavailable("an encoding that was not asked for")
            answer = bytearray()
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > self._bounds.body_bytes:
                    raise ChainUnavailable(f"more than {self._bounds.body_bytes} bytes")
            return bytes(answer)


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


LATEST = "latest"
PENDING = "pending"

# Hashes of a block's transactions are enough.
_WHOLE = False


class ChainClient:
    """One node of one chain. Every method raises ChainUnavailable when there is no usable answer in time.

    Hashes and addresses go in and come out as lower-case text; amounts of gas and money of the chain are in wei.
    Only `call`, `estimate_gas` and `send_raw_transaction` raise ChainRefused.
    """

    def __init__(self, url: str, bounds: Bounds | None = None) -> None:
        self.rpc = Rpc(url, bounds)

    async def chain_id(self) -> int:
        return replies.quantity(await self._asked("eth_chainId"))

    async def block_number(self) -> int:
        """The height of the node's newest block."""
        return replies.quantity(await self._asked("eth_blockNumber"))

    async def receipt(self, tx_hash: str) -> Receipt | None:
        """What became of a transaction; None while the node has it in no block."""
        return replies.receipt(await self._asked("eth_getTransactionReceipt", tx_hash), tx_hash.lower())

    async def receipts(self, tx_hashes: Sequence[str]) -> list[Receipt | None]:
        """As `receipt`, for many at once."""
        found = await self.rpc.questions([("eth_getTransactionReceipt", [tx_hash]) for tx_hash in tx_hashes])
        return [replies.receipt(answer, asked.lower()) for answer, asked in zip(found, tx_hashes, strict=True)]

    async def transaction(self, tx_hash: str) -> Transaction | None:
        """A transaction, mined or waiting; None where the node does not know it."""
        return replies.transaction(await self._asked("eth_getTransactionByHash", tx_hash), tx_hash.lower())

    async def block(self, which: int | str = LATEST) -> Block | None:
        """The block of a height, a hash or a name such as `latest`; None where the node has none."""
        by_hash = isinstance(which, str) and which.startswith("0x")
        method = "eth_getBlockByHash" if by_hash else "eth_getBlockByNumber"
        return replies.block(await self._asked(method, _height(which), _WHOLE), which)

    async def blocks(self, heights: Sequence[int]) -> list[Block | None]:
        """The canonical blocks of many heights at once."""
        found = await self.rpc.questions([("eth_getBlockByNumber", [hex(height), _WHOLE]) for height in heights])
        return [replies.block(answer, height) for answer, height in zip(found, heights, strict=True)]

    async def call(self, to: str, data: bytes, *, sender: str | None = None, at: int | str = LATEST) -> bytes:
        """What a contract answers, changing nothing. Raises ChainRefused when it reverts."""
        asked = {"to": to, "data": _hex(data)} | ({"from": sender} if sender else {})
        return replies.hex_bytes(await self.rpc.question("eth_call", asked, _height(at)))

    async def estimate_gas(self, transaction: Mapping[str, str]) -> int:
        """How much gas a transaction would use. Raises ChainRefused when it would revert."""
        return replies.quantity(await self.rpc.question("eth_estimateGas", transaction))

    async def logs(self, address: str, topics: Sequence[str | None], first: int, last: int) -> list[Log]:
        """The logs of one contract in the blocks from `first` to `last`, both included."""
        asked = {"address": address, "topics": list(topics), "fromBlock": hex(first), "toBlock": hex(last)}
        found = replies.logs(await self._asked("eth_getLogs", asked))
        if any(log.address != address.lower() or not first <= log.block_number <= last for log in found):
            raise ChainUnavailable("logs that were not asked for")
        return found

    async def code(self, address: str) -> bytes:
        """The code of a contract; empty at any other address."""
        return replies.hex_bytes(await self._asked("eth_getCode", address, LATEST))

    async def transaction_count(self, address: str, at: int | str = PENDING) -> int:
        """The nonce of the address's next transaction."""
        return replies.quantity(await self._asked("eth_getTransactionCount", address, _height(at)))

    async def fee_history(self, blocks: int, percentiles: Sequence[float]) -> FeeHistory:
        """What gas cost in the newest `blocks`, with the tips at the given percentiles."""
        return replies.fee_history(await self._asked("eth_feeHistory", hex(blocks), LATEST, list(percentiles)))

    async def send_raw_transaction(self, signed: bytes) -> str:
        """Hand over a signed transaction; its hash. Said once: after a ChainUnavailable look whether it arrived."""
        return replies.tx_hash(await self.rpc.command("eth_sendRawTransaction", _hex(signed)))

    async def close(self) -> None:
        """Give every connection back."""
        await self.rpc.close()

    async def _asked(self, method: str, *params: Any) -> Raw:
        """The answer to a question that a sound node does not refuse."""
        try:
            return await self.rpc.question(method, *params)
        except ChainRefused as refusal:
            code = refusal.code
        raise ChainUnavailable(f"{method} was refused with {code}")


def _height(which: int | str) -> str:
    return hex(which) if isinstance(which, int) else which


def _hex(data: bytes) -> str:
    return "0x" + data.hex()
