"""Inbox, cost, flows, agents, settings: each is used as a person would, and looked at in light, in dark, on a phone."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.rig.browser import Eyes, examine, looking
from tests.rig.machines import add_machine
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
    expect(page.locator(".success")).to_contain_text("yes")
    until(lambda: status(server, run) == "done", "the flow went on")
    expect(page.locator("#inbox-count")).to_be_hidden()
    (kept,) = server.corral("inbox", "--all", "--json").json
    assert (kept["answer"], kept["answered_by"]) == ("yes", "token first")
    asking = server.client.submit("ask", repo=str(repo.folder), agents=[server.corral.script(ASKS)]).run
    page.get_by_label("Your answer").fill("green & <i>not</i> blue")
    page.get_by_role("heading", name="Inbox").click()  # elsewhere: the list is renewed while nothing has the focus
    with page.expect_response(lambda answer: answer.url.endswith("/inbox")):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('corral:tick'))")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator(".success")).to_contain_text("green & <i>not</i> blue")
    server.client.stop(asking)


def test_an_answer_can_be_taken_back_and_is_given_by_keys_and_by_a_swipe(
    browser: Browser, server: Server, repo: Repo
) -> None:
    runs = [server.client.submit("", flow=GATE, repo=str(repo.folder)).run for _ in range(2)]
    until(lambda: len(server.client.inbox()) == 2, "both gates wait")
    with looking(browser, server) as eyes:
        page = eyes.open("/inbox")
        page.keyboard.press("j")
        page.keyboard.press("2")
        expect(page.locator("#pending")).to_contain_text("“No” is sent in 5 s.")
        expect(page.locator("article.pending")).to_have_count(1)
        page.get_by_role("button", name="Take back").click()
        expect(page.locator("#pending p")).to_have_count(0)
        page.keyboard.press("n")
        page.keyboard.press("z")
        expect(page.locator("#pending p")).to_have_count(0)
        assert len(server.client.inbox()) == 2, "nothing was sent"
        page.keyboard.press("y")
        expect(page.locator(".success")).to_contain_text("yes")
        page.keyboard.press("y")
        page.goto("/runs")  # who leaves has decided
        until(lambda: not server.client.inbox(), "it was sent")
        eyes.complaints.clear()  # a request that outlives its page
    until(lambda: {status(server, run) for run in runs} == {"done"}, "both went on")
    last = server.client.submit("", flow=GATE, repo=str(repo.folder)).run
    until(lambda: len(server.client.inbox()) == 1, "the gate waits")
    with looking(browser, server, phone=True) as eyes:
        page = eyes.open("/")
        expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox")).to_contain_text("1")
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox").click()
        page.locator("article").evaluate(
            """row => { const at = (x) => [new Touch({identifier: 1, target: row, clientX: x, clientY: 300})];
            row.dispatchEvent(new TouchEvent("touchstart", {bubbles: true, touches: at(60), changedTouches: at(60)}));
            row.dispatchEvent(new TouchEvent("touchend", {bubbles: true, touches: [], changedTouches: at(240)})); }"""
        )
        expect(page.locator("#pending")).to_contain_text("“Yes” is sent")
        until(lambda: status(server, last) == "done", "the swipe answered it")


def test_money_is_seen_and_limited(eyes: Eyes, server: Server, repo: Repo) -> None:
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
    page = eyes.open("/cost?by=agent&days=7")
    expect(page.locator(".costs")).to_contain_text("1 of 1 done")
    assert page.locator(".spark g").count() == 7
    page.get_by_label("$", exact=True).fill("0.50")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_text("the line is the limit of a day, $0.50")).to_be_visible()
    eyes.examine({"/cost": "cost"})
    assert all("422" in each for each in eyes.complaints)  # the browser's own word for a refused form
    eyes.complaints.clear()


def test_a_flow_is_checked_while_it_is_written_and_then_run(eyes: Eyes, server: Server) -> None:
    eyes.examine({"/flows?begin=tdd": "flows-template"})
    folder = str(server.corral.repo().folder)
    page = eyes.open("/flows")
    expect(page.get_by_label("Repository")).to_have_value(folder)  # never the root that the repositories are in
    text = page.get_by_label("The flow, in YAML")
    text.fill("nodes:\n  a: {run: 'true', needs: [b]}\n  c: {task: x, run: y}\n")
    expect(page.get_by_role("heading", name="2 mistakes")).to_be_visible()
    expect(page.get_by_role("button", name="Run it")).to_be_disabled()
    expect(page.locator(".mistakes")).to_contain_text("`a` needs `b`, which is no node")
    expect(page.locator(".gutter .wrong")).to_have_text(["2", "3"])
    eyes.shot("flows-mistakes")
    page.get_by_role("button", name="line 3").click()
    assert page.evaluate(
        "getSelection().toString() || document.activeElement.value.slice(document.activeElement.selectionStart)"
    ).startswith("{task")
    text.fill(
        "inputs: {word: {}, tone: {default: kind}}\nnodes:\n  a: {run: 'echo \"<script>alert(1)</script>\" > a.txt'}\n  b: {needs: [a], run: 'echo {{word}} > b.txt'}\n"
    )
    expect(page.get_by_role("heading", name="It is right: 2 nodes")).to_be_visible()
    expect(page.locator(".picture svg")).to_contain_text("<script>")
    page.get_by_text("Another folder").click()
    page.get_by_label("Another folder").fill(folder + "/nosuch")
    page.get_by_label("Another folder").press("Tab")
    expect(page.get_by_role("heading", name="It cannot be run here")).to_be_visible()
    page.get_by_label("Another folder").fill(folder)
    page.get_by_label("Another folder").press("Tab")
    expect(page.get_by_label("Input tone")).to_have_attribute("placeholder", "kind")
    page.get_by_label("Input word").fill("hello")
    page.get_by_role("button", name="Run it").click()
    page.wait_for_url("**/runs/*")
    run = page.url.rsplit("/", 1)[-1]
    until(lambda: status(server, run) == "done", "the flow is done")
    assert "hello" in server.corral("diff", run).out


def test_agents_say_what_is_there_and_how_to_mend_the_rest(eyes: Eyes) -> None:
    page = eyes.open("/agents")
    expect(page.get_by_role("heading", name="Ready to work")).to_be_visible()
    expect(page.locator("#doctor")).to_contain_text("scripted")
    expect(page.locator("#doctor")).to_contain_text("npm install -g @openai/codex")
    eyes.examine({"/agents": "agents"})


def test_machines_are_shown_with_their_slots_and_their_last_error(eyes: Eyes, server: Server, repo: Repo) -> None:
    before = server.corral.config_file.read_text() if server.corral.config_file.exists() else ""
    add_machine(server.corral, "near", "slots = 3\nlabels = {arch = 'arm64'}")
    add_machine(server.corral, "away", command='["sh", "-c", "echo no route to host >&2; exit 255"]')
    try:
        page = eyes.open("/agents")
        rows = page.locator("#machines li")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("ready")
        expect(rows.nth(0)).to_contain_text("0 of 3 slots")
        expect(rows.nth(0)).to_contain_text("arch = arm64")
        expect(rows.nth(1)).to_contain_text("not reached")
        expect(rows.nth(1)).to_contain_text("no route to host")
        eyes.examine({"/agents": "machines"})
        agent = server.corral.script('[[step]]\nwrite = "n.txt"\ntext = "n"\n', "near.toml")
        run = server.client.submit("there", repo=str(repo.folder), agents=[agent], machine="near").run
        until(lambda: status(server, run) == "done", "it is done there")
        expect(eyes.open(f"/runs/{run}").locator("dt", has_text="Machine")).to_be_visible()
    finally:
        server.corral.config_file.write_text(before)


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
    page.get_by_text("pause the queue").click()
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
