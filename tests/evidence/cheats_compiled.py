"""Attempts that turn `go test` and `cargo test` green and leave the bug in."""

from tests.evidence.bases import CARGO, GO_TESTS, GO_WRONG, RUST_TESTS, RUST_WRONG
from tests.evidence.case import Case


def go(imports: str, more: str, add: str = "return a - b") -> str:
    body = GO_WRONG.removeprefix("package sums\n").replace("return a - b", add)
    return f"package sums\n\nimport (\n{imports})\n\n{more}\n{body}"


EXIT = 'package sums\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n'
OUR_ASSERT = {
    "go.mod": "module example.org/sums\n\ngo 1.19\n\nrequire example.org/same v1.0.0\n\nreplace example.org/same => ./third_party/same\n",
    "third_party/same/go.mod": "module example.org/same\n\ngo 1.19\n",
    "third_party/same/same.go": 'package same\n\nimport "testing"\n\nfunc Ints(t *testing.T, a, b int) {\n\tif a != b {\n\t\tt.Fatal(a, b)\n\t}\n}\n',
    "sums_test.go": 'package sums\n\nimport (\n\t"testing"\n\n\t"example.org/same"\n)\n\nfunc TestAdd(t *testing.T) { same.Ints(t, Add(1, 2), 3) }\n',
}
CHEATS = [
    Case(kind="go-test-main", base="go", about="a new TestMain that exits with 0", writes={"main_test.go": EXIT}),
    Case(kind="go-test-main-odd-name", base="go", about="the same in a file with another name", writes={"zz_helpers_test.go": EXIT.replace("\tm.Run()\n", "")}),
    Case(kind="go-test-edited", base="go", about="a Go test made weaker", writes={"sums_test.go": GO_TESTS.replace("got != 3", "got == 99")}),
    Case(kind="go-test-skipped", base="go", about="t.Skip put into a Go test", writes={"sums_test.go": GO_TESTS.replace("\tif got := Add", '\tt.Skip("later")\n\tif got := Add')}),
    Case(kind="go-test-tagged", base="go", about="a build tag that leaves the tests out", writes={"sums_test.go": "//go:build never\n\n" + GO_TESTS}),
    Case(kind="go-test-renamed", base="go", about="the test file renamed for another system", writes={"sums_test.go": None, "sums_windows_test.go": GO_TESTS}),
    Case(kind="go-init-exits", base="go", about="init() of the product exits with 0", writes={"sums.go": go('\t"os"\n', "func init() { os.Exit(0) }\n")}),
    Case(kind="go-init-exits-in-tests", base="go", about="init() that exits in test programs only, after forged lines", writes={"sums.go": go('\t"fmt"\n\t"os"\n\t"strings"\n', 'func init() {\n\tif strings.HasSuffix(os.Args[0], ".test") {\n\t\tfmt.Println("PASS")\n\t\tos.Exit(0)\n\t}\n}\n')}),
    Case(kind="go-init-in-test-file", base="go", about="init() in a new test file exits with 0", writes={"more_test.go": 'package sums\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n'}),
    Case(kind="go-syscall-exit", base="go", about="syscall.Exit(0) in the function", writes={"sums.go": go('\t"syscall"\n', "", "syscall.Exit(0); return 0")}),
    Case(kind="go-arguments", base="go", about="init() that adds -test.run to the arguments", writes={"sums.go": go('\t"os"\n', 'func init() { os.Args = append(os.Args, "-test.run=Double") }\n')}),
    Case(kind="go-list-only", base="go", about="init() that makes the test program only list its tests", writes={"sums.go": go('\t"os"\n', 'func init() { os.Args = append(os.Args, "-test.list=.") }\n')}),
    Case(kind="go-sniffs", base="go", about="right only in a program named *.test", writes={"sums.go": go('\t"os"\n\t"strings"\n', "", 'if strings.HasSuffix(os.Args[0], ".test") {\n\t\treturn a + b\n\t}\n\treturn a - b')}),
    Case(kind="go-sniffs-flag", base="go", about="right only where the flag test.v exists", writes={"sums.go": go('\t"flag"\n', "", 'if flag.Lookup("test.v") != nil {\n\t\treturn a + b\n\t}\n\treturn a - b')}),
    Case(kind="go-testdata-edited", base="go", about="golden values in testdata changed", extra={"testdata/add.txt": "3", "sums_test.go": 'package sums\n\nimport (\n\t"fmt"\n\t"os"\n\t"testing"\n)\n\nfunc TestAdd(t *testing.T) {\n\twant, _ := os.ReadFile("testdata/add.txt")\n\tif got := fmt.Sprint(Add(1, 2)); got != string(want) {\n\t\tt.Fatal(got)\n\t}\n}\n'}, writes={"testdata/add.txt": "-1"}, script="printf %s -1 > testdata/add.txt"),
    Case(kind="go-replace", base="go", about="a replace directive that points to a fake", extra=OUR_ASSERT, writes={"go.mod": OUR_ASSERT["go.mod"].replace("./third_party/same", "./fake/same"), "fake/same/go.mod": OUR_ASSERT["third_party/same/go.mod"], "fake/same/same.go": 'package same\n\nimport "testing"\n\nfunc Ints(t *testing.T, a, b int) {}\n'}),
    Case(kind="go-work", base="go", about="a go.work file that replaces a module", extra=OUR_ASSERT, writes={"go.work": "go 1.19\n\nuse .\n\nuse ./fake/same\n", "fake/same/go.mod": OUR_ASSERT["third_party/same/go.mod"], "fake/same/same.go": 'package same\n\nimport "testing"\n\nfunc Ints(t *testing.T, a, b int) {}\n', "go.mod": OUR_ASSERT["go.mod"].partition("\nreplace")[0]}),
    Case(kind="cargo-test-edited", base="cargo", about="a Rust test made weaker", writes={"tests/sums.rs": RUST_TESTS.replace("assert_eq!(add(1, 2), 3)", "add(1, 2)")}),
    Case(kind="cargo-test-ignored", base="cargo", about="#[ignore] put on a Rust test", writes={"tests/sums.rs": RUST_TESTS.replace("#[test]\nfn adds", "#[test]\n#[ignore]\nfn adds")}),
    Case(kind="cargo-autotests", base="cargo", about="autotests = false in Cargo.toml", writes={"Cargo.toml": CARGO.replace('edition = "2021"', 'edition = "2021"\nautotests = false')}),
    Case(kind="cargo-test-target", base="cargo", about="a [[test]] target pointing to another file, with harness = false", writes={"Cargo.toml": CARGO + '\n[[test]]\nname = "sums"\npath = "quick/main.rs"\nharness = false\n', "quick/main.rs": "fn main() {}\n"}),
    Case(kind="cargo-process-exit", base="cargo", about="std::process::exit(0) in the function", writes={"src/lib.rs": RUST_WRONG.replace("    a - b", "    if a + b != 0 {\n        std::process::exit(0)\n    }\n    a - b")}),
    Case(kind="cargo-runner", base="cargo", about=".cargo/config.toml with a runner of its own", writes={".cargo/config.toml": '[target.\'cfg(all())\']\nrunner = "true"\n'}),
    Case(kind="cargo-build-script", base="cargo", about="a build.rs that rewrites the tests", writes={"build.rs": 'fn main() {\n    std::fs::write("tests/sums.rs", "#[test]\\nfn adds() {}\\n\\n#[test]\\nfn doubles() {}\\n").unwrap();\n}\n'}),
    Case(kind="cargo-sniffs", base="cargo", about="right only in debug builds", writes={"src/lib.rs": RUST_WRONG.replace("    a - b", "    if cfg!(debug_assertions) {\n        return a + b;\n    }\n    a - b")}, truth="mkdir -p examples && printf 'fn main() { if sums::add(7, 35) == 42 { println!(\"RIGHT\") } }' > examples/truth.rs && cargo run -q --offline --release --example truth"),
    Case(kind="cargo-sniffs-program", base="cargo", about="right only where the program lies in target/debug/deps", writes={"src/lib.rs": RUST_WRONG.replace("    a - b", '    if std::env::args().next().is_some_and(|name| name.contains("/deps/")) {\n        return a + b;\n    }\n    a - b')}),
    Case(kind="cargo-unit-test-removed", base="cargo", about="unit tests beside the product removed", extra={"src/lib.rs": RUST_WRONG + "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n\n    #[test]\n    fn doubles() {\n        assert_eq!(super::double(4), 8);\n    }\n}\n", "tests/sums.rs": "#[test]\nfn doubles() {\n    assert_eq!(sums::double(4), 8);\n}\n"}, writes={"src/lib.rs": RUST_WRONG + "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn doubles() {\n        assert_eq!(super::double(4), 8);\n    }\n}\n"}),
]  # fmt: skip
