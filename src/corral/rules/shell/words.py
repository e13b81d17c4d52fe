"""The words and operators of shell text, with quotes, variables, substitutions and here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, structs

OPERATORS = (
    ";;&", "<<<", "<<-", "&>>", "&&", "||", ";;", ";&", "|&", ">>", "<<", ">&", "<&", "&>", "<>", ">|", ";", "&", "|",
    "(", ")", "<", ">", "\n",
)  # fmt: skip
DOCUMENTS = frozenset({"<<", "<<-", "<<<"})
REDIRECTIONS = frozenset({">>", ">&", "<&", "&>", "&>>", "<>", ">|", "<", ">"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
PARAMETER = re.compile(r"(\w+|[@*#?$!-])(?::?([-=?])([^$`\\'\"]*))?", re.DOTALL)
SPECIAL = "@*#?$!-"
DEEPEST = 100  #: substitutions in each other


class UnreadableShell(ValueError):
    """Text that no shell would take, or that is too clever for this reader."""


class WordPiece(Struct, frozen=True):
    """A part of a word; `text` as it is written, but without quotes."""

    text: str
    kind: Literal["plain", "variable", "command", "pattern", "unknown"] = "plain"
    quoted: bool = False
    value: str = ""  #: the name of a variable, or the text of a command
    fallback: str | None = None  #: what `${NAME:-...}` stands for where there is no such variable


class ShellToken(Struct, frozen=True):
    """A word without its quotes, or an operator."""

    text: str
    operator: bool = False
    certain: bool = True  #: what it becomes is known: no variable but HOME, no pattern, no command in it
    pieces: tuple[WordPiece, ...] = ()
    document: str | None = None  #: of `<<`: the text that follows
    verbatim: bool = False  #: of `<<`: variables in that text are not replaced

    @property
    def is_bare(self) -> bool:
        """Tell whether it is written without quotes, variables and patterns: only then it may be a word of syntax."""
        return not self.operator and all(piece.kind == "plain" and not piece.quoted for piece in self.pieces)


def read(text: str) -> list[ShellToken]:
    """Split text as a shell does; raises Unreadable where a quote, a substitution or a document is left open."""
    return _WordReader(text).tokens()


def tokenize(text: str) -> list[ShellToken] | None:
    """Split a command that has neither substitutions nor documents; None where it has, or cannot be read."""
    if "`" in text or "$(" in text or "<<" in text or "<(" in text:
        return None
    try:
        return read(text)
    except UnreadableShell:
        return None


def split(tokens: Iterable[ShellToken], at: Iterable[str]) -> list[list[ShellToken]]:
    """Split tokens at some operators; empty parts are left out."""
    parts: list[list[ShellToken]] = [[]]
    for token in tokens:
        if token.operator and token.text in at:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def plain(tokens: Iterable[ShellToken]) -> list[ShellToken]:
    """Leave out operators and redirections, and the numbers before them."""
    words: list[ShellToken] = []
    skip = False
    for token in tokens:
        if token.operator:
            skip = token.text in REDIRECTIONS
            if skip and words and words[-1].text.isdigit():
                words.pop()
        elif skip:
            skip = False
        else:
            words.append(token)
    return words


def word(pieces: Sequence[WordPiece]) -> ShellToken:
    """Put a word together."""
    text = "".join(piece.text for piece in pieces)
    home = bool(pieces) and pieces[0].value == "HOME" and pieces[0].fallback is None
    left = pieces[1:] if home and (len(pieces) == 1 or pieces[1].text.startswith("/")) else pieces
    certain = all(piece.kind == "plain" for piece in left) and not (text.startswith("~") and pieces[0].quoted)
    return ShellToken(text, certain=certain, pieces=tuple(pieces))


class _WordReader:
    """Walks through text, sign by sign."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self._text, self._place, self._depth = text, 0, depth
        self._found: list[ShellToken] = []
        self._awaited: list[int] = []  # operators `<<` whose documents begin at the next line
        if depth > DEEPEST:
            raise UnreadableShell("too deep")

    def tokens(self) -> list[ShellToken]:
        text = self._text
        while self._place < len(text):
            if text.startswith("\\\n", self._place):
                self._place += 2
            elif text[self._place] in " \t":
                self._place += 1
            elif text[self._place] == "#":
                end = text.find("\n", self._place)
                self._place = len(text) if end < 0 else end
            elif operator := self._operator():
                self._place += len(operator)
                self._found.append(ShellToken(operator, operator=True))
                self._after(operator)
            else:
                self._found.append(self._word())
        if self._awaited:
            raise UnreadableShell("a document is left open")
        return self._found

    def _operator(self) -> str | None:
        if self._text.startswith(("<(", ">("), self._place):
            return None  # the start of a word
        return next((each for each in OPERATORS if self._text.startswith(each, self._place)), None)

    def _after(self, operator: str) -> None:
        if operator in DOCUMENTS:
            self._awaited += [len(self._found) - 1] if operator != "<<<" else []
        elif operator == "\n" and self._awaited:
            awaited, self._awaited = self._awaited, []
            for place in awaited:
                self._document(place)

    def _document(self, place: int) -> None:
        """Read the text of a here-document, which ends with a line that is its delimiter."""
        if place + 1 >= len(self._found) or self._found[place + 1].operator:
            raise UnreadableShell("a document has no delimiter")
        operator, delimiter = self._found[place], self._found[place + 1]
        lines: list[str] = []
        while self._place < len(self._text):
            line, _, _ = self._text[self._place :].partition("\n")
            self._place += len(line) + 1
            line = line.lstrip("\t") if operator.text == "<<-" else line
            if line == delimiter.text:
                break
            lines.append(line)
        verbatim = any(piece.quoted for piece in delimiter.pieces)
        self._found[place] = structs.replace(operator, document="\n".join(lines), verbatim=verbatim)

    def _word(self) -> ShellToken:
        pieces: list[WordPiece] = []
        text = self._text
        while self._place < len(text):
            sign = text[self._place]
            if text.startswith(("<(", ">("), self._place) and not pieces:
                self._place += 1
                pieces.append(WordPiece("_", "command", value=self._enclosed_text("(", ")")))
            elif sign == "(" and re.fullmatch(r"[A-Za-z_]\w*\+?=", "".join(piece.text for piece in pieces)):
                pieces.append(WordPiece(self._enclosed_text("(", ")"), "unknown"))  # a list of values
            elif sign in " \t" or self._operator():
                break
            else:
                pieces += self._pieces(sign, first=not pieces)
        return word(pieces)

    def _pieces(self, sign: str, *, first: bool) -> list[WordPiece]:
        """Read what is in one pair of quotes, one expansion, or a run of signs."""
        if sign == "\\":
            self._place += 2
            escaped = self._text[self._place - 1 : self._place]
            return [WordPiece(escaped, quoted=True)] if escaped != "\n" else []
        if sign == "'":
            return [WordPiece(self._until("'"), quoted=True)]
        if sign == '"':
            return self._double()
        if sign in "$`":
            return [self._expansion(quoted=False)]
        if first and (test := re.compile(r"\[\[?(?=\s|$)").match(self._text, self._place)):
            self._place = test.end()
            return [WordPiece(test.group())]
        return [self._sign()]

    def _sign(self) -> WordPiece:
        """Read a run of ordinary signs, or one that makes a pattern."""
        text = self._text
        braces = re.compile(r"\{[^\s{}]*(,|\.\.)[^\s{}]*\}").match(text, self._place)
        if text[self._place] in "*?[" or braces:
            self._place += 1
            return WordPiece(text[self._place - 1], "pattern")
        run = re.compile(r"[^\s\\'\"$`*?\[{;&|()<>]+").match(text, self._place)
        found = run.group() if run else text[self._place]
        self._place += len(found)
        return WordPiece(found)

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._place + 1)
        if end < 0:
            raise UnreadableShell("a quote is left open")
        inside = self._text[self._place + 1 : end]
        self._place = end + 1
        return inside

    def _double(self) -> list[WordPiece]:
        """Read what is in double quotes."""
        self._place += 1
        pieces, plain_text = [WordPiece("", quoted=True)], ""
        text = self._text
        while self._place < len(text) and text[self._place] != '"':
            sign = text[self._place]
            if sign == "\\" and text[self._place + 1 : self._place + 2] in ('"', "\\", "$", "`", "\n"):
                plain_text += text[self._place + 1].replace("\n", "")
                self._place += 2
            elif sign in "$`":
                pieces += [WordPiece(plain_text, quoted=True)] if plain_text else []
                plain_text = ""
                pieces.append(self._expansion(quoted=True))
            else:
                plain_text += sign
                self._place += 1
        if self._place >= len(text):
            raise UnreadableShell("a quote is left open")
        self._place += 1
        pieces += [WordPiece(plain_text, quoted=True)] if plain_text else []
        return pieces[1:] if len(pieces) > 1 else pieces

    def _expansion(self, *, quoted: bool) -> WordPiece:
        """Read a variable or a substitution."""
        text, start = self._text, self._place
        if text[start] == "`":
            closing = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(text, start)
            if not closing:
                raise UnreadableShell("a substitution is left open")
            self._place = closing.end()
            inner = re.sub(r"\\([`$\\])", r"\1", closing.group(1))
            return WordPiece(closing.group(), "command", quoted, inner)
        self._place += 1
        following = text[self._place : self._place + 1]
        if following == "(":
            arithmetic = text.startswith("((", self._place)
            inner = self._enclosed_text("(", ")")
            whole = text[start : self._place]
            return WordPiece(whole, "unknown" if arithmetic and inner.endswith(")") else "command", quoted, inner)
        if following == "{":
            inner = self._enclosed_text("{", "}")
            found = PARAMETER.fullmatch(inner)
            whole = text[start : self._place]
            if not found:
                return WordPiece(whole, "unknown", quoted)
            return WordPiece(whole, "variable", quoted, found[1], found[3] if found[2] in ("-", "=") else None)
        if following in ("'", '"') and following and not quoted:
            inner = self._until(following)
            clever = "\\" in inner or (following == '"' and "$" in inner)
            return WordPiece(inner, "unknown" if clever else "plain", quoted=True)
        name = re.compile(rf"[A-Za-z_]\w*|\d|[{re.escape(SPECIAL)}]").match(text, self._place)
        if not name:
            return WordPiece("$", quoted=quoted)
        self._place = name.end()
        return WordPiece(text[start : self._place], "variable", quoted, name.group())

    def _enclosed_text(self, opening: str, closing: str) -> str:
        """Return what is between the bracket at this place and the one that closes it; quotes may hold others."""
        start = self._place
        deep, place, text = 0, start, self._text
        while place < len(text):
            sign = text[place]
            if sign == "\\":
                place += 1
            elif sign == "'" or (sign == '"' and opening == "("):
                skipped = re.compile(r"'[^']*'" if sign == "'" else r'"(?:[^"\\]|\\.)*"', re.DOTALL).match(text, place)
                place = skipped.end() - 1 if skipped else place
            elif sign in (opening, closing):
                deep += 1 if sign == opening else -1
                if deep == 0:
                    self._place = place + 1
                    return text[start + 1 : place]
            place += 1
        raise UnreadableShell("a bracket is left open")
