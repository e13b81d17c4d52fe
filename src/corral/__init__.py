"""Corral runs any coding agent on any task: isolated, budgeted, proven, merged."""

from __future__ import annotations

from corral.version import __version__

TYPE_CHECKING = False  # as typing's, which is slower to import than all of this
if TYPE_CHECKING:
    from corral.frontends.client import Client
    from corral.frontends.python import Engine, Flow, Task, diff, merge, run, show, undo
    from corral.model.errors import BadRequest

__all__ = ["BadRequest", "Client", "Engine", "Flow", "Task", "__version__", "diff", "merge", "run", "show", "undo"]
ELSEWHERE = {"BadRequest": "corral.model.errors", "Client": "corral.frontends.client"}


def __getattr__(name: str) -> object:
    """Bring in what programs use when they first ask for it: our own commands start without."""
    if name in __all__:
        import importlib  # noqa: PLC0415

        return getattr(importlib.import_module(ELSEWHERE.get(name, "corral.frontends.python")), name)
    raise AttributeError(f"module `corral` has no `{name}`")


def __dir__() -> list[str]:
    """Name what programs use, for completion in a REPL or a notebook."""
    return __all__
