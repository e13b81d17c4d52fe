"""The conformance suite: what must hold of every agent, tried on its real program with the installed command.

suite = Conformance(agent="mine", model="fake-model", key="MY_KEY", url="MY_BASE_URL", asks="/chat/completions")
for case in suite.cases:
    suite.check(case, empty_folder)      # raises AssertionError with what was wrong
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from corral.testing import noter
from corral.testing.command import Outcome, TerminalUser
from corral.testing.model import ScriptedModel, Turn, Usage
from corral.testing.repository import git
from corral.testing.stage import AgentSetup, Stage, expect, tagged_processes, until

#: Lines that nobody expects: broken JSON, JSON of other shapes, no text at all, very long ones.
JUNK = [
    {"text": "npm warn deprecated"},
    {"text": '{"type":'},
    {"text": '{"type": 7, "message": [], "item": "x", "part": null}'},
    {"text": '["result"]'},
    {"text": ""},
    {"base64": "/wAB/v8="},
    {"text": "x" * 100_000},
]
FLOOD_LINES = 5_000
NOTER = f'[mcp.noter]\ncommand = ["python3", "{noter.__file__}"]\n'


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


def works(stage: Stage) -> None:
    """It writes a file, runs a command, says what it does and what it used; junk among its lines does no harm."""
    turns = [
        Turn(text="I look.", sh='ln -s "$PWD" /tmp/here', usage=Usage(input=60, output=7)),
        Turn(
            text="I write it.",
            write={"path": "/tmp/here/hello.txt", "content": "hello\n"},  # noqa: S108 -- the box's own
            usage=Usage(input=40, output=13),
        ),
        Turn(text="I run it.", sh="cat hello.txt > copy.txt", usage=Usage(input=150, output=10)),
        Turn(text="Done.", usage=Usage(input=30, output=3)),
    ]
    before = git(stage.repo, "status", "--porcelain")
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        outcome = stage.run("--check", "test -s copy.txt", task="say hello")
        expect("say hello" in str([each.body for each in model.requests]), "the task did not reach the model", outcome)
    expect(outcome.code == 0, f"exit {outcome.code}", outcome)
    attempt, facts = outcome.attempt, stage.facts()
    expect(attempt["status"] == "done" and attempt["output"] == "Done.", "its last words are not its output", outcome)
    expect(bool(attempt["session"]) or not facts["resumes"], "it resumes, but its session is not known", outcome)
    expect(sorted(attempt["files_changed"]) == ["copy.txt", "hello.txt"], "the wrong files are changed", outcome)
    expect(git(stage.repo, "show", f"{attempt['branch']}:copy.txt") == "hello", "copy.txt is not right", outcome)
    expect(git(stage.repo, "status", "--porcelain") == before, "the user's checkout was touched", outcome)
    used = (attempt["tokens"]["input"], attempt["tokens"]["output"])
    wanted = (280, 33)  # reported by the program, or metered on the way
    expect(used == wanted, f"the tokens are {used}, not {wanted}", outcome)
    if not facts["reports_cost"]:
        expect(attempt["cost"]["usd"] is None or attempt["cost"]["source"] != "reported", "a cost of nobody's", outcome)
    events = stage.corral.events()
    kinds = {event["type"] for event in events}
    missing = {"started", "said", "called_tool", "tool_returned", "ended", "checked"} - kinds
    expect(not missing, f"these events are missing: {missing}", json.dumps(events)[-4000:])
    _survives_junk(stage, attempt)


def _survives_junk(stage: Stage, attempt: dict[str, Any]) -> None:
    """Play the very same attempt once more, with junk between its lines and a flood before them."""
    file = stage.corral.root / "with-junk.recording"
    recorded = stage.corral("export", "@last", "--recording", file)
    expect(recorded.code == 0, "it cannot be recorded", recorded)
    head, *entries = [json.loads(text) for text in file.read_text().splitlines()]
    mixed = [head, *[{"kind": "line", "at": 0.0, "text": "y"}] * FLOOD_LINES]
    for entry in entries:
        mixed += [{"kind": "line", "at": 0.0, **junk} for junk in JUNK] if entry["kind"] == "line" else []
        mixed.append(entry)
    file.write_text("\n".join(json.dumps(entry) for entry in mixed))
    words = ("run", "say hello", "--repo", stage.repo, "--agent", f"replay:{file}", "--json")
    outcome = stage.corral(*words, "--check", "test -s copy.txt")
    expect(outcome.code == 0, "junk among its lines makes it fail", outcome)
    reported = ("tokens",) if stage.facts()["reports_tokens"] else ()  # what was metered on the way is in no recording
    if attempt["cost"]["source"] == "reported":  # nor can a replay compute what the tokens of its model cost
        reported = (*reported, "cost")
    for name in ("output", "session", *reported, "files_changed"):
        expect(outcome.attempt[name] == attempt[name], f"junk among its lines changes its {name}", outcome)


def stops(stage: Stage) -> None:
    """Stopped in the middle, its work is kept and no process is left."""
    with ScriptedModel([Turn(text="I start.", sh="echo half > half.txt"), Turn(hang_seconds=600)]) as model:
        stage.point_to(model.url)
        with stage.corral.in_background(
            "run", "do it", "--repo", stage.repo, "--agent", stage.choice, "--json"
        ) as active:
            until(lambda: stage.count_work_requests(model) >= 2, "it asks its model twice")
            run = until(lambda: stage.corral("ls", "--json").json, "the run is there")[0]["run"]
            expect(bool(tagged_processes(f"CORRAL_ATTEMPT={run}")), "its processes are not to be seen", run)
            expect(stage.corral("stop", run).code == 0, "it cannot be stopped", run)
            outcome = active.end()
    expect(outcome.code == 130, f"exit {outcome.code}, not 130", outcome)
    expect(outcome.json["status"] == "stopped", "its status is not `stopped`", outcome)
    expect(not tagged_processes(f"CORRAL_ATTEMPT={run}"), "processes are left", outcome)
    kept = git(stage.repo, "show", f"{outcome.attempt['branch']}:half.txt")
    expect(kept == "half", "its work is not kept", outcome)


def resumes(stage: Stage) -> None:
    """Killed in the middle, its own session continues; where it cannot, it begins anew with the work that is there."""
    turns = [
        Turn(text="I start.", sh="echo half > half.txt"),
        Turn(hang_seconds=600, times=1, text="And the rest.", sh="echo whole > whole.txt"),
        Turn(text="And the rest.", sh="echo whole > whole.txt"),  # some count their interrupted turn
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        goes_on = stage.goes_on()
        with stage.corral.in_background(
            "run", "do it", "--repo", stage.repo, "--agent", stage.choice, "--json"
        ) as active:
            until(lambda: stage.count_work_requests(model) >= 2, "it asks its model twice")
            if goes_on:
                until(lambda: any(each["type"] == "started" for each in stage.corral.events()), "its session is known")
            active.process.kill()
            active.process.wait()
        outcome = stage.corral("resume", "@last", "--json")
        expect("half.txt" in str(model.work_requests[-1].body), "its history is not what it did before", outcome)
    expect(outcome.code == 0, f"exit {outcome.code}", outcome)
    first, second = outcome.json["nodes"][0]["attempts"]
    expect(second["retry_of"] == first["id"], "the second attempt does not continue the first", outcome)
    if goes_on:
        expect(second["session"] == first["session"], "the session is another one", outcome)
    else:
        expect(first["session"] is None, "its session was known", outcome)
    expect(set(second["files_changed"]) == {"half.txt", "whole.txt"}, "the wrong files are changed", outcome)


def refusal_case(case: str, status: int, message: str, kind: str) -> Callable[[Stage], None]:
    def check(stage: Stage) -> None:
        turn = Turn(status=stage.suite.statuses.get(case, status), message=message, retry_after_seconds=1)
        outcome = stage.fails(turn, kind)
        error = outcome.attempt["error"]
        expect(bool(error["hint"]) or kind not in ("auth", "not_found"), "there is no hint", outcome)

    return check


def silent(stage: Stage) -> None:
    """A model that never answers, a prompt nobody sees: it is ended when it has been silent for too long."""
    with ScriptedModel([Turn(hang_seconds=600)]) as model:
        stage.point_to(model.url)
        for patience in (1, 3, 9):  # on a busy machine it takes its time to start
            outcome = stage.run("--idle", f"{stage.suite.idle_seconds * patience}s", "--retries", "0")
            if model.requests:
                break
        run = outcome.json["run"]
        expect(bool(model.requests), "the model was not asked", outcome)
    expect(outcome.attempt["status"] == "timed_out", "its status is not `timed_out`", outcome)
    expect("said nothing" in outcome.attempt["error"]["message"], "it was not ended for its silence", outcome)
    expect(not tagged_processes(f"CORRAL_ATTEMPT={run}"), "processes are left", outcome)


def cut_stream(stage: Stage) -> None:
    """Answers that break off are never taken for work that was done."""
    with ScriptedModel([Turn(text="I write it now, wait. " * 20, sh="echo 1 > one.txt", drop=True)]) as model:
        stage.point_to(model.url)
        outcome = stage.run("--retries", "0", "--timeout", "45s")
        expect(bool(model.requests), "the model was not asked", outcome)
    expect(outcome.attempt["status"] != "done" or _has_work(stage, outcome), "done without the work", outcome)


def _has_work(stage: Stage, outcome: Outcome) -> bool:
    return "one.txt" in git(stage.repo, "ls-tree", "--name-only", outcome.attempt["branch"]).splitlines()


def read_only(stage: Stage) -> None:
    """A read-only task changes nothing, or it is not done."""
    turns = [Turn(text="I write all the same.", sh="echo 1 > one.txt"), Turn(text="Done.")]
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        outcome = stage.run("--read-only", "--retries", "0")
        expect(bool(model.requests), "the model was not asked", outcome)
    attempt = outcome.attempt
    expect(attempt["status"] != "done" or not attempt["files_changed"], "it is done with changed files", outcome)


def says_only(stage: Stage) -> None:
    """Words alone are no work."""
    stage.fails(Turn(text="Done, all fixed!"), "no_change")


def endpoint_down(stage: Stage) -> None:
    """Nobody listens at the provider's address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen: every connection is refused
        stage.point_to(f"http://127.0.0.1:{taken.getsockname()[1]}")
        stage.expect_error(stage.run("--retries", "0"), "network")


