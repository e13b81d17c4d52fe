"""A run looks at the folder of workspaces once when it begins, once for its attempt and once when it ends."""

import subprocess
import sys

from tests.rig.command import Corral

PROGRAM = """
import asyncio, sys
from pathlib import Path
import corral

folder, home = sys.argv[1:]
(Path(home) / "workspaces" / "of-another-run").mkdir(parents=True)
looks = []
sys.addaudithook(lambda event, given: looks.append(given[0]) if event == "os.listdir" else None)

async def main():
    async with corral.Engine(home) as engine:
        return await engine.run(corral.Task("write", agents=["one"]), folder)

run = asyncio.run(main())
print(run.status, sum(str(each) == str(Path(home) / "workspaces") for each in looks))
"""


def test_the_folder_of_workspaces_is_looked_at_once_at_each_step(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    corral.agent("one", "echo b >> a.txt")
    words = [sys.executable, "-c", PROGRAM, str(repo.folder), str(corral.home)]
    found = subprocess.run(words, env=corral.env, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["done", "3"], found.stderr
