"""HTTP transport of the Stripe SDK: the HTTP client that the rest of the server uses, on the event loop."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import httpx2
import stripe

# At level INFO it logs every URL, customer ids included.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class EventLoopClient(stripe.HTTPClient):
    """The SDK's own asynchronous clients need packages that nothing else here uses."""

    name = "httpx2"

    def __init__(self, attempt_seconds: float) -> None:
        super().__init__()
        self._client = httpx2.AsyncClient(timeout=attempt_seconds, follow_redirects=False)

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """Send one request. Raises stripe.APIConnectionError, after which the SDK retries."""
        try:
            response = await self._client.request(method, url, headers=dict(headers), content=post_data)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ExceptionGroup) as error:
            raise stripe.APIConnectionError(type(error).__name__, should_retry=True) from None  # type: ignore[no-untyped-call]
        return response.content, response.status_code, response.headers

    async def sleep_async(self, secs: float) -> None:
        await asyncio.sleep(secs)

    async def close_async(self) -> None:
        await self._client.aclose()
