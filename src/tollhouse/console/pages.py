"""Which pages a host has: one for each thing its services offer, and the address of each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tollhouse.config.settings import Settings
from tollhouse.console.home_page import front_main
from tollhouse.console.page_facts import facts_of
from tollhouse.console.page_shell import DRAWING, HTML, MAPPING, Frame, Link, files, fragment
from tollhouse.console.table_pages import table_links, table_pages
from tollhouse.http.endpoint import Endpoint, Request, Response
from tollhouse.http.service import Service
from tollhouse.http.terms import FREE


class Page(Struct, frozen=True):
    """One page: `service` must be there for it. `texts` and `lists` are the parameters its address may carry."""

    name: str
    path: str
    link: str
    title: str
    service: str
    scripts: tuple[str, ...]
    texts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


_BOARD_FILTERS = ("view", "category", "country", "severity", "q", "story", "event", "entity", "type")
_SHOP_FILTERS = ("q", "sort", "min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "in_stock")
_SHOP_LISTS = ("brand", "size", "material", "retailer", "sleep_position")

PAGES = (
    Page("board", "/board", "Board", "Defense board", "defense", (*MAPPING, "board.js"), _BOARD_FILTERS),
    Page("ask", "/ask", "Ask", "Ask the defense feeds", "defense", ("ask.js",)),
    Page("alerts", "/alerts", "Alerts", "Alerts", "defense", (*DRAWING, "alerts.js"), ("alert",)),
    Page("mattresses", "/mattresses", "Mattresses", "Mattress search", "mattress", (*DRAWING, "mattresses.js"),
         (*_SHOP_FILTERS, "offset", "product"), _SHOP_LISTS),
    Page("chain", "/value-chain", "Value chain", "AI infrastructure value chain", "infra", (*DRAWING, "chain.js"),
         ("company", "from", "to", "without", "category")),
    Page("studio", "/studio-catalogue", "Studio", "Studio catalogue", "studio", ("studio.js",)),
    Page("keys", "/keys", "Keys", "Keys and plans", "defense", ("keys.js",), ("status",)),
    Page("wallet", "/wallet", "Wallet", "A wallet's balance", "defense", ("wallet.js",), ("address",)),
)  # fmt: skip
# In the navigation what is offered comes first, and then how it is paid.
_PAYING = ("keys", "wallet")
OPERATOR_PAGE = Page("operator", "/operator", "Operator", "Operator", "", ("operator.js",), ("account", "state"))


def frame_of(services: Sequence[Service], prefixes: Sequence[str]) -> Frame:
    """What the pages of a host with these services have alike."""
    there = {service.name: prefix for service, prefix in zip(services, prefixes, strict=True)}
    offered = _offered(there)
    shown = [Link(page.path, page.link) for page in offered if page.name not in _PAYING]
    paying = [Link(page.path, page.link) for page in offered if page.name in _PAYING]
    links = [Link("/", "Overview"), *shown, *table_links(services), *paying, Link("/guide", "Guide")]
    return Frame(there, tuple(links))


def console_pages(settings: Settings, services: Sequence[Service], frame: Frame) -> list[Endpoint]:
    """Every page but the front page, and the files they load."""
    pages = [*_offered(frame.prefixes), OPERATOR_PAGE]
    own = [_operation(page, frame, facts_of(page.name, settings, services)) for page in pages]
    return [*own, *table_pages(settings, services, frame), *files()]


def front_page(settings: Settings, services: Sequence[Service], frame: Frame) -> Response:
    """The page at `/`: what this server offers, how to call it and how to pay, in one screen."""
    return frame.page("/", "Tollhouse", front_main(settings, services, frame), scripts=("front.js",))


def _offered(there: Mapping[str, str]) -> list[Page]:
    return [page for page in PAGES if page.service in there]


def _operation(page: Page, frame: Frame, facts: Any) -> Endpoint:
    answer = frame.page(page.path, f"{page.title} · Tollhouse", fragment(page.name), scripts=page.scripts, facts=facts)
    query = _query(page)
    return Endpoint(
        f"page {page.path}", "GET", page.path, page.title, _serving(answer), FREE,
        query=query, responses={HTML.partition(";")[0]: {}}, is_described=False,
    )  # fmt: skip


def _query(page: Page) -> type[Struct] | None:
    """The page's script reads its address; the gate only has to know which parameters are its own."""
    texts: list[tuple[str, Any, Any]] = [(name, str | None, None) for name in page.texts]
    lists: list[tuple[str, Any, Any]] = [(name, list[str], msgspec.field(default_factory=list)) for name in page.lists]
    return msgspec.defstruct(f"{page.name}_address", [*texts, *lists], frozen=True) if texts or lists else None


def _serving(answer: Response) -> Callable[[Request[Any, Any]], Any]:
    async def serve(_asked: Request[Any, Any]) -> Response:
        return answer

    return serve
