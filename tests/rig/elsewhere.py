"""Programs where no box looks: a virtual environment, a folder of links, the person's home."""

from pathlib import Path


class Elsewhere:
    """Makes them; what they do is nothing."""

    def __init__(self, folder: Path, home: Path) -> None:
        # Its interpreter lies outside too: only a chain of links leads to it.
        self.real = folder / "python" / "bin" / "python3"
        self.environment = folder / "venv"
        for place in (self.real, self.environment / "bin" / "tool", folder / "links" / "x", home / "bin" / "own"):
            place.parent.mkdir(parents=True, exist_ok=True)
        self.real.write_text("#!/bin/sh\nexit 0\n")
        (self.environment / "pyvenv.cfg").write_text("home = x\n")
        self.python = self.environment / "bin" / "python"
        (folder / "links" / "between").symlink_to(self.real)
        self.python.symlink_to(folder / "links" / "between")
        self.tool = self.environment / "bin" / "tool"
        self.tool.write_text(f"#!{self.python}\n")
        self.linked = folder / "links" / "linked"
        self.linked.symlink_to(home / "bin" / "own")
        self.own = home / "bin" / "own"
        self.own.write_text("#!/bin/sh\nexit 0\n")
        self.away = folder / "other"  # has a program of a name that the box has too
        self.away.mkdir()
        (self.away / "python3").write_text("#!/bin/sh\nexit 0\n")
        (self.away / "python3").chmod(0o755)
        self.makefile = folder / "made" / "Makefile"
        self.makefile.parent.mkdir()
        self.makefile.write_text("all:\n\ttrue\n")
        for program in (self.real, self.tool, self.own):
            program.chmod(0o755)
