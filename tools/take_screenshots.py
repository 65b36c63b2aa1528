"""Takes the pictures of docs/screenshots anew: the demo's tour is played, and a real Chromium looks at what it left.

    .venv/bin/python tools/take_screenshots.py [--into FOLDER] [NAME…]

Needs Pillow (`pip install pillow`), and what the tests of the pages need: a Chromium on the PATH or named by CHROMIUM,
and the local chain's node.
"""

import argparse
import asyncio
import importlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from msgspec import Struct
from playwright.async_api import Browser, Page, async_playwright
from rich.console import Console

from tollhouse import logs
from tollhouse.admission.operator_access import OperatorAccess
from tollhouse.demo.environment import Environment, start_environment
from tollhouse.demo.printer import Printer
from tollhouse.demo.tour import run_tour

FOLDER = Path(__file__).parents[1] / "docs" / "screenshots"
LARGEST_BYTES = 250_000
HEIGHT = 800
WIDE, PHONE = 1280, 390
HOOK = "https://example.com/hook"

Act = Callable[[Page], Awaitable[object]]


async def _nothing(_page: Page) -> None:
    return None


async def _story(page: Page) -> None:
    await page.locator("#stories a.title").first.click()
    await page.locator("dialog .side-by-side").wait_for()
    await page.locator("dialog .place-map canvas").wait_for()


async def _entity(page: Page) -> None:
    await page.get_by_role("link", name="Ethiopia", exact=True).click()
    await page.locator("dialog .together").wait_for()


async def _questions(page: Page) -> None:
    for question in ("How many battles were there in Ethiopia?", "How many protests by country?"):
        await page.get_by_label("Your question").fill(question)
        await page.keyboard.press("Enter")
        await page.locator(".turn", has_text=question).locator(".by").wait_for()


async def _preview(page: Page) -> None:
    await page.get_by_label("Name", exact=True).fill("Fighting in Ethiopia")
    await page.get_by_label("Category").select_option("Battles")
    await page.get_by_label("Country").fill("Ethiopia")
    await page.get_by_label("Your endpoint").fill(HOOK)
    await page.get_by_role("button", name="Preview over stored history").click()
    await page.locator("#preview svg").wait_for()


async def _product(page: Page) -> None:
    await page.locator("#goods h3 a").first.click()
    await page.locator("dialog h3", has_text="Price history").wait_for()


async def _compare(page: Page) -> None:
    for box in (await page.get_by_role("checkbox", name="Compare").all())[:3]:
        await box.check()
    await page.get_by_role("link", name="Compare").first.click()
    await page.locator("table").wait_for()


async def _new_key(page: Page) -> None:
    await page.get_by_label("Email", exact=True).fill("grace@example.org")
    await page.get_by_role("button", name="Create a free key").click()
    await page.locator("#shown-key").wait_for()


class Shot(Struct, frozen=True):
    """One picture: where, how wide, in which colours, and what is done before it is taken."""

    path: str
    act: Act = _nothing
    width: int = WIDE
    scheme: str = "light"
    has_key: bool = True


SHOTS = {
    "front": Shot("/"),
    "front-phone": Shot("/", width=PHONE),
    "board": Shot("/board"),
    "board-dark": Shot("/board?category=Battles", scheme="dark"),
    "board-phone": Shot("/board", width=PHONE),
    "story": Shot("/board?view=stories", _story),
    "entity": Shot("/board?view=entities", _entity),
    "brief": Shot("/board?view=brief"),
    "ask": Shot("/ask", _questions),
    "ask-phone": Shot("/ask", _questions, width=PHONE, scheme="dark"),
    "alerts": Shot("/alerts", _preview),
    "wallet": Shot("/wallet?address={wallet}"),
    "mattresses": Shot("/mattresses?q=firm+queen&sort=price"),
    "product-phone": Shot("/mattresses?q=latex", _product, width=PHONE),
    "value-chain": Shot("/value-chain?company=nvidia"),
    "value-chain-paths": Shot("/value-chain?from=asml&to=openai"),
    "value-chain-whole": Shot("/value-chain", scheme="dark"),
    "value-chain-phone": Shot("/value-chain?company=tsmc", width=PHONE),
    "compare": Shot("/mattresses?q=latex+queen", _compare),
    "status": Shot("/status"),
    "keys": Shot("/keys", _new_key, has_key=False),
    "operator": Shot("/operator"),
}


async def main() -> None:
    """Play the tour in a folder of its own and take what was asked for."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("names", nargs="*", choices=[[], *SHOTS], metavar="NAME")
    asked.add_argument("--into", type=Path, default=FOLDER)
    given = asked.parse_args()
    logs.configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        async with start_environment(Path(folder), 0) as stage, async_playwright() as playwright:
            await run_tour(stage, Printer(Console(quiet=True)))
            key = await stage.enterprise_key()
            program = os.environ.get("CHROMIUM") or shutil.which("chromium")
            browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name in given.names or SHOTS:
                await _take(browser, stage, key, SHOTS[name], given.into / f"{name}.png")


async def _take(browser: Browser, stage: Environment, key: str, shot: Shot, file: Path) -> None:
    context = await browser.new_context(
        viewport={"width": shot.width, "height": HEIGHT}, color_scheme="dark" if shot.scheme == "dark" else "light"
    )
    page = await context.new_page()
    if shot.has_key:
        await page.add_init_script(f"sessionStorage.setItem('tollhouse-key', '{key}')")
    if shot.path == "/operator":
        await page.goto(OperatorAccess(stage.settings).new_login_link())
    await page.goto(stage.root + shot.path.format(wallet=stage.agent.address))
    await page.wait_for_load_state("networkidle")
    await shot.act(page)
    _save(await page.screenshot(), file)
    await context.close()


def _save(picture: bytes, file: Path) -> None:
    """With a palette of 256 colours: the one that is nearest to every colour, for severities are told by theirs."""
    image: Any = importlib.import_module("PIL.Image")
    image.open(BytesIO(picture)).convert("RGB").quantize(256, method=1).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.name:<24} {size:>7,} bytes")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{file} is larger than {LARGEST_BYTES:,} bytes")


asyncio.run(main())
