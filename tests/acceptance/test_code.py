"""Programs that call tools: the same task in each language, their limits and errors, and bad requests."""

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.server import serving

COUNTS = {
    "ts": """
        type Found = {path: string, words: number};
        export default async function main(input: {least: number}, tools: any): Promise<Found[]> {
            const found: Found[] = [];
            for (const path of await tools.list_files({pattern: "*.txt"})) {
                const words = (await tools.read_file({path})).split(/\\s+/).filter(Boolean).length;
                if (words >= input.least) found.push({path, words});
            }
            await tools.write_file({path: "out/words.txt", content: found.map(f => f.path).join("\\n")});
            return found;
        }
    """,
    "py": """
async def main(input):
    found = []
    for path in await list_files(pattern="*.txt"):
        words = len((await read_file(path=path)).split())
        if words >= input["least"]:
            found.append({"path": path, "words": words})
    await write_file(path="out/words.txt", content="\\n".join(each["path"] for each in found))
    return found
""",
}
ERRORS = {
    "js": """export default async function main(input, tools) {
        const found = [];
        for (const given of [{path: "none.txt"}, {path: "/x"}, {}]) {
            try { await tools.read_file(given) } catch (error) { found.push([error instanceof ToolError, error.class]) }
        }
        return found;
    }""",
    "py": """
async def main(input):
    found = []
    for given in ({"path": "none.txt"}, {"path": "/x"}, {}):
        try:
            await read_file(**given)
        except FileNotFoundError:
            found.append("not_found")
        except PermissionError:
            found.append("refused")
        except ValueError:
            found.append("bad_arguments")
    return found
""",
}


def program(corral: Corral, language: str, text: str) -> Path:
    file = corral.root / f"program.{language}"
    file.write_text(text)
    return file


def granted(*names: str) -> list[str]:
    return [word for name in names for word in ("--tool", name)]


@pytest.mark.parametrize("language", COUNTS)
def test_the_same_task_has_the_same_result_in_each_language(corral: Corral, language: str) -> None:
    repo = corral.repo(files={"a.txt": "one two three", "b.txt": "one", "sub/c.txt": "not asked for"})
    file = program(corral, language, COUNTS[language])
    tools = granted("list_files", "read_file", "write_file")
    outcome = corral("code", file, *tools, "--input", '{"least": 2}', "--json", cwd=repo.folder)
    assert outcome.code == 0, outcome
    found = outcome.json
    assert found["result"] == [{"path": "a.txt", "words": 3}]
    assert {name: found[name] for name in ("status", "calls", "error")} == {"status": "done", "calls": 4, "error": None}
    assert found["level"] in ("full", "strict")
    assert (repo.folder / "out/words.txt").read_text() == "a.txt"


def test_a_program_sees_why_a_call_failed(corral: Corral) -> None:
    repo = corral.repo()
    tool = granted("read_file")
    thrown = corral("code", program(corral, "js", ERRORS["js"]), *tool, "--repo", repo.folder, "--json").json
    assert thrown["result"] == [[True, "not_found"], [True, "refused"], [True, "bad_arguments"]]
    raised = corral("code", program(corral, "py", ERRORS["py"]), *tool, "--repo", repo.folder, "--json").json
    assert raised["result"] == ["not_found", "refused", "bad_arguments"]


def test_calls_of_one_program_run_side_by_side(corral: Corral) -> None:
    source = """export default async function main(input, tools) {
        const calls = Array.from({length: 4}, () => tools.run_command({command: "sleep 0.5"}));
        return (await Promise.all(calls)).map(each => each.seconds);
    }"""
    found = corral(
        "code", program(corral, "js", source), *granted("run_command"), "--json", cwd=corral.repo().folder
    ).json
    assert sum(found["result"]) > 1.2 * found["seconds"], found


def test_a_command_runs_in_a_box_on_a_copy_of_the_files(corral: Corral) -> None:
    source = """
async def main(input):
    await write_file(path="new.txt", content="from the program\\n")
    tests = await run_tests(command="cat new.txt; echo x > left.txt; echo '=== 1 failed, 2 passed in 0.10s ==='; exit 1")
    ran = await run_command(command="ls; cat /etc/shadow; cat ../../../../config.toml; env", timeout_seconds=20)
    return [tests, ran]
"""
    repo = corral.repo(files={"a.txt": "a", ".gitignore": "ignored/", "ignored/b.txt": "b"})
    tools = granted("write_file", "run_tests", "run_command")
    outcome = corral("code", program(corral, "py", source), *tools, "--json", cwd=repo.folder, env={"MY_KEY": "k1k2k3"})
    tests, ran = outcome.json["result"]
    assert (tests["exit_code"], tests["passed"], tests["failed"]) == (1, 2, 1)
    assert tests["output"].startswith("from the program")
    assert ran["output"].splitlines()[:2] == ["a.txt", "new.txt"], ran
    assert "k1k2k3" not in ran["output"]
    assert not (repo.folder / "left.txt").exists()


def test_git_answers_in_structures(corral: Corral) -> None:
    source = """
async def main(input):
    return {name: await git(command=name) for name in ("status", "log", "diff", "show", "branches")}
"""
    repo = corral.repo(files={"a.txt": "a\n"})
    (repo.folder / "a.txt").write_text("b\n")
    found = corral("code", program(corral, "py", source), *granted("git"), "--json", cwd=repo.folder).json["result"]
    assert found["status"] == [{"state": "M", "path": "a.txt"}]
    assert found["log"][0]["commit"] == repo.git("rev-parse", "HEAD")
    assert found["diff"]["files"] == ["a.txt"]
    assert "+b" in found["diff"]["text"]
    assert [each["name"] for each in found["branches"]] == [repo.git("branch", "--show-current")]


