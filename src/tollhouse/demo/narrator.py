"""How the tour tells what it does: each request as one would type it, and the part of the answer that matters."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2
from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax

_SHOWN_HEADERS = ("x-credits-tier", "x-ratelimit-remaining", "retry-after")


class Narrator:
    """Writes to a terminal, or plain text where there is none."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def chapter(self, title: str) -> None:
        self._console.print()
        self._console.print(Rule(title, align="left"))

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def exchange(self, answer: httpx2.Response, **shown: Any) -> None:
        """A request and its answer; `shown` replaces the body where only a part of it matters."""
        request = answer.request
        self._console.print(f"[bold]{request.method}[/] {request.url}", highlight=False)
        for name in ("authorization", "x-agent-address", "x-agent-nonce", "x-agent-signature"):
            if name in request.headers:
                self._console.print(f"  {name}: {_shortened(request.headers[name])}", style="dim", highlight=False)
        if request.content:
            self._console.print(f"  {request.content.decode()}", style="dim", highlight=False, markup=False)
        told = ", ".join(f"{name} {answer.headers[name]}" for name in _SHOWN_HEADERS if name in answer.headers)
        self._console.print(f"  → {answer.status_code}{f'  ({told})' if told else ''}", highlight=False)
        self.show(shown or answer.json())

    def show(self, value: Mapping[str, Any]) -> None:
        """A JSON object, indented."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        self._console.print(Syntax(text, "json", background_color="default", word_wrap=True))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}…{text[-8:]}"
