"""A Settler that uses a remote facilitator over HTTP, and checks its statements against the chain."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import httpx2
import msgspec
from msgspec import Meta, Raw, Struct

from tollhouse.errors import Problem
from tollhouse.evm import parse_address
from tollhouse.logs import logger
from tollhouse.payments.chain.client import ChainClient
from tollhouse.payments.chain.replies import ChainUnavailable
from tollhouse.payments.x402.outcome import wait_for_outcome
from tollhouse.payments.x402.store import THIS_SERVER, Attempts, Key, SettleRequest
from tollhouse.payments.x402.types import (
    EXACT,
    UPTO,
    Failed,
    InvalidReason,
    Payment,
    Requirement,
    Resource,
    Settled,
    Unknown,
    VerificationFailure,
    Verified,
    general_reason,
)
from tollhouse.payments.x402.verification import KEYS_ONLY, WalletRules, is_settled_by, verify_on_chain

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
    InvalidReason.ALLOWANCE_REQUIRED,
    InvalidReason.EXCEEDS_AMOUNT,
    InvalidReason.FACILITATOR_MISMATCH,
    InvalidReason.SPENDER_MISMATCH,
    InvalidReason.TOKEN_MISMATCH,
    "invalid_scheme",
})  # fmt: skip

_Reason = Annotated[str, Meta(max_length=200)]
_Hash = Annotated[str, Meta(pattern=r"^(0x[0-9a-fA-F]{64})?\Z")]


class VerifyReply(Struct, frozen=True, rename="camel"):
    """The response of `/verify`."""

    is_valid: bool
    invalid_reason: _Reason | None = None


class SettleReply(Struct, frozen=True, rename="camel"):
    """The response of `/settle`. `transaction` is empty or null if there is none."""

    success: bool
    error_reason: _Reason | None = None
    transaction: _Hash | None = None


class Kind(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A supported scheme and network. `extra` of the scheme `upto` names the account that settles it."""

    scheme: str
    network: str
    version: int = msgspec.field(name="x402Version")
    extra: dict[str, Any] | None = None


class Supported(Struct, frozen=True):
    """The response of `/supported`, as far as it is needed here. `signers` are its accounts, by family of chains."""

    kinds: list[Kind]
    extensions: list[Any] = []
    signers: dict[str, list[str]] = {}


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


log = logger("payments.facilitator")

Read = TypeVar("Read", bound=Struct)

MAX_BODY = 65_536
MAX_REASON = 100
FAILED = "unexpected_settle_error"
# From a proxy before the facilitator, or from it before it processed the payment.
_NOT_PROCESSED = frozenset({401, 403, 404, 405, 413, 415, 429})
# Reasons for a payment that it settled already, for us before a crash or for somebody else.
_MAYBE_SETTLED = frozenset({InvalidReason.NONCE_USED, InvalidReason.INVALID_STATE, "permit2_simulation_failed"})
# A reply with one of these says neither that it was settled for us nor that it was not.
_UNCLEAR = frozenset({"settlement_pending", "unexpected_settle_error", None})

