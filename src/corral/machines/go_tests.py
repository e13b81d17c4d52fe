"""A main function of ours for the tests of each Go package, laid into the checkout of a check and removed after it.

An overlay would change no file, but `go vet` and linters cannot read one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

from corral.world.process import Owner
from corral.world.workspace import checkout

MOST_FOLDERS = 2000
MOST_ENTRIES = 100_000  #: looked at in a tree
MOST_SOURCE = 1 << 20
NAME = "corral_report_main_test.go"
FOLDER = Path(__file__).parents[1] / "boxed" / "reporters" / "go"
LEFT_OUT = frozenset(("vendor", "node_modules", "testdata"))
_RUNS_TESTS = re.compile(r"\bgo\s+test\b|\bgotestsum\b|\b(?:make|gmake|just|task|mage|npm|yarn|pnpm|sh|bash)\b|\./")
_PACKAGE = re.compile(rb"^package[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_MAIN = re.compile(rb"^func[ \t]+TestMain\b", re.MULTILINE)
_PLAIN = re.compile(r"[\w./+@-]+", re.ASCII)


@contextlib.contextmanager
def lay_mains(tree: Path, check: str, place: Path, owner: Owner | None) -> Generator[str]:
    """Have mains of ours in a tree while a check that may run Go tests runs; yield what GOFLAGS needs, if anything."""
    program = place / "go-run"
    names: list[str] = []
    if _RUNS_TESTS.search(check) and _has_modules(tree) and _PLAIN.fullmatch(str(program)):
        names = _lay(tree, place / "go-folders", owner)
        shutil.copyfile(FOLDER / "run", program)
        program.chmod(0o755)
    try:
        yield f"-exec={program}" if program.exists() else ""
    finally:
        for name in names:
            checkout.remove_below(tree, name)


def _lay(tree: Path, listed: Path, owner: Owner | None) -> list[str]:
    source = (FOLDER / "main.go.txt").read_text()
    names: list[str] = []
    for folder, package in _packages(tree):
        within = folder.relative_to(tree).as_posix()
        if not _PLAIN.fullmatch(within):
            continue
        text = source.replace("PACKAGE", package, 1).replace("FOLDER", "" if within == "." else f"{within}.")
        name = (folder / NAME).relative_to(tree).as_posix()
        with contextlib.suppress(OSError):  # a folder that nobody may write to: its tests report by their exit code
            checkout.write_below(tree, name, io.BytesIO(text.encode()), owner)
            names.append(name)
    listed.write_text("".join(f"{(tree / name).parent}\n" for name in names))
    known = checkout.read_below(tree, ".git/info/exclude", MOST_SOURCE)
    if names and known is not None and NAME.encode() not in known:
        text = known + f"\n{NAME}\n".encode()
        checkout.write_below(tree, ".git/info/exclude", io.BytesIO(text), owner)
    return names


def _has_modules(tree: Path) -> bool:
    """Tell whether a tree is a Go module or holds one near its top."""
    return any(any(tree.glob(pattern)) for pattern in ("go.mod", "go.work", "*/go.mod", "*/*/go.mod"))


def _packages(tree: Path) -> Iterator[tuple[Path, str]]:
    seen = folders = 0
    for folder, below, files in os.walk(tree):
        below[:] = sorted(each for each in below if each not in LEFT_OUT and not each.startswith((".", "_")))
        seen += len(files)
        tests = [name for name in files if name.endswith("_test.go") and not name.startswith((".", "_"))]
        if tests and NAME not in files and (package := _package(tree, Path(folder), tests)):
            folders += 1
            yield Path(folder), package
        if seen > MOST_ENTRIES or folders >= MOST_FOLDERS:
            return


def _package(tree: Path, folder: Path, tests: list[str]) -> str | None:
    """Return the package that a main function for these tests belongs to; None: they have their own, or are none."""
    packages: set[str] = set()
    for name in sorted(tests):
        text = checkout.read_below(tree, (folder / name).relative_to(tree).as_posix(), MOST_SOURCE)
        if text is None or _MAIN.search(text):
            return None
        if found := _PACKAGE.search(text):
            packages.add(found[1].decode())
    # Files of other packages among them, for other builds: which one a main would belong to is not ours to guess.
    return min(packages, key=len) if len({each.removesuffix("_test") for each in packages}) == 1 else None
