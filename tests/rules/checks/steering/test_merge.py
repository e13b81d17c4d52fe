"""Mixed files: the work's dependencies, the base's tests and commands."""

import json
import tomllib
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.rules.checks.steering import config_text, inline, mixed_files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUE = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), TEXT, st.dates(), st.times()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=10,
)


@given(st.dictionaries(TEXT, VALUE, max_size=4))
def test_written_toml_reads_back_as_the_same(document: dict[str, Any]) -> None:
    assert tomllib.loads(config_text.format_toml(document)) == document


def test_times_and_odd_floats_are_written() -> None:
    document = {"a": datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "b": date(2026, 1, 2), "c": time(1, 2), "d": float("inf")}
    assert tomllib.loads(config_text.format_toml(document)) == document
    assert "nan" in config_text.format_toml({"x": float("nan")})


def merged(path: str, base: str | None, delivered: str, *tools: str) -> str:
    found = mixed_files.merge_file(path, None if base is None else base.encode(), delivered.encode(), tools)
    assert found is not None
    return found.decode()


def pyproject(base: str, delivered: str, *tools: str) -> dict[str, Any]:
    return tomllib.loads(merged("pyproject.toml", base, delivered, *tools))


OPTIONS = "[tool.pytest.ini_options]\n"


@pytest.mark.parametrize(
    "key",
    ["addopts", "python_files", "python_classes", "python_functions", "testpaths", "norecursedirs", "required_plugins", "usefixtures",
     "xfail_strict", "collect_imported_tests", "confcutdir"],
)  # fmt: skip
def test_pytest_keys_that_say_what_runs_are_the_bases(key: str) -> None:
    assert pyproject(f'{OPTIONS}{key} = "a"\n', f'{OPTIONS}{key} = "b"\n') == {
        "tool": {"pytest": {"ini_options": {key: "a"}}}
    }
    assert "tool" not in mixed_files._without_empty(pyproject("", f'{OPTIONS}{key} = "b"\n'))
    assert pyproject(f'{OPTIONS}{key} = "a"\n', "")["tool"]["pytest"]["ini_options"] == {key: "a"}


@pytest.mark.parametrize("key", ["pythonpath", "markers", "filterwarnings", "asyncio_mode", "minversion"])
def test_pytest_keys_that_are_the_works(key: str) -> None:
    assert pyproject("", f'{OPTIONS}{key} = "b"\n') == {"tool": {"pytest": {"ini_options": {key: "b"}}}}
    assert pyproject(f'{OPTIONS}{key} = "a"\n', "[project]\nname = 'x'\n")["project"] == {"name": "x"}


def test_dependencies_and_build_are_the_works() -> None:
    delivered = (
        '[project]\nname = "a"\ndependencies = ["x"]\n[build-system]\nrequires = ["y"]\n[tool.black]\nline-length = 9\n'
    )
    assert pyproject('[project]\nname = "a"\n', delivered) == tomllib.loads(delivered)


@pytest.mark.parametrize(("table", "tool"), [("ruff", "ruff"), ("mypy", "mypy"), ("pyright", "basedpyright")])
def test_a_linters_table_counts_where_the_check_runs_it(table: str, tool: str) -> None:
    base, delivered = f"[tool.{table}]\na = 1\n", f"[tool.{table}]\na = 2\n"
    assert pyproject(base, delivered, tool)["tool"][table] == {"a": 1}
    assert pyproject(base, delivered, "pytest")["tool"][table] == {"a": 2}


def test_a_plug_in_by_entry_point_is_taken_out() -> None:
    delivered = (
        '[project]\nname = "a"\n[project.entry-points.pytest11]\nevil = "evil"\n[project.entry-points.app]\nx = "y"\n'
    )
    assert pyproject('[project]\nname = "a"\n', delivered)["project"]["entry-points"] == {"app": {"x": "y"}}


@pytest.mark.parametrize("text", ["[tool", "a = ", "\0", "real.toml", "[a]\n[a]\n", "x = 1\nx = 2\n"])
def test_what_cannot_be_read_is_not_merged(text: str) -> None:
    assert mixed_files.merge_file("pyproject.toml", b"", text.encode(), ()) is None
    assert mixed_files.merge_file("package.json", b"{}", text.encode(), ()) is None


def test_bytes_that_are_no_text_are_not_merged() -> None:
    assert mixed_files.merge_file("setup.cfg", b"", b"[a]\n\xff\xfe", ()) is None
    assert mixed_files.merge_file("package.json", b"{}", b"[" * 100_000, ()) is None
    assert mixed_files.merge_file("package.json", b"{}", b"[]", ()) is None


def package(base: dict[str, Any], delivered: dict[str, Any]) -> dict[str, Any]:
    return json.loads(merged("package.json", json.dumps(base), json.dumps(delivered)))


