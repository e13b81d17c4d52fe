"""A repository's hook runs as it was trusted, in the folder of its file, or not at all."""

import asyncio
from pathlib import Path

import pytest

from corral.attempt import hooks
from corral.config.paths import fingerprint
from corral.model.agent_api import Hook
from corral.model.errors import Blocked


def test_a_hook_that_changed_while_a_run_goes_on_is_not_started(tmp_path: Path) -> None:
    settings, script, marks = tmp_path / "corral.toml", tmp_path / "hook.sh", tmp_path / "marks"
    settings.write_text('[[hooks]]\non = "before_start"\nrun = "sh ./hook.sh"\n')
    script.write_text("pwd > marks\n")
    hook = Hook(on="before_start", run="sh ./hook.sh", file=str(settings), fingerprint=fingerprint(settings))
    asyncio.run(hooks.run("before_start", [hook], {}))
    assert marks.read_text() == f"{tmp_path}\n"
    marks.unlink()
    script.write_text("echo changed > marks\n")
    with pytest.raises(Blocked, match="changed since you trusted it"):
        asyncio.run(hooks.run("before_start", [hook], {}))
    assert not marks.exists()
