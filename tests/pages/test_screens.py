"""Inbox, cost, flows, agents, settings: each is used as a person would, and looked at in light, in dark, on a phone."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.rig.browser import Eyes, examine
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

GATE = """
nodes:
  ask: {gate: "Paint the <b>fence</b> green?", default: "no", deadline: 1h}
  paint: {needs: [ask], run: "echo green > fence.txt"}
"""
ASKS = '[[step]]\nask = "Which colour?"\n[[step]]\nhang = 600\n'
SPENDS = '[[step]]\nspend = 0.25\ninput = 1000\noutput = 500\n[[step]]\nwrite = "a.txt"\ntext = "a"\n'


def status(server: Server, run: str) -> str:
    return server.client.show(run).status


def test_what_waits_is_answered_in_place(browser: Browser, eyes: Eyes, server: Server, repo: Repo) -> None:
    page = eyes.open("/inbox")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    run = server.client.submit("", flow=GATE, repo=str(repo.folder)).run
    entry = page.locator("article")
    expect(entry).to_contain_text("Paint the <b>fence</b> green?")
    expect(entry).to_contain_text("Without an answer, in")
    expect(page.locator("#inbox-count")).to_contain_text("1")
    examine(browser, server, "/inbox", "inbox")
    page.get_by_role("button", name="yes").click()
    expect(page.locator(".told")).to_contain_text("yes")
    until(lambda: status(server, run) == "done", "the flow went on")
    expect(page.locator("#inbox-count")).to_be_hidden()
    (kept,) = server.corral("inbox", "--all", "--json").json
    assert (kept["answer"], kept["answered_by"]) == ("yes", "token first")
    asking = server.client.submit("ask", repo=str(repo.folder), agents=[server.corral.script(ASKS)]).run
    page.get_by_label("Your answer").fill("green & <i>not</i> blue")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".told")).to_contain_text("green & <i>not</i> blue")
    server.client.stop(asking)


def test_money_is_seen_and_limited(browser: Browser, eyes: Eyes, server: Server, repo: Repo) -> None:
    page = eyes.open("/cost")
    expect(page.get_by_text("Nothing was spent in this time")).to_be_visible()
    run = server.client.submit("spend", repo=str(repo.folder), agents=[server.corral.script(SPENDS)]).run
    until(lambda: status(server, run) == "done", "it is done")
    page = eyes.open("/cost?by=day&days=7")
    expect(page.locator(".big")).to_have_text("$0.25")
    assert page.locator(".plot g").count() == 7
    page.get_by_label("$", exact=True).fill("a lot")
    page.get_by_role("button", name="Set").click()
    expect(page.locator("[data-problem]")).to_contain_text("`a lot` is no amount of dollars")
    page.get_by_label("$", exact=True).fill("1.50")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".limit")).to_contain_text("$0.25 of $1.50")
    (limit,) = server.corral("budget", "--json").json["limits"]
    assert (limit["window"], limit["usd"], limit["spent"]) == ("day", 1.5, 0.25)
    expect(eyes.open("/").get_by_text("of $1.50")).to_be_visible()
    examine(browser, server, "/cost", "cost")
    assert all("422" in each for each in eyes.complaints)  # the browser's own word for a refused form
    eyes.complaints.clear()


def test_a_flow_is_checked_while_it_is_written_and_then_run(browser: Browser, eyes: Eyes, server: Server) -> None:
    examine(browser, server, "/flows?begin=tdd", "flows-template")
    page = eyes.open("/flows")
    text = page.get_by_label("The flow, in YAML")
    text.fill("nodes:\n  a: {run: 'true', needs: [b]}\n  c: {task: x, run: y}\n")
    expect(page.get_by_role("heading", name="2 mistakes")).to_be_visible()
    expect(page.locator(".mistakes")).to_contain_text("`a` needs `b`, which is no node")
    expect(page.locator(".gutter .wrong")).to_have_text(["2", "3"])
    eyes.shot("flows-mistakes")
    page.get_by_role("button", name="line 3").click()
    assert page.evaluate(
        "getSelection().toString() || document.activeElement.value.slice(document.activeElement.selectionStart)"
    ).startswith("{task")
    text.fill(
        "inputs: {word: {}}\nnodes:\n  a: {run: 'echo \"<script>alert(1)</script>\" > a.txt'}\n  b: {needs: [a], run: 'echo {{word}} > b.txt'}\n"
    )
    expect(page.get_by_role("heading", name="It is right: 2 nodes")).to_be_visible()
    expect(page.locator(".picture svg")).to_contain_text("<script>")
    page.get_by_label("Input word").fill("hello")
    page.get_by_label("Repository").fill(str(server.corral.repo().folder))
    page.get_by_role("button", name="Run it").click()
    page.wait_for_url("**/runs/*")
    run = page.url.rsplit("/", 1)[-1]
    until(lambda: status(server, run) == "done", "the flow is done")
    assert "hello" in server.corral("diff", run).out


def test_agents_say_what_is_there_and_how_to_mend_the_rest(browser: Browser, eyes: Eyes, server: Server) -> None:
    page = eyes.open("/agents")
    expect(page.get_by_role("heading", name="Ready to work")).to_be_visible()
    expect(page.locator("#doctor")).to_contain_text("scripted")
    expect(page.locator("#doctor")).to_contain_text("npm install -g @openai/codex")
    examine(browser, server, "/agents", "agents")


def test_settings_are_changed_and_secrets_shown_once(browser: Browser, eyes: Eyes, server: Server) -> None:
    page = eyes.open("/settings")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("New token").fill("phone")
    page.get_by_role("button", name="Make").click()
    secret = page.locator(".secret").inner_text()
    assert server.ask("GET", "runs", token=secret).status == 200
    assert server.ask("POST", "runs", {"task": "x"}, token=secret).status == 403
    _revoke(page, "phone")
    until(lambda: server.ask("GET", "runs", token=secret).status == 401, "the token is no longer known")
    expect(page.locator(".secret")).to_have_count(0)
    page.get_by_label("Runs at a time").fill("7")
    page.get_by_text("hold it").click()
    page.get_by_role("button", name="Save", exact=True).click()
    until(lambda: server.ask("GET", "queue").json["concurrency"] == 7, "the queue was changed")
    assert server.ask("GET", "queue").json["held"] is True
    page.get_by_role("button", name="Halt everything").click()
    expect(page.get_by_role("button", name="Let runs start again")).to_be_visible()
    refused = server.ask("POST", "runs", {"task": "x", "repo": str(server.corral.repo().folder)})
    assert refused.status == 409, refused
    examine(browser, server, "/settings", "settings")
    page.get_by_role("button", name="Let runs start again").click()
    expect(page.get_by_role("button", name="Halt everything")).to_be_visible()


def test_what_starts_by_itself_rests_goes_on_and_starts_now(eyes: Eyes, server: Server, repo: Repo) -> None:
    page = eyes.open("/settings")
    page.on("dialog", lambda dialog: dialog.accept())
    expect(page.get_by_text("corral schedule add nightly")).to_be_visible()
    asked = ("--agent", server.corral.script(SPENDS), "--repo", repo.folder)
    server.corral("schedule", "add", "nightly", "0 3 * * *", "Look around", *asked)
    server.corral("trigger", "add", "pushes", "Look at {{payload.subject}}", "--branch", "main", *asked)
    page = eyes.open("/settings")
    schedule, trigger = page.locator("tr", has_text="nightly"), page.locator("tr", has_text="pushes")
    for row, listed in ((schedule, "schedule"), (trigger, "trigger")):
        row.get_by_role("button", name="pause").click()
        expect(row).to_contain_text("paused")
        assert not server.corral(listed, "ls", "--json").json[0]["enabled"]
        row.get_by_role("button", name="resume").click()
        expect(row.get_by_role("button", name="pause")).to_be_visible()
        assert server.corral(listed, "ls", "--json").json[0]["enabled"]
    eyes.shot("settings-automatic")
    trigger.get_by_role("button", name="take away").click()
    expect(trigger).to_have_count(0)
    schedule.get_by_role("button", name="start now").click()
    page.wait_for_url("**/runs/*")
    expect(page.get_by_role("heading", name="Look around")).to_be_visible()


def _revoke(page: Page, name: str) -> None:
    page.locator("tr", has_text=name).get_by_role("button", name="revoke").click()
    expect(page.locator("tr", has_text=name)).to_contain_text("revoked")


def test_who_may_only_look_is_told_so(browser: Browser, server: Server) -> None:
    made = server.ask("POST", "tokens", {"name": "guest", "scopes": ["read"]}).json
    context = browser.new_context(base_url=server.address)
    page = context.new_page()
    page.goto("/login")
    page.fill("#token", made["secret"])
    page.click("button")
    page.goto("/new")
    expect(page.get_by_text("This login may only look")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_be_disabled()
    page.goto("/settings")
    expect(page.get_by_text("lacks the scope admin")).to_be_visible()
    csrf = page.evaluate("document.body.dataset.csrf")
    for path, sent in (
        ("/new", "task=x"),
        ("/settings/halt", ""),
        ("/cost/limit", "window=day&usd=1"),
        ("/flows/run", "flow=x"),
    ):
        answer = page.request.post(
            path,
            data=sent,
            headers={
                "X-CSRF-Token": csrf,
                "Origin": server.address,
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        assert answer.status == 403, path
        without = page.request.post(path, data=sent, headers={"Origin": server.address})
        assert without.status == 403, path
    page.goto("/runs")
    page.wait_for_selector("#live[data-state=on]")
    server.corral("token", "revoke", made["token"]["id"])
    page.wait_for_url("**/login?then=%2Fruns")  # without a click: nothing more is told to them
    context.close()
