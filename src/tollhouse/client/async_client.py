"""The client to be awaited."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import httpx2

from tollhouse.client.client import lost
from tollhouse.client.exchange import Answer, Call, Lost, Reply, Retries, Steps
from tollhouse.client.service import DEPOSIT, Access, Query, Service, next_query


class AsyncClient:
    """Calls of one service, as Client makes them; see `Service` for the arguments.

    Every call raises TollhouseError if it has no answer. Values of a query that are None are left out; lists are
    repeated.
    """

    def __init__(
        self,
        url: str,
        service: str = "",
        access: Access = None,
        retries: Retries | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        self.service = Service(url, service, access, retries)
        self._http = httpx2.AsyncClient(timeout=timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **query: Any) -> Answer:
        """`client.get("/feeds/events", limit=5)`. The path is the service's, without its prefix."""
        return await self.send(self.service.prepare("GET", path, query))

    async def post(self, path: str, body: Any, **query: Any) -> Answer:
        """`client.post("/chat", {"prompt": "How many battles were there?"})`."""
        return await self.send(self.service.prepare("POST", path, query, body))

    async def request(self, method: str, path: str, query: Query | None = None, body: Any = None) -> Answer:
        """Any other method, and parameters whose names are not names in Python."""
        return await self.send(self.service.prepare(method, path, query, body))

    async def send(self, call: Call) -> Answer:
        """Send a prepared call, or that of an UnansweredError, with the signature or payment it has."""
        return await self._run(self.service.steps(call))

    async def pages(self, path: str, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """The pages of a list, each when it is needed: every page is a call, and costs what a call costs."""
        following: Query | None = query
        while following is not None:
            page = (await self.request("GET", path, following)).json
            following = next_query(following, page)
            yield page

    async def items(self, path: str, member: str, **query: Any) -> AsyncIterator[Any]:
        """The entries of a list, page by page: `client.items("/feeds/events", "events", country="Ukraine")`."""
        async for page in self.pages(path, **query):
            for entry in page[member]:
                yield entry

    async def create_key(self, email: str, label: str | None = None) -> str:
        """A new API key of the free plan; this client uses it from now on. The server shows it this once."""
        body = {"email": email} | ({"label": label} if label else {})
        key = str((await self._account("POST", "/api/keys/create", body=body))["api_key"])
        self.service.access = key
        return key

    async def verify_key(self) -> dict[str, Any]:
        """The plan of the key, and its usage."""
        return await self._account("GET", "/api/keys/verify")

    async def register(self) -> dict[str, Any]:
        """Register the agent's wallet; the answer says where to send a deposit, on which network, in which token."""
        return await self._account("POST", "/api/agent/register", body={"wallet_address": self.service.wallet_address})

    async def deposit(self, tx_hash: str) -> dict[str, Any]:
        """Report a transfer to the treasury, and wait until it is confirmed and credited."""
        body = {"wallet_address": self.service.wallet_address, "tx_hash": tx_hash}
        return await self._account("POST", DEPOSIT, body=body)

    async def balance(self) -> dict[str, Any]:
        """The credit of the agent's wallet, in decimal USD."""
        return await self._account("GET", "/api/agent/balance", {"wallet_address": self.service.wallet_address})

    async def _account(self, method: str, path: str, query: Query | None = None, body: Any = None) -> dict[str, Any]:
        members: dict[str, Any] = (await self._run(self.service.account_steps(method, path, query, body))).json
        return members

    async def _run(self, steps: Steps) -> Answer:
        result: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            if isinstance(step, Call):
                result = await self._send(step)
            else:
                await asyncio.sleep(step)
                result = None

    async def _send(self, call: Call) -> Reply | Lost:
        try:
            response = await self._http.request(
                call.method, call.url, headers=call.headers, content=call.content or None
            )
        except httpx2.TransportError as error:
            return lost(error)
        return Reply(response.status_code, response.headers, response.content)
