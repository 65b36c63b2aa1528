"""How the local chain's node is found, started on a free port, and ended with whoever started it, however that ends."""

import asyncio
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

PACKAGE = Path("node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
MANIFEST = Path(__file__).parent / "npm"
START_SECONDS = 20.0
STOP_SECONDS = 5.0
MOST_PORTS = 3

# The shell becomes the node; its child waits for the end of our pipe, which comes however we end, and kills the node.
_WITH_PARENT = 'exec 3<&0; (cat <&3 >/dev/null; kill -KILL $$) & exec "$@" 3<&- </dev/null'


class NoNode(Exception):
    """The node is not installed or does not start; the message says what to do."""


def program() -> Path:
    """The node: where `make` installs it, where npm installs it in place, or on the PATH. Raises NoNode."""
    places = [folder / PACKAGE for folder in (Path(sys.prefix) / "npm", MANIFEST)]
    on_path = shutil.which("anvil")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        if place.is_file():
            return place
    raise NoNode(
        f"the local chain needs the node `anvil`: run `npm ci --ignore-scripts --omit=dev --prefix {MANIFEST}` "
        "(Linux on x86-64), or put Foundry's anvil on the PATH"
    )


@asynccontextmanager
async def running(options: Sequence[str]) -> AsyncIterator[str]:
    """The node's address while it runs. Raises NoNode when it does not start."""
    node = program()
    with tempfile.TemporaryDirectory(prefix="tollhouse-chain-", ignore_cleanup_errors=True) as home:
        process, port = await _started(node, options, Path(home))
        letting_go = asyncio.create_task(_let_go_when_ended(process))
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await _ended(process)
            await letting_go


async def _started(node: Path, options: Sequence[str], home: Path) -> tuple[Process, int]:
    for _ in range(MOST_PORTS):
        # Between our look and its start another may take the port: the node then ends at once.
        port = _free_port()
        fixed = ["--host", "127.0.0.1", "--port", str(port), "--quiet", "--cache-path", str(home)]
        with (home / "node.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", _WITH_PARENT, "sh", str(node), *fixed, *options),
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        try:
            if await _listens(process, port):
                return process, port
        except BaseException:
            await _ended(process)
            raise
        await _ended(process)
    said = (home / "node.log").read_text("utf-8", "replace").strip()[-500:]
    raise NoNode(f"{node} does not start: {said or 'it says nothing'}")


async def _listens(process: Process, port: int) -> bool:
    """Whether the node got as far as listening; False when it ended, or took too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    await writer.wait_closed()
                    return process.returncode is None
                await asyncio.sleep(0.01)
    return False


async def _let_go_when_ended(process: Process) -> None:
    """End the watcher of a node that crashed, before its process id can be another's."""
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()


async def _ended(process: Process) -> None:
    """Ask it to end, insist after a while, and let go of the pipe, which ends its watcher."""
    assert process.stdin is not None
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
    process.stdin.close()
    await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
