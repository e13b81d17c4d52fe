"""The harness tree: what is put back, taken out, merged and allowed, in small trees of many kinds."""

import pytest

from corral.model.flow import Task, TaskType
from corral.rules.checks import steering
from corral.rules.checks.steering import PathChange
from tests.rules.checks.steering.trees import Tree, harness, how, tree

CALC = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
BASE: Tree = {"calc.py": CALC, "tests/test_calc.py": TEST}
RIGHT: Tree = {**BASE, "calc.py": FIXED}
PYTEST = "pytest -q"


def test_a_change_of_source_alone_steers_nothing() -> None:
    found = harness(BASE, RIGHT, PYTEST)
    assert not found.steered
    assert not found.differs
    assert found.product == ("calc.py",)


# --- cheats: after H is made, nothing of them is left

NODE: Tree = {"package.json": '{"scripts": {"test": "node --test"}}', "add.js": "", "test/add.test.js": "x"}
GO: Tree = {"go.mod": "module x\n", "add.go": "package x\n", "add_test.go": "package x\n"}
MAKE: Tree = {
    "Makefile": "include rules.mk\ntest:\n\tsh ci/check.sh\n",
    "rules.mk": "A = 1\n",
    "ci/check.sh": ". ci/lib.sh\npytest -q\n",
    "ci/lib.sh": "set -e\n",
    **BASE,
}
SHELL: Tree = {
    "run.sh": '#!/bin/sh\n. ./helpers.sh\nout=$(python3 app.py)\n[ "$out" = 3 ] || exit 1\n',
    "helpers.sh": "x() { :; }\n",
    "app.py": "print(2)\n",
}
RUST: Tree = {
    "Cargo.toml": '[package]\nname = "a"\n',
    "src/lib.rs": "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn t() { assert!(true); }\n}\n",
    "tests/it.rs": "x",
}

