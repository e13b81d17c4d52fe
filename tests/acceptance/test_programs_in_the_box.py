"""A program that is on this machine but not in the box: said before anything is paid, with the line that shows it."""

import re
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.elsewhere import Elsewhere
from tests.rig.repository import Repo

READ = re.compile(r"--read (\S+?)(?=,|\s)")


@pytest.fixture
def elsewhere(corral: Corral, open_folder: Path) -> Elsewhere:
    return Elsewhere(open_folder, corral.root / "user")


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.agent("mine", "echo x > x")
    return corral.repo()


def test_a_check_is_refused_and_runs_with_the_line_that_is_named(
    corral: Corral, repo: Repo, elsewhere: Elsewhere
) -> None:
    words = ("--agent", "mine", "--retries", "0", "--check", f"bash -c '{elsewhere.tool} && {elsewhere.python}'")
    refused = corral.run(repo, "t", *words)
    assert refused.code == 2, refused
    assert f"`{elsewhere.tool}` is on this machine, but not in the box" in refused.err
    assert corral("ls", "--json").json == []
    outcome = corral.run(repo, "t", *words, *(word for path in READ.findall(refused.err) for word in ("--read", path)))
    assert outcome.code == 0, (refused, outcome)
    listed = re.search(r"\[scope\] read = \[.*?\]", refused.err)
    assert listed, refused
    corral.config(listed.group().replace("] ", "]\n", 1))
    outcome = corral.run(repo, "t", *words)
    assert outcome.code == 0, outcome


