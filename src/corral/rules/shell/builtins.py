"""Commands that a shell carries out itself, and what they change in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from corral.rules.shell.state import Field, State

OK: frozenset[str] = frozenset({"ok"})
FAIL: frozenset[str] = frozenset({"fail"})
EITHER = OK | FAIL
FILE_TESTS = re.compile(r"-[abcdefghknprstuwxGLNOS]")


class BuiltinEffect(Struct, frozen=True):
    """What a builtin does besides what it changes in the shell."""

    status: frozenset[str] = OK
    ends: bool = False  #: the shell ends
    returns: bool = False  #: or rather a function does
    opens: bool = False  #: a later failure may become a success
    reads: str = ""  #: a file that is run in this shell
    text: str | None = None  #: shell text to run
    here: bool = False  #: in this shell, and now
    words: tuple[Field, ...] = ()  #: a command that is started instead


Act = Callable[[Sequence[Field], State], BuiltinEffect]


def _true(_: Sequence[Field], __: State) -> BuiltinEffect:
    return BuiltinEffect()


def _false(_: Sequence[Field], __: State) -> BuiltinEffect:
    return BuiltinEffect(FAIL)


def _exit(fields: Sequence[Field], state: State) -> BuiltinEffect:
    code = fields[1] if len(fields) > 1 else None
    if code is None:
        status = frozenset("ok" if each == "ok" else "fail" for each in state.status)
    elif code.certain and code.text.isdigit():
        status = FAIL if int(code.text[-9:]) % 256 else OK
    else:
        status = EITHER
    return BuiltinEffect(status, ends=True, returns=fields[0].text == "return")


def _set(fields: Sequence[Field], state: State) -> BuiltinEffect:
    texts = [each.text for each in fields[1:]]
    for place, text in enumerate(texts):
        if text == "--":
            rest = fields[place + 2 :]
            state.arguments = ("sh", *(each.text for each in rest)) if all(each.certain for each in rest) else None
            break
        if re.fullmatch(r"[-+][a-zA-Z]*e[a-zA-Z]*", text) or (text == "errexit" and place):
            sign = texts[place - 1] if text == "errexit" else text
            state.stops = sign.startswith("-")
    return BuiltinEffect()


def _cd(fields: Sequence[Field], state: State) -> BuiltinEffect:
    targets = [each for each in fields[1:] if not re.fullmatch(r"-[LPe@]+|--", each.text)]
    state.folder = state.folder_after(targets[0] if targets else None)
    return BuiltinEffect(EITHER)


def _popd(_: Sequence[Field], state: State) -> BuiltinEffect:
    state.folder = None
    return BuiltinEffect(EITHER)


def _export(fields: Sequence[Field], state: State) -> BuiltinEffect:
    for each in fields[1:]:
        name, equals, value = each.text.partition("=")
        if equals:
            state.assign(name, value if each.certain else None)
        if fields[0].text == "export" or (each.text.startswith("-") and "x" in each.text):
            state.exported.add(name)
    return BuiltinEffect()


def _unset(fields: Sequence[Field], state: State) -> BuiltinEffect:
    """Forget variables that are unset, or read from somewhere."""
    for each in fields[1:]:
        if re.fullmatch(r"\w+", each.text):
            state.assign(each.text, None)
            state.functions.pop(each.text, None)
    return BuiltinEffect(EITHER)


def _shift(_: Sequence[Field], state: State) -> BuiltinEffect:
    state.arguments = None
    return BuiltinEffect(EITHER)


def _eval(fields: Sequence[Field], state: State) -> BuiltinEffect:
    if all(each.certain for each in fields):
        return BuiltinEffect(text=" ".join(each.text for each in fields[1:]), here=True)
    state.forget()
    return BuiltinEffect(EITHER)


def _source(fields: Sequence[Field], state: State) -> BuiltinEffect:
    if len(fields) > 1 and fields[1].certain:
        return BuiltinEffect(EITHER, reads=fields[1].text)
    state.forget()
    return BuiltinEffect(EITHER)


def _trap(fields: Sequence[Field], _: State) -> BuiltinEffect:
    handler = next((each for each in fields[1:] if not each.text.startswith("-")), None)
    ends = any(each.text in ("EXIT", "0", "ERR", "DEBUG") for each in fields[2:])
    known = handler is not None and handler.certain and len(fields) > 2
    return BuiltinEffect(
        opens=ends and (not known or "exit" in (handler.text if handler else "")),
        text=handler.text if known and handler else None,
    )


def _alias(_: Sequence[Field], state: State) -> BuiltinEffect:
    state.search = None
    return BuiltinEffect(EITHER)


def _exec(fields: Sequence[Field], _: State) -> BuiltinEffect:
    left = list(fields[1:])
    while left and left[0].text.startswith("-"):
        left = left[2 if left[0].text == "-a" else 1 :]
    return BuiltinEffect(words=tuple(left), ends=True) if left else BuiltinEffect()


def _command(fields: Sequence[Field], state: State) -> BuiltinEffect:
    if any(re.fullmatch(r"-\w*[vV]\w*", each.text) for each in fields[1:2]):
        return _look(fields, state)
    left = list(fields[1:])
    while left and left[0].text in ("-p", "--"):
        left.pop(0)
    return BuiltinEffect(words=tuple(left)) if left else BuiltinEffect()


def _look(fields: Sequence[Field], state: State) -> BuiltinEffect:
    """Note what a command looks for before it uses it."""
    state.sought |= {each.text for each in fields[1:] if each.certain}
    asks = fields[0].text not in ("[", "[[", "test") or any(FILE_TESTS.fullmatch(each.text) for each in fields[1:])
    state.sought_any = state.sought_any or (asks and any(not each.certain for each in fields[1:]))
    return BuiltinEffect(EITHER)


def _jump(_: Sequence[Field], __: State) -> BuiltinEffect:
    return BuiltinEffect(opens=True)


BUILTINS: dict[str, Act] = {
    ":": _true, "true": _true, "false": _false,
    "exit": _exit, "return": _exit, "set": _set, "cd": _cd, "pushd": _cd, "popd": _popd,
    "export": _export, "declare": _export, "typeset": _export, "local": _export, "readonly": _export,
    "unset": _unset, "read": _unset, "mapfile": _unset, "readarray": _unset, "getopts": _unset, "shift": _shift,
    "eval": _eval, ".": _source, "source": _source, "trap": _trap, "alias": _alias, "hash": _look, "exec": _exec,
    "command": _command, "builtin": _command, "[": _look, "[[": _look, "test": _look, "which": _look, "type": _look,
    "break": _jump, "continue": _jump,
}  # fmt: skip
#: Others, which may be no programs of their own.
SHELL_ONLY = frozenset(BUILTINS) | frozenset({
    "bg", "bind", "caller", "compgen", "complete", "compopt", "coproc", "dirs", "disown", "echo", "enable", "fc", "fg",
    "help", "history", "jobs", "kill", "let", "logout", "printf", "pwd", "shopt", "suspend", "time", "times", "ulimit",
    "umask", "unalias", "wait", "setopt", "autoload", "whence", "print", "in", "function",
})  # fmt: skip
