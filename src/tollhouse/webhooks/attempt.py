"""One delivery attempt: a signed POST whose result is judged by the status alone, within one deadline."""

import asyncio
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from time import perf_counter
from typing import Literal

from msgspec import Struct

from tollhouse import __version__
from tollhouse.download import parse_retry_after
from tollhouse.http_client.connection import Exchange, Headers, RequestFailed
from tollhouse.http_client.targets import TargetRefused
from tollhouse.http_client.validated import ValidatedClient
from tollhouse.logs import logger
from tollhouse.storage.secret_box import SecretBox, UnreadableSecretError

PREFIX = "whsec_"
BODY_BYTES = 4_096
BODY_SECONDS = 1.0


def new_secret() -> str:
    """A new secret: `whsec_` and 32 random bytes in base64."""
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def signatures(message_id: str, timestamp: int, body: bytes, keys: Iterable[str]) -> str:
    """The header `webhook-signature` (Standard Webhooks 1.0): HMAC-SHA256 over `id.timestamp.body`.

    One `v1,<base64>` for each secret, separated by spaces.
    """
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    digests = (hmac.digest(b64decode(key.removeprefix(PREFIX)), signed, sha256) for key in keys)
    return " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests)


log = logger("webhooks")

Failure = Literal["timeout", "connection", "tls", "address", "protocol", "redirect", "gone", "status", "secret",
                  "internal"]  # fmt: skip


class Job(Struct, frozen=True):
    """A due delivery, held under `lease`. `tries` counts this attempt; `number` also those before replays.

    `secrets` are as stored, encrypted.
    """

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
    """The result of one attempt: `failure` is None if the receiver accepted it."""

    job: Job
    at: float
    seconds: float
    status: int | None = None
    failure: Failure | None = None
    retry_after: float | None = None

    @property
    def ended_at(self) -> float:
        """When the attempt ended, by the clock of `at`."""
        return self.at + self.seconds


class Sender:
    """Makes attempts over connections that go to validated addresses only."""

    def __init__(self, client: ValidatedClient, attempt_seconds: float, box: SecretBox) -> None:
        self._client = client
        self._box = box
        self._attempt_seconds = attempt_seconds
        self._ending: set[asyncio.Task[None]] = set()

    async def send(self, job: Job, at: float) -> Outcome:
        """Try once. `at` is the timestamp of the signature. Raises nothing except when cancelled."""
        begun = perf_counter()
        answer: Exchange | None = None
        failure: Failure | None = None
        try:
            async with asyncio.timeout(self._attempt_seconds):
                # The receiver knows a message that it gets twice by its id.
                answer = await self._client.send("POST", job.url, self._headers(job, at), job.body, may_repeat=True)
        except UnreadableSecretError as error:
            log.error("delivery not signed", endpoint=job.endpoint_id, error=str(error))  # noqa: TRY400 - no trace
            failure = "secret"
        except Exception as error:  # noqa: BLE001 - any error of a receiver fails this attempt only
            failure = _classify_error(error)
        if answer is None:
            return Outcome(job, at, perf_counter() - begun, failure=failure)
        if answer.whole is None:
            # The result is known, however the body ends.
            task = asyncio.create_task(_drop(answer))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        status = answer.status
        header = dict(answer.headers).get(b"retry-after", b"").decode("latin-1")
        retry_after = None if status // 100 == 2 else parse_retry_after(header, at)
        return Outcome(job, at, perf_counter() - begun, status, _classify_status(status), retry_after)

    async def close(self) -> None:
        await self._client.close()
        await asyncio.gather(*self._ending)

    def _headers(self, job: Job, at: float) -> Headers:
        timestamp = int(at)
        keys = [self._box.open(secret, job.endpoint_id) for secret in job.secrets]
        return [
            (b"Content-Type", b"application/json"),
            (b"User-Agent", f"tollhouse/{__version__}".encode()),
            (b"Accept-Encoding", b"identity"),
            (b"webhook-id", job.event_id.encode()),
            (b"webhook-timestamp", b"%d" % timestamp),
            (b"webhook-signature", signatures(job.event_id, timestamp, job.body, keys).encode()),
        ]


async def _drop(answer: Exchange) -> None:
    """Read the body to its end, after which the connection can be used again, but not for long."""
    size = 0
    with suppress(RequestFailed, TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in answer:
                size += len(piece)
                if size > BODY_BYTES:
                    break
    await answer.aclose()


def _classify_status(status: int) -> Failure | None:
    if 200 <= status < 300:
        return None
    if status == 410:
        return "gone"
    return "redirect" if 300 <= status < 400 else "status"


def _classify_error(error: Exception) -> Failure:
    match error:
        case TargetRefused():
            return "address"
        case TimeoutError():
            return "timeout"
        case RequestFailed(kind="tls"):
            return "tls"
        case RequestFailed(kind="unreachable"):
            return "connection"
        case RequestFailed():
            return "protocol"
        case _:
            log.error("delivery attempt failed unexpectedly", kind=type(error).__name__, error=str(error)[:300])
            return "internal"
