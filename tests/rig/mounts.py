"""A private view of the file system: mounts that only the programs in it see, gone with them."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def in_private_mounts(steps: str, program: Sequence[str]) -> Iterator[list[str]]:
    """Give a command that takes `steps` (shell) in mounts of its own, then becomes `program`. Nothing is left behind."""
    line = f"{steps} && exec {shlex.join(program)} \"$@\""
    yield ["unshare", "--mount", "--propagation", "private", "sh", "-c", line, "corral"]
