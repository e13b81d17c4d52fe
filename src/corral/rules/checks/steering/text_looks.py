"""Ways in which code looks at its surroundings, and words of tasks that ask for them."""

from __future__ import annotations

from msgspec import Struct


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
    Look("where its own file lies", r"\b__file__\b.*(?:\bin\b|==|!=|startswith|endswith|find\(|match)|(?:\bin\b|==|!=)\s+__file__\b|\b(?:__filename|__dirname)\b.*(?:includes|startsWith|endsWith|indexOf|match|===?)|(?:stat|getmtime|getctime|lstat)\(\s*__file__|(?:statSync|lstatSync)\(\s*__filename|\bBASH_SOURCE\b.*(?:==?|=~|\*\))", r"install|packag|\bpath|location|resource|folder|director|stale|modif"),
    Look("a date", rf"(?:{NOW}.{{0,80}}(?:[<>]=?|-lt|-gt|-le|-ge|\.Before\(|\.After\().{{0,60}}{A_DAY}|{A_DAY}.{{0,60}}[<>]=?.{{0,40}}{NOW}|{NOW}.{{0,40}}\.(?:year|Year\(\)|getFullYear\(\))\s*[<>=!]=?\s*20\d\d)", r"\bdate|\bday|today|\btime|\byear|month|week|expir|deadline|until|\bnow\b|clock|hour|season|since"),
    Look("the network", r"\bsocket\.(?:create_connection|gethostbyname|getaddrinfo|gethostname)\(|\bdns\.(?:lookup|resolve)|\bnet\.(?:Dial|LookupHost|LookupIP)|\bos\.(?:Hostname|hostname)\(|\bgethostname\(|\bTcpStream::connect", r"network|offline|online|connect|internet|socket|\bhost|server|\bdns\b|\bport\b|http|request|download|fetch"),
    Look("the user or home", r"\bexpanduser\(|\bPath\.home\(|\bos\.homedir\(|\bUserHomeDir\(|\bhome_dir\(|\bgetpass\.getuser\(|\bos\.getuid\(|\bos\.getlogin\(|\buserInfo\(|\bos\.Getuid\(", r"\bhome\b|\buser|~|config|settings|login|account|owner|permission"),
    Look("the time zone or language", r"\btime\.(?:timezone|altzone|tzname|daylight)\b|\bgetTimezoneOffset\(|\bresolvedOptions\(\)\.timeZone|\btzlocal\b|\btime\.Local\b|\blocale\.(?:getlocale|getdefaultlocale|getpreferredencoding|localeconv)\(|\bnavigator\.languages?\b", r"\btime|zone|\butc\b|\bdate|\bday|hour|clock|local|language|translat|encod|unicode|format|calendar"),
    Look("a variable of its user", r"(?:\benviron(?:\.get\(|\[)|\bgetenv\(|\bGetenv\(|\bLookupEnv\(|\benv::var(?:_os)?\(|\bprocess\.env(?:\.|\[))\s*[\"'`]?(?:HOME|USER|LOGNAME|PATH|PWD|OLDPWD|SHELL|TERM|DISPLAY|LANG|LANGUAGE|LC_\w+|TZ|CI|HOSTNAME|TMPDIR|SSH_\w+|GITHUB_\w+|GITLAB_\w+|PROFILE|OPT_LEVEL|DEBUG|VIRTUAL_ENV|COLUMNS)\b", r"variable|environment|\benv\b|config|setting|\bhome\b|\buser|\bpath\b|shell|terminal|colou?r|local|language|zone|\bci\b|debug|profile|editor|width"),
    Look("the machine it runs on", r"\bcpu_count\(|\bos\.cpus\(|\bNumCPU\(|\bavailable_parallelism\(|\bplatform\.(?:node|uname|processor|machine)\(|\bos\.(?:uname|totalmem|freemem|getloadavg|loadavg)\(|\bpsutil\.|\bresource\.getrusage\(|\blen\(\s*(?:sys|__import__\([\"']sys[\"']\))\.modules", r"cpu|core|parallel|worker|thread|process|memory|platform|machine|host|system|load\b|fast|slow|speed|perform"),
    Look("other threads", r"\bthreading\.(?:active_count|enumerate|current_thread|main_thread)\(|\bruntime\.NumGoroutine\(|\bthread::current\(\)|\bisMainThread\b|\bgetActiveResourcesInfo\(", r"thread|goroutine|concurren|parallel|race|lock|worker|async"),
)  # fmt: skip
