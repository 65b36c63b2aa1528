"""One delivery attempt: a signed POST whose result is judged by the status alone, within one deadline."""

import asyncio
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from time import perf_counter
from typing import Literal

import httpx2
from msgspec import Struct

from tollhouse import __version__
from tollhouse.logs import logger
from tollhouse.webhooks.schedule import retry_after_seconds
from tollhouse.webhooks.target_validation import TargetRefused
from tollhouse.webhooks.transport import TlsFailed, VettedTransport

PREFIX = "whsec_"
_RANDOM_BYTES = 32


def new_secret() -> str:
    """A secret nobody has had before: `whsec_` and 32 random bytes in base64."""
    return PREFIX + b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()


def signatures(message_id: str, timestamp: int, body: bytes, keys: Iterable[str]) -> str:
    """The header `webhook-signature`: one `v1,<base64>` for each secret, separated by spaces."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return " ".join(f"v1,{b64encode(hmac.digest(_bytes_of(key), signed, sha256)).decode()}" for key in keys)


def _bytes_of(key: str) -> bytes:
    return b64decode(key.removeprefix(PREFIX))


log = logger("webhooks")

# An answer's body is of no interest; read to its end, it lets the connection serve again.
BODY_BYTES = 4_096
BODY_SECONDS = 1.0

Failure = Literal["timeout", "connection", "tls", "address", "protocol", "redirect", "gone", "status", "internal"]


class Job(Struct, frozen=True):
    """A delivery whose turn it is, held under `lease`. `tries` counts this one; `number` those before replays too."""

    delivery_id: str
    event_id: str
    endpoint_id: str
    url: str
    secrets: tuple[str, ...]
    body: bytes
    tries: int
    number: int
    lease: str


class Outcome(Struct, frozen=True):
    """What became of one attempt: `failure` is None when the receiver took it."""

    job: Job
    at: float
    seconds: float
    status: int | None = None
    failure: Failure | None = None
    asked_seconds: float | None = None

    @property
    def ended_at(self) -> float:
        """When the attempt was over, by the clock that `at` was read from."""
        return self.at + self.seconds


class Sender:
    """Makes attempts over connections that go to vetted addresses only."""

    def __init__(self, transport: VettedTransport, attempt_seconds: float) -> None:
        self._transport = transport
        self._attempt_seconds = attempt_seconds

    async def send(self, job: Job, at: float) -> Outcome:
        """Try once, at the moment `at`, which is what the signature says; never raises but when cancelled."""
        begun = perf_counter()
        answer: list[httpx2.Response] = []
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self._attempt_seconds):
                answer.append(await self._transport.handle_async_request(_request(job, at)))
                await _read_away(answer[0])
        except Exception as error:  # noqa: BLE001 - whatever a receiver provokes fails this attempt alone
            failure = _named(error)
        if not answer:
            return Outcome(job, at, perf_counter() - begun, failure=failure)
        # Once there is a status the receiver has spoken, however its body ends.
        status, header = answer[0].status_code, answer[0].headers.get("retry-after")
        asked = None if status // 100 == 2 else retry_after_seconds(header, at)
        return Outcome(job, at, perf_counter() - begun, status, _judged(status), asked)


def _request(job: Job, at: float) -> httpx2.Request:
    timestamp = int(at)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tollhouse/{__version__}",
        "Accept-Encoding": "identity",
        "webhook-id": job.event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures(job.event_id, timestamp, job.body, job.secrets),
    }
    return httpx2.Request("POST", job.url, headers=headers, content=job.body)


async def _read_away(response: httpx2.Response) -> None:
    """Read a little of the body, then close: a connection whose body is not at its end is not used again."""
    received = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in response.aiter_raw():
                received += len(chunk)
                if received > BODY_BYTES:
                    break
    finally:
        await response.aclose()


def _judged(status: int) -> Failure | None:
    if 200 <= status < 300:
        return None
    if status == 410:
        return "gone"
    return "redirect" if 300 <= status < 400 else "status"


def _named(error: Exception) -> Failure:
    match error:
        case TargetRefused():
            return "address"
        case TimeoutError() | httpx2.TimeoutException():
            return "timeout"
        case TlsFailed():
            return "tls"
        case httpx2.RemoteProtocolError() | httpx2.ReadError():
            return "protocol"
        case httpx2.TransportError():
            return "connection"
        case _:
            log.error("attempt failed in an unexpected way", kind=type(error).__name__, error=str(error)[:300])
            return "internal"
