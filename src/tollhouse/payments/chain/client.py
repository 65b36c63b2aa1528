"""JSON-RPC clients of a chain's nodes: typed calls, retries, time and size limits, a circuit breaker, several nodes."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import httpx2
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tollhouse import tracing
from tollhouse.payments.chain import replies
from tollhouse.payments.chain.replies import (
    CIRCUIT_IS_OPEN,
    Block,
    ChainRefused,
    ChainUnavailable,
    Log,
    Receipt,
    Transaction,
)


class CircuitBreaker:
    """Opens after `max_failures` in a row. After `pause_seconds` one probe is let through; its success closes it."""

    def __init__(self, max_failures: int, pause_seconds: float) -> None:
        self._max_failures = max_failures
        self._pause_seconds = pause_seconds
        self._failures = 0
        self._opened_at = 0.0
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether the next attempt is refused or is a probe."""
        return self._failures >= self._max_failures

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """One attempt. Raises ChainUnavailable at once while open; one raised inside counts as a failure."""
        is_probe = self.is_open
        if is_probe:
            if self._is_probed or monotonic() < self._opened_at + self._pause_seconds:
                raise ChainUnavailable(CIRCUIT_IS_OPEN)
            self._is_probed = True
        try:
            yield
        except ChainUnavailable:
            self._failures += 1
            self._opened_at = monotonic()
            raise
        except asyncio.CancelledError:
            raise  # the caller cancelled: this is no failure of the node
        except BaseException:
            self._failures = 0
            raise
        else:
            self._failures = 0
        finally:
            if is_probe:
                self._is_probed = False


# httpx2 would log the whole URL of every request, which may hold a token. So it would for remote facilitators.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class Limits(Struct, frozen=True):
    """Limits on time and size.

    `attempt_seconds` bounds one HTTP exchange, `deadline_seconds` all attempts of one query.
    """

    attempt_seconds: float = 5.0
    deadline_seconds: float = 12.0
    max_attempts: int = 3
    retry_pause_seconds: float = 0.2
    body_bytes: int = 8 * 1024 * 1024
    connections: int = 32
    max_failures: int = 5
    open_seconds: float = 5.0


class HttpTransport:
    """HTTP POST to a node. Every failure is a ChainUnavailable that does not name the URL."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._url = url
        self._limits = limits
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=limits.connections, max_keepalive_connections=limits.connections),
            # No compression, so that `body_bytes` limits what is read.
            headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
            timeout=limits.attempt_seconds,
            follow_redirects=False,
        )

    async def post(self, body: bytes) -> bytes:
        """The body of the node's response. Raises ChainUnavailable."""
        try:
            async with asyncio.timeout(self._limits.attempt_seconds):
                return await self._exchange(body)
        except (TimeoutError, httpx2.TimeoutException):
            failure = f"no complete reply within {self._limits.attempt_seconds:g} seconds"
        # An invalid port, for example, raises a group.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, ExceptionGroup) as cause:
            failure = type(cause).__name__
        raise ChainUnavailable(failure)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _exchange(self, body: bytes) -> bytes:
        async with self._client.stream("POST", self._url, content=body) as response:
            # Some nodes send JSON-RPC errors with status 400.
            if response.status_code not in {200, 400}:
                raise ChainUnavailable(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ChainUnavailable("unexpected content encoding")
            reply = bytearray()
            async for chunk in response.aiter_raw():
                reply += chunk
                if len(reply) > self._limits.body_bytes:
                    raise ChainUnavailable(f"reply larger than {self._limits.body_bytes} bytes")
            return bytes(reply)


MAX_BATCH = 50
MAX_MESSAGE = 300

# Error codes of a node that is busy or broken: the call itself was not evaluated.
_UNAVAILABLE_CODES = frozenset({-32700, -32600, -32601, -32603, -32002, -32005})
_JITTER = random.SystemRandom()

RpcCall = tuple[str, Sequence[Any]]


class _Error(Struct, frozen=True):
    code: int
    message: str = ""
    data: Any = None


class _Reply(Struct, frozen=True):
    id: int | None = None
    result: Raw | UnsetType = UNSET
    error: _Error | None = None


_REPLY, _REPLIES = msgspec.json.Decoder(_Reply), msgspec.json.Decoder(list[_Reply])


class RpcClient:
    """JSON-RPC 2.0 to one node. Every method raises ChainUnavailable when no usable reply comes in time."""

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._transport = HttpTransport(url, self._limits)
        self._breaker = CircuitBreaker(self._limits.max_failures, self._limits.open_seconds)
        self._last_id = 0

    async def send(self, method: str, *params: Any) -> Raw:
        """Send once, without retries. After ChainUnavailable the node may have executed it. Raises ChainRefused."""
        [reply] = await self._exchange([(method, params)])
        return _result(reply)

    async def query(self, method: str, *params: Any) -> Raw:
        """Call with retries, for methods that change nothing. Raises ChainRefused."""
        [reply] = await self._with_retries([(method, params)])
        return _result(reply)

    async def batch(self, calls: Sequence[RpcCall]) -> list[Raw]:
        """Call many methods at once, with retries; the results in order. One refusal fails the whole batch."""
        return [accepted(reply) for reply in await self.try_batch(calls)]

    async def try_batch(self, calls: Sequence[RpcCall]) -> list[Raw | ChainRefused]:
        """As `batch`, but the result of a refused call is its refusal."""
        replies: list[Raw | ChainRefused] = []
        for start in range(0, len(calls), MAX_BATCH):
            replies += await self._with_retries(calls[start : start + MAX_BATCH])
        return replies

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def _with_retries(self, calls: Sequence[RpcCall]) -> list[Raw | ChainRefused]:
        try:
            async with asyncio.timeout(self._limits.deadline_seconds):
                for attempt in range(1, self._limits.max_attempts):
                    try:
                        return await self._exchange(calls)
                    except ChainUnavailable:
                        if self._breaker.is_open:
                            raise
                        # Exponential, with jitter.
                        await asyncio.sleep(self._limits.retry_pause_seconds * 2**attempt * _JITTER.uniform(0.25, 0.75))
                return await self._exchange(calls)
        except TimeoutError:
            failure = f"no usable reply within {self._limits.deadline_seconds:g} seconds"
        raise ChainUnavailable(failure)

    async def _exchange(self, calls: Sequence[RpcCall]) -> list[Raw | ChainRefused]:
        ids = range(self._last_id + 1, self._last_id + 1 + len(calls))
        self._last_id = ids[-1]
        requests = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in zip(ids, calls, strict=True)
        ]
        methods = " ".join(dict.fromkeys(method for method, _ in calls))
        with tracing.span("chain node", **{"rpc.method": methods}), self._breaker.attempt():
            body = await self._transport.post(msgspec.json.encode(requests[0] if len(requests) == 1 else requests))
            return _decode_replies(body, ids)


