"""Prompts for the common jobs: clients show them as commands, e.g. /mcp__corral__delegate."""

from __future__ import annotations

from collections.abc import Mapping

from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)
from msgspec import Struct


class PromptTemplate(Struct, frozen=True):
    """A job in words; `{name}` is filled with what the person gives."""

    about: str
    takes: Mapping[str, str]
    text: str


PROMPTS: dict[str, PromptTemplate] = {
    "delegate": PromptTemplate(
        "Have an agent do a task, look at its work, and land it when you agree",
        {"task": "What is to be done"},
        "Use engine_execute with this repository as `path` to have an agent do this task:\n\n{task}\n\n"
        "Give as `checks` the commands by which this repository is tested. When it is done, show me a short summary "
        "of engine_diff, and ask me before you call engine_merge. If it failed, tell me why and what you suggest.",
    ),
    "race": PromptTemplate(
        "Have several agents do the same task, and compare what they made",
        {"task": "What is to be done", "agents": "Who races, e.g. claude, codex"},
        "Use engine_execute with this repository as `path`, agents {agents}, and this repository's test commands as "
        "`checks`, for this task:\n\n{task}\n\nThen compare the attempts with engine_select, tell me which you would "
        "take and why, and ask me before you choose another winner or call engine_merge.",
    ),
    "review": PromptTemplate(
        "Have another agent review changes, without changing anything",
        {"what": "What is to be reviewed, e.g. the last commit", "agent": "Who reviews, e.g. codex"},
        "Use engine_execute with this repository as `path`, agents [{agent}], force_agent reviewer and read_only true, "
        "to review: {what}. Give me its findings, the weightiest first, and say of each whether you agree.",
    ),
    "catch-up": PromptTemplate(
        "What runs, what waits for me, what it cost",
        {},
        "Call engine_status. Tell me in a few lines what runs, what waits for my answer (with the choices), and what "
        "was spent today. Pass on my answers with engine_answer.",
    ),
}


def list_prompts() -> ListPromptsResult:
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                title=job.about,
                description=job.about,
                arguments=[
                    PromptArgument(name=each, description=about, required=True) for each, about in job.takes.items()
                ],
            )
            for name, job in PROMPTS.items()
        ]
    )


def fill_prompt(name: str, given: Mapping[str, str]) -> GetPromptResult:
    job = PROMPTS.get(name)
    if job is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt `{name[:80]}`; known: {', '.join(PROMPTS)}")
    absent = [each for each in job.takes if not given.get(each, "").strip()]
    if absent:
        raise MCPError(INVALID_PARAMS, f"the prompt `{name}` needs: {', '.join(absent)}")
    text = job.text
    for each in job.takes:
        text = text.replace(f"{{{each}}}", given[each])
    return GetPromptResult(description=job.about, messages=[PromptMessage(role="user", content=TextContent(text=text))])
