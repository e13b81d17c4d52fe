"""The tools of our own loop: structured results, and everything that leads out of the workspace refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corral.boxed.loop.tools import TOOLS, LoopToolbox, files
from corral.boxed.loop.tools.commands import PackagesArguments, find_managers, manager_command
from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace
from tests.rig.processes import gone
from tests.rig.repository import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.make(tmp_path / "work", {"src/a.py": "one\ntwo\nthree\n", ".gitignore": "*.log\n", "b.txt": "two\n"})
    made.git("config", "user.name", "A")
    made.git("config", "user.email", "a@example.org")
    made.write({"noise.log": "two\n", "fresh.txt": "new\n"})
    (made.folder / "link").symlink_to(tmp_path)
    (tmp_path / "secret.txt").write_text("two\n")
    (made.folder / "leak.txt").symlink_to(tmp_path / "secret.txt")
    return made


@pytest.fixture
def use(repo: Repo) -> Any:
    toolbox = LoopToolbox(LoopWorkspace(repo.folder), most_output=1000)

    def used(name: str, **arguments: Any) -> LoopToolResult:
        result = toolbox.use(name, arguments)
        json.dumps(result.content)
        return result

    return used


def test_read_a_range_of_lines(use: Any) -> None:
    content = use("read", path="src/a.py", first_line=2, last_line=2).content
    assert content == {"path": "src/a.py", "first_line": 2, "last_line": 2, "lines": 3, "text": "two\n"}
    assert use("read", path="src/a.py").content["text"] == "one\ntwo\nthree\n"
    assert use("read", path="src/a.py", first_line=9).content["text"] == ""


def test_a_long_file_is_read_in_whole_lines(use: Any, repo: Repo) -> None:
    repo.write({"long.txt": "0123456789\n" * 1000})
    content = use("read", path="long.txt").content
    assert content["lines"] == 1000
    assert content["last_line"] == 90
    assert use("read", path="long.txt", first_line=91).content["last_line"] == 180


def test_what_cannot_be_read_is_told(use: Any, repo: Repo) -> None:
    (repo.folder / "binary").write_bytes(b"\0\1")
    for path, words in (
        ("binary", "not text"),
        ("src", "is a folder"),
        ("absent", "FileNotFoundError"),
        ("", "not in the"),
    ):
        result = use("read", path=path)
        assert not result.ok
        assert words in result.content["error"]


def test_write_and_edit(use: Any, repo: Repo) -> None:
    result = use("write", path="new/deep/c.txt", content="a\nb\n")
    assert result.content == {"path": "new/deep/c.txt", "created": True, "lines": 2}
    assert result.changed == ("new/deep/c.txt",)
    assert use("edit", path="src/a.py", old="two", new="zwei").content == {"path": "src/a.py", "line": 2}
    assert (repo.folder / "src/a.py").read_text() == "one\nzwei\nthree\n"


@pytest.mark.parametrize(
    ("old", "words"), [("four", "is not in the file"), ("e", "3 times"), ("", "is not in the file")]
)
def test_an_edit_must_fit_exactly_once(use: Any, repo: Repo, old: str, words: str) -> None:
    result = use("edit", path="src/a.py", old=old, new="x")
    assert words in result.content["error"]
    assert (repo.folder / "src/a.py").read_text() == "one\ntwo\nthree\n"


def test_an_edit_keeps_bytes_that_are_not_utf8(use: Any, repo: Repo) -> None:
    (repo.folder / "old.txt").write_bytes(b"caf\xe9 one\r\n")
    assert use("edit", path="old.txt", old="one", new="two").ok
    assert (repo.folder / "old.txt").read_bytes() == b"caf\xe9 two\r\n"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link/secret.txt", "leak.txt", "src/../../secret.txt", "a\0b", "\ud800"]
)
def test_paths_that_lead_out_are_refused(use: Any, repo: Repo, path: str) -> None:
    for name, more in (("read", {}), ("write", {"content": "x"}), ("edit", {"old": "two", "new": "x"})):
        result = use(name, path=path, **more)
        assert not result.ok, name
    assert not use("list", path=path).ok
    assert not use("search", pattern="two", path=path).ok
    assert (repo.folder.parent / "secret.txt").read_text() == "two\n"


def test_an_absolute_path_inside_is_fine_and_gits_own_files_are_not(use: Any, repo: Repo) -> None:
    assert use("read", path=str(repo.folder / "b.txt")).content["path"] == "b.txt"
    assert "belongs to git" in use("write", path=".git/config", content="x").content["error"]
    assert "is a folder" in use("write", path=".", content="x").content["error"]


def test_list_leaves_out_what_git_ignores(use: Any) -> None:
    content = use("list").content
    assert content["files"] == [".gitignore", "b.txt", "fresh.txt", "leak.txt", "src/a.py"]
    assert use("list", path="src").content == {"files": ["src/a.py"], "count": 1, "cut": False}
    assert "does not exist" in use("list", path="absent").content["error"]


def test_a_folder_without_git_is_listed_too(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.txt").write_text("x")
    assert LoopToolbox(LoopWorkspace(tmp_path), most_output=100).use("list", {}).content["files"] == ["a/b.txt"]


def test_search(use: Any) -> None:
    content = use("search", pattern="^t[wW]o$").content
    assert content["found"] == [
        {"path": "b.txt", "line": 1, "text": "two"},
        {"path": "src/a.py", "line": 2, "text": "two"},
    ]  # neither what is ignored nor what lies behind a link
    assert use("search", pattern="TWO", ignore_case=True, path="src").content["found"][0]["path"] == "src/a.py"
    assert not use("search", pattern="(").ok


def test_a_pattern_that_would_never_end_is_ended(use: Any, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SEARCH_SECONDS", 0.2)
    repo.write({"long.txt": "a" * 60 + "b\n"})
    assert "too long" in use("search", pattern="(a+)+$").content["error"]


def test_bash(use: Any) -> None:
    result = use("bash", command="echo out; echo err >&2; pwd; exit 3")
    assert not result.ok
    assert result.content["exit_code"] == 3
    assert result.content["output"].startswith("out\nerr\n")
    assert result.content["timed_out"] is False


def test_bash_is_ended_at_its_deadline_with_all_it_started(use: Any) -> None:
    result = use("bash", command="echo begun; (sleep 4321 & sleep 4321)", timeout_seconds=0.5)
    assert result.content["timed_out"] is True
    assert result.content["output"] == "begun\n"
    gone("4321")


def test_what_runs_in_the_background_holds_nobody_up(use: Any) -> None:
    result = use("bash", command="sleep 4322 & echo $!")
    assert result.ok
    os.kill(int(result.content["output"]), 9)


def test_long_output_is_cut_in_the_middle(use: Any) -> None:
    output = use("bash", command="seq 100000").content["output"]
    assert output.startswith("1\n2\n")
    assert output.endswith("100000\n")
    assert "left out" in output
    assert len(output) < 1100


def test_git(use: Any, repo: Repo) -> None:
    (repo.folder / "link").unlink()
    assert use("git", action="status").content["files"] == [
        {"state": "??", "path": "fresh.txt"},
        {"state": "??", "path": "leak.txt"},
    ]
    use("edit", path="b.txt", old="two", new="2")
    assert "+2" in use("git", action="diff", path="b.txt").content["diff"]
    assert use("git", action="diff", path="src").content["diff"] == ""
    made = use("git", action="commit", message="all of it")
    assert made.content["commit"] == repo.head
    assert use("git", action="log", count=1).content["commits"][0]["subject"] == "all of it"
    assert not use("git", action="commit", message="nothing").ok
    assert "message" in use("git", action="commit").content["error"]
    assert not use("git", action="push").ok


@pytest.mark.parametrize(
    ("files", "asked", "words"),
    [
        ({"uv.lock": ""}, PackagesArguments("install"), "uv sync"),
        ({"requirements.txt": ""}, PackagesArguments("install"), "python3 -m pip install -r requirements.txt"),
        ({"requirements.txt": ""}, PackagesArguments("add", ["rich>=13"]), "python3 -m pip install rich>=13"),
        ({"package.json": "{}"}, PackagesArguments("add", ["@types/node"]), "npm install @types/node"),
        ({"Cargo.toml": ""}, PackagesArguments("add", ["serde"]), "cargo add serde"),
        ({"go.mod": ""}, PackagesArguments("install"), "go mod download"),
    ],
)
def test_the_package_manager_is_found_out(
    tmp_path: Path, files: dict[str, str], asked: PackagesArguments, words: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    place = LoopWorkspace(tmp_path)
    assert " ".join(manager_command(place, find_managers(place)[0], asked)) == words


@pytest.mark.parametrize("name", ["--index-url=http://x", "-r", "a b", "a;b", "$(x)", ""])
def test_a_package_is_never_an_option(use: Any, name: str) -> None:
    assert "not the name" in use("packages", action="add", names=[name], manager="pip").content["error"]


@pytest.mark.slow
def test_packages_are_really_installed(use: Any, repo: Repo) -> None:
    repo.write(
        {"package.json": '{"name": "x", "version": "1.0.0"}', "one/package.json": '{"name": "one", "version": "1.0.0"}'}
    )
    result = use("packages", action="install", manager="npm")
    assert result.content["command"] == "npm install"
    assert result.content["exit_code"] == 0, result
    assert (repo.folder / "package-lock.json").is_file()


@pytest.mark.slow
def test_the_tests_are_run_and_counted(use: Any, repo: Repo) -> None:
    body = "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.fail()\n"
    repo.write({"test_it.py": body})
    content = use("test", runner="unittest").content
    assert (content["passed"], content["failed"], content["skipped"]) == (1, 1, 0)
    assert content["exit_code"] == 1
    assert use("test", runner="unittest", only="test_it.T.test_a").content["passed"] == 1
    assert "not an option" in use("test", only="--co").content["error"]


def test_npm_tests_are_counted(use: Any, repo: Repo) -> None:
    (repo.folder / "link").unlink()  # node follows it in circles
    repo.write(
        {
            "package.json": '{"scripts": {"test": "node --test"}}',
            "a.test.js": "const test = require('node:test');\ntest('a', () => {});\ntest('b', () => { throw 1 });\n",
        }
    )
    content = use("test", runner="npm").content
    assert (content["passed"], content["failed"]) == (1, 1), content


def test_where_there_are_no_tests(use: Any) -> None:
    assert "no tests were found" in use("test").content["error"]


def test_arguments_that_are_wrong_are_an_answer(use: Any) -> None:
    assert "path" in use("read").content["error"]
    assert not use("read", path=3, first_line="x").ok
    assert use("read", path="b.txt", first_line="1", unknown=True).ok  # models are not that exact
    assert "there is no tool" in use("absent").content["error"]


def test_to_look_only_nothing_that_writes_is_offered(repo: Repo) -> None:
    toolbox = LoopToolbox(LoopWorkspace(repo.folder), most_output=100, read_only=True)
    assert set(toolbox.tools) == {"read", "list", "search", "bash", "git", "test"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_described(tool: Any) -> None:
    assert tool.description
    assert tool.schema["type"] == "object"
    assert tool.shown in tool.schema["properties"]
    assert all("type" in told for told in tool.schema["properties"].values())
