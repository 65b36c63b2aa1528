"""The demo's applications with no code for keys or payment, an Express and a FastAPI one, and the tolls before them."""

import asyncio
import shutil
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from tollhouse.config.loader import variables
from tollhouse.errors import OperatorError

SOURCES = Path(__file__).parent / "upstreams"
START_SECONDS = 20.0
PAY_SECONDS = 60.0

_GRANIAN = (sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1", "--no-access-log")
_DECLARATION = """title = "{title}"
price_usd = 0.002
free_per_day = 1
other_routes = "{other_routes}"

[upstream]
url = "{url}"
{openapi}
"""


class Application(Struct, frozen=True):
    """A running application. `name` is its service's on the demo's server, `url` its own address."""

    name: str
    framework: str
    url: str
    path: str


class Applications(Struct, frozen=True):
    """The running applications; `missing` says, a line each, what is not installed. `folder` has the programs."""

    running: tuple[Application, ...]
    missing: tuple[str, ...]
    folder: Path

    async def pay(self, url: str, private_key: str) -> dict[str, Any]:
        """Pay for a GET request with the official JavaScript client: its status, JSON and transaction.

        Raises OperatorError.
        """
        environment = variables(PAYER_KEY=private_key)
        program = await asyncio.create_subprocess_exec(
            "node", "pay.mjs", url, cwd=self.folder, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        try:
            async with asyncio.timeout(PAY_SECONDS):
                output, errors = await program.communicate()
        except TimeoutError:
            program.kill()
            raise OperatorError(f"the client did not pay within {PAY_SECONDS:.0f} s") from None
        if program.returncode:
            raise OperatorError(f"the client failed: {errors.decode(errors='replace').strip()[-300:]}")
        paid: dict[str, Any] = msgspec.json.decode(output)
        return paid


@asynccontextmanager
async def run_applications(folder: Path, services: Path) -> AsyncIterator[Applications]:
    """Start the applications that are installed, and declare each in `services`. Raises OperatorError."""
    packages = _npm_packages()
    missing = []
    running = []
    async with AsyncExitStack() as stack:
        if packages is None:
            missing.append(f"Express: npm ci --ignore-scripts --prefix {SOURCES / 'npm'}")
        else:
            _copy_programs(folder, packages)
            url = await stack.enter_async_context(_run(("node", "easter.mjs"), folder))
            running.append(Application("calendar", "Express", url, "/easter/2027"))
            _declare(services / "calendar.toml", "Dates of Easter", url, "")
        if find_spec("fastapi") is None:
            missing.append("FastAPI: pip install 'tollhouse[demo]'")
        else:
            url = await stack.enter_async_context(_run((*_GRANIAN, "factors:app"), SOURCES))
            running.append(Application("numbers", "FastAPI", url, "/factors/360360"))
            document = services / "numbers.openapi.json"
            async with httpx2.AsyncClient() as client:
                _write(document, (await client.get(f"{url}/openapi.json")).raise_for_status().text)
            _declare(services / "numbers.toml", "Prime factors", url, document.name)
        yield Applications(tuple(running), tuple(missing), folder)


@asynccontextmanager
async def _run(command: Sequence[str], folder: Path) -> AsyncIterator[str]:
    """Run a program that listens on the port in `PORT`; yields its URL. Raises OperatorError."""
    port = free_port()
    environment = variables(PORT=str(port), GRANIAN_PORT=str(port))
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    try:
        await _wait_listening(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _wait_listening(process: Process, port: int) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return
    except TimeoutError:
        raise OperatorError(f"an application did not start within {START_SECONDS:.0f} s") from None
    _, errors = await process.communicate()
    raise OperatorError(f"an application did not start: {errors.decode(errors='replace').strip()[-300:]}")


def _npm_packages() -> Path | None:
    """Where Express and the client are installed: by `make`, or by npm in place."""
    places = [place / "node_modules" for place in (Path(sys.prefix) / "npm-demo", SOURCES / "npm")]
    return next((place for place in places if (place / "express").is_dir() and shutil.which("node")), None)


def _copy_programs(folder: Path, packages: Path) -> None:
    """Copy the programs beside a link to their packages, which Node.js looks for beside a program."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in SOURCES.glob("*.mjs"):
        shutil.copy(program, folder)
    (folder / "node_modules").unlink(missing_ok=True)
    (folder / "node_modules").symlink_to(packages)


def _declare(path: Path, title: str, url: str, document: str) -> None:
    openapi = f'openapi = "{document}"' if document else ""
    other_routes = "none" if document else "anyone"
    _write(path, _DECLARATION.format(title=title, url=url, other_routes=other_routes, openapi=openapi))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
