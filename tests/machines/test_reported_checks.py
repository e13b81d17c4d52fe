"""Checks in their box with our reporters beside them, at each level; as root and as an ordinary user."""

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.machines import checks as checking
from corral.machines.host import Host
from corral.model import CheckObservation, Level, RunPlan
from corral.model.flow import Flow, Node, Task
from corral.world.git.repository import Repository
from tests.rig.repository import Repo

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "quits.py": "import os\nos._exit(0)\n",
    "test_calc.py": "import unittest\nfrom calc import add\nclass Sums(unittest.TestCase):\n"
    "    def test_add(self): self.assertEqual(add(1, 2), 3)\n",
    "go.mod": "module example.com/calc\n\ngo 1.19\n",
    "calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
    "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fail()\n\t}\n}\n',
    "sums.test.js": "require('node:test')('adds', () => { if (1 + 2 !== 3) throw new Error(); });\n",
    "package.json": '{"scripts": {"test": "node --test sums.test.js"}}',
    "check.py": "import quits\nassert quits.add(1, 2) == 3\n",
}


def observe(folder: Path, checks: Sequence[str], level: Level) -> list[CheckObservation]:
    """Run checks as the engine does, on the base of a small repository."""
    repo = Repo.make(folder / "repo", FILES)

    async def run() -> list[CheckObservation]:
        repository = Repository(repo.folder, repo.folder / ".git")
        base = await repository.commit_of("HEAD")
        task = Task(prompt="p", checks=tuple(checks), timeout_seconds=120)
        plan = RunPlan(
            flow=Flow(name="x", strategy="single", nodes=(Node(id="a", task=task),)),
            repo=str(repo.folder),
            git_dir=str(repo.folder / ".git"),
            base=base,
            into="main",
            level=level,
        )
        attempt = f"r-{secrets.token_hex(6)}"  # what it leaves running is ended by this name, also of other tests
        host = Host(plan, task, repository, folder / "state", attempt)
        host.logs.mkdir(parents=True)
        await host.fit_again("scripted")
        return await checking.observe(
            host, folder / "state" / "workspaces" / f"{attempt}-check", base, checks, lambda _: None
        )

    return asyncio.run(run())


@pytest.mark.parametrize("level", ["strict", "none"])
def test_a_check_in_its_box_reports(tmp_path: Path, level: Level) -> None:
    checks = [
        "python3 -m unittest",
        "env PYTHONPATH=. python3 check.py",
        "V=PYTHONPATH; env $V=. python3 check.py",
        "test -e calc.py",
    ]
    good, early, elsewhere, other = observe(tmp_path, checks, level)
    assert good.result.passed, good
    assert good.report is not None
    assert good.report.tests == {"test_calc.Sums.test_add": "passed"}
    assert (good.report.unfinished, good.report.doubts) == ((), ())
    assert early.result.passed, early
    assert early.result.command == "env PYTHONPATH=. python3 check.py"
    assert early.report is not None
    assert "quits.py" in early.report.unfinished[0]
    assert elsewhere.report is not None, elsewhere
    assert elsewhere.report.unfinished == early.report.unfinished
    assert (other.result.passed, other.report) == (True, None)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["strict", "none"])
def test_other_languages_report_from_their_box(tmp_path: Path, level: Level) -> None:
    node, go, clean = observe(tmp_path, ["npm test", "go test ./...", 'test -z "$(git status --porcelain)"'], level)
    assert node.result.passed, node
    assert node.report is not None
    assert node.report.tests == {"sums.test.js > adds": "passed"}
    assert go.result.passed, go
    assert go.report is not None
    assert go.report.tests == {"TestAdd": "passed"}
    assert (node.report.unfinished, go.report.unfinished) == ((), ())
    assert clean.result.passed, clean


def test_a_flood_of_lines_is_bounded_and_harms_nobody(tmp_path: Path) -> None:
    flood = 'yes \'{"e":"begin","s":"x"\' | head -c 90000000 > $CORRAL_REPORT; python3 -m unittest'
    [seen] = observe(tmp_path, [flood], "none")
    assert seen.result.passed, seen
    assert seen.report is None or seen.report.cut


def test_a_check_without_its_channel_passes_and_reports_nothing(tmp_path: Path) -> None:
    [gone] = observe(tmp_path, ["rm -f $CORRAL_REPORT; python3 -m unittest"], "none")
    assert gone.result.passed, gone
    assert gone.report is None
