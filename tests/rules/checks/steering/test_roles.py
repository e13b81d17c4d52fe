"""Roles of paths, by their names alone."""

import pytest

from corral.model.flow import Task
from corral.rules.checks.steering import roles, table

CASES = {
    "start-up": (
        "sitecustomize.py", "src/sitecustomize.py", "usercustomize.py", "a.pth", "lib/x.pth", "evil.dist-info/entry_points.txt",
        "x-1.0.dist-info/METADATA", "evil.egg-info/entry_points.txt", "__pycache__/app.cpython-311.pyc", "pkg/__pycache__/a.pyc",
        "app.pyc", ".pythonrc", ".bashrc", "sub/.profile", ".envrc", ".node-options", "node_modules/jest/index.js",
        "packages/a/node_modules/.bin/mocha", ".pnp.cjs", "pyvenv.cfg", "SiteCustomize.py",
    ),
    "runner": (
        "conftest.py", "tests/conftest.py", "a/b/c/conftest.py", "CONFTEST.PY", "noxfile.py", "jest.config.js", "jest.config.ts",
        "packages/x/jest.config.cjs", "vitest.config.mts", ".mocharc.yml", ".mocharc.json", "karma.conf.js", "playwright.config.ts",
        "cypress.config.js", "ava.config.js", "babel.config.js", ".babelrc", "go.work", "build.rs", ".cargo/config.toml",
        ".cargo/config", "phpunit.xml", ".rspec", "spec/spec_helper.rb", "gradlew", "gradle/wrapper/gradle-wrapper.properties",
        ".mvn/jvm.config", "x.runsettings", "conftest/__init__.py", "bunfig.toml", ".taprc", "src/__mocks__/fs.js",
        ".gitattributes", "tests/.gitattributes",
    ),
    "mixed": (
        "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "package.json", "packages/a/package.json", ".npmrc",
        "go.mod", "Cargo.toml", "crates/a/Cargo.toml", ".env", ".env.test", "Makefile", "makefile", "GNUmakefile", "rules.mk",
    ),
    "command": ("justfile", ".justfile", "Justfile", "Taskfile.yml", "Rakefile", "turbo.json"),
    "linter": ("mypy.ini", "ruff.toml", ".eslintrc.json", "tsconfig.json", "tsconfig.build.json", ".flake8", ".golangci.yml"),
    "watched": ("CMakeLists.txt", "build.gradle", "pom.xml", "vite.config.ts", "app/App.csproj"),
    "test": (
        "test_app.py", "tests/test_app.py", "app_test.go", "src/app.test.ts", "src/app.spec.js", "src/__tests__/a.js", "tests/helpers.py",
        "tests/__init__.py", "spec/models/user_spec.rb", "src/test/java/FooTest.java", "FooTests.cs", "tests/it.rs", "test.py", "tests.py",
        "e2e/login.cy.ts", "a.bats", "t/basic.t", "testutil.py", "assertions.py", "TestApp.java", "app-test.js", "features/a.feature",
    ),
    "data": (
        "testdata/in.txt", "pkg/testdata/golden.json", "tests/data/a.json", "tests/fixtures/a.py", "fixtures/units.py", "fixtures/a.json",
        "__snapshots__/a.snap", "src/__snapshots__/a.test.js.snap", "snapshots/a.txt", "golden/out.txt", "cassettes/a.yaml",
        "expected.txt", "out.expected", "expected_output.json", "a.snap", "tests/readme.md",
    ),
    "product": (
        "app.py", "src/app.ts", "main.go", "src/lib.rs", "contest.py", "latest.py", "attest.js", "src/testing/tools.py", "README.md",
        "docs/testing.md", "protest/x.py", "src/snapshots/service.py", "requirements.txt", "package-lock.json", "setup.py", "Dockerfile",
        "go.sum", "Cargo.lock", "src/manifest.json", "greatest.go", "inspect.py", "pytest_plugin/core.py", "unexpected.py",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "role"), [(path, role) for role, paths in CASES.items() for path in paths])
