"""The real agent programs, pinned by tools/agents and installed by tools/bootstrap, for the installed command to find."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]


def programs() -> Path:
    """Return the folder with the agents' programs and the Node they run on."""
    known = PROJECT / ".venv" / "agents"
    assert known.exists(), "the real agents are not installed: tools/bootstrap dev"
    return Path(known.read_text().strip())