def test_tools_that_need_a_run_are_refused_outside_one(corral: Corral) -> None:
    source = "async def main(input):\n    return await spawn_task(task='x')\n"
    outcome = corral("code", program(corral, "py", source), *granted("spawn_task"), "--json", cwd=corral.repo().folder)
    assert outcome.code == 1
    assert outcome.json["error"]["class"] == "refused"
    assert "needs a run" in outcome.json["error"]["message"]


def test_a_program_reports_and_remembers(corral: Corral) -> None:
    source = """
async def main(input):
    await report(text="half\\x1b[31m done")
    await remember(text="tests need a database", files=["tests/**"])
    return await search_memory(words="database")
"""
    repo = corral.repo()
    tools = granted("report", "remember", "search_memory")
    outcome = corral("code", program(corral, "py", source), *tools, "--json", cwd=repo.folder)
    assert "half [31m done" in outcome.err
    assert [each["state"] for each in outcome.json["result"]] == ["proposed"]
    (fact,) = corral("memory", "ls", "--json", cwd=repo.folder).json
    assert (fact["source"], fact["state"]) == ("program", "proposed")


def test_what_it_prints_is_talk_and_its_result_is_data(corral: Corral) -> None:
    source = "export default async function main() { console.log('words'); return {a: 1} }"
    outcome = corral("code", program(corral, "js", source), cwd=corral.repo().folder)
    assert (outcome.code, outcome.out) == (0, '{\n  "a": 1\n}\n')
    assert "words" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.ts"], "No such file"),
        (["a.txt"], ".ts, .js or .py"),
        (["ok.js", "--tool", "everything"], "there is no tool `everything`"),
        (["ok.js", "--input", "{"], "--input is not JSON"),
        ([], "name the file"),
        (["ok.js", "--repo", "nowhere"], "there is no such folder"),
    ],
)
def test_a_bad_request_runs_nothing(corral: Corral, arguments: list[str], said: str) -> None:
    repo = corral.repo(files={"a.txt": "a", "ok.js": "export default async () => 1"})
    outcome = corral("code", *arguments, cwd=repo.folder)
    assert outcome.code == 2, outcome
    assert said in outcome.err


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("py", "def main(input) return 1"),
        ("py", "x = 1"),
        ("js", "export default 5"),
        ("js", "export default async function main( {"),
        ("ts", "export default async function main() { throw new Error('no') }"),
    ],
)
def test_a_program_that_is_wrong_fails_as_a_program(corral: Corral, language: str, text: str) -> None:
    outcome = corral("code", program(corral, language, text), "--json", cwd=corral.repo().folder)
    assert outcome.code == 1, outcome
    assert outcome.json["error"]["class"] == "program"
    assert "boxed/code" not in outcome.json["error"]["message"]


def test_declarations_name_every_tool(corral: Corral) -> None:
    stubs = corral("code", "--declarations", "python").out
    names = [each.name for each in ast.parse(stubs).body if isinstance(each, ast.AsyncFunctionDef)]
    assert {"read_file", "write_file", "search", "spawn_task", "ask_user"} <= {*names}
    types = corral("code", "--declarations", "typescript", *granted("read_file", "git")).out
    assert "read_file(given: {path: string}): Promise<string>;" in types
    checked: dict[str, Any] = corral(
        "code",
        program(corral, "ts", f"{types}\nexport default async (i: any, t: Tools) => (await t.read_file({{path: 'a'}})).length"),
        *granted("read_file"), "--json", cwd=corral.repo(files={"a": "abc"}).folder,
    ).json  # fmt: skip
    assert checked["result"] == 3


def test_a_program_reaches_the_hosts_that_are_named_and_no_others(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a"})
    source = """
async def main(input):
    found = await http(url=input)
    try:
        await http(url="http://localhost:1/")
    except PermissionError as error:
        return [found["status"], str(error)]
"""
    with serving(corral, repo.folder) as server:
        place = f"127.0.0.1:{server.port}"
        asked = (*granted("http"), "--input", f'"http://{place}/health/live"', "--json", "--repo", repo.folder)
        file = program(corral, "py", source)
        done = corral("code", file, *asked, "--net", place)
        refused = corral("code", file, *asked)
    assert done.json["result"][0] == 200, done
    assert "localhost:1 is not in the net list" in done.json["result"][1]
    assert (refused.json["error"]["class"], "the scope names no hosts" in refused.json["error"]["message"]) == (
        "refused",
        True,
    )
    assert corral("code", file, *asked, "--net", "on").code == 2


def test_a_program_is_replayed_with_the_answers_it_had(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "one two", "b.txt": "x" * 30_000})
    file = program(corral, "py", "async def main(input):\n    return len(await read_file(path='b.txt')) + input\n")
    name = corral("code", file, *granted("read_file"), "--input", "1", "--json", "--repo", repo.folder).json["program"]
    (repo.folder / "b.txt").unlink()
    same = corral("code", "--replay", name, "--json")
    assert (same.code, same.json["differences"], same.json["result"]["result"]) == (0, [], 30_001), same
    file.write_text("async def main(input):\n    return len(await read_file(path='a.txt'))\n")
    other = corral("code", file, "--replay", name)
    assert other.code == 1
    assert other.out.splitlines() == [
        'a new call: read_file {"path":"a.txt"}',
        'no such call any more: read_file {"path":"b.txt"}',
        other.out.splitlines()[2],
    ]
    assert other.out.splitlines()[2].startswith("it ended as done, and now as refused: ")
    file.write_text("async def main(input):\n    return len(await read_file(path='b.txt'))\n")
    assert corral("code", file, "--replay", name).out == "its result was 30001, and is 30000\n"
    assert corral("code", "--replay", "nothing").code == 2
