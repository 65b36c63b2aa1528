"""Clients of every description, made by each generator once a run; the generators work at the same time."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.journeys.conftest import recorded_data, start_server
from tests.journeys.server import run
from tests.proxy.stage import fastapi
from tests.servers.npm import node_modules_of
from tests.services.tables.books import books
from tollhouse.payments.chain.local_chain import ACCOUNTS

__all__ = ["recorded_data", "start_server"]

HERE = Path(__file__).parent
GENERATE_SECONDS = 280
SERVICES = ("defense", "mattress", "studio", "infra", "books", "weather")
DOCUMENTS = (*SERVICES, "accounts", "host", "facilitator")
JAVA = ("python", "typescript-fetch")
# So short a program gains nothing from code that is optimized for long ones.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
WEATHER = """title = "Weather of the coast"
access = "anyone"
price_usd = 0.002
free_per_day = 50

[upstream]
url = "{url}"
openapi = "{url}/openapi.json"
"""
OPTIONS = {"target": "es2022", "module": "esnext", "moduleResolution": "bundler", "strict": True, "noEmit": True,
           "skipDefaultLibCheck": True, "lib": ["es2022", "dom", "dom.iterable"], "types": []}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clients:
    """The folder of the documents and their clients, the server they describe, and what each generator printed."""

    folder: Path
    root: str
    printed: dict[str, str]
    node_modules: Path


@pytest.fixture(scope="module")
def clients(start_server, tmp_path_factory) -> Iterator[Clients]:
    home, folder = tmp_path_factory.mktemp("described"), tmp_path_factory.mktemp("clients")
    with ExitStack() as stack:
        url = stack.enter_context(fastapi(tmp_path_factory.mktemp("weather")))
        (home / "books.csv").write_text(books(40))
        assert run("new", "books", "--from", "books.csv", cwd=home).returncode == 0
        (home / "services" / "weather.json").write_bytes(httpx2.get(f"{url}/openapi.json").content)
        (home / "services" / "weather.toml").write_text(WEATHER.format(url=url).replace(f"{url}/openapi", "weather"))
        server = start_server(home=home)
        alone = start_server("facilitator", is_recorded=False, x402_facilitator_key=ACCOUNTS[6].private_key,
                             evm_rpc_url=url)  # fmt: skip
        addresses = {name: f"{server.root}/{name}/api/openapi.json" for name in SERVICES}
        addresses |= {"accounts": f"{server.root}/api/openapi.json", "host": f"{server.root}/openapi.json",
                      "facilitator": f"{alone.root}/api/openapi.json"}  # fmt: skip
        for name, address in addresses.items():
            (folder / f"{name}.json").write_bytes(httpx2.get(address).raise_for_status().content)
        node_modules = node_modules_of(HERE / "npm", "generators")
        (folder / "node_modules").symlink_to(node_modules)
        yield Clients(folder, server.root, asyncio.run(_generate(folder, node_modules)), node_modules)


async def _generate(folder: Path, node_modules: Path) -> dict[str, str]:
    """What each generator and compiler printed, with its exit status where that is not 0."""
    (folder / "python").mkdir()
    (folder / "openapi_typescript.mjs").write_bytes((HERE / "openapi_typescript.mjs").read_bytes())
    (folder / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": OPTIONS, "include": ["*.ts", "typescript-fetch/**/*.ts"]})
    )
    tools = node_modules / ".bin"
    written = await asyncio.gather(
        _run(folder, "node", "openapi_typescript.mjs", folder, *DOCUMENTS),
        _run(folder, tools / "orval", "--config", HERE / "orval.config.cjs"),
        _run(folder, tools / "spectral", "lint", "--ruleset", HERE / "spectral.yaml", "--fail-severity", "warn",
             *(f"{name}.json" for name in DOCUMENTS)),
        _run(folder, sys.executable, HERE / "generate_python.py", folder, *DOCUMENTS),
        _run(folder, "openapi-generator-cli", "batch", "--fail-fast", "--threads", "2", *_batch(folder)),
    )  # fmt: skip
    compiled = await asyncio.gather(
        _run(folder, tools / "tsc", "-p", "tsconfig.json"),
        _run(folder / "python", sys.executable, "-m", "compileall", "-q", "."),
    )
    names = ("openapi-typescript", "orval", "spectral", "openapi-python-client", "openapi-generator", "tsc", "python")
    return dict(zip(names, (*written, *compiled), strict=True))


def _batch(folder: Path) -> Iterator[Path]:
    """A configuration of openapi-generator for each language and document."""
    for language in JAVA:
        for name in DOCUMENTS:
            output = folder / "python" if language == "python" else folder / language / name
            file = folder / f"{name}.{language}.yaml"
            file.write_text(
                f"generatorName: {language}\ninputSpec: {folder}/{name}.json\noutputDir: {output}\n"
                f"packageName: ogc_{name}\nglobalProperties: {{apiTests: 'false', modelTests: 'false', "
                "apiDocs: 'false', modelDocs: 'false'}\n"
            )
            yield file


async def _run(folder: Path, *command: object) -> str:
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "DOCUMENTS": str(folder), "NAMES": " ".join(DOCUMENTS), "PATH": programs,
                   "JAVA_TOOL_OPTIONS": JAVA_OPTIONS}  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await asyncio.wait_for(process.communicate(), GENERATE_SECONDS)
    return printed.decode() + (f"\nexit status {process.returncode}" if process.returncode else "")
