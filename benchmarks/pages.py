"""How fast the pages load, how far they shift and what they weigh, as Lighthouse measures it.

`python benchmarks/pages.py [--runs N] [--only WORD] [--also PATH]` serves the bundled recording and loads every page
that its front page links to with an empty cache, as a phone on a slow network and as a desktop. It
prints one JSON object with the median of the runs. `first_view_kb` is what came over the network, compressed, before
the page had painted its largest part; `page_kb` is all of it. The baseline is a page of the same server with text only:
a slow machine shows in both. Needs Node.js, and Chromium on the PATH or named by CHROMIUM.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring.servers import first_answer, free_port, get, running, tollhouse

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FORMS = {"mobile": (), "desktop": ("--preset=desktop",)}
GOALS = {"mobile": 0.85, "desktop": 0.95}
MAX_SHIFT, MAX_KB = 0.05, 350
BASELINE = "/problems/invalid-parameter"
LOAD_SECONDS = 180
# Now and then a browser records no trace; what it did record is never judged by its figures.
ATTEMPTS = 3
HTML = {"Accept": "text/html"}

Figures = dict[str, float]


def node_modules() -> Path:
    """Lighthouse, installed beside this Python from the lock file."""
    home = Path(sys.prefix) / "npm-benchmarks"
    home.mkdir(exist_ok=True)
    listed = Path(__file__).parent / "npm"
    stamp, lock = home / "installed.json", (listed / "package-lock.json").read_bytes()
    if not stamp.exists() or stamp.read_bytes() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(listed / name, home)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)
        stamp.write_bytes(lock)
    return home / "node_modules"


def page_paths(port: int) -> Iterator[str]:
    """The front page and what it links to on this server that is a page."""
    _, _, body = get(port, "/", HTML)
    yield "/"
    for path in dict.fromkeys(re.findall(r'href="(/[^"#?]*)"', body.decode())):
        if path == "/" or path.startswith("/console/"):
            continue
        status, headers, _ = get(port, path, HTML)
        if status == 200 and dict(headers).get("content-type", "").startswith("text/html"):
            yield path


def measure(url: str, options: Sequence[str], modules: Path, browser: str, folder: Path) -> Figures:
    """One load of a page in a browser of its own."""
    report = folder / "report.json"
    command = [
        "node", modules / "lighthouse" / "cli" / "index.js", url, "--quiet", "--only-categories=performance",
        "--output=json", f"--output-path={report}", "--chrome-flags=--headless=new --no-sandbox --disable-gpu-sandbox",
        *options,
    ]  # fmt: skip
    environment = {**os.environ, "CHROME_PATH": browser}
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(command, check=False, env=environment, stdout=sys.stderr, timeout=LOAD_SECONDS)
        if done.returncode == 0:
            break
        if attempt == ATTEMPTS:
            raise RuntimeError(f"Lighthouse could not load {url}")
    return _figures(json.loads(report.read_text("utf-8")))


def _figures(report: dict[str, Any]) -> Figures:
    audits = report["audits"]
    painted = audits["metrics"]["details"]["items"][0]["observedLargestContentfulPaint"]
    requests = audits["network-requests"]["details"]["items"]
    first = sum(one["transferSize"] for one in requests if one["networkEndTime"] - _start(requests) <= painted)
    return {
        "score": report["categories"]["performance"]["score"],
        "shift": audits["cumulative-layout-shift"]["numericValue"],
        "largest_paint_ms": audits["largest-contentful-paint"]["numericValue"],
        "blocked_ms": audits["total-blocking-time"]["numericValue"],
        "first_view_kb": first / 1000,
        "page_kb": audits["total-byte-weight"]["numericValue"] / 1000,
    }


def _start(requests: Sequence[dict[str, Any]]) -> float:
    return float(min(one["networkRequestTime"] for one in requests))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="pages whose path contains this")
    parser.add_argument("--also", action="append", default=[], metavar="PATH")
    given = parser.parse_args()
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        parser.error("no Chromium on the PATH, nor named by CHROMIUM")
    modules = node_modules()
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        with running(tollhouse(port, folder / "data"), folder / "log") as server:
            first_answer(server, port, "/health", {})
            paths = [path for path in [*page_paths(port), *given.also] if given.only in path]
            pages = {
                path: _medians(f"http://127.0.0.1:{port}{path}", given.runs, modules, browser, folder)
                for path in dict.fromkeys([BASELINE, *paths])
            }
    missed = [
        f"{path} {form}"
        for path, forms in pages.items()
        for form, figures in forms.items()
        if figures["score"] < GOALS[form] or figures["shift"] > MAX_SHIFT or figures["first_view_kb"] > MAX_KB
    ]
    print(
        json.dumps(
            {"baseline": BASELINE, "runs": given.runs, "goals": GOALS, "missed": missed, "pages": pages}, indent=1
        )
    )


def _medians(url: str, runs: int, modules: Path, browser: str, folder: Path) -> dict[str, Figures]:
    forms = {}
    for form, options in FORMS.items():
        measured = [measure(url, options, modules, browser, folder) for _ in range(runs)]
        forms[form] = {name: round(statistics.median(one[name] for one in measured), 3) for name in measured[0]}
        print(url, form, forms[form], file=sys.stderr)
    return forms


if __name__ == "__main__":
    main()
