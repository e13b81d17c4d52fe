"""The program behind the scripted agent: plays the steps of a TOML file in its workspace. Standard library only.

python player.py SCRIPT TRY SESSION        (on stdin: {"prompt": ...}, later {"ask": ..., "answer": ...})
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

KINDS = ("say", "write", "edit", "delete", "run", "spend", "fail", "hang", "ask", "limit", "print", "exit", "end")
CLASSES = (
    "not_found", "auth", "rate_limit", "overloaded", "network", "tls", "context_too_long", "refused", "denied",
    "bad_output", "no_change", "check_failed", "scope_violation", "crash", "memory", "disk", "processes", "flood",
    "budget", "doubtful",
)  # fmt: skip


def tell(kind: str, **fields: object) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


class Player:
    """Plays one script once."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.answer = ""
        self.calls = self.asks = 0
        self.usd = 0.0
        self.tokens = {"input": 0, "output": 0}

    def play(self, step: dict[str, Any]) -> bool:
        """Play one step; return True when it was the last."""
        kind = next((kind for kind in KINDS if kind in step), None)
        if kind is None:
            sys.stderr.write(f"player: a step has none of: {', '.join(KINDS)}\n")
            sys.exit(64)
        return bool(getattr(self, f"do_{kind}")(step[kind], step))

    def _fill_placeholders(self, text: str) -> str:
        return text.replace("{prompt}", self.prompt).replace("{answer}", self.answer)

    def _tool(self, tool: str, shown: str) -> str:
        self.calls += 1
        call = f"call-{self.calls}"
        tell("called_tool", tool=tool, input=shown, call=call)
        return call

    def do_say(self, text: str, _: dict[str, Any]) -> None:
        tell("said", text=self._fill_placeholders(text))

    def do_write(self, path: str, step: dict[str, Any]) -> None:
        call = self._tool("write", path)
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._fill_placeholders(step.get("text", "")))
        tell("tool_returned", call=call, ok=True)
        tell("changed", path=path)

    def do_edit(self, path: str, step: dict[str, Any]) -> None:
        call = self._tool("edit", path)
        text = Path(path).read_text()
        if step["find"] not in text:
            tell("tool_returned", call=call, ok=False, output=f"`{step['find']}` is not in {path}")
            return
        Path(path).write_text(text.replace(step["find"], self._fill_placeholders(step["replace"]), 1))
        tell("tool_returned", call=call, ok=True)
        tell("changed", path=path)

    def do_delete(self, path: str, _: dict[str, Any]) -> None:
        call = self._tool("delete", path)
        Path(path).unlink()
        tell("tool_returned", call=call, ok=True)
        tell("changed", path=path)

    def do_run(self, line: str, _: dict[str, Any]) -> None:
        call = self._tool("run", line)
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 -- that is its task
        tell("tool_returned", call=call, ok=done.returncode == 0, output=(done.stdout + done.stderr)[-2000:])

    def do_spend(self, usd: float, step: dict[str, Any]) -> None:
        self.usd += usd
        for name in self.tokens:
            self.tokens[name] += step.get(name, 0)
        tell("spent", usd=round(self.usd, 6), tokens=self.tokens)

    def do_fail(self, kind: str, step: dict[str, Any]) -> bool:
        if kind not in CLASSES:
            sys.stderr.write(f"player: fail = {kind!r} is none of: {', '.join(CLASSES)}\n")
            sys.exit(64)
        words = step.get("text", f"the script failed on purpose: {kind}")
        tell("ended", ok=False, text=words, error={"class": kind, "message": words})
        return True

    def do_hang(self, seconds: float, _: dict[str, Any]) -> None:
        time.sleep(seconds)

    def do_ask(self, question: str, step: dict[str, Any]) -> None:
        self.asks += 1
        ask = f"ask-{self.asks}" if step.get("wait") else ""  # nobody waits for what has no name
        tell("asked", question=question, ask=ask, choices=step.get("choices", []), default=step.get("default", ""))
        while ask:
            line = sys.stdin.readline()
            reply = json.loads(line) if line else {"ask": ask, "answer": ""}
            if reply["ask"] == ask:
                self.answer = reply["answer"]
                return

    def do_limit(self, seconds: float, step: dict[str, Any]) -> bool:
        words = step.get("text", "usage limit reached")
        tell("limited", message=words, until=time.time() + seconds)
        tell("ended", ok=False, text=words, error={"class": "rate_limit", "message": words})
        return True

    def do_print(self, text: str, step: dict[str, Any]) -> None:
        for _ in range(step.get("times", 1)):
            sys.stdout.write(text)
        sys.stdout.flush()

    def do_exit(self, code: int, _: dict[str, Any]) -> None:
        os._exit(code)

    def do_end(self, text: str, _: dict[str, Any]) -> bool:
        tell("ended", ok=True, text=self._fill_placeholders(text))
        return True


def main() -> None:
    script, number, session = sys.argv[1:4]
    steps: list[dict[str, Any]] = tomllib.loads(Path(script).read_text()).get("step", [])
    tell("started", session=session or f"scripted-{os.getpid()}-{time.time_ns()}", model="scripted")
    player = Player(json.loads(sys.stdin.readline())["prompt"])
    for step in steps:
        if step.get("try", int(number)) != int(number) or step.get("resumed", bool(session)) != bool(session):
            continue
        if player.play(step):
            return
    tell("ended", ok=True, text="the script is at its end")


if __name__ == "__main__":
    main()
