"""What a model can do in the workspace: each tool takes checked arguments and gives back a structured result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from corral.boxed.loop.programs import shorten
from corral.boxed.loop.tools import files, git, packages, shell, testing
from corral.boxed.loop.tools.result import Result
from corral.boxed.loop.workspace import Refused, Workspace

__all__ = ["Tool", "Toolbox"]


class Tool(Struct, frozen=True):
    """A tool: its arguments are a Struct whose docstring tells the model what it does."""

    name: str
    arguments: type[Struct]
    do: Callable[[Workspace, Any, int], Result]
    shown: str  #: the argument that a person wants to see
    writes: bool = False

    @property
    def description(self) -> str:
        return " ".join((self.arguments.__doc__ or "").split())

    @property
    def schema(self) -> dict[str, Any]:
        _, parts = msgspec.json.schema_components([self.arguments])
        schema = dict(parts[self.arguments.__name__])
        for told in schema["properties"].values():
            if "enum" in told:
                told["type"] = "string"  # some providers insist on it
        return {key: value for key, value in schema.items() if key not in ("title", "description")}


TOOLS = (
    Tool("read", files.Read, files.read, "path"),
    Tool("list", files.List, files.list_files, "path"),
    Tool("search", files.Search, files.search, "pattern"),
    Tool("write", files.Write, files.write, "path", writes=True),
    Tool("edit", files.Edit, files.edit, "path", writes=True),
    Tool("bash", shell.Bash, shell.bash, "command"),
    Tool("git", git.Git, git.git, "action"),
    Tool("packages", packages.Packages, packages.packages, "action", writes=True),
    Tool("test", testing.Test, testing.test, "only"),
)


class Toolbox:
    """The tools of one workspace."""

    def __init__(self, place: Workspace, *, most_output: int, read_only: bool = False) -> None:
        self._place, self._most = place, most_output
        self.tools = {tool.name: tool for tool in TOOLS if not (read_only and tool.writes)}

    def shown(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the one argument of a call that a person wants to see."""
        tool = self.tools.get(name)
        value = arguments.get(tool.shown) if tool else None
        return (value if isinstance(value, str) else str(arguments or ""))[:500]

    def use(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Do what a model asked for; whatever goes wrong is an answer too."""
        tool = self.tools.get(name)
        if tool is None:
            return Result.bad(f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        try:
            return self._short(
                tool.do(self._place, msgspec.convert(arguments, tool.arguments, strict=False), self._most)
            )
        except (Refused, msgspec.ValidationError) as error:
            return Result.bad(str(error))
        except (OSError, ValueError, re.error) as error:
            return Result.bad(f"{type(error).__name__}: {error}")

    def _short(self, result: Result) -> Result:
        """Hold every text in a result to the size that a tool may give back."""
        content = {
            key: shorten(value, self._most)[0] if isinstance(value, str) else value
            for key, value in result.content.items()
        }
        return msgspec.structs.replace(result, content=content)
