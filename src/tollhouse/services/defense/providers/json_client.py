"""How a provider's JSON interface is asked: bounded, never redirected, and with failures that say what to do."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import TypeVar

import httpx2
import msgspec

from tollhouse.services.defense.ingest.fetcher import retry_after_seconds, within_deadline
from tollhouse.services.defense.ingest.response_body import ACCEPT_ENCODING, read_body
from tollhouse.services.defense.ingest.upstream_error import UpstreamFailure

CAP_BYTES = 32 * 1024 * 1024
DEADLINE_SECONDS = 60.0

Answer = TypeVar("Answer")


async def ask(  # noqa: PLR0913 - the parts of one request
    client: httpx2.AsyncClient,
    url: str,
    answer: type[Answer],
    *,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Answer:
    """The decoded answer to a GET, or to a POST when there is a form. UpstreamFailure for everything else.

    No redirect is followed: it would carry the operator's secret to wherever it points.
    """
    async with within_deadline(url, DEADLINE_SECONDS):
        request = client.build_request(
            "POST" if form else "GET",
            url,
            params=params,
            headers={"Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING, **(headers or {})},
            data=form,
            timeout=None,
        )
        response = await client.send(request, stream=True, follow_redirects=False)
        async with aclosing(response):
            _check(response)
            body = await read_body(response, CAP_BYTES)
    return _decoded(body, answer, str(response.url.host))


def _check(response: httpx2.Response) -> None:
    status, host = response.status_code, response.url.host
    if status in {401, 403}:
        raise UpstreamFailure("denied", f"{host} refused the operator's credentials ({status})")
    if status != 200:
        raise UpstreamFailure("status", f"{host} answered {status}", retry_after_seconds(response.headers))


def _decoded(body: bytes, answer: type[Answer], host: str) -> Answer:
    try:
        return msgspec.json.decode(body, type=answer, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise UpstreamFailure("malformed", f"{host} answered with something other than the documented JSON") from cause
