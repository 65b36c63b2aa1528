"""The official clients, unchanged, in a page of another origin in a real Chromium; and a page under a false name."""

import asyncio
import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from tests.client.test_official_payers import PATH, PAYER, check, server
from tests.console.browser import FLAGS, LEFT_OUT, chromium
from tests.journeys.server import Server
from tollhouse.payments.chain.contracts import token_balance

__all__ = ["server"]

PAGE = Path(__file__).parent / "page.mjs"
REBOUND = "rebound.example"
READ = """async (paths) => Promise.all(paths.map(async ([method, path]) => {
  const headers = method === "POST" ? {"Content-Type": "application/json"} : {};
  const answer = await fetch(path, {method, headers, body: method === "POST" ? "{}" : undefined});
  return [answer.status, (await answer.json().catch(() => ({}))).code];
}))"""


@pytest.fixture(scope="module")
def shop(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a page with the clients, of an origin that has nothing to do with the server."""
    folder = tmp_path_factory.mktemp("shop")
    # Packages are found beside the script.
    (folder / "node_modules").symlink_to(node_modules)
    shutil.copy(PAGE, folder)
    bundle = [node_modules / "esbuild" / "bin" / "esbuild", "page.mjs", "--bundle", "--outfile=bundle.js",
              "--platform=browser", "--log-level=error"]  # fmt: skip
    subprocess.run(bundle, cwd=folder, check=True, timeout=60)
    (folder / "index.html").write_text("<!doctype html><meta charset=utf-8><script src=bundle.js></script>")
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{opened.server_port}/"
        opened.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: the test's own output is enough."""


@pytest.fixture
async def tab() -> AsyncIterator[Page]:
    program = chromium()
    if program is None:
        pytest.skip(LEFT_OUT)
    flags = [flag for flag in FLAGS if "resolver" not in flag]
    flags.append(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=flags)
        yield await browser.new_page()
        await browser.close()


async def test_official_clients_pay_from_a_page_of_another_origin(server: Server, shop, tab, local_chain) -> None:
    await tab.goto(shop)
    payment = [f"{server.root}{PATH}", PAYER.private_key]
    await check(await tab.evaluate("payV2", payment), local_chain)
    paid = await tab.evaluate("payV1", payment)
    assert (paid["status"], paid["settled"]["success"], len(paid["body"]["products"])) == (200, True, 2)
    assert (await local_chain.client.receipt(paid["settled"]["transaction"])).is_success
    key = await asyncio.to_thread(server.operators_key, "--tier", "pro")
    called = await tab.evaluate("callTool", [f"{server.root}/mcp", "listProducts", key])
    assert "listProducts" in called["tools"]
    assert len(called["result"]["structuredContent"]["products"]) == 2
    assert PAYER.address in json.dumps(paid["settled"])
    assert await token_balance(local_chain.client, local_chain.usdc_address, PAYER.address) == 998_000


async def test_page_under_a_false_name_reaches_nothing_of_the_operators(tab, tmp_path) -> None:
    server = await asyncio.to_thread(Server, tmp_path, "studio")
    link = server.told().partition("/operator/login?")[2].split()[0]
    await tab.goto(f"{server.root}/operator/login?{link}")
    own = await tab.evaluate(READ, [["GET", "/operator/api/revenue"]])
    assert own == [[200, None]]
    # The public pages are public; the name is the attacker's, and the browser takes the server for his.
    await tab.goto(f"http://{REBOUND}:{server.port}/docs")
    paths = [["GET", "/operator"], ["GET", "/operator/api/revenue"], ["GET", "/operator/api/audit"],
             ["GET", "/metrics"], ["POST", "/operator/api/deliveries/x/replay"], ["POST", "/mcp"]]  # fmt: skip
    answers = await tab.evaluate(READ, paths)
    await asyncio.to_thread(server.kill)
    assert answers == [[403, "origin-not-allowed"]] * len(paths)
