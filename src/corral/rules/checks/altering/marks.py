"""What an expected value is changed by, and what a language's module finds in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from msgspec import Struct, field

Name = tuple[str, ...]  #: of a test in its file: classes or groups first


class Marks(Struct, frozen=True):
    """Values that are put into one file; another file has others."""

    number: int  #: odd, and larger than any tolerance of a test
    word: str

    @property
    def ending(self) -> str:
        """What is put behind a text."""
        return f" {self.word}"

    @property
    def variable(self) -> str:
        """A name that the file does not use."""
        return f"_{self.word}"


def marks_of(path: str, text: str) -> Marks:
    """Return the marks of a file; the same file always has the same, so that results can be remembered."""
    digest = hashlib.sha256(f"{path}\0{text}".encode(errors="replace")).digest()
    number = 1001 + 2 * (int.from_bytes(digest[:4]) % 4000)
    return Marks(number, "altered" + "".join(chr(97 + byte % 26) for byte in digest[4:10]))


class RewrittenFile(Struct, frozen=True, kw_only=True):
    """A file with altered tests."""

    text: str
    tests: Mapping[Name, bool] = field(default_factory=dict[Name, bool])  #: True: all that judges in it was altered
    inner: Collection[Name] = ()  #: tests whose judging parts, in callbacks or loops, were made to fail


def unchanged_file(text: str) -> RewrittenFile:
    return RewrittenFile(text=text)


Wanted = Collection[Name]
