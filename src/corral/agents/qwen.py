"""Qwen Code: `qwen --output-format stream-json`, the prompt on stdin; it prints Claude's format."""

from __future__ import annotations

import msgspec

from corral.agents.formats import error_words, mcp_config
from corral.agents.formats.stream_json import Dialect, StreamJson
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, Provider

WRITERS = ("write_file", "edit", "notebook_edit")
DIALECT = Dialect(
    program="qwen",
    writers=WRITERS,
    counts_cached=True,
    hints={
        "auth": "set OPENAI_API_KEY, and OPENAI_BASE_URL for another provider than OpenAI",
        "not_found": "is the model's name right? --agent qwen:MODEL",
        "context_too_long": "give it a smaller task or fewer files",
    },
)


class Qwen:
    facts = AgentFacts(
        name="qwen",
        family="qwen",
        programs=("qwen",),
        keys=("OPENAI_API_KEY",),
        address=("OPENAI_BASE_URL",),
        provider=Provider(address="OPENAI_BASE_URL", standard="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)),
        hosts=("api.openai.com",),
        resumes=True,
        conversation=(".qwen/projects", ".qwen/tmp"),
        models="MODEL",
        mcp=True,
        mcp_url=True,
        acp="qwen --acp",
        reads=("QWEN.md", "AGENTS.md"),
        install="npm install -g @qwen-code/qwen-code",
        oldest="0.24.4",
        schema="table",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        kind = self._profile.settings.get("QWEN_AUTH_TYPE", "openai")
        arguments = ["--output-format", "stream-json", "--auth-type", kind]
        arguments += ["--approval-mode", "yolo" if task.boxed else "auto-edit"]
        if task.read_only:
            arguments += ["--exclude-tools", ",".join(WRITERS)]
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
        if task.schema is not None:
            arguments += ["--json-schema", msgspec.json.encode(task.schema).decode()]
        if task.session:
            arguments += ["--resume", task.session]
        settings = {
            "security": {"auth": {"selectedType": kind}},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "model": {"generationConfig": {"maxRetries": error_words.own_retries(self._profile.settings)}},
            "mcpServers": mcp_config.table(task.mcp, mcp_config.ServerFormat(key="httpUrl", more={"trust": True})),
        }
        return Command(
            argv=(self._profile.program or "qwen", *arguments),
            env={"QWEN_TELEMETRY_ENABLED": "false", "QWEN_SANDBOX": "false"},
            stdin=task.prompt.encode(),
            files={".qwen/settings.json": msgspec.json.encode(settings)},
        )

    def converse(self, _: AgentTask) -> StreamJson:
        return StreamJson(DIALECT)


AGENTS = {"qwen": Qwen}  #: by the names they are asked for
