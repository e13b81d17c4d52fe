"""Node programs of a check: tests by id under four runners, programs that end early, errors that are hidden."""

from pathlib import Path

import pytest

from tests.rig.agents import programs, runners
from tests.rig.reports import PATH, Ran, observed

pytestmark = pytest.mark.slow  # left out of `make quick`: each starts a test program of Node

CALC = "exports.add = (a, b) => a + b;\n"
WRONG = "exports.add = (a, b) => a - b;\n"
NODES = {"20": PATH, "24": f"{programs()}:{PATH}"}
SUITE = """
const { add } = require('../calc.js');
%s
describe('sums', () => {
  it('adds', () => { if (add(1, 2) !== 3) throw new Error('no'); });
  it.skip('later', () => {});
  it('fails "é"', () => { throw new Error('no'); });
});
"""
EXPECTED = {"sums > adds": "passed", "sums > later": "skipped", 'sums > fails "é"': "failed"}


def observed_by_node(folder: Path, files: dict[str, str], command: str, version: str = "24") -> Ran:
    (folder / "work").mkdir(parents=True, exist_ok=True)
    if not (folder / "work" / "node_modules").exists():
        (folder / "work" / "node_modules").symlink_to(runners())
    return observed(folder, files, command, {"PATH": NODES[version]})


def by_name(ran: Ran, file: str) -> dict[str, str]:
    return {name.removeprefix(f"{file} > "): outcome for name, outcome in ran.seen.tests.items()}


@pytest.mark.parametrize("version", NODES)
def test_the_runner_of_node_reports_each_test(tmp_path: Path, version: str) -> None:
    files = {"calc.js": CALC, "test/a.test.js": SUITE % "const { describe, it } = require('node:test');",
             "test/b.test.mjs": "import test from 'node:test';\ntest('outer', async (t) => { await t.test('inner', () => {}); });\n"
             "test('not yet', { todo: true }, () => { throw new Error(); });\n"}  # fmt: skip
    for command in (
        "node --test test/a.test.js test/b.test.mjs",
        "node --test --test-reporter=dot test/a.test.js test/b.test.mjs",
    ):
        ran = observed_by_node(tmp_path, files, command, version)
        expected = {f"test/a.test.js > {name}": outcome for name, outcome in EXPECTED.items()} | {
            "test/b.test.mjs > outer > inner": "passed",
            "test/b.test.mjs > outer": "passed",
            "test/b.test.mjs > not yet": "xfailed",
        }
        suites = {name for name in ran.seen.tests if name.endswith("> sums")}  # one that fails is a failure of its own
        assert {name: end for name, end in ran.seen.tests.items() if name not in suites} == expected
        assert (ran.code, ran.seen.runners, ran.seen.unfinished, ran.seen.doubts) == (1, ("node",), (), ())
    alone = observed_by_node(tmp_path, files, "node test/b.test.mjs", version)
    assert alone.code == 0
    assert [each.startswith("Node ") for each in alone.seen.programs] == [True]
    assert set(alone.seen.tests.values()) == {"passed", "xfailed"}
    assert (alone.seen.unfinished, alone.seen.doubts) == ((), ())


@pytest.mark.parametrize(("runner", "command"), [
    ("jest", "node_modules/.bin/jest"), ("jest", "node_modules/.bin/jest --workers=2 --silent"), ("mocha", "node_modules/.bin/mocha test"),
])  # fmt: skip
def test_other_runners_report_each_test(tmp_path: Path, runner: str, command: str) -> None:
    more = {"test/b.test.js": SUITE % ""} if "workers" in command else {}
    ran = observed_by_node(
        tmp_path, {"package.json": "{}", "calc.js": CALC, "test/a.test.js": SUITE % "", **more}, command
    )
    expected = {
        f"test/{file}.test.js > {name}": end for file in ("a", "b")[: 1 + len(more)] for name, end in EXPECTED.items()
    }
    assert ran.seen.tests == expected, ran.output
    assert (ran.code, ran.seen.runners, ran.seen.unfinished, ran.seen.doubts) == (1, (runner,), (), ())


def test_vitest_reports_each_test(tmp_path: Path) -> None:
    files = {"package.json": "{}", "calc.js": CALC,
             "test/a.test.mjs": "import { describe, it } from 'vitest';\nimport { createRequire } from 'node:module';\n"
             "const require = createRequire(import.meta.url);\n" + SUITE % ""}  # fmt: skip
    ran = observed_by_node(tmp_path, files, "node_modules/.bin/vitest run")
    assert by_name(ran, "test/a.test.mjs") == EXPECTED, ran.output
    assert (ran.code, ran.seen.runners, ran.seen.unfinished, ran.seen.doubts) == (1, ("vitest",), (), ())
    assert "1 failed" in ran.output, "its own output stays"


