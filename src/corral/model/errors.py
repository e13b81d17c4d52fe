"""What a caller can get wrong, or we can: each error says what, and a hint says what to do about it."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Generator, Sequence

from msgspec import Struct

DURING_RUN = "while a run was driven"  #: a note on exceptions
MOST_NAME, MOST_WORD, MOST_LINE = 80, 600, 4_000


def shorten_name(text: str, most: int = MOST_NAME) -> str:
    """Return a name as a message shows it: of a very long one the beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def concise(message: str) -> str:
    """Return a message without words and lines that nobody could read: they are shortened."""
    if len(message) <= MOST_WORD:
        return message
    words = re.sub(rf"\S{{{MOST_WORD},}}", lambda found: shorten_name(found.group()), message)
    return "\n".join(shorten_name(line, MOST_LINE) for line in words.split("\n"))


class CorralError(Exception):
    """Our fault, or the machine's: a front end prints it as `error:` with its `hint:` and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(concise(message))
        self.hint = concise(hint)


class BadRequest(CorralError):
    """The request cannot be met as it is; nothing was started, nothing changed."""

    exit_code = 2


@contextlib.contextmanager
def during_run() -> Generator[None]:
    """Mark what fails inside as no fault of a request: its run has started."""
    try:
        yield
    except Exception as error:
        error.add_note(DURING_RUN)
        raise


def refusal_of(error: BaseException) -> BadRequest | None:
    """Return what an exception says of the request, if that is what it is about: a name or a number nobody can use."""
    match error:
        case BadRequest():
            return error
        case _ if DURING_RUN in getattr(error, "__notes__", ()):
            return None
        case OSError(errno=errno.ENAMETOOLONG):
            name = error.filename if isinstance(error.filename, str) else "a name"
            return BadRequest(f"{shorten_name(name)!a}: the name is too long", hint="a name has at most 255 bytes")
        case UnicodeEncodeError():
            return BadRequest(
                f"{shorten_name(error.object)!a}: it is not UTF-8 text", hint="rename it, or encode it anew"
            )
        case OverflowError():
            return BadRequest(f"a number is too large: {error}", hint="numbers have at most 53 bits")
        case RecursionError():
            return BadRequest("the input is nested too deeply", hint="write it with fewer levels")
        case RuntimeError() if "home directory" in str(error):
            return BadRequest("`~` names a user that is not there", hint="write the whole path")
        case ValueError() if "null byte" in str(error) or "null character" in str(error):
            return BadRequest("a name holds a NUL byte", hint="names are plain text")
        case _:
            return None


class FlowMistake(Struct, frozen=True):
    """Something wrong in a flow file, and where."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}" + (f" (hint: {self.hint})" if self.hint else "")


class BadFlow(BadRequest):
    """A flow file with mistakes: all of them, a line each; of very many the first."""

    MOST = 500

    def __init__(self, mistakes: Sequence[FlowMistake]) -> None:
        more = len(mistakes) - self.MOST
        lines = [str(each) for each in mistakes[: self.MOST]]
        super().__init__("\n".join([*lines, f"{mistakes[0].file}: and {more} mistakes more"] if more > 0 else lines))
        self.mistakes = tuple(mistakes)


class Stopped(CorralError):
    """A user stopped it before anything was started."""

    exit_code = 130


class Untrusted(BadRequest):
    """A repository's settings would start programs, and the user has not said that they may."""


class StoreTrouble(CorralError):
    """The database cannot be used as it is."""


class ReadOnlyStore(StoreTrouble):
    """The database can be read here, but not written."""

    exit_code = 2


class MissingStore(StoreTrouble):
    """The database is gone or empty, though earlier runs left something beside it."""

    exit_code = 2


class RefusedStore(StoreTrouble):
    """The database that is named cannot be a store: it is not ours, too new, closed to us, or not there."""

    exit_code = 2


class TakenOver(StoreTrouble):
    """Another process owns the run by now; this one may neither write nor start anything for it."""


class SetupFailed(CorralError):
    """The command that makes a workspace ready did not succeed."""


class Blocked(CorralError):
    """A hook of the user's said no."""

    moment = ""  #: of the attempt, at which it was asked


class GitTrouble(CorralError):
    """git refused or failed."""


class ChecksFailed(CorralError):
    """What would have come of a merge does not pass its checks; nothing was moved."""


class MissingWorkspace(CorralError):
    """The folder of an attempt is gone, and what was only there with it."""


class OutOfResources(CorralError):
    """A limit of this process was reached: open files, memory, processes, file size."""


class NotFound(BadRequest):
    """Nothing is called so."""


class Conflicting(BadRequest):
    """What is asked for goes against what is there."""
