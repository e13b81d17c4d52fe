"""What is built installs and works, also on a machine without a compiler and without bubblewrap."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.rig.person import PROJECT, PYTHON

pytestmark = pytest.mark.slow  # left out of `make quick`

FEW = ("git", "sh", "bash", "env", "cat", "ls", "uname", "id")
NEEDED = {
    "corral/py.typed",
    "corral/build.txt",
    "corral/prices.toml",
    "corral/world/sandbox/launcher",
    "corral/world/sandbox/inner",
    "corral/frontends/web/templates/run.html",
    "corral/store/migrations/0001.sql",
    "corral/templates/feature.yaml",
    "corral/roles/developer.md",
    "corral/demo/agent.toml",
}


def uv(*words: str | Path, path: str | None = None, **env: str) -> str:
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "uv is needed: `tools/bootstrap dev` installs it"
    whole = {**os.environ, **env, **({"PATH": path} if path else {})}
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, env=whole, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    uv("build", "--quiet", "--out-dir", folder, PROJECT)
    return folder


@pytest.fixture(scope="module")
def bare(built: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Install from the source archive where there is neither a compiler nor bubblewrap; return the command."""
    root = tmp_path_factory.mktemp("bare")
    programs = root / "bin"
    programs.mkdir()
    for name in FEW:
        (programs / name).symlink_to(shutil.which(name) or "")
    (programs / "python3").symlink_to(PYTHON)
    home = root / "home"
    (source,) = built.glob("*.tar.gz")
    cache = uv("cache", "dir").strip()
    uv("tool", "install", "--quiet", "--python", PYTHON, source, path=str(programs), HOME=str(home), UV_CACHE_DIR=cache)
    return home / ".local/bin/corral", {"HOME": str(home), "PATH": str(programs)}


def run(bare: tuple[Path, dict[str, str]], *words: str) -> subprocess.CompletedProcess[str]:
    command, env = bare
    return subprocess.run([command, *words], env=env, capture_output=True, text=True, check=False, cwd=env["HOME"])


def test_the_wheel_has_what_is_needed_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert "-py3-none-" in wheel.name  # for any Python: what is compiled in it are programs of their own
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    assert names >= NEEDED, NEEDED - names
    assert modes["corral/world/sandbox/launcher"] & 0o111
    strange = {name for name in names if not name.startswith(("corral/", "corral-"))}
    assert not strange
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_the_source_archive_builds_the_same(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tools/build_launcher.py", "src/corral/build.txt"} <= names
    assert not [name for name in names if name.startswith((".venv", "site/", ".import_linter_cache", ".git/"))]


def test_without_a_compiler_and_bubblewrap_it_says_what_is_missing(bare: tuple[Path, dict[str, str]]) -> None:
    version = run(bare, "--version")
    assert version.returncode == 0, version.stderr
    assert "Python launcher" in version.stdout
    assert "commit " in version.stdout
    assert "extras: none" in version.stdout
    doctor = run(bare, "doctor")
    assert doctor.returncode == 1
    assert "not full or strict: bubblewrap is not installed" in doctor.stdout
    assert "next: sudo apt-get install bubblewrap" in doctor.stdout
    assert "Traceback" not in doctor.stdout + doctor.stderr


def test_the_demo_works_there_all_the_same(bare: tuple[Path, dict[str, str]]) -> None:
    demo = run(bare, "demo")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "winner: its check passes; smallest change" in demo.stdout
