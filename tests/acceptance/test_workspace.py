"""How a workspace is made ready: ignored files copied, a setup run, for agents and for checks alike."""

import pytest

from tests.rig.command import Corral

IGNORE = {".gitignore": ".env*\nlocal/\n", "a.txt": "one\n"}


def test_ignored_files_are_copied_as_worktreeinclude_says(corral: Corral) -> None:
    repo = corral.repo(files={**IGNORE, ".worktreeinclude": ".env.test\nlocal/\n"})
    repo.write({".env.test": "KEY=1\n", ".env.secret": "no\n", "local/deep/data": "d\n", "untracked.txt": "u\n"})
    corral.agent("mine", "cat .env.test local/deep/data > told; ls -A > listed; echo more >> .env.test")
    check = "grep -q KEY=1 .env.test && test ! -e .env.secret && grep -q d local/deep/data"
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", check, "--retries", "0")

    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "told") == "KEY=1\nd"
    assert ".env.secret" not in repo.read(outcome.attempt["commit"], "listed")
    assert "untracked.txt" not in repo.read(outcome.attempt["commit"], "listed")
    assert outcome.attempt["files_changed"] == ["listed", "told"]
    assert (repo.folder / ".env.test").read_text() == "KEY=1\n"


def test_ignored_files_are_copied_as_the_persons_settings_say(corral: Corral) -> None:
    repo = corral.repo(files=IGNORE)
    repo.write({".env.test": "KEY=1\n"})
    corral.config('[workspace]\ncopy = [".env.test"]')
    corral.agent("mine", "cp .env.test told")
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", "test -f .env.test")
    assert outcome.code == 0, outcome


def test_ignored_files_are_copied_as_the_trusted_repository_says(corral: Corral) -> None:
    repo = corral.repo(files={**IGNORE, "corral.toml": '[workspace]\ncopy = [".env.test"]\n'})
    repo.write({".env.test": "KEY=1\n"})
    corral.agent("mine", "cp .env.test told")
    assert corral.run(repo, "t", "--agent", "mine", "--trust").code == 0


def test_a_link_out_of_the_repository_is_not_copied(corral: Corral) -> None:
    repo = corral.repo(files={**IGNORE, ".worktreeinclude": "local/\n.env*\n"})
    (corral.root / "secret").write_text("secret\n")
    (repo.folder / ".env.link").symlink_to(corral.root / "secret")
    (repo.folder / "local").symlink_to(corral.root)
    corral.agent("mine", "ls -A > listed; cat .env.link local/secret > told 2>/dev/null; true")
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert "secret" not in repo.read(outcome.attempt["commit"], "told")


def test_the_setup_runs_in_every_workspace(corral: Corral) -> None:
    corral.config('[workspace]\nsetup = "mkdir -p built && date +%s%N > built/stamp"')
    repo = corral.repo(files={".gitignore": "built/\n", "a.txt": "1\n"})
    corral.agent("mine", "cp built/stamp stamp")
    check = "test -s built/stamp && ! cmp -s built/stamp stamp"
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", check, "--retries", "0")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["stamp"]


def test_a_setup_in_the_box_reaches_nothing_outside(corral: Corral) -> None:
    repo = corral.repo()
    steps = f"! ls {repo.folder}/a.txt || exit 1; ! ls {corral.home}/corral.db || exit 1; touch {corral.root}/x; :"
    corral.config(f'[workspace]\nsetup = "{steps}"')
    corral.agent("mine", "echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert outcome.code == 0, outcome
    assert not (corral.root / "x").exists()


def test_a_setup_that_fails_is_reported_and_no_agent_starts(corral: Corral) -> None:
    corral.config('[workspace]\nsetup = "echo no such package >&2; exit 9"')
    corral.agent("mine", "echo i was started; echo x > x")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--retries", "0")

    assert (outcome.code, outcome.json["status"]) == (1, "failed")
    assert "no such package" in outcome.attempt["error"]["message"]
    assert "9" in outcome.attempt["error"]["message"]
    assert not any(event["type"] == "said" for event in corral.events())
    assert corral.leavings() == []


@pytest.mark.parametrize(
    "script",
    [
        "cat {repo}/a.txt",
        "cat {repo}/.git/config",
        "touch {repo}/.git/objects/x",
        "cat {home}/corral.db",
        "cat {config}",
        "touch /usr/x",
        "ls /root",
        "echo evil > .git/hooks/post-commit",
        "git config core.fsmonitor evil",
        "unshare -Ur true",
    ],
)
def test_an_agent_sees_only_its_workspace(corral: Corral, script: str) -> None:
    repo = corral.repo()
    words = script.format(repo=repo.folder, home=corral.home, config=corral.config_file)
    corral.agent("mine", f"if {words} 2>/dev/null; then echo broken out; fi; echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert "broken out" not in outcome.attempt["output"]


def test_a_kind_of_workspace_that_there_is_not(corral: Corral) -> None:
    corral.config('[workspace]\nkind = "copy"')
    outcome = corral.run(corral.repo(), "t", "--agent", "mine")
    assert outcome.code == 2
    assert "config.toml:2" in outcome.err
    assert "[workspace] Invalid enum value 'copy'" in outcome.err
    assert "hint: " in outcome.err
