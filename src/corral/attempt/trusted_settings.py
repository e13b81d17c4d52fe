"""Settings of a repository, as far as the user trusts its file."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from corral.config import loader
from corral.config.paths import REPOSITORY_FILE, file_mark, fingerprint
from corral.config.settings import Config
from corral.config.started_files import started_files
from corral.world.trust import Trust


def load(folder: Path, state: Path, *, trust: bool) -> Config:
    """Read the settings; a repository's powerful ones count if its file is trusted, now or before."""
    file = folder / REPOSITORY_FILE
    trusts = Trust(state)
    is_there = file.is_file()
    content = file.read_bytes() if is_there else b""
    mark = fingerprint(file, content) if is_there else ""
    if trust and is_there:
        trusts.add(mark, of=file_mark(file, content))
    trusted = is_there and trusts.has(mark)
    settings = loader.load(folder, trusted=mark if trusted else None)
    if settings.untrusted and trusts.has_file(file_mark(file, content)):
        changed = tuple(str(path.relative_to(folder.resolve())) for path in started_files(folder, content).files)
        settings = structs.replace(settings, changed=changed)
    for table in ("workspace", "hooks", "mcp"):
        if table in settings.untrusted:
            raise settings.refusal(table, f"[{table}] can start programs, and you have not trusted this file")
    return settings
