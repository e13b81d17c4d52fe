"""A stand-in for Auto-Claude's backend, written from its documented contract: the real one cannot be installed here."""

import shutil
import venv
from pathlib import Path

HERE = Path(__file__).parent


def install(folder: Path, **env: str) -> Path:
    """Lay the backend down as its installation does, with an interpreter of its own; `env` goes into its .env file."""
    backend = folder / "apps" / "backend"
    backend.mkdir(parents=True)
    (backend / "runners").mkdir()
    for name in ("run.py", "runners/spec_runner.py"):
        shutil.copyfile(HERE / name, backend / name)
    (backend / ".env").write_text("".join(f"{name}={value}\n" for name, value in env.items()))
    venv.create(backend / ".venv", symlinks=True, with_pip=False)
    return folder
