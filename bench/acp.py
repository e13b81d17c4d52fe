"""`corral acp` as an editor sees it: its first answer, the first update of a prompt, a line of an agent."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import Promise, interleaved
from corral.frontends.client import Client
from tests.rig.command import PROGRAM, Corral
from tests.rig.repository import Repo
from tests.rig.server import serving

ROUNDS = 9
#: Waits until it is known who watches, then says when it spoke; the end of its line is the time.
SPEAKS = "sleep 1; printf 'spoken at %s\\n' $(date +%s.%N); sleep 1"


class Process:
    """`corral acp`, spoken to line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._number = process, 0

    def ask(self, method: str, **params: object) -> int:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return self._number

    def until(self, fits: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        assert self._process.stdout
        while True:
            message = json.loads(self._process.stdout.readline())
            if fits(message):
                return message

    def answer(self, number: int) -> dict[str, Any]:
        return self.until(lambda message: message.get("id") == number and "method" not in message)["result"]

    def initialize(self) -> None:
        self.answer(self.ask("initialize", protocolVersion=1, clientCapabilities={}))

    def session(self, repo: Repo) -> str:
        opened = self.answer(self.ask("session/new", cwd=str(repo.folder), mcpServers=[]))["sessionId"]
        self.answer(self.ask("session/set_config_option", sessionId=opened, configId="merge", value="never"))
        return opened


@contextmanager
def served(person: Corral) -> Generator[Process]:
    words, pipe = [str(PROGRAM), "acp"], subprocess.PIPE
    with subprocess.Popen(
        words, env=person.env, cwd=person.root, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        person = Corral(Path(name))
        person.agent("mine", "echo x > x.txt")
        person.agent("speaker", SPEAKS, "cost_usd = 0.0")
        person.config('[defaults]\nagent = "mine"\n')
        return [_start(person), _first_update(person, person.repo()), _line(person, person.repo("spoken"))]


def _start(person: Corral) -> Promise:
    def begin() -> None:
        with served(person) as process:
            process.initialize()

    def nothing() -> None:
        subprocess.run([sys.executable, "-c", "pass"], env=person.env, check=True)

    bare, ours = interleaved(ROUNDS, nothing, begin)
    return Promise("corral acp, until initialize is answered (goal 4)", "python -c pass", ours / bare, 8.0)


def _first_update(person: Corral, repo: Repo) -> Promise:
    with served(person) as process:
        process.initialize()
        taken: list[float] = []

        def prompt() -> None:
            session = process.session(repo)
            started = time.perf_counter()
            number = process.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "write"}])
            process.until(lambda message: message.get("method") == "session/update" and "Run `" in json.dumps(message))
            taken.append(time.perf_counter() - started)
            process.answer(number)

        def detach() -> None:
            words = [str(PROGRAM), "run", "write", "--detach", "--json"]
            subprocess.run(words, env=person.env, cwd=repo.folder, check=True, capture_output=True)

        bare, _ = interleaved(ROUNDS, detach, prompt)
    return Promise("the first update after a prompt", "corral run --detach", statistics.median(taken[1:]) / bare, 1.5)


def _line(person: Corral, repo: Repo) -> Promise:
    by_acp: list[float] = []
    by_sse: list[float] = []
    with serving(person, person.root) as server, served(person) as process:
        process.initialize()
        for _ in range(ROUNDS):
            session = process.session(repo)
            process.answer(
                process.ask("session/set_config_option", sessionId=session, configId="agent", value="speaker")
            )
            number = process.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "speak"}])
            heard = process.until(lambda message: "spoken at " in json.dumps(message))
            by_acp.append(time.time() - _spoken(json.dumps(heard)))
            process.answer(number)
            by_sse.append(_by_events(server.client, repo))
    ratio = statistics.median(by_acp) / statistics.median(by_sse)
    return Promise("a line of an agent, until the editor has it", "the same by server-sent events", ratio, 1.5)


def _by_events(client: Client, repo: Repo) -> float:
    run = client.submit("speak", repo=str(repo.folder), agents=["speaker"]).run
    for event in client.events(run):
        if "spoken at " in (words := str(event.fields)):
            late = time.time() - _spoken(words)
            client.wait(run)
            return late
    raise AssertionError(f"run {run} said nothing")


def _spoken(words: str) -> float:
    return float(words.split("spoken at ", 1)[1][:20])
