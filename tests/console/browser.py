"""A real Chromium for the tests of the pages. Without one, they are skipped and the run says so prominently."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pytest
from playwright.sync_api import (
    Browser,
    CDPSession,
    ConsoleMessage,
    Error,
    Frame,
    Page,
    Request,
    sync_playwright,
)

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
Scheme = Literal["light", "dark"]
SERIOUS = ("serious", "critical")
QUIET_FRAMES = 4
ANIMATIONS_END = """() => Promise.all(document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().iterations !== Infinity)
  .map((one) => one.finished.catch(() => null)))"""
HEIGHT = 844
LAYOUTS: tuple[tuple[int, Scheme], ...] = ((1280, "light"), (390, "dark"))
LONGEST_WAIT_SECONDS = 30


class Visitor:
    """A tab on one server. Keeps what the console says (`console_messages`) and `foreign_requests` to other hosts."""

    def __init__(self, page: Page, root: str, axe: str) -> None:
        self.page = page
        self.root = root
        self.console_messages: list[str] = []
        self.foreign_requests: list[str] = []
        self._axe = axe
        self._in_flight: set[Request] = set()
        self._request_count = 0
        self._has_document = False
        self._listeners: list[tuple[str, Callable[[Any], None]]] = []
        self._cdp: CDPSession | None = None
        self._key_script = ""
        self._listen("framenavigated", self._on_navigation)
        self._listen("console", self._on_message)
        self._listen("pageerror", self._on_error)
        self._listen("request", self._on_request)
        self._listen("requestfinished", self._on_end)
        self._listen("requestfailed", self._on_end)

    def open(self, path: str) -> None:
        self._in_flight.clear()
        self.page.goto(self.root + path)
        self.settle()

    def settle(self) -> None:
        """Wait until no request is in flight and no frame in a row starts one."""
        quiet_frames, deadline = 0, monotonic() + LONGEST_WAIT_SECONDS
        while quiet_frames < QUIET_FRAMES:
            assert monotonic() < deadline, [request.url for request in self._in_flight]
            count = self._request_count
            self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
            quiet_frames = quiet_frames + 1 if not self._in_flight and self._request_count == count else 0

    def key(self, text: str) -> None:
        """Store this key in the tab, as if it had been created there."""
        self._cdp = self.page.context.new_cdp_session(self.page)
        self._cdp.send("Page.enable")
        source = f"sessionStorage.setItem('tollhouse-key', '{text}')"
        self._key_script = self._cdp.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})["identifier"]

    def accept_dialogs(self) -> None:
        self._listen("dialog", lambda dialog: dialog.accept())

    def violations(self) -> list[str]:
        """What axe-core rates serious or worse, once nothing moves: a drawer that still fades in has no contrast."""
        self.page.evaluate(ANIMATIONS_END)
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(self._axe)
        # A tenth of the time goes into `region`, whose violations are moderate.
        rules = "{ region: { enabled: false } }"
        options = f"{{ resultTypes: ['violations'], selectors: false, preload: false, rules: {rules} }}"
        result = self.page.evaluate(f"axe.run(document, {options})")
        return [
            f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
            for rule in result["violations"]
            if rule["impact"] in SERIOUS
        ]

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def check_both_layouts(self) -> None:
        """The page on a desktop in light colours, then, after the window shrinks, on a phone in dark ones."""
        for width, scheme in LAYOUTS:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=scheme)
            self.settle()
            self.check()

    def check(self) -> None:
        """No serious accessibility violation, and what `check_load` checks."""
        assert self.violations() == []
        self.check_load()

    def check_load(self) -> None:
        """Nothing in the console, no other host, no horizontal overflow: for what test_looks.py opens anyway."""
        assert self.console_messages == []
        assert self.foreign_requests == []
        assert self.overflow() <= 0

    def leave(self) -> None:
        """Take everything back that this visitor did to the tab, so that another can use it."""
        for event, handler in self._listeners:
            self.page.remove_listener(event, handler)
        self.page.unroute_all()
        if self._cdp:
            self._cdp.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": self._key_script})
            self._cdp.detach()
        # The document stays: an empty one in its place would cost a process of its own, and so would the next page.
        self.page.evaluate("() => { window.stop(); sessionStorage.clear(); localStorage.clear(); }")
        self.page.context.clear_permissions()
        self.page.context.clear_cookies()

    def _listen(self, event: str, handler: Callable[[Any], None]) -> None:
        self.page.on(event, handler)  # type: ignore[call-overload]  # one overload per event
        self._listeners.append((event, handler))

    def _on_navigation(self, frame: Frame) -> None:
        """From now on the tab shows a document of this visitor; what came before was of the visitor before."""
        self._has_document |= frame == self.page.main_frame

    def _on_message(self, message: ConsoleMessage) -> None:
        if self._has_document and message.type in ("error", "warning"):
            self.console_messages.append(message.text)

    def _on_error(self, error: Error) -> None:
        if self._has_document:
            self.console_messages.append(str(error))

    def _on_end(self, request: Request) -> None:
        self._in_flight.discard(request)

    def _on_request(self, request: Request) -> None:
        if not self._has_document and not request.is_navigation_request():
            return
        self._in_flight.add(request)
        self._request_count += 1
        if not request.url.startswith((self.root, "data:")):
            self.foreign_requests.append(request.url)


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


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> list[Page]:
    """Tabs without storage that no test uses at the moment: a new one costs more than the pages a test loads."""
    return []


@pytest.fixture
def visit(browser: Browser, tabs: list[Page], axe: str, server) -> Iterator[Visit]:
    """A function that gives a tab with a width and a color scheme, without cookies or storage."""
    visitors: list[Visitor] = []

    def start(*, width: int = 1280, scheme: Scheme = "light", root: str = "") -> Visitor:
        page = tabs.pop() if tabs else browser.new_context().new_page()
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=scheme)
        visitor = Visitor(page, root or server.root, axe)
        visitors.append(visitor)
        return visitor

    yield start
    for visitor in visitors:
        if visitor.page.url.startswith(server.root):
            visitor.leave()
            tabs.append(visitor.page)
        else:
            # What it stored for another address cannot be cleared from here.
            visitor.page.context.close()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Report skipped browser tests at the end. This file is a plugin of the whole run."""
    yield
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if LEFT_OUT in str(report.longrepr)]
    if skipped:
        terminalreporter.section(f"{len(skipped)} {LOUD}", red=True, bold=True)
        terminalreporter.write_line(LEFT_OUT, red=True, bold=True)
