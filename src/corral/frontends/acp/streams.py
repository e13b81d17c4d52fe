"""The streams of the client, kept apart from those of this process."""

from __future__ import annotations

import os

CHUNK = 1 << 16


class Streams:
    """The client's side: nothing else of this process reads or writes it."""

    def __init__(self) -> None:
        self.read_from, self.write_to = os.dup(0), os.dup(1)
        os.dup2(2, 1)  # whatever prints from here on, prints to stderr
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.buffer = b""  #: what was read and not looked at
        self.opening: dict[str, object] | None = None  #: the parameters of an `initialize` that is answered
