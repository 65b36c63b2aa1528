"""A real Chromium for the tests of the pages. Without one, they are skipped and the run says so prominently."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.servers.npm import node_modules_of

LISTED = Path(__file__).parent / "npm"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LEFT_OUT = "browser journeys were left out: no Chromium on the PATH (apt install chromium), nor named by CHROMIUM"
LOUD = "BROWSER JOURNEYS WERE LEFT OUT"
"""`.ci/run` looks for it."""
# No host except the server is reachable, and the browser contacts none by itself.
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SERIOUS = ("serious", "critical")
QUIET_FRAMES = 4
LONGEST_WAIT_SECONDS = 30


class Visitor:
    """A tab on one server. Keeps console messages (`complaints`) and requests to other hosts (`strangers`)."""

    def __init__(self, page: Page, root: str, axe: str) -> None:
        self.page = page
        self.root = root
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self._axe = axe
        self._in_flight: set[Request] = set()
        self._seen = 0
        page.on("console", lambda message: self._on_message(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_end)
        page.on("requestfailed", self._on_end)

    def open(self, path: str) -> None:
        self._in_flight.clear()
        self.page.goto(self.root + path)
        self.settle()

    def settle(self) -> None:
        """Wait until no request is in flight and no frame in a row starts one."""
        quiet_frames, deadline = 0, monotonic() + LONGEST_WAIT_SECONDS
        while quiet_frames < QUIET_FRAMES:
            assert monotonic() < deadline, [request.url for request in self._in_flight]
            seen = self._seen
            self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            quiet_frames = quiet_frames + 1 if not self._in_flight and self._seen == seen else 0

    def key(self, text: str) -> None:
        """Store this key in the tab, as if it had been created there."""
        self.page.add_init_script(f"sessionStorage.setItem('tollhouse-key', '{text}')")

    def barriers(self, *rules: str) -> list[str]:
        """Violations that axe-core rates serious or worse, by all of its rules or by these."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(self._axe)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        result = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
            for rule in result["violations"]
            if rule["impact"] in SERIOUS
        ]

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def check_in_both_schemes(self) -> None:
        """The page in light colours, then in dark ones, where only the contrast can differ."""
        self.page.emulate_media(color_scheme="light")
        self.check()
        self.page.emulate_media(color_scheme="dark")
        # Scripts get the event in the next frame.
        self.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert self.barriers("color-contrast") == []
        assert self.complaints == []
        assert self.strangers == []

    def check_at_every_width(self) -> None:
        """The page in both schemes on a desktop, and after the window shrinks to a phone's width."""
        for width in (1280, 390):
            self.page.set_viewport_size({"width": width, "height": 844})
            self.settle()
            self.check_in_both_schemes()

    def check(self) -> None:
        """No serious accessibility violation, nothing in the console, no other host, no horizontal overflow."""
        assert self.barriers() == []
        assert self.complaints == []
        assert self.strangers == []
        assert self.overflow() <= 0

    def _on_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _on_end(self, request: Request) -> None:
        self._in_flight.discard(request)

    def _on_request(self, request: Request) -> None:
        self._in_flight.add(request)
        self._seen += 1
        if not request.url.startswith((self.root, "data:")):
            self.strangers.append(request.url)


Visit = Callable[..., Visitor]


def chromium() -> str | None:
    """The path of the browser, or None."""
    named = os.environ.get("CHROMIUM")
    return named or next((result for name in NAMES if (result := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One per module: while it is open, no other test of the process can run an event loop."""
    program = chromium()
    if program is None:
        pytest.skip(LEFT_OUT)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script, from the packages listed in `npm/package-lock.json`."""
    if chromium() is None:
        pytest.skip(LEFT_OUT)
    return (node_modules_of(LISTED, "console") / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture
def visit(browser: Browser, axe: str, server) -> Iterator[Visit]:
    """A function that opens a tab with a width and a color scheme."""
    contexts: list[BrowserContext] = []

    def start(*, width: int = 1280, scheme: str = "light", root: str = "") -> Visitor:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        contexts.append(context)
        return Visitor(context.new_page(), root or server.root, axe)

    yield start
    for context in contexts:
        context.close()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Report skipped browser tests at the end. This file is a plugin of the whole run."""
    yield
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if LEFT_OUT in str(report.longrepr)]
    if skipped:
        terminalreporter.section(f"{len(skipped)} {LOUD}", red=True, bold=True)
        terminalreporter.write_line(LEFT_OUT, red=True, bold=True)
