"""A real Chromium for the journeys through the pages; where there is none, it says loudly that they were left out."""

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
# Nothing but the server is reached, and nothing is phoned home.
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SERIOUS = ("serious", "critical")
QUIET_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30


class Visitor:
    """One person's tab on one server. What the console said, and every request that went elsewhere, is kept."""

    def __init__(self, page: Page, root: str, axe: str) -> None:
        self.page = page
        self.root = root
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self._axe = axe
        self._under_way: set[Request] = set()
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._see)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    def open(self, path: str) -> None:
        self._under_way.clear()
        self.page.goto(self.root + path)
        self.settle()

    def settle(self) -> None:
        """Wait until nothing was under way for half a second. Chromium does not always say so ("networkidle")."""
        quiet_since, ends = monotonic(), monotonic() + LONGEST_WAIT_SECONDS
        while monotonic() - quiet_since < QUIET_SECONDS:
            assert monotonic() < ends, [request.url for request in self._under_way]
            self.page.wait_for_timeout(50)
            if self._under_way:
                quiet_since = monotonic()

    def key(self, text: str) -> None:
        """Have this key in the tab, as if it had been made there."""
        self.page.add_init_script(f"sessionStorage.setItem('tollhouse-key', '{text}')")

    def barriers(self, *rules: str) -> list[str]:
        """What axe-core finds serious or worse in the page as it stands now, by all of its rules or by these."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(self._axe)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
            for rule in found["violations"]
            if rule["impact"] in SERIOUS
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def check_in_both_schemes(self) -> None:
        """The same page in light colours and then in dark ones: they are the style's, and nothing else changes."""
        self.page.emulate_media(color_scheme="light")
        self.check()
        self.page.emulate_media(color_scheme="dark")
        # Scripts hear of it with the next frame.
        self.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert self.barriers("color-contrast") == []
        assert self.complaints == []
        assert self.strangers == []

    def check(self) -> None:
        """Nothing serious for anyone who reads otherwise, nothing in the console, nothing from elsewhere."""
        assert self.barriers() == []
        assert self.complaints == []
        assert self.strangers == []
        assert self.overflow() <= 0

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _end(self, request: Request) -> None:
        self._under_way.discard(request)

    def _see(self, request: Request) -> None:
        self._under_way.add(request)
        if not request.url.startswith((self.root, "data:")):
            self.strangers.append(request.url)


Visit = Callable[..., Visitor]


def chromium() -> str | None:
    """The browser's program, or None."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a module: while it is open no event loop of another test can run in this process."""
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
    """Opens a tab of the width and colours asked for."""
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
    """The last thing that is said. Only the process that leads the run is asked: this file is a plugin of the whole."""
    yield
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if LEFT_OUT in str(report.longrepr)]
    if skipped:
        terminalreporter.section(f"{len(skipped)} {LOUD}", red=True, bold=True)
        terminalreporter.write_line(LEFT_OUT, red=True, bold=True)
