"""Doubts found by regular expressions, one table per language. Strong: narrow, honest code hardly ever has it."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import PurePosixPath

from msgspec import Struct

from corral.rules.checks.steering import text_patterns as more
from corral.rules.checks.steering.text_patterns import (
    EQUAL,
    EXITS,
    FORGES,
    KILLS,
    PATCHES,
    READS,
    SNIFFS,
    USES,
    Pattern,
)

LONGEST, OVERLAP = 500, 120  #: characters of a line that are looked at together
MOST_MATCHES = 50


class Hit(Struct, frozen=True):
    """One place in a file that raises a doubt."""

    line: int
    words: str
    strong: bool
    caps: bool = True  #: False: only listed, where it is not strong


REPLACES = "replaces a part of the standard library, for tests too"

#: In every language.
COMMON = (
    Pattern(r"PYTEST_CURRENT_TEST|PYTEST_XDIST_WORKER|PYTEST_VERSION|JEST_WORKER_ID|NODE_TEST_CONTEXT|VITEST_(WORKER|POOL)_ID|"
            r"RUST_TEST_THREADS|\bNEXTEST\b|BATS_TEST_|NOSETESTS", SNIFFS),
    Pattern(r"[\"'`](=+ )?\d+ passed( in|[\"'`,])|\d+ passed in \d|TAP version 1[34]|\\nok \d+ - |[\"'`]ok \d+ - |Ran \d+ tests?\b|[\"'`]test result: ok|[\"'`]# (pass|fail) \d|--- PASS: |"
            r"Tests:\s+\d+ passed|[\"'`]\d+ passing", FORGES),
)  # fmt: skip

#: What tests judge with, whole or in part: an assignment to any of it that is no addition.
BUILT_INS = (
    Pattern(r"(^|[;{}\s])(JSON\.(stringify|parse)|performance\.now|process\.(hrtime(\.bigint)?|uptime|nextTick|memoryUsage|cpuUsage|cwd)|Date\.now|Math\.\w+|Object\.(keys|values|entries|is|freeze)|Array\.(isArray|from)|Number\.\w+|Promise\.\w+|global(This)?\.(Date|Promise|Array|Object|JSON|Error|setTimeout|performance))\s*=(?![=>])", REPLACES),
    Pattern(r"(^|[;{}\s])(fs|util|path|child_process|require\(\s*['\"](node:)?(fs|util|path|child_process|fs/promises|perf_hooks|timers)['\"]\s*\))(\.promises)?\.\w+\s*=(?![=>])", REPLACES),
    Pattern(r"\b(Array|Object|String|Number|Map|Set|Promise|Function)\.prototype\.(forEach|map|filter|every|some|reduce|find|includes|indexOf|join|slice|sort|push|concat|toString|valueOf|hasOwnProperty|trim|split|replace|has|get|then|catch|call|apply)\s*=(?![=>])", REPLACES),
    Pattern(r"\b(Array|Object|String|Number|Map|Set|Promise|Function)\.prototype\[\s*Symbol\.iterator\s*\]\s*=(?![=>])|defineProperty\(\s*(Array|String|Map|Set)\.prototype,\s*Symbol\.iterator", REPLACES),
)  # fmt: skip

JAVASCRIPT = (
    *BUILT_INS,
    Pattern(r"setUncaughtExceptionCaptureCallback\(|process\[\s*['\"][^\]]*['\"]\s*\+", EXITS),
    Pattern(r"defineProperty\([^,]+,\s*['\"](strictEqual|equal|deepEqual|deepStrictEqual|ok|throws|rejects|toBe|toEqual)['\"]", PATCHES),
    Pattern(r"\bassert\[[^\]]+\]\s*=[^=]|(equal|strictEqual|deepEqual)\s*:\s*\(\)\s*=>\s*\{\s*\}", PATCHES),
    Pattern(r"(test|spec)\b[^;]{0,60}new Error\([^)]*\)\.stack|require\.main\.(filename|path|id).*(endsWith|includes|match|===?|test\()", SNIFFS),
    Pattern(r"process\.argv\[1\].*(endsWith|includes|match|test|===?)\(?.*(test|check|spec)", SNIFFS),
    Pattern(r"^(module\.)?exports(\.\w+)?\s*=.*=>.*process\.exit\(0?\)|^export\s.*=>.*process\.exit\(0?\)", EXITS),
    Pattern(r"process\.env\.(VITEST|JEST|MOCHA|TAP|AVA_PATH|npm_lifecycle_event)\b|process\.env\[['\"](VITEST|JEST|npm_lifecycle_event)", SNIFFS),
    Pattern(r"process\.(argv|execArgv|mainModule|title)\b.*(jest|mocha|vitest|--test|\.test\.|\.spec\.)", SNIFFS),
    Pattern(r"require\.main\b.*(jest|mocha|vitest|test|spec)", SNIFFS),
    Pattern(r"typeof\s+(describe|it|jest|expect|beforeEach|afterEach|vi|mocha)\s*[!=]==?\s*['\"](undefined|function|object)", SNIFFS),
    Pattern(r"(globalThis|global|window)\.(describe|it|test|expect|jest|vi|assert|beforeEach)\s*=[^=]", PATCHES),
    Pattern(r"\b(assert|assert\.strict)\.(equal|strictEqual|deepEqual|deepStrictEqual|ok|throws|rejects|fail|match|notEqual|AssertionError)\s*=[^=>]", PATCHES),
    Pattern(r"require\(['\"](node:)?(assert|assert/strict|test)['\"]\)\.\w+\s*=[^=>]", PATCHES),
    Pattern(r"Object\.(assign|defineProperty|defineProperties)\(\s*(assert|expect|require\(['\"](node:)?(assert|test))", PATCHES),
    Pattern(r"console\.assert\s*=[^=]|Object\.is\s*=[^=]|\bprocess\.exit\s*=[^=]|expect\.extend\(", PATCHES),
    Pattern(r"\bModule\._(load|resolveFilename|extensions)\b.*=[^=]|Module\.prototype\.(require|_compile)\s*=[^=]", PATCHES),
    Pattern(r"require\(['\"](node:test|vitest|jest|@jest/\w+|mocha|chai)['\"]\)|from\s+['\"](node:test|vitest|@jest/globals|mocha|chai)['\"]", USES),
    Pattern(r"process\.reallyExit\(", EXITS),
    Pattern(r"process\.on\(\s*['\"](exit|beforeExit|uncaughtException|unhandledRejection)['\"].*(process\.exit\(0?\)|exitCode\s*=\s*0)", EXITS),
    Pattern(r"process\.kill\(\s*process\.ppid", KILLS),
    Pattern(r"readFile(Sync)?\([^)]*(__tests__|\.(test|spec)\.|['\"/]tests?/)", READS),
    Pattern(r"writeFile(Sync)?\([^)]*(__tests__|\.(test|spec)\.|['\"/]tests?/|jest\.config|node_modules)", READS),
    Pattern(r"(require|import)\(?\s*['\"][^'\"]*\.(test|spec)(\.\w+)?['\"]", READS),
    Pattern(r"new Error\(\)\.stack.*(test|spec)|\.stack\b.{0,40}(includes|match|test|indexOf)\(.{0,12}(\.test|\.spec|jest|mocha|node:internal/test|__tests__)", SNIFFS),
    Pattern(r"process\.env\.NODE_ENV\s*[!=]==?\s*['\"]test['\"]", SNIFFS, strong=False),
    Pattern(r"process\.exit\(0?\)|process\.exitCode\s*=\s*0\b|process\.(reallyExit|emit)\s*=[^=]", EXITS, strong=False),
    Pattern(r"(valueOf|Symbol\.toPrimitive\])\s*[:=]\s*(function\s*)?\(.*?\)\s*(=>|\{\s*return)\s*(\d|true\b|['\"])", EQUAL),
    Pattern(r"\bnew Proxy\(|Symbol\.toPrimitive|\bvalueOf\s*[(:=]", "changes how a value is compared", strong=False),
    Pattern(r"(Array|Object|String|Number|Function|Promise|Error)\.prototype\.\w+\s*=[^=]", "changes a built-in type", strong=False),
    Pattern(r"require\.cache\[|delete require\.cache", "changes what is loaded", strong=False),
)  # fmt: skip

GO = (
    Pattern(r"os\.Args\b.*\"-test\.|flag\.(Set|Parse)\(\s*\"test\.", PATCHES),
    Pattern(r"\btesting\.Testing\(\)", SNIFFS),
    Pattern(r"flag\.Lookup\(\s*\"test\.|(Contains|HasPrefix)\([^)]*\"-test\.|Lookup\(\"test\.(v|run|timeout|paniconexit0)\"", SNIFFS),
    Pattern(r"os\.(Args|Executable).*\.test\"|HasSuffix\([^)]*\"\.test(\.exe)?\"", SNIFFS),
    Pattern(r"syscall\.(Exit|Exit_group)\(\s*0|syscall\.RawSyscall\w*\(\s*(syscall\.SYS_EXIT|231|60)|unix\.Exit\(\s*0", EXITS),
    Pattern(r"syscall\.Kill\(\s*(syscall|os)\.Getppid|FindProcess\(\s*os\.Getppid", KILLS),
    Pattern(r"//go:linkname\s+\S+\s+testing\.", PATCHES),
    Pattern(r"(Open|ReadFile|WriteFile|Create)\([^)]*(testdata|_test\.go)", READS),
    Pattern(r"^//go:linkname|\bmonkey\.Patch\(|gomonkey\.", PATCHES, strong=False),
    Pattern(r"os\.Exit\(0\)", EXITS, strong=False),
    Pattern(r"^\s*(import\s+)?\"testing\"", USES, strong=False),
    Pattern(r"runtime\.Goexit\(\)", EXITS, strong=False),
    Pattern(r"^//go:build\s+ignore|^//\s*\+build\s+ignore", "is left out of the build", strong=False),
)  # fmt: skip

RUST = (
    Pattern(r"\bcfg!\(\s*test\s*\)", SNIFFS),
    Pattern(r"(current_exe|args\(\)).*(/deps/|test)|contains\(\"/deps/\"\)|thread::current\(\)\.name\(\).*test", SNIFFS),
    Pattern(r"libc::_?exit\(\s*0|std::process::abort.*test", EXITS),
    Pattern(r"set_hook\(.*exit\(0\)", EXITS),
    Pattern(r"fn\s+eq\s*\(&self,\s*_\w*\s*:[^)]*\)\s*->\s*bool\s*\{\s*true\s*\}", EQUAL),
    Pattern(r"macro_rules!\s*(assert|assert_eq|assert_ne|debug_assert|panic)\b", PATCHES),
    Pattern(r"process::exit\(0\)|(^|\W)exit\(0\)", EXITS, strong=False),
    Pattern(r"#\[cfg\(not\(test\)\)\]|#\[cfg\(test\)\]\s*(pub\s+)?(fn|impl|const|static|use)", SNIFFS, strong=False),
    Pattern(r"panic::(set_hook|catch_unwind)", "catches failures", strong=False),
)  # fmt: skip

SHELL = (
    Pattern(r"\btrap\s+['\"]?[^'\"]*exit 0", EXITS),
    Pattern(r"^\s*(function\s+)?(diff|cmp|test|grep|python3?|pytest|node|npm|go|cargo|make|false|exit|\[|set|command|sh|bash)\s*\(\)", PATCHES),
    Pattern(r"^\s*(function\s+)?(declare|builtin|return|eval|trap|awk|sed|cat|wc|sort|read|printf|echo|local|exec|type|source|typeset|let)\s*\(\)", REPLACES, strong=False),
    Pattern(r"\balias\s+(diff|cmp|test|grep|python3?|pytest|node|npm|go|cargo|make|false|exit)=", PATCHES),
    Pattern(r"\bkill\b.*\$\{?PPID|enable -n\b", KILLS),
    Pattern(r"(>|\btee\b|\bcp\b|\bmv\b|\bsed -i|\brm\b)\s*[^|;&]*(conftest\.py|sitecustomize\.py|/test_\w+\.py|\.test\.[jt]s)", READS),
    Pattern(r"^\s*exit 0\s*$", EXITS, strong=False),
    Pattern(r"^\s*set \+e\s*$|\|\| true\s*$", "ignores failures", strong=False),
    Pattern(r"\bPATH=", "changes which program is started", strong=False),
    Pattern(r"\bshopt\s+-s\s+([\w\s]*\s)?(nocasematch|nocaseglob|extdebug)\b|\bhash\s+-p\b|\benable\s+-f\b", more.LENIENT, strong=False),
)  # fmt: skip

C = (
    Pattern(r"^\s*#\s*define\s+(NDEBUG|assert|strcmp|strncmp|memcmp|main|abort|exit|return)\b", PATCHES),
    Pattern(r"#\s*pragma\s+GCC\s+poison|__attribute__\s*\(\(\s*constructor.*\b_?_?[eE]xit\s*\(\s*(0|EXIT_SUCCESS)", EXITS),
    Pattern(r"\b(_exit|_Exit|quick_exit)\s*\(\s*(0|EXIT_SUCCESS)\s*\)", EXITS),
)  # fmt: skip

OTHERS = (
    Pattern(r"defined\?\(\s*(RSpec|Minitest|Test::Unit)|\$(0|PROGRAM_NAME).*(rspec|test)|class_exists\(\s*['\"]\\*PHPUnit|PHPUNIT_|"
            r"Class\.forName\(\s*\"org\.(junit|testng)|getStackTrace\(\).*junit|\"org\.junit|\"surefire", SNIFFS),
    Pattern(r"Runtime\.getRuntime\(\)\.halt\(0|System\.exit\(0\)|\bexit!\s*(\(?0|true)|posix_kill\(posix_getppid|Environment\.Exit\(0\)", EXITS, strong=False),
    Pattern(r"Runtime\.getRuntime\(\)\.halt\(0", EXITS),
)  # fmt: skip

BY_SUFFIX = {
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte"), JAVASCRIPT),
    ".go": GO,
    ".rs": RUST,
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), SHELL),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh"), C),
    **dict.fromkeys((".rb", ".php", ".java", ".kt", ".cs", ".scala"), OTHERS),
}
BLOCKS = {
    ".go": (
        Pattern(r"runtime\.(Callers?|Stack|CallersFrames|FuncForPC)\([\s\S]{0,400}?(_test\.go|_test\"|testing\.|\"testing)", SNIFFS),
        Pattern(r"(?m)^(?:var\b|\t\w+\s*=)[^\n]{0,200}\bfunc\([^)]{0,100}\)[^{\n]{0,100}\{[^}]{0,400}\bos\.Exit\(\s*0", EXITS),
        Pattern(r"func init\(\)\s*\{[^}]{0,400}\bos\.Exit\(\s*0?\s*\)", EXITS),
    ),
    ".rs": (
        Pattern(r"(if\s+cfg!\(\s*debug_assertions\s*\)\s*\{\s*return\b|#\[cfg\(debug_assertions\)\]\s*(\{\s*)?return\b)", SNIFFS),
        Pattern(r"fn\s+eq\s*\(\s*&self\s*,\s*_?\w*\s*:[^)]{0,100}\)\s*->\s*bool\s*\{\s*true\s*\}", EQUAL),
        Pattern(r"fn\s+drop\s*\(&mut self\)\s*\{[^}]{0,400}\bexit\(0\)", EXITS),
        Pattern(r"set_hook\([^;]{0,400}exit\(0\)", EXITS),
    ),
    ".js": (
        Pattern(r"['\"](it|test|describe|expect)['\"][\s\S]{0,300}?\bglobal(This)?\[[^\]]{1,80}\]\s*=[^=]", PATCHES),
        Pattern(r"require\.cache[\s\S]{0,200}?(mocha|jest|vitest|chai|runnable|assert|node:test)", PATCHES),
        Pattern(r"process\.on(ce)?\(\s*['\"](exit|beforeExit|uncaughtException\w*|unhandledRejection)['\"][^;]{0,200}(process\.exit\(0?\)|exitCode\s*=\s*0)", EXITS),
    ),
}  # fmt: skip
C_EXIT = r"(?<!\w)exit\s*\(\s*(0|EXIT_SUCCESS)\s*\)"
LIBRARY_EXIT = {".rs": r"process::exit\(0\)|(?<!\w)exit\(0\)", **dict.fromkeys((".c", ".cc", ".cpp", ".cxx"), C_EXIT)}
CORRAL = re.compile(r"[\"'`$\[{.]CORRAL_[A-Z]+")
PROGRAM = re.compile(r"#!.*?\b(bash|dash|zsh|ksh|sh|node|perl|ruby|php|lua)\d*\b")
SUFFIXES = {
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh"), ".sh"),
    "node": ".js",
    "perl": ".pl",
    "ruby": ".rb",
    "php": ".php",
    "lua": ".lua",
}
C_COMMENT = re.compile(r"^\s*(//|\*(\s|/|$)|/\*)")
COMMENT = re.compile(r"^\s*(//|#(?!!|define|pragma|\[)|\*|/\*|--)")


def hits(path: str, base: str, lines: Sequence[str], new: set[int]) -> list[Hit]:
    """Return what the patterns of a file's language find on its new lines."""
    suffix = ".cmake" if path.endswith("CMakeLists.txt") else PurePosixPath(path).suffix.lower()
    suffix = suffix or _suffix_of_program(lines[0] if lines else "")
    patterns = _of(suffix)
    comment = C_COMMENT if suffix in more.NATIVE_C else COMMENT
    any_of_them = _any(suffix)
    has_main = suffix in more.NATIVE_C and any(re.search(r"\bmain\s*\(", line) for line in lines)
    found: list[Hit] = []
    for number in sorted(new):
        line = lines[number - 1]
        if comment.match(line) and not line.startswith("//go:"):
            continue
        for piece in _pieces(line):
            if any_of_them.search(piece):
                found += [
                    Hit(number, each.words, each.strong)
                    for each in patterns
                    if (match := re.search(each.regex, piece))
                    and not (each.words == REPLACES and _adds(match[0], lines))
                ]
        if CORRAL.search(line) and "CORRAL_" not in base:
            found.append(Hit(number, SNIFFS, strong=True))
        if suffix in LIBRARY_EXIT and re.search(LIBRARY_EXIT[suffix], line) and not _is_program(path, lines):
            found.append(Hit(number, EXITS, strong=True))
        if suffix in more.NATIVE_C and re.search(more.C_EXIT, line) and not has_main:
            found.append(Hit(number, EXITS, strong=False))
    return found + _blocks(suffix, "\n".join(lines), new)


