"""Flows written in Python: the same file, the same mistakes, the same run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import corral as library
from corral.model.errors import BadRequest
from tests.rig.command import Corral
from tests.rig.flows import doer, write
from tests.rig.processes import gone

PROGRAM = """
import sys
import corral

flow = corral.Flow("greeting", defaults={"agent": "doer"})
flow.input("name", default="ada")
flow.task("write", "Write it\\nDO: echo hello {{name}} > hello.txt", checks=["test -s hello.txt"])
flow.run_command("look", "grep -q hello hello.txt", needs=["write"])
flow.task("more", "Add\\nDO: echo more >> hello.txt", needs=["look"])
flow.merge("land", into="main", needs=["more"])
heard = []
run = corral.run(flow, repo=sys.argv[1], inputs={"name": "grace"}, listen=heard.append)
print(run.status, *[f"{node.id}={node.status}" for node in run.nodes], bool(heard))
"""


@pytest.mark.slow
def test_a_flow_from_python_runs_to_its_end(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, repo.folder], env=corral.env, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["done", "write=done", "look=done", "more=done", "land=done", "True"], ran
    assert (repo.folder / "hello.txt").read_text() == "hello grace\nmore\n"
    assert [run["status"] for run in corral("ls", "--json").json] == ["done"]


ASYNC = """
import asyncio, sys
import corral

async def main(repo, sleep):
    task = corral.Task("DO: echo hello > hello.txt", agents=["doer"], checks=["test -s hello.txt"], files=["a.txt"])
    async with corral.Engine() as engine:
        one, two = await asyncio.gather(engine.run(task, repo), engine.run("DO: true", repo, agent="doer"))
        print(one.status, two.status, one.nodes[0].attempts[0].files_changed)
        print("+hello" in await engine.diff(one.run), (await engine.preview(one.run)).files)
        print((await engine.merge(one.run)).merge.status, (await engine.undo(one.run)).merge.status)
        long = await engine.start(corral.Task(f"DO: echo half > half.txt; exec sleep {sleep}", agents=["doer"]), repo)
        async for stored in engine.events(long):
            if stored.attempt:
                break
        await engine.start(corral.Task(f"DO: exec sleep {sleep}", agents=["doer"]), repo)
        print((await engine.stop(long)).status, engine.show("@last").status in ("queued", "running"), len(engine.runs()))
    print("left")

asyncio.run(main(*sys.argv[1:]))
print([corral.show().status, corral.diff(corral.run("DO: echo one > one.txt", sys.argv[1], agent="doer").run)[:6]])
print([corral.merge().merge.status, corral.undo().merge.status])
"""


@pytest.mark.slow
def test_an_engine_in_a_program_of_its_own(corral: Corral, sleep: str) -> None:
    doer(corral)
    repo = corral.repo()
    before = repo.head
    ran = subprocess.run(
        [sys.executable, "-c", ASYNC, repo.folder, sleep], env=corral.env, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [
        "done failed ('hello.txt',)",
        "True ('hello.txt',)",
        "merged undone",
        "stopped True 4",
        "left",
        "['stopped', 'diff -']",
        "['merged', 'undone']",
    ], ran
    gone(sleep)
    assert (repo.head, (repo.folder / "hello.txt").exists()) == (before, False)
    assert {run["status"] for run in corral("ls", "--json").json} == {"done", "failed", "stopped"}


def test_what_a_task_cannot_say(corral: Corral, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in corral.env.items():
        monkeypatch.setenv(name, value)
    repo = corral.repo().folder
    with pytest.raises(BadRequest, match="twice"):
        library.run(library.Task("x", agents=["a"]), repo, agent="b")
    with pytest.raises(BadRequest, match="no inputs"):
        library.run("x", repo, inputs={"a": 1})
    with pytest.raises(BadRequest, match="no agent is called `nobody`"):
        library.run("x", repo, agent="nobody")
    assert corral("ls", "--json").json == []


def test_both_forms_are_flow_files(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flow = library.Flow("forms", budget=2.0, on_failure="stop")
    flow.task("design", "Design", agent="doer", output={"files": ["string"]})
    flow.task(
        "build",
        "Build {{item}}",
        agent="doer",
        needs=[{"node": "design", "on": "success"}],
        for_each="design.output.files",
    )
    flow.run_command("look", "ls", needs=["build"], timeout="1m")
    flow.gate("ok", "Land it?", needs=["look"], default="yes", deadline="1h")
    flow.merge("land", needs=["ok"])
    drawn = [
        corral("flow", "graph", write(corral, text, name), "--repo", repo.folder, "--json").json
        for text, name in ((flow.to_json(), "flow.json"), (flow.to_yaml(), "flow.yaml"))
    ]
    assert drawn[0] == drawn[1]
    assert "land" in json.dumps(drawn[0])


def test_mistakes_are_told_all_at_once_and_nothing_starts(corral: Corral, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = corral.repo()
    for name, value in corral.env.items():
        monkeypatch.setenv(name, value)
    flow = library.Flow("wrong")
    flow.task("a", "A", needs=["nobody"]).task("b", "B", agent="no-such-agent")
    with pytest.raises(BadRequest) as raised:
        library.run(flow, repo=repo.folder)
    assert "`nobody`, which is no node" in str(raised.value)
    assert "no agent is called `no-such-agent`" in str(raised.value)
    assert corral("ls", "--json").json == []
    with pytest.raises(BadRequest, match="already"):
        flow.task("a", "again")
    with pytest.raises(BadRequest, match="cannot be written down"):
        library.Flow("odd").input("x", default=object()).to_json()


def test_our_commands_start_without_it(tmp_path: Path) -> None:
    program = "import sys, corral; corral.__version__; print('corral.frontends.python' in sys.modules, 'asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="nothing"):
        _ = library.nothing  # type: ignore[attr-defined]
