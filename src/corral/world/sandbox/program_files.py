"""What a program needs to be able to read in order to start: itself, its interpreter, its installation."""

from __future__ import annotations

import functools
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import ProcessStart

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

ALTERNATIVES = Path("/etc/alternatives")  #: links of the system, which every box has
#: What every box has of /etc.
ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "resolv.conf", "hosts", "ssl", "ca-certificates",
    "pki", "alternatives", "localtime", "os-release", "mime.types", "protocols", "services", "bash.bashrc", "profile",
)  # fmt: skip
#: Settings without which a program of the system does not start, by pattern: Debian's Java.
ETC_PATTERNS = ("java-*-openjdk", "java")
MOST_COPIED = 256 << 10  #: bytes of a file of /etc that is copied into a box
LIVE = ("resolv.conf", "hosts")  #: files that may change while an agent works, and matter to it
REMEMBER_SECONDS, MOST_REMEMBERED = 2.0, 100  #: of what programs need: three steps of a task ask for it
VERSION = re.compile(r"\d+(\.\d+)+(-[\w.]*\w)?")  #: `1.2.3`, wherever it is: `codex-cli 1.2.3`
VERSION_SECONDS = 20.0
MOST_LINKS = 40  #: the kernel follows no more either

#: Toolchains of the user, below their home: programs only, never a folder that also holds credentials.
TOOLCHAINS = (
    ".pyenv/versions", ".nvm/versions", ".volta/tools", ".local/share/uv/python", ".local/share/uv/tools",
    ".rustup/toolchains", ".rustup/settings.toml", ".rustup/update-hashes", ".cargo/bin", ".sdkman/candidates",
    ".deno/bin", ".bun/bin", ".local/share/pnpm", ".local/share/mise/installs", ".asdf/installs",
)  # fmt: skip

#: Variables that name a certificate authority of the user's own, without which nothing is reached.
AUTHORITIES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
)  # fmt: skip


def authorities(environment: Mapping[str, str]) -> list[Path]:
    """Return the certificate files and folders that an environment names."""
    named = [Path(environment[name]) for name in AUTHORITIES if environment.get(name)]
    # A folder that holds the user's home would show more than certificates.
    return [path for path in named if path.is_absolute() and path.exists() and not Path.home().is_relative_to(path)]


@functools.cache
def etc_names() -> tuple[str, ...]:
    """Return what every box shows of /etc."""
    found = (each.name for pattern in ETC_PATTERNS for each in sorted(Path("/etc").glob(pattern)))
    return (*ETC, *found)


def is_copied(path: Path) -> bool:
    """Tell whether a file of /etc is copied into a box: a mount takes the kernel as long as a hundred copies."""
    try:
        about = path.stat()
    except OSError:
        return False
    public = about.st_mode & 0o004 and about.st_uid in (0, os.getuid())
    return bool(stat.S_ISREG(about.st_mode) and public and about.st_size <= MOST_COPIED) and path.name not in LIVE


def etc_files() -> Iterator[tuple[str, int]]:
    """Open the files of /etc that are copied into a box; yield their paths and descriptors."""
    for name in etc_names():
        path = Path("/etc", name)
        if is_copied(path):
            yield str(path), os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def is_system(path: Path) -> bool:
    return str(path).startswith(tuple(f"{root}/" for root in SYSTEM))


def find(program: str, environment: Mapping[str, str], folder: Path | None = None) -> Path | None:
    """Find a program by path (relative to `folder`) or on PATH; version-manager shims are looked through."""
    if "/" in program:
        path = Path(program).expanduser()
        path = path if path.is_absolute() else (folder or Path.cwd()) / path
        return path if os.access(path, os.X_OK) and path.is_file() else None
    folders = [
        entry for entry in environment.get("PATH", "").split(os.pathsep) if entry and Path(entry).name != "shims"
    ]
    found = shutil.which(program, path=os.pathsep.join([*folders, *SYSTEM_PATH]))
    return _behind_shim(Path(found).absolute()) if found else None


def _behind_shim(program: Path) -> Path:
    """Return what Volta would start: its shim looks below the user's home, which no box has."""
    if program.resolve().name != "volta-shim":
        return program
    image, name = program.parent.parent / "tools" / "image", program.name
    packages = [*image.glob(f"packages/{name}/bin/{name}"), *image.glob(f"packages/@*/*/bin/{name}")]
    of_node = sorted(image.glob(f"node/*/bin/{name}"), key=lambda path: _version_key(path.parts[-3]))
    return next(iter([*packages, *reversed(of_node)]), program)


def _version_key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def path_to_start(program: Path) -> Path:
    """Return the path by which to start a program: a package of Node finds its parts beside its real file only.

    A box shows a linked program as a file, so that its link does not lead there. Other programs keep their name: some
    look at it.
    """
    real = program.resolve()
    return real if "node_modules" in real.parts and not is_system(program) else program


_needed: dict[tuple[object, ...], tuple[float, list[Path]]] = {}


def needs(program: Path, environment: Mapping[str, str]) -> list[Path]:
    """List what must be readable, besides the system's own folders, for `program` to start; remembered for a moment."""
    try:
        about = program.stat()
        key = (program, environment.get("PATH"), about.st_ctime_ns, about.st_ino)
    except OSError:
        return _needs(program, environment, 3)
    now = time.monotonic()
    if (known := _needed.get(key)) is None or now - known[0] > REMEMBER_SECONDS:
        if len(_needed) >= MOST_REMEMBERED:
            _needed.clear()
        known = _needed[key] = (now, _needs(program, environment, 3))
    return list(known[1])


