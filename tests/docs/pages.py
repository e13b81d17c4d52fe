"""Reads the shell lines out of a page and runs them, in order, in one shell."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.rig.command import PROGRAM
from tests.rig.preloaded import PRELOADED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SECONDS = 240


@dataclass
class Line:
    """A command of a page, and what the page says comes of it."""

    where: str
    command: str
    exit_code: int
    shown: list[str] = field(default_factory=list[str])


@dataclass
class Outcome:
    exit_code: int | None
    output: str


def console_lines(page: Path) -> list[Line]:
    """Return the `$ ` lines of a page's console blocks; `# exits N` at a line's end says what it is to end with."""
    found: list[Line] = []
    end = ""
    inside = False
    for number, text in enumerate(page.read_text().splitlines(), 1):
        if text.startswith("```"):
            inside = text.strip() == "```console"
        elif inside and end:
            found[-1].command += "\n" + text
            end = "" if text == end else end
        elif inside and text.startswith("$ "):
            exits = re.search(r"# exits (\d+)$", text)
            found.append(Line(f"{page.name}:{number}", text[2:], int(exits.group(1)) if exits else 0))
            heredoc = re.search(r"<<'(\w+)'", text)
            end = heredoc.group(1) if heredoc else ""
        elif inside and found:
            found[-1].shown.append(text)
    return found


def run(lines: list[Line], folder: Path) -> list[Outcome]:
    """Run the lines in one shell, in an empty home folder, with the installed corral."""
    home, state, results, programs = (folder / name for name in ("ada", "state", "results", "programs"))
    for made in (home, state, results, programs):
        made.mkdir(parents=True)
    (programs / "corral").write_text(f'#!/bin/sh\nexec {shlex.join(PRELOADED.stand_in(PROGRAM))} "$@"\n')
    (programs / "corral").chmod(0o755)
    ends = any("kill -9" in line.command for line in lines)
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    script = "\n".join(
        f"{{ {_with_command(line, ends)}\n}} >{results}/{place}.out 2>&1\necho $? >{results}/{place}.code"
        for place, line in enumerate(lines)
    )
    env = {
        "PATH": os.pathsep.join([str(programs), str(PROGRAM.parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(home),
        "CORRAL_HOME": str(state),
        "LANG": "C.UTF-8",
    }
    shell = subprocess.Popen(
        ["bash", "--norc", "-c", script], cwd=home, env=env, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        shell.wait(SECONDS)
    finally:
        for pid in _group(shell.pid):
            os.kill(pid, signal.SIGKILL)
        shell.wait()
    return [_outcome(results, place) for place in range(len(lines))]


def _with_command(line: Line, ends: bool) -> str:
    """Return a line with the installed command instead of a forked one: in the background, where a page kills it."""
    itself = ends and line.command.startswith("corral ") and line.command.endswith("&")
    return f"PATH={shlex.quote(str(PROGRAM.parent))}:$PATH {line.command}" if itself else line.command


def _outcome(results: Path, place: int) -> Outcome:
    code, out = results / f"{place}.code", results / f"{place}.out"
    return Outcome(
        int(code.read_text()) if code.exists() else None, out.read_text(errors="replace") if out.exists() else ""
    )


def _group(leader: int) -> Iterator[int]:
    """Yield what a page left running: the processes of the shell's own group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == leader:
                    yield int(entry.name)
            except ProcessLookupError:
                continue


#: What differs from run to run -> one word for it.
CHANGING = (
    (re.compile(r"\b[0-9a-f]{40}\b"), "COMMIT"),
    (re.compile(r"(from|at|->|main:) [0-9a-f]{12}\b"), r"\1 COMMIT"),
    (re.compile(r"\b0[0-9a-hjkmnp-tv-z]{11}\b"), "RUN"),
    (re.compile(r"\blocalhost:\d{4,5}\b"), "localhost:PORT"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+"), "MOMENT"),
    (re.compile(r"^\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"/20\d{6}/"), "/DATE/"),
    (re.compile(r"\b\d+(\.\d)? (s|min)\b"), "TIME"),
    (re.compile(r"  \d+[smhd]  "), "  AGE  "),
    (re.compile(r"Python \d[\d.]+"), "Python"),
    (re.compile(r"\b(sandbox|sandbox level:) (full|strict)\b"), r"\1 BOXED"),  # as the machine and the user have it
    (re.compile(r"sandbox (full|strict)\b"), "sandbox LEVEL"),
    (re.compile(r" +"), " "),
)


def plain(line: str, folder: Path | None = None) -> str:
    """Return a line without what differs from run to run."""
    if folder:
        line = line.replace(str(folder / "ada"), "/home/ada")
        line = line.replace(str(folder / "state"), "/home/ada/.local/state/corral")
    for pattern, word in CHANGING:
        line = pattern.sub(word, line)
    return line.rstrip()


def missing(line: Line, outcome: Outcome, folder: Path) -> str | None:
    """Return the first line a page shows that was not printed, in that order; `...` stands for anything."""
    printed = iter([plain(text, folder) for text in outcome.output.splitlines()])
    for shown in line.shown:
        if shown.strip() not in ("...", "") and plain(shown) not in printed:
            return shown
    return None
