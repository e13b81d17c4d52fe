"""Collecting on the agent's side: rules of its own about what git ignores do not lose its work."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from corral.world.git import collect
from corral.world.git.repository import Repository
from corral.world.workspace.checkout import DROPPINGS, Workspace
from tests.rig.repository import GIT_ENV, Repo


class Place:
    """A workspace beside a repository, as an attempt has one."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.repo = Repo.make(folder / "repo", files)
        self.base = self.repo.head
        self.repo.git("clone", "--quiet", "--shared", str(self.repo.folder), str(folder / "attempt" / "work"))
        self.made, self.out = Workspace(folder / "attempt" / "work"), folder / "attempt" / "out"
        (folder / "attempt" / "exclude").write_text(f"{DROPPINGS}/it's copied\n")
        self.out.mkdir()

    def collected(self, script: str) -> tuple[list[str], list[str]]:
        """Let an agent do this and collect; return which files its work has, and the refs beside it."""
        for argv in (["sh", "-c", script], collect.collect_command(self.made, "words", self.base, self.out)):
            subprocess.run(argv, cwd=self.made.tree, env=GIT_ENV, check=True, capture_output=True, timeout=60)
        repository = Repository(self.repo.folder, self.repo.folder / ".git")
        taken = asyncio.run(collect.take(repository, self.made, self.out, "x", ["refs/corral/attempts/x"], self.base))
        assert self.repo.git("-C", str(self.made.tree), "diff", "--name-only", "HEAD") == ""
        return self.repo.files(taken.commit) if taken.commit else [], list(taken.saved)


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("echo '*' > .gitignore; echo w > w.txt", [".gitignore", "a.txt", "w.txt"]),
        ("echo '*' >> .git/info/exclude; echo w > w.txt", ["a.txt", "w.txt"]),
        ("rm -r .git/info; ln -s /dev .git/info; echo w > w.txt", ["a.txt", "w.txt"]),
        ('mkdir node_modules; echo x > node_modules/x; echo "it\'s" > "it\'s copied"', []),
        # Rules that come with other work hold, and so do those of a folder that a tool made for itself.
        ("echo built > .gitignore; echo x > built; echo w > w.txt", [".gitignore", "a.txt", "w.txt"]),
        ("mkdir cache; echo '*' > cache/.gitignore; echo x > cache/x", []),
    ],
)
def test_work_is_not_lost_by_rules_that_the_agent_wrote(tmp_path: Path, script: str, files: list[str]) -> None:
    assert Place(tmp_path, {"a.txt": "a\n"}).collected(script) == (files, [])


def test_what_changed_rules_hide_is_kept_beside_the_change(tmp_path: Path) -> None:
    place = Place(tmp_path, {"a.txt": "a\n", ".gitignore": "*.log\n"})
    files, saved = place.collected("echo '*' >> .gitignore; echo w > w.txt; echo x > x.log")
    assert files == [".gitignore", "a.txt"]
    assert saved == ["refs/corral/saved/x/ignored-files"]
    assert place.repo.files(saved[0]) == [".gitignore", "a.txt", "w.txt"]
