"""Every screen with much in it, as after weeks of use: looked at in light, in dark and on a phone."""

import time
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from corral.model import RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.sqlite.store import Store
from tests.rig.browser import examine_all, looking
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

OLD_RUNS = 500
ENDINGS = ("done", "done", "done", "failed", "stopped", "timed_out", "over_budget", "limited")
LONG = (
    "Make the importer read https://example.org/a/very/long/address/without/any/place/to/break/it/"
    + "x" * 120
    + " and say what is wrong with each line, in the words of the person who wrote it, and never give up at the first one"
)
WORKS = """
[[step]]
say = "I look at the fence first: the third post is rotten, the gate hangs by one hinge."
[[step]]
run = "ls -la; echo built"
[[step]]
write = "fence/NAME.py"
text = "def paint(colour: str) -> str:\\n    return f'painted {colour}'\\n"
[[step]]
spend = 0.25
input = 12000
output = 3400
"""
FAILS = '[[step]]\nsay = "I try"\n[[step]]\nrun = "false"\n[[step]]\nfail = "refused"\ntext = "the model will not do that"\n'
HANGS = (
    '[[step]]\nsay = "I am at work on the roof"\n[[step]]\nwrite = "roof.md"\ntext = "early"\n[[step]]\nhang = 600\n'
)
ASKS = '[[step]]\nask = "Which colour is the gate to be?"\nwait = true\nchoices = ["red", "blue"]\n'
FLOW = """
name: fence
nodes:
  plan: {agent: "PLANNER", task: Plan the fence}
  posts: {agent: "WORKER", task: Set the posts and see that each stands straight, needs: [plan], checks: ["test -d fence"]}
  rails: {agent: "OTHER", task: Fix the rails, needs: [plan]}
  ask: {gate: "Paint the fence green?", default: "no", deadline: 1h, needs: [posts]}
  paint: {needs: [ask], run: "echo green > fence.txt"}
"""


class House:
    """A server with runs of every kind in it."""

    def __init__(self, server: Server, repo: Repo) -> None:
        self.server, self.repo = server, repo
        script = server.corral.script
        worker, other = (
            script(WORKS.replace("NAME", "posts"), "worker.toml"),
            script(WORKS.replace("NAME", "rails"), "o.toml"),
        )
        self._old_runs()
        repo.commit({"hello.txt": "hello\n"})
        self.race = self.ended("Mend the fence", [worker, other], checks=["test -d fence"], strategy="race")
        self.failed = self.ended("Paint what cannot be painted", [script(FAILS, "fails.toml")])
        self.long = self.ended(LONG, [worker], checks=["test -e nowhere", "test -d fence"])
        self.conflict = self.ended(
            "Say hello otherwise", [script('[[step]]\nwrite = "hello.txt"\ntext = "mine"\n', "c.toml")]
        )
        repo.commit({"hello.txt": "theirs\n"})
        assert server.ask("POST", f"runs/{self.conflict}/merge", {}).status == 409
        planner = script('[[step]]\nwrite = "plan.md"\ntext = "a fence"\n', "planner.toml")
        flow = FLOW.replace("WORKER", worker).replace("PLANNER", planner).replace("OTHER", other)
        self.flow = self.begun("", [], flow=flow)
        self.asking = self.begun("Hang the gate", [script(ASKS, "asks.toml")])
        self.running = self.begun("Build the roof", [script(HANGS, "hangs.toml")])
        until(
            lambda: len(server.corral("inbox", "--json").json) >= 3, "the gate, the question and the conflict wait", 60
        )
        assert server.corral("budget", "set", "--per-day", "20").code == 0

    def begun(self, task: str, agents: list[str], **more: Any) -> str:
        return self.server.client.submit(task, repo=str(self.repo.folder), agents=agents, **more).run

    def ended(self, task: str, agents: list[str], **more: Any) -> str:
        run = self.begun(task, agents, **more)
        self.server.client.wait(run)
        return run

    def _old_runs(self) -> None:
        now = time.time()
        with closing(Store(self.server.corral.home)) as store, store.transaction():
            for number in range(OLD_RUNS):
                at = now - 86_400 * 30 + number * 5000
                flow = strategies.single(Task(prompt=f"task {number} of long ago"), AgentChoice("claude"))
                plan = RunPlan(flow=flow, repo="/home/me/project", git_dir="/r", base=None, into=None)
                name = names.run_id(int(at * 1000), number)
                status = ENDINGS[number % len(ENDINGS)]
                store.add_run(RunRecord(id=name, status=status, reason=None, plan=plan, created=at, ended=at + 60))


def test_every_screen_with_much_in_it(browser: Browser, server: Server, repo: Repo) -> None:
    house = House(server, repo)
    screens = {
        "/": "full-now",
        "/runs": "full-runs",
        "/inbox": "full-inbox",
        "/cost?by=agent&days=30": "full-cost",
        f"/runs/{house.race}": "full-race",
        f"/runs/{house.flow}": "full-flow",
        f"/runs/{house.running}": "full-running",
        f"/runs/{house.long}": "full-long",
    }
    examine_all(browser, server, screens)
    with looking(browser, server) as eyes:
        expect(eyes.open("/").locator("main")).to_contain_text("Build the roof")
        expect(eyes.page.locator("section", has=eyes.page.locator("#stuck-title")).locator("[data-row]")).to_have_count(
            10
        )
        expect(eyes.open("/runs").locator("[data-row]")).to_have_count(50)
        entry = eyes.open("/inbox").locator("article", has_text="both changed hello.txt")
        expect(entry).to_contain_text("Say hello otherwise")
        entry.get_by_role("link", name="choose file by file").click()
        expect(eyes.page.get_by_role("heading", name="Conflicts")).to_be_visible()
    for run in (house.running, house.asking, house.flow):
        server.client.stop(run)
