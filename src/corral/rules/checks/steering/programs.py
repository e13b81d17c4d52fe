"""Which programs and files of the repository decide about a check, found by reading its command and its scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from posixpath import normpath

from msgspec import Struct, field, structs

from corral.rules.checks.steering.command_text import (
    INCLUDES,
    LOADS_ENV,
    RECIPES,
    is_settings,
    is_shell,
    pipelines,
    recipe_lines,
    unwrap,
    without_substitutions,
)
from corral.rules.shell.wrappers import SHELLS

DEEPEST = 6
LONGEST_SCRIPT = 50_000  #: characters of a script that are read
PYTHONS = re.compile(r"(python|pypy)[\d.]*$|coverage$")
INTERPRETERS = re.compile(
    r"(python|pypy)[\d.]*$|node$|nodejs$|ruby$|perl$|deno$|bun$|php$|lua[\d.]*$|ts-node$|tsx$|Rscript$|julia$|awk$|expect$|tclsh$|groovy$"
)
#: Options of interpreters whose next word is a value.
VALUED = frozenset({"-W", "-X", "-r", "--require", "--import", "-I", "--loader", "--experimental-loader", "-e", "-C"})
TEST_PROGRAMS = frozenset({
    "pytest", "py.test", "unittest", "nose2", "nosetests", "tox", "nox", "trial", "stestr", "behave", "ward", "doctest",
    "jest", "vitest", "mocha", "ava", "tap", "tape", "karma", "playwright", "cypress", "jasmine", "uvu",
    "rspec", "phpunit", "pest", "prove", "bats", "ctest", "busted", "shellspec", "cucumber", "dotnet", "mvn", "mvnw",
    "gradle",
    "gradlew", "sbt", "mix", "swift", "zig", "bazel", "meson", "ninja", "cargo", "go", "deno", "stack", "cabal", "lein",
})  # fmt: skip
PACKAGE_RUNNERS = frozenset({"npm", "yarn", "pnpm", "bun"})
#: Programs that fail for no reason of the work's.
NEVER_DECIDE = frozenset({
    "set", "export", "cd", "echo", "true", ":", "printf", "sleep", "mkdir", "rm", "cp", "mv", "touch", "exit",
    "unset", "ulimit",
})  # fmt: skip
#: Programs that checks are made of: an added file of that name may be found first.
COMMON_PROGRAMS = TEST_PROGRAMS | SHELLS | PACKAGE_RUNNERS | frozenset({
    "python", "python3", "node", "make", "just", "grep", "diff", "cmp", "test", "cat", "sed", "awk", "git", "env",
    "tsc", "eslint", "ruff",
    "mypy", "gcc", "cc", "g++", "ruby", "perl", "php", "java", "javac", "true", "false", "timeout", "uv", "poetry",
    "npx", "coverage",
})  # fmt: skip
MAKES = frozenset({"make", "gmake", "bmake"})
SUPPORT = re.compile(r"(?i)(^|[/_.-])(helpers?|support|env|setup|harness|activate)([_.-]|$)[^/]*$")
#: What a script loops over, or reads line by line.
CASES = re.compile(r"(?:\bfor\s+\w+\s+in|\bdone\s*<)\s+[\"']?([\w./*?-]*[\w*])[\"']?")
READS = re.compile(r"(?:\bcat|<)\s+[\"']?([\w./*?-]*[\w*])[\"']?")
MENTION = re.compile(r"[\w./-]*\w\.\w+")
#: Programs that hold one file against another.
COMPARES = frozenset({"diff", "cmp", "comm", "sdiff", "colordiff", "icdiff", "diff3", "wdiff", "vimdiff"})
ENVIRONMENT = re.compile(r"--env-file(?:-if-exists)?(?:=(.*))?$")

Read = Callable[[str], str | None]
Judges = Callable[[str, str], bool]


class CheckProgram(Struct, frozen=True):
    """A file of the repository that a check runs."""

    path: str
    check: str
    depth: int  #: 0: the check's own command names it
    sourced: bool = False  #: read by another script or makefile, or an order of it
    judged: bool = False  #: its output goes to another program, which decides
    judges: bool = False  #: it is there to judge other files; else it is product


class Target(Struct, frozen=True):
    """A target, recipe or script that a check asks for."""

    check: str
    tool: str
    folder: str
    name: str


class CheckPrograms(Struct):
    """Everything that was found in the checks' commands."""

    tools: set[str] = field(default_factory=set[str])
    files: list[CheckProgram] = field(default_factory=list[CheckProgram])
    targets: list[Target] = field(default_factory=list[Target])
    named: dict[str, set[str]] = field(
        default_factory=dict[str, set[str]]
    )  #: by check: paths that a test program is to run
    patterns: list[str] = field(default_factory=list[str])  #: of files that are included, wherever they come from
    data: list[str] = field(default_factory=list[str])  #: files and patterns that a check's script reads its cases from
    reads: list[str] = field(
        default_factory=list[str]
    )  #: other files that a check's script reads, or gives the product
    compared: list[str] = field(default_factory=list[str])  #: files that a check holds against others
    environment: list[str] = field(default_factory=list[str])  #: files that variables of a check come from
    deciding: dict[str, set[str]] = field(
        default_factory=dict[str, set[str]]
    )  #: by check: the programs whose exit code counts


