"""The programs that a shell command is sure to start, found without a shell; nothing where that cannot be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

OPERATORS = ("&&", "||", ";;", "|&", ">>", "<<", ">&", "<&", "&>", "<>", ">|", ";", "&", "|", "(", ")", "<", ">", "\n")
REDIRECTIONS = frozenset({">>", ">&", "<&", "&>", "<>", ">|", "<", ">"})
SEPARATORS = frozenset({";", "&", "\n"})
#: Where these stand it depends on more than the words what is started.
UNCERTAIN = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function"}
)
#: What looks whether something is there before it is used.
GUARDS = frozenset({"[", "[[", "test", "which", "type", "hash", "!"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
INTERPRETERS = re.compile(r"(python|pypy)[\d.]*|node|ruby|perl|deno|bun|php|lua")
HARMLESS_FLAG = re.compile(r"-[uBIsSEOibv]+")
#: Programs that start another: their options that take a value, and how many arguments come before the program.
WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    "env": (frozenset({"-u", "-C", "--unset", "--chdir"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "--class", "--classdata"}), 0),
    "timeout": (frozenset({"-k", "-s", "--kill-after", "--signal"}), 1),
    "xargs": (frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "command": (frozenset(), 0),
}
DEEPEST = 5


class Token(Struct, frozen=True):
    """A word without its quotes, or an operator."""

    text: str
    operator: bool = False
    certain: bool = True  #: what it becomes is known: no variable but HOME, no pattern, no command in it


class Start(Struct, frozen=True):
    """Something that a command starts or runs, as it names it."""

    word: str
    program: bool = True  #: or a script that another program reads


def starts(text: str, depth: int = 0) -> list[Start]:
    """Return what is started whenever the command succeeds, in order; [] where the text is too clever to tell."""
    tokens = tokenize(text) if depth < DEEPEST else None
    if tokens is None or any(not each.operator and each.text in UNCERTAIN for each in tokens):
        return []
    found: list[Start] = []
    lists = _split(tokens, SEPARATORS)
    last = lists[-1] if lists else []
    for each in lists:
        # The outcome of what stands before a `;` does not matter, but for the settings it makes.
        if each is last and not any(token.operator and token.text == "||" for token in each):
            found += _and_list(each, depth)
    return found


def of_words(words: Sequence[str], depth: int = 0) -> list[Start]:
    """Return what a command of separate words starts: its program, and what that one starts in turn."""
    return _command([Token(word) for word in words], depth)


def tokenize(text: str) -> list[Token] | None:
    """Split a command as a shell does; None where a part of it is itself a command, or a quote is left open."""
    if "`" in text or "$(" in text or "<<" in text or "<(" in text:
        return None
    tokens: list[Token] = []
    word: str | None = None
    certain, place = True, 0
    while place < len(text):
        sign = text[place]
        operator = next((each for each in OPERATORS if text.startswith(each, place)), None)
        if sign in " \t" or operator or (sign == "#" and word is None):
            if word is not None:
                tokens.append(Token(word, certain=certain))
            word, certain = None, True
            if sign == "#":
                place = text.find("\n", place) if "\n" in text[place:] else len(text)
                continue
            if operator:
                tokens.append(Token(operator, operator=True))
            place += len(operator or sign)
            continue
        word = word or ""
        if sign == "\\":
            word += text[place + 1 : place + 2]
            place += 2
        elif sign in "'\"":
            end = _closing(text, place)
            if end < 0:
                return None
            inside = text[place + 1 : end]
            certain = certain and (sign == "'" or not _expands(inside)) and not inside.startswith("~")
            word += inside if sign == "'" else re.sub(r'\\(["\\$`\n])', r"\1", inside)
            place = end + 1
        else:
            certain = certain and not (sign in "*?[" or (sign == "$" and _expands(text[place:].split(maxsplit=1)[0])))
            word += sign
            place += 1
    return tokens if word is None else [*tokens, Token(word, certain=certain)]


def _closing(text: str, start: int) -> int:
    """Find the quote that ends the one at `start`."""
    place = start + 1
    while place < len(text) and text[place] != text[start]:
        place += 2 if text[place] == "\\" and text[start] == '"' else 1
    return place if place < len(text) else -1


def _expands(text: str) -> bool:
    """Tell whether there is a variable in it that is not HOME."""
    return "$" in re.sub(r"^(\$HOME|\$\{HOME\})(?=/|$)", "", text)


def _split(tokens: Sequence[Token], at: frozenset[str]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.operator and token.text in at:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _and_list(tokens: Sequence[Token], depth: int) -> list[Start]:
    commands = _split(tokens, frozenset({"&&", "|", "|&", "(", ")"}))
    if any(_looks(command) for command in commands):
        return []
    return [start for command in commands for start in _command(command, depth)]


def _looks(command: Sequence[Token]) -> bool:
    """Tell whether a command only finds out whether something is there."""
    words = [token.text for token in command[:2]]
    return words[0] in GUARDS or words in (["command", "-v"], ["command", "-V"])


def _command(tokens: Sequence[Token], depth: int) -> list[Start]:
    """Return what one simple command starts."""
    words = _plain(tokens)
    while words and (ASSIGNMENT.fullmatch(words[0].text) or words[0].text in ("{", "}")):
        words.pop(0)
    if not words or not words[0].certain:
        return []
    first, rest = Start(words[0].text), words[1:]
    name = PurePosixPath(first.word).name
    if name in WRAPPERS:
        return [first, *_command(_wrapped(name, rest), depth)]
    if name in SHELLS:
        return [first, *_of_shell(rest, depth)]
    if first.word in (".", "source"):
        return [Start(rest[0].text, program=False)] if rest and rest[0].certain else []
    if INTERPRETERS.fullmatch(name):
        arguments = [each for each in rest if not HARMLESS_FLAG.fullmatch(each.text)]
        if arguments and arguments[0].certain and not arguments[0].text.startswith("-"):
            return [first, Start(arguments[0].text, program=False)]
    return [first]


def _plain(tokens: Sequence[Token]) -> list[Token]:
    """Leave out redirections, and the numbers before them."""
    words: list[Token] = []
    skip = False
    for token in tokens:
        if token.operator and token.text in REDIRECTIONS:
            if words and words[-1].text.isdigit():
                words.pop()
            skip = True
        elif skip:
            skip = False
        elif not token.operator:
            words.append(token)
    return words


def _wrapped(name: str, words: Sequence[Token]) -> list[Token]:
    """Return the command that a wrapper starts."""
    valued, arguments = WRAPPERS[name]
    left = list(words)
    while left and (left[0].text.startswith("-") or (name == "env" and ASSIGNMENT.fullmatch(left[0].text))):
        option = left.pop(0).text
        if (name, option) in (("command", "-v"), ("command", "-V")) or option in ("-S", "--split-string"):
            return []
        if option in valued and left:
            left.pop(0)
    return left[arguments:]


def _of_shell(words: Sequence[Token], depth: int) -> list[Start]:
    """Return what a shell is asked to run: the text after -c, or a script."""
    for place, word in enumerate(words):
        if re.fullmatch(r"-[a-zA-Z]*c", word.text):
            text = next((each for each in words[place + 1 :] if not each.text.startswith("-")), None)
            return starts(text.text, depth + 1) if text and text.certain else []
        if not word.text.startswith(("-", "+")):
            return [Start(word.text, program=False)] if word.certain else []
    return []
