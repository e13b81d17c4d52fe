"""aider: `aider --message-file FILE --yes-always`; it prints text for users: its words are all there is to go by."""

from __future__ import annotations

import re
from collections import deque

from corral.agents.formats import error_words
from corral.agents.formats.usage import reported_tokens
from corral.model import ErrorClass, Failure, Tokens
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, Provider
from corral.model.events import AgentEvent, Changed, Ended, Said, Spent
from corral.model.values import usd_or_none

PROMPT_FILE = ".aider/prompt.txt"
#: A fresh price list, so that it does not fetch one.
PRICES_FILE = ".aider/caches/model_prices_and_context_window.json"
MOST_KEPT = 1000  #: lines of what it said, for its last words
QUIET = {
    "AIDER_ANALYTICS": "false",
    "AIDER_CHECK_UPDATE": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
HINTS: dict[ErrorClass, str] = {
    "auth": "set the key of the model's provider, such as OPENAI_API_KEY or ANTHROPIC_API_KEY",
    "not_found": "is the model's name right? --agent aider:PROVIDER/MODEL",
    "context_too_long": "give it a smaller task or fewer files",
}


class Aider:
    facts = AgentFacts(
        name="aider",
        family="aider",
        programs=("aider",),
        keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"),
        address=("OPENAI_BASE_URL",),
        provider=Provider(address="OPENAI_BASE_URL", keys=("OPENAI_API_KEY",)),
        hosts=(
            "api.openai.com",
            "api.anthropic.com",
            "generativelanguage.googleapis.com",
            "api.deepseek.com",
            "openrouter.ai",
        ),
        reports_cost=True,
        models="PROVIDER/MODEL",
        install="uv tool install aider-chat",
        oldest="0.86.2",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        url = self._profile.settings.get("OPENAI_BASE_URL")
        arguments = ["--message-file", f"{task.home}/{PROMPT_FILE}", "--yes-always", "--no-pretty", "--no-stream"]
        arguments += ["--analytics-disable", "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings"]
        # The engine commits; and nothing of its own belongs into the result.
        arguments += ["--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-detect-urls"]
        arguments += ["--input-history-file", f"{task.home}/.aider/input", "--llm-history-file", "/dev/null"]
        arguments += ["--chat-history-file", f"{task.home}/.aider/chat.md"]
        arguments += ["--suggest-shell-commands" if task.boxed else "--no-suggest-shell-commands"]
        if model := task.model or self._profile.model:
            arguments += ["--model", model if "/" in model or not url else f"openai/{model}"]
        if task.read_only:
            arguments += ["--chat-mode", "ask"]
        return Command(
            argv=(self._profile.program or "aider", *arguments),
            env={**QUIET, **({"OPENAI_API_BASE": url} if url else {})},
            files={
                PROMPT_FILE: task.prompt.encode(),
                PRICES_FILE: b'{"none":{}}',
                ".config/git/ignore": b".aider*\n",  # its cache lies in the workspace
            },
        )

    def converse(self, _: AgentTask) -> AiderConversation:
        return AiderConversation()


_EDITED = re.compile(r"^Applied edit to (.+)$")
_USED = r"^Tokens: ([\d.,]+)(k|M)? sent,(?:.*?([\d.,]+)(k|M)? cache hit,)?.*?([\d.,]+)(k|M)? received\.(.*)$"
_SESSION_COST = re.compile(r"\$([\d.]+) session")
_TROUBLE = re.compile(r"^(?:litellm\.\w+|\w*Error:|The API provider|Model .* has hit a token limit)")
_REFUSED_EDIT = re.compile(r"^(?:The LLM did not conform to the edit format|# \d+ SEARCH/REPLACE block.* failed)")


class AiderConversation:
    """It ends with 0 also when the provider refused it: an answer must have been counted, and no trouble follow it."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_KEPT)
        self._tokens = Tokens()
        self._answered = False
        self._trouble = ""
        self._misfit = ""

    def read(self, line: str) -> list[AgentEvent]:
        if edited := _EDITED.match(line):
            return [Changed(edited[1])]
        if used := re.match(_USED, line):  # compiled when first needed: it is slow
            return [self._spent_event(used)]
        if _TROUBLE.match(line):
            self._trouble, self._answered = f"{self._trouble} {line}".strip()[-error_words.MOST_WORDS :], False
        if _REFUSED_EDIT.match(line):
            self._misfit = line
        if not line.strip():
            return []
        self._lines.append(line)
        return [Said(line)]

    def exited(self, end: End) -> list[AgentEvent]:
        text = "\n".join(self._lines)
        if self._trouble:
            return error_words.failed(None, self._trouble, text=text, hints=HINTS)
        if end.code != 0 or not self._answered:
            return error_words.no_result("aider", end.code, end.stderr or text, text=text, hints=HINTS)
        if self._misfit:
            return [Ended(ok=False, text=text, error=Failure("bad_output", self._misfit))]
        return [Ended(ok=True, text=text)]

    def _spent_event(self, used: re.Match[str]) -> Spent:
        self._answered, self._trouble, self._misfit = True, "", ""
        hit = _number(used[3], used[4])
        sent, received = _number(used[1], used[2]), _number(used[5], used[6])
        self._tokens += reported_tokens(sent, received, hit, counts_cached=True)
        cost = _SESSION_COST.search(used[7])
        return Spent(self._tokens, usd_or_none(cost[1]) if cost else None)


def _number(digits: str | None, unit: str | None) -> float:
    try:
        return round(float((digits or "0").replace(",", "")) * {"k": 1000, "M": 1_000_000}.get(unit or "", 1), 3)
    except ValueError:
        return 0.0


AGENTS = {"aider": Aider}  #: by the names they are asked for
