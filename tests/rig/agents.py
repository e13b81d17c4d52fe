"""The real agent programs, pinned by tools/agents and installed by tools/bootstrap, for the installed command to find."""

import os
from pathlib import Path

from tests.rig.command import Corral

PROJECT = Path(__file__).parents[2]


def programs() -> Path:
    """Return the folder with the agents' programs and the Node they run on."""
    known = PROJECT / ".venv" / "agents"
    assert known.exists(), "the real agents are not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())


def give(corral: Corral, agent: str, key: str, settings: dict[str, str]) -> None:
    """Let a person have the real programs on their PATH, a key, and settings for one of them."""
    corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
    corral.env[key] = "sk-scripted-0123456789"
    values = ", ".join(f'{name} = "{value}"' for name, value in settings.items())
    corral.config(f"[agents.{agent}]\nsettings = {{ {values} }}")


def inspector() -> Path:
    """Return the MCP Inspector's command line."""
    known = PROJECT / ".venv" / "inspector"
    assert known.exists(), "the MCP Inspector is not installed: tools/bootstrap dev"
    return Path(known.read_text().strip()) / "mcp-inspector"


def runners() -> Path:
    """Return the folder of packages in which the test runners of Node are."""
    known = PROJECT / ".venv" / "runners"
    assert known.exists(), "the test runners of Node are not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())


def go_cache() -> dict[str, str]:
    """Return the environment in which the go command keeps what it compiled, shared by the tests of one machine."""
    folder = Path("/var/tmp") / f"corral-go-{os.getuid()}"  # kept from one test run to the next
    return {"GOCACHE": str(folder / "cache"), "GOPATH": str(folder / "path"), "GOFLAGS": "-mod=mod"}
