"""The screen of a run: watched live from start to end, steered, stopped, done again, answered, looked at closely."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from corral.store.parts.families import Lineage, Mail
from corral.store.records import Child, MailMessage
from corral.store.sqlite.store import Store
from tests.rig.browser import WIDE, Eyes, examine
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

PLANS = """
[[step]]
say = "I plan it first"
[[step]]
ask = "Which colour is the gate?"
wait = true
choices = ["red", "blue"]
[[step]]
write = "plan.md"
text = "a {answer} gate\\n"
[[step]]
spend = 0.25
input = 1200
output = 300
"""
BUILDS = """
[[step]]
say = "I build"
[[step]]
run = "ls; echo built"
[[step]]
write = "NAME.txt"
text = "one\\ntwo\\n"
"""
FAILS = """
[[step]]
say = "I try"
[[step]]
run = "false"
[[step]]
fail = "refused"
text = "the model will not do that"
"""
HANGS = '[[step]]\nsay = "started"\n[[step]]\nwrite = "early.txt"\ntext = "early"\n[[step]]\nhang = 600\n'
FLOW = """
name: fence
budget: {usd: 2}
nodes:
  plan: {agent: "PLANNER", task: Plan the fence}
  posts: {agent: "POSTS", task: Set the posts, needs: [plan], checks: ["grep -q one posts.txt"]}
  rails: {agent: "RAILS", task: Fix the rails, needs: [plan]}
  paint: {agent: "FAILING", task: Paint it, needs: [posts], read_only: true}
  sorry: {agent: "SORRY", task: Say sorry, needs: [{node: paint, on: failure}]}
  sweep: {agent: "SWEEP", task: Sweep up, needs: [{node: rails, on: always}, {node: paint, on: always}]}
  paths: {agent: "PATHS", task: "Lay path {{item}}", needs: [plan], for_each: [north, south, west], read_only: true}
