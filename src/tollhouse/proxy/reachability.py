"""Whether an upstream accepts connections, as health and the status page say it."""

import asyncio
import contextlib
import time
from urllib.parse import urlsplit

REMEMBERED_SECONDS = 5.0


class Reachability:
    """Connects to the host of a URL to see whether it answers; what was seen is remembered for a few seconds."""

    def __init__(self, url: str, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._connect_seconds = connect_seconds
        self._lock = asyncio.Lock()
        self._is_reachable = False
        self._seen_at = -REMEMBERED_SECONDS

    async def check(self) -> bool:
        """Whether the upstream accepts a connection within its time."""
        async with self._lock:
            if time.monotonic() - self._seen_at >= REMEMBERED_SECONDS:
                self._is_reachable = await self._connects()
                self._seen_at = time.monotonic()
        return self._is_reachable

    async def _connects(self) -> bool:
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True
