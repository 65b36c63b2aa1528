"""A Settler that uses a remote facilitator over HTTP, and checks its statements against the chain."""

import asyncio
import logging
from typing import Annotated, Any, TypeVar

import httpx2
import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.outcome import proves, settled_within
from tollhouse.payments.x402.types import EXACT, Failed, InvalidReason, Payment, Requirement, Resource, Settled, Unknown

# Said before anything was sent to the chain, or once a transaction was mined without moving money: nothing will move.
# Whatever else a facilitator says (`settlement_pending`, `unexpected_settle_error`, a word of its own) proves nothing.
_NOTHING_MOVES = frozenset({
    InvalidReason.INSUFFICIENT_FUNDS,
    InvalidReason.INVALID_NETWORK,
    InvalidReason.INVALID_PAYLOAD,
    InvalidReason.INVALID_REQUIREMENTS,
    InvalidReason.INVALID_SIGNATURE,
    InvalidReason.INVALID_VERSION,
    InvalidReason.RECIPIENT_MISMATCH,
    InvalidReason.UNSUPPORTED_SCHEME,
    InvalidReason.VALID_AFTER,
    InvalidReason.VALID_BEFORE,
    InvalidReason.VALUE_MISMATCH,
    "invalid_exact_evm_payload_authorization_value",
    "invalid_scheme",
})  # fmt: skip

_Reason = Annotated[str, Meta(max_length=200)]
_Hash = Annotated[str, Meta(pattern=r"^(0x[0-9a-fA-F]{64})?\Z")]


class Verified(Struct, frozen=True, rename="camel"):
    """What `/verify` answers."""

    is_valid: bool
    invalid_reason: _Reason | None = None


class SettleAnswer(Struct, frozen=True, rename="camel"):
    """What `/settle` answers. `transaction` is empty or null where there is none."""

    success: bool
    error_reason: _Reason | None = None
    transaction: _Hash | None = None


class Kind(Struct, frozen=True, rename="camel"):
    """One thing that a facilitator settles."""

    scheme: str
    network: str
    version: int = msgspec.field(name="x402Version")


class Supported(Struct, frozen=True):
    """What `/supported` answers, as far as it matters here."""

    kinds: list[Kind]


class _Request(Struct, frozen=True, rename="camel"):
    version: int = msgspec.field(name="x402Version")
    payment_payload: Raw
    payment_requirements: dict[str, Any]


def request_body(payment: Payment, requirement: Requirement, resource_url: str) -> bytes:
    """The body of `/verify` and of `/settle`: the payment as it was sent, and what it was asked for.

    Version 1 names a resource in the requirement; what is signed does not hold it, and no payment does either.
    """
    resource = Resource(resource_url, "", "application/json")
    asked = requirement.v1(resource) if payment.version == 1 else requirement.v2()
    return msgspec.json.encode(_Request(payment.version, Raw(payment.raw), asked))


def moves_nothing(reason: str | None) -> bool:
    """Whether a failed settlement with this reason has moved no money and will not."""
    return reason in _NOTHING_MOVES


# It would tell the whole address of every request.
logging.getLogger("httpx2").setLevel(logging.WARNING)

log = logger("payments.facilitator")

Read = TypeVar("Read", bound=Struct)

LARGEST_BODY = 65_536
LONGEST_REASON = 100
FAILED = "unexpected_settle_error"
# Said by whoever stands before the facilitator, or by it before it looked at the payment.
_NOT_LET_IN = frozenset({401, 403, 404, 405, 413, 415, 429})
# What it says of a payment that it settled already, for this caller before a crash or for somebody else.
_PERHAPS_BY_US = frozenset({InvalidReason.NONCE_USED, InvalidReason.INVALID_STATE})


class Patience(Struct, frozen=True):
    """How long each answer of the facilitator may take, and how long the chain is asked where it gave none."""

    verify_seconds: float = 5.0
    settle_seconds: float = 15.0
    resolve_seconds: float = 5.0
    connections: int = 100


class NoAnswerError(Exception):
    """Nothing usable came. `is_before`: nothing can have happened there."""

    def __init__(self, failure: str, *, is_before: bool = False) -> None:
        super().__init__(failure)
        self.is_before = is_before


