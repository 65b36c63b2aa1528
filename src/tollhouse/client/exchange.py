"""One call from its first request to its answer, without input or output: what to send, how long to wait."""

import random
from base64 import b64decode
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.client.errors import InvalidRequestError, TollhouseError, problem_error
from tollhouse.client.limits import LimitedPayer
from tollhouse.client.offer import read_challenge
from tollhouse.client.payer import Payment

# Statuses that may end otherwise when the same request is sent again; the others only with `Retry-After`.
_PASSING = frozenset({502, 503, 504})
_WAITING = frozenset({402, 409, 429, 503})
_SAFE = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a request is sent at most, and the longest wait before one; `Retry-After` is respected below it.

    Without `Retry-After` the waits grow from `first_wait_seconds`, each twice the one before.
    """

    attempts: int = 4
    longest_wait_seconds: float = 60.0
    first_wait_seconds: float = 0.25


class Call(Struct, frozen=True):
    """A request as it is sent. `payment` is what its headers pay, None for other calls."""

    method: str
    url: str
    headers: dict[str, str] = {}
    content: bytes = b""
    payment: Payment | None = None
    is_signed: bool = False

    @property
    def may_repeat(self) -> bool:
        """Whether the server answers the same request twice without doing anything twice."""
        return self.method in _SAFE or self.is_signed or self.payment is not None


class UnansweredError(TollhouseError):
    """No complete response arrived.

    `call` has the signature or the payment that was sent, if any. Send it again with `client.send(error.call)`: for 10
    minutes the server answers a call that it has charged already without a second charge.
    """

    def __init__(self, message: str, call: Call) -> None:
        super().__init__(message)
        self.call = call


class Reply(Struct, frozen=True):
    """A complete response. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Struct, frozen=True):
    """A request without a complete response. `was_sent` is false if the server cannot have received it."""

    reason: str
    was_sent: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a call that succeeded. `paid_micros` is what it cost this wallet, if it was paid per request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    paid_micros: int = 0
    transaction: str = ""
    _decoded: list[Any] = field(default_factory=list, repr=False)

    @property
    def json(self) -> Any:
        """The body, decoded. Raises ValueError if it is not JSON."""
        if not self._decoded:
            try:
                self._decoded.append(msgspec.json.decode(self.body))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"the response is not JSON: {error}") from None
        return self._decoded[0]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


Steps = Generator[Call | float, Reply | Lost | None, Answer]


def exchange(call: Call, retries: Retries, payer: LimitedPayer | None = None) -> Steps:
    """The steps of a call: yields a Call to send, for its Reply or Lost, or seconds to wait; returns the Answer.

    A signed or paid request is repeated with the same signature or payment, so that it is charged once. Raises
    TollhouseError.
    """
    sent, waits, was_lost = 0, _waits(retries), False
    while True:
        result = yield call
        assert result is not None, "a call ends with a reply or is lost"
        sent += 1
        if isinstance(result, Lost):
            if sent >= retries.attempts or not (call.may_repeat or not result.was_sent):
                raise UnansweredError(f"{call.method} {call.url}: {result.reason}", call)
            was_lost = was_lost or result.was_sent
            yield next(waits)
            continue
        if 200 <= result.status < 300:
            return _answer(result, call, payer)
        if result.status == 402 and call.payment is None and payer is not None:
            paid = _pay(call, result, payer)
            if paid is not None:
                call, sent, was_lost = paid, 0, False
                continue
        is_answered = was_lost and call.is_signed and result.status == 401 and b'"nonce-reused"' in result.body
        # The server may not have noticed yet that its response was lost.
        seconds = 0.0 if is_answered else _seconds_before_repeating(result, call)
        if seconds is None or sent >= retries.attempts or seconds > retries.longest_wait_seconds:
            if is_answered:
                raise UnansweredError(f"{call.method} {call.url}: charged, and the response was lost", call)
            if call.payment is not None and payer is not None and result.status < 500 and not was_lost:
                payer.not_taken(call.payment)
            raise problem_error(result.status, result.body, _retry_after(result))
        yield max(seconds, next(waits)) if seconds else next(waits)


def _waits(retries: Retries) -> Generator[float]:
    wait = retries.first_wait_seconds
    while True:
        # Clients that failed together do not return together.
        yield min(wait * random.uniform(0.75, 1.25), retries.longest_wait_seconds)  # noqa: S311
        wait *= 2


def _pay(call: Call, reply: Reply, payer: LimitedPayer) -> Call | None:
    """The call with a payment; None if the 402 asks for none that a client can make."""
    header = reply.headers.get("payment-required", "")
    if not header:
        return None
    try:
        terms = read_challenge(header)
    except ValueError as error:
        raise InvalidRequestError(402, {"code": "challenge-malformed", "detail": str(error)}) from None
    if not terms.offers:
        return None
    payment = payer.pay(terms)
    return msgspec.structs.replace(call, headers={**call.headers, **payment.headers}, payment=payment)


def _answer(reply: Reply, call: Call, payer: LimitedPayer | None) -> Answer:
    payment = call.payment
    if payment is None:
        return Answer(reply.status, reply.headers, reply.body)
    settled = _settlement(reply.headers.get("payment-response", ""), payment.micros)
    taken = settled[0] if settled else 0
    if taken < payment.micros and payer is not None:
        # The server answered without taking the payment, or took less than the most that the call costs.
        payer.not_taken(payment, taken)
    if settled is None:
        return Answer(reply.status, reply.headers, reply.body)
    return Answer(reply.status, reply.headers, reply.body, *settled)


def _settlement(header: str, signed_micros: int) -> tuple[int, str] | None:
    """What was taken of a settled payment, and its transaction; None if none was settled."""
    try:
        members = msgspec.json.decode(b64decode(header), type=dict[str, Any])
    except (ValueError, msgspec.DecodeError):
        return None
    if members.get("success") is not True:
        return None
    amount = str(members.get("amount", ""))
    taken = int(amount) if amount.isascii() and amount.isdigit() else signed_micros
    return min(taken, signed_micros), str(members.get("transaction", ""))


def _seconds_before_repeating(reply: Reply, call: Call) -> float | None:
    """How long to wait before the same request; 0 if the server does not say, None if it would end the same."""
    retry_after = _retry_after(reply)
    if reply.status in _PASSING and call.may_repeat:
        return float(retry_after or 0)
    # Nothing was done, or what was done is not confirmed yet.
    return float(retry_after) if reply.status in _WAITING and retry_after is not None else None


def _retry_after(reply: Reply) -> int | None:
    text = reply.headers.get("retry-after", "")
    return int(text) if text.isascii() and text.isdigit() else None
