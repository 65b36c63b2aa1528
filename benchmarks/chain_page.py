"""How long the graph of the value chain's page takes for a frame, with 5,000 companies and 20,000 links.

`python benchmarks/chain_page.py [--companies N] [--links N]` serves the page, gives it a generated catalogue of 15
layers in place of the bundled one, and moves and zooms the graph in a Chromium without a graphics card. It prints one
JSON object with milliseconds: `ready_ms` from the catalogue's arrival to the first frame, `moving_p50_ms` and
`moving_p95_ms` between two frames while the graph is moved, `whole_ms` for drawing every link anew. The baseline is the
bundled catalogue in the same run. Needs playwright, and Chromium on the PATH or named by CHROMIUM.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measuring.servers import first_answer, free_port, running, tollhouse
from playwright.sync_api import Page, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LAYERS = 15
MOVES = 60
SEED = 7
_MOVE = """async ({moves}) => {
  const canvas = document.querySelector("#graph canvas");
  const box = canvas.getBoundingClientRect();
  const at = (type, clientX, clientY) =>
    canvas.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1, clientX, clientY}));
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new WheelEvent("wheel", {ctrlKey: true, deltaY: -120, bubbles: true, cancelable: true}));
  await frame(); await frame();
  at("pointerdown", box.x + 300, box.y + 300);
  const times = [];
  for (let move = 0; move < moves; move += 1) {
    const begun = performance.now();
    at("pointermove", box.x + 300 + move, box.y + 300 - move);
    await frame();
    times.push(performance.now() - begun);
  }
  at("pointerup", box.x + 300 + moves, box.y + 300 - moves);
  const begun = performance.now();
  document.documentElement.dataset.theme = "dark";
  await frame(); await frame();
  return {times, whole: performance.now() - begun};
}"""


def generated(companies: int, links: int) -> dict[str, Any]:
    """A catalogue of that size: every link leads from one layer to a later one."""
    chance = random.Random(SEED)
    layers = [{"id": f"l{at}", "name": f"Layer {at}", "order": at + 1, "aliases": []} for at in range(LAYERS)]
    nodes = [
        {"id": f"c{at}", "name": f"Company {at}", "ticker": None, "exchange": None, "listing": "private",
         "country": "US", "category": f"l{at % LAYERS}", "description": None, "products": [], "aliases": [],
         "website": None, "note": None, "suppliers": 4, "customers": chance.randrange(12)}
        for at in range(companies)
    ]  # fmt: skip
    edges = []
    for at in range(links):
        source, target = sorted(chance.sample(range(companies), 2), key=lambda one: one % LAYERS)
        evidence = [{"class": "widely_reported", "url": None, "date": None}]
        edges.append({"id": f"e{at}", "source": f"c{source}", "target": f"c{target}", "kind": "supplies_component",
                      "product": None, "slots": [], "evidence": evidence, "confidence": 0.6})  # fmt: skip
    return {"generated_at": "2026-01-01T00:00:00Z", "categories": layers, "companies": nodes, "edges": edges}


def measure(page: Page, url: str) -> dict[str, float]:
    page.add_init_script("addEventListener('DOMContentLoaded', () => { window.begun = performance.now(); });")
    page.goto(url)
    page.wait_for_selector("#graph canvas")
    ready = page.evaluate("new Promise((done) => requestAnimationFrame(() => done(performance.now() - window.begun)))")
    page.wait_for_selector("#layers-panel")
    moved = page.evaluate(_MOVE, {"moves": MOVES})
    times = sorted(moved["times"])
    return {
        "ready_ms": round(ready, 1),
        "moving_p50_ms": round(statistics.median(times), 1),
        "moving_p95_ms": round(times[int(0.95 * len(times))], 1),
        "whole_ms": round(moved["whole"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--companies", type=int, default=5_000)
    parser.add_argument("--links", type=int, default=20_000)
    options = parser.parse_args()
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    port, body = free_port(), json.dumps(generated(options.companies, options.links))
    with (
        tempfile.TemporaryDirectory() as folder,
        running(tollhouse(port, Path(folder)), Path(folder) / "log") as process,
        sync_playwright() as playwright,
    ):
        first_answer(process, port, "/health", {})
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        url = f"http://127.0.0.1:{port}/value-chain"
        bundled = measure(browser.new_page(viewport={"width": 1440, "height": 900}), url)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.route("**/infra-catalog.json", lambda route: route.fulfill(body=body, content_type="application/json"))
        # The server ranks its own companies, which the generated catalogue does not have.
        page.route("**/api/chokepoints*", lambda route: route.fulfill(json={"chokepoints": [], "caveat": ""}))
        figures = {"companies": options.companies, "links": options.links, **measure(page, url), "bundled": bundled}
        browser.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