def test_a_path_has_its_role(path: str, role: str) -> None:
    assert roles.role_of(path) == role


@pytest.mark.parametrize(
    ("path", "tool", "role"),
    [
        ("Makefile", "make", "mixed"),
        ("justfile", "just", "command"),
        ("tsconfig.json", "tsc", "linter"),
        ("mypy.ini", "mypy", "linter"),
        (".flake8", "flake8", "linter"),
    ],
)
def test_a_file_of_a_program_counts_only_where_a_check_starts_it(path: str, tool: str, role: str) -> None:
    assert roles.role_of(path, {tool}) == role
    assert roles.role_of(path, {"pytest"}) == "product"


def test_every_pattern_is_lower_case() -> None:
    assert all(pattern == pattern.lower() for row in table.ROWS for pattern in row.patterns)


@pytest.mark.parametrize(
    ("path", "packages", "name"),
    [
        ("pytest.py", (), "pytest"),
        ("unittest.py", (), "unittest"),
        ("unittest/__init__.py", ("unittest",), "unittest"),
        ("_pytest/__init__.py", ("_pytest",), "_pytest"),
        ("pluggy.py", (), "pluggy"),
        ("src/pluggy/__init__.py", ("src/pluggy",), "pluggy"),
        ("tests/iniconfig.py", (), "iniconfig"),
        ("pluggy.cpython-311-x86_64-linux-gnu.so", (), "pluggy"),
        ("app/coverage.py", ("app",), None),  # imported as app.coverage
        ("app/mock/data.json", ("app",), None),
        ("calculator.py", (), None),
        ("py/main.c", (), None),
    ],
)
def test_modules_that_stand_in_a_runners_way(path: str, packages: tuple[str, ...], name: str | None) -> None:
    assert roles.shadows_runner(path, packages) == name


@pytest.mark.parametrize(
    ("prompt", "path", "named"),
    [
        ("change tests/test_a.py", "tests/test_a.py", True),
        ("change test_a.py.", "tests/test_a.py", True),
        ("update `tests/__snapshots__/a.snap`", "tests/__snapshots__/a.snap", True),
        ("update the snapshots in tests/__snapshots__/", "tests/__snapshots__/a.snap", True),
        ("add a lint target to the Makefile", "Makefile", True),
        ("fix the tests", "tests/test_a.py", False),
        ("put it in tests/", "tests/test_a.py", False),
        ("run the check", "run", False),
        ("run the check", "tools/check", False),
        ("change ./run", "run", True),
        ("change tools/check", "tools/check", True),
        ("my_test_a.py is slow", "test_a.py", False),
        ("do not change tests/test_a.py", "tests/test_a.py", False),
        ("Fix add() without touching test_a.py", "test_a.py", False),
        ("do not edit a.py; edit test_a.py", "test_a.py", True),
        ("never modify the tests. Change conftest.py", "conftest.py", True),
    ],
)
def test_what_a_task_names(prompt: str, path: str, named: bool) -> None:
    assert roles.is_named(Task(prompt=prompt), path) is named
    assert roles.is_named(Task(prompt="x", files=(path,)), path)


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("tests/test_sums.py::test_add fails since Monday, find out why and repair the product", False),
        ("fix add(); see test_sums.py for what it should give", False),
        ("add() is broken: test_sums.py fails", False),
        ("make tests/test_sums.py pass", False),
        ("change add(). Do not edit test_sums.py", True),  # it is not named at all
        ("update tests/test_sums.py for the new format", True),
        ("convert the tests in tests/test_sums.py to plain pytest", True),
        ("tests/test_sums.py is outdated", True),
        ("tests/test_sums.py must expect 4 now", True),
        ("add a case to test_sums.py", True),
    ],
)
def test_a_task_asks_to_change_a_test_or_names_it_as_a_symptom(prompt: str, asks: bool) -> None:
    assert roles.asks_to_change(Task(prompt=prompt), "tests/test_sums.py") is asks
    assert roles.asks_to_change(Task(prompt=prompt, type="test"), "tests/test_sums.py")
