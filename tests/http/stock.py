"""Stock applications behind the proxy, for the tests of exactness that handlers of our own pass, too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tollhouse.admission.context import AppContext
from tollhouse.errors import Problem
from tollhouse.http.service import Service
from tollhouse.proxy.declaration import parse_proxy
from tollhouse.proxy.service import open_proxy

# Handlers of our own, a FastAPI and an Express application: the fixture `served` is None for the first.
on_every_application = pytest.mark.parametrize("served", ["own", "fastapi", "express"], indirect=True)

DECLARATION = """title = "Shop"
{terms}
[upstream]
url = "{url}"
[routes."GET /page"]
[routes."POST /ask"]
"""


class StockApplication:
    """An application with the operations `GET /page` and `POST /ask`: how often they ran, and what they fail with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._behave(runs=0, status=200)

    @property
    def runs(self) -> int:
        return int(httpx2.get(f"{self.url}/behaviour").json()["runs"])

    @runs.setter
    def runs(self, runs: int) -> None:
        self._behave(runs=runs)

    @property
    def raises(self) -> None:
        raise AttributeError("it is only set")

    @raises.setter
    def raises(self, failure: Exception | None) -> None:
        failed = failure.status if isinstance(failure, Problem) else 500
        self._behave(status=200 if failure is None else failed)

    @asynccontextmanager
    async def service(self, context: AppContext, terms: str) -> AsyncIterator[Service]:
        """The application on these terms, as a declaration at the top of a file has them."""
        declared = parse_proxy(DECLARATION.format(terms=terms, url=self.url), Path("shop.toml"))
        service = await open_proxy(declared, context)
        tasks = [asyncio.create_task(task()) for task in service.per_process_tasks]
        await asyncio.sleep(0)
        try:
            yield service
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _behave(self, **behaviour: int) -> None:
        assert httpx2.put(f"{self.url}/behaviour", json=behaviour).status_code == 200
