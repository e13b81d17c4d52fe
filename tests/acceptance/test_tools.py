"""Programs that users keep as tools: approved by content and place, replayed, counted, and offered everywhere."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.rig.command import Corral
from tests.rig.mcp import parameters
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.talkers import caller, flow, node

COUNT = """
export default async function main(input, tools) {
    const text = await tools.read_file({path: input.path});
    return {words: text.trim().split(/\\s+/).length};
}
"""
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FILES = {"a.txt": "one two three\n", "b.txt": "one\n"}


def kept(corral: Corral, *more: str, name: str = "count-words") -> Repo:
    """Keep a program as a tool of a new repository."""
    repo = corral.repo(files=FILES)
    (corral.root / "count.ts").write_text(COUNT)
    (corral.root / "schema.json").write_text(json.dumps(SCHEMA))
    schema = ("--input-schema", str(corral.root / "schema.json"))
    added = corral(
        "tools", "add", corral.root / "count.ts", "--name", name, "--tool", "read_file", *schema, *more, "--json",
        cwd=repo.folder,
    )  # fmt: skip
    assert added.code == 0, added
    return repo


def run(corral: Corral, folder: Path, given: object = None, name: str = "count-words") -> Any:
    return corral("tools", "run", name, "--input", json.dumps(given or {"path": "a.txt"}), "--json", cwd=folder)


def listed(corral: Corral, folder: Path) -> list[dict[str, Any]]:
    return corral("tools", "ls", "--json", cwd=folder).json


def test_a_program_is_kept_run_counted_and_removed(corral: Corral) -> None:
    repo = kept(corral)
    assert (repo.folder / ".corral/tools/count-words.ts").read_text() == COUNT
    (tool,) = listed(corral, repo.folder)
    assert {key: tool[key] for key in ("name", "version", "language", "tools", "uses", "approved")} == {
        "name": "count-words", "version": 1, "language": "typescript", "tools": ["read_file"], "uses": 0,
        "approved": True,
    }  # fmt: skip
    assert len(tool["hash"]) == 64
    assert tool["created"].startswith("20")
    assert run(corral, repo.folder).json["result"] == {"words": 3}
    failed = run(corral, repo.folder, {"path": "none.txt"})
    assert (failed.code, failed.json["error"]["class"]) == (1, "program")
    (tool,) = listed(corral, repo.folder)
    assert (tool["uses"], tool["success_rate"]) == (2, 0.5)
    assert "one two three" not in corral("tools", "show", "count-words", cwd=repo.folder).out
    assert corral("tools", "rm", "count-words", cwd=repo.folder).code == 0
    assert listed(corral, repo.folder) == []
    assert run(corral, repo.folder).code == 2


def test_a_changed_tool_does_not_run_until_it_is_approved_again(corral: Corral) -> None:
    repo = kept(corral)
    file = repo.folder / ".corral/tools/count-words.ts"
    file.write_text(COUNT.replace("words:", "poisoned:"))
    refused = run(corral, repo.folder)
    assert (refused.code, refused.out) == (2, "")
    assert "not approved" in refused.err
    assert not listed(corral, repo.folder)[0]["approved"]
    assert corral("tools", "approve", "count-words", cwd=repo.folder).code == 0
    assert run(corral, repo.folder).json["result"] == {"poisoned": 3}
    declaration = repo.folder / ".corral/tools/count-words.json"
    about = json.loads(declaration.read_text())
    declaration.write_text(json.dumps({**about, "tools": ["read_file", "write_file"]}))
    assert run(corral, repo.folder).code == 2, "more tools than were approved"


def test_a_tool_of_a_cloned_repository_is_approved_once_for_that_place(corral: Corral) -> None:
    repo = kept(corral)
    repo.git("add", ".")
    repo.git("commit", "-qm", "A tool")
    clone = corral.root / "clone"
    subprocess.run(["git", "clone", "-q", repo.folder, clone], check=True)
    assert run(corral, clone).code == 2
    assert corral("tools", "approve", "count-words", cwd=clone).code == 0
    assert run(corral, clone).json["result"] == {"words": 3}


def test_an_example_is_recorded_and_must_replay(corral: Corral) -> None:
    repo = kept(corral, "--example", '{"path": "a.txt"}')
    (repo.folder / "a.txt").write_text("changed since\n")
    assert run(corral, repo.folder).json["result"] == {"words": 2}, "its answers were recorded, not its files"
    file = repo.folder / ".corral/tools/count-words.ts"
    file.write_text(COUNT.replace("length}", "length + 1}"))
    refused = corral("tools", "approve", "count-words", cwd=repo.folder)
    assert refused.code == 2
    assert "does not do what its example says" in refused.err
    file.write_text(COUNT.replace("read_file({path: input.path})", "read_file({path: 'b.txt'})"))
    assert corral("tools", "approve", "count-words", cwd=repo.folder).code == 2


def test_a_tool_of_the_user_works_in_every_repository(corral: Corral) -> None:
    kept(corral, "--user")
    other = corral.repo("other", files={"a.txt": "x y\n"})
    assert [each["place"] for each in listed(corral, other.folder)] == ["user"]
    assert run(corral, other.folder).json["result"] == {"words": 2}
    assert not (other.folder / ".corral").exists()


def test_a_program_that_ran_becomes_a_tool_and_a_new_version(corral: Corral) -> None:
    repo = kept(corral)
    program = corral.root / "other.py"
    program.write_text("async def main(input):\n    return len(await list_files())\n")
    ran = corral("code", program, "--tool", "list_files", "--json", cwd=repo.folder).json
    added = corral("tools", "add", "--program", ran["program"], "--name", "count-words", "--json", cwd=repo.folder)
    (tool,) = added.json
    assert (tool["version"], tool["language"], tool["tools"]) == (2, "python", ["list_files"])
    assert not (repo.folder / ".corral/tools/count-words.ts").exists()
    assert run(corral, repo.folder).json["status"] == "done"


@pytest.mark.parametrize("name", ["Count", "1st", "a_b", "../x", "", "x" * 64, "a.b", "-a"])
def test_a_name_that_is_none_is_refused(corral: Corral, name: str) -> None:
    repo = corral.repo(files=FILES)
    (corral.root / "count.ts").write_text(COUNT)
    outcome = corral("tools", "add", corral.root / "count.ts", "--name", name, cwd=repo.folder)
    assert outcome.code == 2, outcome
    assert not (repo.folder / ".corral").exists()


def test_an_input_that_does_not_fit_starts_nothing(corral: Corral) -> None:
    repo = kept(corral)
    refused = run(corral, repo.folder, {"paths": 1})
    assert refused.code == 2
    assert "does not fit" in refused.err
    assert listed(corral, repo.folder)[0]["uses"] == 0


def test_a_tool_that_lies_behind_a_link_does_not_exist(corral: Corral) -> None:
    repo = kept(corral)
    folder = repo.folder / ".corral/tools"
    (corral.root / "evil.ts").write_text(COUNT)
    (folder / "count-words.ts").unlink()
    (folder / "count-words.ts").symlink_to(corral.root / "evil.ts")
    assert run(corral, repo.folder).code == 2


def test_tools_call_each_other_three_deep_at_most(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    program = corral.root / "again.py"
    program.write_text("async def main(input):\n    return [await run_tool(name='again', input=input)]\n")
    corral("tools", "add", program, "--name", "again", "--tool", "run_tool", cwd=repo.folder)
    outcome = run(corral, repo.folder, {}, "again")
    assert outcome.code == 1
    assert "3 deep at most" in outcome.json["error"]["message"]


def test_an_agent_runs_what_the_user_approved_and_not_what_it_wrote_itself(corral: Corral) -> None:
    repo = kept(corral)
    repo.git("add", ".")
    repo.git("commit", "-qm", "A tool")
    source = f"""
        import pathlib
        first = call("run_tool", name="count-words", input={{"path": "a.txt"}})
        pathlib.Path(".corral/tools/count-words.ts").write_text({COUNT.replace("words:", "poisoned:")!r})
        second = call("run_tool", name="count-words", input={{"path": "a.txt"}})
        program = "async def main(input):\\n    return await run_tool(name='count-words', input=input)"
        third = call("run_program", language="python", source=program, input={{"path": "b.txt"}})
        pathlib.Path("result.json").write_text(json.dumps([first["result"], second["result"], third["result"]]))
    """
    caller(corral)
    run_ = flow(corral, repo, {"main": node(source)})
    (attempt,) = run_["nodes"][0]["attempts"]
    assert json.loads(repo.read(attempt["branch"], "result.json")) == [{"words": 3}, {"words": 3}, {"words": 1}]


def test_mcp_clients_see_approved_tools(corral: Corral) -> None:
    repo = kept(corral)

    async def asked() -> tuple[list[str], Any]:
        async with Client(parameters(corral, repo.folder)) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            return names, await client.call_tool("tool_count_words", {"path": "a.txt"})

    names, result = asyncio.run(asked())
    assert "tool_count_words" in names
    assert result.structured_content["result"] == {"words": 3}
    (repo.folder / ".corral/tools/count-words.ts").write_text(COUNT + "\n")

    async def listed_now() -> list[str]:
        async with Client(parameters(corral, repo.folder)) as client:
            return [each.name for each in (await client.list_tools()).tools]

    assert "tool_count_words" not in asyncio.run(listed_now())


def test_the_server_lists_and_runs_tools(corral: Corral) -> None:
    repo = kept(corral)
    with serving(corral, repo.folder) as server:
        assert [each["name"] for each in server.ask("GET", "/api/v1/tools").json] == ["count-words"]
        assert server.ask("GET", "/api/v1/tools/count-words").json["source"] == COUNT
        body = {"input": {"path": "a.txt"}}
        assert server.ask("POST", "/api/v1/tools/count-words/run", body).json["result"] == {"words": 3}
        (repo.folder / ".corral/tools/count-words.ts").write_text(COUNT + "\n")
        assert 400 <= server.ask("POST", "/api/v1/tools/count-words/run", body).status < 500
        assert server.ask("POST", "/api/v1/tools/count-words/approve").json["approved"]
        assert server.ask("DELETE", "/api/v1/tools/count-words").json == {"removed": ["count-words"]}


def test_a_tool_has_limits_and_is_exported_whole(corral: Corral) -> None:
    repo = kept(corral, "--calls", "0", "--memory-mb", "64", "--timeout", "20")
    failed = run(corral, repo.folder)
    assert (failed.code, "0 calls are the most" in failed.json["error"]["message"]) == (1, True), failed
    (tool,) = listed(corral, repo.folder)
    limits = tool["limits"]
    assert (limits["calls"], limits["memory_mb"], limits["timeout_seconds"]) == (0, 64, 20.0)
    other = corral.repo("other", FILES)
    place = other.folder / ".corral" / "tools"
    place.mkdir(parents=True)
    exported = corral("tools", "export", "count-words", "--into", place, "--json", cwd=repo.folder).json
    assert exported == {"files": [str(place / "count-words.ts"), str(place / "count-words.json")]}
    (copied,) = listed(corral, other.folder)
    assert (copied["hash"], copied["limits"], copied["approved"]) == (tool["hash"], limits, False)
    again = corral("tools", "export", "count-words", "--into", place, cwd=repo.folder)
    assert (again.code, "hint:" in again.err) == (2, True), again


def test_a_package_brings_a_tool_that_runs_once_it_is_approved(corral: Corral) -> None:
    repo = kept(corral)
    place = corral.root / "site"
    info = place / "counting-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[corral.tools]\ncount-words = counting:TOOLS\nbroken = counting:NONE\n")
    (place / "counting.py").write_text("import pathlib\nTOOLS = pathlib.Path(__file__).parent / 'counting-tools'\n")
    (place / "counting-tools").mkdir()
    assert corral("tools", "export", "count-words", "--into", place / "counting-tools", cwd=repo.folder).code == 0
    other, env = corral.repo("other", FILES), {"PYTHONPATH": str(place)}

    def tools(*words: str) -> Any:
        return corral("tools", *words, "--json", cwd=other.folder, env=env)

    given = ("run", "count-words", "--input", '{"path": "a.txt"}')
    assert [(each["place"], each["approved"]) for each in tools("ls").json] == [("package", False)]
    assert "not approved" in tools(*given).err
    assert tools("approve", "count-words").code == 0
    assert tools(*given).json["result"] == {"words": 3}
    removed = tools("rm", "count-words")
    assert (removed.code, "a package brings" in removed.err) == (2, True), removed
    assert listed(corral, other.folder) == []


KEPT_NODE = """
name: count
nodes:
  count: {program: count-words, input: {path: a.txt}}
  say: {run: "echo {{count.output.words}} > said.txt", needs: [count]}
