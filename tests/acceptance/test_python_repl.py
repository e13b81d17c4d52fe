"""`import corral` in a REPL or a notebook: names to complete, a run in one line, calls inside a running loop."""

import subprocess
import sys

from tests.rig.command import Corral

PROGRAM = """
import asyncio, corral
print(sorted(dir(corral)))
help_text = [name for name in dir(corral) if name != "__version__" and not getattr(corral, name).__doc__]
print("without words:", help_text)

async def cell():  # a notebook runs each cell in a loop
    run = corral.run(corral.Task("write <b>", agents=["mine"], checks=["test -s hello.txt"]), repo="repo")
    print(repr(run))
    print(run._repr_html_())

asyncio.run(cell())
"""


def test_in_a_notebook(corral: Corral) -> None:
    corral.repo()
    corral.agent("mine", "echo hello > hello.txt")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=corral.root, env=corral.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names, undocumented, line, table = done.stdout.splitlines()
    assert {"'run'", "'Task'", "'Flow'", "'Engine'"} <= set(names.strip("[]").split(", "))
    assert "TYPE_CHECKING" not in names
    assert undocumented == "without words: []"
    assert line.startswith("<Run ")
    assert "done, 1 file +1 -0, proven, $0.00, merge ready: 'write <b>'>" in line
    assert "<td>mine</td><td>done</td>" in table
    assert "<b>" not in table