def bad_certificate(stage: Stage) -> None:
    """The provider's certificate is nobody's."""
    with SecureServer(Path(stage.corral.root)) as server:
        stage.point_to(server.url)
        outcome = stage.run("--retries", "0")
    stage.expect_error(outcome, "tls")


def calls_mcp_tool(stage: Stage) -> None:
    """It calls a tool of an MCP server that corral gave it; one that takes none works without, and that is said."""
    if not stage.facts()["mcp"]:
        _works_without_mcp(stage)
        return
    turns = [Turn(text="I note it.", tool=stage.suite.tool, input={"text": "seen"}), Turn(text="Noted.")]
    with ScriptedModel(turns) as model:
        stage.point_to(model.url)
        stage.corral.config(NOTER)
        outcome = stage.run()
    expect(outcome.code == 0, f"exit {outcome.code}, not 0", outcome)
    expect(outcome.attempt["files_changed"] == ["notes.txt"], "the tool was not called", outcome)


def _works_without_mcp(stage: Stage) -> None:
    with ScriptedModel([Turn(text="I write it.", sh="echo 1 > one.txt"), Turn(text="Done.")]) as model:
        stage.point_to(model.url)
        stage.corral.config(NOTER)
        outcome = stage.corral("run", "do it", "--repo", stage.repo, "--agent", stage.choice)
    expect(outcome.code == 0, f"exit {outcome.code}, not 0", outcome)
    expect("one.txt" in outcome.out + outcome.err, "it did not work", outcome)
    expect("takes no MCP servers" in outcome.err, "it is not said that it takes no MCP servers", outcome)


