"""The extension of VS Code, in a real VS Code with the real command: one window, in which a user works for a while."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from corral.version import __version__
from tests.rig.agents import PROJECT
from tests.rig.browser import SHOTS
from tests.rig.command import PROGRAM, TIMEOUT_SECONDS, Corral
from tests.rig.preloaded import PRELOADED
from tests.rig.vscode import installed, serving_code, window_of

#: What a user reads below the editors; a file of the explorer with the mark of one that is written; the button that runs
#: a flow in the title of an editor.
PANEL = ".part.panel .view-line"
MARKED = '.explorer-folders-view [aria-label*="may be written by slow"]'
TITLE = '.editor-actions [aria-label^="Run This Flow"]'
EXTENSION = PROJECT / "editors" / "vscode"
SUITE = Path(__file__).parent / "vscode" / "suite.js"
#: The extension has neither an address of a repository yet nor a copy of the licence.
NEITHER = ("--allow-missing-repository", "--skip-license")
GATE = """\
name: ask
nodes:
  write: {task: write}
  ok: {gate: "Land [it](command:corral.refresh)?", needs: [write]}
"""
PLAN = {
    "flow": {"name": "greet", "nodes": {"hello": {"run": "echo hello"}, "bye": {"run": "echo bye", "needs": ["hello"]}}}
}
HOOK = """
[[hooks]]
on = "after_done"
run = "echo never on a Friday >&2; exit 1"
agent = "hooked"
"""
LINES = "".join(f"line {number}\n" for number in range(1, 31))
WORK = 'echo "I write"; echo said > said.txt; echo more >> a.txt; rm -f gone.txt; sed -i "1s/$/ first/; 30s/$/ last/" long.txt'


@pytest.mark.slow
def test_a_user_works_in_a_window(corral: Corral, tmp_path: Path) -> None:
    corral.agent("mine", WORK, "cost_usd = 0.25")
    corral.agent("hooked", "echo hooked > said.txt", "cost_usd = 0.0")
    corral.agent("slow", "echo I wait; sleep 9876.5")
    corral.agent("planner", f"echo '{json.dumps(PLAN)}'")
    corral.config(f'[defaults]\nagent = "mine"\n{HOOK}')
    scope = '[scope]\nwrite = ["*.txt"]\n'
    files = {"a.txt": "one\ntwo\nthree\n", "gone.txt": "old\n", "long.txt": LINES, "plain.md": "", "corral.toml": scope}
    repo = corral.repo(files=files)
    (corral.root / "ask.yaml").write_text(GATE)
    settings = {
        "corral.command": PRELOADED.stand_in(PROGRAM),
        "corral.refreshSeconds": 1,
        "chat.disableAIFeatures": False,  # or there are no MCP servers
    }
    env = {**corral.env, "CORRAL_ASK": str(corral.root / "ask.yaml"), "CORRAL_SEEN": str(tmp_path)}
    with (
        serving_code(tmp_path / "code", env, settings) as address,
        window_of(address, repo.folder, EXTENSION, SUITE) as window,
    ):
        window.press("Merge", SHOTS / "vscode-merge.png")
        window.press("Merge", SHOTS / "vscode-take.png")
        window.press("Merge", SHOTS / "vscode-hunk.png")
        window.read("Land [it] (command:corral.refresh)?")  # a link would show its name alone
        window.press("yes", SHOTS / "vscode-question.png")
        window.read("never on a Friday")
        (tmp_path / "hook").touch()
        window.read("I wait", PANEL)
        window.look(MARKED, SHOTS / "vscode-scope.png")
        (tmp_path / "scope").touch()
        window.press("mine", SHOTS / "vscode-race.png")
        window.press("hooked", SHOTS / "vscode-race.png")
        window.press("OK", SHOTS / "vscode-race.png")
        window.look(TITLE, SHOTS / "vscode-flow.png")
        (tmp_path / "flow").touch()
        ended = window.end()
    assert ended["code"] == 0, "\n".join(ended["lines"])
    assert "all steps passed" in "\n".join(ended["lines"])
    assert corral("ls", "--status", "stopped", "--json", cwd=repo.folder).json, "the slow run was stopped"
    assert not (repo.folder / "said.txt").exists(), "the merge was taken back"


@pytest.mark.slow
def test_vs_code_installs_what_editors_packs(corral: Corral, tmp_path: Path) -> None:
    repo = corral.repo()
    done = corral("editors", "vscode", "--write", "--json", cwd=repo.folder).json
    *_, install = done["notes"]
    archive = Path(install.split()[-1])
    before = archive.read_bytes()
    corral("editors", "vscode", "--write", cwd=repo.folder)
    assert archive.read_bytes() == before, "the same files give the same bytes"
    options = ["--install-extension", archive, "--extensions-dir", tmp_path, "--server-data-dir", tmp_path / "data"]
    ended = subprocess.run(
        [installed() / "node", installed() / "server-main.js", *options],
        env=corral.env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.glob("corral.corral-*")
    names = {each.relative_to(EXTENSION) for each in EXTENSION.rglob("*") if each.is_file()}
    assert {name for name in names if (folder / name).is_file()} == names
    (user,) = [Path(each["path"]) for each in done["files"] if each["path"].endswith("User/settings.json")]
    assert json.loads(user.read_text()) == {"corral.command": [str(PROGRAM)]}


@pytest.mark.slow
def test_the_tool_of_the_marketplace_packs_the_same_files(tmp_path: Path) -> None:
    tool = Path((PROJECT / ".venv" / "extension").read_text().strip()) / "@vscode" / "vsce" / "vsce"
    archive = tmp_path / "corral.vsix"
    ended = subprocess.run(
        [installed() / "node", tool, "package", "--no-dependencies", *NEITHER, "--out", archive],
        cwd=EXTENSION,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "WARNING" not in ended.stdout + ended.stderr
    inside = [name.removeprefix("extension/") for name in zipfile.ZipFile(archive).namelist() if "extension/" in name]
    ours = [str(each.relative_to(EXTENSION)) for each in EXTENSION.rglob("*") if each.is_file()]
    assert sorted(map(str.lower, inside)) == sorted(map(str.lower, ours))


def test_the_manifest_names_what_is_there() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    assert manifest["version"] == __version__
    assert (EXTENSION / manifest["main"]).is_file()
    assert "dependencies" not in manifest
    assert manifest["contributes"]["configuration"]["properties"]["corral.command"]["scope"] == "machine", (
        "a repository must not name the program that is started"
    )
    offered = {each["command"] for each in manifest["contributes"]["commands"]}
    used = {each["command"] for menu in manifest["contributes"]["menus"].values() for each in menu}
    assert used <= offered
