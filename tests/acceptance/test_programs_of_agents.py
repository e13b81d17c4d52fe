"""Programs that agents run by their toolbox: on their workspace, within their scope, with their own tools."""

import json
from typing import Any

from tests.rig.command import Corral
from tests.rig.talkers import caller, command, flow, node, task

FILES = {"a.txt": "one two\n", "private/key.txt": "hidden words\n", "docs/b.txt": "b\n"}


def events(corral: Corral, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in corral("logs", "@last", "--json").out.splitlines()]
    return [line for line in lines if line["type"] == kind]


def test_an_agent_runs_a_program_on_its_own_workspace(corral: Corral) -> None:
    program = """
async def main(input):
    await write_file(path="made.txt", content="by a program")
    ran = await run_command(command="cat made.txt > copied.txt; cat private/key.txt; id -u")
    status = await git(command="status")
    await report(text="half way")
    return {"files": await list_files(), "ran": ran["output"], "status": status, "input": input}
"""
    source = f"""
        write("uncommitted.txt", "mine")
        done = call("run_program", language="python", source={program!r}, input={{"a": 1}})
        write("result.json", done)
    """
    caller(corral)
    repo = corral.repo(files=FILES)
    corral.config('[scope]\nread = ["**", "!private/**"]\n')
    run = flow(corral, repo, {"main": node(source)})
    (attempt,) = run["nodes"][0]["attempts"]
    done = json.loads(repo.read(attempt["branch"], "result.json"))
    assert (done["status"], done["error"]) == ("done", None), done
    assert done["result"]["input"] == {"a": 1}
    assert {"a.txt", "made.txt", "uncommitted.txt"} <= {*done["result"]["files"]}
    assert "private/key.txt" not in done["result"]["files"]
    assert "hidden words" not in json.dumps(done)
    assert {"state": "??", "path": "made.txt"} in done["result"]["status"]
    assert repo.read(attempt["branch"], "copied.txt") == "by a program"
    called = [each["tool"] for each in events(corral, "called_tool") if each["tool"].startswith("program:")]
    assert called == [f"program:{name}" for name in ("write_file", "run_command", "git", "report", "list_files")]
    assert [each["text"] for each in events(corral, "reported")] == ["half way"]


def test_a_program_of_an_agent_has_what_was_granted_and_what_the_scope_shows(corral: Corral) -> None:
    program = """export default async function main(input, tools) {
        const found = [];
        for (const [name, given] of [["read_file", {path: "private/key.txt"}], ["write_file", {path: "a.txt", content: ""}],
                                     ["read_file", {path: "../../corral.db"}], ["write_file", {path: "docs/b.txt", content: "c"}]]) {
            found.push(await tools[name](given).then(() => "done", error => error.class));
        }
        found.push(await tools.run_command({command: "true"}).catch(error => error.class));
        return found;
    }"""
    source = f"""
        done = call("run_program", language="javascript", source={program!r}, tools=["read_file", "write_file"])
        write("docs/result.json", done)
        write("docs/unknown.json", call("run_program", source="1", tools=["everything"]))
    """
    caller(corral)
    repo = corral.repo(files=FILES)
    corral.config('[scope]\nread = ["**", "!private/**"]\nwrite = ["docs/**"]\n')
    run = flow(corral, repo, {"main": node(source)})
    (attempt,) = run["nodes"][0]["attempts"]
    done = json.loads(repo.read(attempt["branch"], "docs/result.json"))
    assert done["result"] == ["refused", "refused", "refused", "done", "refused"], done
    assert "there is no tool `everything`" in repo.read(attempt["branch"], "docs/unknown.json")
    assert attempt["files_changed"] == ["docs/b.txt", "docs/result.json", "docs/unknown.json"]


def test_a_program_spawns_tasks_and_waits_for_them(corral: Corral) -> None:
    program = """
import asyncio
async def main(input):
    children = await asyncio.gather(*[spawn_task(task=task) for task in input])
    found = []
    for child in children:
        ended = await wait(child=child["child"], wait_seconds=45)
        while not ended["over"]:
            ended = await wait(child=child["child"], wait_seconds=45)
        found.append([ended["status"], ended["files"]])
    return found
"""
    source = f"""
        given = {[task(f"write('{name}.txt', 'x')") for name in "ab"]!r}
        done = call("run_program", language="python", source={program!r}, input=given, timeout_seconds=300)
        write("result.json", done)
    """
    caller(corral)
    repo = corral.repo(files=FILES)
    run = flow(corral, repo, {"main": node(source)})
    (attempt,) = run["nodes"][0]["attempts"]
    done = json.loads(repo.read(attempt["branch"], "result.json"))
    assert done["result"] == [["done", ["a.txt"]], ["done", ["b.txt"]]], done["error"]


def test_a_program_writes_nothing_where_the_task_is_read_only(corral: Corral) -> None:
    program = "async def main(input):\n    return await write_file(path='x', content='x')\n"
    source = f"""
        say(call("run_program", language="python", source={program!r})["error"]["class"])
    """
    caller(corral)
    repo = corral.repo(files=FILES)
    outcome = corral(*command(corral, repo, {"main": node(source, read_only=True)}))
    assert outcome.code == 0, outcome
    assert outcome.json["nodes"][0]["attempts"][0]["output"].startswith("refused")