class RemoteFacilitator:
    """A Settler. `resource_url` is what version 1's requirements name; `chain` is asked what really happened."""

    def __init__(
        self, url: str, token: str, chain: ChainClient, resource_url: str, patience: Patience | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._chain = chain
        self._resource_url = resource_url
        self._patience = patience or Patience()
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=self._patience.connections),
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=self._patience.settle_seconds,
            follow_redirects=False,
        )

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """See Settler. It is asked to verify first: whatever goes wrong there has moved no money for certain."""
        body = request_body(payment, requirement, self._resource_url)
        failed = await self._unverified(body)
        if failed is not None:
            return await self._resolved(payment, requirement) if failed.reason in _PERHAPS_BY_US else failed
        try:
            answer = await self._asked("POST", "/settle", SettleAnswer, self._patience.settle_seconds, body)
        except NoAnswerError as failure:
            log.warning("a facilitator gave no answer to a settlement", failure=str(failure))
            return Failed(FAILED) if failure.is_before else await self._resolved(payment, requirement)
        if answer.success:
            return await self._proven(payment, requirement, answer)
        if moves_nothing(answer.error_reason):
            return Failed(_reason(answer.error_reason))
        log.warning("a facilitator failed to settle", reason=_reason(answer.error_reason))
        return await self._resolved(payment, requirement, answer.transaction)

    async def lacks(self, requirement: Requirement) -> list[int]:
        """The versions of the protocol in which it says that it does not settle this. Raises NoAnswerError."""
        told = await self._asked("GET", "/supported", Supported, self._patience.verify_seconds)
        kinds = {(kind.version, kind.scheme, kind.network) for kind in told.kinds}
        versions = {1: requirement.network_v1, 2: requirement.network}
        return [version for version, name in versions.items() if name and (version, EXACT, name) not in kinds]

    async def close(self) -> None:
        """Give every connection back."""
        await self._client.aclose()

    async def _unverified(self, body: bytes) -> Failed | None:
        try:
            told = await self._asked("POST", "/verify", Verified, self._patience.verify_seconds, body)
        except NoAnswerError as failure:
            log.warning("a facilitator does not verify", failure=str(failure))
            return Failed(FAILED)
        return None if told.is_valid else Failed(_reason(told.invalid_reason))

    async def _proven(
        self, payment: Payment, requirement: Requirement, answer: SettleAnswer
    ) -> Settled | Failed | Unknown:
        """The settlement as the chain has it; its transaction may not have reached our node yet."""
        try:
            receipt = await self._chain.receipt(answer.transaction) if answer.transaction else None
        except ChainUnavailable:
            receipt = None
        if receipt is not None and proves(receipt, payment, requirement):
            return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)
        return await self._resolved(payment, requirement, answer.transaction)

    async def _resolved(
        self, payment: Payment, requirement: Requirement, tx_hash: str | None = None
    ) -> Settled | Failed | Unknown:
        found = await settled_within(self._chain, payment, requirement, self._patience.resolve_seconds)
        return Unknown(tx_hash or None) if isinstance(found, Unknown) else found

    async def _asked(self, method: str, path: str, shape: type[Read], seconds: float, body: bytes = b"") -> Read:
        """The facilitator's answer, parsed strictly. Raises NoAnswerError, which never names the address."""
        try:
            async with asyncio.timeout(seconds):
                status, told = await self._exchanged(method, path, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as cause:
            raise NoAnswerError(type(cause).__name__, is_before=True) from None
        except (TimeoutError, httpx2.HTTPError, OSError, ValueError, ExceptionGroup) as cause:
            raise NoAnswerError(type(cause).__name__) from None
        if status in _NOT_LET_IN:
            raise NoAnswerError(f"status {status}", is_before=True)
        try:
            answer = msgspec.json.decode(told, type=shape)
        except (msgspec.DecodeError, ValueError, RecursionError):
            answer = None
        # A facilitator refuses with 400 or 402 and the standard's object; no other status goes with one.
        if answer is None or status not in {200, 400, 402}:
            raise NoAnswerError(f"status {status} with {'an' if answer else 'no'} answer of the standard")
        return answer

    async def _exchanged(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} if body else {}
        async with self._client.stream(method, self._url + path, content=body, headers=headers) as response:
            told = bytearray()
            async for chunk in response.aiter_raw():
                told += chunk
                if len(told) > LARGEST_BODY:
                    raise ValueError("a body that is too large")
            return response.status_code, bytes(told)


def _reason(told: str | None) -> str:
    """The reason in the standard's words; what is no word at all is not passed on."""
    if told and len(told) <= LONGEST_REASON and told.replace("_", "").isalnum() and told.isascii():
        return told
    return InvalidReason.TRANSACTION_FAILED
