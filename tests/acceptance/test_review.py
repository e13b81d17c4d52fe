"""Review from outside: comments on lines, and revisions that answer them."""

import asyncio
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn
from tests.rig.command import Corral, Outcome
from tests.rig.flows import nodes, statuses, write
from tests.rig.mcp import connected, told
from tests.rig.repository import Repo
from tests.rig.server import serving, waits_for
from tests.rig.suites import claude_program
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores

WORK = """
[[step]]
try = 1
write = "a.py"
text = "def a():\\n    return 1\\n"
[[step]]
try = 1
end = "a returns one"
[[step]]
try = 2
run = "grep -q 'return 1' a.py"
[[step]]
try = 2
edit = "a.py"
find = "return 1"
replace = "return 2"
[[step]]
try = 2
write = "heard.txt"
text = "{prompt}"
[[step]]
try = 2
resumed = true
write = "resumed.txt"
text = "yes"
[[step]]
try = 2
end = "a returns two"
"""
BAD = WORK + '[[step]]\ntry = 3\nedit = "a.py"\nfind = "return 2"\nreplace = "return 3"\n'
CHECK = "grep -q 'return [12]' a.py"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"a.txt": "one\n", "gone.txt": "g\n", "old.py": "one\ntwo\n"})


def attempts(outcome: Outcome, node: int = 0) -> list[dict[str, Any]]:
    return outcome.json["nodes"][node]["attempts"]


def compared(corral: Corral, node: int = 0) -> list[tuple[str, int | None, str | None, bool]]:
    """Return the rows of `compare` in their order: number, place, number of what it revises, winner."""

    def number(name: str | None) -> str | None:
        return name and name.rpartition("-")[2]

    rows = corral("compare", "@last", "--json").json["nodes"][node]["attempts"]
    return [(str(number(row["attempt"])), row["place"], number(row["revises"]), row["winner"]) for row in rows]


def test_comments_go_back_to_the_agent_and_its_answer_is_a_new_attempt(corral: Corral, repo: Repo) -> None:
    first = corral.run(repo, "write a", "--agent", corral.script(BAD), "--check", CHECK)
    assert first.code == 0, first
    made = corral("comment", "@last", "a.py:2", "return two", "--json")
    assert made.code == 0, made
    (comment,) = made.json
    assert {key: comment[key] for key in ("id", "file", "line", "last_line", "side", "state", "quote")} == {
        "id": "c1", "file": "a.py", "line": 2, "last_line": 2, "side": "new", "state": "open", "quote": "    return 1",
    }  # fmt: skip
    assert corral("comment", "@last", "--reply", "c1", "really two").code == 0
    assert "c1  a.py:2  open" in corral("show", "@last").out
    assert "really two" in corral("diff", "@last").err

    revised = corral("revise", "@last", "and be quick", "--json")
    assert revised.code == 0, revised
    before, after = attempts(revised)
    node = revised.json["nodes"][0]
    assert (after["revises"], after["status"], node["winner"]) == (before["id"], "done", after["id"])
    assert after["session"] == before["session"]
    assert after["retry_of"] is None
    assert repo.read(after["branch"], "a.py") == "def a():\n    return 2"
    assert repo.read(after["branch"], "resumed.txt") == "yes"
    heard = repo.read(after["branch"], "heard.txt")
    assert heard.index("a.py:2:\n>     return 1\n") < heard.index("return two") < heard.index("really two")
    assert heard.endswith("and be quick")
    assert "write a" not in heard
    # Its change is compared with the base of the first, not with the first.
    assert after["files_changed"] == ["a.py", "heard.txt", "resumed.txt"]
    assert after["evidence"]["grade"] == before["evidence"]["grade"] == "proven"
    assert [each["state"] for each in revised.json["comments"]] == ["outdated", "outdated"]
    assert corral.leavings() == []

    # What is not accepted leaves the winner as it is, and its comments open.
    corral("comment", "@last", "a.py", "return three")
    failed = corral("revise", "@last", "--json")
    assert failed.code == 1, failed
    assert (failed.json["status"], failed.json["nodes"][0]["winner"]) == ("done", after["id"])
    assert attempts(failed)[-1]["error"]["class"] == "check_failed"
    assert "was not accepted" in failed.json["nodes"][0]["why"]
    assert corral("comment", "@last", "--json").json[-1]["state"] == "open"
    assert compared(corral) == [("2", 1, "1", True), ("3", None, "2", False), ("1", None, None, False)]
    table = corral("compare", "@last").out
    assert table.index("2, revises 1 ") < table.index("3, revises 2 ") < table.index("1. ")
    assert "\nattempt 3: revises 2; not accepted: `grep" in table, table
    assert "\nattempt 1: revised by 2\n" in table, table

    assert corral("comment", "@last", "--resolve", "c3").code == 0
    nothing = corral("revise", "@last")
    assert (nothing.code, "no open comment" in nothing.err) == (2, True)
    exported = corral("export", "@last").out.splitlines()[0]
    assert '"return three"' in exported
    assert corral("merge", "@last", "--json").code == 0
    assert repo.git("show", "main:a.py").endswith("return 2")


