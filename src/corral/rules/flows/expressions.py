"""Small expressions over results, as in `when: review.output.verdict == "reject"`; nothing in them can run."""

from __future__ import annotations

import ast
import keyword
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from corral.rules.text.python_code import parse_expression

MOST_CHARACTERS, MOST_PARTS = 2000, 200
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
}
#: Two letters that Python takes in a name and nobody writes: one stands for a dash, one ends a word of Python's own.
DASH, OWN = "\u01c0", "\u01c1"
OURS = frozenset({"and", "or", "not", "in", "is", "True", "False", "None"})  #: words that mean something here
NAME_TOKEN = re.compile(
    r"""
    (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<number>\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?)
    | (?P<name>[^\W\d][\w-]*)
    | (?P<sign>===|!==|&&|\|\||[=!<>]=|=|!|\?)
    """,
    re.VERBOSE,
)
#: Signs of other languages, and what to write instead.
FOREIGN_SIGNS = {"=": "==", "===": "==", "!==": "!=", "&&": "and", "||": "or", "!": "not"}


class ExpressionError(ValueError):
    """An expression that cannot be read, or that asks for what is not there."""


class Expression:
    """An expression that was read, and can be asked."""

    def __init__(self, text: str) -> None:
        self.text = _bare(text.strip())
        self._tree = _parse(self.text)

    def names(self) -> set[str]:
        """Return the names it starts from: nodes, also by `nodes.NAME` or `nodes["NAME"]`, inputs, `item`."""
        found = set[str]()
        for part in ast.walk(self._tree):
            match part:
                case ast.Name(id=name):
                    found.add(name)
                case ast.Attribute(value=ast.Name(id="nodes"), attr=name):
                    found.add(name)
                case ast.Subscript(value=ast.Name(id="nodes"), slice=ast.Constant(value=str(name))):
                    found.add(name)
                case _:
                    pass  # the other parts name no node
        return found - {*WORDS, "len"}

    def paths(self) -> list[tuple[str, ...]]:
        """Return what it asks for, a step each: `review.output.verdict`; `nodes.` at the start is left out."""
        found = [_path(part) for part in ast.walk(self._tree) if isinstance(part, ast.Attribute | ast.Subscript)]
        return [path[1:] if path[0] == "nodes" else path for path in found if path]

    def whole_path(self) -> tuple[str, ...]:
        """Return the path that it is, as `plan.output.files`; nothing, if it is anything else."""
        path = _path(self._tree)
        return path[1:] if path[:1] == ("nodes",) else path

    def value(self, known: Mapping[str, Any]) -> Any:
        return _value(self._tree, known)

    def holds(self, known: Mapping[str, Any]) -> bool:
        return bool(self.value(known))


def _bare(text: str) -> str:
    """Take away braces around a whole expression, as texts have them around theirs."""
    inner = text[2:-2]
    return inner.strip() if text.startswith("{{") and text.endswith("}}") and "{{" not in inner else text


