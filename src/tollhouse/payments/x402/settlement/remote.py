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
from tollhouse.payments.x402.outcome import proves_payment, wait_for_outcome
from tollhouse.payments.x402.types import EXACT, Failed, InvalidReason, Payment, Requirement, Resource, Settled, Unknown

# Reasons given before anything was sent, or after a mined transaction that moved nothing: no money will move.
# Any other reason (`settlement_pending`, `unexpected_settle_error`, a code of its own) proves nothing.
_CERTAIN_FAILURES = frozenset({
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
    """The response of `/verify`."""

    is_valid: bool
    invalid_reason: _Reason | None = None


class SettleReply(Struct, frozen=True, rename="camel"):
    """The response of `/settle`. `transaction` is empty or null if there is none."""

    success: bool
    error_reason: _Reason | None = None
    transaction: _Hash | None = None


class Kind(Struct, frozen=True, rename="camel"):
    """A supported scheme and network."""

    scheme: str
    network: str
    version: int = msgspec.field(name="x402Version")


class Supported(Struct, frozen=True):
    """The response of `/supported`, as far as it is needed here."""

    kinds: list[Kind]


class _Request(Struct, frozen=True, rename="camel"):
    version: int = msgspec.field(name="x402Version")
    payment_payload: Raw
    payment_requirements: dict[str, Any]


def request_body(payment: Payment, requirement: Requirement, resource_url: str) -> bytes:
    """The body of `/verify` and of `/settle`: the payment as sent, and its requirement.

    A version 1 requirement names a resource, which is not part of what is signed.
    """
    resource = Resource(resource_url, "", "application/json")
    required = requirement.v1(resource) if payment.version == 1 else requirement.v2()
    return msgspec.json.encode(_Request(payment.version, Raw(payment.raw), required))


# httpx2 would log the whole URL of every request.
logging.getLogger("httpx2").setLevel(logging.WARNING)

log = logger("payments.facilitator")

Read = TypeVar("Read", bound=Struct)

MAX_BODY = 65_536
MAX_REASON = 100
FAILED = "unexpected_settle_error"
# From a proxy before the facilitator, or from it before it processed the payment.
_NOT_PROCESSED = frozenset({401, 403, 404, 405, 413, 415, 429})
# Reasons for a payment that it settled already, for us before a crash or for somebody else.
_MAYBE_SETTLED = frozenset({InvalidReason.NONCE_USED, InvalidReason.INVALID_STATE})


class RemoteLimits(Struct, frozen=True):
    """How long each response may take, and how long the chain is queried if there is none."""

    verify_seconds: float = 5.0
    settle_seconds: float = 15.0
    resolve_seconds: float = 5.0
    connections: int = 100


class NoReplyError(Exception):
    """No usable response. `is_before`: the facilitator cannot have acted on the request."""

    def __init__(self, failure: str, *, is_before: bool = False) -> None:
        super().__init__(failure)
        self.is_before = is_before


class RemoteFacilitator:
    """A Settler over HTTP. `resource_url` is named in version 1's requirements; `chain` proves the outcome."""

    def __init__(
        self, url: str, token: str, chain: ChainClient, resource_url: str, limits: RemoteLimits | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._chain = chain
        self._resource_url = resource_url
        self._limits = limits or RemoteLimits()
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=self._limits.connections),
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=self._limits.settle_seconds,
            follow_redirects=False,
        )

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """See Settler. Verifies first: a failure there has certainly moved no money."""
        body = request_body(payment, requirement, self._resource_url)
        failed = await self._verify(body)
        if failed is not None:
            return await self._wait_for_outcome(payment, requirement) if failed.reason in _MAYBE_SETTLED else failed
        try:
            reply = await self._request("POST", "/settle", SettleReply, self._limits.settle_seconds, body)
        except NoReplyError as failure:
            log.warning("remote facilitator: no reply to settle", failure=str(failure))
            return Failed(FAILED) if failure.is_before else await self._wait_for_outcome(payment, requirement)
        if reply.success:
            # The transaction may not have reached our node yet.
            try:
                receipt = await self._chain.receipt(reply.transaction) if reply.transaction else None
            except ChainUnavailable:
                receipt = None
            if receipt is not None and proves_payment(receipt, payment, requirement):
                return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)
            return await self._wait_for_outcome(payment, requirement, reply.transaction)
        if reply.error_reason in _CERTAIN_FAILURES:
            return Failed(_reason(reply.error_reason))
        log.warning("remote facilitator: settlement failed", reason=_reason(reply.error_reason))
        return await self._wait_for_outcome(payment, requirement, reply.transaction)

    async def unsupported_versions(self, requirement: Requirement) -> list[int]:
        """The protocol versions in which it does not settle this. Raises NoReplyError."""
        supported = await self._request("GET", "/supported", Supported, self._limits.verify_seconds)
        kinds = {(kind.version, kind.scheme, kind.network) for kind in supported.kinds}
        versions = {1: requirement.network_v1, 2: requirement.network}
        return [version for version, name in versions.items() if name and (version, EXACT, name) not in kinds]

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _verify(self, body: bytes) -> Failed | None:
        try:
            verified = await self._request("POST", "/verify", Verified, self._limits.verify_seconds, body)
        except NoReplyError as failure:
            log.warning("remote facilitator: verification failed", failure=str(failure))
            return Failed(FAILED)
        return None if verified.is_valid else Failed(_reason(verified.invalid_reason))

    async def _wait_for_outcome(
        self, payment: Payment, requirement: Requirement, tx_hash: str | None = None
    ) -> Settled | Failed | Unknown:
        outcome = await wait_for_outcome(self._chain, payment, requirement, self._limits.resolve_seconds)
        return Unknown(tx_hash or None) if isinstance(outcome, Unknown) else outcome

    async def _request(self, method: str, path: str, shape: type[Read], seconds: float, body: bytes = b"") -> Read:
        """Send a request and decode the response strictly. Raises NoReplyError, which never names the URL."""
        try:
            async with asyncio.timeout(seconds):
                status, content = await self._exchange(method, path, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as cause:
            raise NoReplyError(type(cause).__name__, is_before=True) from None
        except (TimeoutError, httpx2.HTTPError, OSError, ValueError, ExceptionGroup) as cause:
            raise NoReplyError(type(cause).__name__) from None
        if status in _NOT_PROCESSED:
            raise NoReplyError(f"status {status}", is_before=True)
        try:
            reply = msgspec.json.decode(content, type=shape)
        except (msgspec.DecodeError, ValueError, RecursionError):
            reply = None
        # A facilitator refuses with 400 or 402 and an object of the specification; no other status has one.
        if reply is None or status not in {200, 400, 402}:
            raise NoReplyError(f"status {status} with {'a' if reply else 'no'} valid object")
        return reply

    async def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} if body else {}
        async with self._client.stream(method, self._url + path, content=body, headers=headers) as response:
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_BODY:
                    raise ValueError("response too large")
            return response.status_code, bytes(content)


def _reason(reason: str | None) -> str:
    """The reason, if it has the form of a code; others are not passed on."""
    if reason and len(reason) <= MAX_REASON and reason.replace("_", "").isalnum() and reason.isascii():
        return reason
    return InvalidReason.TRANSACTION_FAILED