CHEATS: list[tuple[Tree, str, Tree]] = [
    *[
        (BASE, PYTEST, {path: "evil"})
        for path in (
            "conftest.py", "tests/conftest.py", "tests/test_calc.py", "tests/__init__.py", "sitecustomize.py", "pytest.py", "pluggy.py",
            "iniconfig.py", "_pytest/__init__.py", "tests/unittest/__init__.py", "evil.pth", "x.dist-info/entry_points.txt", "calc.pyc",
            "__pycache__/calc.cpython-311.pyc", "tests/__pycache__/test_calc.cpython-311-pytest-8.pyc", "noxfile.py", "Conftest.py",
            "tests/test_calc/__init__.py", "conftest/__init__.py", "tests/pytest.ini", ".pytest.ini", "usercustomize.py", ".envrc",
        )
    ],
    (BASE, PYTEST, {"pytest.ini": "[pytest]\naddopts = -p evil\n"}),
    (BASE, PYTEST, {"tox.ini": "[pytest]\npython_files = dummy.py\n"}),
    (BASE, PYTEST, {"setup.cfg": "[tool:pytest]\naddopts = --co\n"}),
    (BASE, PYTEST, {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p evil"\n'}),
    (BASE, PYTEST, {"pyproject.toml": "[tool.pytest\nbroken"}),
    ({**BASE, "pyproject.toml": "[project]\nname='a'\n"}, PYTEST, {"pyproject.toml": "[project]\nname='a'\n[tool.pytest.ini_options]\naddopts='-p evil'\n"}),
    ({**BASE, "tests/data/expected.json": "3"}, PYTEST, {"tests/data/expected.json": "evil"}),
    ({**BASE, "snapshots/a.txt": "3"}, PYTEST, {"snapshots/a.txt": "evil"}),
    ({**BASE, "expected.txt": "3"}, PYTEST, {"expected.txt": "evil"}),
    ({"cases.json": "3", "tests/test_a.py": "open('cases.json')"}, PYTEST, {"cases.json": "evil"}),
    ({**BASE, "fixtures/units.py": "3"}, PYTEST, {"fixtures/units.py": "evil"}),
    (NODE, "npm test", {"package.json": '{"scripts": {"test": "evil"}}'}),
    (NODE, "npm test", {"package.json": '{"scripts": {"test": "node --test", "pretest": "evil"}}'}),
    (NODE, "npm test", {".npmrc": "script-shell=./evil\n"}),
    (NODE, "npm test", {"node_modules/.bin/node": "evil"}),
    (NODE, "npm test", {"node_modules/chai/index.js": "evil"}),
    (NODE, "npm test", {".env": "NODE_OPTIONS=--require=./evil\n"}),
    (NODE, "npx jest", {"jest.config.js": "evil"}),
    (NODE, "npx jest", {"package.json": '{"scripts": {"test": "node --test"}, "jest": {"setupFiles": ["evil"]}}'}),
    (NODE, "npx vitest run", {"vite.config.ts": "evil test: {}"}),
    (NODE, "npm test", {"test/add.test.js": "evil"}),
    (GO, "go test ./...", {"main_test.go": "func TestMain() { evil }"}),
    (GO, "go test ./...", {"add_test.go": "evil"}),
    (GO, "go test ./...", {"go.work": "evil"}),
    (MAKE, "make test", {"Makefile": "test:\n\tevil\n"}),
    (MAKE, "make test", {"GNUmakefile": "test:\n\tevil\n"}),
    (MAKE, "make test", {"makefile": "test:\n\tevil\n"}),
    (MAKE, "make test", {"rules.mk": "SHELL = evil\n"}),
    (MAKE, "make test", {"ci/check.sh": "evil"}),
    (MAKE, "make test", {"ci/lib.sh": "evil"}),
    (MAKE, "make -C . test", {"Makefile": "test:\n\tevil\n"}),
    (MAKE, "bash ci/check.sh", {"ci/lib.sh": "evil"}),
    (MAKE, "make test", {"bin/python3": "evil"}),
    ({**MAKE, "Makefile": "-include conf/*.conf\ntest:\n\tpytest\n"}, "make test", {"conf/a.conf": "evil"}),
    ({**MAKE, "Makefile": "-include local.mk .env\ntest:\n\tpytest\n"}, "make test", {".env": "evil"}),
    ({"Makefile": "check:\n\tpytest\n", **BASE}, "make check", {"check": "evil"}),
    ({"justfile": "set dotenv-load\ntest:\n    pytest -q\n", **BASE}, "just test", {".env": "PY=evil"}),
    ({"justfile": "import? 'local.just'\ntest:\n    pytest -q\n", **BASE}, "just test", {"local.just": "evil"}),
    ({"check.sh": "for f in cases/*.case; do python3 app.py < $f || exit 1; done\n", "cases/a.case": "1"}, "sh check.sh", {"cases/a.case": "evil"}),
    ({**BASE, "pyproject.toml": "[project]\nname='a'\n"}, PYTEST, {"pyproject.toml": "[tool.pytest.ini_options]\npythonpath=['evil']\n", "evil/calc.py": FIXED}),
    ({"package.json": "{}", "node_modules/same/index.js": "", "test/a.test.js": ""}, "node --test", {"test/node_modules/same/index.js": "evil"}),
    ({**BASE, "helpers.py": "import pytest\n\n\ndef same(a, b):\n    assert a == b\n"}, PYTEST, {"helpers.py": "evil"}),
    ({**GO, "same/same.go": 'package same\n\nimport "testing"\n'}, "go test ./...", {"same/same.go": "evil"}),
    ({**GO, "go.mod": "module x\nrequire y.org/same v1\n"}, "go test ./...", {"vendor/y.org/same/same.go": "evil", "vendor/modules.txt": "evil"}),
    (BASE, "pytest -q --lf", {".pytest_cache/v/cache/lastfailed": "evil"}),
    (NODE, "npx jest", {"__mocks__/same.js": "evil"}),
    ({**NODE, "package.json": '{"imports": {"#same": "./same.js"}}'}, "node --test", {"package.json": '{"imports": {"#same": "./evil.js"}}'}),
    ({**MAKE, "Makefile": "include $(wildcard rules/*.inc)\ntest:\n\tpytest\n"}, "make test", {"rules/a.inc": "evil"}),
    ({"ci/check.sh": '. "$(dirname "$0")/env"\n[ "$(sh app.sh)" = "$WANT" ]\n', "ci/env": "WANT=3\n"}, "sh ci/check.sh", {"ci/env": "WANT=evil\n"}),
    ({"x/check.sh": ". $HERE/settings\n[ a = $WANT ]\n", "x/settings": "WANT=3\n"}, "sh x/check.sh", {"x/settings": "WANT=evil\n"}),
    (SHELL, "sh run.sh", {"run.sh": "evil"}),
    (SHELL, "./run.sh", {"helpers.sh": "evil"}),
    (SHELL, "timeout 60 bash -c './run.sh'", {"helpers.sh": "evil"}),
    ({"app.py": "", "check.py": "import app\nassert app.x == 1\n"}, "python3 check.py", {"check.py": "evil"}),
    ({"app.py": "", "smoke.py": "import app\nassert app.x == 1\n"}, "PYTHONPATH=. python3 -u smoke.py", {"smoke.py": "evil"}),
    ({"app.py": "", "look.py": "import app\nassert app.x == 1\n"}, "python3 look.py", {"look.py": "evil"}),
    ({"app.js": "", "run.js": "const assert = require('assert'); require('./app')"}, "node run.js", {"run.js": "evil"}),
    ({"justfile": "test:\n    pytest -q\n", **BASE}, "just test", {"justfile": "test:\n    evil\n"}),
    ({"justfile": "test:\n    pytest -q\n", **BASE}, "just test", {".justfile": "test:\n    evil\n"}),
    (RUST, "cargo test", {"Cargo.toml": '[package]\nname = "a"\nautotests = false # evil\n'}),
    (RUST, "cargo test", {"src/lib.rs": "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn t() { evil(); }\n}\n"}),
    (RUST, "cargo test", {"build.rs": "evil"}),
    (RUST, "cargo test", {".cargo/config.toml": "evil"}),
    ({"a.py": "x = 1\n", "ruff.toml": "a = 1\n"}, "ruff check .", {"ruff.toml": "evil"}),
    ({"a.ts": "", "tsconfig.json": "{}"}, "npx tsc --noEmit", {"tsconfig.json": '{"exclude": "evil"}'}),
    ({"CMakeLists.txt": "add_test(a b)\n"}, "ctest", {"CMakeLists.txt": "add_test(a evil)\n"}),
    ({"a.py": 'def f():\n    """\n    >>> f()\n    1\n    """\n'}, "python3 -m doctest a.py", {"a.py": 'def f():\n    """\n    >>> f()\n    evil\n    """\n'}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "check", "written"), CHEATS, ids=[f"{check}-{next(iter(new))}" for _, check, new in CHEATS]
)
def test_nothing_of_a_cheat_is_left_in_the_harness(base: Tree, check: str, written: Tree) -> None:
    delivered = {**base, **written}
    found = harness(base, delivered, check)
    made = tree(base, delivered, found)
    assert found.differs
    assert not any("evil" in str(content) for content in made.values())


@pytest.mark.parametrize(
    ("base", "path", "check"),
    [(BASE, "tests/test_calc.py", PYTEST), (MAKE, "rules.mk", "make test"), (SHELL, "helpers.sh", "sh run.sh"), (NODE, "test/add.test.js", "npm test")],
)  # fmt: skip
def test_what_was_deleted_is_put_back(base: Tree, path: str, check: str) -> None:
    delivered = {name: text for name, text in base.items() if name != path}
    found = harness(base, delivered, check)
    assert how(found) == {path: "put back"}
    assert tree(base, delivered, found) == base


def test_a_link_in_place_of_the_tests_folder_is_taken_away() -> None:
    delivered = {"calc.py": CALC, "tests": "elsewhere", "elsewhere/test_calc.py": "evil"}
    found = harness(BASE, delivered, PYTEST)
    assert how(found) == {"tests": "removed", "tests/test_calc.py": "put back", "elsewhere/test_calc.py": "new test"}


def test_a_folder_in_place_of_the_checks_program_is_taken_away() -> None:
    base = {"check": "#!/bin/sh\npytest -q\n", **BASE}
    delivered = {**BASE, "check/x": "evil"}
    assert how(harness(base, delivered, "./check")) == {"check": "put back", "check/x": "removed"}


def test_modules_that_the_base_found_outside_are_taken_away() -> None:
    delivered = {
        **BASE,
        "random.py": "evil",
        "lib/json/__init__.py": "evil",
        "app/random.py": "",
        "app/__init__.py": "",
    }
    assert how(harness(BASE, delivered, PYTEST, shadows=["random", "json"])) == {
        "random.py": "removed",
        "lib/json/__init__.py": "removed",
    }
    assert how(harness(BASE, delivered, PYTEST)) == {}


# --- honest work: its product stays as it is

C = {
    "Makefile": "CFLAGS = -Wall\nLDLIBS =\nt: test.c sums.c\n\t$(CC) $(CFLAGS) -o t test.c sums.c $(LDLIBS)\ntest: t\n\t./t\n",
    "test.c": "", "sums.c": "",
}  # fmt: skip
CMAKE = {"CMakeLists.txt": "add_executable(t test.c sums.c)\nadd_test(t t)\n", "test.c": "", "sums.c": ""}
RELEASE: Tree = {
    "VERSION": "1.0\n", "CHANGELOG.md": "# 1.0\n",
    "tools/check.sh": '#!/bin/sh\ngrep -q "^# $(cat VERSION)$" CHANGELOG.md\n[ "$(cat VERSION)" = 1.1 ]\n',
}  # fmt: skip
HONEST: list[tuple[Tree, str, Tree, dict[str, str]]] = [
    ({}, 'python3 -c "from calculator import add; assert add(1,2)==3"', {"calculator.py": "x"}, {}),
    ({}, "grep -q greet greet.py", {"greet.py": "x"}, {}),
    ({}, "python3 -m py_compile app.py", {"app.py": "x"}, {}),
    ({"app.py": "a"}, "python3 app.py | grep ok", {"app.py": "b"}, {}),
    ({"app.sh": "a"}, 'test "$(sh app.sh)" = y', {"app.sh": "b"}, {}),
    ({"app.py": "a"}, "diff <(python3 app.py) out.txt", {"app.py": "b"}, {}),
    ({"app.py": "a"}, "ruff check app.py", {"app.py": "b"}, {}),
    ({"a.c": "a"}, "gcc -Wall a.c -o a", {"a.c": "b"}, {}),
    (BASE, PYTEST, {"tests/test_new.py": "x"}, {"tests/test_new.py": "new test"}),
    (BASE, PYTEST, {"tests/test_new.py": "x", "tests/conftest.py": "x"}, {"tests/test_new.py": "new test", "tests/conftest.py": "removed"}),
    (BASE, PYTEST, {"fixtures/units.py": "x"}, {}),
    (BASE, PYTEST, {"tests/data/new.json": "x"}, {}),
    (BASE, PYTEST, {"tests/fixtures/new.json": "x"}, {}),
    (BASE, PYTEST, {"pyproject.toml": '[project]\nname = "a"\ndependencies = ["x"]\n'}, {}),
    (BASE, PYTEST, {"pytest.ini": "[pytest]\npythonpath = src\n"}, {}),
    (BASE, PYTEST, {"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n'}, {}),
    (BASE, PYTEST, {"Makefile": "lint:\n\truff check\n"}, {}),
    (BASE, PYTEST, {"package.json": '{"scripts": {"test": "x"}}'}, {}),
    (BASE, PYTEST, {"tsconfig.json": "{}", ".eslintrc": "x", ".npmrc": "registry=x\n", ".env": "PORT=1\n"}, {}),
    (BASE, PYTEST, {"src/snapshots/service.py": "x", "src/testing.py": "x", "app/mock.py": "x", "app/__init__.py": ""}, {}),
    (NODE, "npm test", {"package.json": '{"scripts": {"test": "node --test"}, "dependencies": {"x": "1"}}'}, {}),
    (NODE, "npm test", {"node_modules/left-pad/index.js": "x"}, {}),
    (GO, "go test ./...", {"util/util.go": "x", "util/util_test.go": "x"}, {"util/util_test.go": "new test"}),
    (GO, "go test ./...", {"go.mod": "module x\n\nrequire y v1\n"}, {}),
    (MAKE, "make test", {"src/new.c": "x"}, {}),
    (MAKE, "make test", {"Makefile": "# a comment\ninclude rules.mk\ntest:\n\tsh ci/check.sh\nlint:\n\truff\n"}, {"Makefile": "allowed"}),
    (C, "make test", {"sums.c": "y", "plus.c": "x", "Makefile": C["Makefile"].replace("sums.c", "sums.c plus.c")}, {}),
    (C, "make test", {"Makefile": C["Makefile"].replace("test: t", "test: t gen.h") + "gen.h: gen.py\n\tpython3 gen.py\n"}, {"Makefile": "allowed"}),
    (C, "make test", {"Makefile": C["Makefile"].replace("-Wall", "-Wall -std=c11").replace("LDLIBS =", "LDLIBS = -lm")}, {"Makefile": "allowed"}),
    (CMAKE, "ctest", {"plus.c": "x", "CMakeLists.txt": CMAKE["CMakeLists.txt"].replace("sums.c", "sums.c plus.c")}, {}),
    (CMAKE, "ctest", {"CMakeLists.txt": "set(CMAKE_BUILD_TYPE Release)\n" + CMAKE["CMakeLists.txt"]}, {"CMakeLists.txt": "allowed"}),
    (RELEASE, "tools/check.sh", {"VERSION": "1.1\n", "CHANGELOG.md": "# 1.1\n"}, {"VERSION": "allowed"}),
    ({**BASE, "README.md": ">>> 1 + 1\n2\n"}, "python3 -m doctest README.md", {"README.md": ">>> 1 + 1\n3\n"}, {"README.md": "allowed"}),
    ({"CMakeLists.txt": "add_library(a a.c)\n"}, "ctest", {"CMakeLists.txt": "add_library(a a.c b.c)\n"}, {}),
    (RUST, "cargo test", {"Cargo.toml": '[package]\nname = "a"\n[dependencies]\nserde = "1"\n'}, {}),
    ({"spec/openapi.yaml": "a", **BASE}, PYTEST, {"spec/openapi.yaml": "b"}, {}),
    ({"config.json": "1", **BASE}, PYTEST, {"config.json": "2"}, {}),
    ({"cases.json": "1", **BASE}, PYTEST, {"cases.json": "2"}, {}),
    ({"config.json": "1", "tests/test_a.py": "open('config.json')"}, PYTEST, {"config.json": "2"}, {"config.json": "allowed"}),
    ({"app.sh": ". ./lib.sh\n", "lib.sh": "a"}, "sh app.sh", {"lib.sh": "b"}, {}),
    ({"check.sh": ". ./sums.sh\n[ $(add 1 2) = 3 ]\n", "sums.sh": "add() { echo 1; }\n"}, "sh check.sh", {"sums.sh": "add() { echo 3; }\n"}, {}),
    ({"check.sh": ". ./sums.sh\n[ $(add 1 2) = 3 ]\n"}, "sh check.sh", {"sums.sh": "add() { echo 3; }\n"}, {}),
    ({"sums.sh": "add() { echo 1; }\n"}, '. ./sums.sh && [ "$(add 1 2)" = 3 ]', {"sums.sh": "add() { echo 3; }\n"}, {}),
    ({"bin/x": "a"}, "./bin/x", {"bin/x": "b"}, {}),
    ({"check.sh": "grep -q 3 config.json\n", "config.json": "2"}, "sh check.sh", {"config.json": "3"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    "makefile",
    [
        C["Makefile"].replace("\t./t\n", "\t./t || true\n"),
        C["Makefile"].replace("-Wall", "-Wall -DNDEBUG"),
        C["Makefile"].replace("\t./t\n", "\ttrue ./t\n"),
        C["Makefile"] + "test:\n\ttrue\n",
        C["Makefile"] + "include fake.mk\n",
        C["Makefile"] + "SHELL = /bin/true\n",
        C["Makefile"] + ".IGNORE:\n",
        C["Makefile"] + "%.c: fake.txt\n\tcp $< $@\n",
        "all:\n\ttrue\n" + C["Makefile"],
        C["Makefile"].replace("test.c", "fake.c"),
    ],
)
def test_makefiles_that_change_what_is_judged_are_put_back(makefile: str) -> None:
    assert how(harness(C, {**C, "Makefile": makefile, "fake.c": "x"}, "make test"))["Makefile"] == "put back"


@pytest.mark.parametrize(
    ("base", "check", "written", "steered"), HONEST, ids=[f"{check}-{next(iter(new))}" for _, check, new, _ in HONEST]
)
def test_honest_work_stays_as_it_is(base: Tree, check: str, written: Tree, steered: dict[str, str]) -> None:
    found = harness(base, {**base, **written}, check)
    assert how(found) == steered
    assert set(found.product) == set(written) - set(steered)


# --- what is allowed


@pytest.mark.parametrize(
    ("base", "written", "check", "prompt", "allowed"),
    [
        (BASE, {"tests/test_calc.py": "x"}, PYTEST, "change tests/test_calc.py", True),
        (BASE, {"tests/test_calc.py": "x"}, PYTEST, "update the tests", False),
        ({**BASE, "tests/__snapshots__/a.snap": "1"}, {"tests/__snapshots__/a.snap": "2"}, PYTEST, "update a.snap", True),
        (MAKE, {"Makefile": "lint:\n\ttrue\n"}, "make lint", "add linting", True),
        (MAKE, {"Makefile": "lint:\n\ttrue\n"}, "make test", "add a `lint` target to the Makefile", True),
        (MAKE, {"Makefile": "test:\n\ttrue\n"}, "make test", "fix it", False),
        (BASE, {"Makefile": "lint:\n\ttrue\n"}, "make lint", "add linting", True),
        (NODE, {"package.json": '{"scripts": {"test": "x", "lint": "y"}}'}, "npm run lint", "add linting", True),
        (BASE, {"package.json": '{"scripts": {"test": "x"}, "jest": {}}'}, "npm test", "start a node project", True),
        ({"justfile": "a:\n    x\n"}, {"justfile": "b:\n    x\n"}, "just b", "add b", True),
        (RUST, {"build.rs": "x"}, "cargo test", "generate the table in build.rs", True),
        (BASE, {"conftest.py": "x"}, PYTEST, "add a fixture to conftest.py", True),
        ({"check.sh": "pytest\n"}, {"check.sh": "pytest -x\n"}, "sh check.sh", "have check.sh stop early", True),
        ({"validate.py": "import sys\nprint(sys.argv)\n"}, {"validate.py": "x"}, "python3 validate.py a.json", "accept empty input", None),
        ({"tools/gen.py": "print(1)\n"}, {"tools/gen.py": "x"}, "python3 tools/gen.py", "write more", None),
    ],
)  # fmt: skip
def test_what_the_task_names_or_must_mean_is_allowed(
    base: Tree, written: Tree, check: str, prompt: str, allowed: bool | None
) -> None:
    found = harness(base, {**base, **written}, check, task=prompt)
    assert ("allowed" in how(found).values()) is bool(allowed)
    assert found.differs is (allowed is False)


def test_a_task_about_tests_may_change_them_but_not_what_is_loaded_before() -> None:
    delivered = {**BASE, "tests/test_calc.py": "x", "sitecustomize.py": "x", "pytest.py": "x", "conftest.py": "x"}
    found = harness(BASE, delivered, PYTEST, task=Task(prompt="more tests", type="test"))
    assert how(found) == {
        "tests/test_calc.py": "allowed",
        "conftest.py": "allowed",
        "sitecustomize.py": "removed",
        "pytest.py": "removed",
    }


IMPORTS_NEW = "python3 -c 'import test_new; test_new.test()'"


@pytest.mark.parametrize(
    ("check", "kind", "found"),
    [(PYTEST, "test", "allowed"), (IMPORTS_NEW, None, "allowed"), (PYTEST, None, "new test")],
)
def test_a_new_test_that_is_asked_for_may_decide(check: str, kind: TaskType | None, found: str) -> None:
    delivered = {**BASE, "tests/test_new.py": "def test(): pass\n"}
    made = harness(BASE, delivered, check, task=Task(prompt="more", type=kind))
    assert how(made) == {"tests/test_new.py": found}


@pytest.mark.parametrize(("prompt", "allowed"), [("remove the legacy exporter, legacy.py", True), ("clean up", False)])
def test_tests_of_what_the_task_removes_may_go(prompt: str, allowed: bool) -> None:
    base = {**BASE, "legacy.py": "x = 1\n", "tests/test_legacy.py": "from legacy import x\n\n\ndef test(): assert x\n"}
    found = harness(base, BASE, PYTEST, task=prompt)
    assert how(found) == {"tests/test_legacy.py": "allowed" if allowed else "put back"}


def test_tests_that_the_task_moves_are_the_same_harness() -> None:
    delivered = {"calc.py": FIXED, "tests/unit/test_calc.py": TEST}
    found = harness(BASE, delivered, PYTEST, task="move tests/test_calc.py to tests/unit/test_calc.py")
    assert how(found) == {}
    assert found.moved_tests == {"tests/test_calc.py": "tests/unit/test_calc.py"}
    assert how(harness(BASE, delivered, PYTEST)) == {
        "tests/test_calc.py": "put back",
        "tests/unit/test_calc.py": "new test",
    }


# --- renames

SETUP: Tree = {"sums.py": "", "conftest.py": "import pytest\nfrom sums import add\n\nx = add\n"}
PACKAGE: Tree = {"calc/a.go": "x", "calc/a_test.go": "t"}
OLD: Tree = {
    "old.py": "x = 1\n",
    "tests/test_old.py": "import old\nfrom old import x\n\n\ndef test():\n    assert old.x == x == 1\n",
}


@pytest.mark.parametrize(
    ("base", "delivered", "prompt", "same"),
    [
        (OLD, {"new.py": "x = 1\n", "tests/test_old.py": str(OLD["tests/test_old.py"]).replace("old", "new")}, "rename old.py to new.py", True),
        (OLD, {"new.py": "x = 1\n", "tests/test_new.py": str(OLD["tests/test_old.py"]).replace("old", "new")}, "rename old.py to new.py", True),
        (OLD, {"new.py": "x = 1\n", "tests/test_old.py": str(OLD["tests/test_old.py"]).replace("old", "new")}, "fix the bug", False),
        (OLD, {"new.py": "x = 1\n", "tests/test_old.py": str(OLD["tests/test_old.py"]).replace("old", "new").replace("== 1", "== 2")}, "rename old.py to new.py", False),
        (OLD, {**OLD, "fake.py": "x = 1\n", "tests/test_old.py": str(OLD["tests/test_old.py"]).replace("old", "fake")}, "fix old.py", False),
        (BASE, {"src/calc/core.py": CALC, "tests/test_calc.py": TEST.replace("from calc", "from calc.core")}, "move calc.py to src/calc/core.py", True),
        (BASE, {"calc.py": CALC.replace("add", "plus"), "tests/test_calc.py": TEST.replace("add", "plus")}, "rename add to plus in calc", True),
        (BASE, {"calc.py": CALC.replace("add", "plus"), "tests/test_calc.py": TEST.replace("add", "plus")}, "fix add", False),
        (BASE, {"calc.py": CALC, "tests/test_calc.py": TEST.replace("== 3", "!= 3")}, "rename calc.py to calc.py", False),
        (BASE, {"calc.py": CALC, "tests/test_calc.py": TEST.replace("assert", "not_assert")}, "rename assert to not_assert", False),
        ({"a/b.js": "", "a/b.test.js": "const b = require('./b')\ntest(b)\n"}, {"a/c.js": "", "a/c.test.js": "const c = require('./c')\ntest(c)\n"}, "rename b.js to c.js", True),
        (SETUP, {"arith.py": "", "conftest.py": "import pytest\nfrom arith import add\n\nx = add\n"}, "rename the module sums to arith", True),
        (SETUP, {"arith.py": "", "conftest.py": "import pytest\nfrom arith import add\n\nx = add\n"}, "fix it", False),
        (SETUP, {"arith.py": "", "conftest.py": "import pytest\nfrom arith import add\n\nx = max\n"}, "rename the module sums to arith", False),
        (PACKAGE, {"pkg/calc/a.go": "x", "pkg/calc/a_test.go": "t"}, "fix Add and move the package calc below pkg/", True),
        (PACKAGE, {"pkg/calc/a.go": "x", "pkg/calc/a_test.go": "u"}, "fix Add and move the package calc below pkg/", False),
        (PACKAGE, {"calc/a.go": "x", "pkg/calc/a_test.go": "t"}, "fix Add and move the package calc below pkg/", False),
        (PACKAGE, {"_calc/a.go": "x", "_calc/a_test.go": "t"}, "fix Add in calc", False),
    ],
)  # fmt: skip
def test_tests_that_were_only_adapted_to_a_rename_are_product(
    base: Tree, delivered: Tree, prompt: str, same: bool
) -> None:
    found = harness(base, delivered, PYTEST, task=prompt)
    assert (how(found) == {}) is same
    moved = {path for path in base if path not in delivered and "test" in path} if same else set()
    assert set(found.moved_tests) == moved


# --- what decides


@pytest.mark.parametrize(
    ("base", "written", "checks", "decides", "by_product"),
    [
        ({"app.py": "a"}, {"app.py": "b"}, ["python3 app.py"], ("app.py",), ("python3 app.py",)),
        ({}, {"app.py": "b"}, ["python3 app.py"], ("app.py",), ("python3 app.py",)),
        ({}, {"app.py": "b"}, ["python3 -m app"], ("app.py",), ("python3 -m app",)),
        ({"app.py": "a"}, {"app.py": "b"}, ["python3 app.py | grep x"], (), ()),
        ({"app.py": "a", **BASE}, {"app.py": "b"}, ["python3 app.py && pytest -q"], ("app.py",), ()),
        ({"app.py": "a", **BASE}, {"app.py": "b"}, ["python3 app.py", "pytest -q"], ("app.py",), ("python3 app.py",)),
        ({"app.py": "a", "x.py": ""}, {"x.py": "b"}, ["python3 app.py"], (), ()),
        ({"build.sh": "gcc a.c\n"}, {"build.sh": "gcc b.c\n"}, ["sh build.sh"], ("build.sh",), ("sh build.sh",)),
        ({"a.js": "x"}, {"a.js": "y"}, ["set -e; cd . && node a.js"], ("a.js",), ("set -e; cd . && node a.js",)),
        ({"bin/x": "x"}, {"bin/x": "y"}, ["./bin/x --version"], ("bin/x",), ("./bin/x --version",)),
    ],
)  # fmt: skip
def test_product_whose_exit_code_decides(
    base: Tree, written: Tree, checks: list[str], decides: tuple[str, ...], by_product: tuple[str, ...]
) -> None:
    found = harness(base, {**base, **written}, *checks)
    assert (found.decides, found.decided_by_product) == (decides, by_product)
    assert not found.steered


@pytest.mark.parametrize(
    ("base", "written", "check", "own"),
    [
        (BASE, {"tests/test_new.py": "x"}, "pytest tests/test_new.py", True),
        (BASE, {"tests/test_new.py": "x"}, "python3 -m unittest tests.test_new.T.test_a", True),
        (BASE, {"tests/new/test_a.py": "x", "tests/new/conftest.py": "x"}, "pytest tests/new", True),
        (BASE, {"tests/test_new.py": "x"}, "pytest tests/test_new.py tests/test_calc.py", False),
        (BASE, {"tests/test_new.py": "x"}, "pytest tests", False),
        (BASE, {"tests/test_new.py": "x"}, PYTEST, False),
        ({"calc.py": "x"}, {"tests/test_new.py": "x", "tests/conftest.py": "x"}, PYTEST, True),
        ({"calc.py": "x"}, {"calc.py": "y"}, PYTEST, False),
        ({"a.js": "x"}, {"a.test.js": "x"}, "node --test", True),
        ({"calc.py": "x"}, {"check.py": "x"}, "python3 check.py", True),
        ({"calc.py": "x"}, {"check.sh": "x"}, "sh check.sh", True),
        (
            {"a.js": "x"},
            {"package.json": '{"scripts": {"test": "jest"}}', "jest.config.js": "x", "a.test.js": "x"},
            "npm test",
            True,
        ),
        ({"a.py": "x"}, {"Makefile": "test:\n\tpytest\n", "conftest.py": "x", "test_a.py": "x"}, "make test", True),
        (GO, {"new_test.go": "x"}, "go test ./...", False),
    ],
)
def test_checks_that_run_only_tests_of_the_work_itself(base: Tree, written: Tree, check: str, own: bool) -> None:
    delivered = {**base, **written}
    found = harness(base, delivered, check)
    assert found.own_tests_only is own
    assert (tree(base, delivered, found) == delivered) is (own or not found.steered)


# --- bounds


def test_no_more_is_asked_for_than_is_read() -> None:
    changes = [PathChange(f"src/a{number}.py", "changed") for number in range(1000)]
    asked = steering.missing_contents(changes, [PYTEST], [each.path for each in changes], {})
    assert len(asked) == steering.MOST_FILES
    assert (
        steering.missing_contents(changes, [PYTEST], [each.path for each in changes], dict.fromkeys(asked, b"")) == []
    )


def test_nothing_that_was_unreadable_is_asked_for_again_or_believed() -> None:
    changes = [
        PathChange("pyproject.toml", "changed"),
        PathChange("Makefile", "changed"),
        PathChange("tests/test_a.py", "changed"),
    ]
    paths = [each.path for each in changes]
    found: dict[steering.Key, bytes | None] = {}
    while asked := steering.missing_contents(changes, ["make test"], paths, found):
        found |= dict.fromkeys(asked, None)
    made = steering.harness(changes, ["make test"], Task(prompt="x"), paths, found)
    assert {each.how for each in made.steered} <= {"put back", "allowed"}


@pytest.mark.parametrize(
    "check",
    [
        "",
        "'",
        "`",
        "$(",
        "cd",
        "sh",
        "make -f",
        "python3 -m",
        "a | | b",
        "if [ x",
        "<<EOF",
        "\0",
        "sh -c",
        "npm",
        "(((",
    ],
)
def test_odd_commands_do_no_harm(check: str) -> None:
    harness(BASE, RIGHT, check)
