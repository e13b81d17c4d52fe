"""Names, numbers and bytes that no machine can use: one short line, a hint, exit 2; nothing started."""

import subprocess

import pytest

from tests.rig.command import Corral

LONG = "0" * 300
DEEP = "[" * 50_000 + "]" * 50_000
FLOW = "nodes:\n  a: {{task: t, {}}}\n"

ARGUMENTS: dict[str, list[str]] = {
    "repo": ["run", "t", "--repo", LONG],
    "repo of 200 kB in parts": ["run", "t", "--repo", "/".join(["x" * 200] * 500)],
    "repo of nobody": ["run", "t", "--repo", "~nosuchuser/x"],
    "output": ["run", "t", "--agent", "mine", "--output", LONG],
    "scope": ["run", "t", "--agent", "mine", "--scope", LONG],
    "role": ["run", "t", "--agent", "mine", "--role", LONG],
    "skill": ["run", "t", "--agent", "mine", "--skill", LONG],
    "script": ["run", "t", "--agent", f"scripted:{LONG}"],
    "recording": ["run", "t", "--agent", f"replay:{LONG}"],
    "agent": ["run", "t", "--agent", "x" * 100_000],
    "check": ["run", "t", "--agent", "mine", "--check", LONG],
    "base": ["run", "t", "--agent", "mine", "--base", "b" * 70_000],
    "tasks": ["run", "--agent", "mine", "--tasks", LONG],
    "trust": ["trust", LONG],
    "root": ["serve", "--root", LONG],
    "run": ["show", "x" * 100_000],
    "flow file": ["flow", "check", LONG],
    "import": ["agents", "--import", LONG],
    "count": ["ls", "-n", "9" * 20],
    "days": ["cost", "--days", "9" * 20],
    "tokens": ["run", "t", "--agent", "mine", "--max-tokens", "9" * 20],
    "money": ["run", "t", "--agent", "mine", "--budget", "1e400"],
    "retries": ["run", "t", "--agent", "mine", "--retries", "9" * 400],
    "time": ["run", "t", "--agent", "mine", "--timeout", "9" * 400 + "s"],
    "rate": ["serve", "--rate", "nan"],
    "keep": ["clean", "--keep", "9" * 20],
    "input without a flow": ["resume", "@last", "--input", "a=b"],
    "deep shape": ["run", "t", "--agent", "mine", "--output", DEEP],
}


def refused(code: int, err: str) -> None:
    lines = err.splitlines()
    assert code == 2, err[:2000]
    assert lines[0].startswith("error: ")
    assert "itself failed" not in err
    assert len(err) < 2500, len(err)
    assert len(lines) <= 2


@pytest.mark.parametrize("case", ARGUMENTS)
def test_what_nobody_can_use_is_refused_in_a_short_line(corral: Corral, case: str) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral(*ARGUMENTS[case], cwd=corral.repo().folder)
    refused(outcome.code, outcome.err)
    assert corral.leavings() == []


@pytest.mark.parametrize("command", ["verify", "merge", "trigger run", "queue move", "run", "show", "trust", "mail"])
def test_bytes_that_are_no_text_are_refused(corral: Corral, command: str) -> None:
    argv = [*corral.program, *command.split(), b"caf\xff\x1b[2J"]
    done = subprocess.run(argv, env=corral.env, cwd=corral.root, capture_output=True, check=False, timeout=60)
    refused(done.returncode, done.stderr.decode())
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    "key", [f"role: {LONG}", f"agent: 'scripted:{LONG}'", f"flow: {LONG}", f"checks: [{LONG}]", f"skills: [{LONG}]"]
)
def test_a_flow_file_with_such_a_name_says_where(corral: Corral, key: str) -> None:
    text = f"nodes:\n  a:\n    {key}\n" + ("" if key.startswith("flow") else "    task: t\n")
    (corral.root / "f.yaml").write_text(text)
    outcome = corral("flow", "check", "f.yaml", cwd=corral.root)
    assert outcome.code == 2, outcome
    assert "f.yaml:" in outcome.err.splitlines()[0]
    assert "itself failed" not in outcome.err


@pytest.mark.parametrize("name", ["corral.toml", "deep.yaml"])
def test_a_file_that_is_nested_deeply_is_refused(corral: Corral, name: str) -> None:
    repo = corral.repo()
    repo.write({name: f"a = {DEEP}\n" if name.endswith("toml") else f"nodes: {DEEP}\n"})
    command = ["run", "t"] if name.endswith("toml") else ["flow", "check", name]
    outcome = corral(*command, cwd=repo.folder)
    assert outcome.code == 2, outcome
    assert name in outcome.err
    assert "Recursion" not in outcome.err
    assert len(outcome.err) < 2500


def test_an_import_with_a_long_name_prints_little(corral: Corral) -> None:
    (corral.root / "agents.yaml").write_text(f"agents:\n  - name: {'x' * 120_000}\n")
    outcome = corral("agents", "--import", "agents.yaml", cwd=corral.root)
    refused(outcome.code, outcome.err)
    assert outcome.out == ""
