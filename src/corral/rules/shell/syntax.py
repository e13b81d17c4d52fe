"""Shell commands as a tree: lists, pipelines, conditions, loops, functions."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec import Struct

from corral.rules.shell.words import DOCUMENTS, REDIRECTIONS, ShellToken, UnreadableShell, read

DEEPEST = 60  #: compound commands in each other
ENDS = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}"})
SEPARATORS = frozenset({";", "&", "\n"})


class Simple(Struct, frozen=True):
    """A program or builtin with its arguments."""

    words: tuple[ShellToken, ...]
    documents: tuple[ShellToken, ...] = ()  #: the operators `<<` and `<<<`, each with its text
    targets: tuple[ShellToken, ...] = ()  #: files that are read or written by redirection


class Pipeline(Struct, frozen=True):
    """Commands whose output goes to the next one."""

    stages: tuple[Node, ...]
    negated: bool = False


class AndOrList(Struct, frozen=True):
    """Pipelines joined by `&&` and `||`."""

    first: Pipeline
    others: tuple[tuple[str, Pipeline], ...] = ()


class Sequence(Struct, frozen=True):
    """Chains one after another; with each, whether it is left to itself in the background."""

    items: tuple[tuple[AndOrList, bool], ...]


class Condition(Struct, frozen=True):
    """`if`, with a condition and a body for each branch."""

    branches: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None


class Loop(Struct, frozen=True):
    """`while` and `until`."""

    condition: Sequence
    body: Sequence
    until: bool


class ForLoop(Struct, frozen=True):
    """`for`; `words` is None where it goes through the arguments, or where a user selects."""

    name: str
    words: tuple[ShellToken, ...] | None
    body: Sequence


class Case(Struct, frozen=True):
    """`case`, with the patterns of each branch."""

    branches: tuple[tuple[tuple[ShellToken, ...], Sequence], ...]


class CommandGroup(Struct, frozen=True):
    """Commands in braces, or in brackets: then in a shell of their own."""

    body: Sequence
    own_shell: bool


class RedirectedCommand(Struct, frozen=True):
    """A compound command with files that it reads or writes."""

    body: Node
    targets: tuple[ShellToken, ...]


class Function(Struct, frozen=True):
    """A function; nothing is started until it is called."""

    name: str
    body: Node


Node = (
    Simple
    | Pipeline
    | AndOrList
    | Sequence
    | Condition
    | Loop
    | ForLoop
    | Case
    | CommandGroup
    | RedirectedCommand
    | Function
)


def parse(text: str) -> Sequence:
    """Read a whole command; raises Unreadable."""
    parser = _Parser(read(text))
    found = parser.sequence()
    if parser.peek() is not None:
        raise UnreadableShell("a word of syntax is at the wrong place")
    return found


class _Parser:
    """Takes tokens one after another."""

    def __init__(self, tokens: list[ShellToken]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0

    def peek(self) -> ShellToken | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self) -> ShellToken:
        token = self.peek()
        if token is None:
            raise UnreadableShell("the text ends too early")
        self._place += 1
        return token

    def _at(self, *texts: str) -> bool:
        """Tell whether an operator, or a word of syntax, is here."""
        token = self.peek()
        return token is not None and token.text in texts and (token.operator or token.is_bare)

    def _take(self, *texts: str) -> bool:
        found = self._at(*texts)
        self._place += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise UnreadableShell(f"`{text}` is missing")

    def _skip_lines(self) -> None:
        while self._at("\n"):
            self._place += 1

    def sequence(self) -> Sequence:
        items: list[tuple[AndOrList, bool]] = []
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableShell("too deep")
        while True:
            self._skip_lines()
            if self.peek() is None or self._at(")", ";;", ";&", ";;&", *ENDS):
                break
            chain = self._chain()
            separated = self._at(*SEPARATORS)
            items.append((chain, self._at("&")))
            self._place += separated
            if not separated:
                break
        self._depth -= 1
        return Sequence(tuple(items))

    def _chain(self) -> AndOrList:
        first = self._pipeline()
        others: list[tuple[str, Pipeline]] = []
        while self._at("&&", "||"):
            operator = self._next().text
            self._skip_lines()
            others.append((operator, self._pipeline()))
        return AndOrList(first, tuple(others))

    def _pipeline(self) -> Pipeline:
        negated = False
        while self._at("!", "time"):
            timed = self._next().text == "time"
            negated = negated if timed else not negated
            if timed and self._at("-p"):
                self._place += 1
        stages = [self._command()]
        while self._take("|", "|&"):
            self._skip_lines()
            stages.append(self._command())
        return Pipeline(tuple(stages), negated)

    def _command(self) -> Node:
        compound = self._compound()
        if compound is None:
            return self._simple()
        targets: list[ShellToken] = []
        while (token := self.peek()) and _redirects(token, self._tokens[self._place + 1 : self._place + 2]):
            targets += self._tokens[self._place + 1 : self._place + 2] if token.operator else []
            self._place += 2 if token.operator else 1
        return RedirectedCommand(compound, tuple(targets)) if targets else compound

    def _compound(self) -> Node | None:
        if self._at("("):
            self._place += 1
            body = self.sequence()
            self._expect(")")
            return CommandGroup(body, own_shell=True)
        if self._take("{"):
            body = self.sequence()
            self._expect("}")
            return CommandGroup(body, own_shell=False)
        if self._take("if"):
            return self._condition()
        if self._at("while", "until"):
            until = self._next().text == "until"
            condition = self.sequence()
            return Loop(condition, self._do(), until)
        if self._at("for", "select"):
            return self._each()
        if self._take("case"):
            return self._case()
        if self._at("[["):
            return self._test()
        return self._function()

    def _condition(self) -> Condition:
        branches: list[tuple[Sequence, Sequence]] = []
        while True:
            condition = self.sequence()
            self._expect("then")
            branches.append((condition, self.sequence()))
            if not self._take("elif"):
                break
        otherwise = self.sequence() if self._take("else") else None
        self._expect("fi")
        return Condition(tuple(branches), otherwise)

    def _do(self) -> Sequence:
        self._take(";")
        self._skip_lines()
        self._expect("do")
        body = self.sequence()
        self._expect("done")
        return body

    def _each(self) -> ForLoop:
        selects = self._next().text == "select"
        name = self._next()
        if name.operator:
            raise UnreadableShell("a loop that counts")
        self._skip_lines()
        words: list[ShellToken] | None = None
        if self._take("in"):
            words = []
            while (token := self.peek()) and not token.operator:
                words.append(self._next())
        return ForLoop(name.text, None if words is None or selects else tuple(words), self._do())

    def _case(self) -> Case:
        self._next()
        self._skip_lines()
        self._expect("in")
        branches: list[tuple[tuple[ShellToken, ...], Sequence]] = []
        self._skip_lines()
        while not self._take("esac"):
            self._take("(")
            patterns = [self._next()]
            while self._take("|"):
                patterns.append(self._next())
            self._expect(")")
            branches.append((tuple(patterns), self.sequence()))
            self._take(";;", ";&", ";;&")
            self._skip_lines()
        return Case(tuple(branches))

    def _test(self) -> Simple:
        """Read `[[ ... ]]`, in which operators are words."""
        words = [self._next()]
        while not self._at("]]"):
            token = self._next()
            words += [] if token.operator else [token]
        self._place += 1
        return Simple(tuple(words))

    def _function(self) -> Function | None:
        following = [token.text for token in self._tokens[self._place + 1 : self._place + 3] if token.operator]
        if self._at("function"):
            self._place += 1
        elif following != ["(", ")"] or self._tokens[self._place].operator:
            return None
        name = self._next().text
        if self._take("("):
            self._expect(")")
        self._skip_lines()
        return Function(name, self._command())

    def _simple(self) -> Simple:
        words: list[ShellToken] = []
        documents: list[ShellToken] = []
        targets: list[ShellToken] = []
        start = self._place
        while (token := self.peek()) is not None:
            following = self._tokens[self._place + 1 : self._place + 2]
            if token.operator and token.text in DOCUMENTS:
                self._place += 2
                if token.document is None and following:  # `<<<`: the next word is the text
                    documents.append(following[0])
                else:
                    documents.append(token)
            elif _redirects(token, following):
                targets += following if token.operator else []
                self._place += 2 if token.operator else 1
            elif token.operator:
                break
            else:
                words.append(self._next())
        if self._place == start:
            raise UnreadableShell("a command is missing")
        return Simple(tuple(words), tuple(documents), tuple(targets))


def _redirects(token: ShellToken, following: Collection[ShellToken]) -> bool:
    """Tell whether a token begins a redirection: its operator, or the number of a file before it."""
    if token.operator:
        return token.text in REDIRECTIONS or token.text in DOCUMENTS
    numbered = re.fullmatch(r"\d+|\{\w+\}", token.text) is not None
    return numbered and any(
        each.operator and (each.text in REDIRECTIONS or each.text in DOCUMENTS) for each in following
    )
