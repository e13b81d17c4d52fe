"""The program behind the replay agent: plays a recording in its workspace. Standard library only.

python replayer.py RECORDING
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

WORKSPACE = "%WORKSPACE%"  #: in recorded lines: the folder it worked in
SYMLINK = "120000"
EXECUTABLE = "100755"


def tell(kind: str, value: object) -> None:
    """Print a line of our own, for the conversation that reads us."""
    sys.stdout.write(json.dumps({f"corral_{kind}": value}) + "\n")
    sys.stdout.flush()


def is_as_before(path: Path, before: str | None) -> bool:
    """Tell whether a file is what git called `before`; None: there was none."""
    if path.is_symlink():
        found = [os.fsencode(path.readlink())]
    elif path.is_file():
        content = path.read_bytes()
        found = [content, content.replace(b"\r\n", b"\n")]  # a checkout may write line ends its own way
    else:
        return before is None
    return before is not None and any(blob_id(content, len(before)) == before for content in found)


def blob_id(content: bytes, length: int) -> str:
    """Return the id that git gives a content."""
    kind = "sha256" if length == 64 else "sha1"
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def misfit(changes: list[dict[str, Any]]) -> str | None:
    """Return the first file that is not as it was when the recording was made."""
    for change in changes:
        if not is_as_before(Path(change["path"]), change.get("before")):
            return str(change["path"])
    return None


def content_of(entry: dict[str, Any]) -> bytes:
    return base64.b64decode(entry["base64"]) if "base64" in entry else entry.get("text", "").encode()


def apply(change: dict[str, Any]) -> None:
    path, mode = Path(change["path"]), change.get("mode")
    if path.is_symlink() or path.is_file():
        path.unlink()
    if mode is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == SYMLINK:
        path.symlink_to(os.fsdecode(content_of(change)))
        return
    path.write_bytes(content_of(change))
    path.chmod(0o755 if mode == EXECUTABLE else 0o644)


def play(lines: list[dict[str, Any]], speed: float) -> None:
    """Print the lines; at speed 0 as fast as possible, else at the recorded times divided by it."""
    here = json.dumps(str(Path.cwd()))[1:-1].encode()
    started = time.monotonic()
    for line in lines:
        if speed > 0:
            time.sleep(max(0.0, line["at"] / speed - (time.monotonic() - started)))
        sys.stdout.buffer.write(content_of(line).replace(WORKSPACE.encode(), here) + b"\n")
        sys.stdout.buffer.flush()


def main() -> None:
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        entries: list[dict[str, Any]] = [json.loads(text) for text in file if text.strip()]
    head = entries[0]
    changes, ends = ([entry for entry in entries if entry["kind"] == kind] for kind in ("file", "end"))
    tell("replay", head)
    wrong = misfit(changes)
    if wrong is not None:
        tell("refused", f"the recording does not fit this base: {wrong} is not as it was when it was made")
        sys.exit(1)
    lines: list[dict[str, Any]] = []
    code = 0
    for entry in entries[1:]:
        if entry["kind"] == "line":
            lines.append(entry)
        elif entry["kind"] == "end":
            code = entry["code"]
            play(lines, head.get("speed", 0.0))
            lines = []
            if entry is ends[-1]:
                for change in changes:
                    apply(change)
            sys.stderr.write(entry.get("stderr", ""))
            sys.stderr.flush()
            if entry.get("why") in ("idle", "timeout"):
                time.sleep(1e6)  # it was ended by a limit; so is this
            tell("turn", entry)
    os._exit(code % 256)  # also what a signal left, as the shell puts it


if __name__ == "__main__":
    main()