class CommandContext(Struct, frozen=True):
    """Where a command is: in which check, in which folder it runs, how many scripts deep."""

    check: str
    folder: str = "."
    depth: int = 0
    script: str = "."  #: the folder of the script that is read
    judged: bool = False  #: its output goes to another program, which decides

    def inside(self, word: str) -> str:
        """Return a path as the repository knows it."""
        return word if word.startswith("/") else normpath(f"{self.folder}/{word}")

    def in_folder(self, word: str) -> CommandContext:
        return structs.replace(self, folder=self.inside(word))

    @property
    def deeper(self) -> CommandContext:
        return structs.replace(self, depth=self.depth + 1)


class CheckReader:
    """Reads commands and, through `read`, the scripts they start; remembers what it saw."""

    def __init__(self, paths: Iterable[str], read: Read, judges: Judges) -> None:
        self._paths, self._read, self._judges = frozenset(paths), read, judges
        self._folders = {str(parent) for path in self._paths for parent in PurePosixPath(path).parents}
        self.found = CheckPrograms()
        self._seen: set[str] = set()

    def check(self, command: str) -> None:
        self.found.named.setdefault(command, set())
        self.found.deciding.setdefault(command, set())
        self._text(command, CommandContext(command))

    # --- shell text

    def _text(self, text: str, at: CommandContext) -> None:
        """Read shell text: split it into commands, and follow `cd`; of a substitution only the output counts."""
        if at.depth > DEEPEST:
            return
        text, inner = without_substitutions(text[:LONGEST_SCRIPT])
        for part in inner:
            self._text(part, structs.replace(at.deeper, judged=True))
        strict = "pipefail" in text
        for stages in pipelines(text):
            for place, words in enumerate(stages):
                if words[:1] == ["cd"] and len(words) > 1:
                    at = at.in_folder(words[1])
                else:
                    judged = at.judged or (place + 1 < len(stages) and not strict)
                    self._command(words, structs.replace(at, judged=judged))

    def _command(self, words: Sequence[str], at: CommandContext) -> None:
        words = unwrap(words)
        if not words:
            return
        name, rest = PurePosixPath(words[0]).name or words[0], words[1:]
        self.found.tools.add(name)
        known = len(self.found.files)
        self._dispatch(words[0], name, rest, at)
        inner = name in SHELLS and "c" in "".join(rest[:1])
        if at.depth == 0 and not at.judged and name not in NEVER_DECIDE and not inner:
            own = {each.path for each in self.found.files[known:] if each.depth == 0 and not each.sourced}
            self.found.deciding[at.check] |= own or {f"${name}"}

    def _dispatch(self, word: str, name: str, rest: Sequence[str], at: CommandContext) -> None:
        if name in SHELLS:
            self._shell(rest, at)
        elif name in (".", "source"):
            self._file(rest[0] if rest else "", at, sourced=True)
        elif name in MAKES:
            self._make(rest, at)
        elif name in ("just", "task", "rake", "tox") or name in PACKAGE_RUNNERS:
            self._recipes("npm" if name in PACKAGE_RUNNERS else name, rest, at)
        elif INTERPRETERS.match(name):
            self._interpreter(name, rest, at)
        elif self._resolve(word, at) and ("/" in word or name not in TEST_PROGRAMS):
            self._file(word, at, given=rest)
        elif name in TEST_PROGRAMS:
            self._tests(rest, at)
        elif name in COMPARES or (name == "git" and "--no-index" in rest):
            self.found.compared += self._file_arguments(rest, at)

    def _file_arguments(self, words: Sequence[str], at: CommandContext) -> list[str]:
        """Return the files of the repository that are arguments of a command."""
        return [path for word in words if "$" not in word and (path := at.inside(word)) in self._paths]

    def _shell(self, rest: Sequence[str], at: CommandContext) -> None:
        for place, word in enumerate(rest):
            if re.fullmatch(r"-[a-zA-Z]*c", word):
                self._text("".join(rest[place + 1 : place + 2]), at)
                return
            if not word.startswith(("-", "+")):
                self._file(word, at, script=True, given=rest[place + 1 :])
                return

    def _interpreter(self, name: str, rest: Sequence[str], at: CommandContext) -> None:
        words = list(rest)
        while words:
            word = words.pop(0)
            if PYTHONS.match(name) and word.startswith("-m"):
                self._module(word[2:] or (words.pop(0) if words else ""), words, at)
                return
            if word in ("-c", "-p", "--print", "--eval") or (word == "-e" and not PYTHONS.match(name)):
                return
            if word in ("--test", "test") and name in ("node", "nodejs", "deno", "bun"):
                self.found.tools.add("node --test")
                self._tests(words, at)
                return
            if found := ENVIRONMENT.match(word):
                self.found.environment += self._file_arguments([found[1] or (words.pop(0) if words else "")], at)
            elif word in VALUED and words:
                value = words.pop(0)
                if word in ("-r", "--require", "--import", "--loader"):
                    self._file(value, at, sourced=True)
            elif not word.startswith("-") and word != "run":
                self._file(word, at, given=words)
                return

    def _module(self, module: str, words: Sequence[str], at: CommandContext) -> None:
        self.found.tools.add(module)
        if module in TEST_PROGRAMS:
            self._tests(words, at)
        elif module == "coverage" and words[:1] == ["run"]:
            self._interpreter("python", words[1:], at)
        elif module not in ("py_compile", "compileall", "json.tool", "pip", "venv", "build", "ruff", "mypy", "pyright"):
            path = module.replace(".", "/")
            for candidate in (f"{path}.py", f"{path}/__main__.py", f"src/{path}.py", f"src/{path}/__main__.py"):
                if self._resolve(candidate, at):
                    self._file(candidate, at)
                    return

    def _tests(self, words: Sequence[str], at: CommandContext) -> None:
        """Note the paths that a test program is asked to run."""
        named = self.found.named[at.check]
        for place, word in enumerate(words):
            plain = word.partition("::")[0].removesuffix("/...")
            if (
                "$" in plain
                or plain.startswith("-")
                or plain in ("", ".", "...")
                or (place == 0 and plain in ("test", "run", "check"))
            ):
                continue
            if any(sign in plain for sign in "*?["):
                pattern = at.inside(plain).replace("**/", "*")
                named |= {path for path in self._paths if fnmatchcase(path, pattern)} or {pattern}
                continue
            found = next((path for each in (plain, *_module_files(plain)) if (path := self._resolve(each, at))), None)
            if found != "." and (found or "/" in plain or "." in plain):
                named.add(found or at.inside(plain))

    # --- make and others

    def _make(self, rest: Sequence[str], at: CommandContext) -> None:
        self.found.tools.add("make")
        files: list[str] = []
        goals: list[str] = []
        words = list(rest)
        while words:
            word = words.pop(0)
            option = re.match(r"(-f|-C|--file|--makefile|--directory)(=?)(.*)", word)
            if option:
                value = option[3] or (words.pop(0) if words else "")
                if option[1] in ("-C", "--directory"):
                    at = at.in_folder(value)
                else:
                    files.append(value)
            elif not word.startswith("-") and "=" not in word and not word.isdigit():
                goals.append(word)
        self.found.targets += [Target(at.check, "make", at.folder, goal) for goal in goals or ["all"]]
        for name in files:
            self._order(at.inside(name), at)
        if not files:
            self._first_order(RECIPES["make"], at)

    def _recipes(self, tool: str, rest: Sequence[str], at: CommandContext) -> None:
        words = [word for word in rest if not word.startswith("-")]
        for place, word in enumerate(rest[:-1]):
            if word in ("--prefix", "-C", "--cwd", "--dir"):
                at = at.in_folder(rest[place + 1])
                words = [each for each in words if each != rest[place + 1]]
        if tool == "npm" and words[:1] in (["run"], ["run-script"]):
            words = words[1:]
        if tool == "npm" and words[:1] in (["exec"], ["x"], ["dlx"]):
            self._command(words[1:], at)
            return
        self.found.tools |= {tool, "npx"} if tool == "npm" else {tool}
        if tool != "tox":
            self.found.targets += [
                Target(at.check, tool, at.folder, "test" if word == "t" else word) for word in words[:1]
            ]
        self._first_order(RECIPES[tool], at)

    def _first_order(self, names: Sequence[str], at: CommandContext) -> None:
        path = next((path for name in names if (path := self._resolve(name, at))), None)
        if path:
            self._order(path, at)

    def _order(self, path: str, at: CommandContext) -> None:
        """Read a file that gives orders: a makefile, a justfile, a package.json."""
        self.found.files.append(CheckProgram(path, at.check, at.depth + 1, sourced=True, judges=True))
        if path in self._seen or at.depth > DEEPEST:
            return
        self._seen.add(path)
        text = (self._read(path) if path in self._paths else None) or ""
        for line in recipe_lines(path, text):
            self._text(line, at.deeper)
        if path.endswith((".json", ".ini", ".toml")):
            return
        for included in INCLUDES.findall(text):
            for word in (each.strip("'\"()") for each in included.replace("$(wildcard", " ").split()):
                self._include(word, at)
        if LOADS_ENV.search(text):
            self.found.files.append(CheckProgram(at.inside(".env"), at.check, at.depth + 1, sourced=True, judges=True))

    def _include(self, word: str, at: CommandContext) -> None:
        """Follow what a makefile or justfile includes, also by a pattern; what is not there yet may be added."""
        path = at.inside(word)
        if any(sign in word for sign in "*?["):
            self.found.patterns.append(path)
        elif self._resolve(word, at):
            self._order(path, at.deeper)
        elif "$" not in word:
            self.found.files.append(CheckProgram(path, at.check, at.depth + 1, sourced=True, judges=True))

    # --- files

    def _file(
        self, word: str, at: CommandContext, *, sourced: bool = False, script: bool = False, given: Sequence[str] = ()
    ) -> None:
        path = self._path(word, at)
        if path == "." or path.startswith(("/", "..", "~")):
            return
        text = self._read(path) if path in self._paths else None
        judges = not at.judged and (
            self._judges(path, text or "") or (sourced and bool(SUPPORT.search(path) or is_settings(text or "")))
        )
        self.found.files.append(
            CheckProgram(path, at.check, at.depth, sourced=sourced, judged=at.judged, judges=judges)
        )
        self.found.reads += () if judges else self._file_arguments(given, at)
        if text is None or not judges or path in self._seen:
            return
        self._seen.add(path)
        if script or sourced or is_shell(path, text):
            self.found.data += [at.inside(word) for word in CASES.findall(text) if "$" not in word]
            self.found.reads += [at.inside(word) for word in READS.findall(text)]
            self._text(text, structs.replace(at.deeper, script=str(PurePosixPath(path).parent)))
        else:
            self._mentions(text, path, at.deeper)

    def _path(self, word: str, at: CommandContext) -> str:
        """Return the path that a word means; a variable before it is most often the script's folder, or the root."""
        if word and "$" not in word and not word.startswith("_/"):
            return at.inside(word)
        rest = word.partition("/")[2]
        places = [normpath(f"{folder}/{rest}") for folder in (at.script, at.folder, ".")] if rest else []
        return next((path for path in places if path in self._paths), ".")

    def _mentions(self, text: str, path: str, at: CommandContext) -> None:
        """Follow other programs that judge, which a program names in its text."""
        for word in dict.fromkeys(MENTION.findall(text)):
            for folder in (".", str(PurePosixPath(path).parent)):
                where = self._resolve(word, structs.replace(at, folder=folder))
                if where in self._paths and where != path and at.depth <= DEEPEST and self._judges(where, ""):
                    self._file(where, structs.replace(at, folder="."))
                    break

    def _resolve(self, word: str, at: CommandContext) -> str | None:
        path = at.inside(word)
        return path if path in self._paths or path in self._folders else None


def _module_files(dotted: str) -> list[str]:
    """Return the files that a dotted name may mean: a.b.C.test -> a/b/C/test.py, a/b/C.py, a/b.py, a.py."""
    parts = dotted.split(".") if re.fullmatch(r"[\w.]+", dotted) else []
    return [f"{'/'.join(parts[:size])}{end}" for size in range(len(parts), 0, -1) for end in (".py", "")]
