"""What a model can do in the workspace: each tool takes checked arguments and gives back a structured result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from corral.boxed.loop.programs import shorten
from corral.boxed.loop.tools import commands, files
from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

__all__ = ["LoopTool", "LoopToolbox"]


class LoopTool(Struct, frozen=True):
    """A tool: its arguments are a Struct whose docstring tells the model what it does."""

    name: str
    arguments: type[Struct]
    do: Callable[[LoopWorkspace, Any, int], LoopToolResult]
    shown: str  #: the argument to show to a user
    writes: bool = False

    @property
    def description(self) -> str:
        return " ".join((self.arguments.__doc__ or "").split())

    @property
    def schema(self) -> dict[str, Any]:
        _, parts = msgspec.json.schema_components([self.arguments])
        schema = dict(parts[self.arguments.__name__])
        for part in schema["properties"].values():
            if "enum" in part:
                part["type"] = "string"  # some providers insist on it
        return {key: value for key, value in schema.items() if key not in ("title", "description")}


TOOLS = (
    LoopTool("read", files.ReadFileArguments, files.read, "path"),
    LoopTool("list", files.ListFilesArguments, files.list_files, "path"),
    LoopTool("search", files.SearchFilesArguments, files.search, "pattern"),
    LoopTool("write", files.WriteFileArguments, files.write, "path", writes=True),
    LoopTool("edit", files.EditFileArguments, files.edit, "path", writes=True),
    LoopTool("bash", commands.BashArguments, commands.bash, "command"),
    LoopTool("git", commands.GitArguments, commands.git, "action"),
    LoopTool("packages", commands.PackagesArguments, commands.packages, "action", writes=True),
    LoopTool("test", commands.RunTestsArguments, commands.test, "only"),
)


class LoopToolbox:
    """The tools of one workspace."""

    def __init__(self, place: LoopWorkspace, *, most_output: int, read_only: bool = False) -> None:
        self._place, self._most = place, most_output
        self.tools = {tool.name: tool for tool in TOOLS if not (read_only and tool.writes)}

    def main_argument(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the one argument of a call to show to a user."""
        tool = self.tools.get(name)
        value = arguments.get(tool.shown) if tool else None
        return (value if isinstance(value, str) else str(arguments or ""))[:500]

    def use(self, name: str, arguments: Mapping[str, Any]) -> LoopToolResult:
        """Do what a model asked for; whatever goes wrong is an answer too."""
        tool = self.tools.get(name)
        if tool is None:
            return LoopToolResult.bad(f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        try:
            return self._short(
                tool.do(self._place, msgspec.convert(arguments, tool.arguments, strict=False), self._most)
            )
        except (ToolRefused, msgspec.ValidationError) as error:
            return LoopToolResult.bad(str(error))
        except (OSError, ValueError, re.error) as error:
            return LoopToolResult.bad(f"{type(error).__name__}: {error}")

    def _short(self, result: LoopToolResult) -> LoopToolResult:
        """Hold every text in a result to the size that a tool may give back."""
        content = {
            key: shorten(value, self._most)[0] if isinstance(value, str) else value
            for key, value in result.content.items()
        }
        return msgspec.structs.replace(result, content=content)
