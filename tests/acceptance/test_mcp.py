"""The installed `corral mcp`, by the official client of both eras: every tool, from outside."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, TextContent

from tests.rig.command import Corral
from tests.rig.mcp import MODES, connected, told
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow

TOOLS = {
    "engine_execute", "engine_status", "engine_budget", "engine_interrupt", "engine_resume", "engine_list", "engine_output",
    "engine_result", "engine_diff", "engine_select", "engine_merge", "engine_steer", "engine_answer", "engine_comment", "engine_revise", "engine_flow",
    "engine_rename", "engine_runtimes", "engine_plan",
}  # fmt: skip


def play(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", 'echo "I write it"; echo "$1" > said.txt', "cost_usd = 0.25")
    return corral


async def done(client: Client, name: str, **arguments: Any) -> Any:
    """Call a tool that must succeed; return its structured content."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, told(result)
    return result.structured_content


@pytest.mark.parametrize("mode", MODES)
def test_tools_prompts_and_resources_are_offered(ready: Corral, mode: str) -> None:
    async def look() -> None:
        async with connected(ready, mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == TOOLS
            for tool in tools.values():
                assert tool.input_schema["type"] == "object"
                assert tool.output_schema
                assert tool.output_schema["type"] == "object"
                assert tool.description
                assert "$ref" not in str(tool.input_schema), "not every client follows references"
            assert tools["engine_execute"].input_schema["required"] == ["path"]
            assert tools["engine_status"].annotations
            assert tools["engine_status"].annotations.read_only_hint
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            assert prompts == {"delegate", "race", "review", "catch-up"}
            filled = await client.get_prompt("review", {"what": "the last commit", "agent": "codex"})
            assert "review: the last commit" in str(filled.messages[0].content)
            templates = (await client.list_resource_templates()).resource_templates
            assert [each.uri_template for each in templates] == [
                "corral://runs/{run}", "corral://runs/{run}/log", "corral://runs/{run}/diff",
            ]  # fmt: skip

    play(look())


@pytest.mark.parametrize("mode", MODES)
def test_a_task_is_done_and_the_run_document_comes_back(ready: Corral, mode: str) -> None:
    repo = ready.repo()
    before = repo.fingerprint()
    heard: list[tuple[float, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))

    async def work() -> Any:
        async with connected(ready, mode) as client:
            asked = {"path": str(repo.folder), "task": "write it", "force_runtime": "mine", "checks": ["test -s said.txt"],
                     "context": {"why": "a test", "n": 3}, "files": ["a.txt"], "timeout": 300}  # fmt: skip
            return await client.call_tool("engine_execute", asked, progress_callback=tell)

    result = play(work())
    assert not result.is_error, told(result)
    run = result.structured_content
    assert run == ready("show", run["run"], "--json").json
    assert run["status"] == "done"
    attempt = run["nodes"][0]["attempts"][0]
    said = repo.read(attempt["commit"], "said.txt")
    assert all(words in said for words in ("write it", "- why: a test", "- n: 3", "a.txt"))
    assert repo.fingerprint() == before
    assert any("I write it" in (words or "") for _, words in heard), heard
    assert [number for number, _ in heard] == sorted({number for number, _ in heard})


def test_looking_choosing_merging_undoing(ready: Corral) -> None:
    ready.agent("other", "echo other > said.txt", "cost_usd = 0.5")
    repo = ready.repo()

    async def work() -> None:
        async with connected(ready) as client:
            run = await done(client, "engine_execute", path=str(repo.folder), task="write", agents=["mine", "other"])
            assert run["strategy"] == "race"
            name = run["run"]
            listed = await done(client, "engine_list", status=["done"])
            assert [line["run"] for line in listed["runs"]] == [name]
            assert not (await done(client, "engine_list", status=["failed"]))["runs"]
            compared = await done(client, "engine_select", run=name)
            losers = [each for each in compared["nodes"][0]["attempts"] if not each["winner"]]
            chosen = await done(client, "engine_select", run=name, attempt=losers[0]["attempt"])
            assert chosen["nodes"][0]["winner"] == losers[0]["attempt"]
            assert "chosen by" in chosen["nodes"][0]["why"]
            patch = await done(client, "engine_diff", run=name)
            assert patch["attempt"] == losers[0]["attempt"]
            assert "said.txt" in patch["diff"]
            small = await done(client, "engine_diff", run=name, limit=10)
            assert (len(small["diff"]), small["cut"], small["bytes"]) == (10, True, patch["bytes"])
            preview = await done(client, "engine_merge", run=name, action="preview")
            assert preview["preview"]["files"] == ["said.txt"]
            assert not (repo.folder / "said.txt").exists()
            merged = await done(client, "engine_merge", run=name)
            assert merged["merge"]["status"] == "merged"
            assert (repo.folder / "said.txt").exists()
            undone = await done(client, "engine_merge", run=name, action="undo")
            assert undone["merge"]["status"] == "undone"
            assert not (repo.folder / "said.txt").exists()

    play(work())


def test_output_is_read_piece_by_piece(ready: Corral) -> None:
    repo = ready.repo()
    ready.agent("talker", "for n in 1 2 3 4 5; do echo word $n; done", "")

    async def work() -> None:
        async with connected(ready) as client:
            asked = {"path": str(repo.folder), "task": "talk", "force_runtime": "talker", "read_only": True}
            run = (await done(client, "engine_execute", **asked))["run"]
            first = await done(client, "engine_output", run=run, limit=2)
            assert len(first["events"]) == 2
            assert first["more"]
            rest = await done(client, "engine_output", run=run, since=first["next"])
            assert not rest["more"]
            whole = await done(client, "engine_output", run=run)
            assert whole["events"] == first["events"] + rest["events"]
            assert whole["events"] == ready.events(run), "as `corral logs --json` prints them"
            found = await done(client, "engine_output", run=run, filter="WORD 2|nothing such", types=["said"])
            assert [event["type"] for event in found["events"]] == ["said"]
            assert not (await done(client, "engine_output", run=run, filter="word 5.*word 1", types=["said"]))["events"]
            log = await client.read_resource(f"corral://runs/{run}/log")
            assert "word 5" in log.contents[0].text  # type: ignore[union-attr]
            document = await client.read_resource(f"corral://runs/{run}")
            assert f'"run":"{run}"' in document.contents[0].text  # type: ignore[union-attr]
            listed = [str(each.uri) for each in (await client.list_resources()).resources]
            assert f"corral://runs/{run}" in listed

    play(work())


def test_tasks_that_depend_on_each_other(ready: Corral) -> None:
    repo = ready.repo()
    ready.agent("adder", 'printf "%s\\n---\\n" "$1" >> all.txt')
    tasks = [
        {"id": "one", "task": "begin with {{braces}}"},
        {"id": "two", "task": "go on", "depends_on": ["one"], "checks": ["grep -q braces all.txt"]},
    ]

    async def work() -> Any:
        async with connected(ready) as client:
            graph = {"tasks": tasks, "strategy": "parallel", "context": "keep all the lines"}
            first = await done(client, "engine_execute", path=str(repo.folder), force_runtime="adder", **graph)
            more = {"path": str(repo.folder), "task": "third", "force_runtime": "adder", "parent": first["run"]}
            return first, await done(client, "engine_execute", **more)

    first, second = play(work())
    assert {node["id"]: node["needs"] for node in first["nodes"]} == {"one": [], "two": ["one"]}
    last = second["nodes"][0]["attempts"][0]["commit"]
    text = repo.read(last, "all.txt")
    assert text.index("begin with {{braces}}") < text.index("go on") < text.index("third")
    assert text.count("What you should know besides:\nkeep all the lines") == 2


def test_a_failure_is_an_error_with_its_document(ready: Corral) -> None:
    repo = ready.repo()

    async def work() -> Any:
        async with connected(ready) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": "mine", "checks": ["false"]}
            return await client.call_tool("engine_execute", asked)

    result = play(work())
    assert result.is_error
    assert result.structured_content["status"] == "failed"
    assert "check" in told(result).splitlines()[0]


def test_what_a_client_can_get_wrong(ready: Corral) -> None:
    repo: Repo = ready.repo()
    (repo.folder / "out.yaml").symlink_to("/etc/passwd")
    (repo.folder / "bad.yaml").write_text("nodes:\n  a: {task: x, needs: [b]}\n")
    here = str(repo.folder)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("engine_execute", {}, "path"),
        ("engine_execute", {"path": here}, "there is no task"),
        ("engine_execute", {"path": here + "/nowhere", "task": "x"}, "no such folder"),
        ("engine_execute", {"path": here + "/a.txt", "task": "x"}, "no folder"),
        ("engine_execute", {"path": here + "\0", "task": "x"}, "NUL"),
        ("engine_execute", {"path": here, "task": "x", "agents": ["nobody"]}, "nobody"),
        ("engine_execute", {"path": here, "task": "x", "max_cost": -1}, "budget"),
        ("engine_execute", {"path": here, "task": "x", "strategy": "magic"}, "strategy"),
        ("engine_execute", {"path": here, "task": "x", "unsandboxed": True}, "unsandboxed"),
        ("engine_execute", {"path": here, "tasks": [{"id": "a", "task": "x", "depends_on": ["b"]}]}, "b"),
        ("engine_execute", {"path": here, "strategy": "race", "tasks": [{"id": "a", "task": "x"}]}, "takes one task"),
        ("engine_execute", {"path": here, "task": "x", "context": 7}, "context"),
        ("engine_execute", {"path": here, "task": "x", "parent": "zzz"}, "zzz"),
        ("engine_result", {"run": "@last"}, "no run"),
        ("engine_diff", {"run": ""}, "run"),
        ("engine_answer", {"id": "77", "answer": "yes"}, "77"),
        ("engine_output", {"run": "@last", "limit": 0}, "limit"),
        ("engine_flow", {"action": "run", "path": here, "file": "out.yaml"}, "inside"),
        ("engine_flow", {"action": "run", "path": here, "file": "../../etc/passwd"}, "file"),
    ]

    async def work() -> None:
        async with connected(ready) as client:
            for name, arguments, words in wrong:
                result = await client.call_tool(name, arguments)
                assert result.is_error, (name, arguments)
                assert told(result).startswith("error: "), told(result)
                assert words in told(result), (arguments, told(result))
                assert "root:" not in told(result)
            with pytest.raises(MCPError, match="Unknown tool") as unknown:
                await client.call_tool("engine_no_such", {})
            assert unknown.value.code == INVALID_PARAMS
            checked = await done(client, "engine_flow", action="check", path=here, file="bad.yaml")
            assert not checked["ok"]
            assert "bad.yaml:2:" in checked["mistakes"][0]

    play(work())
    assert ready("ls", "--json").json == []


