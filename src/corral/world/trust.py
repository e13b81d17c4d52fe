"""Which repository files a person has trusted, by their content."""

from __future__ import annotations

from pathlib import Path

from corral.model.errors import StoreTrouble


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