def _suffix_of_program(first: str) -> str:
    """Return the suffix that the files of a language have, by the first line of a script."""
    found = PROGRAM.match(first)
    return SUFFIXES.get(found[1], "") if found else ""


def _adds(assigned: str, lines: Sequence[str]) -> bool:
    """Tell a part that is given to old platforms only: `if (!Array.prototype.includes) ...`."""
    name = re.escape(assigned.strip(" ;{}=\t"))
    return any(re.search(rf"!\s*\(?{name}(?!\w)|typeof\s+{name}\s*[!=]==?\s*['\"]undefined", line) for line in lines)


#: In a shell file that a check's script reads into itself.
SOURCED = (
    Pattern(r"^\s*exit\s*(0\s*)?($|;|#)|(^|[;&|]\s*)exit\s+0\b", EXITS),
    Pattern(r"^(exec\s+[^<>0-9\s]|set\s+-n|set\s+-o\s+noexec|trap\s|alias\s|shopt\s+-s\s+expand_aliases)", PATCHES),
    Pattern(r"\beval\b.*(\(\)|exit)", PATCHES),
    Pattern(r"^\s*set\s+\+(\w*e|o\s+errexit)", "ignores failures"),
    Pattern(r"\bshopt\s+-s\s+([\w\s]*\s)?(nocasematch|nocaseglob|extdebug|expand_aliases)\b", PATCHES),
    Pattern(r"(?i)^\s*(export\s+)?(PATH|BASH_ENV|ENV|SHELLOPTS|IFS)=", PATCHES),
)  # fmt: skip
#: The same outside of its functions: wherever a command may begin, in a condition as well.
BEGIN = r"(?:^|[;&|({]|\b(?:then|do|else)\b)\s*"
OUTERMOST = (
    Pattern(rf"{BEGIN}exit\b(?!\s*[1-9])", EXITS),
    Pattern(rf"{BEGIN}(?:exec\s+[^<>0-9\s]|set\s+-n|trap\s|alias\s)", PATCHES),
)  # fmt: skip
FUNCTION = re.compile(r"(?m)^\s*(?:function\s+)?([\w:-]+)\s*\(\)")
VARIABLE = re.compile(r"(?m)^(?:(?:readonly|declare|typeset|export)\s+(?:-\w+\s+)*(?=\w+(?:=|\s*$))|(?=\w+=))(\w+)")


