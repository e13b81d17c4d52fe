"""Any command as an agent, and the commands of a flow's own nodes."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import structs

from corral.agents.formats import command_output
from corral.agents.formats.command_output import READERS, TextOutput
from corral.agents.protocol import Conversation
from corral.model import Tokens
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End
from corral.model.errors import BadRequest
from corral.model.events import AgentEvent, Ended, Spent

MOST_ARGUMENT = 100_000  #: the kernel refuses single arguments over 128 KiB
PROMPT_FILE = ".corral/prompt.txt"
NAME = "shell"


class AnyCommand:
    def __init__(self, name: str, profile: AgentProfile, reader: Callable[[], Conversation] | None = None) -> None:
        self._profile, self._reader = profile, reader
        _try_patterns(name, profile)
        self.facts = AgentFacts(
            name=name,
            family=f"cli:{name}",
            programs=(profile.command[0],),
            version=(),
            reports_cost=bool(profile.cost) or profile.cost_usd is not None,
        )

    def interact(self, task: AgentTask) -> Command | None:
        if not self._profile.interactive:
            return None
        values = {"{model}": task.model or self._profile.model or "", "{workspace}": task.workspace}
        return Command(argv=tuple(_fill_placeholders(word, values) for word in self._profile.interactive))

    def start(self, task: AgentTask) -> Command:
        prompt_file = f"{task.home}/{PROMPT_FILE}"
        by = self._profile.prompt
        if by == "argument" and len(task.prompt.encode()) > MOST_ARGUMENT:
            raise BadRequest(
                f"the task is too long for an argument of `{self.facts.name}` ({len(task.prompt.encode()):,} bytes)",
                hint='set prompt = "stdin" or prompt = "file" for this agent',
            )
        values = {
            "{prompt}": {"argument": task.prompt, "stdin": "-", "file": prompt_file}[by],
            "{file}": prompt_file,
            "{model}": task.model or self._profile.model or "",
            "{workspace}": task.workspace,
        }
        template = list(self._profile.command)
        if by != "stdin" and not any("{prompt}" in word or "{file}" in word for word in template):
            template.append("{prompt}")
        return Command(
            argv=tuple(_fill_placeholders(word, values) for word in template),
            stdin=task.prompt.encode() if by == "stdin" else b"",
            files={PROMPT_FILE: task.prompt.encode()} if by == "file" else {},
        )

    def converse(self, _: AgentTask) -> Conversation:
        conversation = self._reader() if self._reader else READERS[self._profile.output](self._profile)
        return command_output.conversation(conversation, self._profile.errors) if self._profile.errors else conversation


def _try_patterns(name: str, profile: AgentProfile) -> None:
    """Refuse a pattern that is none before anything starts."""
    patterns = {"success": profile.success} if profile.output == "text" else {}
    if profile.output == "regex":
        patterns = {key: getattr(profile, key) for key in ("result", "success", "cost", "tokens")}
    for key, pattern in patterns.items():
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise BadRequest(
                f"agents.{name}.{key}: `{pattern}` is not a pattern: {error}", hint="a regular expression of Python"
            ) from error


def _fill_placeholders(word: str, values: dict[str, str]) -> str:
    # One pass: what is inside a prompt is not a placeholder.
    return re.sub(r"\{(?:prompt|file|model|workspace)\}", lambda match: values.get(match.group(), ""), word)


class Shell:
    facts = AgentFacts(name=NAME, family=NAME, programs=("/bin/sh",), version=(), reports_cost=True)

    def start(self, task: AgentTask) -> Command:
        return Command(argv=("/bin/sh", "-c", task.prompt))

    def converse(self, _: AgentTask) -> Conversation:
        return _FreeConversation(TextOutput(AgentProfile(command=("/bin/sh",))))


class _FreeConversation:
    """Reads it as any command that prints text, and says that it cost nothing."""

    def __init__(self, text: Conversation) -> None:
        self.read = text.read
        self._text = text

    def exited(self, end: End) -> list[AgentEvent]:
        return [Spent(Tokens(), 0.0), *map(_mark_lasting, self._text.exited(end))]


def _mark_lasting(event: AgentEvent) -> AgentEvent:
    """A command that failed says so itself: the same again would end the same, unless the file asks for tries."""
    if isinstance(event, Ended) and event.error:
        return structs.replace(event, error=structs.replace(event.error, lasting=True))
    return event
