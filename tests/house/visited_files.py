"""The files of the package that one command, or one request to the server, passes through: those of which a function runs.

A program: `python tests/house/visited_files.py run TASK --check CHECK` runs that command in this process and then
prints one file a line; `python tests/house/visited_files.py serve REQUEST --root DIR` starts the server, sends the
JSON to `POST /api/v1/runs`, and prints what ran between the request and the answer.
"""

from __future__ import annotations

import asyncio
import http.client
import inspect
import io
import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from urllib.parse import urlsplit

PACKAGE = f"{Path(__file__).parents[2] / 'src' / 'corral'}{os.sep}"
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")  #: with those, a table of a module is filled


class VisitedFiles:
    """A profile function that keeps which code ran, in every thread."""

    def __init__(self) -> None:
        self._ran: set[CodeType] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._background: set[asyncio.Task[object]] = set()  #: what goes on beside the request: not part of its path

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def start_anew(self) -> None:
        """Forget what ran, and leave out what tasks that are there already do from now on."""
        self._background, self._ran = {*self._tasks}, set()

    def files(self) -> list[str]:
        """Return the files, relative to the package, of which a function ran: class bodies and modules are none."""
        ran = list(self._ran)
        return sorted({each.co_filename.removeprefix(PACKAGE) for each in ran if _is_function(each)})

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        task = asyncio.current_task() if asyncio._get_running_loop() else None
        if task not in self._background:
            self._ran.add(frame.f_code)
        if task:
            self._tasks.add(task)


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name not in COMPREHENSIONS


class Announcement(io.StringIO):
    """What the server prints at its start: its address and its first token."""

    def __init__(self) -> None:
        super().__init__()
        self.whole = threading.Event()

    def flush(self) -> None:
        super().flush()
        if "token: " in self.getvalue():
            self.whole.set()


def _run_command(arguments: tuple[str, ...]) -> None:
    from corral.__main__ import main  # noqa: PLC0415 -- the watched program loads what it loads

    sys.argv = ["corral", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


def _visited_by_command(*arguments: str) -> list[str]:
    visited = VisitedFiles()
    visited.start()
    _run_command(arguments)
    sys.setprofile(None)
    return visited.files()


def _visited_by_request(request: str, *arguments: str) -> list[str]:
    visited, announcement, found, printed = VisitedFiles(), Announcement(), list[str](), sys.stdout
    client = threading.Thread(target=_ask_server, args=(visited, request, announcement, found))
    client.start()
    sys.stdout = announcement
    visited.start()
    _run_command(("serve", "--port", "0", *arguments))
    sys.setprofile(None)
    sys.stdout = printed
    client.join()
    assert found, "the server gave no answer"
    return found


def _ask_server(visited: VisitedFiles, request: str, announcement: Announcement, found: list[str]) -> None:
    """Send the request from a thread that is not watched; end the server when it answered."""
    sys.setprofile(None)
    try:
        assert announcement.whole.wait(60)
        address, token = announcement.getvalue().split("\n")[:2]
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port, timeout=60)
        headers = {"Authorization": f"Bearer {token.removeprefix('token: ')}", "Content-Type": "application/json"}
        connection.request("GET", "/api/v1/runs", headers=headers)  # what the server does at its start is over then
        connection.getresponse().read()
        connection.request("PATCH", "/api/v1/queue", '{"held": true}', headers)  # it would start the run meanwhile
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        visited.start_anew()
        connection.request("POST", "/api/v1/runs", request, headers)
        answer = connection.getresponse()
        ran = visited.files()
        assert answer.status == 202, answer.read()
        found += ran
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    command, *arguments = sys.argv[1:]
    found = _visited_by_request(*arguments) if command == "serve" else _visited_by_command(command, *arguments)
    sys.stdout.write("".join(f"VISITED {each}\n" for each in found))


if __name__ == "__main__":
    main()
