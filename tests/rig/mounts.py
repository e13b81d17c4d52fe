"""A private view of the file system: mounts that only the programs in it see, gone with them."""

import contextlib
import shlex
from collections.abc import Generator, Sequence


@contextlib.contextmanager
def in_private_mounts(steps: str, program: Sequence[str]) -> Generator[list[str]]:
    """Give a command that takes `steps` (shell) in mounts of its own, then becomes `program`."""
    line = f'{steps} && exec {shlex.join(program)} "$@"'
    yield ["unshare", "--mount", "--propagation", "private", "sh", "-c", line, "corral"]
