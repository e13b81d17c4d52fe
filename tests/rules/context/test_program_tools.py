"""Declarations of the tools of programs; what workspaces declare to their package managers."""

import ast
import re

import pytest

from corral.rules.context import tools
from corral.rules.context.program_tools import PACKAGE_FILES, TOOLS, list_packages, python_stubs, typescript


def names(files: dict[str, str]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [
        (each.manager, [(package.name, package.version) for package in each.packages]) for each in list_packages(files)
    ]


def test_each_file_is_read_in_its_own_form() -> None:
    requirements = "# none\n-r other.txt\nflask == 3.0 ; python_version > '3'\nrich[all]>=1  # why\n"
    cargo = (
        '[dependencies]\nserde = { version = "1.0", features = ["derive"] }\nlog = "0.4"\nmine = { path = "../x" }\n'
    )
    go = "module x\n\ngo 1.22\n\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgolang.org/x/sys v0.1.0 // indirect\n)\n"
    assert names({"requirements.txt": requirements}) == [("pip", [("flask", "== 3.0"), ("rich[all]", ">=1")])]
    assert names({"Cargo.toml": cargo}) == [("cargo", [("serde", "1.0"), ("log", "0.4"), ("mine", "")])]
    assert names({"go.mod": go}) == [("go", [("github.com/a/b", "v1.2.3"), ("golang.org/x/sys", "v0.1.0")])]
    grouped = '[project]\ndependencies = ["a"]\n[dependency-groups]\ndev = ["b<2", {include-group = "x"}]\n'
    assert names({"pyproject.toml": grouped, "uv.lock": ""}) == [("uv", [("a", ""), ("b", "<2")])]


@pytest.mark.parametrize("text", ["", "]", "[" * 5000, '{"dependencies": 3}', "[project]\ndependencies = 3", "\0"])
@pytest.mark.parametrize("file", PACKAGE_FILES)
def test_a_broken_file_declares_nothing(file: str, text: str) -> None:
    assert all(not packages for _, packages in names({file: text}) if file != "requirements.txt")


def test_declarations_take_any_json_where_a_tool_does() -> None:
    assert "run_tool(given: {name: string, input?: unknown}): Promise<unknown>;" in typescript(["run_tool"])
    assert "async def run_tool(*, name: str, input: Any = ...) -> Any:" in python_stubs(["run_tool"])


def test_declarations_name_no_tool_that_programs_lack() -> None:
    lacking = {*tools.KINDS, *tools.OLDER_NAMES} - {*TOOLS}
    for name, facts in TOOLS.items():
        assert not lacking & {*re.findall(r"[a-z]+_[a-z_]+", facts.summary)}, name
    listed = tools.RunProgram.__doc__ or ""
    assert {name for name in TOOLS if name not in listed} == set()


def test_the_python_stubs_define_the_names_they_use() -> None:
    module = ast.parse(python_stubs(TOOLS))
    defined = {each.name for each in module.body[0].names} if isinstance(module.body[0], ast.ImportFrom) else set()
    used = {each.id for each in ast.walk(module) if isinstance(each, ast.Name)}
    assert used <= {*defined, "str", "int", "float", "bool", "list"}