SHAPE = '{"verdict": ["accept", "reject"], "notes": "string"}'


def structured_output(stage: Stage) -> None:
    """Asked for an output of a certain shape, it gives that."""
    wanted = {"verdict": "accept", "notes": "it holds"}
    tool = stage.suite.output_tool
    good = Turn(text="Here it is.", tool=tool, input=wanted) if tool else Turn(text=f"Here:\n{json.dumps(wanted)}")
    with ScriptedModel([Turn(text="I look.", sh="ls"), good]) as model:
        stage.point_to(model.url)
        outcome = stage.run("--output", SHAPE, task="review it")
    expect(outcome.code == 0, f"exit {outcome.code}", outcome)
    expect(outcome.attempt["output"] == wanted, "its output is not what it gave", outcome)


def bad_output(stage: Stage) -> None:
    """What it says instead of an output of a certain shape is not taken: it is asked once more, and fails."""
    with ScriptedModel([Turn(text="Well, maybe.")] * 8) as model:
        stage.point_to(model.url)
        outcome = stage.run("--output", SHAPE, task="review it")
        asked = [json.dumps(each.body) for each in model.requests]
    expect(any("Your output does not fit" in body for body in asked), "it was not asked once more", outcome)
    stage.expect_error(outcome, "bad_output")


CASES: dict[str, Callable[[Stage], None]] = {
    "works": works,
    "says_only": says_only,
    "stopped": stops,
    "resumes": resumes,
    "wrong_key": refusal_case("wrong_key", 401, "invalid api key", "auth"),
    "expired_key": refusal_case("expired_key", 401, "API key expired. Please renew the API key.", "auth"),
    "unknown_model": refusal_case("unknown_model", 404, "model not found: fake-model", "not_found"),
    "limited": refusal_case("limited", 429, "rate limit reached", "rate_limit"),
    "overloaded": refusal_case("overloaded", 500, "internal server error", "overloaded"),
    "silent": silent,
    "cut_stream": cut_stream,
    "read_only": read_only,
    "endpoint_down": endpoint_down,
    "bad_certificate": bad_certificate,
    "calls_mcp_tool": calls_mcp_tool,
    "structured_output": structured_output,
    "bad_output": bad_output,
}


class SecureServer:
    """Answers every connection with a certificate of its own making."""

    def __init__(self, folder: Path) -> None:
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*words, *more], check=True, capture_output=True, timeout=60)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            connection.settimeout(10)
            with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)
