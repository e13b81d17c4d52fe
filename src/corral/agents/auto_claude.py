"""Auto-Claude: one command plans and builds; what became of it is in its plan, never in its exit code."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct, field

from corral.agents.formats import error_words
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.protocol import Heard
from corral.model import ErrorClass, Failure
from corral.model.agent_api import (
    AgentFacts,
    AgentProfile,
    AgentTask,
    Cancel,
    Command,
    End,
    Leave,
    Pause,
    Provider,
    Steer,
    Telling,
)
from corral.model.errors import BadRequest
from corral.model.events import AgentEvent, Ended, Said, Started, SteerTaken

SPECS = ".auto-claude/specs"  #: below the workspace
PHASE = "__EXEC_PHASE__:"
MOST_KEPT = 200  #: lines of what it said last
HINTS: dict[ErrorClass, str] = {
    "auth": "set CLAUDE_CODE_OAUTH_TOKEN (`claude setup-token` makes one); ANTHROPIC_API_KEY is not taken",
    "bad_output": "`corral logs` shows what it said",
}
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class AutoClaude:
    """`program` is the interpreter of its backend: `.venv/bin/python` below apps/backend."""

    facts = AgentFacts(
        name="auto-claude",
        reports_tokens=False,
        family="auto-claude",
        programs=("auto-claude",),
        version=(),
        place="AUTO_CLAUDE_HOME",
        keys=("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
        address=("ANTHROPIC_BASE_URL",),
        provider=Provider(
            address="ANTHROPIC_BASE_URL", standard="https://api.anthropic.com", keys=("ANTHROPIC_AUTH_TOKEN",)
        ),
        hosts=("api.anthropic.com", "platform.claude.com"),
        login=(".claude/.credentials.json",),
        resumes=True,
        models="sonnet, opus, ...",
        install="clone AndyMik90/Auto-Claude, in its apps/backend: uv venv && uv pip install -r requirements.txt; "
        "then say where it is: AUTO_CLAUDE_HOME=/path/to/Auto-Claude",
        steers="turn",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        if task.read_only:
            raise BadRequest("the agent `auto-claude` builds: it cannot only look", hint="ask `claude` instead")
        program = self._profile.program or "auto-claude"
        backend, spec = str(PurePosixPath(program).parent.parent.parent), _spec(task)
        task_file = f".auto-claude/{spec}.md"
        arguments = ["--task-file", f"{task.home}/{task_file}", "--project-dir", task.workspace]
        arguments += ["--spec-dir", f"{task.workspace}/{SPECS}/{spec}", "--auto-approve", "--direct"]
        env = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
            env["AUTO_BUILD_MODEL"] = model  # the first is of the planning alone
        for option in ("complexity", "thinking-level"):
            if value := self._profile.settings.get("AUTO_CLAUDE_" + option.replace("-", "_").upper()):
                arguments += [f"--{option}", value]
        return Command(
            argv=(program, f"{backend}/runners/spec_runner.py", *arguments),
            env=env,
            cwd=backend,
            files={}
            if task.interrupted
            else {task_file: task.prompt.encode()},  # what it was asked first lies there still
            programs=(backend,),
            read_back=(_plan_file(spec), _input_file(spec)),
        )

    def converse(self, task: AgentTask) -> AutoClaudeConversation:
        return AutoClaudeConversation(_spec(task), task.prompt if task.interrupted else "")


def _spec(task: AgentTask) -> str:
    """Name the folder of its plan: the one it was cut off in, or one for each prompt."""
    if task.session and task.interrupted:
        return task.session
    return f"001-corral-{zlib.crc32(task.prompt.encode()):08x}"


def _plan_file(spec: str) -> str:
    return f"{SPECS}/{spec}/implementation_plan.json"


def _input_file(spec: str) -> str:
    return f"{SPECS}/{spec}/HUMAN_INPUT.md"


class _Phase(Struct):
    phase: str
    message: str = ""
    progress: object = None
    subtask: str | None = None


class _Subtask(Struct):
    status: str = "pending"


class _PlanPhase(Struct):
    subtasks: list[_Subtask] = field(default_factory=list[_Subtask])
    chunks: list[_Subtask] = field(default_factory=list[_Subtask])  # what older versions called them


class _Signoff(Struct):
    status: str = ""


class _Plan(Struct):
    phases: list[_PlanPhase] = field(default_factory=list[_PlanPhase])
    qa_signoff: _Signoff | None = None

    def subtasks(self) -> list[str]:
        return [each.status for phase in self.phases for each in (*phase.subtasks, *phase.chunks)]

    def is_complete(self) -> bool:
        """Tell whether all is built and its own QA has approved it."""
        done = self.subtasks()
        return bool(done) and set(done) == {"completed"} and self._qa() == "approved"

    def words(self) -> str:
        done = self.subtasks()
        broken = [status for status in ("failed", "blocked") if status in done]
        also = "".join(f", {done.count(status)} {status}" for status in broken)
        return f"{done.count('completed')} of {len(done)} subtasks completed{also}; QA: {self._qa() or 'no verdict'}"

    def _qa(self) -> str:
        return self.qa_signoff.status.replace("_", " ") if self.qa_signoff else ""


_PHASE = msgspec.json.Decoder(_Phase)


class AutoClaudeConversation:
    """Reads its phases and lines; what a user adds is left in a file that it reads before each subtask."""

    def __init__(self, spec: str, going_on: str) -> None:
        self._spec, self._resumes = spec, going_on
        self._started = False
        self._last: _Phase | None = None
        self._kept: deque[str] = deque(maxlen=MOST_KEPT)
        self._pending_steers: list[str] = []

    def read(self, line: str) -> list[Heard]:
        text = _COLOURS.sub("", line).rstrip()
        heard: list[Heard] = [] if self._started else self._begin()
        if PHASE in text:
            heard += self._phase(text.partition(PHASE)[2])
        elif any(char.isalnum() for char in text):  # not a frame drawn around words
            self._kept.append(text.strip(" │║┃"))
            heard.append(Said(self._kept[-1]))
        return heard

    def tell(self, order: Telling) -> list[Leave]:
        match order:
            case Steer(text=text):
                self._pending_steers.append(text)
                return [self._input("\n\n".join(self._pending_steers))]
            case Cancel():
                return [Leave(f"{SPECS}/{self._spec}/PAUSE", b"stopped by the user\n")]
            case Pause():
                return []

    def exited(self, end: End) -> Sequence[AgentEvent]:
        applied = self._steers_taken_in(end.files.get(_input_file(self._spec), b""))
        return [*applied, *self._ending(end, _plan(end.files.get(_plan_file(self._spec), b"")))]

    def _begin(self) -> list[Heard]:
        self._started = True
        going_on = [self._input(self._resumes)] if self._resumes else []
        return [Started(session=self._spec), *going_on]

    def _input(self, text: str) -> Leave:
        return Leave(_input_file(self._spec), text.encode() + b"\n")

    def _phase(self, text: str) -> list[Heard]:
        try:
            phase = decode(_PHASE, text.strip())
        except UNREADABLE:
            return [Said(text)]
        self._last = phase
        about = f" ({phase.subtask})" if phase.subtask else ""
        progress = _share(phase.progress)
        return [Said(f"{phase.phase.replace('_', ' ')}{about}: {phase.message}{progress}")]

    def _steers_taken_in(self, left: bytes) -> list[AgentEvent]:
        """It empties the file, or takes it away, once it has taken in what is there."""
        if left.strip():
            return []
        return [SteerTaken(text) for text in self._pending_steers]

    def _ending(self, end: End, plan: _Plan | None) -> list[AgentEvent]:
        said = "\n".join(self._kept)
        message = self._last.message if self._last else ""
        failed = self._last is not None and self._last.phase == "failed"
        if end.code == 0 and plan and plan.is_complete() and not failed:
            return [Ended(ok=True, text=message or plan.words())]
        if end.code != 0 or plan is None:
            words = message if failed else f"{said}\n{end.stderr}"
            return error_words.no_result("auto-claude", end.code, words, text=said, hints=HINTS)
        words = plan.words() + (f"; {message}" if message else "")
        kind = error_words.error_class(error_words.status_in(message), message)
        if failed and kind != "crash":
            return error_words.failed(None, message, text=said, hints=HINTS)
        return [
            Ended(ok=False, text=said, error=Failure("bad_output", f"it is not done: {words}", HINTS["bad_output"]))
        ]


def _share(progress: object) -> str:
    known = isinstance(progress, int | float) and not isinstance(progress, bool) and 0 <= progress <= 100
    return f", {progress:.0f} %" if known else ""


def _plan(content: bytes) -> _Plan | None:
    try:
        return msgspec.json.decode(content, type=_Plan)
    except UNREADABLE:
        return None


AGENTS = {"auto-claude": AutoClaude}  #: by the names they are asked for
