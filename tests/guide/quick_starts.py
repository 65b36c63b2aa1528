"""The samples of a guide's page as it prints them, and the shell that goes through them in their order."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from lxml import html
from msgspec import Struct

from tests.journeys.server import environment

MOST_SECONDS = 200.0
PROGRAMS = Path(sys.executable).parent
SAVED_AS = re.compile(r"[Ss]ave\s+this\s+as\s+([\w.]+)")


class PrintedBlock(Struct, frozen=True):
    """A block of code as the page shows it; `saved_as` is the file that the sentence before it names."""

    language: str
    text: str
    saved_as: str


def printed_blocks(page: str, until: str = "") -> list[PrintedBlock]:
    """The blocks of a page's HTML, up to the heading with this id."""
    article = html.fromstring(page).find_class("prose")[0]
    blocks: list[PrintedBlock] = []
    before = ""
    for element in article:
        if until and element.get("id") == until:
            break
        if "snippet" in element.get("class", ""):
            (code,) = element.iter("code")
            names = SAVED_AS.findall(before)
            language = code.get("class", "").removeprefix("language-")
            blocks.append(PrintedBlock(language, code.text_content(), names[-1] if names else ""))
        before = " ".join(element.text_content().split())
    return blocks


def script(blocks: list[PrintedBlock], folder: Path) -> str:
    """The shell blocks, after each of which its exit status counts; programs are saved as the page says."""
    lines = ["set -e"]
    for block in blocks:
        if block.language == "sh":
            lines += ["echo '----'", block.text]
        elif block.language == "python":
            assert any(f"python3 {block.saved_as}" in other.text for other in blocks), f"{block.saved_as} is never run"
            (folder / block.saved_as).write_text(block.text)
    return "\n".join(lines)


def gone_through(text: str, folder: Path, **variables: str) -> list[str]:
    """What each block of a script printed."""
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=folder,
        env={**environment(), "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        output, failed = process.communicate(timeout=MOST_SECONDS)
    finally:
        # What a page starts in the background, and did not come to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{output[-3_000:]}\n{failed}"
    return [part.strip() for part in output.split("----\n")[1:]]
