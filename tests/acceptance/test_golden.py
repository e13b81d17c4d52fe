"""Stores as older versions wrote them: a newer corral lists, shows, tells and goes on with their runs."""

import pytest

from tests.rig import golden
from tests.rig.command import Corral
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow
VERSIONS = sorted(file.name for file in golden.FOLDER.glob("*.json"))


def test_the_newest_is_kept() -> None:
    """One more is made by `tools/make_golden.py` when the schema changes."""
    assert "0001.json" in VERSIONS
    assert len(VERSIONS) >= 5


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_of_an_older_version_are_read_and_gone_on_with(corral: Corral, version: str) -> None:
    repo = golden.repository(corral.root / "repo")
    golden.restore(version, corral.home, repo)
    corral.agent("doer", "echo more > more.txt")
    cut_off, done = corral("ls", "--json").json
    assert (done["status"], done["agents"], done["task"]) == ("done", ["doer"], "quick")
    shown = corral("show", done["run"], "--json").json
    assert shown["nodes"][0]["attempts"][0]["files_changed"] == ["more.txt"]
    assert "done" in corral("logs", done["run"]).out
    assert "orphaned" in corral("ls").out or cut_off["status"] == "running"
    outcome = corral("resume", cut_off["run"], "--json", cwd=repo)
    assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
    last = outcome.json["nodes"][0]["attempts"][-1]
    assert Repo(repo).read(last["commit"], "more.txt") == "more"
    assert "+more" in corral("diff", cut_off["run"], cwd=repo).out
    assert len(corral("export").out.splitlines()) > 10
    again = corral.run(repo, "quick", "--agent", "doer")
    assert again.code == 0, again
    assert len(corral("ls", "--json").json) == 3