"""


def run_kept(corral: Corral, repo: Repo, text: str = KEPT_NODE) -> Any:
    file = corral.root / "kept.yaml"
    file.write_text(text)
    return corral("flow", "run", file, "--repo", repo.folder, "--json")


def test_a_kept_tool_is_a_node_of_a_flow(corral: Corral) -> None:
    shape = corral.root / "output.json"
    shape.write_text('{"type": "object", "required": ["words"], "properties": {"words": {"type": "integer"}}}')
    repo = kept(corral, "--output-schema", str(shape))
    outcome = run_kept(corral, repo)
    assert outcome.code == 0, outcome
    nodes = {node["id"]: node["attempts"][0] for node in outcome.json["nodes"]}
    assert nodes["count"]["output"] == {"words": 3}
    assert repo.read(nodes["say"]["branch"], "said.txt") == "3"
    (tool,) = listed(corral, repo.folder)
    assert (tool["uses"], tool["success_rate"]) == (1, 1.0)
    misfit = run_kept(corral, repo, KEPT_NODE.replace("path: a.txt", "file: a.txt"))
    (attempt,) = misfit.json["nodes"][0]["attempts"]
    assert "the input of count-words does not fit: " in attempt["error"]["message"]
    assert listed(corral, repo.folder)[0]["uses"] == 1


def test_a_flow_has_no_tool_that_is_not_approved(corral: Corral) -> None:
    repo = kept(corral)
    granted = run_kept(corral, repo, KEPT_NODE.replace("input:", "tools: [write_file], input:"))
    assert (granted.code, "has the tools that it declares" in granted.err) == (2, True)
    (repo.folder / ".corral/tools/count-words.ts").write_text(COUNT.replace("words:", "poisoned:"))
    refused = run_kept(corral, repo)
    assert (refused.code, "4:20: the tool `count-words` is not approved as it is now" in refused.err) == (2, True), (
        refused
    )
    unknown = run_kept(corral, repo, KEPT_NODE.replace("count-words", "nothing"))
    assert (unknown.code, "there is no tool `nothing`" in unknown.err) == (2, True)
    assert corral("ls", "--json").json == []
