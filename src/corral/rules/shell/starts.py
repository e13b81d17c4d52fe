"""The programs that a shell command starts, and whether it can succeed without some of them."""

from __future__ import annotations

from collections.abc import Sequence as Words
from posixpath import basename

from msgspec import Struct

from corral.rules.shell import builtins, syntax, wrappers
from corral.rules.shell.state import SEARCH, Field, State
from corral.rules.shell.syntax import Simple
from corral.rules.shell.walk import EITHER, FAIL, OK, CommandEnds, Walk
from corral.rules.shell.words import ASSIGNMENT, ShellToken, UnreadableShell, WordPiece, read

DEEPEST = 8  #: shells in each other, and functions that call each other
MOST_STARTS = 2000


class ProgramStart(Struct, frozen=True):
    """Something that a command starts or reads, as it names it."""

    word: str
    program: bool = True  #: or a script that another program reads
    folder: str | None = ""  #: where: "" is the top of the workspace, None is unknown
    search: str | None = SEARCH  #: where a bare name is looked for; None is unknown
    sought: bool = False  #: the command looks first whether it is there


class CommandStarts(Struct, frozen=True):
    """What a command may start, in order, and whether it can succeed."""

    starts: list[ProgramStart]
    can_succeed: bool = True
    mentioned: frozenset[str] = frozenset()  #: what programs get as arguments, and where output goes


def of_text(text: str, missing: frozenset[ProgramStart] = frozenset()) -> CommandStarts:
    """Read a shell command as it is where some programs are missing; nothing is found where it cannot be read."""
    walk = CommandWalk(missing)
    return walk.reading(walk.text(text, State(), 0))


def of_words(words: Words[str], missing: frozenset[ProgramStart] = frozenset()) -> CommandStarts:
    """Read a command of separate words, of which no shell is made."""
    walk = CommandWalk(missing)
    return walk.reading(walk.call([Field(each) for each in words], State().child(), 0, None))


