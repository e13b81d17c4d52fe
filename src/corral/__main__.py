"""The command `corral`."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # asked by scripts and editors all the time: no need to load anything
        from corral import __version__  # noqa: PLC0415

        sys.stdout.write(f"corral {__version__}\n")
        return
    from corral.frontends.cli import run_command_line  # noqa: PLC0415

    sys.exit(run_command_line())


if __name__ == "__main__":
    main()
