"""Children: tasks that an agent at work hands to another, each a run of its own below its parent's."""

import json
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from corral.testing.stage import KEY, tagged_processes, until
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.talkers import caller, command, flow, going, left, node, task

WAIT = """
def wait(child):
    while not (told := call("child_result", child=child))["over"]:
        pass
    return told
"""

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]


@pytest.fixture
def repo(corral: Corral) -> Repo:
    caller(corral, more="cost_usd = 0.25")
    return corral.repo()


def spawning(inner: str, **more: Any) -> str:
    arguments = "".join(f", {name}={value!r}" for name, value in more.items())
    return f'{WAIT}\nchild = call("spawn_task", task={task(inner)!r}{arguments})\n'


def test_a_child_works_and_its_parent_takes_its_work_over(corral: Corral, repo: Repo) -> None:
    inner = """
        write("part.txt", "part")
        call("send_mail", to="parent", text="on my way")
        call("finish", result={"parts": 1})
        """
    outer = spawning(inner, reason="it is too much for one") + (
        "import subprocess\n"
        'told = wait(child["child"])\n'
        'assert told["status"] == "done", told\n'
        'assert call("list_files", node=child["child"])["files"] == ["part.txt"]\n'
        'assert call("read_file", node=child["child"], path="part.txt")["text"] == "part"\n'
        'assert read_mail()[0]["from"] == child["child"]\n'
        'subprocess.run(["git", "cherry-pick", told["commit"]], check=True, stdout=subprocess.DEVNULL)\n'
        'write("told.txt", told)\n'
    )
    run = flow(corral, repo, {"only": node(outer)}, budget={"usd": 5})
    told = json.loads(left(repo, run, "only", "told.txt"))
    assert json.loads(told["output"]) == {"parts": 1}
    assert left(repo, run, "only", "part.txt") == "part"
    child = corral("show", told["child"], "--json").json
    assert child["status"] == "done"
    assert child["parent"] == run["run"]
    assert run["children"] == [told["child"]]
    assert corral("show", "@last", "--json").json["run"] == run["run"], "a child is nobody's last run"
    assert corral("show", "--json", cwd=repo.folder).json["run"] == run["run"], "nor the newest of its repository"
    assert run["cost"]["usd"] == 0.5, "the child's cost counts to the parent"


def test_children_are_bounded(corral: Corral, repo: Repo) -> None:
    corral.config('[toolbox]\nchildren = 3\ndepth = 1\n[toolbox.delegate]\n"*" = ["developer"]\n')
    deeper = f'write("deeper.txt", call("spawn_task", task={task("")!r}))'
    outer = f"""
deeper = call("spawn_task", task={task(deeper)!r}, budget_usd=0.3)["child"]
refused = [call("spawn_task", task="x", role="reviewer"), call("spawn_task", task="x", agent="other")]
refused += [call("spawn_task", task="x", budget_usd=20), call("spawn_task", task="x", role="no such role")]
while not call("child_result", child=deeper)["over"]:
    pass
refused.append(call("read_file", node=deeper, path="deeper.txt")["text"])
spawned = [call("spawn_task", task={task("")!r}, budget_usd=0.3, role="developer") for _ in range(3)]
refused += [each for each in spawned if isinstance(each, str)]
assert len(refused) == 6, refused
refused.append(call("child_result", child="01q1nq4z9c3v"))
write("refused.txt", chr(10).join(refused))
"""
    outcome = corral.run(repo, task(outer), "--agent", "caller", "--budget", "5")
    assert outcome.code == 0, outcome
    refused = repo.read(outcome.attempt["branch"], "refused.txt")
    for words in (
        "may not hand work to `reviewer`",
        "a child may not be `other`",
        "a child for $20.00: only $4.",
        "may not hand work to `no such role`",
        "1 deep already",
        "3 children were spawned already",
        "you have no child `01q1nq4z9c3v`",
    ):
        assert words in refused, refused


