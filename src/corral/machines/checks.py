"""Checks, run in a clean checkout and a box of their own: their output, and the reporters that list each test."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import re
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import structs

from corral.machines import boxes
from corral.machines.boxes import MOST_COUNTED, MOST_LEFT, Kept, WatchedCommand
from corral.machines.calls import CheckOrder, LaidFile
from corral.machines.logs import Log, Tail
from corral.machines.workspace_host import WorkspaceHost
from corral.model import ENCODER, CheckObservation, CheckResult, Report, TestOrder
from corral.rules.checks import results
from corral.rules.checks.results import junit
from corral.rules.checks.results import report as reports
from corral.world import untrusted_files
from corral.world.git import blobs
from corral.world.process import Owner, ProcessLimits
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

MOST_SHOWN = 8000
MOST_FOLDERS = 2000
MOST_ENTRIES = 100_000  #: looked at in a tree
MOST_SOURCE = 1 << 20
GO_MAIN_NAME = "corral_report_main_test.go"
GO_MAIN_FOLDER = Path(__file__).parents[1] / "boxed" / "reporters" / "go"
GO_LEFT_OUT = frozenset(("vendor", "node_modules", "testdata"))
_RUNS_TESTS = re.compile(r"\bgo\s+test\b|\bgotestsum\b|\b(?:make|gmake|just|task|mage|npm|yarn|pnpm|sh|bash)\b|\./")
_GO_PACKAGE = re.compile(rb"^package[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_GO_MAIN = re.compile(rb"^func[ \t]+TestMain\b", re.MULTILINE)
_PLAIN_GO = re.compile(r"[\w./+@-]+", re.ASCII)
REPORTERS_FOLDER = Path(__file__).parents[1] / "boxed" / "reporters"
PYTHON_REPORTER = str(REPORTERS_FOLDER / "python")
PYTHONS = range(8, 16)  #: minor versions of Python that our reporter runs under
NODE_REPORTER = f"--require={REPORTERS_FOLDER / 'node' / 'preload.cjs'}"
MOST_REPORTED = 64 << 20  #: bytes kept of what one check's reporters write
MOST_LINE = 8192
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class LaidFiles(Protocol):
    """Files that are laid over a checkout before its checks begin."""

    async def lay(self, made: Workspace) -> list[str]:
        """Lay them; return their paths."""
        ...

    def files(self) -> Sequence[LaidFile]:
        """Return them, to be laid on another machine."""
        ...


async def run(
    host: WorkspaceHost,
    folder: Path,
    commit: str | None,
    checks: Sequence[str],
    on_result: Callable[[CheckResult], None],
) -> list[CheckResult]:
    """Run checks as `observe` does, and return their results alone."""
    return [seen.result for seen in await observe(host, folder, commit, checks, on_result)]


async def observe(
    host: WorkspaceHost,
    folder: Path,
    commit: str | None,
    checks: Sequence[str],
    on_result: Callable[[CheckResult], None],
    lay: LaidFiles | None = None,
) -> list[CheckObservation]:
    """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards.

    `lay` puts files into the checkout before the checks begin, and returns their paths.
    """
    if host.elsewhere:
        order = _order(host, folder, commit, checks, lay)
        seen = list(await host.elsewhere.observe(order))
        for each in seen:
            on_result(each.result)
        return seen
    from corral.rules.checks import side_effects  # noqa: PLC0415 -- slow to load, for checks alone

    found: list[CheckObservation] = []
    cache, host.boxes.cache = host.boxes.cache, None  # what an agent left there must not sway its checks
    try:
        made = await host.make(folder, commit)
        listed_blobs = await _files(host, commit)
        names = list(listed_blobs)
        if lay is not None:
            laid = await lay.lay(made)
            names += laid
            listed_blobs = {name: blob for name, blob in listed_blobs.items() if name not in laid}
        before = await asyncio.to_thread(untrusted_files.marks, made.tree, names)
        listed = await asyncio.to_thread(untrusted_files.list_files, made.tree, side_effects.is_output_folder)
        ignored = (checkout.read_below(made.tree, ".gitignore", MOST_SHOWN) or b"").decode(errors="replace")
        for place, check in enumerate(checks, 1):
            seen = await _check(host, made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}")
            after = await asyncio.to_thread(untrusted_files.marks, made.tree, names)
            there = await asyncio.to_thread(untrusted_files.list_files, made.tree, side_effects.is_output_folder)
            added = side_effects.telling_files(there - listed, ignored)
            touched = untrusted_files.between(before, after)
            rewritten, generated = await _compare_touched(host, made, touched, listed_blobs)
            seen = structs.replace(seen, touched=touched, rewritten=rewritten, generated=generated, added=added)
            found.append(seen)
            before, listed = after, there
            on_result(found[-1].result)
    finally:
        host.boxes.cache = cache
        await host.remove(folder)
    return found


def _order(
    host: WorkspaceHost, folder: Path, commit: str | None, checks: Sequence[str], lay: LaidFiles | None
) -> CheckOrder:
    return CheckOrder(
        workspace=folder.name,
        beside=host.beside_name,
        commit=commit,
        checks=tuple(checks),
        order=host.order,
        limit_seconds=host.task.time_limit_seconds if host.beside_name else None,
        laid=tuple(lay.files()) if lay else (),
    )


async def _compare_touched(
    host: WorkspaceHost, made: Workspace, touched: Sequence[str], listed: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which touched files have their content again, and which of them the commit marks as generated."""
    from corral.rules.checks import side_effects  # noqa: PLC0415 -- slow to load, for checks alone

    names = [name for name in touched if name in listed]
    if not names:
        return (), ()
    attributes = listed.get(side_effects.ATTRIBUTES)
    wanted = [*([attributes] if attributes else []), *(listed[name] for name in names)]
    known = await blobs.contents(host.repository, wanted)
    old = {name: known[listed[name]] for name in names if listed[name] in known}
    text = known.get(attributes, b"").decode(errors="replace") if attributes else ""

    def same() -> tuple[str, ...]:
        pairs = (
            (name, content, checkout.read_below(made.tree, name, len(content) + 1)) for name, content in old.items()
        )
        return tuple(name for name, then, now in pairs if now == then)

    return await asyncio.to_thread(same), side_effects.generated_files(old, text)


