"""Now and history: empty they teach, then they show what happens by themselves."""

from contextlib import closing
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from corral.model import RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.sqlite.store import Store
from tests.rig.browser import Eyes, examine_all, looking
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving

pytestmark = pytest.mark.slow

WRITES = '[[step]]\nwrite = "hello.txt"\ntext = "hello\\n"\n'
HANGS = '[[step]]\nsay = "started"\n[[step]]\nhang = 600\n'


def submitted(server: Server, repo: Repo, task: str, script: str = WRITES) -> str:
    agents = [server.corral.script(script, f"{task.replace(' ', '-')}.toml")]  # each its own: one may be read late
    return server.client.submit(task, repo=str(repo.folder), agents=agents).run


def test_empty_screens_teach(browser: Browser, server: Server) -> None:
    examine_all(browser, server, {"/": "now-empty", "/runs": "runs-empty", "/new": "new"})
    with looking(browser, server) as eyes:
        expect(eyes.open("/").get_by_text("Nothing runs")).to_be_visible()
        assert "corral run" in eyes.page.inner_text("main")


def test_what_happens_is_shown_without_asking_again(eyes: Eyes, server: Server, repo: Repo) -> None:
    page = eyes.open("/")
    running = submitted(server, repo, "hold on", HANGS)
    expect(page.locator(f"#now-{running}")).to_contain_text("running")
    done = submitted(server, repo, "write it down")
    ready = page.locator(f"#ready-{done}")
    expect(ready).to_contain_text("· 1 file")
    eyes.shot("now")
    ready.get_by_role("button", name="Merge").click()
    page.wait_for_url(f"**/runs/{done}/merge")
    expect(page.locator("main")).to_contain_text("merged")
    page = eyes.open("/")
    expect(page.locator(f"#run-{done}")).to_contain_text("done")
    server.client.stop(running)
    expect(page.locator(f"#run-{running}")).to_contain_text("stopped")


def test_a_new_task_offers_what_the_repository_and_the_machine_have(eyes: Eyes, server: Server, repo: Repo) -> None:
    repo.commit({"Makefile": "test:\n\ttrue\n", "corral.toml": '[defaults]\nchecks = ["test -d ."]\n'})
    server.corral.agent("mine", "echo hello > hello.txt")
    page = eyes.open(f"/new?repo={quote(str(repo.folder))}")
    chips = page.locator("[data-agent]").evaluate_all("boxes => boxes.map(box => box.parentElement.innerText.trim())")
    plain = [words for words in chips if not words.endswith("no login seen")]
    assert "mine" in plain
    assert chips == plain + [words for words in chips if words not in plain], "what has no login comes last"
    expect(page.get_by_label("test -d .")).to_be_checked()
    expect(page.get_by_label("make test")).not_to_be_checked()
    page.get_by_label("What is to be done?").fill("say hello")
    page.get_by_label("mine", exact=True).check()
    expect(page.locator("#command")).to_contain_text("--agent mine --check 'test -d .'")
    assert "None" not in page.inner_text("main")
    page.get_by_label("What is to be done?").press("Control+Enter")
    page.wait_for_url("**/runs/01*")
    run = server.client.show(page.url.rpartition("/")[2])
    assert run.task == "say hello"


def test_history_is_searched(eyes: Eyes, server: Server, repo: Repo) -> None:
    for task in ("paint the fence", "mend the gate"):
        submitted(server, repo, task)
    page = eyes.open("/runs")
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_label("Words in the task").fill("fence")
    expect(page.locator("[data-row]")).to_have_count(1)
    assert "q=fence" in page.url
    page.get_by_label("Words in the task").fill("nosuch")
    expect(page.get_by_text("No run is like that")).to_be_visible()


def test_keys_move_about(eyes: Eyes, server: Server, repo: Repo) -> None:
    run = submitted(server, repo, "only one")
    page = eyes.open("/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('href')") == f"/runs/{run}"
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("/")
    page.keyboard.type("only")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?q=only")


def test_who_is_not_known_is_asked_for_a_token_and_led_on(browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.address)
    page = context.new_page()
    page.goto("/runs?q=fence")
    assert "/login?then=" in page.url
    page.fill("#token", "wrong")
    page.click("button")
    expect(page.get_by_text("That token is not known")).to_be_visible()
    page.fill("#token", server.token)
    page.click("button")
    page.wait_for_url("**/runs?q=fence")
    page.goto("/nosuch")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("navigation", name="Screens").get_by_role("link", name="Runs")).to_be_visible()
    context.close()


def test_a_login_link_never_leads_elsewhere(server: Server) -> None:
    for then in ("https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/ok\n"):
        answer = server.ask("GET", f"/login?then={quote(then, safe='')}", token=None)
        assert b'name="then" value="/"' in answer.body, then


def test_ten_thousand_runs_are_read_page_by_page(browser: Browser, corral: Corral) -> None:
    with closing(Store(corral.home)) as store, store.transaction():
        for number in range(10_000):
            flow = strategies.single(Task(prompt=f"task {number}"), AgentChoice("a"))
            plan = RunPlan(flow=flow, repo="/r", git_dir="/r", base=None, into=None)
            name = names.run_id(1_700_000_000_000 + number * 1000, number)
            status = "done" if number % 10 else "failed"
            store.add_run(RunRecord(id=name, status=status, reason=None, plan=plan, created=1.7e9 + number))
    with serving(corral, corral.root) as server, looking(browser, server) as eyes:
        page = eyes.open("/runs")
        expect(page.locator("[data-row]")).to_have_count(50)
        expect(page.locator("main")).to_contain_text("9000 done")
        expect(page.locator("[data-row]").first).to_contain_text("task 9999")
        page.get_by_role("link", name="Older").click()
        expect(page.locator("[data-row]").first).to_contain_text("task 9949")
        page.get_by_label("Words in the task").fill("task 17")
        page.get_by_label("State").select_option("failed")
        expect(page.locator("[data-row]").first).to_contain_text("task 1790")
        assert "status=failed" in page.url
        eyes.open("/")
        expect(page.locator("[data-row]")).to_have_count(12)
