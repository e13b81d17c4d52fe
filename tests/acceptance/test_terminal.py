"""What a terminal shows: tables that fit, diffs in colour, who speaks, why a check failed, and what to do next."""

import re
import shlex

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, write
from tests.rig.merging import work
from tests.rig.repository import Repo
from tests.rig.screen import on_terminal
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo(files={"a.txt": "one\n", "test.sh": "grep -q two a.txt\n"})


def race(corral: Corral, repo: Repo, *arguments: str) -> None:
    corral.agent("a-long-name-of-an-agent", "echo two >> a.txt; echo more > new.txt")
    corral.agent("another-long-name-of-one", "echo three >> a.txt")
    agents = "a-long-name-of-an-agent,another-long-name-of-one"
    outcome = corral.run(repo, "a task", "--agent", agents, "--retries", "0", "--check", "sh test.sh", *arguments)
    assert outcome.code == 0, outcome


@pytest.mark.parametrize("command", ["show", "compare", "agents", "overlap", "ls", "cost", "budget"])
def test_tables_fit_eighty_columns(corral: Corral, repo: Repo, command: str) -> None:
    race(corral, repo)
    assert corral("budget", "set", "--per-day", "10", "--per-run", "2").code == 0
    words = [command, *(["--repo", str(repo.folder)] if command == "overlap" else [])]
    words += ["@last"] if command in ("show", "compare") else []
    with on_terminal(corral, *words, columns=80) as screen:
        assert screen.end() == 0
    rows = [
        line for line in screen.lines if re.match(r"(PLACE|ATTEMPT|AGENT|RUN|LIMIT|[0-9a-z]{12}-\d|\d \*|\d  )", line)
    ]
    assert rows, screen.text
    assert max(map(len, rows)) <= 80, rows
    assert "\x1b[1m" in screen.raw, "the heading is bold"


def test_a_diff_is_coloured_and_paged(corral: Corral, repo: Repo) -> None:
    work(corral, repo, "echo two >> a.txt")
    pager = corral.root / "pager.sh"
    pager.write_text('#!/bin/sh\ncat > "$0.got"\n')
    pager.chmod(0o755)
    with on_terminal(corral, "diff", "@last", env={"PAGER": str(pager)}) as screen:
        assert screen.end() == 0
    paged = pager.with_name("pager.sh.got").read_text()
    assert "\x1b[32m+two\x1b[0m" in paged
    assert re.search(r"index [0-9a-f]{12}\.\.[0-9a-f]{12} ", paged)
    assert "+two" not in screen.text
    with on_terminal(corral, "diff", "@last", env={"NO_COLOR": "1"}) as screen:
        assert screen.end() == 0
    assert "+two" in screen.lines
    assert "\x1b[" not in screen.raw
    with on_terminal(corral, "diff", "@last", env={"PAGER": "true"}) as screen:  # quits at once
        assert screen.end() == 0
    with on_terminal(corral, "diff", "@last", env={"PAGER": "no-such-pager"}) as screen:
        assert screen.end() == 0
    assert "+two" in screen.lines


def test_every_line_of_a_race_says_who_speaks(corral: Corral, repo: Repo) -> None:
    corral.agent("fast", "echo I am quick; echo two >> a.txt")
    corral.agent("slow", "echo I am slow; until test -e go; do sleep 0.05; done; echo two >> a.txt")
    words = ("run", "a task", "--agent", "fast,slow", "--check", "sh test.sh")
    with on_terminal(corral, *words, "--repo", repo.folder) as screen:
        screen.sees(r"fast #1: · I am quick")
        screen.sees(r"slow #2: · I am slow")
        screen.sees(r"\+ done .*fast, try 1")  # it stays in the table, with its result
        assert corral("stop", "@last").code == 0
        screen.end()
    assert re.search(r"\x1b\[[0-9;]+mfast #1: ", screen.raw)  # in a colour of its own


def test_plain_lines_of_a_race_say_it_too(corral: Corral, repo: Repo) -> None:
    corral.agent("one", "echo two >> a.txt")
    corral.agent("two", "echo three >> a.txt")
    outcome = corral(
        "run", "a task", "--agent", "one,two", "--retries", "0", "--check", "sh test.sh", "--repo", repo.folder
    )
    assert outcome.code == 0, outcome
    assert re.search(r"^one #1: check sh test.sh: passed", outcome.err, re.MULTILINE), outcome.err
    assert re.search(r"^two #2: check sh test.sh: FAILED", outcome.err, re.MULTILINE), outcome.err