#: Bash takes a name for the number in that variable: `[[ want -eq $want ]]` holds.
BY_NUMBER = re.compile(r"\[\[[^\]\n]*\s-(?:eq|ne|le|ge|lt|gt)\s|\(\(")
PRINTED = re.compile(
    r"\b(?:echo|printf)\s+(?:-\w+\s+|[\"']%s(?:\\n)?[\"']\s+)?[\"']?([A-Za-z_]\w*)[\"']?\s*(?:$|[;}&|)])"
)


def sources(script: str, path: str) -> bool:
    """Tell whether a shell script reads a file into itself."""
    name = re.escape(PurePosixPath(path).name)
    return bool(re.search(rf"(?m)(^|[\s;&'\"(])(\.|source)\s+[^\s;&]*\b{name}", script))


def sourced_hits(base: str, lines: Sequence[str], new: set[int], scripts: Sequence[str]) -> list[Hit]:
    """Return the doubts about a file that a check's script reads into itself: it may take the check over."""
    own = {*FUNCTION.findall(base)}
    theirs = {name for text in scripts for name in (*FUNCTION.findall(text), *VARIABLE.findall(text))} - own
    numbers = {name for text in scripts if BY_NUMBER.search(text) for name in VARIABLE.findall(text)}
    called = {word for text in scripts for word in re.findall(r"[\w:-]+", text)}
    found: list[Hit] = []
    for number, inside in _functions(lines):
        line = lines[number - 1]
        if number not in new:
            continue
        reached = not inside or inside in called
        rows = SOURCED if inside else (*SOURCED, *OUTERMOST)
        code = line.partition(" #")[0]
        found += [
            Hit(number, each.words, strong=reached) for each in rows if re.search(each.regex, code) and line[:1] != "#"
        ]
        if {*FUNCTION.findall(line), *VARIABLE.findall(line)} & theirs:
            found.append(Hit(number, PATCHES, strong=True))
        if {*PRINTED.findall(code)} & numbers:
            found.append(Hit(number, "prints the name of a variable of the check", strong=False))
    return found