def _needs(program: Path, environment: Mapping[str, str], depth: int) -> list[Path]:
    shown = [program] if not is_system(program) else []
    virtual = program.parent.parent
    if (virtual / "pyvenv.cfg").exists():
        shown.append(virtual)
    real = program.resolve()
    shown += [*_links(program), *_installation(real), *_site_packages(virtual)]
    runs_it = interpreter(real, environment)
    if runs_it and depth:
        shown += _needs(runs_it, environment, depth - 1)
    return [path for path in dict.fromkeys(shown) if not is_system(path)]


def _links(program: Path) -> list[Path]:
    """Return the links between a program's name and its file: one that lies in a folder that is shown leads to them."""
    found: list[Path] = []
    while program.is_symlink() and len(found) < MOST_LINKS:
        program = Path(os.path.normpath(program.parent / program.readlink()))
        found.append(program)
    return [link for link in found[:-1] if not link.is_relative_to(ALTERNATIVES)]


@functools.cache
def _in_etc() -> frozenset[Path]:
    return frozenset(Path("/etc", name) for name in (*etc_names(), "passwd", "group"))


class VisiblePaths(Struct, frozen=True):
    """What of this machine a box shows besides the system's own folders; of two places the inner one decides."""

    places: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    def has(self, path: Path) -> bool:
        """Tell whether a path is there in the box."""
        if is_system(path) or any(each in _in_etc() for each in (path, *path.parents)):
            return True
        above = [each for each in (path, *path.parents) if each in self.places or each in self.hidden]
        return bool(above) and above[0] not in self.hidden

    def lacks(self, path: Path, environment: Mapping[str, str], depth: int = 3) -> Path | None:
        """Return what a file needs and the box does not show: itself, where its links lead, what interprets it."""
        at = path
        for _ in range(MOST_LINKS):
            if not self.has(at) or not self.has(at.parent.resolve() / at.name):
                return at
            if (
                at in self.places or at in _in_etc() or not at.is_symlink()
            ):  # what is shown by its own name is shown as a file
                break
            at = Path(os.path.normpath(at.parent / at.readlink()))
        runs_it = interpreter(path, environment) if depth else None
        return self.lacks(runs_it, environment, depth - 1) if runs_it else None


def toolchains(environment: Mapping[str, str], home: Path) -> tuple[list[Path], list[str]]:
    """Return the user's toolchains to show, and those entries of their PATH that lead into them."""
    return _toolchains(environment.get("PATH", ""), home)


@functools.cache  # asked for every box; what is installed meanwhile is seen at the next start
def _toolchains(search: str, home: Path) -> tuple[list[Path], list[str]]:
    shown = [home / name for name in TOOLCHAINS if (home / name).exists()]
    path: list[str] = []
    for entry in search.split(os.pathsep):
        folder = Path(entry)
        if not entry or is_system(folder) or not folder.is_dir():
            continue
        if (folder.parent / "pyvenv.cfg").exists():
            shown += [folder.parent, *_site_packages(folder.parent), *_installation((folder / "python").resolve())]
            path.append(entry)
        elif any(folder.resolve().is_relative_to(root) for root in shown):
            path.append(entry)
    return list(dict.fromkeys(shown)), path


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Drop what lies below another of them."""
    kept: list[str] = []
    for path in sorted({str(path) for path in paths}, key=lambda text: text + "/"):
        if not kept or not f"{path}/".startswith(f"{kept[-1]}/"):
            kept.append(path)
    return [Path(path) for path in kept]


def _installation(real: Path) -> list[Path]:
    """Return the folder a program was installed into, where it is plain that it is one; else the file alone."""
    if is_system(real):
        return []
    if "node_modules" in real.parts:
        return [Path(*real.parts[: real.parts.index("node_modules") + 1])]
    prefix = real.parent.parent
    # A home folder, a checkout or a test's scratch folder may hold `bin` too: only a real prefix is shown whole.
    if (
        real.parent.name == "bin"
        and (prefix / "lib").is_dir()
        and not (prefix / ".git").exists()
        and prefix.name != ".local"
    ):
        return [prefix]
    return [real]


def _site_packages(virtual: Path) -> list[Path]:
    """Return the folders that a virtual environment adds by .pth files."""
    added: list[Path] = []
    for file in virtual.glob("lib/python3*/site-packages/*.pth"):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        added += [Path(line) for line in lines if line.startswith("/") and Path(line).name == "site-packages"]
    return [path for path in added if path.is_dir()]


def interpreter(real: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the program that a script names in its first line, found as the user would find it."""
    try:
        with real.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return find(words[0], environment) if words else None


async def ask_version(program: Path, arguments: tuple[str, ...]) -> str | None:
    """Ask a program for its version, outside every box; None where it does not say."""
    if not arguments:
        return None
    env = {"PATH": os.pathsep.join([str(program.parent), *SYSTEM_PATH]), "HOME": "/nonexistent"}
    try:
        finished = await process.run(ProcessStart(argv=[str(program), *arguments], env=env), timeout=VERSION_SECONDS)
    except CorralError:
        return None
    output = finished.out.decode(errors="replace").strip()
    number = VERSION.search(output)
    if finished.code != 0 or not output:
        return None
    return number.group() if number else output.split()[0]
