"""How the official SDK's requests travel: on the event loop, over the HTTP client the rest of the server uses."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import httpx2
import stripe

# It would tell every address, ids of customers included.
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
        """One exchange. Raises stripe.APIConnectionError, which the SDK answers by trying again."""
        try:
            answer = await self._client.request(method, url, headers=dict(headers), content=post_data)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ExceptionGroup) as error:
            raise stripe.APIConnectionError(type(error).__name__, should_retry=True) from None  # type: ignore[no-untyped-call]
        return answer.content, answer.status_code, answer.headers

    async def sleep_async(self, secs: float) -> None:
        """The pause before another try."""
        await asyncio.sleep(secs)

    async def close_async(self) -> None:
        """Give every connection back."""
        await self._client.aclose()