"""


def flow(server: Server) -> str:
    text = FLOW.replace("PLANNER", server.corral.script(PLANS, "plan.toml"))
    text = text.replace("FAILING", server.corral.script(FAILS, "paint.toml"))
    for name in ("POSTS", "RAILS", "SORRY", "SWEEP"):
        text = text.replace(name, server.corral.script(BUILDS.replace("NAME", name.lower()), f"{name.lower()}.toml"))
    return text.replace("PATHS", server.corral.script('[[step]]\nsay = "laid"\n', "paths.toml"))


def submitted(server: Server, repo: Repo, task: str, *scripts: str, **more: Any) -> str:
    agents = [
        server.corral.script(text, f"{task.split(maxsplit=1)[0]}-{place}.toml") for place, text in enumerate(scripts)
    ]
    return server.client.submit(task, repo=str(repo.folder), agents=agents, **more).run


def lines(page: Page) -> str:
    return page.inner_text("#lines")


def test_a_flow_is_watched_from_start_to_end(eyes: Eyes, server: Server, repo: Repo) -> None:
    run = server.client.submit("", repo=str(repo.folder), flow=flow(server)).run
    page = eyes.open(f"/runs/{run}")
    expect(page.locator(".node.running")).to_have_count(1)
    expect(page.locator(".needs")).to_contain_text("Which colour is the gate?")
    expect(page.locator(".run-head").get_by_text("corral answer")).to_be_hidden()
    expect(page.locator(".run-head .needs .last")).to_contain_text("Without an answer, in")
    expect(page.get_by_role("link", name="Compare")).to_have_count(0)
    assert page.locator(".edge.failure").count() == 1
    assert page.locator(".edge.always").count() == 2
    expect(page.locator("#lines")).to_contain_text("I plan it first")
    eyes.shot("run-flow-running")
    page.get_by_role("button", name="red").click()
    expect(page.locator(".needs")).to_have_count(0)
    expect(page.locator(".kicker .badge:not(.grade)")).to_contain_text(re.compile("partial|failed"))
    expect(page.locator(".node.done")).to_have_count(6)
    expect(page.locator(".node.failed")).to_have_count(1)
    expect(page.locator(".chip.done")).to_have_count(3)
    expect(page.locator("#live")).to_contain_text("this run is over")
    assert "the model will not do that" in lines(page)
    assert page.locator(".timeline li:not(.axis)").count() == 9
    page.locator("a.node", has_text="posts").click()
    expect(page.locator("#panel")).to_contain_text("posts.txt +2")
    expect(page.locator("#panel")).to_contain_text("grep -q one posts.txt")
    expect(page.locator("#lines")).not_to_contain_text("I plan it first")
    assert "node=posts" in page.url
    page.get_by_role("button", name="Prompt").click()
    expect(page.locator("#reader-text")).to_contain_text("Set the posts")
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator("#lines")).to_contain_text("I plan it first")
    eyes.examine({f"/runs/{run}": "run-flow"})


def test_it_is_steered_stopped_and_done_again(browser: Browser, eyes: Eyes, server: Server, repo: Repo) -> None:
    run = submitted(server, repo, "hold on until I say so", HANGS + BUILDS.replace("NAME", "held"))
    page = eyes.open(f"/runs/{run}")
    expect(page.locator("#lines")).to_contain_text("started")
    expect(page.locator("#panel .files")).to_contain_text("early.txt")
    page.get_by_label("Tell its agents something").fill("also update the docs")
    page.get_by_role("button", name="Steer").click()
    expect(page.locator("#steer-result")).to_contain_text(re.compile("sent to|gets"))
    examine(browser, server, f"/runs/{run}", "run-running")
    page.keyboard.press("p")
    expect(page.locator(".kicker .badge:not(.grade)")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".kicker .badge:not(.grade)")).to_contain_text("running")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What they did so far is kept")
    dialog.get_by_role("button", name="No").press("Enter")
    assert server.client.show(run).status == "running"
    page.keyboard.press("s")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator(".kicker .badge:not(.grade)")).to_contain_text("stopped")
    expect(page.locator("#steer")).to_have_count(0)
    server.corral.script(BUILDS.replace("NAME", "held"), "hold-0.toml")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".kicker .badge:not(.grade)")).to_contain_text("done")
    expect(page.locator("#panel")).to_contain_text("held.txt")
    expect(page.get_by_role("link", name="Merge")).to_have_attribute("href", f"/runs/{run}/merge")


def test_a_race_and_a_failure_say_why(eyes: Eyes, server: Server, repo: Repo) -> None:
    race = submitted(
        server, repo, "race for it", BUILDS.replace("NAME", "good"), FAILS, BUILDS.replace("NAME", "other"),
        checks=["test -e good.txt"], strategy="race",
    )  # fmt: skip
    failed = submitted(server, repo, "fail at it", FAILS)
    checked = submitted(
        server, repo, "get it right", BUILDS.replace("NAME", "b"), checks=["echo '1 of 2 is <b>wrong</b>'; test -e c.txt"],
        retries=0,
    )  # fmt: skip
    for run in (race, failed, checked):
        until(lambda run=run: server.client.show(run).status in ("done", "failed"), "it is over")
    page = eyes.open(f"/runs/{race}")
    expect(page.locator("#graph-title")).to_have_count(0)  # one node needs no graph
    expect(page.locator(".tiles")).to_contain_text("test -e good.txt ✓")
    expect(page.locator("#panel")).to_contain_text("★ won")
    expect(page.locator("#panel")).to_contain_text("before: failed (1)")
    page.get_by_role("button", name="Errors").click()
    expect(page.locator("#lines")).not_to_contain_text("I build")
    expect(page.locator("#lines")).to_contain_text("the model will not do that")
    page.get_by_role("button", name="Receipt").click()
    expect(page.locator("#reader-text")).to_contain_text("tree")
    page.set_viewport_size({"width": 768, "height": 900})
    page = eyes.open(f"/runs/{race}/compare")
    menu = page.get_by_role("navigation", name="Screens")
    assert menu.evaluate("nav => nav.scrollWidth <= nav.clientWidth"), "every screen is in reach on a tablet"
    assert page.locator(".ranking td.why").last.evaluate("cell => cell.clientWidth") > 200, "words are not squeezed"
    page.set_viewport_size(WIDE)
    page = eyes.open(f"/runs/{failed}")
    expect(page.locator("#panel .problem")).to_contain_text("refused the model will not do that")
    expect(page.locator(".tiles")).to_contain_text("no request to a provider")
    page = eyes.open(f"/runs/{checked}")
    expect(page.locator(".run-head .why .reason")).to_contain_text("A check failed: echo '1 of 2")
    expect(page.locator(".run-head .why .tail")).to_have_text("1 of 2 is <b>wrong</b>")
    expect(page.locator(".run-head")).not_to_contain_text("check_failed")
    expect(page.get_by_text(f"corral retry {checked}")).to_be_hidden()
    page.get_by_label("The command").click()
    expect(page.get_by_text(f"corral retry {checked}")).to_be_visible()
    eyes.examine({f"/runs/{race}": "run-race", f"/runs/{failed}": "run-failed"})


def test_children_and_mail_are_shown_and_who_may_only_look_has_no_buttons(server: Server, repo: Repo) -> None:
    parent, child = (submitted(server, repo, task, HANGS) for task in ("lead it", "follow <it>"))
    until(lambda: server.client.show(parent).status == "running", "it is at work")
    attempt, now, store = f"{parent}-1", time.time(), Store(server.corral.home)
    Lineage(store).add(
        Child(run=child, root=parent, parent=parent, node="main", attempt=attempt, depth=1, budget_usd=None, at=now)
    )
    letter = MailMessage(
        run=parent, box="main", sender="reviewer", sender_run=parent, sender_attempt=attempt, thread="t", priority=1,
        text="mind the <gap>", at=now,
    )  # fmt: skip
    Mail(store, 5).send([letter], lambda *_: None)
    store.close()
    made = server.ask("POST", "tokens", {"name": "looker", "scopes": ["read"]}).json
    answer = server.ask("GET", f"/runs/{parent}", token=made["secret"])
    text = answer.body.decode()
    assert f'href="/runs/{child}">follow &lt;it&gt;</a>' in text
    assert "mind the &lt;gap&gt;" in text
    assert 'id="act-stop"' not in text
    assert 'id="steer"' not in text
    assert 'id="act-stop"' in server.ask("GET", f"/runs/{parent}/part").body.decode()
    for verb in ("stop", "pause", "resume", "retry", "steer", "condense", "answers/1"):
        assert server.ask("POST", f"/runs/{parent}/{verb}", b"", token=made["secret"]).status == 403
    for run in (child, parent):
        server.client.stop(run)
