"""The main journey: a task, an agent, a proven result on a branch, and a checkout that nobody touched."""

import hashlib

import pytest

from tests.rig.command import Corral
from tests.rig.levels import BOXED

RUN = {
    "run", "status", "reason", "strategy", "repo", "base", "started", "seconds", "cost", "tokens", "nodes", "merge",
}  # fmt: skip
NODE = {"id", "status", "reason", "needs", "winner", "why", "attempts"}
ATTEMPT = {
    "id", "try", "retry_of", "fallback_of", "agent", "model", "role", "status", "error", "cost", "tokens", "seconds",
    "session", "branch", "commit", "files_changed", "insertions", "deletions", "checks", "sandbox", "output",
}  # fmt: skip
TOKENS = {"input", "output", "cache_read", "cache_write"}


@pytest.fixture
def corral(corral: Corral) -> Corral:
    """The main journey takes no short cut."""
    corral.always_anew = True
    return corral


def test_a_task_ends_as_a_proven_commit_on_a_branch(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo three >> a.txt; echo new > c.txt; echo it is done")
    before = repo.fingerprint()

    outcome = corral.run(repo, "add a line", "--agent", "mine", "--check", "grep -q new c.txt")

    assert outcome.code == 0, outcome
    run, attempt = outcome.json, outcome.attempt
    assert (run["status"], run["reason"], run["strategy"], run["base"]) == ("done", None, "single", repo.head)
    assert run["repo"] == str(repo.folder)
    assert run["merge"] == {"status": "ready", "into": "main", "commit": None, "conflicts": []}
    assert attempt["files_changed"] == ["a.txt", "c.txt"]
    assert (attempt["insertions"], attempt["deletions"]) == (2, 0)
    assert attempt["output"] == "it is done"
    assert [(check["command"], check["exit_code"]) for check in attempt["checks"]] == [("grep -q new c.txt", 0)]
    assert attempt["branch"] == f"corral/{run['run']}/main/{attempt['id']}"
    assert repo.git("rev-parse", f"refs/heads/{attempt['branch']}") == attempt["commit"]
    assert repo.git("rev-parse", f"{attempt['commit']}^") == repo.head
    assert repo.read(attempt["commit"], "a.txt") == "one\nthree"
    assert attempt["commit"] in repo.git("for-each-ref", "--format=%(objectname)", "refs/corral")
    assert repo.fingerprint() == before
    assert corral.leavings() == []


def test_the_run_document_has_every_key_of_the_contract(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    run = corral.run(repo, "add x", "--agent", "mine", "--check", "true").json

    assert set(run) >= RUN
    node = run["nodes"][0]
    attempt = node["attempts"][0]
    assert set(node) >= NODE
    assert set(attempt) >= ATTEMPT
    assert set(run["tokens"]) == set(attempt["tokens"]) == TOKENS
    assert set(run["cost"]) == set(attempt["cost"]) == {"usd", "source", "reserved_usd"}
    assert set(attempt["checks"][0]) >= {"command", "exit_code", "seconds"}
    assert set(attempt["sandbox"]) == {"level", "net", "violations"}
    assert set(run["merge"]) == {"status", "into", "commit", "conflicts"}
    assert (node["id"], node["status"], node["winner"], attempt["try"]) == ("main", "done", attempt["id"], 1)
    assert attempt["sandbox"]["level"] in BOXED
    assert attempt["sandbox"]["net"] == "held"
    assert attempt["sandbox"]["violations"] == []
    assert corral("show", run["run"], "--json").json == run


def test_the_receipt_is_a_git_note_on_the_commit(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    attempt = corral.run(repo, "add x", "--agent", "mine", "--check", "test -f x").attempt

    receipt = repo.receipt(attempt["commit"])
    patch = corral("diff", "@last").bytes
    assert receipt["commit"] == attempt["commit"]
    assert receipt["tree"] == repo.git("rev-parse", f"{attempt['commit']}^{{tree}}")
    assert receipt["base"] == repo.head
    assert receipt["diff_sha256"] == hashlib.sha256(patch).hexdigest()
    assert [check["exit_code"] for check in receipt["checks"]] == [0]
    assert (receipt["status"], receipt["agent"]) == ("done", "mine")
    assert receipt["sandbox"]["level"] in BOXED


def test_without_json_it_says_what_happened_and_what_to_type_next(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x", "cost_usd = 0.25")
    outcome = corral("run", "add x", "--agent", "mine", "--check", "true", cwd=repo.folder)

    assert outcome.code == 0, outcome
    assert outcome.out.startswith("done ")
    for words in ("$0.25", "x  +1 -0", "true: passed", "corral/", "corral diff", "sandbox "):
        assert words in outcome.out
    assert repo.head[:12] in outcome.err
    assert len(outcome.err.splitlines()) <= 5


def test_quiet_says_nothing_on_stderr(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    outcome = corral("run", "add x", "--agent", "mine", "--quiet", cwd=repo.folder)
    assert (outcome.code, outcome.err) == (0, "")


def test_commits_of_the_agent_itself_are_kept_and_its_rest_is_committed(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x; git add x; git commit -qm 'my own words'; rm a.txt; echo y > y")
    attempt = corral.run(repo, "add x", "--agent", "mine").attempt

    log = repo.git("log", "--format=%s", f"{repo.head}..{attempt['commit']}").splitlines()
    assert log == ["add x", "my own words"]
    assert attempt["files_changed"] == ["a.txt", "x", "y"]


def test_nothing_of_the_engine_is_in_the_result(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("plain", "echo x > x", 'prompt = "file"')
    attempt = corral.run(repo, "add x", "--agent", "plain", "--check", "echo out > made-by-check").attempt
    assert repo.files(attempt["commit"]) == ["a.txt", "src/b.txt", "x"]


def test_an_agent_that_changes_nothing_is_not_done(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("idle", "echo all is well")
    outcome = corral.run(repo, "improve it", "--agent", "idle", "--retries", "0")

    assert outcome.code == 1
    assert outcome.json["status"] == "failed"
    assert outcome.attempt["error"]["class"] == "no_change"
    assert "--read-only" in outcome.attempt["error"]["hint"]
    assert repo.refs("refs/heads/corral", "refs/notes") == []


def test_changing_nothing_is_success_when_the_task_is_read_only(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("reviewer", "echo it looks good")
    outcome = corral.run(repo, "review it", "--agent", "reviewer", "--read-only")

    assert (outcome.code, outcome.json["status"]) == (0, "done")
    assert outcome.attempt["output"] == "it looks good"
    assert outcome.json["merge"]["status"] == "none"
    assert "nothing changed" in corral("diff", "@last").err


@pytest.mark.parametrize("passes", [True, False])
def test_every_check_must_pass(corral: Corral, passes: bool) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    second = "grep -q x x" if passes else "echo some words; grep -q y x"
    outcome = corral.run(repo, "add x", "--agent", "mine", "--check", "true", "--check", second, "--retries", "0")

    assert outcome.json["status"] == ("done" if passes else "failed")
    assert outcome.code == (0 if passes else 1)
    assert [check["exit_code"] for check in outcome.attempt["checks"]] == [0, 0 if passes else 1]
    if not passes:
        error = outcome.attempt["error"]
        assert error["class"] == "check_failed"
        assert second in error["message"]
        assert repo.read(outcome.attempt["commit"], "x") == "x"  # the work is kept all the same
        assert outcome.json["merge"]["status"] == "none"


def test_an_agent_that_fails_keeps_its_work_and_its_last_words(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("broken", "echo x > x; echo out of luck >&2; exit 7")
    outcome = corral.run(repo, "add x", "--agent", "broken", "--retries", "0")

    assert (outcome.code, outcome.json["status"]) == (1, "failed")
    assert outcome.attempt["error"]["class"] == "crash"
    assert "7" in outcome.attempt["error"]["message"]
    assert "out of luck" in outcome.attempt["error"]["message"]
    assert repo.read(outcome.attempt["commit"], "x") == "x"


def test_the_task_comes_from_stdin(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", 'printf %s "$1" > task.txt')
    outcome = corral.run(repo, "-", "--agent", "mine", stdin="first line\nzweite Zeile: ü\n".encode())
    assert repo.read(outcome.attempt["commit"], "task.txt") == "first line\nzweite Zeile: ü"


def test_files_of_the_task_are_named_to_the_agent(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", 'printf %s "$1" > task.txt')
    outcome = corral.run(repo, "mend it", "--agent", "mine", "--file", "src/b.txt", "--file", "a.txt")
    told = repo.read(outcome.attempt["commit"], "task.txt")
    assert told.startswith("mend it\n")
    assert "src/b.txt" in told
    assert "a.txt" in told


def test_the_engines_commits_carry_the_persons_name(corral: Corral) -> None:
    repo = corral.repo()
    (corral.user_home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    corral.agent("mine", "echo x > x")
    attempt = corral.run(repo, "add x", "--agent", "mine").attempt
    assert repo.git("log", "-1", "--format=%an <%ae>|%cn", attempt["commit"]) == "Ada <ada@example.org>|Ada"
    repo.git("config", "user.name", 'Bob "the builder" \\o/')
    attempt = corral.run(repo, "add x", "--agent", "mine").attempt
    assert repo.git("log", "-1", "--format=%an", attempt["commit"]) == 'Bob "the builder" \\o/'