class CommandWalk(Walk):
    """Walks through a command, and notes what is started on the way."""

    def __init__(self, missing: frozenset[ProgramStart]) -> None:
        super().__init__()
        self._missing = missing
        self._found: dict[ProgramStart, None] = {}
        self._mentioned: set[str] = set()

    def reading(self, way: CommandEnds) -> CommandStarts:
        return CommandStarts(list(self._found), self.is_open or OK in way.any, frozenset(self._mentioned))

    def text(self, text: str, state: State, depth: int) -> CommandEnds:
        """Walk through shell text."""
        if depth > DEEPEST or len(self._found) > MOST_STARTS:
            return CommandEnds()
        try:
            tree = syntax.parse(text)
        except UnreadableShell:
            state.forget()
            return CommandEnds()
        return self.sequence(tree, state, depth, tested=False)

    # --- simple commands

    def simple(self, node: Simple, state: State, depth: int) -> CommandEnds:
        words = list(node.words)
        assigned: list[tuple[str, str | None]] = []
        inner: CommandEnds | None = None
        while words and _assigns(words[0]):
            token = words.pop(0)
            inner = self.substitutions(token, state, depth) or inner
            name, _, rest = token.text.partition("=")
            pieces = (
                (WordPiece(token.pieces[0].text[len(name) + 1 :]), *token.pieces[1:])
                if token.pieces
                else (WordPiece(rest),)
            )
            assigned.append((name, state.join_pieces(pieces)))
        for token in words:
            self.substitutions(token, state, depth)
        fields = state.expand(words)
        self.mention(state.expand(node.targets))
        if not fields:
            for name, value in assigned:
                state.assign(name, value)
            return CommandEnds(inner.any) if inner and not words else CommandEnds(EITHER if words else frozenset({OK}))
        own = state
        if assigned:
            own = state.copy()
            for name, value in assigned:
                own.assign(name, value)
                own.exported.add(name)
                self._note_named(value, own)
        given = self._document(node, own)
        return self.call(fields, own, depth, given, shell=state)

    def call(
        self, fields: Words[Field], state: State, depth: int, given: str | None, shell: State | None = None
    ) -> CommandEnds:
        """Start one command; `shell` is the state that a builtin changes."""
        first = fields[0]
        if not first.certain:
            if first.likely:
                self._start(first.text, state)
            return CommandEnds()
        if depth > DEEPEST:
            return CommandEnds()
        name = first.text
        if shell is not None and name in shell.functions:
            shell.arguments = tuple(each.text for each in fields) if all(each.certain for each in fields) else None
            way = self.node(shell.functions[name], shell, depth + 1, tested=False)
            return CommandEnds(way.goes_on | way.returned, way.ended)
        if shell is not None and (builtin := builtins.BUILTINS.get(name)):
            return self._builtin(builtin, fields, shell, depth)
        return self._program(fields, state, depth, given)

    def _builtin(self, act: builtins.Act, fields: Words[Field], shell: State, depth: int) -> CommandEnds:
        done = act(fields, shell)
        self.is_open = self.is_open or done.opens
        if done.reads:
            missing = self._start(done.reads, shell, program=False)
            shell.forget()
            if missing:
                return CommandEnds(frozenset({FAIL})) if shell.is_bash else CommandEnds(frozenset(), frozenset({FAIL}))
        if done.text is not None:
            way = self.text(done.text, shell if done.here else shell.copy(), depth + 1)
            return way if done.here else CommandEnds(frozenset({OK}))
        if done.words:
            way = self.call(done.words, shell, depth + 1, None)
            return CommandEnds(frozenset(), way.any) if done.ends else way
        if done.ends:
            return (
                CommandEnds(frozenset(), done.status)
                if not done.returns
                else CommandEnds(frozenset(), returned=done.status)
            )
        return CommandEnds(done.status)

    def _program(self, fields: Words[Field], state: State, depth: int, given: str | None) -> CommandEnds:
        word, rest = fields[0].text, fields[1:]
        name = basename(word)
        lost = self._start(word, state) if name not in ("exec", "command", "builtin", "time") or "/" in word else False
        for each in wrappers.read_files(name, rest):
            lost = (each.certain and self._start(each.text, state, program=False)) or lost
        if name in wrappers.MAKES:
            for each in rest:
                if each.certain and not each.text.startswith("-"):
                    self._note_named(each.text.partition("=")[2], state)
        ways: list[CommandEnds] = []
        if name in wrappers.SHELLS:
            inner = state.child()
            inner.is_bash = name != "sh"
            ways += [self._shell(rest, inner, depth, given)]
        for wrapped in wrappers.behind(name, rest):
            way = self._walk_wrapped(wrapped, state, depth, given)
            ways += [way] if wrapped.sure else []
        if not ways and name not in wrappers.MAKES and name not in wrappers.IDLE:
            self.mention(rest)
        if lost:
            return CommandEnds(frozenset({FAIL}))
        return CommandEnds(frozenset[str]().union(*(way.any for way in ways))) if ways else CommandEnds()

    def _walk_wrapped(self, inner: wrappers.WrappedCommand, state: State, depth: int, given: str | None) -> CommandEnds:
        own = state.copy()
        for text in inner.variables:
            own.assign(*text.split("=", 1))
            own.exported.add(text.partition("=")[0])
        if inner.folder is not None:
            own.folder = own.folder_after(inner.folder)
        if not inner.found_here:
            own.search = None
        if inner.text is not None:
            return self.text(inner.text.text, own.child(), depth + 1) if inner.text.certain else CommandEnds()
        return self.call(inner.words, own, depth + 1, given) if inner.words else CommandEnds()

    def _shell(self, words: Words[Field], inner: State, depth: int, given: str | None) -> CommandEnds:
        """Walk through what a shell is asked to run: the text after -c, a script, or what it reads."""
        left = list(words)
        text: Field | None = None
        by_text = False
        while left and left[0].text.startswith(("-", "+")) and left[0].text != "-":
            option = left.pop(0).text
            if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") and left:
                inner.stops = inner.stops or (option == "-o" and left[0].text == "errexit")
                left.pop(0)
            elif not option.startswith("--"):
                by_text = by_text or "c" in option
                inner.stops = inner.stops or (option.startswith("-") and "e" in option)
                given = given if "s" not in option or by_text else given or ""
            if option in ("-s", "-es", "-se"):
                left = []
        if by_text:
            text = left.pop(0) if left else None
            inner.arguments = tuple(each.text for each in left) if all(each.certain for each in left) else None
            inner.arguments = inner.arguments or (None if inner.arguments is None else ("sh",))
            return CommandEnds(self.text(text.text, inner, depth + 1).any) if text and text.certain else CommandEnds()
        if left and left[0].text != "-":
            lost = left[0].certain and self._start(left[0].text, inner, program=False)
            return CommandEnds(frozenset({FAIL})) if lost else CommandEnds()
        return CommandEnds(self.text(given, inner, depth + 1).any) if given else CommandEnds()

    # --- what is written down

    def _start(self, word: str, state: State, *, program: bool = True) -> bool:
        """Note something that is started; return whether it is missing."""
        sought = state.sought_any or any(_is_below(word, each) for each in state.sought)
        start = ProgramStart(word, program, state.folder, state.search, sought)
        if len(self._found) <= MOST_STARTS:
            self._found[start] = None
        return start in self._missing

    def mention(self, fields: Words[Field]) -> None:
        texts = (each.text.rpartition("=")[2] if each.text.startswith("-") else each.text for each in fields)
        self._mentioned.update(text for text in texts if text.startswith("/"))

    def _note_named(self, value: str | None, state: State) -> None:
        """Note a program that a variable names: what is started then may start it."""
        if value and value.startswith("/") and ":" not in value and " " not in value:
            self._start(value, state)

    def substitutions(self, token: ShellToken, state: State, depth: int) -> CommandEnds | None:
        """Walk through the commands in a word, each in a shell of its own; return how the last one ends."""
        found: CommandEnds | None = None
        for piece in token.pieces:
            if piece.kind == "command":
                found = self.text(piece.value, state.copy(), depth + 1)
        return found

    def _document(self, node: Simple, state: State) -> str | None:
        """Return the text that a command reads; None where there is none, or it is unknown."""
        for each in reversed(node.documents):
            if each.document is None:
                return state.join_pieces(each.pieces or (WordPiece(each.text),))
            # What a shell replaces before it hands the text on is taken as if the other shell replaced it.
            return each.document if each.verbatim or "$" not in each.document else _fill_document(each.document, state)
        return None


def _fill_document(document: str, state: State) -> str | None:
    """Replace variables in a document, line by line."""
    lines: list[str] = []
    for line in document.split("\n"):
        quoted = line.replace("\\$", "$").replace('"', '\\"')
        try:
            tokens = read(f'"{quoted}"')
        except UnreadableShell:
            return None
        text = state.join_pieces(tokens[0].pieces) if len(tokens) == 1 else None
        lines.append(text if text is not None else line)
    return "\n".join(lines)


def _assigns(token: ShellToken) -> bool:
    first = token.pieces[0] if token.pieces else WordPiece(token.text)
    return first.kind == "plain" and not first.quoted and ASSIGNMENT.fullmatch(first.text) is not None


def _is_below(word: str, named: str) -> bool:
    return word == named or (named.startswith("/") and word.startswith(named.rstrip("/") + "/"))