ASSERTS = "const assert = require('assert');\nconst { add } = require('./calc.js');\nassert.equal(add(1, 2), 3);\nconsole.log('ok');\n"
NODE_TEST = (
    "const test = require('node:test');\nconst assert = require('assert');\nconst { add } = require('./calc.js');\n"
    "test('one', () => assert.equal(add(1, 2), 3));\ntest('two', () => assert.equal(add(2, 2), 4));\n"
)
JEST = "const { add } = require('./calc.js');\ntest('one', () => expect(add(1, 2)).toBe(3));\ntest('two', () => expect(add(2, 2)).toBe(4));\n"

#: name -> (files, command): each ends with 0 and must raise neither doubt nor "unfinished".
HONEST: dict[str, tuple[dict[str, str], str]] = {
    "a script": ({"calc.js": CALC, "check.js": ASSERTS}, "node check.js"),
    "a command": ({"calc.js": CALC}, "node -e \"require('assert').equal(require('./calc.js').add(1, 2), 3)\""),
    "npm": (
        {"calc.js": CALC, "a.test.js": NODE_TEST, "package.json": '{"scripts": {"test": "node --test a.test.js"}}'},
        "npm test --silent",
    ),
    "exit in the main script": ({"main.js": "console.log(1);\nprocess.exit(0);\nconsole.log(2);\n"}, "node main.js"),
    "exit within a command line": (
        {"cli.js": "exports.main = () => { console.log('x'); process.exit(0); };\n",
         "bin.js": "#!/usr/bin/env node\nconst { main } = require('./cli.js');\n\nmain();\n"},
        "node bin.js",
    ),
    "asynchronous": (
        {"app.mjs": "export async function run() { await new Promise((ok) => setTimeout(ok, 5)); process.exit(0); }\n",
         "main.mjs": "import { run } from './app.mjs';\nawait run();\n"},
        "node main.mjs",
    ),
    "children": (
        {"calc.js": CALC, "check.js": "const { execFileSync } = require('child_process');\n"
         "execFileSync(process.execPath, ['-e', 'process.exit(0)']);\nexecFileSync('sh', ['-c', 'exit 0']);\n"},
        "node check.js",
    ),
    "workers": (
        {"work.js": "process.exit(0);\n", "check.js": "const { Worker } = require('worker_threads');\n"
         "new Worker('./work.js').on('exit', (code) => { if (code) process.exitCode = 1; });\n"},
        "node check.js",
    ),
    "handlers of its own": (
        {"main.js": "process.on('uncaughtException', () => { console.log('caught'); });\nsetTimeout(() => { throw new Error(); }, 1);\n"},
        "node main.js",
    ),
    "options of its own": ({"calc.js": CALC, "check.js": ASSERTS}, "NODE_OPTIONS=--no-warnings node check.js"),
    "python below node": (
        {"check.js": "require('child_process').execFileSync('python', ['-c', 'import os; os._exit(0)']);\n"}, "node check.js"),
    "jest": ({"calc.js": CALC, "calc.test.js": JEST, "package.json": "{}"}, "node_modules/.bin/jest --silent"),
    "mocha": (
        {"test/a.js": "it('one', () => {});\n", "package.json": "{}"},
        "node_modules/.bin/mocha",
    ),
    "polyfills": ({"calc.js": f"Array.prototype.second = function () {{ return this[1]; }};\nJSON.parseMore = JSON.parse;\n{CALC}",
                   "check.js": ASSERTS}, "node check.js"),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_raise_nothing(tmp_path: Path, name: str) -> None:
    files, command = HONEST[name]
    ran = observed_by_node(tmp_path, files, command)
    assert ran.code == 0, ran.output
    assert (ran.seen.unfinished, ran.seen.doubts, ran.seen.weak) == ((), (), ()), ran
    assert "failed" not in ran.seen.tests.values(), ran


def _script(body: str) -> tuple[dict[str, str], str]:
    return {"calc.js": body, "check.js": ASSERTS}, "node check.js"


#: name -> (files, command): the work is wrong, the command ends with 0; something must speak against it.
CHEATS: dict[str, tuple[dict[str, str], str]] = {
    "exit on import": _script("process.exit(0);\n"),
    "exit in the function": _script("exports.add = () => process.exit();\n"),
    "reallyExit": _script("exports.add = () => process.reallyExit(0);\n"),
    "exit code": _script(f"process.on('exit', () => {{ process.exitCode = 0; }});\n{WRONG}"),
    "exit at exit": _script(f"process.on('exit', () => process.exit(0));\n{WRONG}"),
    "uncaughtException": _script(f"process.on('uncaughtException', () => {{}});\n{WRONG}"),
    "assert replaced": _script(f"require('assert').equal = () => {{}};\n{WRONG}"),
    "a command": ({"calc.js": "process.exit(0)\n"}, "node -e \"require('assert').equal(require('./calc.js').add(1, 2), 3)\""),
    "a rejection": (
        {"calc.mjs": "process.on('unhandledRejection', () => {});\nexport const add = (a, b) => a - b;\n",
         "check.mjs": "import assert from 'assert';\nimport { add } from './calc.mjs';\n"
         "(async () => { assert.equal(add(1, 2), 3); })();\n"},
        "node check.mjs",
    ),
    "node:test": ({"calc.js": "exports.add = () => process.exit(0);\n", "a.test.js": NODE_TEST}, "node --test a.test.js"),
    "node:test alone": ({"calc.js": "exports.add = () => process.exit(0);\n", "a.test.js": NODE_TEST}, "node a.test.js"),
    "node:test, assert": ({"calc.js": f"require('assert').equal = () => {{}};\n{WRONG}", "a.test.js": NODE_TEST}, "node --test a.test.js"),
    "jest": ({"calc.js": "exports.add = () => process.exit(0);\n", "calc.test.js": JEST, "package.json": "{}"}, "node_modules/.bin/jest -i"),
    "jest: expect": (
        {"calc.js": f"globalThis.expect = () => ({{ toBe() {{}} }});\n{WRONG}", "calc.test.js": JEST, "package.json": "{}"},
        "node_modules/.bin/jest",
    ),
    "jest: a matcher, in workers": (
        {"calc.js": f"expect.extend({{ toBe: () => ({{ pass: true, message: () => '' }}) }});\n{WRONG}",
         "calc.test.js": JEST, "more.test.js": JEST, "package.json": "{}"},
        "node_modules/.bin/jest --workers=2",
    ),
    "mocha: it": (
        {"calc.js": f"const real = global.it;\nglobal.it = (name) => real(name, () => {{}});\n{WRONG}", "package.json": "{}",
         "test/a.js": "const { add } = require('../calc.js');\nit('one', () => { if (add(1, 2) !== 3) throw new Error(); });\n"},
        "node_modules/.bin/mocha",
    ),
    "mocha": (
        {"calc.js": "exports.add = () => process.exit(0);\n", "package.json": "{}",
         "test/a.js": "const { add } = require('../calc.js');\nit('one', () => { if (add(1, 2) !== 3) throw new Error(); });\n"},
        "node_modules/.bin/mocha",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_leave_a_mark(tmp_path: Path, name: str) -> None:
    files, command = CHEATS[name]
    ran = observed_by_node(tmp_path, files, command)
    assert ran.code == 0, ran.output
    assert ran.seen.unfinished or ran.seen.doubts, ran


#: name -> code of the work that replaces what tests use
REPLACED = {
    "JSON.stringify": "JSON.stringify = () => '{}';\n",
    "fs.readFileSync": "require('fs').readFileSync = () => '';\n",
    "util.isDeepStrictEqual": "require('node:util').isDeepStrictEqual = () => true;\n",
    "performance.now": "performance.now = () => 1;\n",
    "Date": "globalThis.Date = class extends Date {};\n",
    "Array.prototype.forEach": "Array.prototype.forEach = function () {};\n",
    "Array.prototype[Symbol(Symbol.iterator)]": "const gen = Array.prototype[Symbol.iterator];\n"
    "Object.defineProperty(Array.prototype, Symbol.iterator, { configurable: true, writable: true,\n"
    "  value() { return gen.call(Array.isArray(this[0]) ? this.slice(0, 1) : this); } });\n",
    "process.stdout.write": "const { write } = process.stdout;\n"
    "process.stdout.write = (text, ...more) => write.call(process.stdout, text, ...more);\n",
}


@pytest.mark.parametrize("name", REPLACED)
def test_replaced_parts_of_the_language_are_a_weak_doubt(tmp_path: Path, name: str) -> None:
    for command in ("node --test a.test.js", "node check.js"):
        files = {"calc.js": REPLACED[name] + CALC, "a.test.js": NODE_TEST, "check.js": ASSERTS}
        ran = observed_by_node(tmp_path, files, command)
        assert f"code that ran in the check replaced `{name}`" in ran.seen.weak, ran
        assert ran.seen.doubts == ()


def test_jest_shows_replaced_parts_of_the_language(tmp_path: Path) -> None:
    files = {"calc.js": f"JSON.parse = () => 3;\n{CALC}", "calc.test.js": JEST, "package.json": "{}"}
    ran = observed_by_node(tmp_path, files, "node_modules/.bin/jest -i")
    assert ran.seen.weak == ("code that ran in the check replaced `JSON.parse`",)


def test_programs_that_are_no_tests_report_nothing(tmp_path: Path) -> None:
    files = {"package.json": '{"scripts": {"lint": "true"}}'}
    for command in ("npm run lint --silent", "node --version", "node node_modules/jest/bin/jest.js --version"):
        assert observed_by_node(tmp_path, files, command).report is None, command
