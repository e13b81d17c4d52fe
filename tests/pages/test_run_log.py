"""The log of a run on its screen: very long, very fast, hostile."""

import time

import pytest
from playwright.sync_api import Page, expect

from corral.model.events import CalledTool, Said, ToolReturned
from corral.store.sqlite.store import Store
from tests.rig.browser import Eyes
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

HANGS = '[[step]]\nsay = "started"\n[[step]]\nhang = 600\n'
MOST_ROWS = 2000
HOSTILE = (
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">",
    "\x1b[31mred\x1b[0m \x1b]0;a title\x07and \x1b[2Jgone\x08\x00",
    "safe\u202etxt.exe\u2066",
    "{{ 7 * 7 }} ${7 * 7} &lt;b&gt;",
)


def hanging(server: Server, repo: Repo, task: str) -> tuple[str, str]:
    """Start a run; return it and its attempt once its agent is at work."""
    run = server.client.submit(task, repo=str(repo.folder), agents=[server.corral.script(HANGS)]).run
    log = f"runs/{run}/log"
    until(lambda: any(event["type"] == "said" for event in server.ask("GET", log).json["events"]), "it is at work")
    return run, server.client.show(run).nodes[0].attempts[0].id


def write(server: Server, run: str, attempt: str, texts: list[str]) -> None:
    """Let an agent have said all this, as fast as the store takes it."""
    store = Store(server.corral.home)
    for text in texts:
        store.note(run, Said(text), at=time.time(), node="main", attempt=attempt)
    store.close()


def rows(page: Page) -> int:
    return page.locator("#lines > .entry").count()


def left(page: Page) -> float:
    """Return how far it is to the end of the log."""
    return page.locator("#lines").evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight")


def scroll(page: Page, to: str) -> None:
    page.locator("#lines").evaluate(f"box => {{ box.scrollTop = {to}; }}")


def test_a_log_of_100_000_lines_opens_at_its_end_and_is_read_backwards(eyes: Eyes, server: Server, repo: Repo) -> None:
    run, attempt = hanging(server, repo, "talk")
    write(server, run, attempt, [f"line {number} of many" for number in range(100_000)])
    page = eyes.open(f"/runs/{run}")
    expect(page.locator("#lines > .entry").last).to_contain_text("line 99999 of many")
    assert rows(page) == 200
    while rows(page) < MOST_ROWS:
        before = rows(page)
        scroll(page, "0")
        until(lambda before=before: rows(page) > before, "older lines are there")
    first = page.locator("#lines > .entry").first.inner_text()
    scroll(page, "0")
    until(lambda: first not in page.locator("#lines > .entry").first.inner_text(), "older lines are there")
    assert rows(page) == MOST_ROWS
    assert "line 99999 of many" not in page.inner_text("#lines"), "what is far away is dropped"
    page.get_by_role("button", name="newest").click()
    expect(page.locator("#lines > .entry").last).to_contain_text("line 99999 of many")
    page.get_by_label("Search the log").fill("LINE 77 of")
    expect(page.locator("#lines > .entry")).to_have_count(1)
    expect(page.locator("#lines > .entry")).to_contain_text("line 77 of many")
    page.get_by_label("Search the log").fill("no such words")
    expect(page.locator("#lines")).to_contain_text("Nothing in this log is like that.")
    server.client.stop(run)


def test_a_flood_is_followed_and_hostile_words_are_only_words(eyes: Eyes, server: Server, repo: Repo) -> None:
    run, attempt = hanging(server, repo, f"flood {HOSTILE[0]}")
    page = eyes.open(f"/runs/{run}")
    expect(page.locator("#lines")).to_contain_text("started")
    write(server, run, attempt, [f"flood {number}." for number in range(5000)])
    expect(page.locator("#lines > .entry").last).to_contain_text("flood 4999.")
    assert rows(page) <= MOST_ROWS
    assert left(page) < 40, "it stays at the end"
    scroll(page, "box.scrollHeight / 2")
    write(server, run, attempt, [*HOSTILE, "x" * 100_000])
    expect(page.locator("#newest")).to_have_text("5 new ↓")
    assert left(page) > 40, "whoever reads further up is left there"
    page.locator("#newest").click()
    shown = page.locator("#lines > .entry").last
    expect(shown).to_contain_text("show all 100,000 characters")
    store = Store(server.corral.home)
    store.note(run, CalledTool("run", "cat x", "call-9"), at=time.time(), node="main", attempt=attempt)
    store.note(run, ToolReturned("call-9", ok=False, output=HOSTILE[0]), at=time.time(), node="main", attempt=attempt)
    store.close()
    expect(shown).to_contain_text("✗ run cat x failed: <script>")
    text = page.inner_text("#lines")
    assert HOSTILE[0] in text
    assert "red and gone\ufffd\ufffd" in text
    assert "safe\ufffdtxt.exe\ufffd" in text
    assert HOSTILE[3] in text
    assert not page.evaluate("document.body.innerText.includes('\\u202e')")
    assert page.evaluate("document.querySelectorAll('#main img').length") == 0
    assert page.title().startswith("flood <script>")
    assert page.locator("h1").inner_text().startswith("flood <script>")
    eyes.shot("run-hostile")
    server.client.stop(run)