def test_a_revision_can_follow_a_merge(corral: Corral, repo: Repo) -> None:
    corral.run(repo, "write a", "--agent", corral.script(WORK), "--check", CHECK)
    assert corral("merge", "@last").code == 0
    assert corral("revise", "@last", "return two", "--quiet").code == 0
    again = corral("merge", "@last", "--json")
    assert again.code == 0, again
    assert repo.git("show", "main:a.py").endswith("return 2")


def test_the_winner_of_a_race_is_revised_and_the_others_stay(corral: Corral, repo: Repo) -> None:
    other = corral.script('[[step]]\nwrite = "a.py"\ntext = "def a():\\n    x = 1\\n    return 1\\n"\n', "other.toml")
    raced = corral.run(
        repo, "a", "--agent", corral.script(WORK), "--agent", other, "--check", CHECK, "--select", "cheapest"
    )
    assert raced.code == 0, raced
    mine = next(each for each in attempts(raced) if each["output"] == "a returns one")
    revised = corral("revise", "@last", "two", "--attempt", str(mine["id"]), "--json")
    assert revised.code == 0, revised
    tried = attempts(revised)
    assert [each["status"] for each in tried] == ["done"] * 3
    assert (tried[-1]["revises"], revised.json["nodes"][0]["winner"]) == (mine["id"], tried[-1]["id"])
    ids = [str(each["id"]).rpartition("-")[2] for each in (mine, *(each for each in tried[:2] if each != mine))]
    old, rival = ids
    assert sorted(compared(corral)) == sorted(
        [("3", 2, old, True), (old, None, None, False), (rival, 1, None, False)]
    ), compared(corral)


FLOW = """
nodes:
  first: {{agent: "{agent}", task: "write a", checks: ["{check}"]}}
  second: {{run: "cp a.py b.py", needs: [first]}}
"""


def test_what_comes_after_a_revised_node_begins_again(corral: Corral, repo: Repo) -> None:
    agent = corral.script(BAD)
    file = write(corral, FLOW.format(agent=agent, check=CHECK))
    ran = corral("flow", "run", file, "--repo", repo.folder, "--json")
    assert ran.code == 0, ran
    name = str(nodes(ran)["first"]["winner"])
    revised = corral("revise", "@last", "two", "--attempt", name, "--json")
    assert revised.code == 0, revised
    assert set(statuses(revised).values()) == {"done"}
    assert len(nodes(revised)["second"]["attempts"]) == 2
    assert repo.read(nodes(revised)["second"]["attempts"][-1]["branch"], "b.py").endswith("return 2")
    # One that is not accepted changes nothing behind it.
    failed = corral("revise", "@last", "three", "--attempt", nodes(revised)["first"]["winner"], "--json")
    assert failed.code == 1, failed
    assert len(nodes(failed)["second"]["attempts"]) == 2
    assert nodes(failed)["second"]["winner"] == nodes(revised)["second"]["winner"]


