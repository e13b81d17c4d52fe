"""The hook that asks the user's rules before an agent calls a tool, in the forms in which programs take one."""

from __future__ import annotations

import shlex

import msgspec

from corral.model.agent_api import AgentTask, CallHook

FILE = ".corral/hook.json"  #: below HOME; a token does not belong into a command line
PLUGIN = ".corral/hook.js"
SECONDS = 60
#: OpenCode starts no program for a hook: it loads a module.
MODULE = """\
import { readFileSync } from "node:fs"

const place = JSON.parse(readFileSync(%s, "utf8"))

export const Corral = async () => ({
  "tool.execute.before": async (input, output) => {
    const call = { tool: input.tool, arguments: output.args }
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "check_call", arguments: call } }
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${place.token}` }
    const reply = await fetch(place.url, { method: "POST", headers, body: JSON.stringify(message) })
    const { result } = await reply.json()
    if (result.isError !== false) throw new Error(result.content[0].text)
  },
})
"""


def files(task: AgentTask) -> dict[str, bytes]:
    """Return the file that tells a hook where to ask, or none."""
    return {FILE: _place(task.hook)} if task.hook else {}


def plugin(task: AgentTask) -> dict[str, bytes]:
    """Return the same, with the module of OpenCode."""
    name = msgspec.json.encode(f"{task.home}/{FILE}").decode()
    return {**files(task), PLUGIN: (MODULE % name).encode()} if task.hook else {}


def command(task: AgentTask) -> str:
    """Return the command line that judges the call on its stdin; nothing where there are no rules."""
    return shlex.join([*task.hook.command, f"{task.home}/{FILE}"]) if task.hook else ""


def table(task: AgentTask, moment: str, milliseconds: int = 1) -> dict[str, object]:
    """Return the setting `hooks`, as claude and gemini read it; they count time in different units."""
    started = {"type": "command", "command": command(task), "timeout": SECONDS * milliseconds}
    return {moment: [{"matcher": "*", "hooks": [started]}]}


def _place(hook: CallHook) -> bytes:
    return msgspec.json.encode({"url": hook.url, "token": hook.token})
