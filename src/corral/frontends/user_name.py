"""Who types: kept with what they ordered or answered."""

from __future__ import annotations

import getpass
import os


def current_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