def test_an_agent_that_cannot_resume_is_told_its_task_and_what_it_said(corral: Corral, repo: Repo) -> None:
    corral.agent("plain", 'echo "$1" >> told.txt; echo I wrote it', 'prompt = "argument"')
    assert corral.run(repo, "the task", "--agent", "plain").code == 0
    corral("comment", "@last", "told.txt", "say more")
    revised = corral("revise", "@last", "--json")
    assert revised.code == 0, revised
    told = repo.read(attempts(revised)[-1]["branch"], "told.txt")
    assert told.startswith("the task\nthe task\n\nYou have worked on this already")
    assert "I wrote it" in told
    assert "say more" in told


def test_a_revision_that_is_cut_off_goes_on(corral: Corral, repo: Repo) -> None:
    slow = WORK.replace(
        "[[step]]\ntry = 2\nrun =",
        '[[step]]\ntry = 2\nresumed = true\nsay = "ready"\n[[step]]\ntry = 2\nhang = 600\n[[step]]\ntry = 2\nrun =',
    )
    corral.run(repo, "write a", "--agent", corral.script(slow), "--check", CHECK)
    with corral.going("revise", "@last", "two") as going:
        corral.until_said("ready")
        refused = corral("revise", "@last", "again")
        assert (refused.code, "is not over" in refused.err) == (2, True), refused
        assert corral("comment", "@last", "a.py:1", "meanwhile").code == 0
        going.process.kill()
        going.process.wait()
    corral.script(WORK)
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed
    tried = attempts(resumed)
    assert [each["revises"] for each in tried] == [None, tried[0]["id"], tried[0]["id"]]
    # Two tries of one revision are one row.
    assert compared(corral) == [("3", 1, "1", True), ("1", None, None, False)]
    assert resumed.json["nodes"][0]["winner"] == tried[-1]["id"]
    assert repo.read(tried[-1]["branch"], "a.py").endswith("return 2")
    assert [each["state"] for each in resumed.json["comments"]] == ["open"]


def test_bad_comments_are_refused_in_words(corral: Corral, repo: Repo) -> None:
    script = '[[step]]\nwrite = "a.py"\ntext = "one\\ntwo\\n"\n[[step]]\ndelete = "gone.txt"\n[[step]]\nrun = "printf \'a\\\\000b\' > bin; echo three >> old.py"\n'
    assert corral("comment", "@last", "a.py", "x").code != 0  # no run yet
    assert corral.run(repo, "t", "--agent", corral.script(script)).code == 0
    for arguments, words in (
        (("a.py:3", "x"), "a.py has 2 lines, not 3"),
        (("a.py:0", "x"), "0-0 are no lines"),
        (("a.py:2-1", "x"), "2-1 are no lines"),
        (("nobody.py:1", "x"), "has no file `nobody.py`"),
        (("../a.py", "x"), "names no file"),
        (("gone.txt:1", "x"), "was deleted"),
        (("bin:1", "x"), "is not text"),
        (("a.py:1", "x", "--side", "old"), "has no old lines"),
        (("a.py:1", " "), "is empty"),
        (("a.py:1",), "nothing to say"),
        (("a.py:1", "x" * 10_001), "at most 10,000 characters"),
        (("a.py:1", "x", "--attempt", "9"), "has no attempt `9`"),
        (("--reply", "c9", "x"), "no comment is called `c9`"),
        (("--resolve", "c9"), "no comment is called `c9`"),
    ):
        refused = corral("comment", "@last", *arguments)
        assert refused.code == 2, (arguments, refused)
        assert words in refused.err, (arguments, refused)
    assert corral("comment", "@last", "--json").json == []
    for arguments in (("bin", "x"), ("gone.txt:1", "x", "--side", "old"), ("old.py:1-2", "x")):
        assert corral("comment", "@last", *arguments).code == 0, arguments