@pytest.mark.parametrize(
    ("base", "delivered", "result"),
    [
        ({"scripts": {"test": "a"}}, {"scripts": {"test": "b"}}, {"scripts": {"test": "a"}}),
        ({"scripts": {"test": "a"}}, {"scripts": {}}, {"scripts": {"test": "a"}}),
        ({"scripts": {"test": "a"}}, {"scripts": {"test": "a", "lint": "b"}}, {"scripts": {"test": "a", "lint": "b"}}),
        ({"scripts": {"test": "a"}}, {"scripts": {"test": "a", "pretest": "b"}}, {"scripts": {"test": "a"}}),
        ({"scripts": {"test": "a"}}, {"scripts": {"test": "a", "posttest": "b"}}, {"scripts": {"test": "a"}}),
        ({"scripts": {"test": "a"}}, {"scripts": {"test": "a", "postinstall": "b"}}, {"scripts": {"test": "a"}}),
        ({}, {"dependencies": {"x": "^1"}, "type": "module"}, {"dependencies": {"x": "^1"}, "type": "module"}),
        ({"jest": {"a": 1}}, {"jest": {"a": 2}}, {"jest": {"a": 1}}),
        ({}, {"mocha": {"require": "./evil"}}, {}),
        ({}, {"devDependencies": {"jest": "file:./evil"}}, {"devDependencies": {}}),
        ({}, {"devDependencies": {"jest": "npm:evil@1"}}, {"devDependencies": {}}),
        ({}, {"devDependencies": {"jest": "^29.1.0"}}, {"devDependencies": {"jest": "^29.1.0"}}),
        ({"overrides": {"chai": "4"}}, {"overrides": {"chai": "./evil"}}, {"overrides": {"chai": "4"}}),
    ],
)
def test_package_json(base: dict[str, Any], delivered: dict[str, Any], result: dict[str, Any]) -> None:
    assert package(base, delivered) == result


@pytest.mark.parametrize(
    ("base", "delivered", "kept"),
    [
        ('[package]\nname = "a"\n', '[package]\nname = "a"\nautotests = false\n', {"package": {"name": "a"}}),
        ('[package]\nname = "a"\n', '[package]\nname = "a"\n[[test]]\nname = "x"\nharness = false\n', {"package": {"name": "a"}}),
        ("[lib]\n", "[lib]\ntest = false\nharness = false\n", {"lib": {}}),
        ("", '[dependencies]\nserde = "1"\n', {"dependencies": {"serde": "1"}}),
        ("", "[profile.test]\ndebug-assertions = false\n", {}),
        ("", '[patch.crates-io]\nx = { path = "y" }\n', {}),
        ("", '[package]\nbuild = "evil.rs"\nname = "a"\n', {"package": {"name": "a"}}),
        ('[workspace]\nmembers = ["a"]\n', '[workspace]\nmembers = ["a", "b"]\nexclude = ["a"]\n', {"workspace": {"members": ["a", "b"]}}),
    ],
)  # fmt: skip
def test_cargo_toml(base: str, delivered: str, kept: dict[str, Any]) -> None:
    assert tomllib.loads(merged("Cargo.toml", base, delivered)) == kept


@pytest.mark.parametrize(
    ("name", "section", "line", "kept"),
    [
        ("setup.cfg", "tool:pytest", "addopts = -p evil", False),
        ("setup.cfg", "tool:pytest", "pythonpath = src", True),
        ("setup.cfg", "metadata", "name = x", True),
        ("setup.cfg", "options.entry_points", "pytest11 = evil", False),
        ("setup.cfg", "aliases", "test = build", False),
        ("tox.ini", "pytest", "python_files = dummy.py", False),
        ("tox.ini", "testenv", "commands = true", False),
        ("tox.ini", "testenv:py311", "setenv = A=b", False),
        ("tox.ini", "testenv", "deps = x", True),
        ("tox.ini", "flake8", "max-line-length = 9", True),
        ("pytest.ini", "pytest", "addopts = -k nothing", False),
        ("pytest.ini", "pytest", "markers = slow", True),
        (".pytest.ini", "pytest", "testpaths = x", False),
    ],
)
def test_ini_files(name: str, section: str, line: str, kept: bool) -> None:
    key = line.split(" = ", maxsplit=1)[0]
    result = config_text.parse_sections(merged(name, "", f"[{section}]\n{line}\n"))
    assert (key in result.get(section, {})) is kept
    base = f"[{section}]\n{key} = base\n"
    result = config_text.parse_sections(merged(name, base, f"[{section}]\n{line}\n"))
    assert result[section][key] == (line.split(" = ")[1] if kept else "base")


