"""The conformance suite: what must hold of every agent, tried on its real program with the installed command.

suite = Conformance(agent="mine", model="fake-model", key="MY_KEY", url="MY_BASE_URL", asks="/chat/completions")
for case in suite.cases:
    suite.check(case, empty_folder)      # raises AssertionError with what was wrong
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from corral.testing.cases import CASES
from corral.testing.command import TerminalUser
from corral.testing.stage import AgentSetup, Stage


class Conformance(AgentSetup):
    """An agent, and what must hold of it."""

    @property
    def cases(self) -> tuple[str, ...]:
        """What can be tried on it: all but what it leaves out."""
        return tuple(case for case in CASES if case not in self.leaves_out)

    def check(self, case: str, folder: Path, user: Callable[[Path], TerminalUser] = TerminalUser) -> None:
        """Try one case in a fresh home below `folder`; `user` is who types the commands."""
        CASES[case](Stage(self, folder, user))


def report(suite: Conformance, cases: Sequence[str], say: Callable[[str], object] = sys.stdout.write) -> bool:
    """Try cases one after the other, say how each went, and return whether all hold."""
    well = True
    for case in cases:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="corral-conformance-") as folder:
            try:
                suite.check(case, Path(folder))
                verdict = "ok"
            except AssertionError as error:
                well, verdict = False, f"FAILED: {error}"
        say(f"{case:<18} {time.monotonic() - started:5.1f} s  {verdict}\n")
    for case, why in suite.leaves_out.items():
        say(f"{case:<18}     - s  left out: {why}\n")
    return well


def main(suite: Conformance) -> int:
    """Run a suite as a program: all cases, or those named."""
    parser = argparse.ArgumentParser(description=f"Does the agent {suite.agent} keep what corral promises?")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="those to try (default: all)")
    return 0 if report(suite, parser.parse_args().cases or suite.cases) else 1
