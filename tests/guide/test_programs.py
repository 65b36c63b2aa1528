"""The Python programs of the documentation, run as they stand: each says what it shows."""

import ast
import contextlib
import inspect
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import defstruct
from standardwebhooks import Webhook

from tests.guide.documents import ROOT, Block, blocks
from tests.services.defense.test_p1_import import HEADER, RAIDER
from tollhouse.catalogue.catalogue import Catalogue
from tollhouse.config.settings import Settings
from tollhouse.http import endpoint
from tollhouse.http.code_samples import samples
from tollhouse.payments.chain.local_chain import ACCOUNTS
from tollhouse.storage.database import open_database
from tollhouse.storage.migrate import migrate

Names = dict[str, Any]
Run = Callable[[str, Path], Awaitable[None]]


async def run(program: str, names: Names | None = None) -> tuple[Names, list[str]]:
    """What the program names, and the lines it prints. It may await at its top level."""
    names = {} if names is None else names
    printed = io.StringIO()
    code = compile(program, "program.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(printed):
        waiting = eval(code, names)  # noqa: S307 - the documentation's own programs
        if inspect.isawaitable(waiting):
            await waiting
    return names, printed.getvalue().splitlines()


async def schema(program: str, _folder: Path) -> None:
    names, _ = await run(program)
    assert names["MATTRESSES"].price == "price"


async def catalogue(program: str, folder: Path) -> None:
    first, _ = await run(programs("docs/catalogue.md")[0].text)
    database = open_database(Settings(data_dir=str(folder)))
    await migrate(database)
    moment = "2026-01-01T00:00:00Z"
    item = {"id": "p1", "title": "Latex", "price": 90_000, "created_at": moment, "updated_at": moment}
    names, _ = await run(program, {**first, "Catalogue": Catalogue, "database": database, "items": [item]})
    assert names["changes"].created
    assert len(names["catalogue"]) == 1
    await database.close()


async def production(program: str, _folder: Path) -> None:
    _, lines = await run(program)
    said = [float(comment) for comment in (line.rpartition("# ")[2] for line in program.splitlines())
            if comment.replace(".", "").isdigit()]  # fmt: skip
    assert [round(float(lines[0]), 6), round(float(lines[-1]), 4)] == said


async def exhibit(program: str, folder: Path) -> None:
    (folder / "p1_display.xlsx").write_text(f"{HEADER}\n{RAIDER}\n")
    with contextlib.chdir(folder):
        _, lines = await run(program)
    assert lines == ["1 0 0 []", "{('3010F', 'B02100'): 7332016}"]


async def local_chain(program: str, _folder: Path) -> None:
    names, _ = await run(program.replace("0x…", ACCOUNTS[1].address))
    assert names["receipt"].is_success


async def webhook(program: str, _folder: Path) -> None:
    import datetime as dt

    secret, body, moment = (
        "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        '{"type": "alert.test"}',
        dt.datetime.now(dt.UTC),
    )
    headers = {
        "webhook-id": "dlv_1", "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign("dlv_1", moment, body),
    }  # fmt: skip
    request = SimpleNamespace(body=body, headers=headers)
    names, _ = await run(program.replace("whsec_…", secret), {"request": request})
    assert names["event"] == {"type": "alert.test"}


async def service(program: str, _folder: Path) -> None:
    tide = defstruct("Tide", [("port", str), ("at", str)])
    names = {"Tide": tide, "TideQuery": defstruct("TideQuery", [("port", str)])}
    made, _ = await run(program.replace("request.query.port, …", 'request.query.port, "06:00"'), names)
    (one,) = endpoint.endpoints_of(made["Tides"]())
    assert 'port=Sydney"' in samples(one)[0].source
    call = endpoint.Request(SimpleNamespace(port="Sydney"), None, {}, None, "127.0.0.1", endpoint.JSON)
    assert await one.handler(call) == tide("Sydney", "06:00")


# By page, in the order in which they stand there.
PROGRAMS: dict[str, tuple[Run, ...]] = {
    "docs/catalogue.md": (schema, catalogue),
    "docs/defense-brief.md": (production, exhibit),
    "docs/local-chain.md": (local_chain,),
    "docs/own-service.md": (service,),
    "docs/webhooks.md": (webhook,),
}


def programs(page: str) -> list[Block]:
    return [block for block in blocks(ROOT / page) if block.language == "python"]


@pytest.mark.parametrize(
    ("page", "at"), [(page, at) for page, runs in PROGRAMS.items() for at in range(len(runs))], ids=str
)
async def test_program_does_what_its_page_says(page, at, tmp_path):
    await PROGRAMS[page][at](programs(page)[at].text, tmp_path)
