"""How the tour tells what it does: each call on one line, what matters of its answer under it."""

import httpx2
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

LONGEST = 60
_PLAN_HEADERS = (("x-credits-tier", "tier"), ("x-ratelimit-remaining", "left"))
_FIRST_ERROR = 400


class Printer:
    """Writes to a terminal, or plain text where there is none."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def chapter(self, title: str, says: str = "") -> None:
        """A new chapter, and in one sentence what it is about."""
        self._console.print()
        self._console.print(Rule(Text(title, style="bold"), align="left", style="cyan"))
        if says:
            self._console.print(Text(says, style="italic dim"))

    def say(self, text: str) -> None:
        """A sentence of the tour's own."""
        self._console.print(Text(text))

    def call(self, answer: httpx2.Response, *results: str, path: str = "") -> None:
        """A call and its status; `results` are what of its answer matters. `path` stands for one too long to read."""
        asked = answer.request
        told = path or asked.url.raw_path.decode()
        plan = ", ".join(
            f"{name} {answer.headers[header]}" for header, name in _PLAN_HEADERS if header in answer.headers
        )
        line = Text("  ").append(f"{asked.method} ", "bold").append(shortened(told)).append(" → ", "dim")
        line.append(str(answer.status_code), "bold green" if answer.status_code < _FIRST_ERROR else "bold yellow")
        self._console.print(line.append(f"  {plan}", "dim") if plan else line)
        for result in results:
            self.result(result)

    def result(self, text: str) -> None:
        """One thing that came of it."""
        self._console.print(Padding(Text(text), (0, 0, 0, 6), expand=False))

    def table(self, rows: list[tuple[str, str]]) -> None:
        """Names and what stands for them, never wrapped: addresses are copied from here."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(f"  {name}", Text(value))
        self._console.print(grid)


def shortened(text: str) -> str:
    """The text in one line of a terminal, its middle left out."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 16]}…{text[-15:]}"