def test_values_of_several_lines_are_kept_whole() -> None:
    text = "[pytest]\nmarkers =\n    a: one\n    b: two\n[flake8]\nx: y\n"
    assert config_text.parse_sections(
        config_text.format_sections(config_text.parse_sections(text))
    ) == config_text.parse_sections(text)
    assert "    b: two" in merged("pytest.ini", "", text)


@pytest.mark.parametrize(
    ("name", "base", "delivered", "result"),
    [
        (".npmrc", "", "script-shell=./evil\nregistry=x\n", "registry=x\n"),
        (".npmrc", "script-shell=sh\n", "registry=x\n", "script-shell=sh\nregistry=x\n"),
        (".npmrc", "", "node-options=--require ./evil\n", ""),
        (".env", "", "NODE_OPTIONS=--require=./evil\nPORT=1\n", "PORT=1\n"),
        (".env", "", "export PYTHONPATH=evil\nDEBUG=1\n", "DEBUG=1\n"),
        (".env.test", "A=1\n", "A=2\nMAKEFLAGS=-i\n", "A=2\n"),
        (".env", "PATH=/a\n", "PATH=/b\n", "PATH=/a\n"),
    ],
)
def test_lines_of_variables(name: str, base: str, delivered: str, result: str) -> None:
    assert merged(name, base, delivered) == result


def test_a_replaced_module_of_go_is_put_back() -> None:
    base = "module x\n\ngo 1.19\n\nrequire github.com/stretchr/testify v1.8.0\n"
    delivered = (
        f"{base}replace github.com/stretchr/testify => ./evil\nrequire (\n\tc/d v1 // why\n)\nreplace c/d => ./d\n"
    )
    result = merged("go.mod", base, delivered)
    assert "evil" not in result
    assert "replace c/d => ./d" in result
    assert "require c/d v1" in result
    assert mixed_files.is_same(
        merged("go.mod", base, base + "require c/d v1\n").encode(),
        (base + "require (\n c/d v1\n)\n").encode(),
        "go.mod",
    )


def test_a_makefile_keeps_its_rules_and_gets_new_sources() -> None:
    base = "OBJS = a.o \\\n  b.o\nCFLAGS = -g\ntest: app\n\t./run_tests\napp: $(OBJS)\n\tcc -o app $(OBJS)\n"
    delivered = "OBJS = a.o b.o c.o\nCFLAGS = -DTEST\ntest: app\n\ttrue\n"
    result = merged("Makefile", base, delivered)
    assert "OBJS = a.o b.o c.o" in result
    assert "./run_tests" in result
    assert "CFLAGS = -g" in result


@pytest.mark.parametrize(
    ("base", "delivered"), [("TESTS = a_test.c\n", "TESTS = b.c\n"), ("SRC = a.c test_a.c\n", "SRC = a.c\n")]
)
def test_a_makefile_loses_no_test(base: str, delivered: str) -> None:
    assert merged("Makefile", base, delivered).strip() == base.strip()


RUST = "pub fn add(a: i32, b: i32) -> i32 { a %s b }\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn t() { assert_eq!(add(1, 2), %s); }\n}\n"


def test_tests_inside_a_rust_file_are_put_back() -> None:
    base, cheat, honest = (RUST % pair for pair in (("-", "3"), ("-", "-1"), ("+", "3")))
    assert inline.with_tests_of("src/lib.rs", base.encode(), cheat.encode(), doctests=False) == base.encode()
    assert inline.with_tests_of("src/lib.rs", base.encode(), honest.encode(), doctests=False) is None
    gone = inline.with_tests_of("src/lib.rs", base.encode(), b"pub fn add() {}\n", doctests=False)
    assert gone is not None
    assert b"assert_eq!(add(1, 2), 3)" in gone
    brace = base.replace("assert_eq!", "let _ = \"}}\"; let _c = '}'; // }\n assert_eq!")
    assert inline.with_tests_of("src/lib.rs", brace.encode(), cheat.encode(), doctests=False) == brace.encode()


def test_doctests_of_the_base_are_put_back() -> None:
    base = 'def add(a, b):\n    """Add.\n\n    >>> add(1, 2)\n    3\n    """\n    return a - b\n'
    cheat = base.replace("    3\n", "    -1\n")
    honest = base.replace("a - b", "a + b")
    assert inline.with_tests_of("a.py", base.encode(), cheat.encode(), doctests=True) == base.encode()
    assert inline.with_tests_of("a.py", base.encode(), honest.encode(), doctests=True) is None
    assert inline.with_tests_of("a.py", base.encode(), cheat.encode(), doctests=False) is None
    assert inline.with_tests_of("a.py", base.encode(), b"def add(:", doctests=True) is None
    moved = "# a first line: ä\n" + cheat
    assert (
        inline.with_tests_of("a.py", base.encode(), moved.encode(), doctests=True)
        == ("# a first line: ä\n" + base).encode()
    )
