"""What a journey starts from: a real server on a free port over the bundled recording."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.server import Server
from tests.servers.databases import migrated_copy
from tests.servers.shared import made_once
from tollhouse.admission.context import open_context
from tollhouse.config.settings import Settings
from tollhouse.services import SERVICES

StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def recorded_data() -> Path:
    """A data folder with the recordings in it, made once a run: a copy of it starts sooner than an empty folder."""
    return made_once("recorded-data", lambda folder: asyncio.run(_record(folder)))


async def _record(folder: Path) -> None:
    async with open_context(Settings(data_dir=str(folder), recorded=True), answers_calls=False) as context:
        for open_service in SERVICES.values():
            await open_service(context)


@pytest.fixture(scope="module")
def start_server(recorded_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """A function that starts a server over a copy of the recording; whatever still runs is stopped with the module."""
    started: list[Server] = []

    def start(*arguments: object, home: Path | None = None, is_recorded: bool = True, **options: object) -> Server:
        folder = home or tmp_path_factory.mktemp("server")
        if is_recorded and not (folder / "data").exists():
            shutil.copytree(recorded_data, folder / "data", symlinks=True)
        elif not (folder / "data").exists():
            migrated_copy(folder / "data")
        flags = ["--recorded"] if is_recorded else []
        server = Server(folder, *flags, *arguments, **options)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def server(start_server: StartServer) -> Server:
    """The module's own server, over the recording."""
    return start_server()


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    """A key whose plan no test of the module uses up."""
    return server.operators_key("--tier", "enterprise", "--per-minute", 100_000)
