"""Programs that start another one, and where in their arguments that one is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import join

from msgspec import Struct

from corral.rules.shell.state import Field
from corral.rules.shell.words import ASSIGNMENT

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"})
INTERPRETERS = re.compile(r"(python|pypy)[\d.]*|node|nodejs|ruby|perl|deno|bun|php|lua[\d.]*|Rscript|tclsh|expect")
HARMLESS_FLAG = re.compile(r"-[uBIsSEOibv]+")
MAKES = frozenset({"make", "gmake", "bmake", "ninja"})
#: Programs that start another: their options that take a value, and how many arguments come before the program.
WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "env": (frozenset({"-u", "-C", "--unset", "--chdir"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "--class", "--classdata"}), 0),
    "chrt": (frozenset({"-T", "-P", "-D"}), 1),
    "timeout": (frozenset({"-k", "-s", "--kill-after", "--signal"}), 1),
    "xargs": (
        frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s", "--arg-file", "--delimiter", "--max-args",
                   "--max-procs", "--max-lines", "--replace", "--max-chars"}),
        0,
    ),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "unbuffer": (frozenset(), 0),
    "chronic": (frozenset(), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "flock": (frozenset({"-w", "-E", "--wait", "--timeout", "--conflict-exit-code"}), 1),
    "taskset": (frozenset(), 1),
    "setarch": (frozenset(), 1),
    "prlimit": (frozenset(), 0),
    "faketime": (frozenset({"-f"}), 1),
    "strace": (frozenset({"-e", "-o", "-s", "-p", "-E", "-u", "-a", "-b", "-I", "-O", "-P", "-S", "-U", "-X"}), 0),
    "ltrace": (frozenset({"-e", "-o", "-s", "-p", "-n", "-u", "-a", "-l", "-x", "-A", "-D", "-F"}), 0),
    "valgrind": (frozenset(), 0),
    "dbus-run-session": (frozenset({"--config-file", "--dbus-daemon"}), 0),
    "busybox": (frozenset(), 0),
    "xvfb-run": (
        frozenset({"-e", "-f", "-n", "-p", "-s", "-w", "--error-file", "--auth-file", "--server-num", "--server-args"}),
        0,
    ),
}  # fmt: skip
#: Programs that start another one in an environment of their own, by which they find it: the word before it.
RUNNERS: dict[str, tuple[str, ...]] = {
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "hatch": ("run",), "pdm": ("run",), "rye": ("run",),
    "bundle": ("exec",), "sudo": (), "npx": (), "bunx": (), "pnpx": (), "uvx": (), "doas": (), "mise": ("exec",),
    "direnv": ("exec",), "dotenv": (), "cross-env": (), "conda": ("run",),
}  # fmt: skip
RUNNER_OPTIONS = frozenset(
    {"--with", "-p", "--package", "--python", "--extra", "--group", "--from", "-m", "-c", "-n", "--name", "-u"}
)


#: Programs that make no file of their own accord.
IDLE = frozenset({
    "cat", "echo", "printf", "ls", "grep", "env", "nice", "timeout", "xargs", "sh", "bash", "dash", "find", "head",
    "tail", "sort", "wc", "diff", "cmp", "nohup", "stdbuf", "setsid", "ionice", "taskset", "flock", "sleep", "date",
    "pwd", "stat", "file", "basename", "dirname", "readlink", "realpath", "seq", "uname", "id",
})  # fmt: skip


class WrappedCommand(Struct, frozen=True):
    """What a program is asked to start."""

    words: tuple[Field, ...] = ()
    variables: tuple[str, ...] = ()  #: NAME=VALUE, for that program alone
    folder: Field | None = None  #: where it is to be started
    text: Field | None = None  #: a shell command instead
    sure: bool = True  #: it is started whenever the wrapper is, and its failure is the wrapper's
    found_here: bool = True  #: a bare name is looked for on PATH


def behind(name: str, words: Sequence[Field]) -> list[WrappedCommand]:
    """Return what a program starts of its arguments."""
    if name == "find":
        return _behind_find(words)
    if name in ("script", "su", "watch"):
        places = [at for at, each in enumerate(words[:-1]) if re.fullmatch(r"-\w*c|--command", each.text)]
        return [WrappedCommand(text=words[place + 1], sure=False) for place in places[:1]]
    if name == "parallel":
        left = [each for each in words if not each.text.startswith("-")]
        return [WrappedCommand(words=tuple(left), sure=False)]
    if name == "git" and (place := _at(words, ("bisect", "run"))) is not None:
        return [WrappedCommand(words=tuple(words[place + 2 :]), sure=False)]
    found = _behind_runner(name, words) if name in RUNNERS else None
    if name in WRAPPERS:
        found = _behind_wrapper(name, words)
    return [found] if found else []


def _at(words: Sequence[Field], wanted: tuple[str, ...]) -> int | None:
    texts = [each.text for each in words]
    return next((at for at in range(len(texts)) if tuple(texts[at : at + len(wanted)]) == wanted), None)


def _behind_wrapper(name: str, words: Sequence[Field]) -> WrappedCommand | None:
    if name == "env":
        return _behind_env(words)
    valued, arguments = WRAPPERS[name]
    left = list(words)
    sure = True
    while left and left[0].text.startswith("-"):
        option = left.pop(0).text
        if option == "--":
            break
        if option in ("--help", "--version") or (name == "taskset" and re.fullmatch(r"-[a-z]*p|--pid", option)):
            return None
        if option in valued and left:
            left.pop(0)
        sure = sure and not (name == "xargs" and re.match(r"-r|-[IJ]|-i|--no-run|--replace|-\w*r$", option))
    left = left[arguments:]
    if name == "flock" and left and left[0].text in ("-c", "--command"):
        return WrappedCommand(text=left[1] if len(left) > 1 else None)
    return WrappedCommand(words=tuple(left), sure=sure)


def _behind_env(words: Sequence[Field]) -> WrappedCommand | None:
    """Return what `env` starts, with which variables, and where."""
    left = list(words)
    variables: list[str] = []
    folder: Field | None = None
    while left and (left[0].text.startswith("-") or ASSIGNMENT.fullmatch(left[0].text)):
        option = left.pop(0).text
        if option == "--":
            break
        if not option.startswith("-"):
            variables.append(option)
        elif split := re.fullmatch(r"(?:-[a-zA-Z0]*S|--split-string)(?:=?(.+))?", option, re.DOTALL):
            text = split[1] or (left.pop(0).text if left else "")
            left = [*map(Field, text.split()), *left] if not re.search(r"[\\'\"$#]", text) else []
        elif option in WRAPPERS["env"][0] and left:
            value = left.pop(0)
            folder = value if option in ("-C", "--chdir") else folder
        elif option.startswith("--chdir="):
            folder = Field(option.partition("=")[2])
    return WrappedCommand(words=tuple(left), variables=tuple(variables), folder=folder) if left else None


def _behind_runner(name: str, words: Sequence[Field]) -> WrappedCommand | None:
    before = RUNNERS[name]
    if tuple(each.text for each in words[: len(before)]) != before:
        return None
    left = list(words[len(before) :])
    while left and (left[0].text.startswith("-") or ASSIGNMENT.fullmatch(left[0].text)):
        option = left.pop(0).text
        if option == "-m" and name == "uv":
            return None
        if option in RUNNER_OPTIONS and left:
            left.pop(0)
        if option == "--":
            break
    return WrappedCommand(words=tuple(left), found_here=name in ("sudo", "doas"))


def _behind_find(words: Sequence[Field]) -> list[WrappedCommand]:
    """Return the programs of `-exec`: there may be no file to start them for."""
    places = [at for at, each in enumerate(words) if each.text in ("-exec", "-execdir", "-ok", "-okdir")]
    return [WrappedCommand(words=_until_end(words[place + 1 :]), sure=False) for place in places]


def _until_end(words: Sequence[Field]) -> tuple[Field, ...]:
    end = next((place for place, each in enumerate(words) if each.text in (";", "+")), len(words))
    return tuple(words[:end])


def read_files(name: str, words: Sequence[Field]) -> list[Field]:
    """Return the files without which a program does nothing: a script, a makefile."""
    if name in MAKES:
        found: list[Field] = []
        folder = next((words[at + 1].text for at, each in enumerate(words[:-1]) if each.text == "-C"), "")
        for place, each in enumerate(words):
            option = re.fullmatch(r"(?:-\w*f|--file=|--makefile=)(.*)", each.text)
            if option and option[1]:
                found.append(Field(option[1], certain=each.certain))
            elif option or each.text in ("--file", "--makefile"):
                found += words[place + 1 : place + 2]
        if folder.startswith("/"):
            found = [Field(join(folder, each.text), certain=each.certain) for each in found or [Field("Makefile")]]
        return found if not folder or folder.startswith("/") else []
    if INTERPRETERS.fullmatch(name):
        left = [each for each in words if not HARMLESS_FLAG.fullmatch(each.text)]
        return [left[0]] if left and not left[0].text.startswith("-") and name not in ("deno", "bun") else []
    return []
