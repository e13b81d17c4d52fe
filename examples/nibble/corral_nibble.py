"""nibble as an agent of corral: the task on stdin, JSON lines on stdout."""

import msgspec
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End
from corral.agents.formats import error_words
from corral.model.events import AgentEvent, CalledTool, Changed, Said, Spent, Started, ToolReturned, Unparsed
from corral.model import Tokens

HINTS = {"auth": "set NIBBLE_KEY", "not_found": "is the model's name right? --agent nibble:MODEL"}


class Nibble:
    facts = AgentFacts(
        name="nibble",
        family="nibble",
        programs=("nibble",),
        keys=("NIBBLE_KEY",),
        resumes=True,
        install="copy it from examples/nibble to a folder of your PATH",
        oldest="1.2.0",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        argv = [self._profile.program or "nibble", "--model", task.model or self._profile.model or "small"]
        argv += ["--resume", task.session] if task.session else []
        return Command(argv=tuple(argv), stdin=task.prompt.encode())

    def converse(self, _: AgentTask) -> "Conversation":
        return Conversation()


class Line(msgspec.Struct):
    event: str
    session: str | None = None
    text: str = ""
    id: str = ""
    name: str = ""
    input: int | str | None = None  # tokens of `used`, or what a tool is called with
    output: int | str = ""
    ok: bool = False
    path: str | None = None
    status: int | None = None


class Conversation:
    def __init__(self) -> None:
        self._tokens, self._ended, self._used_tools = Tokens(), False, False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            message = msgspec.json.decode(line, type=Line)
        except (msgspec.DecodeError, UnicodeError):
            return [Unparsed(line)]
        match message.event:
            case "begin":
                return [Started(message.session)]
            case "text":
                return [Said(message.text)]
            case "call":
                self._used_tools = True
                return [CalledTool(message.name, str(message.input or ""), message.id)]
            case "result":
                returned = ToolReturned(message.id, message.ok, str(message.output)[:2000])
                return [returned, Changed(message.path)] if message.path and message.ok else [returned]
            case "used" if isinstance(message.input, int) and isinstance(message.output, int):
                self._tokens += Tokens(message.input, message.output)
                return [Spent(self._tokens)]
            case "end":
                self._ended = True
                if message.ok:
                    return [error_words.ended_well(message.text, used_tools=self._used_tools)]
                return error_words.failed(message.status, message.text, hints=HINTS)
        return []

    def exited(self, end: End) -> list[AgentEvent]:
        return [] if self._ended else error_words.no_result("nibble", end.code, end.stderr, hints=HINTS)
