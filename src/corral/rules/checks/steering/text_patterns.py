"""Patterns of doubt for languages whose product code is loaded into the test program, and weak ones for all."""

from __future__ import annotations

from msgspec import Struct


class Pattern(Struct, frozen=True):
    """A pattern, what it means in words, and whether it is enough to call the work doubtful."""

    regex: str
    words: str
    strong: bool = True


USES = "uses a test program in product code"
SNIFFS = "asks whether a test program is running"
EXITS = "ends the process with success from inside product code"
PATCHES = "replaces a part of the test program"
FORGES = "prints what a test program prints"
READS = "reads or writes files of the tests"
KILLS = "ends the process that started it"
EQUAL = "compares as equal with anything"
CALLERS = "looks at its callers"
LOADS = "changes what is loaded"
ANSWERS = "gives another answer each time it is shown"
HANDLES = "changes what happens on a failure"
REOPENS = "changes a built-in type"
LENIENT = "compares with plain values in its own way"
LIBRARY = "defines a function of the standard library"


def _weak(*pairs: tuple[str, str]) -> tuple[Pattern, ...]:
    return tuple(Pattern(regex, words, strong=False) for regex, words in pairs)


#: An end that is not plainly a failure.
C_EXIT = r"(?<![\w.>])(_exit|_Exit|exit|quick_exit|exit_group)\s*\(\s*(?!EXIT_FAILURE|[1-9-])"
C = (
    Pattern(r"__attribute__\s*\(\(.*constructor.*_?[eE]xit\s*\(\s*0", EXITS),
    *_weak(
        (r"^\s*#\s*define\s+NDEBUG\b|^\s*#\s*(define|undef)\s+(assert|static_assert|main|strn?cmp|memcmp|abort|exit|_exit)\b", PATCHES),
        (r"^\s*#\s*define\s+(TEST\w*|CHECK\w*|REQUIRE\w*|EXPECT_\w+|ASSERT\w*|CU_\w+|ck_assert\w*|SUITE\w*)\b", PATCHES),
        (r"__attribute__\s*\(\(.*\b(constructor|destructor|weak|alias|ifunc)\b|\[\[gnu::(constructor|destructor|weak)", "runs or is linked without being called"),
        (r"__assert(_fail|_rtn|_func|_perror_fail)?\b|\b__wrap_\w+|\bdlsym\s*\(|LD_PRELOAD|#\s*include_next", PATCHES),
        (r"\b(signal|sigaction)\s*\(\s*SIG(ABRT|SEGV|TERM|ALRM|CHLD)|\bset_terminate\s*\(|\b(sig)?longjmp\s*\(|\batexit\s*\(|\bon_exit\s*\(", HANDLES),
        (r"\bexec(v|l)\w*\s*\(|\bsyscall\s*\(|\basm\b.*syscall", EXITS),
        (r"\boperator\s*==\s*\([^)]*\)[^{;]*\{\s*return\s+true", EQUAL),
        (r"program_invocation|__progname|/proc/self|\bbacktrace\s*\(|__builtin_return_address", SNIFFS),
        (r"\bkill\s*\(\s*getppid", KILLS),
        (r"\boperator\s*(==|!=|<=>)\s*\([^)]*\b(char|string|string_view|int|long|double|float|vector|auto|T)\b", LENIENT),
    ),
)  # fmt: skip
C_BLOCKS = _weak(
    (r"(?m)^(?!static\b)[a-z][\w \t*]*[ \t*](str\w*cmp|str\w*coll|memcmp|bcmp|strstr|strlen|strcpy|memcpy|printf|puts|abort|exit|_exit|_Exit|fabs|round|system|fprintf|perror)[ \t]*\([^;{}()]*\)\s*\{", LIBRARY),
)  # fmt: skip
PERL = (
    Pattern(r"\bPOSIX::_exit\s*\(?\s*0|\*\{?[\"']?(main|Test)::\w|^\s*END\s*\{.*\$\?\s*=\s*0", PATCHES),
    *_weak(
        (r"\b_exit\b|^\s*END\s*\{|\$\?\s*=\s*0|(?<![\w:>$-])exit\b\s*\(?\s*0?\s*\)?\s*(;|if\b|unless\b|\}|$)|\bexec\b", EXITS),
        (r"\bTest::(More|Builder|Simple|Harness|Deep)\b|\bCORE::GLOBAL\b|\*\{|\bno strict\s+['\"]refs", PATCHES),
        (r"\$SIG\{['\"]?__(DIE|WARN)__|\$SIG\{['\"]?(ALRM|TERM|CHLD)", HANDLES),
        (r"\buse overload\b", EQUAL),
        (r"\bcaller\b|\$0\b|\$PROGRAM_NAME|HARNESS_\w+", CALLERS),
        (r"print\s+[\"'](not )?ok\b|print\s+[\"']1\.\.\d", FORGES),
    ),
)  # fmt: skip
RUBY = _weak(
    (r"\bexit!|(?<![\w.])exit\b\s*(\(?\s*(0|true)?\s*\)?)\s*(if\b|unless\b|\}|;|$)|\bat_exit\b|Process\.(exit|kill)|Kernel\.exit|\bexec\b\s*[('\"]", EXITS),
    (r"\b(Minitest|RSpec|Test::Unit|Assertions|TestCase)\b|\bTracePoint\b|set_trace_func", PATCHES),
    (r"^\s*class\s+(String|Integer|Float|Array|Hash|Object|BasicObject|NilClass|Numeric|Symbol|Range|Set|Time|File|IO)\b|^\s*module\s+(Kernel|Comparable|Enumerable|JSON)\b", REOPENS),
    (r"\bcaller(_locations)?\b|\$PROGRAM_NAME|\bObjectSpace\b|\bbinding\b", CALLERS),
    (r"def\s+(==|eql\?|===)\s*\(?\s*_?\w*\s*\)?\s*(=|;)\s*true", EQUAL),
    (r"\b(class\s+\w+\s*<\s*|DelegateClass\(\s*)(String|Array|Hash|Integer|Float|Numeric|SimpleDelegator|Set|Struct)\b", LENIENT),
)  # fmt: skip
PHP = _weak(
    (r"(?<![\w>:$])(exit|die)\s*(\(\s*0?\s*\))?\s*;|register_shutdown_function|pcntl_exec", EXITS),
    (r"\bPHPUnit\b|assert_options|ini_set\(\s*['\"](zend\.)?assert|runkit|uopz_", PATCHES),
    (r"set_(exception|error)_handler", HANDLES),
    (r"debug_backtrace|\$argv\b|\$_SERVER\[['\"](argv|SCRIPT)", CALLERS),
)
LUA = _weak(
    (r"\bos\.exit\b", EXITS),
    (r"(?<![\w.:])(assert|error|print|pcall|require|describe|it|tostring|type)\s*=[^=]|function\s+(assert|error|print|pcall|require|tostring|type)\s*\(", PATCHES),
    (r"\b(_G|_ENV)\b\s*(\.|\[)|setmetatable\(\s*_G|package\.(loaded|preload|searchers|path)|(string|table|os|io|math)\.\w+\s*=[^=]", LOADS),
    (r"\bdebug\.\w+|\barg\[0\]", CALLERS),
    (r"__eq\s*=\s*function[^\n]*return\s+true", EQUAL),
)  # fmt: skip
JAVA = _weak(
    (r"setDefaultUncaughtExceptionHandler|addShutdownHook|setSecurityManager|UnhandledException", HANDLES),
    (r"getStackTrace\s*\(|\bStackWalker\b|\bStackTrace\b|getClassLoader\(\)\.getResource", CALLERS),
    (r"\.setAccessible\(\s*true|sun\.misc\.Unsafe|AssertionStatus\s*\(|System\.set(Out|Err)\s*\(|Console\.SetOut", PATCHES),
    (r"\bequals\s*\(\s*(final\s+)?(Object|Any)\??\s+?\w+\s*\)[^{]*\{\s*return\s+true|fun\s+equals\([^)]*\)[^=]*=\s*true", EQUAL),
    (r"\boperator\s*(==|!=)\s*\([^)]*\b(string|String|int|Int|double|Double|float|object)\b", LENIENT),
    (r"exitProcess\(\s*0|Environment\.(Exit|FailFast)|sys\.exit\(\s*0?\s*\)", EXITS),
)  # fmt: skip
#: Where nothing more is known of the language.
OTHER = _weak(
    (
        r"(?<![\w.>$])_?exit\s*\(?\s*0\s*\)?|\bexitSuccess\b|System\.halt|System/exit 0|\bquit\(|\bhalt\(\s*0|\bquit\s*(0\s*)?$",
        EXITS,
    ),
    (r"\bfunc\s*==\s*\([^)]*\b(String|Int|Double|Float|Any)\b|\bopEquals\s*\(", LENIENT),
)
PYTHON = (
    Pattern(r"\.f_(globals|locals|builtins)\s*\[[^\]]+\]\s*=[^=]", PATCHES),
    *_weak(
        (r"\b(_getframe|currentframe|f_back|f_globals|f_locals|co_consts|_current_frames|getouterframes|extract_stack|format_stack|walk_stack)\b|\binspect\.stack\b", CALLERS),
        (r"\bimport\s+__main__\b|modules\[['\"]__main__|import_module\(['\"]__main__", CALLERS),
        (r"\bsys\.path\.(insert|append|extend)\b|\bsys\.path(\[[^\]]*\])?\s*\+?=[^=]|addsitedir\(|\bsys\.modules\.(setdefault|update|pop|__setitem__)\b|\bsys\.modules\[(?!__name__)[^\]]+\]\s*=[^=]|\bdel sys\.modules", LOADS),
        (r"\blen\(\s*sys\.modules|\bfor\s+\w+(\s*,\s*\w+)?\s+in\s+os\.environ\b", SNIFFS),
        (r"glob\(\s*[\"'][^\"']*\.py[\"']", READS),
    ),
)  # fmt: skip
PYTHON_BLOCKS = _weak(
    (r"def __(str|repr|format|hash|len|float|int)__\([^\n]*\n(?:[ \t]+[^\n]*\n){0,3}?[ \t]+return[^\n]*\b(next\(|pop\(|\w+\.popleft\()", ANSWERS),
    (r"def __iter__\([^\n]*\n[ \t]+return iter\(\s*(\(\)|\[\]|\"\"|'')\s*\)", ANSWERS),
    (r"(?m)def __eq__\(\w+, (\w+)[^\n]*\n[ \t]+return (hash\(|\1 is not None[ \t]*$|not None|\1 == \1\b)", EQUAL),
)  # fmt: skip
JAVASCRIPT = _weak(
    (r"captureStackTrace\((?!\s*(this|error|err)\b)|prepareStackTrace|new Error\([^)]*\)\.stack|\.stack\s*\.\s*(split|match|includes|indexOf|length)|getFileName\(\)|getCallSites?\(", CALLERS),
    (r"\bthen\s*(\([^)]*\)|:\s*\([^)]*\)\s*=>|:\s*function\s*\([^)]*\))\s*\{?\s*return this", EQUAL),
    (r"\basymmetricMatch\b|jest\.asymmetricMatcher|\b(class\s+\w+|Object\.create\()\s*(extends\s+)?(String|Number|Boolean)\b|\bnew\s+(String|Number|Boolean)\(", LENIENT),
    (r"\b(JSON|Math|Object|Reflect|Date|performance|fs|util|path|console)\.\w+\s*=[^=>]|defineProperty\(\s*\w+\.prototype\s*,|\brequire\(['\"](node:)?(fs|util|path|os|child_process|perf_hooks)['\"]\)\.\w+\s*=[^=>]", REOPENS),
)  # fmt: skip
JAVASCRIPT_BLOCKS = _weak(
    (r"\b(toString|toJSON|inspect)\s*(?:\(\)|[:=]\s*(?:function\s*)?\(\)\s*(?:=>)?)\s*\{?[^{}]{0,200}(\+\+|--|\+=|-=|\.shift\(\)|\.next\(\)|\.pop\(\))", ANSWERS),
    (r"\((\w+)[^)\n]{0,80}\)\s*(?:=>|\{)[^;]{0,120}?\btry\s*\{[^}]{0,120}\b\1\([^}]{0,120}\}\s*catch[^{]{0,40}\{\s*(?:/\*[^*]{0,200}\*/|//[^\n]*)?\s*\}", "keeps failures of what it wraps to itself"),
)  # fmt: skip
GO = _weak(
    (
        r"^//go:build\s+(?:.*[^\w.])?!?(?!(?:linux|windows|darwin|unix|freebsd|netbsd|openbsd|android|ios|js|wasm|wasip1|plan9|solaris|aix|amd64|arm64|arm|386|riscv64|ppc64le|s390x|cgo|race|ignore|gc|gccgo|purego|go1)\b)[a-z_]\w*",
        "is a part of some builds only",
    ),
    (r"\bos\.(Stdout|Stderr|Stdin|Args)\b[^=\n(){}]*(?<![=!<>:])=(?!=)", REOPENS),
    (r"\bReadBuildInfo\(|\bruntime\.(Callers?|Stack|CallersFrames|FuncForPC)\(", CALLERS),
    (r"_test\.go|\bGlob\(\s*\"[^\"]*(test|\.go)", READS),
    (r"=\s*os\.Exit\b|\bC\._?[eE]xit\(|\bsyscall\.Exec\(", EXITS),
    (r"\bfunc\s*\([^)]*\)\s*Equals?\([^)]*\)\s*bool\s*\{\s*return true", EQUAL),
)
RUST = _weak(
    (
        r"\bimpl\b[^{;]*\bPartial(Eq|Ord)\s*<\s*(&\s*)*('\w+\s+)?(mut\s+)?(str|String|char|bool|[iu](8|16|32|64|128|size)|f32|f64|Vec|\[|Option|Cow|Box|[A-Z]\b)",
        LENIENT,
    ),
    (r"\b[bB]acktrace\b|thread::current\(\)|env::var(_os)?\(\s*\"(CARGO|RUST|NEXTEST)", SNIFFS),
)
RUST_BLOCKS = _weak(
    (r"fn\s+(?:eq|partial_cmp|cmp)\s*\(\s*&self\s*,\s*_?\w+\s*:[^)]{0,100}\)\s*->\s*[^{]{1,60}\{(?:(?!self)[^}]){0,300}\}", EQUAL),
)  # fmt: skip

