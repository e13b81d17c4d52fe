"""Objects that are made without git: git reads them, and names them as we do."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from corral.world.git import incoming_objects, notes, ref_files
from corral.world.git.made_objects import TreeEntry, make_commit, make_object, make_trees, read_tree
from corral.world.git.repository import Repository
from tests.rig.repository import Repo

NOTES = "refs/notes/corral"
FILES = {"a.b/x": "1", "a/y/z": "2", "a-b": "3", "b/c/d/e": "4", "z": "5"}


def of(repo: Repo) -> Repository:
    return Repository(repo.folder, repo.folder / ".git")


def test_trees_and_commits_are_what_git_makes_of_the_same_files(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    base = repo.commit(FILES)
    rows = [line.split(maxsplit=3) for line in repo.git("ls-tree", "-r", base).splitlines()]
    entries = {path: TreeEntry(int(mode, 8), bytes.fromhex(name)) for mode, _, name, path in rows}
    assert make_trees(entries)[-1].name.hex() == repo.git("rev-parse", f"{base}^{{tree}}")
    blob = make_object(b"blob", b"new\n")
    trees = make_trees({**entries, **{path: TreeEntry(0o100755, blob.name) for path in ("a/y/new", "q/r")}})
    commit = make_commit(trees[-1].name, [base], ("You", "you@example.org"), "a subject  \n\nmore\n")
    assert commit is not None
    with incoming_objects.add_objects(of(repo), [blob, *trees, commit]) as index:
        assert ref_files.write(repo.folder / ".git", "refs/heads/corral/x/y", commit.name.hex(), None)
    assert index.exists()
    assert not list(index.parent.glob("*.keep"))
    assert not list(index.parent.glob("tmp_*"))
    repo.git("fsck", "--strict")
    said = repo.git("log", "-1", "--format=%an <%ae>%n%cn%n%B", "corral/x/y").splitlines()
    assert said[:5] == ["You <you@example.org>", "You", "a subject", "", "more"]
    assert repo.git("diff", "--name-only", base, "corral/x/y").splitlines() == ["a/y/new", "q/r"]
    assert read_tree(trees[-1].content)[b"a-b"].mode == 0o100644
    assert "corral/x/y@{0}" in repo.git("reflog", "show", "corral/x/y")


@pytest.mark.parametrize("name", ["", " You", "You.", "Y<u", "a\nb"])
def test_names_that_git_would_write_otherwise_are_left_to_git(name: str) -> None:
    assert make_commit(bytes(20), [], (name, "you@example.org"), "subject") is None


def test_a_ref_is_written_only_where_none_is_and_none_is_above_or_below(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    first, second = repo.commit({"a": "1"}), repo.commit({"a": "2"})
    git_dir = repo.folder / ".git"
    assert ref_files.write(git_dir, "refs/notes/x", first, None)
    assert not ref_files.write(git_dir, "refs/notes/x", second, None)
    assert not ref_files.write(git_dir, "refs/notes/x/y", second, None)
    assert ref_files.write(git_dir, "refs/heads/a/b/c", first, None)
    for state in ("as files", "packed"):
        for name in ("a", "a/b", "a/b/c", "a/b/c/d"):
            assert not ref_files.write(git_dir, f"refs/heads/{name}", second, None), (state, name)
        repo.git("pack-refs", "--all", "--prune")
        assert not (git_dir / "refs" / "heads" / "a").exists()
    (git_dir / "refs" / "heads" / "z.lock").touch()  # a git is at work there
    assert not ref_files.write(git_dir, "refs/heads/z", second, None)
    assert ref_files.write(git_dir, "refs/heads/a/b/d", second, None)
    assert [repo.git("rev-parse", name) for name in ("refs/notes/x", "a/b/c", "a/b/d")] == [first, first, second]
    repo.git("config", "core.logAllRefUpdates", "always")  # git would log other refs too
    assert not ref_files.write(git_dir, "refs/heads/y", second, None)


#: Forks writers that are killed at their first line, their second, and so on, until one comes to its end.
KILLED = """
import os, signal, sys
from pathlib import Path
from corral.world.git import incoming_objects, ref_files
from corral.world.git.made_objects import make_commit, make_object, make_trees, TreeEntry
from corral.world.git.repository import Repository
folder, base = Path(sys.argv[1]), sys.argv[2]
repository = Repository(folder, folder / ".git")
def write(last):
    blob = make_object(b"blob", b"%d" % last)
    trees = make_trees({"f": TreeEntry(0o100644, blob.name)})
    commit = make_commit(trees[-1].name, [base], ("You", "you@example.org"), "made")
    left = last
    def count(frame, event, _):
        nonlocal left
        left -= event == "line"
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return count if frame.f_code.co_filename in (incoming_objects.__file__, ref_files.__file__) else None
    sys.settrace(count)
    with incoming_objects.add_objects(repository, [blob, *trees, commit]):
        assert ref_files.write(repository.git_dir, f"refs/heads/corral/x/{last}", commit.name.hex(), None)
    os._exit(0)
incoming_objects.LOOK_SECONDS = 1e9
with incoming_objects.add_objects(repository, [make_object(b"blob", b"first")]):
    pass  # from here on none looks for leftovers, whose number would change the number of lines
for last in range(1, 2000):
    code = os.waitpid(os.fork() or write(last), 0)[1]
    if code != signal.SIGKILL:
        print(last)
        sys.exit(bool(code))
"""


def test_a_writer_that_is_killed_at_any_line_leaves_a_whole_ref_or_none_and_no_lock(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    base, git_dir = repo.commit({"a": "1"}), repo.folder / ".git"
    words = [sys.executable, "-c", KILLED, str(repo.folder), base]
    last = int(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    refs = [f"refs/heads/corral/x/{number}" for number in range(1, last + 1)]
    absent = [ref for ref in refs if ref_files.is_absent(git_dir, ref)]
    assert last > 80
    assert refs[0] in absent
    assert refs[-1] not in absent
    assert not list((git_dir / "refs").rglob("*.lock"))
    for ref in absent:
        assert ref_files.write(git_dir, ref, base, None)
    incoming_objects.remove_leftovers(git_dir / "objects")
    assert not list(git_dir.glob("objects/corral-*"))
    assert not [mark for mark in git_dir.glob("objects/pack/*.keep") if mark.with_suffix(".idx").exists()]
    repo.git("gc", "--quiet", "--prune=now")
    repo.git("fsck", "--strict")
    for number in {last, len(absent) + 1}:
        assert repo.git("show", f"{refs[number - 1]}:f") == str(number)


def test_notes_are_added_without_git_beside_those_that_git_and_users_wrote(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    commits = [repo.commit({"a": str(number)}) for number in range(6)]
    for number, commit in enumerate(commits[:3]):
        asyncio.run(notes.add_note(of(repo), commit, NOTES, b"%d\n" % number))
    repo.git("notes", f"--ref={NOTES}", "add", "-m", "by hand", commits[3])  # the next one begins from there
    asyncio.run(notes.add_note(of(repo), commits[4], NOTES, b"4\n"))
    asyncio.run(notes.add_note(of(repo), commits[4], NOTES, b"four\n"))
    repo.git("gc", "--quiet", "--prune=now")  # and from other packs
    asyncio.run(notes.add_note(of(repo), commits[5], NOTES, b"5\n"))
    shown = [repo.git("notes", f"--ref={NOTES}", "show", commit) for commit in commits]
    assert shown == ["0", "1", "2", "by hand", "four", "5"]
    repo.git("fsck", "--strict")
    assert len(repo.git("reflog", "show", NOTES).splitlines()) == 7
