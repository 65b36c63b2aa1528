"""Pages and front-page entries, as a service declares them. The console serves them."""

from pathlib import Path
from typing import Any

from msgspec import Struct


class PageGroup(Struct, frozen=True):
    """Pages that share one navigation entry, which leads to a list of them at `path`."""

    path: str
    label: str
    summary: str


class Page(Struct, frozen=True):
    """A page for people at `path` of the host, with `label` in the navigation, or in the list of its group.

    `file` is the page's own HTML, a `string.Template`: `$prefix` is the path where the service is mounted, `$price`
    what a request costs, and `texts` fills the other names.

    `scripts` are JavaScript and CSS files in the folder of `file`, or the console's (`../map.css`); a script imports
    the console's modules from the folder above (`../dom.js`). `facts` is handed to the scripts as JSON. `parameters`
    and `list_parameters` are what the page's address may carry; the scripts read them. `summary` and
    `note` describe the page in the list of its group. A page of a group without a label is not listed.
    """

    path: str
    title: str
    label: str
    file: Path
    scripts: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    list_parameters: tuple[str, ...] = ()
    facts: Any = None
    texts: dict[str, str] = {}
    group: PageGroup | None = None
    summary: str = ""
    note: str = ""


class FrontPageEntry(Struct, frozen=True):
    """A service on the front page. `page` is the path its button, labelled `button`, leads to.

    `example_calls` are paths with their query (`/api/search?q=firm+queen`) that the service answers with 200.

    `file` is the HTML of the service's section of the front page, a `string.Template` like a page's (`$prefix`,
    `$price`, `$page`); without one the service has a card. `scripts`, `parameters` and `list_parameters` are as in
    `Page`; the scripts run as modules on `/`, and `factsOf(service)` of `server.js` gives them `facts`.
    The service's title is the section's heading, except where `is_lead`: that one is first and has the full width.
    Entries with the same `group` share one section, headed by the group: the first one's file, with the facts of each.
    `sources` are the names of where the data comes from, for the footer of every page.
    """

    title: str
    summary: str
    example_calls: tuple[str, ...]
    page: str
    button: str
    file: Path | None = None
    scripts: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    list_parameters: tuple[str, ...] = ()
    facts: Any = None
    is_lead: bool = False
    group: PageGroup | None = None
    sources: tuple[str, ...] = ()
