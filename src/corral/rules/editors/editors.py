"""The editors that Corral can be set up for, and the files of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from corral.rules.editors import own_files
from corral.rules.editors.files import EditorFile

Words = Sequence[str]  #: the command `corral` with its absolute path
PASTE = "AI Assistant reads no file: paste the MCP JSON at Settings | Tools | AI Assistant | Model Context Protocol"
ABSOLUTE = "Files in the repository name a path of this machine: leave them out of commits"


class Editor(Struct, frozen=True):
    """One editor."""

    name: str
    title: str
    what: str
    files: Callable[[Words], list[EditorFile]]
    notes: tuple[str, ...] = ()
    archive: str = ""  #: of its extension, in the state folder, and how it is installed
    install: str = ""


def _server(words: Words, argument: str) -> dict[str, object]:
    return {"command": words[0], "args": [*words[1:], argument]}


def _vscode(words: Words) -> list[EditorFile]:
    def task(label: str, *arguments: str, **more: object) -> dict[str, object]:
        return {
            "label": f"Corral: {label}",
            "type": "process",
            "command": words[0],
            "args": [*words[1:], *arguments],
            "options": {"cwd": "${workspaceFolder}"},
            "problemMatcher": list[str](),
            **more,
        }

    tasks = [
        task("run task", "run", "--", "${input:corral-task}"),
        task("run task on this file", "run", "--file", "${relativeFile}", "--", "${input:corral-task}"),
        task("show the last run", "show"),
        task("merge the last run", "merge", "@last"),
        task("inbox", "inbox"),
        task("serve the page", "serve", isBackground=True),
    ]
    settings = {"corral.command": [*words]}
    question = {"id": "corral-task", "type": "promptString", "description": "Task for Corral"}
    return [
        EditorFile(path="{code}/User/settings.json", form="json", entries=settings),
        EditorFile(
            path=".vscode/mcp.json",
            form="json",
            entries={"servers": {"corral": {"type": "stdio", **_server(words, "mcp")}}},
        ),
        EditorFile(
            path=".vscode/tasks.json", form="json", entries={"version": "2.0.0", "inputs": [question], "tasks": tasks}
        ),
    ]


def _zed(words: Words) -> list[EditorFile]:
    def task(label: str, *arguments: str) -> dict[str, object]:
        return {"label": f"Corral: {label}", "command": words[0], "args": [*words[1:], *arguments]}

    settings = {
        "agent_servers": {"Corral": {"type": "custom", **_server(words, "acp")}},
        "context_servers": {"corral": _server(words, "mcp")},
    }
    tasks = [
        task("do what the selection says", "run", "--file", "$ZED_RELATIVE_FILE", "--", "$ZED_SELECTED_TEXT"),
        task("show the last run", "show"),
        task("merge the last run", "merge", "@last"),
        task("inbox", "inbox"),
    ]
    return [
        EditorFile(path="{config}/zed/settings.json", form="json", entries=settings),
        EditorFile(path=".zed/tasks.json", form="json", entries=tasks),
    ]


def _jetbrains(words: Words) -> list[EditorFile]:
    agent = {"agent_servers": {"Corral": {**_server(words, "acp"), "env": dict[str, str]()}}}
    return [
        EditorFile(path="~/.jetbrains/acp.json", form="json", entries=agent),
        EditorFile(
            path="~/.junie/mcp/mcp.json", form="json", entries={"mcpServers": {"corral": _server(words, "mcp")}}
        ),
        EditorFile(path="{jetbrains}/tools/External Tools.xml", form="tools", text=own_files.external_tools(words)),
        EditorFile(path=".run/Corral.run.xml", form="own", text=own_files.run_configuration(words)),
    ]


def _cursor(words: Words) -> list[EditorFile]:
    entries = {"mcpServers": {"corral": _server(words, "mcp")}}
    return [EditorFile(path="~/.cursor/mcp.json", form="json", entries=entries)]


def _neovim(words: Words) -> list[EditorFile]:
    return [EditorFile(path="{config}/nvim/plugin/corral_setup.lua", form="own", text=own_files.neovim(words))]


def _vim(words: Words) -> list[EditorFile]:
    return [EditorFile(path="~/.vim/compiler/corral.vim", form="own", text=own_files.vim_compiler(words))]


def _emacs(words: Words) -> list[EditorFile]:
    return [EditorFile(path="{emacs}/corral.el", form="own", text=own_files.emacs(words))]


def _sublime(words: Words) -> list[EditorFile]:
    def variant(name: str, *arguments: str) -> dict[str, object]:
        return {"name": name, "cmd": [*words, *arguments]}

    build: dict[str, object] = {
        "cmd": [*words, "diff", "--stat"],
        "working_dir": "${folder:${file_path}}",
        "file_regex": r"^(\S+)$",
        "variants": [
            variant("Check this flow file", "flow", "check", "$file"),
            variant("Run this flow file", "flow", "run", "$file"),
            variant("Merge the last run", "merge", "@last"),
            variant("Inbox", "inbox"),
        ],
    }
    return [EditorFile(path="{config}/sublime-text/Packages/User/Corral.sublime-build", form="json", entries=build)]


LOAD = 'Then, in your init file: (load (locate-user-emacs-file "corral"))'
HEALTH = "Then, in Neovim: `:checkhealth corral`"
IDES = "ACP agent, MCP server, tools, run configuration"
EDITORS = (
    Editor(
        "vscode",
        "VS Code",
        "the extension, MCP server, tasks",
        _vscode,
        (ABSOLUTE,),
        archive="editors/corral.vsix",
        install="Then: code --install-extension {}",
    ),
    Editor("neovim", "Neovim", "the plugin and its command", _neovim, (HEALTH,)),
    Editor("jetbrains", "JetBrains IDEs", IDES, _jetbrains, (PASTE, ABSOLUTE)),
    Editor("zed", "Zed", "ACP agent, MCP server, tasks", _zed, (ABSOLUTE,)),
    Editor("emacs", "Emacs", "agent of agent-shell", _emacs, (LOAD,)),
    Editor("cursor", "Cursor", "MCP server", _cursor),
    Editor("sublime", "Sublime Text", "build system", _sublime),
    Editor("vim", "Vim", "`:compiler corral`, then `:make 'TASK'`", _vim),
)
