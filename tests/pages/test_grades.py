"""Grades on the page: how a result was checked, and a race whose winner the user chooses, as a user sees them."""

import pytest
from playwright.sync_api import Browser, expect

from tests.rig.browser import Eyes, examine_all
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow


def writes(server: Server, name: str, text: str) -> str:
    return server.corral.script(f'[[step]]\nwrite = "{name}"\ntext = "{text}"\n', f"{name}.toml")


def test_a_race_in_which_none_is_proven_better_is_decided_here(
    browser: Browser, eyes: Eyes, server: Server, repo: Repo
) -> None:
    agents = [writes(server, "one.txt", "1"), writes(server, "two.txt", "2\\n2\\n2\\n")]
    run = server.client.submit("make it so", repo=str(repo.folder), agents=agents, checks=["test -d ."]).run
    until(lambda: server.client.show(run).status == "waiting", "it waits for the user")
    screens = {f"/runs/{run}": "choice", "/inbox": "choice-inbox", f"/runs/{run}/compare": "choice-compare"}
    examine_all(browser, server, screens)
    page = eyes.open("/inbox")
    expect(page.locator("article")).to_contain_text("none is proven better")
    expect(page.get_by_role("button", name="scripted #2")).to_be_visible()
    page = eyes.open(f"/runs/{run}")
    needs = page.locator(".needs")
    expect(needs.get_by_role("button", name="scripted #1")).to_be_visible()
    expect(needs.locator("button.primary")).to_have_count(0)
    needs.get_by_role("link", name="Compare them").click()
    expect(page.get_by_text("None is proven better.")).to_be_visible()
    expect(page.locator(".ranking .grade.unharmed")).to_have_count(2)
    page.locator(f"#attempt-{run}-2").get_by_role("button", name="Pick").click()
    until(lambda: server.client.show(run).status == "done", "the choice counts")
    assert server.client.show(run).nodes[0].winner == f"{run}-2"
    expect(page.locator(f"#attempt-{run}-2.won")).to_be_visible()


def test_how_a_result_was_checked_is_on_its_run(eyes: Eyes, server: Server, repo: Repo) -> None:
    agent = writes(server, "there.txt", "1")
    run = server.client.submit("make it so", repo=str(repo.folder), agents=[agent], checks=["test -s there.txt"]).run
    until(lambda: server.client.show(run).status == "done", "it is done")
    page = eyes.open(f"/runs/{run}")
    expect(page.locator(".run-head .grade")).to_contain_text("proven")
    expect(page.locator("#panel .reasons li").first).to_be_visible()
    page.get_by_text("How it was checked").click()
    expect(page.get_by_role("group", name="Runs of the checks").get_by_text("base", exact=True)).to_be_visible()
    eyes.examine({f"/runs/{run}": "evidence"})
