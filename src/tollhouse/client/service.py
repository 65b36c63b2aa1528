"""What the clients of both kinds share: how calls are made of paths, and pages of answers."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import structs

from tollhouse.client.agent import Agent
from tollhouse.client.exchange import Call, Retries, Steps, exchange
from tollhouse.client.limits import LimitedPayer

Value = str | int | float | bool | None
Query = Mapping[str, Value | Sequence[Value]]
Access = str | Agent | LimitedPayer | None

DEPOSIT = "/api/agent/deposit"
# A deposit is confirmed after some blocks.
DEPOSIT_RETRIES = Retries(attempts=30, longest_wait_seconds=60.0)


class Service:
    """The address of a service and the way its calls are paid: an API key, a wallet's credit, or each request.

    `url` is the server's root, and `service` the prefix of the service on it; empty for one at the root. `access` is an
    API key, an Agent that pays from credit, or a LimitedPayer; None for what anyone may call. Raises ValueError for a
    malformed URL.
    """

    def __init__(
        self,
        url: str,
        service: str = "",
        access: Access = None,
        retries: Retries | None = None,
    ) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise ValueError("the URL of the server must begin with http:// or https://")
        self._root = url.rstrip("/")
        self._base = f"{self._root}/{service}" if service else self._root
        self.access = access
        self._retries = retries or Retries()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base})"

    def prepare(self, method: str, path: str, query: Query | None = None, body: Any = None) -> Call:
        """The request of a call of the service, signed if an agent pays. Raises ValueError for a malformed path."""
        if not path.startswith("/") or "?" in path or "#" in path:
            raise ValueError("the path must begin with a slash, and the query is an argument of its own")
        call = _call(method, f"{self._base}{quote(path)}", query, body)
        if isinstance(self.access, Agent):
            signed = self.access.headers(path)
            return structs.replace(call, headers={**call.headers, **signed}, is_signed=True)
        return structs.replace(call, headers={**call.headers, **self._key_header()})

    def _key_header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.access}"} if isinstance(self.access, str) else {}

    def steps(self, call: Call) -> Steps:
        return exchange(call, self._retries, self.access if isinstance(self.access, LimitedPayer) else None)

    def account_steps(self, method: str, path: str, query: Query | None = None, body: Any = None) -> Steps:
        """A call of the accounts, which stand at the root of the server and cost nothing."""
        call = _call(method, f"{self._root}{path}", query, body)
        call = structs.replace(call, headers={**call.headers, **self._key_header()})
        return exchange(call, DEPOSIT_RETRIES if path == DEPOSIT else self._retries)

    @property
    def wallet_address(self) -> str:
        """The address of the wallet that pays from credit. Raises TypeError without an agent."""
        if not isinstance(self.access, Agent):
            raise TypeError("this client has no agent: Client(url, access=Agent(private_key))")
        return self.access.address


def next_query(query: Query, page: Mapping[str, Any]) -> Query | None:
    """The query of the page after this one: by `next_cursor`, else by `offset` and `total`; None after the last."""
    if "next_cursor" in page:
        return {**query, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    if not all(isinstance(page.get(name), int) for name in ("offset", "total", "count")):
        raise ValueError("the response is not a page: it has neither `next_cursor` nor `offset`, `total` and `count`")
    offset = page["offset"] + page["count"]
    return {**query, "offset": offset} if page["count"] and offset < page["total"] else None


def _call(method: str, url: str, query: Query | None, body: Any) -> Call:
    pairs = [
        (name, _text(each))
        for name, value in (query or {}).items()
        for each in (value if isinstance(value, Sequence) and not isinstance(value, str) else [value])
        if each is not None
    ]
    headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
    content = b"" if body is None else msgspec.json.encode(body)
    address = f"{url}?{urlencode(pairs)}" if pairs else url
    return Call(method, address, headers, content)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
