"""Progress in the terminal: a bar with rows, rate and time left on standard error; none where that is no terminal."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class _Rows(ProgressColumn):
    """Rows done and in total, and rows in a second; empty until they are known."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text("")
        rate = f", {task.speed:,.0f} rows/s" if task.speed else ""
        return Text(f"{task.completed:,.0f} of {task.total:,.0f}{rate}", style="progress.data.speed")


class TerminalProgress:
    """The phases of one command. `phase` begins the next one; within it, calls state the rows done and in total."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), _Rows(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, title: str) -> None:
        self._progress.reset(self._task, description=title, visible=True)
        self._progress.update(self._task, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def step(self, title: str, done: int, total: int) -> None:
        """The rows done of a phase, which begins with its first call."""
        if self._progress.tasks[self._task].description != title:
            self.phase(title)
        self(done, total)

    def note(self, text: str) -> None:
        """Print a line on standard error, above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
