"""A real browser that looks at a real server: what a person sees, what the console says, what axe finds."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, ViewportSize, expect, sync_playwright

from tests.rig.server import Server
from tests.rig.tries import BY_NIGHT

SHOTS = Path(__file__).parents[2] / "build" / "screens"  #: for looking at; not kept by git
WIDE = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
TABLET = ViewportSize(width=768, height=1024)
expect.set_options(timeout=60_000)  # a busy machine is no fault of the page
SERIOUS = ("serious", "critical")
#: By day the dark colours are looked at on the phone: what is too pale is too pale at any width.
LOOKS = ({}, {"dark": True}, {"phone": True}) if BY_NIGHT else ({}, {"phone": True, "dark": True})


@contextlib.contextmanager
def started(*options: str) -> Generator[Browser]:
    """Start Debian's Chromium; it ends with the block."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "the tests need a browser: apt-get install chromium"
    if sys.version_info < (3, 12):  # what an earlier test heard its processes end by ended with its event loop
        asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())  # pyright: ignore[reportDeprecated]
    with sync_playwright() as playwright:
        yield _launch(playwright, program, options)


def _launch(playwright: Playwright, program: str, options: Sequence[str]) -> Browser:
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", *options])


class Eyes:
    """One person before one window, logged in. Whatever the console complains of is kept."""

    def __init__(self, browser: Browser, server: Server, *, phone: bool = False) -> None:
        self.server, self.kind = server, "phone" if phone else "light"
        size = PHONE if phone else WIDE
        self._context = browser.new_context(base_url=server.address, reduced_motion="reduce", viewport=size)
        self._context.set_default_timeout(60_000)
        self.page: Page = self._context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto("/login")
        self.page.fill("#token", server.token)
        self.page.click("button")
        self.page.wait_for_selector("#main")

    def _console(self, message: ConsoleMessage) -> None:
        if message.text.startswith("htmx:sendAbort"):  # a newer request took its place: that is no fault
            if self.complaints and self.complaints[-1].startswith("htmx:afterRequest"):
                self.complaints.pop()
        elif message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def look(self, *, phone: bool = False, dark: bool = False) -> None:
        """Change the window or its colours; a context of its own for each would take half a second of processor."""
        self.kind = "phone" if phone else "dark" if dark else "light"
        self.page.set_viewport_size(PHONE if phone else WIDE)
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def open(self, path: str) -> Page:
        """Open a screen, and wait until it hears what happens."""
        self.page.goto(path)
        self.page.wait_for_selector("#live[data-state]")
        return self.page

    def shot(self, name: str) -> None:
        """Keep a picture of the whole screen; only by night: it takes long and decides nothing."""
        if BY_NIGHT:
            SHOTS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=SHOTS / f"{name}-{self.kind}.png", full_page=True)

    def faults(self) -> list[str]:
        """Return what keeps people out, as axe finds it: only what is serious."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes']][:5]}"
            for each in found
            if each["impact"] in SERIOUS
        ]

    def wider_than_window(self) -> bool:
        """Tell whether a person has to scroll sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")

    def examine(self, screens: Mapping[str, str]) -> None:
        """Open screens, by their paths, in light and dark, on a phone and a tablet: no serious fault, none too wide."""
        for kind in LOOKS:
            self.look(**kind)
            for path, name in screens.items():
                self.open(path)
                self.shot(name)
                found = self.faults()
                assert not found, (path, self.kind, found)
                assert not self.wider_than_window(), (path, self.kind)
                if not kind:  # the colours and words are those of the wide window: only the layout is another
                    self.kind = "tablet"
                    self.page.set_viewport_size(TABLET)
                    self.shot(name)
                    assert not self.wider_than_window(), (path, self.kind)
                    self.look()
        self.look()

    def close(self) -> None:
        self._context.close()


@contextlib.contextmanager
def looking(browser: Browser, server: Server, *, phone: bool = False) -> Generator[Eyes]:
    """Look at a server; at the end the console must have had nothing to complain of."""
    eyes = Eyes(browser, server, phone=phone)
    try:
        yield eyes
        assert not eyes.complaints, eyes.complaints
    finally:
        eyes.close()


def examine(browser: Browser, server: Server, path: str, name: str) -> None:
    """Look at a screen in light, in dark and on a phone: no serious fault, no sideways scrolling."""
    examine_all(browser, server, {path: name})


def examine_all(browser: Browser, server: Server, screens: Mapping[str, str]) -> None:
    """Look so at several screens, by their paths, in a window of their own."""
    with looking(browser, server) as eyes:
        eyes.examine(screens)
