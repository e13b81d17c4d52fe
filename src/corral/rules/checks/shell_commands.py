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
    "flock": (frozenset({"-w", "-E", "--wait", "--timeout", "--conflict-exit-code"}), 1),
    "taskset": (frozenset(), 1),
    "xvfb-run": (
        frozenset({"-e", "-f", "-n", "-p", "-s", "-w", "--error-file", "--auth-file", "--server-num", "--server-args"}),
        0,
    ),
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


class Part(Struct, frozen=True):
    """One list of a command, and what follows it: ";", "&", a line break or nothing."""

    tokens: list[Token]
    separator: str = ""


def starts(text: str, depth: int = 0) -> list[Start]:
    """Return what is started whenever the command succeeds, in order; [] where the text is too clever to tell."""
    tokens = tokenize(text) if depth < DEEPEST else None
    if tokens is None:
        return []
    parts = _without_ifs(_parts(tokens))
    tokens = [token for part in parts for token in part.tokens]
    if any(not each.operator and each.text in UNCERTAIN for each in tokens):
        return []
    found: list[Start] = []
    named = {word for part in parts for command in _commands(part.tokens) if _looks(command) for word in command}
    for part in _sure(parts, tokens):
        found += _and_list(part, {token.text for token in named}, depth)
    return found


def _parts(tokens: Sequence[Token]) -> list[Part]:
    """Split a command into its lists."""
    parts: list[Part] = []
    waiting: list[Token] = []
    for token in tokens:
        if token.operator and token.text in SEPARATORS:
            parts += [Part(waiting, token.text)] if waiting else []
            waiting = []
        else:
            waiting.append(token)
    return [*parts, Part(waiting)] if waiting else parts


def _without_ifs(parts: Sequence[Part]) -> list[Part]:
    """Write `if ! COMMAND; then ...; exit 1; fi` as `COMMAND || exit 1`; leave any other `if` as it is."""
    made: list[Part] = []
    left = list(parts)
    while left:
        end = next((at for at, part in enumerate(left) if _texts(part.tokens) == ["fi"]), 0)
        command, inner = left[0].tokens[2:], left[1:end]
        if end >= 2 and _texts(left[0].tokens[:2]) == ["if", "!"] and _gives_up(command, inner):
            made.append(Part([*command, Token("||", operator=True), Token("false")], left[end].separator))
            left = left[end + 1 :]
        else:
            made.append(left.pop(0))
    return made


def _gives_up(command: Sequence[Token], inner: Sequence[Part]) -> bool:
    """Tell whether what stands between `then` and `fi` ends the whole command as failed."""
    if not command or any(each.operator and each.text in ("&&", "||") for each in command):
        return False
    first, rest = inner[0].tokens, [word for part in inner[1:] for word in _texts(part.tokens)]
    last = _texts(inner[-1].tokens)
    last = last[1:] if len(inner) == 1 else last
    words = [*_texts(first)[1:], *rest]
    plain = _texts(first)[:1] == ["then"] and not UNCERTAIN.intersection(words)
    return plain and words.count("exit") == 1 and last[0:1] == ["exit"] and _fails(last)


def _fails(words: Sequence[str]) -> bool:
    """Tell whether an alternative makes the command fail all the same."""
    return list(words) in (["false"], ["exit"]) or (
        len(words) == 2 and words[0] == "exit" and words[1].isdigit() and int(words[1]) % 256 != 0
    )


def _texts(tokens: Sequence[Token]) -> list[str]:
    return [token.text for token in tokens]


def _sure(parts: Sequence[Part], tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the lists without which the command does not succeed."""
    grouped = any((token.operator and token.text in "()") or token.text in ("{", "}") for token in tokens)
    strict = not grouped and bool(parts) and _is_strict(_texts(parts[0].tokens)) and _texts(tokens).count("set") == 1
    sure: list[list[Token]] = []
    for part in parts:
        is_last = part is parts[-1]
        first, *others = _split(part.tokens, frozenset({"||"})) or [[]]
        operators = {token.text for token in part.tokens if token.operator}
        fails = bool(others) and all(_fails(_texts(each)) for each in others)
        # The outcome of what stands before a `;` does not matter, but for the settings it makes.
        matters = is_last or (part.separator != "&" and not grouped and (fails or (strict and "&&" not in operators)))
        if matters and (fails or not others):
            sure.append(first)
        if not is_last and _may_end(part.tokens):
            break
    return sure


def _is_strict(words: Sequence[str]) -> bool:
    """Tell whether a command has the shell stop at the first failure."""
    return words[:1] == ["set"] and any(
        word == "errexit" or re.fullmatch(r"-[a-zA-Z]*e[a-zA-Z]*", word) for word in words[1:]
    )


def _may_end(tokens: Sequence[Token]) -> bool:
    """Tell whether a list may end the command before what follows is started, and with success."""
    commands = [_texts(command) for command in _commands(tokens)]
    return any(command[0] in ("exit", "return", "exec", "trap") and not _fails(command) for command in commands)


def _commands(tokens: Sequence[Token]) -> list[list[Token]]:
    return _split(tokens, frozenset({"&&", "||", "|", "|&", "(", ")"}))


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


def _and_list(tokens: Sequence[Token], named: set[str], depth: int) -> list[Start]:
    """Return what a list starts but for what the command looks for: that may well be missing."""
    found: list[Start] = []
    for command in _commands(tokens):
        if not _looks(command):
            found += _command(command, depth)
        elif not all(token.certain or token.text in GUARDS for token in command):
            return []
    return [start for start in found if not any(_is_below(start.word, each) for each in named)]


def _is_below(word: str, named: str) -> bool:
    return word == named or (named.startswith("/") and word.startswith(named.rstrip("/") + "/"))


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
        inner = _wrapped(name, rest)
        by_shell = name == "flock" and inner and inner[0].text in ("-c", "--command")
        return [first, *(_of_shell([Token("-c"), *inner[1:]], depth) if by_shell else _command(inner, depth))]
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
        if name == "taskset" and re.fullmatch(r"-[a-z]*p|--pid", option):
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
