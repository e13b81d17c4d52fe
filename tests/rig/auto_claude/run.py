"""Plan two subtasks, build them, sign off: as Auto-Claude's run.py does, but without a model. .env names its mood."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BACKEND = Path(__file__).parent
MOOD = dict(line.split("=", 1) for line in (BACKEND / ".env").read_text().splitlines()).get("MOOD", "")


def emit(phase: str, message: str, **more: object) -> None:
    print("__EXEC_PHASE__:" + json.dumps({"phase": phase, "message": message, **more}), flush=True)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


class Build:
    def __init__(self, project: Path, spec: Path) -> None:
        self.project, self.spec = project, spec
        self.file = spec / "implementation_plan.json"

    def save(self, plan: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(plan, indent=2))

    def plan(self) -> dict[str, Any]:
        if self.file.exists():
            return json.loads(self.file.read_text())
        emit("planning", "Creating implementation plan", progress=10)
        wanted = json.loads((self.spec / "requirements.json").read_text())["task_description"]
        subtasks = [{"id": f"s{number}", "description": wanted, "status": "pending"} for number in (1, 2)]
        plan = {"status": "in_progress", "phases": [{"phase": 1, "subtasks": subtasks}]}
        self.save(plan)
        return plan

    def heed(self) -> None:
        """Put what a person left into what is built; then it is taken away."""
        left = self.spec / "HUMAN_INPUT.md"
        if left.exists():
            with (self.project / "heeded.txt").open("a") as file:
                file.write(left.read_text())
            left.unlink()

    def subtask(self, plan: dict[str, Any], subtask: dict[str, str]) -> None:
        emit("coding", "Working", subtask=subtask["id"], progress=50)
        if MOOD == "waits":
            while not (self.project / "go").exists():
                time.sleep(0.02)
        self.heed()
        (self.project / f"{subtask['id']}.txt").write_text(subtask["description"] + "\n")
        git(self.project, "add", "-A")
        git(self.project, "commit", "-q", "-m", subtask["id"])
        subtask["status"] = "completed"
        self.save(plan)

    def run(self) -> None:
        plan = self.plan()
        for subtask in plan["phases"][0]["subtasks"]:
            if (self.spec / "PAUSE").exists():
                print("PAUSED BY HUMAN")
                return
            if subtask["status"] == "completed":
                continue
            self.subtask(plan, subtask)
            if MOOD == "crashes":
                raise RuntimeError("the build fell over")
            if MOOD == "limited" and not (self.spec / "was-limited").exists():
                (self.spec / "was-limited").touch()
                emit("failed", "Claude usage limit reached, try again in 1 seconds")
                sys.exit(1)
        emit("qa_review", "Running QA validation")
        plan["qa_signoff"] = {"status": "rejected" if MOOD == "rejected" else "approved"}
        self.save(plan)
        if MOOD == "rejected":
            print("QA validation incomplete: 2 issues remain")
            return
        emit("complete", "Build finished and approved", progress=100)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", required=True)
    parser.add_argument("--project-dir", type=Path, required=True)
    parser.add_argument("--auto-continue", action="store_true")
    parser.add_argument("--direct", action="store_true")
    asked = parser.parse_args()
    project: Path = asked.project_dir
    spec = project / ".auto-claude" / "specs" / asked.spec
    if MOOD == "nests" or not asked.direct:
        tree = project / ".auto-claude" / "worktrees" / "tasks" / asked.spec
        git(project, "worktree", "add", "-q", "-b", f"auto-claude/{asked.spec}", str(tree))
        Build(tree, spec).run()
        (tree / "not-committed.txt").write_text("still there\n")
        return
    if os.environ.get("AUTO_BUILD_MODEL"):
        print(f"Model: {os.environ['AUTO_BUILD_MODEL']}")
    Build(project, spec).run()


main()
