"""Corral runs any coding agent on any task: isolated, budgeted, proven, merged."""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which is slower to import than all of this
if TYPE_CHECKING:
    from corral.frontends.python import Engine, Flow, Task, diff, merge, run, show, undo

__version__ = "0.1.0"
__all__ = ["Engine", "Flow", "Task", "__version__", "diff", "merge", "run", "show", "undo"]


def __getattr__(name: str) -> object:
    """Bring in what programs use when they first ask for it: our own commands start without."""
    if name in __all__:
        from corral.frontends import python  # noqa: PLC0415

        return getattr(python, name)
    raise AttributeError(f"module `corral` has no `{name}`")
