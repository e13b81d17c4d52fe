"""What the user trusts: files of repositories by their content, and the key that receipts are sealed with."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from corral.model.errors import StoreTrouble

NAME = "receipt.key"
SIZE = 32


class Trust:
    """A list of fingerprints in the state folder, which no agent can reach."""

    def __init__(self, state: Path) -> None:
        self._file = state / "trusted"

    def has(self, fingerprint: str) -> bool:
        try:
            return fingerprint in self._file.read_text().split()
        except FileNotFoundError:
            return False

    def has_file(self, file_mark: str) -> bool:
        """Tell whether the file itself was trusted as it is, with what it started then."""
        return self.has(f"file:{file_mark}")

    def add(self, fingerprint: str, *, of: str) -> None:
        """Remember a fingerprint, and the mark of the file alone that it is of."""
        if self.has(fingerprint) and self.has_file(of):
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._file.open("a") as file:
                file.write(f"{fingerprint} file:{of}\n")
        except OSError as error:
            raise StoreTrouble(f"{self._file} cannot be written: {error.strerror}", hint="set CORRAL_HOME") from error


def receipt_key(state: Path) -> bytes | None:
    """Return the key of this state folder; None where there is none."""
    try:
        found = (state / NAME).read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == SIZE else None


def make_receipt_key(state: Path) -> bytes:
    """Return the key, made now if there is none; of two who make one at once, one wins."""
    known = receipt_key(state)
    if known is not None:
        return known
    own = state / f"{NAME}.{os.getpid()}"
    descriptor = os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(SIZE))
    with contextlib.suppress(FileExistsError):
        os.link(own, state / NAME)
    own.unlink()
    return (state / NAME).read_bytes()
