"""Small checkouts without git: written, looked through, and left to git where that is to decide."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from corral.machines import collect_work
from corral.rules.scope import globs
from corral.world.git.made_objects import make_trees
from corral.world.workspace import plain_files
from corral.world.workspace.checkout import DROPPINGS
from corral.world.workspace.plain_files import FreshCheckout, LeftToGit
from tests.rig.repository import GIT_ENV, Repo

IGNORES = "*.log\n!keep.log\n/build/\ndist\n*.py[co]\ndocs/*.tmp\n"
FILES = {
    ".gitignore": IGNORES, "a.txt": "one\n", "src/b.py": "two\n", "src/deep/c.py": "three\n", "docs/d.md": "four\n",
    "dist/tracked": "five\n",
}  # fmt: skip
HOME_SETTINGS = "[user]\nname = You\n"


class Checkout:
    """A checkout as an attempt gets it, and the same as git knows it."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.make(folder / "repo", dict(FILES))
        (self.repo.folder / "run.sh").write_text("#!/bin/sh\n")
        (self.repo.folder / "run.sh").chmod(0o755)
        (self.repo.folder / "link").symlink_to("a.txt")
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "-m", "more")
        self.tree, self.home = folder / "work", folder / "home"
        self.repo.git("clone", "-q", "--no-local", ".", str(self.tree))
        (self.tree / ".git" / "info" / "exclude").write_text(DROPPINGS)
        self.home.mkdir()
        (self.home / ".gitconfig").write_text(HOME_SETTINGS)
        commit = self.repo.git("rev-parse", "HEAD")
        made = plain_files.remember(folder, commit, self.tree)
        assert made
        assert made.contents
        self.known = made
        self.laid = plain_files.note_laid(made, self.tree, self.home)
        self.begun_ns = time.time_ns()

    def sh(self, script: str) -> None:
        env = {**GIT_ENV, "HOME": str(self.home), "PATH": os.environ["PATH"]}
        subprocess.run(["/bin/sh", "-ec", script], cwd=self.tree, env=env, check=True, capture_output=True)

    def found(self, laid: FreshCheckout | None = None) -> str:
        """Return the tree that is found by looking."""
        rules = [*collect_work.OWN_RULES, *globs.gitignore(IGNORES)]

        def ignored(path: str, *, folder: bool) -> bool:
            return globs.is_ignored(rules, path, folder=folder)

        changed = plain_files.find_changes(laid or self.laid, self.tree, self.home, self.begun_ns, ignored)
        return make_trees(changed.entries)[-1].name.hex()

    def by_git(self) -> str:
        self.sh("git add -A")
        out = subprocess.run(
            ["git", "write-tree"], cwd=self.tree, env=GIT_ENV, check=True, capture_output=True, text=True
        )
        return out.stdout.strip()


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "echo more >> a.txt",
        "printf 'One\\n' > a.txt",  # the same size, and perhaps the same moment
        "rm src/b.py; echo new > src/new.py; mkdir -p x/y; echo deep > x/y/z",
        "chmod +x a.txt; chmod -x run.sh",
        "rm link; ln -s nowhere link; ln -s src other",
        "rm a.txt; mkdir a.txt; echo in > a.txt/in; rm -r src; echo file > src",
        "echo x > some.log; echo x > keep.log; mkdir build; echo x > build/out; echo x > docs/e.tmp; echo x > e.tmp",
        "mkdir -p src/build dist/new; echo x > src/build/kept; echo x > dist/new/out; echo y >> dist/tracked",
        "mkdir -p __pycache__ node_modules/x .venv; echo x > __pycache__/a.pyc; echo x > node_modules/x/y; echo x > b.pyc",
        "git status; git diff; git log --oneline; echo more >> a.txt; git status",
        "mkdir empty; touch -t 200001010000 a.txt; cp a.txt c; mv c a.txt",
    ],
)
def test_what_is_found_by_looking_is_what_git_would_add(tmp_path: Path, script: str) -> None:
    checkout = Checkout(tmp_path)
    checkout.sh(script)
    assert checkout.found() == checkout.by_git()


@pytest.mark.parametrize(
    "script",
    [
        "echo more >> a.txt; git -c user.name=A -c user.email=a@b commit -qam own",
        "git checkout -q -b another",
        "git branch kept",
        "echo more >> a.txt; git stash",
        "echo more >> a.txt; git add a.txt; git checkout-index -f a.txt; git reset -q --soft HEAD",
        "echo x > some.log; git add -f some.log",
        "git update-index --assume-unchanged a.txt; echo more >> a.txt",
        "git update-index --skip-worktree a.txt; echo more >> a.txt",
        "git config core.autocrlf true",
        "git worktree add -q ../other",
        "echo '* text=auto' > .gitattributes",
        "echo 'a.txt ident' > .git/info/attributes",
        "echo new >> .gitignore",
        "echo '*.md' > src/.gitignore",
        "mkfifo pipe",
        "chmod 0 src",
        "chmod u+s run.sh",
        "git init -q inner",
        "echo x > 'git~1'",
        "printf x > \"$(printf 'a\\tb')\"",
        "rm -r .git",
        "rm -r .git/refs; ln -s /etc .git/refs",
        "echo '[core]' >> ~/.gitconfig",
        "mkdir -p ~/.config/git; echo '*.txt' > ~/.config/git/ignore",
        "touch .git/index.lock",
        # what would take too much memory or time
        "printf 'DIRC\\0\\0\\0\\002\\377\\377\\377\\377' > .git/index; head -c 90000 /dev/zero >> .git/index",
        "for n in 1 2 3 4 5; do truncate -s 4M large$n; done",
        "for n in 1 2 3; do truncate -s 700K .git/large$n; done",
        "truncate -s 3G large",
        "cd .git; seq 1200 | xargs mkdir",
        "seq 5000 | xargs touch",
        "for n in $(seq 80); do mkdir d; cd d; done; touch deep",
    ],
)
def test_whatever_git_should_decide_is_left_to_git(tmp_path: Path, script: str) -> None:
    checkout = Checkout(tmp_path)
    assert checkout.found()
    checkout.sh(script)
    try:
        with pytest.raises(LeftToGit):
            checkout.found()
    finally:
        (checkout.tree / "src").chmod(0o755)


def test_files_that_are_written_from_memory_are_a_clean_checkout(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    again = tmp_path / "again"
    checkout.repo.git("clone", "-q", "--no-local", "--no-checkout", ".", str(again))
    plain_files.write(checkout.known, again)
    opened = subprocess.run(["git", "diff-files"], cwd=again, env=GIT_ENV, check=True, capture_output=True, text=True)
    assert opened.stdout == ""  # also by their times: git has not read one of them
    status = subprocess.run(["git", "status", "-s"], cwd=again, env=GIT_ENV, check=True, capture_output=True, text=True)
    assert status.stdout == ""
    assert (again / "link").readlink() == Path("a.txt")
    assert os.access(again / "run.sh", os.X_OK)


@pytest.mark.parametrize("name", [".gitattributes", ".gitmodules", "src/.gitignore", "d\u00e9j\u00e0"])
def test_a_commit_with_files_that_steer_git_is_not_remembered(tmp_path: Path, name: str) -> None:
    repo = Repo.make(tmp_path / "repo", {name: ""})
    assert plain_files.remember(tmp_path, repo.git("rev-parse", "HEAD"), repo.folder) is None