def test_comments_while_the_agent_works_are_refused_and_nothing_is_lost(corral: Corral, repo: Repo) -> None:
    signs = corral.root / "signs"
    signs.mkdir()
    agent = corral.agent("slow", f"echo one > a.py; {waits_for(signs / 'go')}")
    corral.config(f'[scope]\nread = ["**", "{signs}"]')
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent, "--json") as run:
        until(lambda: [each["status"] for each in corral("ls", "--json").json] == ["running"], "it works")
        early = corral("comment", "@last", "a.py:1", "two, please")
        assert (early.code, "is at work, and has left no change yet" in early.err) == (2, True), early
        assert corral("revise", "@last", "two, please").code == 2
        (signs / "go").touch()
        assert run.end().code == 0
    assert corral("comment", "@last", "--json").json == []
    assert corral("comment", "@last", "a.py:1", "two, please").code == 0


def test_by_http_and_mcp(corral: Corral, repo: Repo) -> None:
    corral.run(repo, "write a", "--agent", corral.script(BAD), "--check", CHECK)
    run = corral("ls", "--json").json[0]["run"]
    with serving(corral, corral.root) as server:
        path = f"/api/v1/runs/{run}"
        wrong = server.ask("POST", f"{path}/comments", {"comments": [{"file": "a.py", "line": 9, "text": "x"}]})
        assert (wrong.status, "a.py has 2 lines" in wrong.json["detail"]) == (400, True), wrong
        many = [{"file": "a.py", "line": 2, "text": f"comment {number}"} for number in range(1000)]
        for _ in range(10):
            assert server.ask("POST", f"{path}/comments", {"comments": many[1:]}).status == 201
        full = server.ask("POST", f"{path}/comments", {"comments": many[:11]})
        assert "at most 10,000 comments" in full.json["detail"], full
        much = server.ask("POST", f"{path}/revise")
        assert (much.status, "9,990 open comments are" in much.json["detail"]) == (400, True), much
        assert server.ask("POST", f"{path}/comments/all", {"state": "resolved"}).status == 200
        assert server.ask("POST", f"{path}/comments/c7", {"state": "open"}).json[0]["text"] == "comment 7"
        begun = server.ask("POST", f"{path}/revise", {"text": "two"})
        assert begun.status == 202, begun
        done = server.client.wait(run)
        assert (done.status, done.nodes[0].attempts[1].revises) == ("done", done.nodes[0].attempts[0].id)

        def outdated() -> list[str]:
            listed = server.ask("GET", f"{path}/comments").json
            return [each["id"] for each in listed if each["state"] == "outdated"]

        until(lambda: outdated() == ["c7"], "the lines of c7 are gone")

    async def by_mcp() -> None:
        async with connected(corral) as client:
            await client.call_tool("engine_comment", {"run": run, "resolve": ["all"]})
            said = await client.call_tool("engine_comment", {"run": run, "reply_to": "c7", "text": "three"})
            assert "2 open comments" in told(said), said
            revised = await client.call_tool("engine_revise", {"run": run, "text": "go on"})
            assert revised.structured_content is not None
            assert len(revised.structured_content["nodes"][0]["attempts"]) == 3

    asyncio.run(by_mcp())


@pytest.mark.slow
def test_the_real_claude_answers_in_its_own_conversation(corral: Corral, repo: Repo) -> None:
    turns = [Turn(sh="echo one > a.py"), Turn(text="Wrote one."), Turn(sh="echo two > a.py"), Turn(text="Wrote two.")]
    with ScriptedModel(turns) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\nsettings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        first = corral.run(repo, "write one", "--agent", "claude")
        assert first.code == 0, first
        assert corral("comment", "@last", "a.py:1", "rather two").code == 0
        revised = corral("revise", "@last", "--json")
        assert revised.code == 0, revised
        asked = str(model.work_requests[2].body)
    assert asked.index("write one") < asked.index("Wrote one.") < asked.index("rather two")
    before, after = attempts(revised)
    assert after["session"] == before["session"]
    assert repo.read(after["branch"], "a.py") == "two"