def test_without_a_box_all_is_there(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    bare = ("--allow-unsandboxed", "--require-sandbox", "none")
    outcome = corral.run(repo, "t", "--agent", "mine", "--explain-scope", *bare, "--check", f"{elsewhere.tool}")
    assert outcome.code == 0, outcome


@pytest.mark.parametrize("command", ['"sh", "-c", "{0.tool} {{prompt}}"', '"env", "A=1", "{0.tool}"'])
def test_the_second_program_of_an_agent(corral: Corral, repo: Repo, elsewhere: Elsewhere, command: str) -> None:
    corral.config(f"[agents.other]\ncommand = [{command.format(elsewhere)}]")
    refused = corral.run(repo, "t", "--agent", "other")
    assert refused.code == 2, refused
    assert f"`{elsewhere.tool}` is on this machine, but not in the box" in refused.err
    assert f"--read {elsewhere.environment}" in refused.err


def test_each_agent_is_judged_by_its_own_scope(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    read = ", ".join(
        f'"{path}"' for path in ("**", elsewhere.environment, elsewhere.python.readlink().parent, elsewhere.real)
    )
    corral.config(
        f'[agents.other]\ncommand = ["sh", "-c", "{elsewhere.tool}"]\nscope = {{ read = [{read}] }}\n'
        f'[agents.data]\ncommand = ["sh", "-c", "echo $1", "sh", "{elsewhere.tool}"]'
    )
    asked = ("--explain-scope", "--agent")
    for agents in ("other,mine,data", "mine,data,other"):
        assert corral.run(repo, "t", *asked, agents).code == 0, agents
    check = ("--check", str(elsewhere.tool))
    assert corral.run(repo, "t", *asked, "other", *check).code == 0
    assert corral.run(repo, "t", *asked, "other,mine", *check).code == 2


def test_what_a_check_makes_is_not_judged(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    """A person's own .venv, which git ignores, is in no workspace."""
    (repo.folder / ".git" / "info" / "exclude").write_text(".venv\n")
    (repo.folder / ".venv").symlink_to(elsewhere.environment)
    check = "python3 -m venv .venv && .venv/bin/python -c 1"
    assert corral.run(repo, "t", "--explain-scope", "--agent", "mine", "--check", check).code == 0


def test_a_flow_says_where(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    flow = repo.folder / "f.yaml"
    flow.write_text(
        f"nodes:\n  a:\n    run: {elsewhere.tool}\n  b:\n    task: t\n    agent: mine\n    checks: ['sh -c {elsewhere.python}']\n"
    )
    outcome = corral("flow", "check", str(flow), cwd=repo.folder)
    assert outcome.code == 2, outcome
    assert "f.yaml:3:" in outcome.err + outcome.out
    assert "f.yaml:7:" in outcome.err + outcome.out


def test_what_was_not_seen_before_is_hinted_at_after(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    check = f"TOOL=$(echo {elsewhere.tool}); $TOOL"
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0", "--check", check)
    assert outcome.attempt["error"]["class"] == "check_failed", outcome
    assert f"show it with --read {elsewhere.tool}" in outcome.attempt["error"]["hint"]
    corral.agent("other", f"TOOL=$(echo {elsewhere.tool}); $TOOL")
    outcome = corral.run(repo, "t", "--agent", "other", "--retries", "0")
    assert f"show it with --read {elsewhere.tool}" in outcome.attempt["error"]["hint"], outcome


def test_what_recipes_and_scripts_start_is_named_when_it_is_missing(
    corral: Corral, repo: Repo, elsewhere: Elsewhere
) -> None:
    """Neither is read before the start; both print the path that the box does not have."""
    recipe = f"TOOL = {elsewhere.tool}\ntest:\n\t$(TOOL) a\n"
    script = f"import subprocess\nsubprocess.run(['{elsewhere.tool}'], check=True)\n"
    repo.commit({"Makefile": recipe, "check.py": script})
    for check in ("make test", "python3 check.py"):
        outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0", "--check", check)
        error = outcome.attempt["error"]
        assert error["class"] == "check_failed", outcome
        assert f"show it with --read {elsewhere.tool}" in error["hint"]
        shown = corral.run(repo, "t", "--agent", "mine", "--check", check, "--read", str(elsewhere.environment.parent))
        assert shown.code == 0, shown
    corral.config('[agents.other]\ncommand = ["python3", "check.py"]')
    outcome = corral.run(repo, "t", "--agent", "other", "--retries", "0")
    assert f"show it with --read {elsewhere.tool}" in outcome.attempt["error"]["hint"], outcome


@pytest.mark.parametrize(
    "check",
    [
        "if true; then {0.tool}; fi",
        "PATH={0.environment}/bin:$PATH tool",
        "for a in 1 2; do {0.tool} $a; done",
        "P={0.tool}; $P a",
        "sh <<E\n{0.tool}\nE\n",
        "make -f {0.makefile}",
    ],
)
def test_it_is_found_wherever_it_stands_and_nothing_is_paid(
    corral: Corral, repo: Repo, elsewhere: Elsewhere, check: str
) -> None:
    refused = corral.run(repo, "t", "--agent", "mine", "--check", check.format(elsewhere))
    assert refused.code == 2, refused
    assert "is on this machine, but not in the box\nhint: show it: --read " in refused.err
    assert corral("ls", "--json").json == []


@pytest.mark.parametrize(
    "check", ["test -f x || {0.tool}", "find . -name none -exec {0.tool} {{}} +", "if test -f none; then {0.tool}; fi"]
)
def test_what_may_be_started_is_warned_of_before_the_start(
    corral: Corral, repo: Repo, elsewhere: Elsewhere, check: str
) -> None:
    outcome = corral("run", "t", "--repo", repo.folder, "--agent", "mine", "--check", check.format(elsewhere))
    assert outcome.code == 0, outcome
    warning = f"`{elsewhere.tool}` may be started and is not visible in the box; hint: show it: --read "
    assert warning in outcome.err
    assert outcome.err.index(warning) < outcome.err.index("running"), outcome


def test_the_second_program_of_an_agent_may_stand_anywhere(corral: Corral, repo: Repo, elsewhere: Elsewhere) -> None:
    corral.config(f"""[agents.other]\ncommand = ["sh", "-c", "if true; then {elsewhere.tool}; fi"]""")
    assert corral.run(repo, "t", "--agent", "other").code == 2
    corral.config(f"""[agents.maybe]\ncommand = ["sh", "-c", "echo x > x || {elsewhere.tool}"]""")
    outcome = corral("run", "t", "--repo", repo.folder, "--agent", "maybe")
    assert outcome.code == 0, outcome
    assert f"the agent `maybe`: `{elsewhere.tool}` may be started and is not visible in the box" in outcome.err


def test_a_path_that_is_nowhere_is_refused_with_another_hint(corral: Corral, repo: Repo) -> None:
    refused = corral.run(repo, "t", "--agent", "mine", "--check", "cat x && /opt/no/such/program")
    assert refused.code == 2, refused
    assert "`/opt/no/such/program` does not exist: there is no such program on this machine" in refused.err
    assert "--read" not in refused.err
