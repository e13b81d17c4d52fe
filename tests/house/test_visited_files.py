"""How many files of the package one task and one request pass through (docs/decisions/0036-files-on-the-path.md)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.command import TIMEOUT_SECONDS, Corral
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # left out of `make quick`

COUNTER = Path(__file__).parent / "visited_files.py"
MOST_OF_A_RUN = 201  #: of `corral run TASK --check CHECK`; docs/decisions/0056-minimal-programs.md
MOST_OF_A_REQUEST = 75  #: of `POST /api/v1/runs`, while the queue is held


def _visited(corral: Corral, repo: Repo, *words: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, str(COUNTER), *words],
        cwd=repo.folder,
        env=corral.env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran
    files = [line.removeprefix("VISITED ") for line in ran.stdout.splitlines() if line.startswith("VISITED ")]
    assert all((COUNTER.parents[2] / "src" / "corral" / each).is_file() for each in files)
    return files


def test_a_task_passes_through_no_more_files(corral: Corral) -> None:
    corral.agent("mine", "echo new > c.txt; echo it is done")
    files = _visited(corral, corral.repo(), "run", "x", "--agent", "mine", "--check", "grep -q new c.txt")
    assert {"__main__.py", "engine/run_loop.py", "attempt/runner.py"} <= {*files}
    assert len(files) <= MOST_OF_A_RUN, "\n".join(files)


def test_a_request_passes_through_no_more_files_up_to_its_answer(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("mine", "echo new > c.txt; echo it is done")
    request = json.dumps({"task": "x", "agents": ["mine"], "checks": ["grep -q new c.txt"], "repo": str(repo.folder)})
    files = _visited(corral, repo, "serve", request, "--root", str(repo.folder))
    assert {"frontends/web/api/runs.py", "engine/planning/submit.py"} <= {*files}
    assert len(files) <= MOST_OF_A_REQUEST, "\n".join(files)
