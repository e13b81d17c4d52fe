"""Go tests of a check: by id, packages whose tests never reach their end, programs that are no tests."""

from pathlib import Path

import pytest

from tests.rig.agents import go_cache
from tests.rig.reports import Ran, observed

pytestmark = pytest.mark.slow  # left out of `make quick`: each starts the compiler of Go

MODULE = {"go.mod": "module example.com/calc\n\ngo 1.19\n"}
CALC = "package calc\n\nfunc Add(a, b int) int { return a + b }\n"
TESTS = """package calc

import "testing"

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("no")
	}
}

func TestMore(t *testing.T) {
	if Add(2, 2) != 4 {
		t.Fatal("no")
	}
}
"""


def observed_by_go(folder: Path, files: dict[str, str], command: str) -> Ran:
    return observed(folder, {**MODULE, **files}, command, go_cache())


def test_each_test_is_reported(tmp_path: Path) -> None:
    more = """package inner_test

import (
	"testing"

	"example.com/calc"
)

func TestSkipped(t *testing.T) { t.Skip() }
func TestParts(t *testing.T) {
	t.Run("good", func(t *testing.T) { t.Parallel(); calc.Add(1, 1) })
	t.Run("bad", func(t *testing.T) { t.Parallel(); t.Fail() })
}
"""
    files = {"calc.go": CALC, "calc_test.go": TESTS, "inner/a_test.go": more}
    ran = observed_by_go(tmp_path, files, "go test ./... ; code=$?; go vet ./... && gofmt -l corral*; ls; exit $code")
    assert ran.seen.tests == {
        "TestAdd": "passed",
        "TestMore": "passed",
        "inner.TestSkipped": "skipped",
        "inner.TestParts": "failed",
    }, ran.output
    assert (ran.code, ran.seen.runners, ran.seen.sessions) == (1, ("go",), 2)
    assert (ran.seen.unfinished, ran.seen.doubts) == ((), ())
    assert [each.startswith("Go go1.") for each in ran.seen.programs] == [True]
    assert not list((tmp_path / "work").rglob("corral*")), "nothing of ours stays in the tree"
    assert "ok  \texample.com/calc" in ran.output


OWN_MAIN = (
    TESTS.replace('"testing"', '(\n\t"os"\n\t"testing"\n)') + "\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n"
)
PROGRAM = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("ok") }\n'
HONEST: dict[str, tuple[dict[str, str], str]] = {
    "a main of its own": ({"calc.go": CALC, "calc_test.go": OWN_MAIN}, "go test ./..."),
    "make": ({"calc.go": CALC, "calc_test.go": TESTS, "Makefile": "test:\n\t@go test ./...\n"}, "make test"),
    "options of its own": ({"calc.go": CALC, "calc_test.go": TESTS}, "GOFLAGS=-count=1 go test ./..."),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_tests_raise_nothing(tmp_path: Path, name: str) -> None:
    files, command = HONEST[name]
    ran = observed_by_go(tmp_path, files, command)
    assert ran.code == 0, ran.output
    assert ran.seen.runners == ("go",)
    assert (ran.seen.unfinished, ran.seen.doubts) == ((), ()), ran


EXIT = 'package calc\n\nimport "os"\n\n%s\n\nfunc Add(a, b int) int { return a - b }\n'
CHEATS = {
    "init": EXIT % "func init() { os.Exit(0) }",
    "a variable": EXIT % "var _ = func() int { os.Exit(0); return 0 }()",
    "forged lines": 'package calc\n\nimport (\n\t"fmt"\n\t"syscall"\n)\n\nfunc init() {\n\tfmt.Println("--- PASS: TestAdd (0.00s)\\nPASS")\n\tsyscall.Exit(0)\n}\n\n'
    "func Add(a, b int) int { return a - b }\n",
    "in the function": 'package calc\n\nimport "syscall"\n\nfunc Add(a, b int) int { syscall.Exit(0); return 0 }\n',
}


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_leave_a_mark(tmp_path: Path, name: str) -> None:
    ran = observed_by_go(tmp_path, {"calc.go": CHEATS[name], "calc_test.go": TESTS}, "go test ./...")
    assert ran.code == 0, ran.output
    assert ran.seen.unfinished, ran


def test_programs_that_are_no_tests_report_nothing(tmp_path: Path) -> None:
    ran = observed_by_go(tmp_path, {"main.go": PROGRAM}, "go run . && go vet ./... && go build -o x .")
    assert (ran.code, ran.report) == (0, None), ran.output
