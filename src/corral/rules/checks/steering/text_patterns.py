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
MOCKS = "reaches into the objects that tests put in the place of others"
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
        (r"\b(reset_mock|mock_calls|method_calls|mock_add_spec|_mock_\w+|assert_(any_call|has_calls|not_called|called(_once)?(_with)?|(any_)?await\w*|not_awaited))\b", MOCKS),
    ),
)  # fmt: skip
PYTHON_BLOCKS = _weak(
    (r"def __(str|repr|format|hash|len|float|int)__\([^\n]*\n(?:[ \t]+[^\n]*\n){0,3}?[ \t]+return[^\n]*\b(next\(|pop\(|\w+\.popleft\()", ANSWERS),
    (r"def __iter__\([^\n]*\n[ \t]+return iter\(\s*(\(\)|\[\]|\"\"|'')\s*\)", ANSWERS),
    (r"(?m)def __eq__\(\w+, (\w+)[^\n]*\n[ \t]+return (hash\(|\1 is not None[ \t]*$|not None|\1 == \1\b)", EQUAL),
)  # fmt: skip
JAVASCRIPT = _weak(
    (r"captureStackTrace\((?!\s*(this|error|err)\b)|prepareStackTrace|new Error\([^)]*\)\.stack|\.stack\s*\.\s*(split|match|includes|indexOf|length)|getFileName\(\)|getCallSites?\(", CALLERS),
    (r"\.mock(Clear|Reset|Restore)\b|\.mock\.(calls|results|instances|lastCall)\b|\.(resetHistory|resetCalls|callsArg\w*|restoreAllMocks|resetAllMocks|clearAllMocks)\(", MOCKS),
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


class Look(Struct, frozen=True):
    """A way to look at the surroundings, and words of a task that ask for one."""

    what: str
    regex: str
    asked: str  #: fits a task that may well need it
    starts: bool = False  #: programs look at it where they start


#: Files by which a folder is known as a checkout, or a machine as a user's.
MARKERS = (
    r"[\"'](?:[~./]|\$HOME/)*(?:pyproject\.toml|setup\.(?:py|cfg)|package(?:-lock)?\.json|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|[Mm]akefile|"
    r"Gemfile|pom\.xml|composer\.json|tox\.ini|pytest\.ini|CMakeLists\.txt|\.git|\.github|README\.md|\.bash(?:rc|_history|_profile)|\.profile|"
    r"\.zshrc|\.ssh|\.dockerenv|etc/(?:passwd|hostname|shadow))/?[\"']"
)  # fmt: skip
BARE = MARKERS.replace(r"[\"']", r"[\"']?")
A_DAY = r"(?:\b(?:19|20)\d\d\s*[,-]\s*\d|[\"'](?:19|20)\d\d-\d\d|\b[1-9]\d{9}(?:\d{3})?\b|\b[1-9]\d{0,2}(?:_\d{3}){3,4}\b|\b\d(?:\.\d+)?e(?:9|12)\b)"
NOW = (
    r"(?:\btime\.time(?:_ns)?\(|\b(?:date|datetime)(?:\.date(?:time)?)?\.(?:today|now|utcnow)\(|\bDate\.now\(|\bnew Date\(\s*\)|\btime\.Now\(\)|"
    r"SystemTime::now|\btime\(\s*(?:NULL|0|nullptr)\s*\)|\bTime\.now\b|date \+%|\$EPOCHSECONDS|\bSystem\.currentTimeMillis\()"
)  # fmt: skip

LOOKS = (
    Look("a terminal", r"\bisatty\b|\bisTTY\b|\bis_terminal\(|\bIsTerminal\(|\.tty\?|\[\[?\s+(?:! )?-t [012]\b", r"terminal|tty\b|colou?r|\bpipe|interactive|\bansi\b|progress bar"),
    Look("its options or arguments", r"\bsys\.(?:argv|orig_argv)\b|\bprocess\.(?:argv|execArgv|argv0)\b|\bos\.Args\b|\benv::args(?:_os)?\(|\bflag\.(?:Parsed|NFlag|NArg)\(", r"argument|option|flag|command.?line|\bcli\b|parameter|\busage\b", starts=True),
    Look("how it was started", r"\b__debug__\b|\bsys\.(?:flags|executable|prefix|base_prefix|gettrace\(\)|getprofile\(\))|\bos\.Executable\(|\bcurrent_exe\(|\bprocess\.(?:execPath|ppid|title|uptime)\b|\bos\.getppid\(|\bos\.Getppid\(|\brequire\.main\b|\bcfg!\(\s*(?:not\(\s*)?(?:test|debug_assertions)\b|\bcfg\(\s*not\(\s*(?:test|debug_assertions)\b|\bBASH_SUBSHELL\b|\bFUNCNAME\b|\bSHLVL\b|\$\{?PPID\b|\bgetppid\(", r"debug|optimi[sz]|executable|frozen|start|process|shell|release|install", starts=True),
    Look("the folder it is called in", rf"\bos\.getcwd\(|\bPath\.cwd\(|\bprocess\.cwd\(|\bos\.Getwd\(|\bcurrent_dir\(|\bgetcwd\(|(?:exists?\w*|isfile|isdir|is_file|is_dir|access|accessSync|Stat|Lstat|stat|statSync|lstatSync)\??\(\s*(?:[\w.]+\()*(?:Path(?:::new)?\()?\s*{MARKERS}|Path(?:::new)?\(\s*{MARKERS}\s*\)\.(?:exists|is_file|is_dir)\(|\[\[?\s+(?:! )?-[defrs]\s+{BARE}", r"folder|director|\bcwd\b|working|\bfiles?\b|\bpath|config|settings|project|repositor|checkout|\bhome\b"),
    Look("where its own file lies", r"\b__file__\b.*(?:\bin\b|==|!=|startswith|endswith|find\(|match)|(?:\bin\b|==|!=)\s+__file__\b|\b(?:__filename|__dirname)\b.*(?:includes|startsWith|endsWith|indexOf|match|===?)|(?:stat|getmtime|getctime|lstat)\(\s*__file__|(?:statSync|lstatSync)\(\s*__filename|\b__file__\b.*\.(?:exists|is_file|is_dir|is_symlink)\(|\b(?:exists|isfile|isdir|islink)\(.*\b__file__\b|\b(?:existsSync|statSync|accessSync)\(.*\b__dirname\b|\bBASH_SOURCE\b.*(?:==?|=~|\*\))", r"install|packag|\bpath|location|resource|folder|director|stale|modif|\bfiles?\b|cache"),
    Look("the version or system it runs on", r"\bsys\.(?:version_info|hexversion|platform|implementation|maxsize)\b|\bplatform\.(?:python_version\w*|system|release|platform|version)\(|\bos\.name\b|\bprocess\.(?:version|versions|platform|arch)\b|\bruntime\.(?:Version\(\)|GOOS|GOARCH)\b|\bos\.(?:platform|release|arch)\(\)|\bRUBY_VERSION\b|\bPHP_VERSION\b|\bBASH_VERSINFO\b|\$OSTYPE\b", r"version|python ?\d|\bnode ?\d|platform|windows|linux|\bmac|darwin|posix|compat|\bos\b|portab|upgrad|system|support", starts=True),
    Look("the temporary folder", r"\bgettempdir\w*\(|\bos\.tmpdir\(|\bos\.TempDir\(|\benv::temp_dir\(|startswith\(\s*[\"'(]*/(?:var/)?tmp\b|startsWith\(\s*['\"]/(?:var/)?tmp\b|HasPrefix\([^)]*\"/(?:var/)?tmp\b|==?\s*/tmp/\*", r"\btemp|\btmp|scratch|cache"),
    Look("the state of the memory", r"\bgc\.(?:get_count|get_stats|get_threshold|isenabled|get_freeze_count)\(|\btracemalloc\.is_tracing\(|\bsys\.(?:getallocatedblocks|getrefcount|_debugmallocstats)\(|\bmemoryUsage\(|\bReadMemStats\(|\bgetHeapStatistics\(", r"memory|garbage|\bgc\b|leak|collect|alloc|heap"),
    Look("what else is loaded", r"\brequire\.cache\b|\bmodule\.(?:parent|children|paths)\b|\bprocess\.(?:moduleLoadList|_getActive\w+|mainModule)\b|\bprocess\.binding\(|\bsys\.(?:modules|meta_path|path_hooks|path_importer_cache)\b(?!\[__name__\])|\bpkgutil\.iter_modules\(|\bsys\.(?:displayhook|breakpointhook)\b", r"load|import|require|cache|module|plugin|packag|optional|depend"),
    Look("a date", rf"(?:{NOW}.{{0,80}}(?:[<>]=?|-lt|-gt|-le|-ge|\.Before\(|\.After\().{{0,60}}{A_DAY}|{A_DAY}.{{0,60}}[<>]=?.{{0,40}}{NOW}|{NOW}.{{0,40}}\.(?:year|Year\(\)|getFullYear\(\))\s*[<>=!]=?\s*20\d\d)", r"\bdate|\bday|today|\btime|\byear|month|week|expir|deadline|until|\bnow\b|clock|hour|season|since"),
    Look("the network", r"\bsocket\.(?:create_connection|gethostbyname|getaddrinfo|gethostname)\(|\bdns\.(?:lookup|resolve)|\bnet\.(?:Dial|LookupHost|LookupIP)|\bos\.(?:Hostname|hostname)\(|\bgethostname\(|\bTcpStream::connect", r"network|offline|online|connect|internet|socket|\bhost|server|\bdns\b|\bport\b|http|request|download|fetch"),
    Look("the user or home", r"\bexpanduser\(|\bPath\.home\(|\bos\.homedir\(|\bUserHomeDir\(|\bhome_dir\(|\bgetpass\.getuser\(|\bos\.getuid\(|\bos\.getlogin\(|\buserInfo\(|\bos\.Getuid\(", r"\bhome\b|\buser|~|config|settings|login|account|owner|permission"),
    Look("the time zone or language", r"\btime\.(?:timezone|altzone|tzname|daylight)\b|\bgetTimezoneOffset\(|\bresolvedOptions\(\)\.timeZone|\btzlocal\b|\btime\.Local\b|\blocale\.(?:getlocale|getdefaultlocale|getpreferredencoding|localeconv)\(|\bnavigator\.languages?\b", r"\btime|zone|\butc\b|\bdate|\bday|hour|clock|local|language|translat|encod|unicode|format|calendar"),
    Look("a variable of its user", r"(?:\benviron(?:\.get\(|\[)|\bgetenv\(|\bGetenv\(|\bLookupEnv\(|\benv::var(?:_os)?\(|\bprocess\.env(?:\.|\[))\s*[\"'`]?(?:HOME|USER|LOGNAME|PATH|PWD|OLDPWD|SHELL|TERM|DISPLAY|LANG|LANGUAGE|LC_\w+|TZ|CI|HOSTNAME|TMPDIR|SSH_\w+|GITHUB_\w+|GITLAB_\w+|PROFILE|OPT_LEVEL|DEBUG|VIRTUAL_ENV|COLUMNS)\b", r"variable|environment|\benv\b|config|setting|\bhome\b|\buser|\bpath\b|shell|terminal|colou?r|local|language|zone|\bci\b|debug|profile|editor|width"),
    Look("the machine it runs on", r"\bcpu_count\(|\bos\.cpus\(|\bNumCPU\(|\bavailable_parallelism\(|\bplatform\.(?:node|uname|processor|machine)\(|\bos\.(?:uname|totalmem|freemem|getloadavg|loadavg)\(|\bpsutil\.|\bresource\.getrusage\(|\blen\(\s*(?:sys|__import__\([\"']sys[\"']\))\.modules", r"cpu|core|parallel|worker|thread|process|memory|platform|machine|host|system|load\b|fast|slow|speed|perform"),
    Look("other threads", r"\bthreading\.(?:active_count|enumerate|current_thread|main_thread)\(|\bruntime\.NumGoroutine\(|\bthread::current\(\)|\bisMainThread\b|\bgetActiveResourcesInfo\(", r"thread|goroutine|concurren|parallel|race|lock|worker|async"),
)  # fmt: skip


#: Endings of files by language.
OF_PYTHON, OF_GO, OF_RUST = (".py",), (".go",), (".rs",)
OF_NODE = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
OF_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx")
SHARED = "changes the state of the whole program, for tests too"
UNREADABLE = "decodes a text that nobody can read"
PARENT = "looks at the process that started it"
SHOWN = "looks other when it is shown as a text"
NO_NUMBER = "gives a number that is neither more, less nor the same"


class UnaskedLine(Struct, frozen=True):
    """A pattern for lines of some languages, what it means, and words of a task that may well need it."""

    words: str
    regex: str
    asked: str
    suffixes: tuple[str, ...] = ()  #: empty: in every language
    strong: bool = False
    starts: bool = False  #: programs do it where they start, and rightly
    anew: bool = False  #: it says nothing of a file that did so before


ENCODED = r"[A-Za-z0-9+/=_$!#%&()*<>?@^`{|}~;-]{24,}"
STATE_ASKED = r"\bseed|reproduc|determinis|decimal context|getcontext|locale|garbage|\bgc\b|umask|timeout|signal|global state|start method"
UNASKED = (
    UnaskedLine(SHARED, r"\bsys\.(?:setswitchinterval|setrecursionlimit|set_int_max_str_digits|setcheckinterval)\(", r"recursion limit|switch interval|digits limit|setrecursion", OF_PYTHON, starts=True),
    UnaskedLine(SHARED, r"^(?:\w+\.)*(?:random\.seed|manual_seed|set_seed)\(|^(?:decimal\.)?(?:getcontext\(\)\.\w+\s*=[^=]|setcontext\(|DefaultContext\.\w+\s*=[^=])|"
                r"^(?:locale\.setlocale|time\.tzset|gc\.(?:disable|freeze|set_threshold)|socket\.setdefaulttimeout|threading\.stack_size|faulthandler\.\w+|signal\.(?:signal|alarm)|resource\.setrlimit|"
                r"np\.seterr|numpy\.seterr|mp\.set_start_method|multiprocessing\.set_start_method|os\.(?:umask|chdir|nice))\(", STATE_ASKED, OF_PYTHON),
    UnaskedLine(SHARED, r"^(?:Error\.stackTraceLimit\s*=|events?\.(?:EventEmitter\.)?defaultMaxListeners\s*=|process\.(?:chdir|umask)\(|v8\.setFlagsFromString\()", STATE_ASKED + r"|listener|stack", OF_NODE),
    UnaskedLine(SHARED, r"\bdebug\.Set(?:MaxStack|GCPercent|MaxThreads|PanicOnFault)\(|\bruntime\.GOMAXPROCS\(\s*[1-9]|\brand\.Seed\(\s*\d", STATE_ASKED + r"|stack|parallel|core", OF_GO),
    UnaskedLine(UNREADABLE, rf"(?:b64decode|b85decode|a85decode|b32decode|b16decode|unhexlify|fromhex|decompress|loads|decode)\(\s*(?:[\w.]+\(\s*)*[rb]*[\"']{ENCODED}[\"']", r"base\d\d|encod|decod|hex|compress|icon|image|binar|certificate|\bkey\b|token|embed", OF_PYTHON),
    UnaskedLine(UNREADABLE, rf"(?:Buffer\.from|atob)\(\s*[\"'`]{ENCODED}[\"'`]", r"base\d\d|encod|decod|hex|compress|icon|image|binar|certificate|\bkey\b|token|embed", OF_NODE),
    UnaskedLine(UNREADABLE, rf"\bDecode(?:String)?\(\s*(?:\[\]byte\()?[\"`]{ENCODED}[\"`]", r"base\d\d|encod|decod|hex|compress|icon|image|binar|certificate|\bkey\b|token|embed", OF_GO),
    UnaskedLine(UNREADABLE, rf"{ENCODED}.*\|\s*(?:base64\s+(?:-d|--decode|-D)|xxd\s+-r|gunzip|gzip\s+-d|zcat|openssl\s+enc)", r"base\d\d|encod|decod|hex|compress|icon|image|binar", (".sh", ".bash", "")),
    UnaskedLine(PARENT, r"/proc/(?:%|\{|\$|[\"'`]|\d)|/proc/(?:self|thread-self)/(?:cmdline|environ|stat|status|exe)\b|\bgetppid\b|\bGetppid\b|\$\{?PPID\b|\bprocess\.ppid\b|\bparent_id\(\)|\bpsutil\.(?:Process|process_iter)\(", r"process|parent|\bppid\b|/proc|daemon|child|\bpid\b|signal|memory|orphan", anew=True),
    UnaskedLine(CALLERS, r"^\s*#\s*define\s+(?!\w*(?i:log|print|err|warn|assert|trace|debug|abort|panic|fail|check|throw|die|bug|alloc|free|msg|unique|concat))\w+\(.*\b(?:__FILE__|__BASE_FILE__|__LINE__|__func__|__FUNCTION__|__INCLUDE_LEVEL__|__TIMESTAMP__|__builtin_(?:FILE|LINE|FUNCTION))\b", r"\blog|diagnos|messag|report|location|trace|debug", OF_C),
    UnaskedLine(CALLERS, r"\bsource_location::current\(|\b#\[track_caller\]|\bLocation::caller\(", r"\blog|diagnos|messag|report|location|trace|debug|panic", (*OF_C, *OF_RUST)),
    UnaskedLine(LENIENT, r"\b(?:field|attrib|ib)\(.*\b(?:compare|eq)\s*=\s*False|@(?:dataclass|dataclasses\.dataclass|attr\.s|define|frozen)\(.*\beq\s*=\s*False", r"compar|equal|\beq\b|differ|ident|hash|sort|order", OF_PYTHON),
    UnaskedLine(NO_NUMBER, r"float\(\s*[\"'][+-]?nan[\"']|\b(?:math|np|numpy|cmath)\.(?:nan|NaN)\b|\b(?:Number\.)?NaN\b(?!\()|\bmath\.NaN\(|\bf(?:32|64)::NAN\b", r"\bnan\b|not a number|missing|empty|invalid|undefined|unknown|zero|divi|parse|absent|\bno (?:value|data)", anew=True),
    UnaskedLine(SHOWN, r"\btoJSON\s*(?:\(|[:=]\s*(?:async\s*)?(?:function|\())|\[\s*(?:util\.inspect\.custom|Symbol\.for\(\s*['\"]nodejs\.util\.inspect\.custom)", r"json|serial|stringif|inspect|print|display|shown?\b|output|log", OF_NODE),
    UnaskedLine(LENIENT, r"^func\s*\([^)]*\)\s*(?:Is|As)\(\s*\w+\s+(?:error|any|interface\s*\{\s*\})\s*\)\s*bool\b", r"errors\.(?:is|as)\b|compar|equal|wrap", OF_GO),
    UnaskedLine(SHOWN, r"\benumerable\s*:\s*(?:false|!1)\b|\bObject\.defineProperty\((?!\s*(?:module\.)?exports\b)(?!.*(?:\benumerable\b|\bget\b|\.prototype|(?<!\w)(?:fn|func|error|err)\s*,))", r"enumerable|hidden|hide|internal|private|serial|read.?only|immutab|constant|freez", OF_NODE),
    UnaskedLine(READS, r"^//go:embed\s+.*(?:\btestdata\b|_test\.|\bfixtures?\b|\bgolden\b|(?<!\w)tests?/)", r"testdata|golden|fixture", OF_GO, strong=True),
    UnaskedLine(READS, r"\binclude_(?:str|bytes)!\(.*(?:\btests?/|\btestdata\b|\bfixtures?/|\bgolden\b|\bsnapshots?/)", r"testdata|golden|fixture|tests/", OF_RUST),
    UnaskedLine(READS, r"(?:require\(|\bfrom|\bimport\(?)\s*['\"][^'\"]*(?:__tests__|__fixtures__|__snapshots__|/testdata|(?<=/)tests?)/", r"testdata|golden|fixture|tests?/", OF_NODE),
    UnaskedLine("gives orders to the program that reads it", r"^\s*\.(?:shell|system|read|output|once|exit|quit|bail|import|open|mode|print|log|excel|nullvalue|headers?|separator|width|dump|echo|load|restore|stop|trace)\b|^\s*\\(?:!|i|ir|o|q|pset|set|unset|echo|copy|gexec|if)\b", r"sqlite command|psql|shell", (".sql",)),
)  # fmt: skip
