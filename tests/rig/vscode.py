"""A real VS Code, served to a real browser, with an extension and a suite of it in its extension host."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page

from tests.rig.agents import PROJECT
from tests.rig.browser import started

WAIT_SECONDS = 300
#: The page says here how the suite ended, and what it printed.
HEARD = """
window.suite = { lines: [] };
window.codeAutomationLog = (kind, words) => /^(passed|failed|all steps)/.test(words[0]) && window.suite.lines.push(words[0]);
window.codeAutomationExit = (code) => { window.suite.code = code; };
"""
PRESSED = ".notifications-center .monaco-button, .quick-input-list .label-name, .quick-input-action .monaco-button"
SETTINGS = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "workbench.reduceMotion": "on",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
}


def installed() -> Path:
    known = PROJECT / ".venv" / "vscode"
    assert known.exists(), "VS Code is not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())


@contextlib.contextmanager
def serving_code(folder: Path, env: Mapping[str, str], settings: Mapping[str, Any]) -> Generator[str]:
    """Serve VS Code with a data folder of its own; yield its address."""
    machine = folder / "data" / "Machine"
    machine.mkdir(parents=True)
    (machine / "settings.json").write_text(json.dumps({**SETTINGS, **settings}))
    options = ["--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms"]
    options += ["--telemetry-level", "off", "--disable-telemetry", "--disable-workspace-trust"]
    options += ["--enable-smoke-test-driver", "--server-data-dir", str(folder), "--extensions-dir", str(folder / "own")]
    log = folder / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [installed() / "node", installed() / "server-main.js", *options],
            env={**env, "EXTENSIONS_GALLERY": "{}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            assert process.stdout
            for line in process.stdout:
                if found := re.search(rb"Extension host agent listening on (\d+)", line):
                    break
            else:
                raise AssertionError(log.read_text())
            yield f"http://127.0.0.1:{int(found[1])}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=60)


class Window:
    """A window of VS Code in which a suite runs."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def suite(self) -> dict[str, Any]:
        return self.page.evaluate("window.suite")

    def press(self, words: str, picture: Path) -> None:
        """Press a button of a notice, or a choice of a list, when it is there; keep a picture of what was seen then."""
        exactly = f"^{re.escape(words)}$"
        self.page.wait_for_function(
            """([places, words]) => window.suite.code !== undefined
               || [...document.querySelectorAll(places)].some(
                      each => each.checkVisibility() && new RegExp(words).test(each.textContent))""",
            arg=[PRESSED, exactly],
            timeout=WAIT_SECONDS * 1000,
        )
        picture.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=picture)
        assert "code" not in self.suite, "\n".join(self.suite["lines"])
        self.page.locator(PRESSED).filter(has_text=re.compile(exactly)).first.click()

    def read(self, words: str, place: str = ".notifications-center") -> None:
        """Wait until a place, the list of notices or another, says this, as it is."""
        self.page.wait_for_function(
            """([place, words]) => window.suite.code !== undefined
               || [...document.querySelectorAll(place)].some(
                      each => each.textContent.replaceAll('\\u00a0', ' ').includes(words))""",
            arg=[place, words],
            timeout=WAIT_SECONDS * 1000,
        )
        assert "code" not in self.suite, "\n".join(self.suite["lines"])

    def look(self, place: str, picture: Path) -> None:
        """Wait until something is there, and keep a picture of it."""
        self.page.wait_for_function(
            "place => window.suite.code !== undefined || document.querySelector(place)",
            arg=place,
            timeout=WAIT_SECONDS * 1000,
        )
        self.page.screenshot(path=picture)
        assert "code" not in self.suite, "\n".join(self.suite["lines"])

    def end(self) -> dict[str, Any]:
        """Wait for the end of the suite; return its exit code and its lines."""
        self.page.wait_for_function("window.suite.code !== undefined", timeout=WAIT_SECONDS * 1000)
        return self.suite


@contextlib.contextmanager
def window_of(address: str, workspace: Path, extension: Path, suite: Path) -> Generator[Window]:
    """Open a folder with an extension under development, and run its suite."""
    host = address.removeprefix("http://")
    payload: Sequence[Sequence[str]] = [
        ["extensionDevelopmentPath", f"vscode-remote://{host}{extension}"],
        ["extensionTestsPath", f"vscode-remote://{host}{suite}"],
        ["skipWelcome", "true"],
    ]
    with started("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(HEARD)
        page = context.new_page()
        page.goto(f"{address}/?{urlencode({'folder': str(workspace), 'payload': json.dumps(payload)})}")
        yield Window(page)
        context.close()
