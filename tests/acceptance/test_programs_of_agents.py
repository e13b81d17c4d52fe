"""Programs that agents run by their toolbox: on their workspace, within their scope, with their own tools."""

import json
from typing import Any

from corral.testing.stage import until
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
    asked = await ask_user(question="which?", default="a", wait_seconds=0)
    later = await read_answer(ask=asked["ask"])
    mail = await ack_mail(ids=[1])
    found = {"files": await list_files(), "ran": ran["output"], "status": status, "input": input}
    return {**found, "answered": later["answered"], "acknowledged": mail["acknowledged"]}
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
    assert (done["result"]["answered"], done["result"]["acknowledged"]) == (False, 0)
    called = [each["tool"] for each in events(corral, "called_tool") if each["tool"].startswith("program:")]
    names = "write_file", "run_command", "git", "report", "ask_user", "read_answer", "ack_mail", "list_files"
    assert called == [f"program:{name}" for name in names]
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


PROGRAM_NODES = """
name: words
inputs: {least: {default: 2}}
nodes:
  list: {run: "echo '[\\"a.txt\\", \\"it is \\\\\\"quoted\\\\\\"\\"]'", output: json}
  count:
    program: count.ts
    needs: [list]
    tools: [read_file, write_file]
    input: {names: "{{list.output}}", said: "first: {{list.output[1]}}", least: "{{least}}"}
  say: {run: "echo {{count.output.words}} > said.txt", needs: [count]}
"""
COUNT = """
export default async function main(input: any, tools: any) {
    const words = (await tools.read_file({path: input.names[0]})).trim().split(" ").length;
    await tools.write_file({path: "count.txt", content: String(words)});
    return {words, said: input.said, least: input.least};
}
"""


def test_a_node_of_a_flow_is_a_program(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    file = corral.root / "words.yaml"
    file.write_text(PROGRAM_NODES)
    (corral.root / "count.ts").write_text(COUNT)
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert outcome.code == 0, outcome
    nodes = {node["id"]: node["attempts"][0] for node in outcome.json["nodes"]}
    assert nodes["count"]["output"] == {"words": 2, "said": 'first: it is "quoted"', "least": "2"}
    assert nodes["count"]["cost"]["usd"] == 0
    assert repo.read(nodes["count"]["branch"], "count.txt") == "2"
    assert repo.read(nodes["say"]["branch"], "said.txt") == "2"
    assert repo.read(nodes["say"]["branch"], "count.txt") == "2"


def test_a_program_node_that_fails_says_why(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    file = corral.root / "fails.yaml"
    file.write_text("name: fails\nnodes:\n  count: {program: count.ts, input: {names: [a.txt]}}\n")
    (corral.root / "count.ts").write_text(COUNT)
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert outcome.code == 1
    (attempt,) = outcome.json["nodes"][0]["attempts"]
    assert attempt["error"]["class"] == "denied"
    assert "`read_file` is not granted" in attempt["error"]["message"]


def test_mistakes_in_a_program_node_have_their_lines(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    file = corral.root / "wrong.yaml"
    file.write_text(
        "name: wrong\nnodes:\n  a: {program: none.ts}\n  b: {program: a.txt}\n"
        "  c: {program: ../secret.ts}\n  d: {program: ok.ts, tools: [read_files]}\n  e: {program: ok.ts, agent: claude}\n"
    )
    (corral.root / "ok.ts").write_text(COUNT)
    (corral.root.parent / "secret.ts").write_text(COUNT)
    outcome = corral("flow", "check", file, "--repo", repo.folder)
    assert outcome.code == 2
    said = outcome.err
    assert "3:16: there is no program `none.ts`" in said, said
    assert "`a.txt` is no program" in said
    assert "there is no program `../secret.ts`" in said
    assert "no tool is called `read_files` (hint: did you mean `read_file`?)" in said
    assert "unknown key `agent`" in said


def test_a_program_that_was_cut_off_by_a_kill_is_done_once_from_the_beginning(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    file = corral.root / "slow.yaml"
    flag = corral.root / "shared" / "flag"
    flag.parent.mkdir()
    corral.config(f'[scope]\nread = ["**", "{flag.parent}/**"]\n')
    file.write_text(
        "name: slow\nnodes:\n  slow: {program: slow.py, tools: [read_file, write_file, run_command, report]}\n"
    )
    (corral.root / "slow.py").write_text(
        "async def main(input):\n"
        "    text = await read_file(path='a.txt')\n"
        "    await write_file(path='a.txt', content=text + 'once')\n"
        "    await report(text='begun')\n"
        f"    await run_command(command='until [ -e {flag} ]; do sleep 0.05; done', timeout_seconds=60)\n"
        "    return (await read_file(path='a.txt')).count('once')\n"
    )
    with corral.going("flow", "run", file, "--repo", repo.folder) as going:
        until(lambda: corral("ls", "--json").json and events(corral, "reported"), "the program has begun")
        going.process.kill()
    flag.touch()
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed
    tries = resumed.json["nodes"][0]["attempts"]
    assert [each["status"] for each in tries] == ["stopped", "done"]
    assert tries[-1]["output"] == 1
    assert repo.read(tries[-1]["branch"], "a.txt") == "one two\nonce"


PROJECT = '[project]\nname = "calc"\ndependencies = ["httpx>=0.28", "msgspec"]\n'


def test_an_agent_has_git_tests_and_packages_as_data(corral: Corral) -> None:
    source = """
        write("a.txt", "changed\\n")
        found = {name: call(name, **given) for name, given in {
            "git": {"command": "status"},
            "run_tests": {"command": "python3 -m unittest -v"},
            "packages": {},
        }.items()}
        write("result.json", found)
    """
    caller(corral)
    tests = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.fail()\n"
    )
    files = {
        **FILES,
        "pyproject.toml": PROJECT,
        "test_it.py": tests,
        "package.json": '{"dependencies": {"left": "^1"}}',
    }
    repo = corral.repo(files=files)
    run = flow(corral, repo, {"main": node(source)})
    (attempt,) = run["nodes"][0]["attempts"]
    found = json.loads(repo.read(attempt["branch"], "result.json"))
    assert found["git"] == [{"state": "M", "path": "a.txt"}]
    tested = found["run_tests"]
    assert (tested["passed"], tested["failed"], tested["exit_code"]) == (1, 1, 1), tested
    python, node_js = found["packages"]
    assert (python["manager"], python["install"]) == ("pip", "pip install -e .")
    assert python["packages"] == [{"name": "httpx", "version": ">=0.28"}, {"name": "msgspec", "version": ""}]
    assert (node_js["manager"], node_js["packages"]) == ("npm", [{"name": "left", "version": "^1"}])