def test_status_and_runtimes_tell_what_is_here(ready: Corral) -> None:
    async def work() -> None:
        async with connected(ready) as client:
            await done(client, "engine_execute", path=str(ready.repo().folder), task="x", force_runtime="cli")
            status = await done(client, "engine_status")
            assert "mine" in status["available_runtimes"]
            assert status["available_strategies"] == ["single", "multi", "parallel", "race", "auto"]
            assert status["daily_spending"] == status["monthly_spending"] == 0.25
            assert (await done(client, "engine_status", run="@last"))["run"]["status"] == "done"
            runtimes = {each["name"]: each for each in (await done(client, "engine_runtimes"))["runtimes"]}
            assert runtimes["mine"]["program"]
            assert runtimes["claude"]["remedy"]

    play(work())


def test_every_result_has_a_few_lines_that_a_user_can_read(ready: Corral) -> None:
    repo = ready.repo()
    ready.config("[retry]\ndelay_seconds = 0.01")
    ready.agent("bad", "echo no; exit 3")

    async def lines(client: Client, name: str, **arguments: Any) -> list[str]:
        result = await client.call_tool(name, arguments)
        assert isinstance(result.content[0], TextContent)
        found = result.content[0].text.splitlines()
        assert 1 <= len(found) <= 10, found
        assert len(told(result).splitlines()) <= 10
        return found

    async def look() -> None:
        async with connected(ready) as client:
            asked = {"path": str(repo.folder), "task": "t", "agents": ["mine", "mine"], "checks": ["test -e said.txt"]}
            head, won, changed, cost, *_, last = await lines(client, "engine_execute", **asked)
            run = ready("ls", "--json").json[0]["run"]
            assert head.startswith(f"run {run} ")
            assert won.startswith(("winner: ", "changed: "))
            assert "said.txt" in changed or "said.txt" in cost
            assert last.startswith("next: engine_")
            single = {"path": str(repo.folder), "task": "t", "agents": ["mine"], "checks": ["test -e said.txt"]}
            head, won, changed, cost, *_, last = await lines(client, "engine_execute", **single)
            run = ready("ls", "--json").json[0]["run"]
            assert head == f"run {run} done"
            assert won.startswith(f"winner: {run}-1 (mine): ")
            assert changed == "changed: said.txt (+1 -0)"
            assert cost.startswith("cost: $0.25 (fixed), 0 tokens, ")
            assert last == f"next: engine_diff run={run}, then engine_merge run={run}"
            merged = await lines(client, "engine_merge", run=run)
            assert f"next: engine_merge run={run} action=undo takes it back" in merged
            failed = await lines(client, "engine_execute", **{**single, "agents": ["bad"]})
            assert "changed: nothing" in failed
            for name, arguments in (
                ("engine_status", {}), ("engine_list", {}), ("engine_runtimes", {}), ("engine_budget", {}),
                ("engine_output", {"run": run}), ("engine_diff", {"run": run}), ("engine_result", {"run": run}),
                ("engine_select", {"run": run}), ("engine_merge", {"run": run, "action": "preview"}),
                ("engine_comment", {"run": run, "file": "said.txt", "line": 1, "text": "why?"}),
            ):  # fmt: skip
                await lines(client, name, **arguments)

    play(look())