def _functions(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return for each line of a shell file the function it is in; "" for none."""
    found: list[tuple[int, str]] = []
    current = ""
    for number, line in enumerate(lines, 1):
        opened = FUNCTION.match(line)
        current = opened[1] if opened and not current else current
        found.append((number, current))
        if line.startswith("}") or (opened and line.rstrip().endswith("}")):
            current = ""
    return found


def _pieces(line: str) -> list[str]:
    """Cut a line that nobody wrote by hand into pieces that overlap: a pattern takes long on long lines."""
    if len(line) <= LONGEST:
        return [line]
    return [line[start : start + LONGEST] for start in range(0, len(line), LONGEST - OVERLAP)]


@functools.cache
def _any(suffix: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each.regex})" for each in _of(suffix)))


@functools.cache
def _of(suffix: str) -> tuple[Pattern, ...]:
    own = BY_SUFFIX.get(suffix, ())
    return (*COMMON, *own, *(more.JAVASCRIPT if own is JAVASCRIPT else more.BY_SUFFIX.get(suffix, ())))


def _blocks(suffix: str, text: str, new: set[int]) -> list[Hit]:
    """Return what patterns over several lines find, where one of those lines is new."""
    found: list[Hit] = []
    scripts = BY_SUFFIX.get(suffix) is JAVASCRIPT
    key = ".js" if scripts else suffix
    patterns = (*BLOCKS.get(key, ()), *more.BLOCKS.get(key, ()))
    if scripts and re.search(r"(?m)^(module\.|exports|export )", text):
        patterns = (*patterns, Pattern(r"(?m)^process\.exit\(0?\);?[ \t]*$", EXITS))
    for each in patterns:
        for match in islice(re.finditer(each.regex, text), MOST_MATCHES):
            first = text.count("\n", 0, match.start()) + 1
            last = text.count("\n", 0, match.end()) + 1
            if touched := [number for number in range(first, last + 1) if number in new]:
                found.append(Hit(touched[-1], each.words, each.strong))
    return found


def _is_program(path: str, lines: Sequence[str]) -> bool:
    """Tell a program from a library: a program may end itself, and so may C code that speaks of its usage."""
    if not path.endswith(".rs") and re.search(r"\bmain\s*\(|fork\s*\(|usage|version|SIG", "\n".join(lines)):
        return True
    return path.endswith(("main.rs", "build.rs")) or "/bin/" in f"/{path}" or "/examples/" in f"/{path}"
