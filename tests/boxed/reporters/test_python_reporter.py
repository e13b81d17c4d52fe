"""Python programs of a check: tests by id, programs that end early, runners that are replaced from inside."""

import sys
from pathlib import Path

import pytest

from tests.rig.reports import observed

pytestmark = pytest.mark.slow  # left out of `make quick`

CALC = "def add(a, b):\n    return a + b\n"
SCRIPT = "from calc import add\nassert add(1, 2) == 3\nprint('ok')\n"
LAST = "from calc import add\nassert add(1, 2) == 3"
PYTEST = "python -m pytest -q -p no:cacheprovider"
MIXED = """
import unittest
import pytest
from calc import add

def test_add(): assert add(1, 2) == 3
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert add(1, 2) == 4
@pytest.mark.xfail(strict=False)
def test_unexpected(): pass
@pytest.mark.parametrize("value", ["a b", '"', "é"])
def test_value(value): assert value
@pytest.fixture
def broken():
    yield
    raise OSError
def test_teardown(broken): pass
class Case(unittest.TestCase):
    def test_parts(self):
        for each in range(3):
            with self.subTest(each=each): self.assertEqual(add(each, 0), each)
"""


@pytest.mark.parametrize("more", ["", " -p xdist -n 2"])
def test_pytest_reports_each_test(tmp_path: Path, more: str) -> None:
    ran = observed(tmp_path, {"calc.py": CALC, "sub/test_calc.py": MIXED}, f"{PYTEST} --rootdir=sub sub{more}")
    place = "sub/test_calc.py::"
    assert {name.removeprefix(place): outcome for name, outcome in ran.seen.tests.items()} == {
        "test_add": "passed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_unexpected": "passed",
        "test_value[a b]": "passed",
        'test_value["]': "passed",
        "test_value[\\xe9]": "passed",
        "test_teardown": "failed",
        "Case::test_parts": "passed",
    }
    assert (ran.code, ran.seen.runners, ran.seen.sessions) == (1, ("pytest",), 1)
    assert (ran.seen.unfinished, ran.seen.doubts) == ((), ())
    assert "calc" in ran.seen.inside
    version = ".".join(map(str, sys.version_info[:3]))
    assert ran.seen.programs == (f"Python {version}", f"pytest {pytest.__version__}")
    assert {"pluggy", "pytest"} <= set(ran.seen.outside)


def test_a_package_that_is_named_like_a_runner_is_left_alone(tmp_path: Path) -> None:
    files = {"unittest/__init__.py": "", "unittest/__main__.py": "print('OK')\n"}
    ran = observed(tmp_path, files, "python -m unittest")
    assert (ran.code, ran.output) == (0, "OK\n")


def test_pytest_prints_and_ends_as_without_us(tmp_path: Path) -> None:
    for name, tests, code in (
        ("good", "def test_a(): pass\n", 0),
        ("none", "", 5),
        ("bad", "import nothing_here\n", 2),
    ):
        ran = observed(tmp_path / name, {"test_a.py": tests}, f"{PYTEST} --co && {PYTEST}")
        assert "corral" not in ran.output.replace(str(tmp_path), ""), ran.output
        assert ran.code == code
        assert (ran.seen.unfinished, ran.seen.doubts) == ((), ())


def test_unittest_reports_each_test(tmp_path: Path) -> None:
    tests = """
import unittest
class Case(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.fail()
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_parts(self):
        for each in range(3):
            with self.subTest(each=each): self.assertLess(each, 2)
if __name__ == "__main__":
    unittest.main()
"""
    for command, place in (("python -m unittest -q", "test_it.Case."), ("python test_it.py", "__main__.Case.")):
        ran = observed(tmp_path, {"test_it.py": tests}, command)
        assert {name.removeprefix(place): outcome for name, outcome in ran.seen.tests.items()} == {
            "test_good": "passed",
            "test_bad": "failed",
            "test_skipped": "skipped",
            "test_expected": "xfailed",
            "test_parts": "failed",
        }
        assert ran.code == 1
        assert "unittest" in ran.seen.runners
        assert (ran.seen.unfinished, ran.seen.doubts) == ((), ())