def test_stop_of_the_parent_stops_the_child(corral: Corral, repo: Repo) -> None:
    outer = spawning('write("half.txt", "half")\ntime.sleep(1000)') + "time.sleep(1000)"
    with going(corral, repo, {"only": node(outer)}) as process:
        child = until(
            lambda: [run for run in corral("ls", "--json").json if run["strategy"] == "single"], "there is a child"
        )[0]["run"]
        until(lambda: any(event["type"] == "started" for event in corral.events(child)), "the child works")
        parent = next(run["run"] for run in corral("ls", "--json").json if run["run"] != child)
        assert corral("stop", parent).code == 0
        process.end()
    assert corral("show", child, "--json").json["status"] == "stopped"
    assert not tagged_processes(f"CORRAL_ATTEMPT={child}")


def test_a_child_ends_with_its_parent(corral: Corral, repo: Repo) -> None:
    outer = spawning("time.sleep(1000)") + 'write("child.txt", child["child"])'
    run = flow(corral, repo, {"only": node(outer)})
    child = corral("show", left(repo, run, "only", "child.txt"), "--json").json
    assert child["status"] == "stopped"
    assert "spawned it has ended" in child["reason"]


FIRST = 'call("list_nodes")["you"]["attempt"].endswith("-1")'  #: whether it is the first try of its node


def test_children_without_a_budget_share_what_their_parent_has(corral: Corral, repo: Repo) -> None:
    """Four are spawned at once, and there is money for the parent and three of them."""
    spawned = f'[call("spawn_task", task={task("write(str(time.time_ns()), 1)")!r}) for _ in range(4)]'
    outer = f"""
{WAIT}
found = [wait(each["child"]) for each in {spawned} if isinstance(each, dict)]
write("told.txt", [each["status"] for each in found])
"""
    run = flow(corral, repo, {"only": node(outer)}, budget={"usd": 1})
    told = json.loads(left(repo, run, "only", "told.txt"))
    assert told.count("done") == 3, told
    assert run["cost"]["usd"] == 1.0


def crashed(corral: Corral, repo: Repo, outer: str, count: int) -> tuple[str, list[str]]:
    """Kill corral when so many runs below one are at work; return that run and those below it."""
    with corral.going(*command(corral, repo, {"only": node(outer)}, budget={"usd": 5})) as process:

        def at_work() -> list[str]:
            listed = [run["run"] for run in corral("ls", "--json").json if run["strategy"] == "single"]
            said = [run for run in listed if any(event["type"] == "reported" for event in corral.events(run))]
            return sorted(said) if len(said) == count else []

        children = until(at_work, "the children work")
        parent = next(run["run"] for run in corral("ls", "--json").json if run["run"] not in children)
        process.process.kill()
        process.process.wait()
    return parent, children


def test_after_a_crash_children_go_on_with_their_parent(corral: Corral, repo: Repo) -> None:
    """A child, a grandchild: both are gone on with, and nothing is spawned or paid twice."""
    grandchild = f'call("report_progress", text="here")\nif {FIRST}: time.sleep(1000)\nwrite("leaf.txt", "leaf")'
    again = f"""
{WAIT}
mine = call("list_nodes")["children"]
write("seen.txt", prompt)
child = mine[0] if mine else call("spawn_task", task=%r)["child"]
call("report_progress", text="here")
told = wait(child)
assert told["status"] == "done", told
write("files.txt", told["files"])
"""
    outer = again % task(again % task(grandchild))
    parent, children = crashed(corral, repo, outer, 2)
    outcome = corral("resume", parent, "--json")
    assert outcome.code == 0, outcome
    run = outcome.json
    assert json.loads(left(repo, run, "only", "files.txt")) == ["files.txt", "seen.txt"]
    seen = left(repo, run, "only", "seen.txt")
    assert "do not spawn them again" in seen
    assert run["children"][0] in seen
    shown = [corral("show", each, "--json").json for each in children]
    assert [each["status"] for each in shown] == ["done", "done"]
    assert sorted(each["run"] for each in corral("ls", "--json").json) == sorted([parent, *children])
    attempts = [attempt for each in (run, *shown) for attempt in each["nodes"][0]["attempts"]]
    assert [attempt["status"] for attempt in attempts] == ["stopped", "done"] * 3
    assert run["cost"]["usd"] == sum(attempt["cost"]["usd"] for attempt in attempts) == 0.25 * 6
    assert not any(tagged_processes(f"CORRAL_ATTEMPT={each}") for each in (parent, *children))


