"""Agents that print what nobody expects: nothing, binary, lines without end; corral stays calm."""

import pytest

from tests.rig.command import Corral, Outcome

pytestmark = pytest.mark.slow  # left out of `make quick`

WORK = "echo x > x\n"


def printed(corral: Corral, script: str, settings: str = "") -> Outcome:
    corral.agent("mine", WORK + script, settings)
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0")
    for arguments in (["logs", "@last"], ["logs", "@last", "--json"], ["export"], ["show", "@last"]):
        seen = corral(*arguments)
        assert seen.code == 0, seen.err
        assert "\x1b" not in seen.out
    return outcome


def test_nothing_at_all(corral: Corral) -> None:
    outcome = printed(corral, "")
    assert (outcome.code, outcome.attempt["output"]) == (0, "")


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_nothing_where_an_answer_was_promised(corral: Corral, kind: str) -> None:
    outcome = printed(corral, "", f'output = "{kind}"')
    assert outcome.attempt["error"]["class"] == "bad_output"


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "regex"])
def test_bytes_that_are_no_text(corral: Corral, kind: str) -> None:
    noise = "head -c 300000 /dev/urandom | tr -d '[:alnum:]\"'"  # a line of it could be JSON by chance
    outcome = printed(corral, noise + "; printf '\\377\\376\\000\\n\\303('", f'output = "{kind}"')
    assert outcome.json["status"] == ("done" if kind in ("text", "regex") else "failed")


def test_invalid_utf8_among_good_words(corral: Corral) -> None:
    outcome = printed(corral, "printf 'caf\\303\\251 \\377 na\\303\\257ve\\n'")
    assert outcome.attempt["output"] == "café � naïve"


def test_control_codes_do_not_reach_the_readers_terminal(corral: Corral) -> None:
    outcome = printed(corral, "printf '\\033[31mred\\033]0;title\\007\\r\\nplain\\n'")
    assert outcome.code == 0
    shown = corral("logs", "@last").out
    assert "red" in shown
    assert "\x07" not in shown
    assert "\r" not in shown


def test_control_codes_in_the_task_and_in_names_do_not_reach_it_either(corral: Corral) -> None:
    corral.agent("mine", "touch \"$(printf 'a\\033[31mb')\"")
    repo = corral.repo()
    outcome = corral("run", "red \x1b[31m task", "--agent", "mine", cwd=repo.folder)
    assert outcome.code == 0, outcome
    for seen in (outcome, corral("ls"), corral("show", "@last"), corral("logs", "@last")):
        assert "\x1b" not in seen.out + seen.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_a_line_of_100_megabytes(corral: Corral, kind: str) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo '{\"text\": \"after it\"}'"
    outcome = printed(corral, script, f'output = "{kind}"')
    assert outcome.code == 0, outcome
    assert any("after it" in event.get("text", "") for event in corral.events())
    assert len(outcome.out) < 20_000_000
    assert sum(file.stat().st_size for file in corral.home.glob("corral.db*")) < 100_000_000


@pytest.mark.slow
def test_many_lines(corral: Corral) -> None:
    outcome = printed(corral, "seq 1 200000; echo the last words")
    assert outcome.code == 0, outcome
    notes = [event["text"] for event in corral.events() if event["type"] == "noted"]
    assert any("too much" in note for note in notes)


def test_much_on_stderr_is_no_answer(corral: Corral) -> None:
    outcome = printed(corral, "seq 1 200000 >&2; echo fine")
    assert outcome.attempt["output"] == "fine"


def test_it_closes_its_streams_and_works_on(corral: Corral) -> None:
    outcome = printed(corral, "exec >&- 2>&-; head -c 1000 /dev/zero > y")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["x", "y"]


def test_it_never_reads_its_long_task(corral: Corral) -> None:
    corral.agent("deaf", "exec <&-; echo x > x", 'prompt = "stdin"')
    outcome = corral.run(corral.repo(), "-", "--agent", "deaf", stdin=b"word " * 200_000)
    assert outcome.code == 0, outcome


def test_it_is_killed_by_a_signal(corral: Corral) -> None:
    outcome = printed(corral, "kill -SEGV $$")
    assert outcome.attempt["error"]["class"] == "crash"


@pytest.mark.parametrize(
    "leaving",
    [
        "chmod 000 . x",
        "mkdir -p d && touch d/f && chmod 000 d",
        "ln -s /etc/passwd link; ln -s loop loop",
        "mkfifo pipe",
        "touch \"$(printf 'bad\\377name')\" 'with\nnewline' '-rf' ' '",
        "rm -rf .git/index",
        "touch .git/index.lock .git/HEAD.lock",
        "git checkout -q --detach",
        "git checkout -q -b other",
        "git init -q inner && cd inner && echo y > y && git add y && git -c user.name=a -c user.email=b commit -qm y",
    ],
)
def test_it_leaves_a_strange_workspace(corral: Corral, leaving: str) -> None:
    corral.agent("mine", f"echo x > x\n{leaving}")
    repo = corral.repo()
    before = repo.fingerprint()
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert outcome.json["status"] in ("done", "failed"), outcome
    if outcome.json["status"] == "done":
        assert "x" in outcome.attempt["files_changed"]
        assert corral.leavings() == []
    else:
        assert outcome.attempt["error"]["message"]
    assert repo.fingerprint() == before


def test_it_removes_its_own_repository(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x; rm a.txt; find .git -delete 2>/dev/null; rm -rf .git; ls -A .git")
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["a.txt", "x"]
    assert repo.read(outcome.attempt["branch"], "x") == "x"


def test_a_branch_rewritten_from_its_base_is_taken_as_it_is(corral: Corral) -> None:
    corral.agent("mine", "git checkout -q --orphan fresh; git rm -rqf .; echo x > x; git add x; git commit -qm fresh")
    repo = corral.repo()
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert outcome.json["status"] in ("done", "failed")
    assert repo.read(outcome.attempt["commit"], "x") == "x"