def test_the_last_lines_of_a_failing_check_are_shown(corral: Corral, repo: Repo) -> None:
    corral.agent("wrong", "echo three >> a.txt")
    check = 'sh test.sh || { echo "$PWD/a.txt: the word two is missing"; exit 3; }; ' + ": " * 60
    words = ("run", "a task", "--agent", "wrong", "--retries", "0", "--check", check, "--repo", repo.folder)
    ran = corral(*words)
    assert ran.code == 1
    for out in (ran.out, corral("show", "@last").out):
        assert "       | a.txt: the word two is missing\n" in out
        assert "FAILED (3)" in out
        assert check not in out


def offered(text: str) -> list[str]:
    """Return the commands that are offered as next."""
    (line,) = [line for line in text.splitlines() if line.startswith("next     ")]
    return line.removeprefix("next     ").split("   ")


def typed(corral: Corral, command: str) -> int:
    words = shlex.split(command.replace("BRANCH", "main").replace("yes|no", "no"))
    assert words[0] == "corral", command
    outcome = corral(*words[1:], *(["--yes"] if words[1] == "run" else []))
    assert outcome.code != 2, (command, outcome)
    return outcome.code


FLOW = """
name: asks
nodes:
  one: {task: "DO: echo two >> a.txt"}
  ok: {gate: "Land it?", needs: [one]}
"""


@pytest.mark.parametrize(
    "state", ["ready", "merged", "undone", "failed", "nothing", "race", "gate", "stopped", "over_budget"]
)
def test_every_command_that_is_offered_next_runs(corral: Corral, repo: Repo, state: str) -> None:
    if state in ("ready", "merged", "undone"):
        work(corral, repo, "echo two >> a.txt")
    if state in ("merged", "undone"):
        assert corral("merge", "@last").code == 0
    if state == "undone":
        assert corral("undo", "@last").code == 0
    if state in ("failed", "nothing"):
        corral.agent("wrong", "echo three >> a.txt" if state == "failed" else "true")
        words = ("--agent", "wrong", "--retries", "0", "--check", "sh test.sh", "--repo", repo.folder)
        assert corral("run", "a task", *words).code == 1
    if state == "race":
        race(corral, repo)
    if state == "gate":
        doer(corral)
        assert corral("flow", "run", write(corral, FLOW), "--repo", repo.folder, "--agent", "doer").code == 3
    if state == "stopped":
        corral.agent("slow", "echo two >> a.txt; until test -e go; do sleep 0.05; done")
        with corral.going("run", "a task", "--agent", "slow", "--repo", repo.folder) as going:
            until(lambda: list(corral.home.glob("workspaces/*/work/a.txt")), "the agent works")
            assert corral("stop", "@last").code == 0
            assert going.process.wait(60) == 130
        corral.config_file.parent.joinpath("slow.sh").write_text("#!/bin/sh\necho two >> a.txt\n")
    if state == "over_budget":
        corral.agent("dear", "echo two >> a.txt", "cost_usd = 0.5")
        words = ("--agent", "dear", "--budget", "0.1", "--repo", repo.folder)
        assert corral("run", "a task", *words).code == 4
    commands = offered(corral("show", "@last").out)
    assert commands
    if state in ("failed", "stopped"):
        assert commands[0].startswith("corral retry ")
    for command in commands:
        typed(corral, command)


def test_a_listing_says_what_is_still_to_merge(corral: Corral, repo: Repo) -> None:
    names = [work(corral, repo, f"echo {word} > {word}.txt")["run"] for word in ("one", "two", "three", "four")]
    assert corral("merge", names[3]).code == 0
    assert corral("undo", names[3]).code == 0
    assert corral("merge", names[0]).code == 0
    repo.commit({"two.txt": "other\n"})
    assert corral("merge", names[1]).code == 3
    listed = {line.split()[0]: line for line in corral("ls").out.splitlines()}
    assert "done, merged " in listed[names[0]]
    assert "done, in conflict " in listed[names[1]]
    assert "done, to merge " in listed[names[2]]
    assert "done, undone " in listed[names[3]]
    assert [line for line in corral("ls", "-n", "9", "-n", "9").out.splitlines() if "undone" in line] != []
    states = {each["run"]: each["merge"] for each in corral("ls", "--json").json}
    assert states == dict(zip(names, ("merged", "conflict", "ready", "undone"), strict=True))
