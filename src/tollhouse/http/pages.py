"""Pages and front-page entries, as a service declares them. The console serves them."""

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct


class PageGroup(Struct, frozen=True):
    """Pages that share one navigation entry, which leads to a list of them at `path`."""

    path: str
    label: str
    summary: str


class Page(Struct, frozen=True):
    """A page for people at `path` of the host, with `label` in the navigation.

    `file` is the page's own HTML, a `string.Template`: `$prefix` is the path where the service is mounted, `$price`
    what a request costs, and `texts` fills the other names.

    `scripts` are JavaScript and CSS files in the folder of `file`; a script imports the console's
    modules from the folder above (`../dom.js`). `libraries` are loaded first. `facts` is handed to the scripts as JSON.
    `parameters` and `list_parameters` are what the page's address may carry; the scripts read them. `summary` and
    `note` describe the page in the list of its group.
    """

    path: str
    title: str
    label: str
    file: Path
    scripts: tuple[str, ...] = ()
    libraries: tuple[Literal["d3", "topojson-client"], ...] = ()
    parameters: tuple[str, ...] = ()
    list_parameters: tuple[str, ...] = ()
    facts: Any = None
    texts: dict[str, str] = {}
    group: PageGroup | None = None
    summary: str = ""
    note: str = ""


class FrontPageEntry(Struct, frozen=True):
    """What the front page says about a service. `page` is the path its button, labelled `button`, leads to.

    `example_calls` are paths with their query (`/api/search?q=firm+queen`) that the service answers with 200. The front
    page shows the first as a curl command, with a key where the endpoint needs one.
    """

    title: str
    summary: str
    example_calls: tuple[str, ...]
    page: str
    button: str
