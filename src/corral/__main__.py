"""The command `corral`."""

from __future__ import annotations

import gc
import os
import sys

USUAL_RUNS = 30  #: that a plain `ls` lists


def main() -> None:
    _have_streams()
    if sys.stdout.isatty() or sys.stderr.isatty():
        from corral.frontends import text  # noqa: PLC0415 -- only where someone looks

        text.protect()
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
    gc.disable()  # while modules load there is no garbage; commands that continue for long switch it on again
    if sys.argv[1:] == ["acp"]:  # an editor waits for its first answer: the rest is loaded after it
        from corral.frontends.acp.start import serve  # noqa: PLC0415

        return serve()
    if sys.argv[1:2] == ["ls"] and _list_runs_fast(sys.argv[2:]):
        return 0
    from corral.frontends.cli import run_command_line  # noqa: PLC0415

    return run_command_line()


def _list_runs_fast(arguments: list[str]) -> bool:
    """Do a plain `ls` without all that reads command lines and settings; what is not plain goes the usual way."""
    from corral.store.sqlite import plain_list  # noqa: PLC0415

    options = plain_list.plain_options(arguments)
    if options is None:
        return False
    try:
        return _print_documents(options) if "--json" in options else _print_rows(options)
    except UnicodeEncodeError:  # the usual way replaces what the terminal cannot show
        return False


def _print_documents(options: dict[str, str]) -> bool:
    from json import dumps  # noqa: PLC0415

    from corral.store.sqlite import plain_list  # noqa: PLC0415

    found = plain_list.documents(options)
    if found is not None:
        sys.stdout.write(dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")
    return found is not None


def _print_rows(options: dict[str, str]) -> bool:
    from corral.store.sqlite import plain_list  # noqa: PLC0415

    rows = plain_list.newest(options, USUAL_RUNS)
    if rows is None:
        return False
    from corral.frontends import run_rows  # noqa: PLC0415

    run_rows.show(rows, filtered=bool(options.keys() - {"-n"}))
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
