"""Run import-linter as a module: its command is not in a thin environment's bin folder."""

from __future__ import annotations

import sys

from importlinter.cli import lint_imports

sys.exit(lint_imports())
