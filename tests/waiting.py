"""How tests wait for what other tasks, threads and processes do: until it is so, however slow the machine."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any


async def until(claim: Callable[[], object | Awaitable[object]], seconds: float = 60.0) -> None:
    """Ask again and again until the claim, or what it is awaited for, is true. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            said = claim()
            if await said if isawaitable(said) else said:
                return
            await asyncio.sleep(0.02)


async def stop(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for each: a cancelled `gather` is over with its first task, and leaves the others open."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
