"""The folders of state and settings as plain text: for a command that loads next to nothing."""

from __future__ import annotations

import os


def home() -> str:
    """Return where state lives: `$CORRAL_HOME`, or the XDG state folder."""
    named = os.environ.get("CORRAL_HOME")
    if named:
        return os.path.abspath(_expand(named))  # noqa: PTH100
    return f"{os.environ.get('XDG_STATE_HOME') or _expand('~/.local/state')}/corral"


def user_file() -> str:
    """Return where the user's own settings are."""
    return f"{os.environ.get('XDG_CONFIG_HOME') or _expand('~/.config')}/corral/config.toml"


def _expand(path: str) -> str:
    expanded = os.path.expanduser(path)  # noqa: PTH111
    if expanded.startswith("~"):
        raise RuntimeError("Could not determine home directory.")
    return expanded
