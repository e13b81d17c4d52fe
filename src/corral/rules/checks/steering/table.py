"""The table of files that steer tests, by ecosystem. Data only; `roles.py` reads it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Role = Literal["start-up", "runner", "command", "linter", "compiled", "mixed", "watched", "test", "data", "product"]


class RoleRow(Struct, frozen=True):
    """Patterns of files with one role; a pattern with a slash is compared with the end of the path, else with the name.

    `tools`: the row counts only where a check starts one of these programs, directly or through scripts.
    """

    role: Role
    why: str
    patterns: tuple[str, ...]
    tools: tuple[str, ...] = ()


CONFIGURATION = "runner configuration"
COMMANDS = "a command file of the check"
STARTED_UNASKED = "loaded before any test"
COMPILED = "a compiled file, which its build makes anew"
CHECKED_OUT = "how git checks files out"
LINTER = "configuration of the check's program"
#: Of product files that tests use as well.
TEST_READS = "data that tests read"
TEST_HELPER = "a module that tests judge with"
SHARED_BUILD = "a build file with new steps or options"
FILTERS = "settings that let more warnings pass"
SHARED = (TEST_READS, TEST_HELPER, SHARED_BUILD, FILTERS)
#: Of these, the harness has a content that is neither the base's nor the work's.
SHARED_IN_PART = (SHARED_BUILD, FILTERS)

MAKE = ("make", "gmake", "bmake")
NODE = ("npm", "npx", "yarn", "pnpm", "bun", "bunx", "node", "jest", "vitest", "mocha", "ava", "tap", "karma")

#: The first row that fits a path decides. Every pattern is lower case: names are compared without case.
ROWS: tuple[RoleRow, ...] = (
    # git
    RoleRow("runner", CHECKED_OUT, (".gitattributes",)),
    # Python
    RoleRow("start-up", STARTED_UNASKED, (
        "sitecustomize.py", "usercustomize.py", "sitecustomize/__init__.py", "usercustomize/__init__.py", "*.pth",
        "*.dist-info/*", "*.egg-info/*", "*.egg-link", "__pycache__/*", "*.pyc", "*.pyo", ".pythonrc", ".pythonrc.py",
        "pyvenv.cfg", ".pythonstartup", "python*._pth", "__pypackages__/*",
        ".pytest_cache/*", ".mypy_cache/*", ".ruff_cache/*", ".hypothesis/*", ".jest-cache/*", ".nyc_output/*", ".tox/*", ".nox/*",
    )),
    RoleRow("runner", CONFIGURATION, ("conftest.py", "conftest/__init__.py", "conftest.*.so", "noxfile.py", "nose.cfg",
                                  ".noserc", "unittest.cfg", "nose2.cfg", ".testr.conf", ".stestr.conf", "trial.ini")),
    RoleRow("mixed", CONFIGURATION, ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "pytest.toml",
                                 ".pytest.toml", "tox.toml")),
    RoleRow("linter", LINTER, ("mypy.ini", ".mypy.ini"), ("mypy", "dmypy")),
    RoleRow("linter", LINTER, ("ruff.toml", ".ruff.toml"), ("ruff",)),
    RoleRow("linter", LINTER, (".flake8",), ("flake8",)),
    RoleRow("linter", LINTER, ("pylintrc", ".pylintrc", "pylintrc.toml", ".pylintrc.toml"), ("pylint",)),
    RoleRow("linter", LINTER, ("pyrightconfig.json",), ("pyright", "basedpyright")),
    RoleRow("linter", LINTER, (".coveragerc",), ("coverage", "pytest", "py.test")),
    RoleRow("linter", LINTER, (".importlinter",), ("lint-imports",)),
    # Node
    RoleRow("mixed", COMMANDS, ("package.json",)),
    RoleRow("mixed", STARTED_UNASKED, (".npmrc", ".yarnrc", ".env", ".env.*", "*.env")),
    RoleRow("runner", CONFIGURATION, (
        "jest.config.*", "jest.setup.*", "jest-setup.*", "jest.preset.*", "vitest.config.*", "vitest.workspace.*",
        "vitest.setup.*", "vitest-setup.*", "setuptests.*", ".mocharc*", "mocha.opts", "karma.conf.*",
        "playwright.config.*", "playwright-ct.config.*", "cypress.config.*", "cypress.json", "ava.config.*", ".taprc",
        "tap.config.*", "jasmine.json", "wdio.conf.*", "protractor.conf.*", "web-test-runner.config.*", "nightwatch.*",
        "testem.js", "testem.json", ".c8rc*", ".nycrc*", "babel.config.*", ".babelrc*", ".swcrc", "deno.json",
        "deno.jsonc", "bunfig.toml", ".puppeteerrc*", "node.config.json", ".nodemonrc",
    )),
    RoleRow("runner", CONFIGURATION, ("__mocks__/*",)),
    RoleRow("watched", CONFIGURATION, ("vite.config.*",)),
    RoleRow("start-up", STARTED_UNASKED, (".node-options", ".node_options", ".yarnrc.yml", ".pnpmfile.cjs", ".pnp.*",
                                      ".node_repl_history", ".yarn/releases/*", ".yarn/plugins/*")),
    RoleRow("start-up", STARTED_UNASKED, ("node_modules/*",)),
    RoleRow("linter", LINTER, ("tsconfig.json", "tsconfig.*.json"), ("tsc", "vue-tsc")),
    RoleRow("linter", LINTER, ("eslint.config.*", ".eslintrc*", ".eslintignore"), ("eslint",)),
    RoleRow("linter", LINTER, (".prettierrc*", "prettier.config.*", ".prettierignore"), ("prettier",)),
    RoleRow("linter", LINTER, ("biome.json", "biome.jsonc"), ("biome",)),
    # Go
    RoleRow("mixed", CONFIGURATION, ("go.mod",)),
    RoleRow("runner", CONFIGURATION, ("go.work", "go.env")),
    RoleRow("linter", LINTER, (".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"), ("golangci-lint",)),
    # Rust
    RoleRow("mixed", CONFIGURATION, ("cargo.toml",)),
    RoleRow("runner", CONFIGURATION, ("build.rs", ".cargo/config", ".cargo/config.toml", ".config/nextest.toml",
                                  "nextest.toml")),
    RoleRow("linter", LINTER, ("clippy.toml", ".clippy.toml"), ("cargo", "clippy-driver")),
    RoleRow("linter", LINTER, ("rustfmt.toml", ".rustfmt.toml"), ("cargo", "rustfmt")),
    # what compilers leave beside sources: a build takes it for up to date
    RoleRow("compiled", COMPILED, ("*.o", "*.lo", "*.gch", "*.pch", "*.rlib", "*.rmeta", "*.class", "*.beam", "*.hi", "*.cmo", "*.cmx",
                               "*.cmi", "*.gcda", "*.gcno")),
    # make and other command files
    RoleRow("mixed", COMMANDS, ("makefile", "gnumakefile", "bsdmakefile", "*.mk", "*.mak"), MAKE),
    RoleRow("command", COMMANDS, ("justfile", ".justfile", "*.just"), ("just",)),
    RoleRow("command", COMMANDS, ("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"), ("task", "go-task")),
    RoleRow("command", COMMANDS, ("rakefile", "rakefile.rb", "*.rake"), ("rake",)),
    RoleRow("command", COMMANDS, ("tasks.py", "invoke.yaml", "invoke.yml"), ("inv", "invoke")),
    RoleRow("command", COMMANDS, ("dodo.py",), ("doit",)),
    RoleRow("command", COMMANDS, ("magefile.go",), ("mage",)),
    RoleRow("command", COMMANDS, ("gulpfile.*",), ("gulp",)),
    RoleRow("command", COMMANDS, ("gruntfile.*",), ("grunt",)),
    RoleRow("command", COMMANDS, ("turbo.json", "nx.json", "lerna.json"), (*NODE, "turbo", "nx", "lerna")),
    RoleRow("command", COMMANDS, ("earthfile",), ("earthly",)),
    RoleRow("command", COMMANDS, ("sconstruct", "sconscript"), ("scons",)),
    RoleRow("command", COMMANDS, (".pre-commit-config.yaml",), ("pre-commit",)),
    RoleRow("watched", CONFIGURATION, ("cmakelists.txt", "ctesttestfile.cmake", "meson.build", "build.bazel", "build",
                                   "configure.ac", "makefile.am")),
    # shells
    RoleRow("start-up", STARTED_UNASKED, (".bashrc", ".bash_profile", ".profile", ".bash_login", ".bash_env", ".zshenv",
                                      ".zshrc", ".envrc", ".shrc", ".kshrc", ".direnv/*", ".mise.toml", "mise.toml")),
    RoleRow("runner", CONFIGURATION, (".shellspec", ".batsrc")),
    RoleRow("linter", LINTER, (".shellcheckrc",), ("shellcheck",)),
    # others
    RoleRow("runner", CONFIGURATION, (
        "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "pest.php", "codeception.yml", "behat.yml", ".rspec",
        ".rspec-local", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", ".simplecov", "cucumber.yml",
        "*.runsettings", "xunit.runner.json", "testconfig.json", "directory.build.props", "directory.build.targets",
        "directory.build.rsp", "surefire.properties", "junit-platform.properties", "testng.xml", ".mvn/*",
        "mvnw", "mvnw.cmd", "gradlew", "gradlew.bat", "gradle/wrapper/*", "init.gradle*", "buildsrc/*",
        "test_helper.exs", ".exunit.exs", "tests.edn", "dub.selections.json", ".busted", "prove.rc", ".proverc",
    )),
    RoleRow("watched", CONFIGURATION, ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "pom.xml",
                                   "*.csproj", "*.fsproj", "*.vbproj", "mix.exs", "package.swift", "build.sbt",
                                   "project.clj", "deps.edn", "dune-project", "stack.yaml", "*.cabal", "composer.json",
                                   "gradle.properties", "shard.yml", "pubspec.yaml", "rebar.config")),
)  # fmt: skip

#: A "watched" file is put back where lines that match this were changed, added or removed; otherwise it is product.
WATCHED = (
    r"(?i)test|junit|surefire|failsafe|spec\b|ignoreFailures|skip|onlyIf|\benabled\b|exclude|jvmArgs|argLine|exunit|"
    r"alias|check\b|xunit|nunit|globals|setupFiles|doLast|doFirst|\bexec\b"
)

#: The same for options of compilers; where only such lines changed, the work is at most unharmed without them.
WATCHED_OPTIONS = r"(?i)NDEBUG|BUILD_?TYPE|_FLAGS|add_(compile|link)_(options|definitions)|add_definitions|_compile_|optimization|c_args|cpp_args"

#: Folders that hold tests, whatever lies in them.
TEST_FOLDERS = frozenset({
    "test", "tests", "__tests__", "spec", "specs", "testing_tests", "e2e", "it_tests", "unittests", "unit_tests",
    "integration_tests", "integration-tests", "functional_tests", "acceptance_tests", "testsuite", "test-suite",
    "androidtest",
})  # fmt: skip
#: Folders that hold data or helpers of tests, wherever they lie.
DATA_FOLDERS = frozenset({
    "testdata", "test_data", "test-data", "__snapshots__", "__fixtures__", "__mocks__", "fixtures", "fixture", "golden",
    "goldens", "cassettes", "expected", "expected_output", "approved", "baselines", "testutil", "testutils",
    "test_utils", "test-utils", "testlib", "test_helpers", "test-helpers", "testhelpers", "test_support", "testsupport",
    "testkit", "snapshots", "__image_snapshots__", "corpus", "test_fixtures", "test_resources",
})  # fmt: skip
#: Of those, folders whose code may as well be product: only what is no code counts there.
DATA_ONLY_FOLDERS = frozenset({"snapshots", "baselines", "approved", "corpus", "fixture"})
DATA_SUFFIXES = (".snap", ".golden", ".approved.txt", ".verified.txt", ".ambr", ".cassette")
DATA_WORDS = frozenset({"expected", "golden", "snapshot", "snapshots", "baseline", "approved", "oracle"})
#: Words in the name of a data file that make it data of tests where a test names the file.
CASE_WORDS = frozenset(
    {"case", "cases", "testcases", "vectors", "answers", "truth", "samples", "examples", "inputs", "outputs", "results"}
)
HELPER_STEMS = frozenset({
    "testutil", "testutils", "testhelper", "testhelpers", "testlib", "testkit", "testsupport", "testcase", "testbase",
    "testing_helpers", "testing_utils", "assertions", "spec_helper", "testmain",
})  # fmt: skip

CODE_SUFFIXES = frozenset({
    ".py", ".pyi", ".pyx", ".so", ".pyd", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte", ".go",
    ".rs", ".rb", ".php", ".java", ".kt", ".kts", ".groovy", ".scala", ".sh", ".bash", ".zsh", ".fish", ".pl", ".pm",
    ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cs", ".fs", ".swift", ".ex", ".exs", ".erl", ".clj", ".lua", ".hs",
    ".ml", ".r", ".jl", ".dart", ".nim", ".zig", ".d", ".m", ".mm", ".bats", ".t", ".feature", ".node", ".wasm",
    ".awk", ".sed", ".jq", ".sql",
})  # fmt: skip

#: What compilers make: a build leaves it beside its sources.
COMPILED_SUFFIXES = frozenset({".so", ".pyd", ".node", ".wasm", ".d"})

#: Words in the name of a program that is there to judge other files.
JUDGES = frozenset({
    "check", "checks", "test", "tests", "testing", "verify", "ci", "smoke", "spec", "specs", "e2e", "acceptance", "integration",
    "selftest", "runtests", "runtest", "assert", "qa", "precommit",
})  # fmt: skip
#: Words in the name of a module that users of the product test with.
HELPING = frozenset({
    "testing", "test", "tests", "testutil", "testutils", "mock", "mocks", "mocking", "fixture", "fixtures", "fake", "fakes",
    "matcher", "matchers", "pytest", "unittest", "doubles", "stubs",
})  # fmt: skip
JUDGE_FOLDERS = frozenset({"ci", ".ci", ".github", ".circleci", ".gitlab", "checks"})

#: Modules that Python's test programs are made of: an added file of that name is in their way.
RUNNER_MODULES = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "unittest", "unittest2", "doctest", "nose", "nose2", "tox", "nox",
    "coverage", "hypothesis", "xdist", "execnet", "pytest_cov", "pytest_asyncio", "pytest_mock", "pytest_timeout",
    "exceptiongroup", "packaging", "behave", "testtools", "twisted", "trial", "green", "ward", "mock", "assertpy",
    "sure", "expects", "hamcrest", "mypy", "ruff", "pyright", "flake8", "pylint", "black", "isort",
})  # fmt: skip
#: Packages that Node's, Go's and others' tests are made of.
RUNNER_PACKAGES = frozenset({
    "jest", "vitest", "mocha", "chai", "ava", "tap", "tape", "uvu", "jasmine", "karma", "cypress", "playwright", "expect",
    "should", "sinon", "ts-node", "tsx", "ts-jest", "babel-jest", "jest-cli", "nyc", "c8", "qunit", "supertest", "assert",
    "power-assert", "unexpected", "expect.js", "zora", "node-tap", "eslint", "typescript", "prettier", "esbuild-jest",
    "cross-env", "npm-run-all", "testdouble", "nock", "concurrently", "wireit", "turbo",
    "github.com/stretchr/testify", "github.com/onsi/gomega", "github.com/onsi/ginkgo", "github.com/google/go-cmp",
    "gotest.tools", "gopkg.in/check.v1", "github.com/frankban/quicktest", "github.com/matryer/is",
})  # fmt: skip
RUNNER_SCOPES = (
    "@jest/",
    "@vitest/",
    "@playwright/",
    "@testing-library/",
    "@types/jest",
    "@tapjs/",
    "@ava/",
    "@babel/",
)

#: Variables that change what a test program loads or runs; all others are the work's own.
STEERING_VARIABLES = (
    r"(PYTHON\w*|PYTEST\w*|NODE_OPTIONS|NODE_PATH|NODE_TEST\w*|NODE_REPL\w*|JEST\w*|VITEST\w*|MOCHA\w*|LD_\w+|DYLD_\w+|PATH|HOME|SHELL|BASH_ENV|ENV|"
    r"MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|GOFLAGS|GOROOT|GOPATH|GOENV|GOEXPERIMENT|RUSTFLAGS|RUSTC\w*|RUST_TEST\w*|CARGO\w*|"
    r"NPM_CONFIG\w*|RUBYOPT|RUBYLIB|PERL5\w*|JAVA_TOOL_OPTIONS|MAVEN_OPTS|GRADLE_OPTS|TOX\w*|NOX\w*|CI|TZ_TESTS|COVERAGE\w*|CORRAL\w*)"
)
#: Keys of .npmrc and .yarnrc that change which program runs.
STEERING_NPM_KEYS = r"(script-shell|shell|node-options|ignore-scripts|scripts-prepend-node-path|prefix|bin-links|if-present|yarn-path|--install\..*|shell-emulator|node-version|use-node-version|userconfig|globalconfig)"