def test_after_a_crash_a_stop_leaves_no_child_open(corral: Corral, repo: Repo) -> None:
    parent, (child,) = crashed(
        corral, repo, spawning('call("report_progress", text="here")\ntime.sleep(1000)') + "time.sleep(1000)", 1
    )
    assert corral("stop", parent).code == 0
    assert corral("show", child, "--json").json["status"] == "stopped"
    assert not tagged_processes(f"CORRAL_ATTEMPT={child}")


def test_children_rest_with_their_parent(corral: Corral, repo: Repo) -> None:
    inner = f'call("report_progress", text="here")\nif {FIRST}: time.sleep(1000)\nwrite("leaf.txt", "leaf")'
    outer = f"""
{WAIT}
mine = call("list_nodes")["children"]
child = mine[0] if mine else call("spawn_task", task={task(inner)!r})["child"]
write("told.txt", wait(child)["files"])
"""
    with going(corral, repo, {"only": node(outer)}) as process:
        child = until(
            lambda: [run["run"] for run in corral("ls", "--json").json if run["strategy"] == "single"],
            "there is a child",
        )[0]
        until(lambda: any(event["type"] == "reported" for event in corral.events(child)), "the child works")
        parent = next(run["run"] for run in corral("ls", "--json").json if run["run"] != child)
        assert corral("pause", parent).code == 0
        process.end()
    assert [corral("show", each, "--json").json["status"] for each in (parent, child)] == ["paused", "paused"]
    outcome = corral("resume", parent, "--json")
    assert outcome.code == 0, outcome
    assert json.loads(left(repo, outcome.json, "only", "told.txt")) == ["leaf.txt"]


def test_a_council_has_a_lead_and_a_cheap_helper_and_shows_what_each_cost(corral: Corral, repo: Repo) -> None:
    source = f"""{WAIT}
import subprocess
child = call("spawn_task", task="Write part.txt", agent="openai:gpt-5")
told = wait(child["child"])
subprocess.run(["git", "cherry-pick", told["commit"]], check=True, stdout=subprocess.DEVNULL)
write("whole.txt", told["status"])
"""
    turns = [
        Turn(text="So.", write={"path": "part.txt", "content": "part\n"}, usage=Usage(input=1000, output=200)),
        Turn(text="Done.", usage=Usage(input=1200, output=10)),
    ]
    assert corral("flow", "new", "council").code == 0
    with ScriptedModel(turns) as model:
        corral.env["OPENAI_API_KEY"] = KEY
        corral.config(f'[agents.openai]\nsettings = {{ OPENAI_BASE_URL = "{model.url}/v1" }}')
        corral.config('[toolbox]\nagents = ["openai"]')
        words = [
            "--input",
            f"task={task(source)}",
            "--input",
            "helper=openai:gpt-5",
            "--input",
            "check=grep part part.txt",
        ]
        outcome = corral(
            "flow", "run", corral.root / "council.yaml", *words, "--agent", "caller", "--repo", repo.folder, "--json"
        )
    assert outcome.code == 0, outcome
    run = outcome.json
    assert left(repo, run, "lead", "part.txt") == "part"
    assert left(repo, run, "lead", "whole.txt") == "done"
    assert run["split"].keys() == {"caller", "openai:gpt-5"}
    assert run["split"]["caller"] == 0.25
    assert 0 < run["split"]["openai:gpt-5"] < 0.05
    assert "split    caller $0.25, openai:gpt-5 $0.00" in corral("show", run["run"]).out
