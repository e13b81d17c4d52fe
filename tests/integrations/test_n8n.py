"""The nodes of n8n: built, linted by n8n's own rules, and used against a real server."""

import json
from pathlib import Path

import pytest

from corral.version import __version__
from tests.rig.command import Corral
from tests.rig.n8n import PACKAGE, package_copy, run_node
from tests.rig.server import serving, waits_for

SUITE = Path(__file__).parent / "n8n" / "nodes.test.mjs"


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package with its compiled files."""
    folder = package_copy(tmp_path_factory.mktemp("n8n") / "package")
    run_node("node_modules/.bin/tsc", cwd=folder)
    return folder


def test_the_nodes_do_what_they_say(corral: Corral, package: Path) -> None:
    signs = corral.root / "signs"
    signs.mkdir()
    corral.agent("mine", "echo said > said.txt", "cost_usd = 0.25")
    corral.agent("other", "echo another > said.txt", "cost_usd = 0.5")
    corral.agent("slow", "sleep 9876.5")
    corral.agent("signed", f"{waits_for(signs / 'go')}; echo signed > signed.txt")
    corral.config(f'[defaults]\nagent = "mine"\n[scope]\nread = ["**", "{signs}"]\n[retry]\nmost = 0')
    flow = "nodes: {main: {task: write, agent: mine}}\n"
    repo = corral.repo(files={"a.txt": "one\n", ".corral/flows/write.yaml": flow})
    with serving(corral, corral.root) as server:
        env = {
            "CORRAL_URL": server.address,
            "CORRAL_TOKEN": server.token,
            "REPO": str(repo.folder),
            "SIGNS": str(signs),
            "DIST": str(package / "dist"),
            "PACKAGE": str(package),
        }
        said = run_node("--test", "--test-reporter=tap", SUITE, cwd=package, env=env)
        assert not server.ask("GET", "webhooks").json, "the trigger took its webhooks back"
    told = [line for line in said.splitlines() if line.startswith(("ok ", "not ok "))]
    assert len(told) == SUITE.read_text().count("\ntest("), said
    assert server.token not in server.log.read_text()


def test_the_package_is_clean_by_the_rules_of_n8n(tmp_path: Path) -> None:
    folder = package_copy(tmp_path / "package")
    run_node("node_modules/@n8n/node-cli/bin/n8n-node.mjs", "lint", cwd=folder)


def test_the_manifest_names_what_is_there(package: Path) -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text())
    assert manifest["version"] == __version__
    assert "dependencies" not in manifest
    named = [*manifest["n8n"]["nodes"], *manifest["n8n"]["credentials"]]
    assert [name for name in named if not (package / name).is_file()] == []
