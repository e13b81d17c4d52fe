"""`corral editors`: each file parses, names a command that starts, and joins what was there."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from corral.rules.editors.commented_json import parse
from tests.rig.command import PROGRAM, TIMEOUT_SECONDS, Corral
from tests.rig.repository import Repo

NAMES = ("vscode", "neovim", "jetbrains", "zed", "emacs", "cursor", "sublime", "vim")
ACP = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
MCP = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def home_of(corral: Corral) -> Path:
    return Path(corral.env["HOME"])


def config_of(corral: Corral) -> Path:
    return corral.config_file.parent.parent


def write(corral: Corral, repo: Repo, name: str) -> dict[str, Path]:
    """Set an editor up; return its files by name."""
    done = corral("editors", name, "--write", "--json", cwd=repo.folder)
    assert done.code == 0, done.err
    assert {each["state"] for each in done.json["files"]} == {"written"}
    return {Path(each["path"]).name: Path(each["path"]) for each in done.json["files"]}


def starts(corral: Corral, words: list[str], first: dict[str, Any]) -> dict[str, Any]:
    """Start a server as an editor does; return its answer to the first request."""
    assert words[0] == str(PROGRAM)
    with subprocess.Popen(
        words, env=corral.env, cwd=corral.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps(first).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())["result"]
        finally:
            process.kill()
            process.wait(TIMEOUT_SECONDS)


def words_of(entry: dict[str, Any]) -> list[str]:
    return [entry["command"], *entry["args"]]


def runs(corral: Corral, repo: Repo, words: list[str], **filled: str) -> str:
    """Run what a task of an editor names, with its variables filled in; return what it printed."""
    assert words[0] == str(PROGRAM)
    for name, value in filled.items():
        words = [word.replace(f"${name}", value).replace(f"${{{name}}}", value) for word in words]
    assert not [word for word in words if "$" in word], words
    done = corral(*words[1:], cwd=repo.folder)
    assert done.code == 0, (words, done.err)
    return done.out


def test_every_name_prints_the_absolute_path(corral: Corral) -> None:
    repo = corral.repo()
    listed = corral("editors", "--json", cwd=repo.folder)
    assert [each["editor"] for each in listed.json] == list(NAMES)
    for name in NAMES:
        printed = corral("editors", name, cwd=repo.folder)
        assert printed.code == 0
        assert str(PROGRAM) in printed.out
        told = corral("editors", name, "--json", cwd=repo.folder).json
        assert told["command"] == [str(PROGRAM)]
        assert {each["state"] for each in told["files"]} == {"absent"}
        assert all(each["content"] in printed.out for each in told["files"])
    assert repo.git("status", "--porcelain") == "", "printing writes nothing"
    assert not (home_of(corral) / ".cursor").exists()
    assert json.loads(corral("editors", "cursor", cwd=repo.folder).out)["mcpServers"], "one file is printed bare"
    table = corral("editors", cwd=repo.folder).out
    assert re.search(r"^zed +not set up", table, re.MULTILINE)


def test_servers_that_the_files_name_start(corral: Corral) -> None:
    repo = corral.repo()
    zed = parse(write(corral, repo, "zed")["settings.json"].read_text()).value
    ides = write(corral, repo, "jetbrains")
    acp = [zed["agent_servers"]["Corral"], json.loads(ides["acp.json"].read_text())["agent_servers"]["Corral"]]
    lisp = write(corral, repo, "emacs")["corral.el"].read_text()
    assert lisp.count("(") == lisp.count(")")
    quoted = re.search(r"corral-command '\((.*)\)$", lisp, re.MULTILINE)
    assert quoted
    assert [words_of(each) for each in acp] == [[str(PROGRAM), "acp"]] * 2
    assert starts(corral, shlex.split(quoted[1]), ACP)["agentInfo"]["name"] == "corral"
    assert shlex.split(quoted[1]) == words_of(acp[0])
    mcp = [
        json.loads(write(corral, repo, "cursor")["mcp.json"].read_text())["mcpServers"]["corral"],
        json.loads(ides["mcp.json"].read_text())["mcpServers"]["corral"],
        json.loads(write(corral, repo, "vscode")["mcp.json"].read_text())["servers"]["corral"],
        zed["context_servers"]["corral"],
    ]
    assert {tuple(words_of(each)) for each in mcp} == {(str(PROGRAM), "mcp")}
    assert starts(corral, words_of(mcp[0]), MCP)["serverInfo"]["name"] == "corral"
    for name in ("zed", "jetbrains", "emacs", "cursor", "vscode"):
        assert {each["state"] for each in corral("editors", name, "--json", cwd=repo.folder).json["files"]} <= {
            "current",
            "absent",
        }


def test_tasks_that_the_files_name_run(corral: Corral) -> None:
    corral.agent("mine", 'echo "$1" > said.txt')
    corral.config('[defaults]\nagent = "mine"\n')
    repo = corral.repo(files={"a.txt": "one\n", "flow.yaml": "nodes: {a: {task: x}}\n"})
    code = json.loads(write(corral, repo, "vscode")["tasks.json"].read_text())
    assert [each["id"] for each in code["inputs"]] == ["corral-task"]
    repo.git("add", ".")
    repo.git("commit", "-qm", "set up")
    by_label = {each["label"]: words_of(each) for each in code["tasks"]}
    given = {"input:corral-task": "--say it", "relativeFile": "a.txt"}
    assert "said.txt" in runs(corral, repo, by_label["Corral: run task on this file"], **given)
    assert "said.txt" in runs(corral, repo, by_label["Corral: show the last run"])
    runs(corral, repo, by_label["Corral: merge the last run"])
    assert "--say it" in (repo.folder / "said.txt").read_text()
    runs(corral, repo, by_label["Corral: inbox"])
    zed = {each["label"]: words_of(each) for each in json.loads(write(corral, repo, "zed")["tasks.json"].read_text())}
    chosen = {"ZED_SELECTED_TEXT": "say more", "ZED_RELATIVE_FILE": "a.txt"}
    assert "said.txt" in runs(corral, repo, zed["Corral: do what the selection says"], **chosen)
    build = json.loads(write(corral, repo, "sublime")["Corral.sublime-build"].read_text())
    changed = [
        found[1]
        for line in runs(corral, repo, build["cmd"]).splitlines()
        if (found := re.match(build["file_regex"], line))
    ]
    assert changed == ["said.txt"]
    flows = {each["name"]: each["cmd"] for each in build["variants"]}
    runs(corral, repo, flows["Check this flow file"], file=str(repo.folder / "flow.yaml"))


def test_the_xml_of_jetbrains(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "one\n"})
    corral.agent("mine", 'echo "$1" > said.txt')
    corral.config('[defaults]\nagent = "mine"\n')
    tools = config_of(corral) / "JetBrains" / "PyCharm2026.2" / "tools" / "External Tools.xml"
    tools.parent.mkdir(parents=True)
    before = '<toolSet name="External Tools">\n  <tool name="mine">\n    <exec />\n  </tool>\n</toolSet>\n'
    tools.write_text(before)
    done = corral("editors", "jetbrains", "--write", "--json", cwd=repo.folder).json
    states = {each["path"]: each for each in done["files"]}
    assert states[str(tools)]["state"] == "merged"
    assert Path(states[str(tools)]["backup"]).read_text() == before
    root = ET.parse(tools).getroot()
    assert [each.get("name") for each in root][:2] == ["mine", "Corral: run task"]
    task = {each.get("name"): each.get("value") for each in root[1].iter("option")}
    parameters = shlex.split(task["PARAMETERS"] or "")
    given = {"FileRelativePath$": "a.txt", "Prompt$": "say it"}
    assert "said.txt" in runs(corral, repo, [task["COMMAND"] or "", *parameters], **given)
    (run,) = [Path(path) for path in states if path.endswith(".run.xml")]
    options = {each.get("name"): each.get("value") for each in ET.parse(run).getroot().iter("option")}
    assert shlex.split(options["SCRIPT_TEXT"] or "") == [str(PROGRAM), "serve"]
    again = corral("editors", "jetbrains", "--write", "--json", cwd=repo.folder).json
    assert {each["state"] for each in again["files"]} == {"unchanged"}


def test_settings_with_comments_are_joined_and_backed_up(corral: Corral) -> None:
    repo = corral.repo()
    real = home_of(corral) / "dotfiles" / "zed.json"
    settings = config_of(corral) / "zed" / "settings.json"
    real.parent.mkdir(parents=True)
    settings.parent.mkdir(parents=True)
    before = '{\n  // mine\n  "theme": "One Dark",\n  "agent_servers": { "Other": { "command": "o" } }, // two\n}\n'
    real.write_text(before)
    real.chmod(0o600)
    settings.symlink_to(real)
    told = corral("editors", "zed", "--write", cwd=repo.folder)
    assert told.code == 0
    assert re.search(rf"^merged +{settings}$", told.out, re.MULTILINE)
    backup = settings.with_name("settings.json.corral-backup-1")
    assert re.search(rf"^backup +{backup}$", told.out, re.MULTILINE)
    assert backup.read_text() == before
    assert settings.is_symlink(), "a link stays one"
    assert real.stat().st_mode & 0o777 == 0o600
    merged = real.read_text()
    assert "// mine" in merged
    assert "// two" in merged
    assert parse(merged).value["agent_servers"].keys() == {"Other", "Corral"}
    real.write_text(merged.replace(str(PROGRAM), "/old/corral"))
    corral("editors", "zed", "--write", cwd=repo.folder)
    assert real.read_text() == merged
    assert settings.with_name("settings.json.corral-backup-2").exists()


@pytest.mark.parametrize("text", [b'{"a": ', b"[]", b'{"agent_servers": 3}', b'{"a": "\xff"}'])
def test_what_cannot_be_joined_is_refused_and_nothing_is_written(corral: Corral, text: bytes) -> None:
    repo = corral.repo()
    settings = config_of(corral) / "zed" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(text)
    refused = corral("editors", "zed", "--write", cwd=repo.folder)
    assert refused.code == 2
    assert str(settings) in refused.err
    assert "nothing was written" in refused.err
    assert settings.read_bytes() == text
    assert list(settings.parent.iterdir()) == [settings]
    assert repo.git("status", "--porcelain") == ""
    assert corral("editors", "zed", cwd=repo.folder).code == 0, "printing still works"


def test_bad_requests(corral: Corral) -> None:
    repo = corral.repo()
    unknown = corral("editors", "notepad", cwd=repo.folder)
    assert (unknown.code, "one of vscode, neovim" in unknown.err) == (2, True)
    assert corral("editors", "--write", cwd=repo.folder).code == 2
    assert corral("editors", "zed", "--repo", "nowhere", cwd=repo.folder).code == 2
    (repo.folder / ".vscode").symlink_to(corral.root)
    led = corral("editors", "vscode", "--write", cwd=repo.folder)
    assert (led.code, "leads out of the repository" in led.err) == (2, True)
