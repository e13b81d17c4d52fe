"""An editor as tests play it: it speaks ACP to the installed `corral acp` line by line, and keeps every line it got."""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from tests.rig.acp_schema import check_answer, check_call
from tests.rig.command import Corral
from tests.rig.repository import Repo

TIMEOUT_SECONDS = 120.0
Message = dict[str, Any]
Reply = Callable[[Message], Message | None]  #: makes the result of a request of the agent; None: no answer


class Editor:
    """One client of one process. What the agent sends is checked against the official schema as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.got: list[Message] = []
        self.calls: list[Message] = []  #: requests of the agent
        self.reply: Reply = lambda _: None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._methods: dict[Any, str] = {}  #: of requests that are not answered
        self._answers: dict[Any, Message] = {}
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        with contextlib.suppress(ValueError, OSError):  # the test is over and has closed it
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put(b"")

    # --- out

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def begin(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._number += 1
        self._methods[self._number] = method
        self.send(id=self._number, method=method, params=params)
        return self._number

    def request(self, method: str, **params: Any) -> Message:
        """Send a request and return its result."""
        return self.result(self.begin(method, **params))

    def refused(self, method: str, **params: Any) -> Message:
        """Send a request that must fail; return its error."""
        return self.error(self.begin(method, **params))

    # --- in

    def result(self, number: Any) -> Message:
        answer = self.answer(number)
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, number: Any) -> Message:
        answer = self.answer(number)
        assert "error" in answer, answer
        return answer["error"]

    def answer(self, number: Any) -> Message:
        self.until(lambda: number in self._answers, f"an answer to {number}")
        return self._answers.pop(number)

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Take lines until something has happened."""
        while not (found := happened()):
            try:
                line = self._lines.get(timeout=TIMEOUT_SECONDS)
            except queue.Empty:
                raise AssertionError(f"waited for {what}; got {self.got[-5:]}") from None
            assert line, f"the agent is gone; waited for {what}; got {self.got[-5:]}"
            self._take(line)
        return found

    def next_line(self) -> bytes:
        """Return the next line as it came, for a client that reads for itself."""
        line = self._lines.get(timeout=TIMEOUT_SECONDS)
        assert line, "the agent is gone"
        return line

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        self.got.append(message)
        if "method" not in message:
            check_answer(self._methods.pop(message["id"], None), message)
            self._answers[message["id"]] = message
            return
        check_call(message)
        if "id" in message:
            self.calls.append(message)
            result = self.reply(message)
            if result is not None:
                self.send(id=message["id"], result=result)

    # --- what came

    def updates(self, kind: str | None = None, session: str | None = None) -> list[Message]:
        found = [each["params"] for each in self.got if each.get("method") == "session/update"]
        return [
            each["update"]
            for each in found
            if kind in (None, each["update"]["sessionUpdate"]) and session in (None, each["sessionId"])
        ]

    def until_update(self, kind: str, fits: Callable[[Message], Any] = lambda _: True) -> Message:
        return self.until(lambda: next((each for each in self.updates(kind) if fits(each)), None), f"an update {kind}")

    @property
    def said(self) -> str:
        return "".join(each["content"]["text"] for each in self.updates("agent_message_chunk"))

    # --- what editors do

    def initialize(self, capabilities: Message | None = None) -> Message:
        return self.request(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities or {},
            clientInfo={"name": "test editor", "version": "1.0"},
        )

    def new_session(self, folder: Repo | Path, servers: Sequence[Message] = ()) -> str:
        cwd = folder.folder if isinstance(folder, Repo) else folder
        return self.request("session/new", cwd=str(cwd), mcpServers=list(servers))["sessionId"]

    def begin_prompt(self, session: str, text: str, *blocks: Message) -> int:
        return self.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}, *blocks])

    def prompt(self, session: str, text: str, *blocks: Message) -> str:
        """Send a prompt and return why its turn ended."""
        return self.result(self.begin_prompt(session, text, *blocks))["stopReason"]

    def choose(self, session: str, **options: str) -> None:
        for option, value in options.items():
            self.request("session/set_config_option", sessionId=session, configId=option, value=value)

    def hang_up(self) -> int:
        """Close our side; return with which code the agent ended."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(TIMEOUT_SECONDS)


def choosing(*chosen: str) -> Reply:
    """Answer permission requests with these, one after another; the last one from then on."""
    left = list(chosen)

    def reply(call: Message) -> Message:
        assert call["method"] == "session/request_permission", call
        option = left.pop(0) if len(left) > 1 else left[0]
        assert option in [each["optionId"] for each in call["params"]["options"]], call
        return {"outcome": {"outcome": "selected", "optionId": option}}

    return reply


@contextlib.contextmanager
def editor(corral: Corral, *arguments: str) -> Generator[Editor]:
    """Start `corral acp` and connect to it."""
    with corral.start("acp", *arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        try:
            yield Editor(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(TIMEOUT_SECONDS)


def statuses(client: Editor, call: Message) -> list[str]:
    """Return the states that a tool call went through after its beginning."""
    changes = [each for each in client.updates("tool_call_update") if each["toolCallId"] == call["toolCallId"]]
    return [each["status"] for each in changes if "status" in each]


def runs_of(corral: Corral, session: str) -> list[Message]:
    """Return the documents of the runs that a session started, oldest first."""
    listed = corral("ls", "--label", f"acp={session}", "--json").json
    return [corral("show", each["run"], "--json").json for each in reversed(listed)]
