"""What a shell knows while it runs a command: variables, functions, its folder; and what words become by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from posixpath import join, normpath

from msgspec import Struct, field, structs

from corral.rules.shell.syntax import Node
from corral.rules.shell.words import ShellToken, WordPiece

#: What PATH holds at first: where the programs of the box are.
SEARCH = "$PATH"


class Field(Struct, frozen=True):
    """A word as a program gets it; where that is unknown, the text as it is written."""

    text: str
    certain: bool = True
    likely: bool = False  #: of one that is not certain: it is this text unless the surroundings set a variable


class State(Struct):
    """A shell at one moment; None is unknown."""

    variables: dict[str, str | None] = field(default_factory=dict[str, str | None])
    exported: set[str] = field(default_factory=set[str])
    functions: dict[str, Node] = field(default_factory=dict[str, Node])
    arguments: tuple[str, ...] | None = None
    folder: str | None = ""  #: "": the top of the workspace
    search: str | None = SEARCH  #: PATH; None where bare words may mean anything
    stops: bool = False  #: `set -e`
    is_bash: bool = False  #: it continues where a file to source is missing; sh does not
    sought: frozenset[str] = frozenset()  #: paths and names that the command looks for
    sought_any: bool = False  #: it looks for something that only shows while it runs
    status: frozenset[str] = frozenset({"ok"})  #: of the last command

    def copy(self) -> State:
        return structs.replace(
            self, variables=dict(self.variables), exported=set(self.exported), functions=dict(self.functions)
        )

    def child(self) -> State:
        """Return the state of a program's own shell: of this one it knows what was exported."""
        known = {name: value for name, value in self.variables.items() if name in self.exported}
        return structs.replace(
            self.copy(), variables=known, functions={}, arguments=(), stops=False, status=frozenset({"ok"})
        )

    def become(self, ways: Sequence[State]) -> None:
        """Continue after branches: what they do not agree on is unknown."""
        for name in structs.fields(State):
            values = [getattr(way, name.name) for way in ways]
            if name.name in ("variables", "functions"):
                names = {each for value in values for each in value}
                empty = "" if name.name == "variables" else None
                merged = {each: _common_value([value.get(each, empty) for value in values]) for each in names}
                kept = merged.items() if name.name == "variables" else ((k, v) for k, v in merged.items() if v)
                setattr(self, name.name, dict(kept))
            elif name.name == "exported":
                self.exported = set[str]().union(*values)
            elif name.name == "sought":
                self.sought = frozenset[str]().union(*values)
            elif name.name == "sought_any":
                self.sought_any = any(values)
            elif name.name == "stops":
                self.stops = all(values)
            elif name.name == "status":
                self.status = frozenset[str]().union(*values)
            else:
                setattr(self, name.name, _common_value(values))

    def assign(self, name: str, value: str | None) -> None:
        if name == "PATH":
            self.search = value if self.search is not None else None
        elif name.endswith("+"):
            self.variables[name[:-1]] = None
        else:
            self.variables[name] = value

    def forget(self) -> None:
        """Continue after something that may have set anything: a file that was read, text that is not known."""
        self.variables = dict.fromkeys(self.variables)
        self.functions, self.search, self.folder = {}, None, None
        self.sought_any = self.stops = False

    def folder_after(self, target: Field | None) -> str | None:
        """Return the folder after `cd`."""
        if target is None or not target.certain or target.text == "-" or target.text.startswith(("~", "$")):
            return None
        if target.text.startswith("/"):
            return normpath(target.text)
        return None if self.folder is None else normpath(join(self.folder, target.text)).removeprefix(".")

    # --- what words become

    def expand(self, tokens: Iterable[ShellToken]) -> list[Field]:
        return [found for token in tokens for found in self._fields(token)]

    def join_pieces(self, pieces: Iterable[WordPiece], *, spaces: bool = True, likely: bool = False) -> str | None:
        """Return the text that pieces become, as one word; None where that is unknown."""
        text = ""
        for place, piece in enumerate(pieces):
            value = self._value(piece, first=place == 0)
            value = piece.fallback if value is None and likely else value
            if value is None or (not spaces and not piece.quoted and piece.kind == "variable" and _blank(value)):
                return None
            text += value
        return text

    def _fields(self, token: ShellToken) -> list[Field]:
        pieces = token.pieces or (WordPiece(token.text, quoted=True),)
        if any(piece.value in ("@", "*") and piece.kind == "variable" for piece in pieces):
            if len(pieces) == 1 and self.arguments is not None:
                return [Field(text) for text in self.arguments[1:]]
            return [Field(token.text, certain=False)]
        if len(pieces) == 1 and pieces[0].kind == "variable" and not pieces[0].quoted:
            value = self._value(pieces[0], first=True)
            if value is not None and not any(sign in value for sign in "*?["):
                return [Field(text) for text in value.split()]
        text = self.join_pieces(pieces, spaces=False)
        quoted_home = token.text.startswith("~") and pieces[0].quoted
        if text is not None:
            return [Field(text, certain=not quoted_home)]
        likely = self.join_pieces(pieces, spaces=False, likely=True)
        return [Field(likely or token.text, certain=False, likely=likely is not None)]

    def _value(self, piece: WordPiece, *, first: bool) -> str | None:
        if piece.kind == "plain":
            return piece.text
        if piece.kind != "variable":
            return None
        name = piece.value
        if name.isdigit():
            return self._argument(int(name))
        if name == "PATH":
            return self.search
        if name == "PWD" and name not in self.variables:
            return self.folder and (self.folder if self.folder.startswith("/") else f"./{self.folder}")
        if name in self.variables:
            value = self.variables[name]
            return piece.fallback if value == "" and piece.fallback is not None else value
        return piece.text if name == "HOME" and first else None

    def _argument(self, place: int) -> str | None:
        return self.arguments[place] if self.arguments is not None and place < len(self.arguments) else None


def _common_value(values: Sequence[object]) -> object:
    return values[0] if all(value == values[0] for value in values) else None


def _blank(value: str) -> bool:
    return any(sign.isspace() for sign in value) or any(sign in value for sign in "*?[")