def _parse(text: str) -> ast.expr:
    if not text:
        raise ExpressionError("it is empty")
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"it is longer than {MOST_CHARACTERS} characters")
    try:
        tree = parse_expression(for_python(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        words = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise ExpressionError(f"it cannot be read: {foreign_sign(text) or words}") from None
    parts = list(ast.walk(tree))
    for part in parts:
        if isinstance(part, ast.Name):
            part.id = plain_spelling(part.id)
        elif isinstance(part, ast.Attribute):
            part.attr = plain_spelling(part.attr)
    if len(parts) > MOST_PARTS:
        raise ExpressionError("it has too many parts")
    for part in parts:
        _allow(part)
    return tree


def _allow(part: ast.AST) -> None:
    """Refuse everything that is not a name, a path, a plain value, a comparison or and/or/not."""
    plain = (
        ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.cmpop, ast.Name, ast.Load,
        ast.List, ast.Tuple, ast.Subscript,
    )  # fmt: skip
    if isinstance(part, plain):
        return
    if isinstance(part, ast.Attribute):
        if part.attr.startswith("_"):
            raise ExpressionError(f"`.{part.attr}` is not a field")
        return
    if isinstance(part, ast.Constant) and isinstance(part.value, str | int | float | bool | None):
        return
    if isinstance(part, ast.Call):
        if isinstance(part.func, ast.Name) and part.func.id == "len" and len(part.args) == 1 and not part.keywords:
            return
        raise ExpressionError("only `len(...)` can be called")
    if isinstance(part, ast.BinOp):
        raise ExpressionError(
            f"`{ast.unparse(part)[:60]}` has no place in it: nothing is computed here" + _dashes(part)
        )
    if isinstance(part, ast.Set):
        raise ExpressionError("braces have no place in it: leave `{{` and `}}` out")
    raise ExpressionError(f"`{type(part).__name__.lower()}` has no place in it")


def _dashes(part: ast.BinOp) -> str:
    return "; a name with a dash is written without spaces" if isinstance(part.op, ast.Sub) else ""


def _path(part: ast.expr) -> tuple[str, ...]:
    """Return the names of a path; nothing where it has other parts."""
    match part:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=inner, attr=name) | ast.Subscript(value=inner, slice=ast.Constant(value=str(name))):
            before = _path(inner)
            return (*before, name) if before else ()
        case _:
            return ()


def _value(part: ast.expr, known: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911 -- one line for each kind of part
    match part:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return WORDS[name] if name in WORDS else _field(known, name, "this flow")
        case ast.Attribute(value=inner, attr=name):
            return _field(_value(inner, known), name, ast.unparse(inner))
        case ast.Subscript(value=inner, slice=place):
            return _item(_value(inner, known), _value(place, known), ast.unparse(inner))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, known) for item in items]
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(each, known) for each in values)
        case ast.BoolOp(values=values):
            return any(_value(each, known) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, known)
        case ast.UnaryOp(operand=operand):
            return _negative(_value(operand, known))
        case ast.Call(args=[argument]):
            return _length(_value(argument, known))
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compare(
                _value(left, known), [(op, _value(other, known)) for op, other in zip(ops, others, strict=True)]
            )
        case _:
            raise ExpressionError(f"`{type(part).__name__.lower()}` has no place in it")


def _compare(left: Any, rest: Sequence[tuple[ast.cmpop, Any]]) -> bool:
    for op, right in rest:
        try:
            holds = COMPARE[type(op)](left, right)
        except TypeError:
            raise ExpressionError(f"{_kind(left)} cannot be compared with {_kind(right)}") from None
        if not holds:
            return False
        left = right
    return True


def _field(value: Any, name: str, where: str) -> Any:
    if isinstance(value, Mapping) and name in value:
        return cast("Mapping[str, Any]", value)[name]
    raise ExpressionError(f"{where} has no `{name}`")


def _item(value: Any, place: Any, where: str) -> Any:
    try:
        if isinstance(value, list | tuple | str) and isinstance(place, int):
            return cast("Sequence[Any]", value)[place]
    except IndexError:
        raise ExpressionError(f"{where} has no item {place}") from None
    return _field(value, str(place), where)


def _negative(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return -value
    raise ExpressionError(f"{_kind(value)} has no negative")


def _length(value: Any) -> int:
    if isinstance(value, str | list | Mapping):
        return len(cast("Sequence[Any]", value))
    raise ExpressionError(f"{_kind(value)} has no length")


def _kind(value: Any) -> str:
    kinds = (
        (bool, "true or false"),
        (int | float, "a number"),
        (str, "a text"),
        (list, "a list"),
        (Mapping, "a table"),
    )
    return next((words for kind, words in kinds if isinstance(value, kind)), "nothing")


def for_python(text: str) -> str:
    """Return an expression whose names Python can read; `plain` turns such a name back.

    There is no subtraction, so a dash inside a word always belongs to the name: `fetch-issue` is one name.
    """
    if DASH in text or OWN in text:
        return text
    return NAME_TOKEN.sub(_token, text)


def _token(found: re.Match[str]) -> str:
    word = found.group("name")
    if word is None:
        return found.group()
    if keyword.iskeyword(word):
        field = found.string[: found.start()].rstrip().endswith(".")
        begins = found.string[found.end() :].startswith(".") or found.string.strip() == word
        return word + OWN if field or (begins and word not in OURS) else word
    return word.replace("-", DASH)


def plain_spelling(name: str) -> str:
    """Return a name as it was written."""
    return name.replace(DASH, "-").replace(OWN, "")


def foreign_sign(text: str) -> str:
    """Say what to write instead of the first sign that has no meaning here; nothing, if there is none."""
    for found in NAME_TOKEN.finditer(text):
        sign = found.group("sign")
        if sign in FOREIGN_SIGNS:
            return f"`{sign}` has no meaning here, write `{FOREIGN_SIGNS[sign]}`"
    return ""