IDEMPOTENT_SETTLE = "idempotent-settle"
"""An entry of `extensions`: of the calls for one payment, only those with one `Idempotency-Key` may report success."""
CLOCK_DIFFERENCE_SECONDS = 15


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

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a client
        self,
        url: str,
        token: str,
        chain: ChainClient,
        resource_url: str,
        attempts: Attempts,
        limits: RemoteLimits | None = None,
        rules: WalletRules = KEYS_ONLY,
    ) -> None:
        self._url = url.rstrip("/")
        self._chain = chain
        self._attempts = attempts
        self._resource_url = resource_url
        self._rules = rules
        self._limits = limits or RemoteLimits()
        self.upto_account = ""
        self._client = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=self._limits.connections),
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=self._limits.settle_seconds,
            follow_redirects=False,
        )

    async def verify(self, payment: Payment, requirement: Requirement) -> Verified | VerificationFailure:
        """See Settler. Asks the chain, not the facilitator, which pays for the gas and knows its own limits."""
        return await verify_on_chain(self._chain, payment, requirement, self._rules)

    async def settle(self, payment: Payment, requirement: Requirement) -> Settled | Failed | Unknown:
        """See Settler. Verifies first: a failure there has certainly moved no money."""
        key, body = payment.key, request_body(payment, requirement, self._resource_url)
        # Of the scheme `upto`, /verify takes the amount that was signed, and /settle the amount to take.
        signed = msgspec.structs.replace(requirement, amount_micros=payment.authorization.value)
        failed = await self._verify(request_body(payment, signed, self._resource_url))
        if failed is not None:
            return (
                await self._wait_for_outcome(payment, requirement)
                if general_reason(failed.reason) in _MAYBE_SETTLED
                else failed
            )
        was_requested = True
        try:
            request, was_requested = await self._attempts.begin_request(key)
            reply = await self._send_settle(body, request, self._limits.settle_seconds)
            await self._record(key, reply, was_requested=was_requested)
        except NoReplyError as failure:
            log.warning("remote facilitator: no reply to settle", failure=str(failure))
            if failure.is_before and not was_requested:
                with suppress(Problem):
                    await self._attempts.end_request(key, None)
                return Failed(FAILED)
            return await self._wait_for_outcome(payment, requirement)
        except Problem:  # the storage
            return Unknown()
        result = await self._certain_result(reply, payment, requirement)
        return result or await self._wait_for_outcome(payment, requirement, reply.transaction)

    async def has_sent(self, payment: Payment, requirement: Requirement, tx_hash: str) -> bool | None:
        """See Settler. The facilitator's word counts: a hash that it gave us, or its reply to a second request.

        One that cannot repeat a lost reply must name the transaction's sender among its signers, and the transaction
        must be mined after our request.
        """
        key = payment.key
        if tx_hash in await self._attempts.hashes(key):
            return True
        request = await self._attempts.open_request(key)
        if request is None:
            return False
        try:
            supported = await self._request("GET", "/supported", Supported, self._limits.verify_seconds)
        except NoReplyError:
            return None
        try:
            # The authorization is used: nothing can be sent a second time.
            body = request_body(payment, requirement, self._resource_url)
            reply = await self._send_settle(body, request, self._limits.verify_seconds)
        except NoReplyError:
            reply = None
        is_ours: bool | None = reply is not None and reply.success and (reply.transaction or "").lower() == tx_hash
        if not is_ours and IDEMPOTENT_SETTLE in supported.extensions:
            return None if reply is None or reply.error_reason in _UNCLEAR else False
        if not is_ours:
            is_ours = await self._is_signed_by(supported, tx_hash, request.at)
        if is_ours:
            await self._attempts.end_request(key, tx_hash)
        return is_ours

    async def unsupported_versions(self, requirement: Requirement) -> list[int]:
        """The protocol versions in which it does not settle this. Raises NoReplyError.

        Learns which account settles the scheme `upto` on this network.
        """
        supported = await self._request("GET", "/supported", Supported, self._limits.verify_seconds)
        self.upto_account = next(
            (
                account
                for kind in supported.kinds
                if (kind.version, kind.scheme, kind.network) == (2, UPTO, requirement.network)
                for account in [_account(kind.extra)]
                if account
            ),
            "",
        )
        kinds = {(kind.version, kind.scheme, kind.network) for kind in supported.kinds}
        versions = {1: requirement.network_v1, 2: requirement.network}
        return [version for version, name in versions.items() if name and (version, EXACT, name) not in kinds]

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _verify(self, body: bytes) -> Failed | None:
        try:
            verified = await self._request("POST", "/verify", VerifyReply, self._limits.verify_seconds, body)
        except NoReplyError as failure:
            log.warning("remote facilitator: verification failed", failure=str(failure))
            return Failed(FAILED)
        return None if verified.is_valid else Failed(_reason(verified.invalid_reason))

    async def _wait_for_outcome(
        self, payment: Payment, requirement: Requirement, tx_hash: str | None = None
    ) -> Settled | Failed | Unknown:
        outcome = await wait_for_outcome(self._chain, payment, requirement, self._limits.resolve_seconds, self.has_sent)
        return Unknown(tx_hash or None) if isinstance(outcome, Unknown) else outcome

    async def _send_settle(self, body: bytes, request: SettleRequest, seconds: float) -> SettleReply:
        headers = {"Idempotency-Key": request.idempotency_key}
        return await self._request("POST", "/settle", SettleReply, seconds, body, headers)

    async def _record(self, key: Key, reply: SettleReply, *, was_requested: bool) -> None:
        """Record the hash that the facilitator gave us. A refusal is final, unless an earlier reply was lost."""
        tx_hash = reply.transaction.lower() if reply.transaction else None
        if not reply.success and reply.error_reason not in _UNCLEAR and not was_requested:
            await self._attempts.end_request(key, tx_hash)
        elif tx_hash is not None:
            await self._attempts.record(tx_hash, [(key, THIS_SERVER)])

    async def _certain_result(
        self, reply: SettleReply, payment: Payment, requirement: Requirement
    ) -> Settled | Failed | None:
        """What the reply proves. The transaction may not have reached our node yet."""
        if not reply.success:
            reason = _reason(reply.error_reason)
            log.warning("remote facilitator: settlement failed", reason=reason)
            return Failed(reason) if general_reason(reason) in _CERTAIN_FAILURES else None
        try:
            receipt = await self._chain.receipt(reply.transaction) if reply.transaction else None
            if receipt is None or not await is_settled_by(self._chain, receipt, payment, requirement):
                return None
        except ChainUnavailable:
            return None
        return Settled(receipt.tx_hash, payment.payer, receipt.block_number, receipt)

    async def _is_signed_by(self, supported: Supported, tx_hash: str, requested_at: float) -> bool | None:
        transaction = await self._chain.transaction(tx_hash)
        number = None if transaction is None else transaction.block_number
        block = None if number is None else await self._chain.block(number)
        if transaction is None or block is None:
            return None
        signers = {signer.lower() for signers in supported.signers.values() for signer in signers}
        return transaction.sender.lower() in signers and block.timestamp >= requested_at - CLOCK_DIFFERENCE_SECONDS

    async def _request(  # noqa: PLR0913, PLR0917 - the parts of a request
        self,
        method: str,
        path: str,
        shape: type[Read],
        seconds: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Read:
        """Send a request and decode the response strictly. Raises NoReplyError, which never names the URL."""
        try:
            async with asyncio.timeout(seconds):
                status, content = await self._exchange(method, path, body, headers or {})
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

    async def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        sent = {**headers, "Content-Type": "application/json"} if body else headers
        async with self._client.stream(method, self._url + path, content=body, headers=sent) as response:
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_BODY:
                    raise ValueError("response too large")
            return response.status_code, bytes(content)


def _account(extra: dict[str, Any] | None) -> str:
    try:
        return parse_address((extra or {})["facilitatorAddress"]).text
    except (KeyError, TypeError, ValueError):
        return ""


def _reason(reason: str | None) -> str:
    """The reason, if it has the form of a code; others are not passed on."""
    if reason and len(reason) <= MAX_REASON and reason.replace("_", "").isalnum() and reason.isascii():
        return reason
    return InvalidReason.TRANSACTION_FAILED
