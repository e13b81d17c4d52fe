"""Conflicts of many pairs: the same as git finds for each pair alone, whatever was changed, moved or removed."""

import asyncio
import random
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from corral.world.git import merge_commits, pair_conflicts
from corral.world.git.repository import Repository

WHO = "Test <test@example.org>"


def make_repository(folder: Path, seed: int, branches: int) -> tuple[Repository, list[str]]:
    """Make branches that start from one of three commits and change, add, move and remove files."""
    chosen = random.Random(seed)
    git_dir = folder / "repo.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(git_dir)], check=True)
    files = {f"d{number % 4}/f{number}": text(number, {}) for number in range(24)}
    lines = [commit("base-0", 1, None, files)]
    lines += [commit(f"base-{n}", n + 1, n, {f"d{n}/f{n}": text(n, {2: f"moved on {n}"})}) for n in (1, 2)]
    for place in range(branches):
        lines.append(commit(f"work-{place}", 10 + place, chosen.randint(1, 3), change(chosen, files, place)))
        if place % 3 == 0:  # a second commit on it
            again = {f"own/{place}": "more\n"}
            lines.append(commit(f"work-{place}", 100 + place, 10 + place, again))
    imported = subprocess.run(
        ["git", "--git-dir", str(git_dir), "fast-import", "--quiet"], input="".join(lines).encode(), check=True
    )
    assert imported.returncode == 0
    names = [f"work-{place}" for place in range(branches)]
    tips = subprocess.run(
        ["git", "--git-dir", str(git_dir), "rev-parse", *names], check=True, capture_output=True, text=True
    ).stdout.split()
    return Repository(git_dir, git_dir, work_tree=False), tips


def change(chosen: random.Random, files: dict[str, str], place: int) -> dict[str, str | None]:
    changed: dict[str, str | None] = {}
    for name in chosen.sample(sorted(files), chosen.randint(1, 3)):
        number = int(name.rpartition("f")[2])
        match chosen.choice(["edit", "edit", "edit", "remove", "move", "folder", "add", "move all"]):
            case "edit":
                changed[name] = text(number, {chosen.choice([3, 30]): f"work {place}"})
            case "remove":
                changed[name] = None
            case "move":
                changed |= {name: None, f"other/{number}": files[name]}
            case "folder":  # a folder where others have a file
                changed |= {name: None, f"{name}/inner": "inner\n"}
            case "move all":
                folder = name.partition("/")[0]
                for each in [each for each in files if each.startswith(f"{folder}/")]:
                    changed |= {each: None, f"moved-{folder}/{each.partition('/')[2]}": files[each]}
            case _:
                changed[f"{name.partition('/')[0]}/new-{chosen.randint(0, 3)}"] = f"new {place}\n"
    return changed


def text(number: int, changed: dict[int, str]) -> str:
    return "".join(f"{changed.get(line, f'line {line} of {number}')}\n" for line in range(40))


def commit(branch: str, mark: int, parent: int | None, files: dict[str, str | None] | dict[str, str]) -> str:
    head = f"commit refs/heads/{branch}\nmark :{mark}\ncommitter {WHO} {1_700_000_000 + mark} +0000\ndata 0\n"
    body = "".join(f"D {path}\n" for path, words in files.items() if words is None)
    body += "".join(f"M 644 inline {path}\ndata {len(words)}\n{words}\n" for path, words in files.items() if words)
    return head + (f"from :{parent}\n" if parent else "") + body + "\n"


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_git_finds_for_each_pair(tmp_path: Path, seed: int) -> None:
    repository, tips = make_repository(tmp_path, seed, 9)
    pairs = list(combinations(tips, 2))

    async def compare() -> None:
        env = await merge_commits.neutral_environment(repository)
        together = await pair_conflicts.merge_pairs(repository, pairs, env)
        for pair, found in zip(pairs, together, strict=True):
            alone = await merge_commits.merge_trees(repository, *pair, env)
            assert sorted(found) == sorted(conflict.path for conflict in alone.conflicts), pair
        assert any(together)
        assert not all(together)

    asyncio.run(compare())


def test_it_writes_nothing_into_the_repository(tmp_path: Path) -> None:
    repository, tips = make_repository(tmp_path, 1, 5)
    before = sorted((repository.git_dir / "objects").rglob("*"))

    async def ask() -> None:
        env = await merge_commits.neutral_environment(repository)
        await pair_conflicts.merge_pairs(repository, list(combinations(tips, 2)), env)

    asyncio.run(ask())
    assert sorted((repository.git_dir / "objects").rglob("*")) == before


def test_commits_without_a_common_base_are_merged_by_git(tmp_path: Path) -> None:
    repository, tips = make_repository(tmp_path, 2, 5)
    alone = commit("alone", 1, None, {"d1/f1": "another\n"})
    git = ["git", "--git-dir", str(repository.git_dir)]
    subprocess.run([*git, "fast-import", "--quiet"], input=alone.encode(), check=True)
    tip = subprocess.run([*git, "rev-parse", "alone"], check=True, capture_output=True, text=True).stdout.strip()
    pairs = list(combinations([*tips, tip], 2))

    async def ask() -> list[tuple[str, ...]]:
        env = await merge_commits.neutral_environment(repository)
        return await pair_conflicts.merge_pairs(repository, pairs, env)

    found = dict(zip(pairs, asyncio.run(ask()), strict=True))
    assert "d1/f1" in found[tips[0], tip]