def accepted(reply: Raw | ChainRefused) -> Raw:
    """The reply to a call that a healthy node never refuses. Raises ChainUnavailable."""
    if isinstance(reply, ChainRefused):
        raise ChainUnavailable("a call of a batch was refused")
    return reply


def _decode_replies(body: bytes, ids: range) -> list[Raw | ChainRefused]:
    """One reply for each id. Raises ChainUnavailable unless the body has exactly one for each."""
    try:
        replies = [_REPLY.decode(body)] if len(ids) == 1 else _REPLIES.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        replies = []
    if sorted(reply.id for reply in replies if reply.id is not None) != list(ids) or len(replies) != len(ids):
        raise ChainUnavailable("a reply that is not JSON-RPC, or to another request")
    return [_parse_reply(reply) for reply in sorted(replies, key=lambda reply: reply.id or 0)]


def _parse_reply(reply: _Reply) -> Raw | ChainRefused:
    if reply.error is not None:
        if reply.error.code in _UNAVAILABLE_CODES:
            raise ChainUnavailable(f"error {reply.error.code}")
        return ChainRefused(reply.error.code, reply.error.message[:MAX_MESSAGE], _revert_data(reply.error.data))
    if isinstance(reply.result, UnsetType):
        raise ChainUnavailable("a reply with neither result nor error")
    return reply.result


def _result(reply: Raw | ChainRefused) -> Raw:
    if isinstance(reply, ChainRefused):
        raise reply
    return reply


def _revert_data(data: Any) -> bytes:
    try:
        return bytes.fromhex(data.removeprefix("0x")) if isinstance(data, str) else b""
    except ValueError:
        return b""


LATEST = "latest"
PENDING = "pending"
# Transaction hashes are enough.
_FULL_TRANSACTIONS = False


