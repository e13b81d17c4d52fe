"""Calls of the product whose answers tests compare with plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

MOST_CALLS = 60  #: of tests, made by one probe
MOST_SHOWN = 60  #: characters of a call or an answer

Language = Literal["python", "node"]
State = Literal["fixed", "kept"]  #: the test failed at the base and passes now; it passed all along
Name = tuple[str, ...]  #: of a test in its file
States = Mapping[tuple[str, Name], State]  #: by path and name


class CheckedCall(Struct, frozen=True, kw_only=True):
    """One call, and what its test expects of it."""

    language: Language
    module: str  #: by which it is imported, or what `require` is given
    name: str  #: below its module, with dots
    arguments: str  #: Python: as source; Node: a JSON list
    expected: str = ""  #: Python: a literal; Node: JSON; empty: no test says
    longer: bool = False  #: with longer texts than the test's
    state: State = "kept"
    where: str = ""  #: Node: the file of the test
    imported: bool = False  #: Node: by `import`, not by `require`

    @property
    def text(self) -> str:
        given = self.arguments if self.language == "python" else self.arguments[1:-1]
        return printable(f"{self.name}({given})")

    @property
    def function(self) -> tuple[str, str, str]:
        return self.where, self.module, self.name


def literal(value: object) -> str:
    """Return a value of JSON as text, always the same for the same value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def printable(text: str) -> str:
    clean = "".join(each if " " <= each <= "~" else "?" for each in text)
    return clean if len(clean) <= MOST_SHOWN else clean[: MOST_SHOWN - 3] + "..."
