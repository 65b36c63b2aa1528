"""Prints the tour: one line for each call, and what matters of its response below."""

import httpx2
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

MAX_LENGTH = 60
_PLAN_HEADERS = (("x-credits-tier", "tier"), ("x-ratelimit-remaining", "left"))
_FIRST_ERROR = 400


class Printer:
    """Writes to a terminal, or plain text where there is none."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def chapter(self, title: str, summary: str = "") -> None:
        self._console.print()
        self._console.print(Rule(Text(title, style="bold"), align="left", style="cyan"))
        if summary:
            self._console.print(Text(summary, style="italic dim"))

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def call(self, response: httpx2.Response, *results: str, path: str = "") -> None:
        """Print a call and its status; `results` are the important parts. `path` replaces one that is too long."""
        request = response.request
        shown_path = path or request.url.raw_path.decode()
        plan = ", ".join(
            f"{name} {response.headers[header]}" for header, name in _PLAN_HEADERS if header in response.headers
        )
        line = Text("  ").append(f"{request.method} ", "bold").append(shortened(shown_path)).append(" → ", "dim")
        line.append(str(response.status_code), "bold green" if response.status_code < _FIRST_ERROR else "bold yellow")
        self._console.print(line.append(f"  {plan}", "dim") if plan else line)
        for result in results:
            self.result(result)

    def result(self, text: str) -> None:
        self._console.print(Padding(Text(text), (0, 0, 0, 6), expand=False))

    def table(self, rows: list[tuple[str, str]]) -> None:
        """Print names and values. Values are never cut: addresses are copied from here."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(f"  {name}", Text(value))
        self._console.print(grid)


def shortened(text: str) -> str:
    """Shorten a text to one line of a terminal, without its middle."""
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 16]}…{text[-15:]}"