#: What is built, with options that reach the tests as well.
CMAKE = _weak(
    (r"\bNDEBUG\b|(^|[\s\"'(])-include\b|--wrap[=,]|-D\w*(assert|str\w*cmp|memcmp|abort)\w*=|\bWILL_FAIL\b|\bCTEST_CUSTOM_", PATCHES),
)  # fmt: skip
NATIVE_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".m", ".mm")
BY_SUFFIX = {
    **dict.fromkeys(NATIVE_C, C),
    **dict.fromkeys((".pl", ".pm"), PERL),
    ".rb": RUBY,
    ".php": PHP,
    ".lua": LUA,
    **dict.fromkeys((".java", ".kt", ".cs", ".scala", ".groovy"), JAVA),
    **dict.fromkeys(
        (".tcl", ".swift", ".r", ".ex", ".exs", ".hs", ".ml", ".nim", ".zig", ".d", ".jl", ".cr", ".dart", ".erl", ".clj"),
        OTHER,
    ),
    ".py": PYTHON,
    ".go": GO,
    ".rs": RUST,
    ".cmake": CMAKE,
}  # fmt: skip
BLOCKS = {
    **dict.fromkeys(NATIVE_C, C_BLOCKS),
    ".py": PYTHON_BLOCKS,
    ".js": JAVASCRIPT_BLOCKS,
    ".rs": RUST_BLOCKS,
}
#: Sets a variable of the environment, in any language.
SETS_VARIABLE = (
    r"(?:\b[sS]etenv\(|\bputenv\(|\bset_var\(|\benviron\.setdefault\()\s*[\"']?(\w{2,})"
    r"|(?:\bENV\[|\$ENV\{|\bprocess\.env(?:\.|\[)|\benviron\[)\s*[\"']?(\w{2,})[\"']?\s*[\]}]?\s*(?:\?\?|\|\|)?=[^=>~]"
)
