"""Package managers of this machine: the registries that they talk to, and the caches that attempts share."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import tomllib
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import Owner, ProcessStart
from corral.world.workspace import checkout

SECONDS = 10.0  #: a client that does not answer by then has nothing to say
#: What their own settings say of indexes and authorities; of these none holds a password.
SETTINGS = (
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL",
    "npm_config_registry", "NPM_CONFIG_REGISTRY", "GOPROXY", "GOSUMDB", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO",
)  # fmt: skip
FILE_URL = re.compile(r'"url": ?"(https?://[^"]+)"')
URL = re.compile(r"(?:[a-z]+\+)?https?://[^\s'\"<>,)|]+")
#: Where each client keeps what it has fetched, by the variable that says so.
CACHE_VARIABLES = {
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "CARGO_HOME": "cargo",
    "GOMODCACHE": "go/mod",
    "GOCACHE": "go/build",
}
#: A hard link into the cache would let one attempt change what the next is given.
COPIES = {"UV_LINK_MODE": "copy", "npm_config_package_import_method": "copy"}


class Registry(Struct, frozen=True):
    """A host, with its port where one is named, and who named it."""

    host: str
    client: str


class _ClientQuery:
    """Starts clients as the user would, but in no repository: what one of those says is not the user's word."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Wide, so that no client breaks a line in the middle of an address; plain, so that none colours it.
        self.env = {**environment, "COLUMNS": "1000", "NO_COLOR": "1"}
        self.home = Path(environment.get("HOME", "/nonexistent"))

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self.env.get("PATH", "")) is not None

    async def __call__(self, *argv: str) -> str:
        program = shutil.which(argv[0], path=self.env.get("PATH", ""))
        if program is None:
            return ""
        try:
            start = ProcessStart(argv=[program, *argv[1:]], env=self.env, cwd="/")
            finished = await process.run(start, timeout=SECONDS, most=4 << 20)
        except CorralError:
            return ""
        return finished.out.decode(errors="replace") if finished.code == 0 else ""

    def toml(self, path: Path) -> dict[str, Any]:
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
            return {}


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which the clients ask the same indexes in a box; passwords stay outside."""
    return {name: value for name in SETTINGS if (value := environment.get(name, "")) and "@" not in value}


async def registries(environment: Mapping[str, str]) -> list[Registry]:
    """Return the hosts of all clients; one that is missing, hangs or fails contributes none."""
    asking = _ClientQuery(environment)
    answers = await asyncio.gather(*(ask(asking) for ask in CLIENTS.values()), return_exceptions=True)
    found: dict[Registry, None] = {}
    for client, answer in zip(CLIENTS, answers, strict=True):
        if isinstance(answer, Exception):
            continue  # what a client's files hold is no reason to stop a run
        if isinstance(answer, BaseException):
            raise answer
        for address in answer:
            if host := host_of(address):
                found[Registry(host, client)] = None
    return list(found)


def host_of(address: str) -> str | None:
    """Return the host of an address, and its port where that is not the scheme's own."""
    try:
        parts = urlsplit(address.strip())
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    usual = {"https": 443, "http": 80}.get(parts.scheme.rpartition("+")[2])
    if not name or usual is None:
        return None
    name = f"[{name}]" if ":" in name else name
    return name if port in (None, usual) else f"{name}:{port}"


async def _pip(ask: _ClientQuery) -> list[str]:
    for program in (("pip",), ("pip3",), ("python3", "-m", "pip")):
        if not ask.has(program[0]):
            continue
        settings, words, report = await asyncio.gather(
            ask(*program, "config", "list"),
            ask(*program, "download", "--help"),
            # Files may come from another host than their index: pip says from where it would take itself.
            ask(*program, "install", "--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--report", "-", "pip"),
        )
        lines = [line for line in settings.splitlines() if re.search(r"(?:index-url|find-links)='?", line)]
        # pip says in its help which index it takes: the one that is set, or its own.
        index = re.search(r"--index-url[^(]*\(default:?\s*([^\s)]+)\)", words)
        return [*URL.findall("\n".join(lines)), *([index.group(1)] if index else []), *FILE_URL.findall(report)]
    return []


