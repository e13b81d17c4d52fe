"""Unix sockets at paths of any length."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def short_address(path: Path) -> Generator[str]:
    """An address of at most 107 bytes for a socket at `path`, however deep its folder is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
