"""Write a spec, approve it, then become run.py: as Auto-Claude's spec_runner does, but without a model."""

import argparse
import json
import os
import sys
from pathlib import Path

BACKEND = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--task", "--continue", "--thinking-level", "--base-branch"):
        parser.add_argument(name)
    for name in ("--task-file", "--project-dir", "--spec-dir"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--complexity", choices=["simple", "standard", "complex"])
    parser.add_argument("--model", default="sonnet")
    for name in ("--interactive", "--no-ai-assessment", "--no-build", "--auto-approve", "--direct"):
        parser.add_argument(name, action="store_true")
    asked = parser.parse_args()
    if Path.cwd() != BACKEND:
        sys.exit(f"Error: start me in {BACKEND}")
    if not (os.environ.get("CLAUDE_CODE_OAUTH_TOKEN") or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        sys.exit("Error: No OAuth token found. Authentication required: run `claude setup-token`")
    text = asked.task_file.read_text().strip() if asked.task_file else asked.task
    if not text or asked.interactive:
        input("What do you want to build? ")
    print("\x1b[1m╔════════════════════════╗\x1b[0m")
    print("║ SPEC CREATION ORCHESTRATOR ║")
    spec: Path = asked.spec_dir
    spec.mkdir(parents=True, exist_ok=True)
    ignore = asked.project_dir / ".gitignore"
    if ".auto-claude/" not in (ignore.read_text() if ignore.exists() else ""):
        with ignore.open("a") as file:
            file.write(".auto-claude/\n")
    if not (spec / "requirements.json").exists():
        (spec / "requirements.json").write_text(json.dumps({"task_description": text, "model": asked.model}))
        (spec / "spec.md").write_text(f"# Spec\n\n{text}\n")
    if not asked.auto_approve:
        sys.exit("Build cannot start: spec not approved.")
    (spec / "review_state.json").write_text(json.dumps({"approved": True, "approved_by": "auto"}))
    command = [sys.executable, str(BACKEND / "run.py"), "--spec", spec.name]
    command += ["--project-dir", str(asked.project_dir), "--auto-continue", *(["--direct"] if asked.direct else [])]
    sys.stdout.flush()
    os.execv(sys.executable, command)


main()