async def _uv(ask: _ClientQuery) -> list[str]:
    if not ask.has("uv"):
        return []
    names = ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS")
    # The form `name=address` is an index with a name.
    found = URL.findall(" ".join(ask.env.get(name, "").replace("=", " ") for name in names))
    config = Path(ask.env.get("XDG_CONFIG_HOME") or ask.home / ".config")
    tables = [ask.toml(path) for path in (Path("/etc/uv/uv.toml"), config / "uv" / "uv.toml")]
    tables += [ask.toml(Path(ask.env["UV_CONFIG_FILE"]))] if ask.env.get("UV_CONFIG_FILE") else []
    for table in tables:
        found += _addresses([table, table.get("pip", {})], ("index-url", "extra-index-url", "find-links"))
        found += [address for index in _tables(table.get("index")) for address in _addresses([index], ("url",))]
    if not found:  # then uv goes where its help says
        words = await ask("uv", "pip", "install", "--help")
        found += URL.findall(" ".join(re.findall(r"--(?:default-index|index-url)\b[^\[]*?<[^\[]*", words)))
    return found


async def _npm(ask: _ClientQuery) -> list[str]:
    if not ask.has("npm"):
        return []
    settings, scoped, file = await asyncio.gather(
        ask("npm", "config", "get", "registry"),
        ask("npm", "config", "list", "--json"),
        ask("npm", "view", "npm", "dist.tarball"),  # where it would take itself from
    )
    found = URL.findall(f"{settings} {file}")
    try:
        table = json.loads(scoped)
    except ValueError:
        table = {}
    if isinstance(table, dict):
        pairs = cast("dict[str, object]", table).items()
        found += [value for key, value in pairs if key.endswith(":registry") and isinstance(value, str)]
    return found


async def _cargo(ask: _ClientQuery) -> list[str]:
    if not ask.has("cargo"):
        return []
    found = [value for name, value in ask.env.items() if re.fullmatch(r"CARGO_REGISTRIES_\w+_INDEX", name)]
    home = Path(ask.env.get("CARGO_HOME") or ask.home / ".cargo")
    for path in (home / "config.toml", home / "config"):
        table = ask.toml(path)
        for name, keys in (("source", ("registry", "git")), ("registries", ("index",))):
            for entry in _tables(list(cast("dict[str, Any]", table.get(name) or {}).values())):
                found += _addresses([entry], keys)
    # What cargo has used already lies in its cache under the name of the host, and a hash.
    for used in home.glob("registry/index/*"):
        name, _, ending = used.name.rpartition("-")
        if re.fullmatch(r"[0-9a-f]{16}", ending) and "." in name:
            found.append(f"https://{name}")
    return found


async def _go(ask: _ClientQuery) -> list[str]:
    if not ask.has("go"):
        return []
    words = (await ask("go", "env", "GOPROXY", "GOSUMDB")).splitlines()
    sums = [part for part in words[1].split() if "." in part] if len(words) > 1 and words[1] != "off" else []
    addresses = [part if "://" in part else f"https://{part.partition('+')[0]}" for part in sums]
    return URL.findall(words[0]) + addresses if words else []


CLIENTS: Mapping[str, Callable[[_ClientQuery], Awaitable[list[str]]]] = {
    "pip": _pip,
    "uv": _uv,
    "npm": _npm,
    "cargo": _cargo,
    "go": _go,
}


def _tables(value: object) -> Iterator[dict[str, Any]]:
    for entry in cast("list[object]", value) if isinstance(value, list) else []:
        if isinstance(entry, dict):
            yield cast("dict[str, Any]", entry)


def _addresses(tables: list[Any], keys: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for table in tables:
        for key in keys if isinstance(table, dict) else ():
            value = cast("dict[str, Any]", table).get(key)
            words = cast("list[object]", value) if isinstance(value, list) else [value]
            found += [word for word in words if isinstance(word, str)]
    return found


def variables(folder: Path) -> dict[str, str]:
    """Return what tells package clients to keep their caches below a folder."""
    return {**{name: str(folder / place) for name, place in CACHE_VARIABLES.items()}, **COPIES}


@contextlib.asynccontextmanager
async def lend_cache(state: Path, project: Path, private: Path, owner: Owner | None) -> AsyncGenerator[Path]:
    """Lend the project's cache to one attempt; an attempt that comes meanwhile gets an empty one."""
    shared = state / "caches" / f"{project.parent.name}-{zlib.crc32(str(project).encode()):08x}"
    shared.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(shared.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            private.mkdir(parents=True, exist_ok=True, mode=0o700)
            if owner:
                os.chown(private, owner.uid, owner.gid)
            yield private
            return
        await _hand(shared, owner)
        try:
            yield shared
        finally:
            await _hand(shared, Owner(os.getuid(), os.getgid()) if owner else None)  # what stays is the caller's
    finally:
        os.close(lock)


async def _hand(folder: Path, owner: Owner | None) -> None:
    if owner and any(folder.iterdir()):
        await checkout.give(folder, owner)
    elif owner:
        os.chown(folder, owner.uid, owner.gid)
