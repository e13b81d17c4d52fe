"""Agents and repositories that mean harm: what they prepare must not be carried out, or read, by the engine."""

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # left out of `make quick`

#: A copy of .git is not guarded: its settings, and where it borrows objects, are the agent's to write.
OWN_GIT = "mv .git guarded && cp -R guarded .git && rm -rf guarded 2>/dev/null\n"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    (corral.root / "private").mkdir()
    (corral.root / "private" / "secret.txt").write_text("the secret words\n")
    return corral.repo()


def nothing_stolen(corral: Corral, repo: Repo) -> None:
    """Assert that the secret is in no result, no event and no stored output."""
    for reference in repo.refs("refs/corral", "refs/heads/corral"):
        for name in repo.git("ls-tree", "-r", "-z", "--name-only", reference).split("\0"):
            assert not name or "secret words" not in repo.read(reference, name)
    assert "secret words" not in corral("export").out


@pytest.mark.parametrize("borrowed", ["private", ""])
def test_borrowed_objects_open_no_door(corral: Corral, repo: Repo, borrowed: str) -> None:
    secret = corral.root / "private" / "secret.txt"
    script = f"""{OWN_GIT}
    echo '{corral.root / borrowed}' >> .git/objects/info/alternates
    git config filter.evil.clean 'cat {secret} 2>/dev/null || echo nothing'
    echo '* filter=evil' > .gitattributes
    echo x > stolen
    """
    corral.agent("thief", script)
    corral.run(repo, "t", "--agent", "thief", "--retries", "0")
    nothing_stolen(corral, repo)


def test_programs_in_its_own_git_settings_run_in_the_box_at_most(corral: Corral, repo: Repo) -> None:
    script = f"""{OWN_GIT}
    for key in core.fsmonitor core.pager diff.external gpg.program core.sshCommand uploadpack.packObjectsHook; do
      git config $key "touch {corral.root}/ran"
    done
    git config core.hooksPath .hooks
    mkdir .hooks; printf '#!/bin/sh\\ntouch {corral.root}/ran\\n' > .hooks/pre-commit; chmod +x .hooks/pre-commit
    echo x > x
    """
    corral.agent("mine", script)
    corral.run(repo, "t", "--agent", "mine", "--check", "test -f x", "--retries", "0")
    corral("diff", "@last")
    assert not (corral.root / "ran").exists()


@pytest.mark.parametrize("place", [".corral", ".corral/prompt.txt"])
def test_a_link_in_the_home_is_not_written_through(corral: Corral, repo: Repo, place: str) -> None:
    outside = corral.root / "outside"
    outside.mkdir()
    target = outside if place == ".corral" else outside / "prompt.txt"
    corral.config(f'[workspace]\nsetup = "mkdir -p $HOME/$(dirname {place}); ln -s {target} $HOME/{place}"')
    corral.agent("mine", "echo x > x", 'prompt = "file"')
    corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert list(outside.iterdir()) == []


def test_links_in_its_work_lead_nowhere(corral: Corral, repo: Repo) -> None:
    secret = corral.root / "private" / "secret.txt"
    corral.agent("mine", f"ln -s {secret} a; ln -s {secret.parent} b; ln -s / c; echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", f"! cat a && ! cat b/secret.txt && ! cat c{secret}")
    assert outcome.code == 0, outcome
    nothing_stolen(corral, repo)
    assert secret.read_text() == "the secret words\n"


def test_its_git_as_a_link_leads_nowhere(corral: Corral, repo: Repo) -> None:
    script = f"mv .git guarded; ln -s {repo.folder}/.git .git; echo x > x"
    corral.agent("mine", script)
    before = repo.fingerprint()
    corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert repo.fingerprint() == before


def test_references_of_the_person_are_not_its_to_move(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x; git add x; git commit -qm x; git update-ref refs/heads/main HEAD; git tag v1")
    before = repo.fingerprint()
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert repo.fingerprint() == before


def test_a_submodule_that_points_outside_is_not_followed(corral: Corral, repo: Repo) -> None:
    repo.git("config", "-f", ".gitmodules", "submodule.../../evil.path", "sub")
    repo.git("config", "-f", ".gitmodules", "submodule.../../evil.url", "../..")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head},sub")
    repo.git("add", ".gitmodules")
    repo.git("commit", "--quiet", "-m", "evil")
    corral.agent("mine", "echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome


def test_a_task_that_looks_like_options_is_a_task(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", 'printf %s "$1" > x')
    outcome = corral("run", "--agent", "mine", "--repo", repo.folder, "--json", "--", "--version; $(touch y) `touch z`")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "x") == "--version; $(touch y) `touch z`"
    assert outcome.attempt["files_changed"] == ["x"]
    assert repo.git("log", "-1", "--format=%s", outcome.attempt["commit"]) == "--version; $(touch y) `touch z`"


def test_scratch_folders_are_gone_after_a_run(corral: Corral, repo: Repo) -> None:
    scratch = corral.root / "scratch"
    scratch.mkdir()
    corral.agent("mine", "echo x > x; echo y >> a.txt")
    outcome = corral.run(repo, "t", "--agent", "mine", "--check", "grep -q one a.txt", env={"TMPDIR": str(scratch)})
    assert outcome.code == 0, outcome
    assert list(scratch.iterdir()) == []