async def _files(host: WorkspaceHost, commit: str | None) -> dict[str, str]:
    """Return the files of a commit, in which a check is not to write, and their blobs."""
    if commit is None:
        return {}
    out = (await host.repository.git("ls-tree", "-r", "-z", "--full-tree", commit)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    return {path: about.split(" ")[2] for about, _, path in rows if " blob " in about}


async def _check(host: WorkspaceHost, made: Workspace, folder: Path, check: str, name: str) -> CheckObservation:
    tail = Tail(MOST_COUNTED)
    path = host.logs / f"{name}.log"
    limits = ProcessLimits(timeout_seconds=host.task.time_limit_seconds)
    started = time.monotonic()
    network = await host.network(host.boxes.fitted.scope.net)
    async with open_reporter(made, folder, host.owner, check, host.order) as reporter:
        box = host.boxes.box(made, folder, network=network, readable=reporter.readable, writable=reporter.writable)
        box = structs.replace(box, env={**box.env, **reporter.env(box.env)})
        left: dict[str, None] = {}
        command = WatchedCommand(reporter.command(check), left)
        ended = await boxes.run_shell(host.boxes, host.redactor, command, box, limits, Kept(Log(path), tail, network))
        report = await reporter.report(ended.code, tail.text())
    note = {
        "timeout": f"`{check}` was not done in time",
        "stopped": "stopped",
        "flood": f"`{check}` printed more than 4 GB",
        "memory": f"`{check}` used more memory than the scope allows",
        "disk": f"`{check}` used more disk space than the scope allows",
        "processes": f"`{check}` started more processes than the scope allows",
    }
    result = CheckResult(
        command=check,
        exit_code=ended.code,
        seconds=round(time.monotonic() - started, 3),
        note=note.get(ended.why, ""),
        output=tail.text(MOST_SHOWN),
        log=str(path.relative_to(host.state)),
        tests=results.tally(tail.text(), _reports(made, check)),
    )
    left |= dict.fromkeys(each.name for each in ended.leftovers)
    return CheckObservation(result=result, report=report, left=tuple(left)[:MOST_LEFT])


def _reports(made: Workspace, check: str) -> list[str]:
    """Read the test reports that a check wrote for us."""
    found = [checkout.read_below(made.tree, name, MOST_COUNTED) for name in junit.report_files(check)]
    return [content.decode(errors="replace") for content in found if content]


@contextlib.contextmanager
def lay_go_mains(tree: Path, check: str, place: Path, owner: Owner | None) -> Generator[str]:
    """Have mains of ours in a tree while a check that may run Go tests runs; yield what GOFLAGS needs, if anything."""
    program = place / "go-run"
    names: list[str] = []
    if _RUNS_TESTS.search(check) and _has_modules(tree) and _PLAIN_GO.fullmatch(str(program)):
        names = _lay_main(tree, place / "go-folders", owner)
        shutil.copyfile(GO_MAIN_FOLDER / "run", program)
        program.chmod(0o755)
    try:
        yield f"-exec={program}" if program.exists() else ""
    finally:
        for name in names:
            checkout.remove_below(tree, name)


def _lay_main(tree: Path, listed: Path, owner: Owner | None) -> list[str]:
    source = (GO_MAIN_FOLDER / "main.go.txt").read_text()
    names: list[str] = []
    for folder, package in _go_packages(tree):
        within = folder.relative_to(tree).as_posix()
        if not _PLAIN_GO.fullmatch(within):
            continue
        text = source.replace("PACKAGE", package, 1).replace("FOLDER", "" if within == "." else f"{within}.")
        name = (folder / GO_MAIN_NAME).relative_to(tree).as_posix()
        with contextlib.suppress(OSError):  # a folder that nobody may write to: its tests report by their exit code
            checkout.write_below(tree, name, io.BytesIO(text.encode()), owner)
            names.append(name)
    listed.write_text("".join(f"{(tree / name).parent}\n" for name in names))
    known = checkout.read_below(tree, ".git/info/exclude", MOST_SOURCE)
    if names and known is not None and GO_MAIN_NAME.encode() not in known:
        text = known + f"\n{GO_MAIN_NAME}\n".encode()
        checkout.write_below(tree, ".git/info/exclude", io.BytesIO(text), owner)
    return names


def _has_modules(tree: Path) -> bool:
    """Tell whether a tree is a Go module or holds one near its top."""
    return any(any(tree.glob(pattern)) for pattern in ("go.mod", "go.work", "*/go.mod", "*/*/go.mod"))


def _go_packages(tree: Path) -> Iterator[tuple[Path, str]]:
    seen = folders = 0
    for folder, below, files in os.walk(tree):
        below[:] = sorted(each for each in below if each not in GO_LEFT_OUT and not each.startswith((".", "_")))
        seen += len(files)
        tests = [name for name in files if name.endswith("_test.go") and not name.startswith((".", "_"))]
        if tests and GO_MAIN_NAME not in files and (package := _go_package(tree, Path(folder), tests)):
            folders += 1
            yield Path(folder), package
        if seen > MOST_ENTRIES or folders >= MOST_FOLDERS:
            return


def _go_package(tree: Path, folder: Path, tests: list[str]) -> str | None:
    """Return the package that a main function for these tests belongs to; None: they have their own, or are none."""
    packages: set[str] = set()
    for name in sorted(tests):
        text = checkout.read_below(tree, (folder / name).relative_to(tree).as_posix(), MOST_SOURCE)
        if text is None or _GO_MAIN.search(text):
            return None
        if found := _GO_PACKAGE.search(text):
            packages.add(found[1].decode())
    # Files of other packages among them, for other builds: which one a main would belong to is not ours to guess.
    return min(packages, key=len) if len({each.removesuffix("_test") for each in packages}) == 1 else None


def _quote(option: str) -> str:
    """Write an option as Node reads it from its environment: a blank divides unless it is quoted."""
    return f'"{option}"' if " " in option else option


class ReportPipe:
    """The reading end of a pipe by path. Everything is read, so that no program waits; what is too much is dropped."""

    def __init__(self, path: Path) -> None:
        self._reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._writes = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # ours: without a writer a pipe is at its end
        except OSError:
            os.close(self._reads)
            raise
        if _SET_PIPE_SIZE is not None:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._reads, _SET_PIPE_SIZE, _PIPE_BYTES)
        self._kept = bytearray()
        self.cut = False
        asyncio.get_running_loop().add_reader(self._reads, self._read)

    def _read(self) -> bool:
        """Read what is there; tell whether there was anything."""
        try:
            part = os.read(self._reads, _PIPE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        room = MOST_REPORTED - len(self._kept)
        self.cut = self.cut or len(part) > room
        self._kept += part[:room]
        return bool(part)

    def lines(self) -> list[bytes]:
        """Return what was written so far; of a writer that never pauses, no more than fits."""
        for _ in range(MOST_REPORTED // _PIPE_BYTES):
            if not self._read():
                break
        return [line for line in bytes(self._kept).split(b"\n") if line and len(line) <= MOST_LINE]

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._reads)
        os.close(self._reads)
        os.close(self._writes)


class Reporter:
    """What a check's box needs so that its test programs report to us, and what they reported."""

    def __init__(self, made: Workspace, path: Path, channel: ReportPipe | None, go: str, order: str = "") -> None:
        """`order` is the file that says which tests are to run; empty: all."""
        self._channel, self._go = channel, go
        self.readable = (REPORTERS_FOLDER, path.parent)
        self.writable = (path,) if channel else ()
        self._own = {"CORRAL_REPORT": str(path), "CORRAL_REPORT_TREE": str(made.tree)} if channel else {}
        if channel and order:
            self._own["CORRAL_REPORT_ORDER"] = order

    def env(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return what to add to the environment of a box; paths and options that it has stay in it."""
        if not self._channel:
            return {}
        path = os.pathsep.join(filter(None, (PYTHON_REPORTER, known.get("PYTHONPATH", ""))))
        options = " ".join(filter(None, (_quote(NODE_REPORTER), known.get("NODE_OPTIONS", ""))))
        flags = {"GOFLAGS": f"{self._go} {known.get('GOFLAGS', '')}".strip()} if self._go else {}
        return {**self._own, "PYTHONPATH": path, "NODE_OPTIONS": options, **flags}

    def command(self, check: str) -> str:
        """Return a check's command line; where it sets a variable that we need, our value stays in it."""
        check = reports.with_value(check, "PYTHONPATH", PYTHON_REPORTER, os.pathsep)
        check = reports.with_value(check, "GOFLAGS", self._go, "\\ ") if self._go else check
        return reports.with_value(check, "NODE_OPTIONS", NODE_REPORTER, "\\ ")

    async def report(self, exit_code: int, output: str) -> Report | None:
        """Return what the test programs of the check did; None: none of a kind that we know ran."""
        lines, cut = (self._channel.lines(), self._channel.cut) if self._channel else ([], False)
        return await asyncio.to_thread(reports.of_check, lines, output, exit_code, cut=cut)


def _lay_start(home: Path, owner: Owner | None) -> None:
    """Have our reporter start from the user's packages where a script or a Makefile sets PYTHONPATH anew."""
    line = (
        f"import sys; p = {PYTHON_REPORTER!r}; p in sys.path or (sys.path.insert(0, p), __import__('sitecustomize'))\n"
    )
    for minor in PYTHONS if home.is_dir() else ():
        name = f".local/lib/python3.{minor}/site-packages/corral_report.pth"
        with contextlib.suppress(OSError):  # what an earlier check left there is its own affair
            checkout.write_below(home, name, io.BytesIO(line.encode()), owner)


@contextlib.asynccontextmanager
async def open_reporter(
    made: Workspace, folder: Path, owner: Owner | None, check: str, order: TestOrder | None = None
) -> AsyncGenerator[Reporter]:
    """Have a channel for the reporters of one check in the folder of its box; it is removed afterwards."""
    place = folder / "report"
    place.mkdir(mode=0o755, exist_ok=True)
    try:
        channel = _open(place / "channel", owner)
    except OSError:  # a file system without pipes: what the check prints is all that is known
        yield Reporter(made, place / "channel", None, "")
        return
    _lay_start(folder / "home", owner)
    try:
        with lay_go_mains(made.tree, check, place, owner) as go:
            yield Reporter(made, place / "channel", channel, go, _lay_order(place / "order", order))
    finally:
        channel.close()
        (place / "channel").unlink(missing_ok=True)


def _lay_order(path: Path, order: TestOrder | None) -> str:
    """Write down which tests are to run; return the file, empty where all are."""
    if order is None:
        return ""
    path.write_bytes(ENCODER.encode(order))
    path.chmod(0o644)
    return str(path)


def _open(path: Path, owner: Owner | None) -> ReportPipe:
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    if owner:
        os.chown(path, owner.uid, owner.gid)
    return ReportPipe(path)
