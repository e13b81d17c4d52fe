"""A table of a flow file: asked for what it should hold, it remembers what it does not."""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from corral.config.times import duration
from corral.model.errors import BadRequest
from corral.rules.flows import fill_text
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.tree import Mistake, Position

T = TypeVar("T")
Word = TypeVar("Word", bound=str)
Entries = dict[str, tuple[Position, Position]]


class Mistakes:
    """All that is wrong, in one list."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(self, place: Position, message: str, hint: str = "") -> None:
        self.found.append(Mistake(place.line, place.column, message, hint))


class FlowTable:
    def __init__(self, place: Position, what: str, mistakes: Mistakes) -> None:
        self.place, self._what, self._mistakes = place, what, mistakes
        self.entries: Entries = {}
        if isinstance(place.value, dict):
            self.entries = cast("Entries", place.value)
        elif place.value is not None:
            mistakes.add(place, f"{what} is a table", "write `key: value` lines below it, or `{}` for none")

    def wrong(self, message: str, hint: str = "", key: str | None = None) -> None:
        place = self.entries[key][1] if key in self.entries else self.place
        self._mistakes.add(place, message, hint)

    def wrong_at(self, place: Position, message: str, hint: str = "") -> None:
        self._mistakes.add(place, message, hint)

    def over(self, defaults: FlowTable | None, names: Sequence[str]) -> FlowTable:
        """Return this table with what `defaults` say of these names, where it is silent itself."""
        if defaults is None:
            return self
        given = {name: defaults.entries[name] for name in names if name in defaults.entries}
        return FlowTable(
            Position({**given, **self.entries}, self.place.line, self.place.column), self._what, self._mistakes
        )

    def only(self, names: Sequence[str]) -> None:
        for name, (key, _) in self.entries.items():
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "known here: " + ", ".join(names)
                self._mistakes.add(key, f"unknown key `{name}`", hint)

    def has(self, name: str) -> bool:
        return name in self.entries

    def plain(self, name: str) -> Any:
        return self.entries[name][1].plain() if name in self.entries else None

    def text(self, name: str) -> str | None:
        value = self.plain(name)
        if value is None:
            return None
        if isinstance(value, str):
            self._refuse_nul(name, value)
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self.wrong(f"`{name}` is a text", "", name)
        return None

    def _refuse_nul(self, name: str, *texts: str) -> None:
        if any("\0" in text for text in texts):
            self.wrong(f"`{name}` holds a NUL byte", "no program takes one", name)

    def filled_text(self, name: str) -> str | None:
        text = self.text(name)
        if text is not None:
            self.guard(name, lambda: fill_text.names(text))
        if not (text or "").strip():
            self.wrong(f"`{name}` is empty", "", name)
        return text

    def expression(self, name: str) -> str | None:
        text = "true" if self.plain(name) is True else "false" if self.plain(name) is False else self.text(name)
        if text is not None:
            self.guard(name, lambda: Expression(text))
        return text

    def guard(self, name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (ExpressionError, ValueError, BadRequest) as error:
            self.wrong(
                f"`{name}`: {str(error).removeprefix(f'{name}: ')}",
                error.hint if isinstance(error, BadRequest) else "",
                name,
            )
            return None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; one text alone is a list of one."""
        value = self.plain(name)
        if value is None:
            return ()
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            self.wrong(f"`{name}` is a text, or a list of texts", "", name)
            return ()
        self._refuse_nul(name, *items)
        return tuple(cast("list[str]", items))

    def filled_texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts with places to fill."""
        texts = self.texts(name)
        for text in texts:
            self.guard(name, lambda text=text: fill_text.names(text))
        return texts

    def items(self, name: str) -> list[Position]:
        if name not in self.entries:
            return []
        place = self.entries[name][1]
        return cast("list[Position]", place.value) if isinstance(place.value, list) else [place]

    def one_of(self, name: str, words: Sequence[Word]) -> Word | None:
        value = self.plain(name)
        if value is None:
            return None
        value = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        for word in words:
            if value == word:
                return word
        self.wrong(f"`{name}` is one of {', '.join(words)}, not `{value}`", "", name)
        return None

    def flag(self, name: str) -> bool:
        value = self.plain(name)
        if value is not None and not isinstance(value, bool):
            self.wrong(f"`{name}` is true or false", "", name)
        return value is True

    def whole(self, name: str, *, least: int, most: int | None = None) -> int | None:
        value = self.plain(name)
        if value is None:
            return None
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and least <= value <= (value if most is None else most):
            return value
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        self.wrong(f"`{name}` is a whole number, {bounds}", "", name)
        return None

    def number(self, name: str, *, above: float | None = None) -> float | None:
        value = self.plain(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and (above is None or value > above):
            with contextlib.suppress(OverflowError):
                if math.isfinite(number := float(value)):
                    return number
        more = "" if above is None else f", more than {above:g}"
        self.wrong(f"`{name}` is a number{more}", "", name)
        return None

    def duration(self, name: str) -> float | None:
        text = self.text(name)
        return None if text is None else self.guard(name, lambda: duration(text, name))

    def table(self, name: str) -> FlowTable | None:
        if name not in self.entries or self.entries[name][1].value is None:
            return None
        return FlowTable(self.entries[name][1], f"`{name}`", self._mistakes)

    def tables(self, name: str) -> Iterator[tuple[str, FlowTable]]:
        """Yield the tables below a name, each with its own."""
        outer = self.table(name)
        for inner, (_, place) in (outer.entries if outer else {}).items():
            yield inner, FlowTable(place, f"`{inner}`", self._mistakes)
