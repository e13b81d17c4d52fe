"""An attempt reads the git objects of its own base, and nobody else's."""

import re

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

#: What an agent would try to read what is not its own.
LOOK = """
{
    git cat-file --batch-all-objects --batch-check='%(objectname)' | git cat-file --batch
    git stash list; git for-each-ref; git log --all --stat; git notes list
    git fsck --lost-found --no-reflogs; git reflog --all
    cat .git/objects/info/alternates
    while read -r folder; do
        ls -R "$folder/.." "$folder/../.." "$folder/../../.."
        cat "$folder/info/alternates"
    done < .git/objects/info/alternates
} 2>&1 | cat > seen.txt
"""


def with_foreign_things(corral: Corral) -> Repo:
    """Make a repository that holds more than its branch reaches."""
    repo = corral.repo()
    repo.commit({"a.txt": "foreign: amended away\n"})
    repo.write({"a.txt": "own\n"})
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "own words")
    repo.git("notes", "add", "-m", "foreign: a note")
    repo.git("checkout", "--quiet", "-b", "foreign-branch")
    repo.commit({"b.txt": "foreign: another branch\n"})
    repo.git("checkout", "--quiet", "main")
    repo.write({"a.txt": "foreign: stashed\n"})
    repo.git("stash", "--quiet")
    return repo


def test_an_agent_sees_nothing_foreign_and_its_checks_neither(corral: Corral) -> None:
    repo = with_foreign_things(corral)
    corral.agent("first", "echo 'foreign: of another attempt' > work.txt; git add -A; git commit -qm 'foreign: words'")
    earlier = corral.run(repo, "t", "--agent", "first")
    assert earlier.code == 0, earlier
    corral.agent("curious", LOOK)
    check = f"sh -c '{LOOK.replace(chr(39), chr(34))}'; cat seen.txt; ! grep -q foreign seen.txt"
    outcome = corral.run(repo, "t", "--agent", "curious", "--check", check, "--retries", "0")

    assert outcome.code == 0, outcome
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "own words" in seen
    assert "foreign" not in seen
    assert str(repo.folder) not in seen  # nor where the repository is
    assert earlier.attempt["commit"] not in seen


def test_in_a_race_nobody_sees_what_a_rival_has_so_far(corral: Corral) -> None:
    repo = corral.repo()
    corral.config('[workspace]\nsnapshot = "0.3s"')
    script = 'echo "secret of $CORRAL_ATTEMPT" > mine.txt; until [ -e go ]; do sleep 0.05; done; rm go\n'
    for name in ("one", "two"):
        corral.agent(name, script + LOOK)
    race = ("--agent", "one,two")

    def at_work() -> set[str]:
        return {ref.split("/")[3] for ref in repo.refs("refs/corral/snapshots")}

    with corral.going("run", "t", "--repo", repo.folder, "--json", "--check", "test -f seen.txt", *race) as going:
        until(lambda: len(at_work()) == 2, "what both have so far is kept")
        for attempt in at_work():
            (corral.home / "workspaces" / attempt / "work" / "go").touch()
        outcome = going.end()
    assert outcome.code == 0, outcome
    for attempt in at_work():
        seen = repo.read(f"refs/corral/attempts/{attempt}", "seen.txt")
        assert "one" in seen
        assert set(re.findall(r"secret of (\S+)", seen)) <= {attempt}


def test_a_submodules_history_is_its_own(corral: Corral) -> None:
    library = corral.repo("library", {"lib.txt": "library\n"})
    repo = corral.repo()
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    inner = Repo(repo.folder / "lib")
    inner.git("checkout", "--quiet", "-b", "foreign")
    inner.commit({"lib.txt": "foreign: not used\n"})
    repo.git("submodule", "--quiet", "update")
    corral.agent("curious", f"cd lib\n{LOOK}\nmv seen.txt ..")
    outcome = corral.run(repo, "t", "--agent", "curious")
    assert outcome.code == 0, outcome
    seen = repo.read(outcome.attempt["commit"], "seen.txt")
    assert "library" in seen
    assert "foreign" not in seen


def test_clean_removes_the_objects_that_nobody_uses(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo x > x")
    assert corral.run(repo, "t", "--agent", "mine").code == 0
    assert list(corral.home.glob("objects/*/*/*.pack"))
    assert corral("clean", "--keep", "0").code == 0
    assert not list(corral.home.glob("objects/*/*/*.pack"))
