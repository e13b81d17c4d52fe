"""The command `corral`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    _have_streams()
    if sys.stdout.isatty() or sys.stderr.isatty():
        from corral.frontends import safe_text  # noqa: PLC0415 -- only where somebody looks

        safe_text.protect()
    code = 0
    try:
        code = _run_command()
        sys.stdout.flush()
    except OSError as error:  # who reads it left, or what it goes to is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not code and not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
            code = 1
    gc.freeze()  # nothing is left to collect; without it Python looks through all that is loaded, twice
    sys.exit(code)


def _run_command() -> int:
    if sys.argv[1:] == ["--version"]:  # asked by scripts and editors all the time: no need to load anything
        from corral.version import describe  # noqa: PLC0415

        sys.stdout.write(describe())
        return 0
    gc.disable()  # while modules load there is no garbage; commands that go on for long switch it on again
    if sys.argv[1:] == ["acp"]:  # an editor waits for its first answer: the rest is loaded after it
        from corral.frontends.acp.start import serve  # noqa: PLC0415

        return serve()
    if sys.argv[1:] == ["ls"] and _list_runs_fast():
        return 0
    from corral.frontends.cli import run_command_line  # noqa: PLC0415

    return run_command_line()


def _list_runs_fast() -> bool:
    """Do a plain `ls` without all that reads command lines; what goes wrong is told by the usual way."""
    from corral.frontends import run_rows  # noqa: PLC0415

    try:
        run_rows.show()
    except Exception:  # noqa: BLE001
        return False
    return True


def _have_streams() -> None:
    """Open what our caller closed: otherwise the database would get descriptor 1 and an agent's words go into it."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))


if __name__ == "__main__":
    main()
