"""The client that waits for each answer."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx2

from tollhouse.client.exchange import Answer, Call, Lost, Reply, Retries, Steps
from tollhouse.client.service import DEPOSIT, Access, Query, Service, next_query


class Client:
    """Calls of one service; see `Service` for the arguments.

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
        self._http = httpx2.Client(timeout=timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Answer:
        """`client.get("/feeds/events", limit=5)`. The path is the service's, without its prefix."""
        return self.send(self.service.prepare("GET", path, query))

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        """`client.post("/chat", {"prompt": "How many battles were there?"})`."""
        return self.send(self.service.prepare("POST", path, query, body))

    def request(self, method: str, path: str, query: Query | None = None, body: Any = None) -> Answer:
        """Any other method, and parameters whose names are not names in Python."""
        return self.send(self.service.prepare(method, path, query, body))

    def send(self, call: Call) -> Answer:
        """Send a prepared call, or that of an UnansweredError, with the signature or payment it has."""
        return self._run(self.service.steps(call))

    def pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The pages of a list, each when it is needed: every page is a call, and costs what a call costs."""
        following: Query | None = query
        while following is not None:
            page = self.request("GET", path, following).json
            following = next_query(following, page)
            yield page

    def items(self, path: str, member: str, **query: Any) -> Iterator[Any]:
        """The entries of a list, page by page: `client.items("/feeds/events", "events", country="Ukraine")`."""
        for page in self.pages(path, **query):
            yield from page[member]

    def create_key(self, email: str, label: str | None = None) -> str:
        """A new API key of the free plan; this client uses it from now on. The server shows it this once."""
        body = {"email": email} | ({"label": label} if label else {})
        key = str(self._account("POST", "/api/keys/create", body=body)["api_key"])
        self.service.access = key
        return key

    def verify_key(self) -> dict[str, Any]:
        """The plan of the key, and its usage."""
        return self._account("GET", "/api/keys/verify")

    def register(self) -> dict[str, Any]:
        """Register the agent's wallet; the answer says where to send a deposit, on which network, in which token."""
        return self._account("POST", "/api/agent/register", body={"wallet_address": self.service.wallet_address})

    def deposit(self, tx_hash: str) -> dict[str, Any]:
        """Report a transfer to the treasury, and wait until it is confirmed and credited."""
        body = {"wallet_address": self.service.wallet_address, "tx_hash": tx_hash}
        return self._account("POST", DEPOSIT, body=body)

    def balance(self) -> dict[str, Any]:
        """The credit of the agent's wallet, in decimal USD."""
        return self._account("GET", "/api/agent/balance", {"wallet_address": self.service.wallet_address})

    def _account(self, method: str, path: str, query: Query | None = None, body: Any = None) -> dict[str, Any]:
        members: dict[str, Any] = self._run(self.service.account_steps(method, path, query, body)).json
        return members

    def _run(self, steps: Steps) -> Answer:
        result: Reply | Lost | None = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            if isinstance(step, Call):
                result = self._send(step)
            else:
                time.sleep(step)
                result = None

    def _send(self, call: Call) -> Reply | Lost:
        try:
            response = self._http.request(call.method, call.url, headers=call.headers, content=call.content or None)
        except httpx2.TransportError as error:
            return lost(error)
        return Reply(response.status_code, response.headers, response.content)


def lost(error: httpx2.TransportError) -> Lost:
    """What became of a request. One that found no connection was not sent."""
    was_sent = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
    return Lost(str(error) or type(error).__name__, was_sent)