class ChainClient:
    """Typed calls to one node. Every method raises ChainUnavailable when no usable reply comes in time.

    Hashes and addresses are lower-case text, gas prices are in wei. Only `call`, `estimate_gas` and
    `send_raw_transaction` raise ChainRefused.
    """

    def __init__(self, url: str, limits: Limits | None = None) -> None:
        self.rpc = RpcClient(url, limits)

    async def chain_id(self) -> int:
        return replies.quantity(await self._query("eth_chainId"))

    async def block_number(self) -> int:
        """The height of the node's newest block."""
        return replies.quantity(await self._query("eth_blockNumber"))

    async def receipt(self, tx_hash: str) -> Receipt | None:
        """The receipt of a transaction; None while it is in no block."""
        return replies.receipt(await self._query("eth_getTransactionReceipt", tx_hash), tx_hash.lower())

    async def receipts(self, tx_hashes: Sequence[str]) -> list[Receipt | None]:
        """The receipts of many transactions, in order."""
        results = await self.rpc.batch([("eth_getTransactionReceipt", [tx_hash]) for tx_hash in tx_hashes])
        return [replies.receipt(raw, tx_hash.lower()) for raw, tx_hash in zip(results, tx_hashes, strict=True)]

    async def transaction(self, tx_hash: str) -> Transaction | None:
        """A transaction, mined or pending; None if the node does not know it."""
        return replies.transaction(await self._query("eth_getTransactionByHash", tx_hash), tx_hash.lower())

    async def transactions(self, tx_hashes: Sequence[str]) -> list[Transaction | None]:
        """Many transactions, in order."""
        results = await self.rpc.batch([("eth_getTransactionByHash", [tx_hash]) for tx_hash in tx_hashes])
        return [replies.transaction(raw, tx_hash.lower()) for raw, tx_hash in zip(results, tx_hashes, strict=True)]

    async def block(self, which: int | str = LATEST) -> Block | None:
        """The block with this height, hash or tag such as `latest`; None if the node has none."""
        by_hash = isinstance(which, str) and which.startswith("0x")
        method = "eth_getBlockByHash" if by_hash else "eth_getBlockByNumber"
        return replies.block(await self._query(method, _height(which), _FULL_TRANSACTIONS), which)

    async def blocks(self, heights: Sequence[int]) -> list[Block | None]:
        """The canonical blocks of many heights at once."""
        results = await self.rpc.batch([("eth_getBlockByNumber", [hex(n), _FULL_TRANSACTIONS]) for n in heights])
        return [replies.block(raw, height) for raw, height in zip(results, heights, strict=True)]

    async def call(self, to: str, data: bytes, *, sender: str | None = None, at: int | str = LATEST) -> bytes:
        """Execute a call without a transaction; the return data. Raises ChainRefused when it reverts."""
        params = {"to": to, "data": _hex(data)} | ({"from": sender} if sender else {})
        return replies.hex_bytes(await self.rpc.query("eth_call", params, _height(at)))

    async def estimate_gas(self, transaction: Mapping[str, str]) -> int:
        """The gas that a transaction would use. Raises ChainRefused when it would revert."""
        return replies.quantity(await self.rpc.query("eth_estimateGas", transaction))

    async def logs(self, address: str, topics: Sequence[str | None], first: int, last: int) -> list[Log]:
        """The logs of one contract in the blocks from `first` to `last`, both included."""
        params = {"address": address, "topics": list(topics), "fromBlock": hex(first), "toBlock": hex(last)}
        logs = replies.logs(await self._query("eth_getLogs", params))
        if any(log.address != address.lower() or not first <= log.block_number <= last for log in logs):
            raise ChainUnavailable("logs outside the requested address or blocks")
        return logs

    async def code(self, address: str) -> bytes:
        """The code of a contract; empty for any other address."""
        return replies.hex_bytes(await self._query("eth_getCode", address, LATEST))

    async def transaction_count(self, address: str) -> int:
        """The nonce of the address's next transaction."""
        return replies.quantity(await self._query("eth_getTransactionCount", address, PENDING))

    async def send_raw_transaction(self, signed: bytes) -> str:
        """Send a signed transaction once; its hash. After ChainUnavailable it may have arrived."""
        return replies.tx_hash(await self.rpc.send("eth_sendRawTransaction", _hex(signed)))

    async def close(self) -> None:
        """Close every connection."""
        await self.rpc.close()

    async def _query(self, method: str, *params: Any) -> Raw:
        """The result of a query that a healthy node never refuses."""
        try:
            return await self.rpc.query(method, *params)
        except ChainRefused as refusal:
            code = refusal.code
        raise ChainUnavailable(f"{method} was refused with {code}")


def _height(which: int | str) -> str:
    return hex(which) if isinstance(which, int) else which


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


T = TypeVar("T")


class Nodes:
    """One or more nodes, in order of preference."""

    def __init__(self, *clients: ChainClient) -> None:
        self.clients = clients
        # A node that failed is asked again when the one that took its place fails.
        self._preferred = clients

    async def first(self, read: Callable[[ChainClient], Awaitable[T]]) -> tuple[ChainClient, T]:
        """The result of a whole read from one node, and the node. Raises ChainUnavailable if none is available."""
        order = self._preferred
        for position, client in enumerate(order):
            try:
                result = await read(client)
            except ChainUnavailable:
                if position == len(order) - 1:
                    raise
            else:
                if position:
                    self._preferred = (*order[position:], *order[:position])
                return client, result
        raise AssertionError("there is at least one node")

    def others(self, node: ChainClient) -> list[ChainClient]:
        """Every node but that one."""
        return [client for client in self.clients if client is not node]

    async def close(self) -> None:
        """Close every connection."""
        for client in self.clients:
            await client.close()
