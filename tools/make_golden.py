"""Keep a store of one version as text in tests/golden: `tools/make_golden.py [FOLDER OF ITS SOURCE]`, before a release.

Without a folder it is the present version. One run of it is done; another was cut off in the middle of its work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.rig import golden  # noqa: E402 -- it is found by the line above

AGENT = """#!/bin/sh
case "$1" in *slow*) echo half > half.txt; exec sleep 600;; esac
echo more > more.txt
"""
FLOW = """name: cut off
nodes:
  work: {task: "slow", agent: doer}
  look: {needs: [work], run: "cat more.txt"}
"""


def main() -> int:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT).resolve()
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        place = Path(name)
        repo = place / "repo"
        golden.repository(repo)
        settings = place / "config" / "corral"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text('[agents.doer]\ncommand = ["./doer.sh"]\n')
        (settings / "doer.sh").write_text(AGENT)
        (settings / "doer.sh").chmod(0o755)
        home = place / "state"
        env = {
            **os.environ,
            "PYTHONPATH": str(source / "src"),
            "CORRAL_HOME": str(home),
            "XDG_CONFIG_HOME": str(place / "config"),
        }
        corral = [sys.executable, "-m", "corral"]
        subprocess.run(
            [*corral, "run", "quick", "--agent", "doer", "--repo", str(repo)], env=env, check=True, timeout=300
        )
        (place / "flow.yaml").write_text(FLOW)
        check = [*corral, "flow", "check", str(place / "flow.yaml"), "--repo", str(repo)]
        flows = subprocess.run(check, env=env, check=False, capture_output=True, timeout=300).returncode == 0
        work = ["flow", "run", str(place / "flow.yaml")] if flows else ["run", "slow", "--agent", "doer"]
        _cut_off([*corral, *work, "--repo", str(repo)], env, home)
        versions = sorted(file.stem for file in source.glob("src/corral/**/migrations/*.sql"))
        target = golden.FOLDER / f"{versions[-1]}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(golden.dump(home, repo), encoding="utf-8")
        sys.stdout.write(f"{target}\n")
    return 0


def _cut_off(argv: list[str], env: dict[str, str], home: Path) -> None:
    """Start a run and kill the engine while its agent is at work."""
    process = subprocess.Popen(argv, env=env)
    until = time.monotonic() + 120
    while not any((home / "workspaces").glob("*/**/half.txt")):
        if time.monotonic() > until or process.poll() is not None:
            raise SystemExit("the agent does not begin")
        time.sleep(0.1)
    time.sleep(1.0)  # what it was up to is written down
    process.send_signal(signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
