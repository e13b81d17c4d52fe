"""Numbers on the command line: those that no program could use are refused where they are read."""

from __future__ import annotations

import math
from typing import Any

import click

MOST = 2**53  #: what JSON, SQLite and floating point hold alike


class _Whole(click.types.IntParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if abs(number) <= MOST else self.fail("the number is too large.", param, ctx)


class _Range(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if abs(number) <= MOST else self.fail("the number is too large.", param, ctx)


class _Real(click.types.FloatParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) and abs(number) <= MOST else self.fail("no usable number.", param, ctx)


class _RealRange(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) and abs(number) <= MOST else self.fail("no usable number.", param, ctx)


def with_limits(command: click.Command) -> click.Command:
    """Bound every number that a command, or one below it, takes."""
    for param in command.params:
        if type(param.type) is click.types.IntParamType:
            param.type = _Whole()
        elif type(param.type) is click.IntRange and param.type.max is None:
            param.type = _Range(param.type.min, min_open=param.type.min_open, clamp=param.type.clamp)
        elif type(param.type) is click.types.FloatParamType:
            param.type = _Real()
        elif type(param.type) is click.FloatRange:
            old = param.type
            param.type = _RealRange(old.min, old.max, min_open=old.min_open, max_open=old.max_open, clamp=old.clamp)
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        with_limits(inner)
    return command
