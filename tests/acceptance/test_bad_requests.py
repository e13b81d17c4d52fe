"""What a person can get wrong: one clear line, a hint, exit 2; nothing started, nothing changed."""

from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo


def refused(outcome: Outcome, *words: str, hint: str = "") -> None:
    """Assert that a request was refused in the one form that all errors have."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert lines[0].startswith("error: "), outcome
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert len(lines) <= 2, outcome
    assert all(word in lines[0] for word in words), outcome
    if hint:
        assert lines[1].startswith("hint: "), outcome
        assert hint in lines[1]


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", "echo x > x")
    return corral


@pytest.fixture
def repo(ready: Corral) -> Repo:
    return ready.repo()


CASES: dict[str, tuple[list[str], list[str], str]] = {
    "unknown agent": (["t", "--agent", "mime"], ["mime"], "did you mean `mine`"),
    "unknown agent, nothing near": (["t", "--agent", "zzzzz"], ["zzzzz"], "mine"),
    "agent not installed": (["t", "--agent", "claude"], ["claude", "not installed"], "npm install"),
    "unknown base": (["t", "--agent", "mine", "--base", "nowhere"], ["nowhere"], "branch"),
    "base like an option": (["t", "--agent", "mine", "--base=--output=x"], ["--output=x"], ""),
    "empty task": (["", "--agent", "mine"], ["empty"], "corral run"),
    "blank task": ([" \n\t ", "--agent", "mine"], ["empty"], "corral run"),
    "task of 100 kB and more": (["x" * 100_001, "--agent", "mine"], ["too long"], "stdin"),
    "negative budget": (["t", "--agent", "mine", "--budget", "-1"], ["--budget -1"], "leave it out"),
    "no budget": (["t", "--agent", "mine", "--budget", "0"], ["--budget 0"], ""),
    "budget that is no number": (["t", "--agent", "mine", "--budget", "nan"], ["--budget"], ""),
    "budget in words": (["t", "--agent", "mine", "--budget", "much"], ["much"], "--help"),
    "negative retries": (["t", "--agent", "mine", "--retries", "-1"], ["--retries"], ""),
    "too many retries": (["t", "--agent", "mine", "--retries", "101"], ["--retries 101", "100"], "tried once"),
    "check that is not there": (
        ["t", "--agent", "mine", "--check", "no-such-program -q"],
        ["no-such-program"],
        "install",
    ),
    "empty check": (["t", "--agent", "mine", "--check", ""], ["--check"], ""),
    "check with a quote too few": (["t", "--agent", "mine", "--check", "echo 'x"], ["--check"], "quotes"),
    "timeout in no unit": (["t", "--agent", "mine", "--timeout", "5 days"], ["--timeout"], "120h"),
    "no timeout": (["t", "--agent", "mine", "--timeout", "0"], ["--timeout"], "20m"),
    "idle in no unit": (["t", "--agent", "mine", "--idle", "soon"], ["--idle"], "20m"),
    "unknown type": (["t", "--agent", "mine", "--type", "magic"], ["magic"], "--help"),
    "unknown option": (["t", "--agent", "mine", "--chek", "true"], ["--chek"], "--help"),
    "no task": ([], ["task is empty"], "corral run"),
    "several agents": (["t", "--agent", "mine,mine", "--strategy", "single"], ["--strategy single"], "race"),
    "no script": (["t", "--agent", "scripted"], ["script"], "scripted:"),
    "script that is not there": (["t", "--agent", "scripted:/nowhere.toml"], ["/nowhere.toml"], ""),
    "agent without a name": (["t", "--agent", ":model"], ["agent"], ""),
    "no agent at all": (["t", "--agent", " , "], ["--agent"], "corral agents"),
    "agent without a model": (["t", "--agent", "mine:"], ["mine:", "model"], "NAME:MODEL"),
    "network of nobody": (["t", "--agent", "mine", "--net", ""], ["--net"], "hosts"),
    "a task with a NUL": (["-", "--agent", "mine"], ["NUL"], ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_request_is_refused_before_anything_happens(ready: Corral, repo: Repo, case: str) -> None:
    arguments, words, hint = CASES[case]
    before = repo.fingerprint()
    outcome = ready("run", *arguments, "--json", cwd=repo.folder, stdin=b"a\0b" if arguments[:1] == ["-"] else b"")
    refused(outcome, *words, hint=hint)
    assert ready("ls", "--json").json == []
    assert ready.leavings() == []
    assert repo.fingerprint() == before
    assert repo.refs("refs/corral", "refs/heads/corral") == []


def test_one_limit_of_retries_in_every_file(ready: Corral, repo: Repo) -> None:
    repo.write({"corral.toml": "[retry]\nmost = 99999999999999999999\n"})
    refused(ready.run(repo, "t", "--agent", "mine"), "corral.toml:2", "at most 100", hint="most = 100")
    repo.write({"corral.toml": "", "flow.yaml": "nodes: {a: {task: t, agent: mine, retries: 101}}\n"})
    outcome = ready("flow", "run", repo.folder / "flow.yaml", cwd=repo.folder)
    assert outcome.code == 2
    assert "`retries` is a whole number, 0 to 100" in outcome.err
    assert ready("ls", "--json").json == []


def test_a_folder_that_is_not_there(ready: Corral) -> None:
    refused(ready.run(ready.root / "nowhere", "t", "--agent", "mine"), "nowhere")
    (ready.root / "file").write_text("")
    refused(ready.run(ready.root / "file", "t", "--agent", "mine"), "file")


def test_who_asks_for_nothing_is_told_what_there_is(ready: Corral) -> None:
    for group, command in ((), "run"), (("flow",), "check"):
        outcome = ready(*group)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"  {command} " in outcome.out


def test_a_repository_that_leaves_no_room_for_work(ready: Corral, repo: Repo) -> None:
    odd = Repo.make(ready.root / "odd\nname")
    refused(ready.run(odd, "t", "--agent", "mine"), "line break", hint="rename")
    repo.git("branch", "corral")
    refused(ready.run(repo, "t", "--agent", "mine"), "`corral`", hint="git branch -m")
    assert ready("ls", "--json").json == []


def test_the_home_folder_is_too_much_to_copy(ready: Corral) -> None:
    refused(ready.run(ready.user_home, "t", "--agent", "mine"), "not a repository", hint="git init")
    for folder in ("/", "/usr", "/lib", "/etc/ssl"):
        refused(ready.run(Path(folder), "t", "--agent", "mine"), "not a repository", "no project", hint="--repo")
    assert not [*(ready.home / "folders").glob("*")]


def test_a_long_task_is_fine_on_stdin(ready: Corral, repo: Repo) -> None:
    ready.agent("reader", "wc -c > size", 'prompt = "stdin"')
    ready.agent("filer", 'wc -c < "$1" > size', 'prompt = "file"')
    task = b"word " * 200_000
    for agent in ("reader", "filer"):
        outcome = ready.run(repo, "-", "--agent", agent, stdin=task)
        assert outcome.code == 0, outcome
        assert repo.read(outcome.attempt["commit"], "size").strip() == str(len(task) - 1)


def test_a_long_task_does_not_fit_an_agent_that_takes_it_as_an_argument(ready: Corral, repo: Repo) -> None:
    outcome = ready.run(repo, "-", "--agent", "mine", stdin=b"x" * (1 << 20))
    refused(outcome, "too long", "mine", hint='prompt = "stdin"')
    assert ready("ls", "--json").json == []


def test_a_repository_that_is_broken(ready: Corral, repo: Repo) -> None:
    (repo.folder / ".git" / "HEAD").write_text("rubbish\n")
    outcome = ready.run(repo, "t", "--agent", "mine")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")


def test_head_that_names_no_commit(ready: Corral, repo: Repo) -> None:
    (repo.folder / ".git" / "HEAD").write_text("1" * 40 + "\n")
    refused(ready.run(repo, "t", "--agent", "mine"), "HEAD")


def test_unknown_commands(ready: Corral) -> None:
    refused(ready("rum"), "rum", hint="did you mean `corral run`?")
    refused(ready("xyzzy"), "xyzzy", hint="--help")
    refused(ready("show"), "there is no run yet", hint="corral run")
    refused(ready("diff", "zzz"), "there is no run yet", hint="corral run")  # `zzz` may be an attempt
    for command in ("show", "logs", "stop", "resume", "export"):
        refused(ready(command, "zzz"), "zzz", hint="corral ls")


def test_a_run_that_is_over_is_neither_resumed_nor_stopped_again(ready: Corral, repo: Repo) -> None:
    ready.run(repo, "t", "--agent", "mine")
    refused(ready("resume", "@last"), "over: done")
    stopped = ready("stop", "@last")
    assert stopped.code == 0
    assert "over already" in stopped.err
    assert ready("show", "@last", "--json").json["status"] == "done"


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "[" + ".".join(["a"] * 5000) + "]\nb = 1"])
def test_settings_that_are_nested_too_deep_are_refused(corral: Corral, text: str) -> None:
    repo = corral.repo(files={"corral.toml": text + "\n"})
    outcome = corral.run(repo, "t", "--agent", "scripted:none.toml")
    assert outcome.code == 2, outcome
    assert "corral.toml" in outcome.err
    assert "hint: " in outcome.err