#: name -> (files, command): each ends with 0 and must raise neither doubt nor "unfinished".
HONEST: dict[str, tuple[dict[str, str], str]] = {
    "a script": ({"calc.py": CALC, "check.py": SCRIPT}, "python check.py"),
    "a command": ({"calc.py": CALC}, "python -c 'from calc import add; assert add(1, 2) == 3'"),
    "from standard input": ({"calc.py": CALC, "check.py": SCRIPT}, "python - < check.py"),
    "a module": ({"calc.py": CALC, "checks/__init__.py": "", "checks/all.py": SCRIPT}, "python -m checks.all"),
    "exit in the main script": ({"main.py": "import sys\ndef main(): return 0\nsys.exit(main())\nprint(1)\n"}, "python main.py"),
    "exit within main": (
        {"app/__init__.py": "", "app/cli.py": "import sys\ndef main():\n    sys.exit(0)\n",
         "app/__main__.py": "import sys\nfrom app.cli import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"},
        "python -m app",
    ),
    "help of a command line": (
        {"app/__init__.py": "",
         "app/options.py": "import argparse\ndef read():\n    return argparse.ArgumentParser().parse_args()\n",
         "app/__main__.py": "from app.options import read\noptions = read()\nprint(options)\n"},
        "python -m app --help",
    ),
    "children": (
        {"calc.py": CALC, "check.py": "import os, subprocess, sys, multiprocessing\nfrom calc import add\n"
         "def work(): add(1, 1)\n"
         "if __name__ == '__main__':\n"
         "    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n    os.waitpid(pid, 0)\n"
         "    subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'], check=True)\n"
         "    for kind in ('fork', 'spawn'):\n"
         "        child = multiprocessing.get_context(kind).Process(target=work)\n"
         "        child.start(); child.join(); assert child.exitcode == 0\n"},
        "python check.py",
    ),
    "an exit hook that is quick": (
        {"calc.py": f"import atexit, os\natexit.register(os._exit, 0)\n{CALC}",
         "check.py": "import sys\nfrom calc import add\nsys.exit(0 if add(1, 2) == 3 else 1)\n"},
        "python check.py",
    ),
    "a daemon thread": (
        {"check.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"},
        "python check.py",
    ),
    "a server with a time limit": ({"serve.py": "import time\ntime.sleep(60)\n"}, "timeout 0.5 python serve.py; test $? = 124"),
    "exec": ({"check.py": "import os\nos.execvp('true', ['true'])\n"}, "python check.py"),
    "a server in the background": (
        {"serve.py": "import time\nprint('up', flush=True)\ntime.sleep(60)\n"},
        "python serve.py > out & until grep -q up out; do sleep 0.05; done; kill $!",
    ),
    "an exit that the script catches": (
        {"app.py": "import sys\ndef main():\n    sys.exit(0)\n",
         "check.py": "from app import main\ntry:\n    main()\nexcept SystemExit as error:\n    kept = error\nassert kept.code == 0\n"},
        "python check.py",
    ),
    "pytest of a command line": (
        {"app.py": "import sys\ndef main():\n    print('x')\n    sys.exit(0)\n",
         "test_app.py": "import subprocess, sys, pytest\nfrom app import main\n"
         "def test_exit():\n    with pytest.raises(SystemExit):\n        main()\n"
         "def test_program():\n    subprocess.run([sys.executable, '-c', 'import app; app.main()'], check=True)\n"},
        PYTEST,
    ),
    "patches that are undone": (
        {"test_it.py": "import unittest, builtins\nimport pytest\n"
         "def test_patch(monkeypatch):\n    monkeypatch.setattr(unittest.TestCase, 'assertEqual', lambda *_: None)\n"
         "    monkeypatch.setattr(builtins, 'input', lambda *_: 'y')\n    assert input() == 'y'\n"},
        PYTEST,
    ),
    "a path of its own": (
        {"src/calc.py": CALC, "tests/test_calc.py": "from calc import add\ndef test_add(): assert add(1, 2) == 3\n"},
        f"PYTHONPATH=src {PYTEST}",
    ),
    "a sitecustomize of its own": (
        {"own/sitecustomize.py": "import builtins\nbuiltins.ours = 1\n", "check.py": "assert ours == 1\n"},
        "PYTHONPATH=own python check.py",
    ),
    "make": ({"Makefile": f"test:\n\t@{PYTEST}\n", "test_it.py": "def test_a(): pass\n"}, "make test"),
    "a path that a Makefile sets": (
        {"Makefile": "export PYTHONPATH := src\ntest:\n\t@/usr/bin/python3 -m unittest discover -s tests\n", "src/calc.py": CALC,
         "tests/test_calc.py": "import unittest\nfrom calc import add\nclass Case(unittest.TestCase):\n    def test_add(self): add(1, 2)\n"},
        "make test",
    ),
    "a checker": (
        {"app/__init__.py": "", "app/__main__.py": "from app.checker import main\nmain()\n",
         "app/checker.py": "from app.options import read\ndef main():\n    options = read()\n    print(options)\n",
         "app/options.py": "import argparse\ndef read():\n    return argparse.ArgumentParser().parse_args()\n"},
        "python -m app --help",
    ),
    "a shell script": ({"calc.py": CALC, "check.py": SCRIPT, "run.sh": "set -e\npython check.py\n"}, "sh run.sh"),
    "nested sessions": (
        {"conftest.py": "pytest_plugins = ['pytester']\n",
         "test_it.py": "def test_inner(pytester):\n    pytester.makepyfile('def test_x(): assert 0')\n"
         "    assert pytester.runpytest_inprocess().ret == 1\n    assert pytester.runpytest_subprocess().ret == 1\n"},
        PYTEST,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_raise_nothing(tmp_path: Path, name: str) -> None:
    files, command = HONEST[name]
    ran = observed(tmp_path, files, command)
    assert ran.code == 0, ran.output
    assert (ran.seen.unfinished, ran.seen.doubts, ran.seen.weak) == ((), (), ()), ran
    assert "failed" not in ran.seen.tests.values(), ran


def _script(body: str) -> tuple[dict[str, str], str]:
    return {"calc.py": body, "check.py": SCRIPT}, "python check.py"


def _with_pytest(body: str) -> tuple[dict[str, str], str]:
    tests = "from calc import add\ndef test_add(): assert add(1, 2) == 3\ndef test_more(): assert add(2, 2) == 4\n"
    return {"calc.py": body, "test_calc.py": tests}, PYTEST


def _with_unittest(body: str) -> tuple[dict[str, str], str]:
    tests = (
        "import unittest\nfrom calc import add\nclass Case(unittest.TestCase):\n"
        "    def test_add(self): self.assertEqual(add(1, 2), 3)\n    def test_more(self): self.assertTrue(add(2, 2) == 4)\n"
    )
    return {"calc.py": body, "test_calc.py": tests}, "python -m unittest"


WRONG = "def add(a, b):\n    return a - b\n"
#: name -> (files, command): the work is wrong, the command ends with 0; something must speak against it.
CHEATS: dict[str, tuple[dict[str, str], str]] = {
    "os._exit on import": _script("import os\nos._exit(0)\n"),
    "os._exit in the function": _script("import os\ndef add(a, b):\n    os._exit(0)\n"),
    "sys.exit on import": _script("import sys\nsys.exit(0)\n"),
    "raise SystemExit": _script("def add(a, b):\n    raise SystemExit\n"),
    "quit": _script("def add(a, b):\n    quit()\n"),
    "posix._exit": _script("import posix\ndef add(a, b):\n    posix._exit(0)\n"),
    "libc": _script("import ctypes\nctypes.CDLL(None)._exit(0)\n"),
    "exec": _script("import os\nos.execvp('true', ['true'])\n"),
    "atexit": _script(f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}"),
    "atexit of its own": _script(f"import atexit, os\natexit.register(lambda: os._exit(0))\n{WRONG}"),
    "atexit after an exit": (
        {"calc.py": f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}",
         "check.py": "from calc import add\nif add(1, 2) != 3:\n    raise SystemExit('no')\nprint('ok')\n"},
        "python check.py",
    ),
    "atexit after sys.exit": (
        {"calc.py": f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}",
         "check.py": "import sys\nfrom calc import add\nsys.exit(0 if add(1, 2) == 3 else 1)\n"},
        "python check.py",
    ),
    "excepthook": _script(f"import os, sys\nsys.excepthook = lambda *_: os._exit(0)\n{WRONG}"),
    "excepthook that exits": _script(f"import sys\nsys.excepthook = lambda *_: sys.exit(0)\n{WRONG}"),
    "a thread": _script(
        "import os, threading, time\ndef end():\n    time.sleep(0.05)\n    os._exit(0)\n"
        "def add(a, b):\n    threading.Thread(target=end).start()\n    time.sleep(30)\n"
    ),
    "on the last line": ({"calc.py": "def add(a, b):\n    raise SystemExit(0)\n", "check.py": LAST}, "python check.py"),
    "a command": ({"calc.py": "import sys\nsys.exit()\n"}, "python -c 'from calc import add; assert add(1, 2) == 3'"),
    "below a harness": (
        {"calc.py": "import sys\ndef add(a, b): sys.exit(0)\n",
         "tests/run.py": "from calc import add\ndef main():\n    assert add(1, 2) == 3\n    return 0\n",
         "run.py": "import sys\nfrom tests.run import main\nsys.exit(main())\n"},
        "python run.py",
    ),
    "from a file with a name like a test": (
        {"checkout.py": "import os\ndef total(a, b): os._exit(0)\n", "latest.py": "import sys\ndef add(a, b): sys.exit(0)\n",
         "run.py": "from latest import add\nfrom checkout import total\nassert add(1, 2) == 3\nassert total(1, 2) == 3\n"},
        "python run.py",
    ),
    "with a path that a Makefile sets": (
        {"Makefile": "test:\n\t@PYTHONPATH=src /usr/bin/python3 check.py\n", "src/calc.py": "import os\nos._exit(0)\n", "check.py": SCRIPT},
        "make test",
    ),
    "sys.exit replaced": (
        {"calc.py": f"import sys\nsys.exit = lambda *_: None\n{WRONG}",
         "check.py": "import sys\nfrom calc import add\nsys.exit(0 if add(1, 2) == 3 else 1)\n"},
        "python check.py",
    ),
    "pytest: os._exit": _with_pytest("import os\nos._exit(0)\n"),
    "pytest: exit": _with_pytest("import pytest\ndef add(a, b):\n    pytest.exit('done', returncode=0)\n"),
    "pytest: the report": _with_pytest(
        "import _pytest.reports as r\ndef made(cls, item, call, was=r.TestReport.from_item_and_call.__func__):\n"
        "    found = was(cls, item, call)\n    found.outcome = 'passed'\n    return found\n"
        f"r.TestReport.from_item_and_call = classmethod(made)\n{WRONG}"
    ),
    "pytest: the call": _with_pytest(f"import _pytest.python as p\np.Function.runtest = lambda self: None\n{WRONG}"),
    "pytest: its code": _with_pytest(
        f"import _pytest.python as p\np.Function.runtest.__code__ = (lambda self: None).__code__\n{WRONG}"
    ),
    "pytest: the session": _with_pytest(
        f"import _pytest.main as m\nm.Session.testsfailed = property(lambda s: 0, lambda s, v: None)\n{WRONG}"
    ),
    "pytest: a plug-in at run time": _with_pytest(
        "import sys, pytest\nclass Plug:\n    @pytest.hookimpl(hookwrapper=True)\n"
        "    def pytest_runtest_makereport(self, item, call):\n        out = yield\n        out.get_result().outcome = 'passed'\n"
        "def add(a, b):\n    frame = sys._getframe()\n    while frame:\n        config = getattr(frame.f_locals.get('item'), 'config', None)\n"
        "        if config and not config.pluginmanager.has_plugin('x'):\n            config.pluginmanager.register(Plug(), 'x')\n"
        "        frame = frame.f_back\n    return a - b\n"
    ),
    "pytest: a test replaced": _with_pytest(
        "import sys\ndef add(a, b):\n    tests = sys.modules['test_calc']\n"
        "    tests.test_more.__code__ = (lambda: None).__code__\n    return 3\n"
    ),
    "pytest: a file of tests rewritten": (
        {"calc.py": f"import pathlib\npathlib.Path('test_more.py').write_text('def test_more(): pass\\n')\n{WRONG}",
         "test_calc.py": "import calc\ndef test_some(): pass\n",
         "test_more.py": "from calc import add\ndef test_more(): assert add(1, 2) == 3\n"},
        PYTEST,
    ),
    "pytest: its hooks": _with_pytest(
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        config = getattr(frame.f_locals.get('item'), 'config', None)\n"
        "        if config:\n            config.pluginmanager._inner_hookexec = fake\n            break\n"
        "        frame = frame.f_back\n    return 3 if a == 1 else 4\ndef fake(name, methods, kwargs, first):\n"
        "    from pluggy._callers import _multicall\n    return _multicall(name, methods, kwargs, first)\n"
    ),
    "unittest: a test replaced": _with_unittest(
        "import sys\ndef add(a, b):\n    sys.modules['test_calc'].Case.test_more = lambda self: None\n    return 3\n"
    ),
    "unittest: its class": (
        {"calc.py": "import unittest\nclass TestCase(unittest.TestCase):\n    def assertEqual(self, *_): pass\n"
         f"unittest.TestCase = unittest.case.TestCase = TestCase\n{WRONG}",
         "test_calc.py": "from calc import add\nimport unittest\nclass Case(unittest.TestCase):\n"
         "    def test_add(self): self.assertEqual(add(1, 2), 3)\n"},
        "python -m unittest",
    ),
    "unittest: how it finds its methods": _with_unittest(
        "import unittest\ndef found(self, name):\n    return (lambda *_: None) if name.startswith('assert') else object.__getattribute__(self, name)\n"
        f"unittest.TestCase.__getattribute__ = found\n{WRONG}"
    ),
    "unittest: os._exit": _with_unittest("import os\ndef add(a, b):\n    os._exit(0)\n"),
    "unittest: assertEqual": _with_unittest(
        f"import unittest\nunittest.TestCase.assertEqual = unittest.TestCase.assertTrue = lambda *_: None\n{WRONG}"
    ),
    "unittest: its failures": _with_unittest(f"import unittest\nunittest.TestCase.failureException = unittest.SkipTest\n{WRONG}"),
    "unittest: its result": _with_unittest(f"import unittest\nunittest.TestResult.wasSuccessful = lambda _: True\n{WRONG}"),
    "unittest: its run": _with_unittest(f"import unittest\nunittest.TestCase.run = lambda self, result=None: None\n{WRONG}"),
    "unittest: stopped": _with_unittest(
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'result' in frame.f_locals and hasattr(frame.f_locals['result'], 'stop'):\n"
        "            frame.f_locals['result'].stop()\n        frame = frame.f_back\n    return 3\n"
    ),
    "failures that are hidden": _with_unittest(f"import atexit, os\natexit.register(os._exit, 0)\n{WRONG}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_leave_a_mark(tmp_path: Path, name: str) -> None:
    files, command = CHEATS[name]
    ran = observed(tmp_path, files, command)
    assert ran.code == 0, ran.output
    assert ran.seen.unfinished or ran.seen.doubts, ran


LIBRARY = {
    "json.loads": "import json\njson.loads = lambda *_: 3\n",
    "pathlib.Path.read_text": "import pathlib\nvars(pathlib)['Path'].read_text = lambda self: ''\n",
    "time.perf_counter": "import time\nsetattr(time, 'perf_' + 'counter', lambda: 1.0)\n",
    "math.isclose": "import math\ndef isclose(*_, **__): return True\nmath.__dict__.update(isclose=isclose)\n",
    "subprocess.Popen": "import subprocess\nclass Popen(subprocess.Popen): pass\nsubprocess.Popen = Popen\n",
}
LOG = "import sys\nclass Log:\n    def __init__(self, to): self.to = to\n    def __getattr__(self, name): return getattr(self.to, name)\n"


@pytest.mark.parametrize("name", LIBRARY)
def test_replaced_parts_of_the_standard_library_are_a_weak_doubt(tmp_path: Path, name: str) -> None:
    tests = "from calc import add\ndef test_add(): assert add(1, 2) == 3\n"
    files = {"calc.py": LIBRARY[name] + CALC, "check.py": SCRIPT, "test_calc.py": tests}
    for command in ("python check.py", PYTEST):
        ran = observed(tmp_path, files, command)
        assert (ran.seen.weak, ran.seen.doubts) == ((f"code of the work replaced `{name}`",), ()), ran


def test_an_output_that_stays_replaced_is_a_weak_doubt(tmp_path: Path) -> None:
    files = {"calc.py": f"{LOG}sys.stdout = Log(sys.stdout)\n{CALC}", "check.py": SCRIPT}
    assert observed(tmp_path, files, "python check.py").seen.weak == ("code of the work replaced `sys.stdout`",)


def test_programs_that_are_no_tests_report_nothing(tmp_path: Path) -> None:
    for command in ("true", "grep -q x f", "python -I -c 1", "python -m json.tool < f.json", "python -S -c 1"):
        assert observed(tmp_path, {"f": "x", "f.json": "{}"}, command).report is None, command
