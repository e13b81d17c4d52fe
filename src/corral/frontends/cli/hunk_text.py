"""Changes in numbered hunks, in plain lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corral.frontends.cli.text import printable
from corral.model.merge import Hunks


def lines(changes: Sequence[Hunks]) -> Iterator[str]:
    """Yield what each attempt changed; what stands before a hunk is what `corral merge --take` calls it."""
    for change in changes:
        yield f"attempt {change.attempt} ({change.agent})"
        for file in change.files:
            path = printable(file.path)
            if file.whole:
                yield f"{path}   only as a whole: {file.whole}"
            for hunk in file.hunks:
                yield f"{path}#{hunk.number}   {printable(hunk.head)}"
                yield from (f"  {printable(line)}" for line in hunk.text.removesuffix("\n").split("\n"))
