"""What a person sees while agents work: a live line on a terminal, a few plain lines anywhere else; all on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator
from types import TracebackType
from typing import Self

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from corral.engine import pictures
from corral.events import CalledTool, Changed, Checked, Event, Heard, Mailed, Moved, Noted, Reported, Said, Spent
from corral.flow import Flow
from corral.frontends.cli import words


class Plain:
    """For pipes, logs and CI: only what changes the picture, one line each, no control codes."""

    patient = False  #: somebody is there who may answer what is asked

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # whoever read this may have left; the work goes on
            click.echo(text, err=True)

    def draw(self, flow: Flow) -> None:
        """Show a graph before it is carried out."""
        for line in pictures.text(flow):
            self.say(line)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Leave the terminal to a question."""
        yield

    def hear(self, heard: Heard) -> None:
        if isinstance(heard.event, Noted | Reported | Mailed | Checked) or (
            isinstance(heard.event, Moved) and heard.attempt
        ):
            self.say(_headline(heard.event, 300))


class Silent(Plain):
    """For --quiet and --json."""

    def say(self, text: str) -> None:
        pass


class Terminal(Plain):
    """Agents' words scroll by; below them stands who works, on what, for how long and for how much."""

    patient = True

    def __init__(self) -> None:
        self._console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")), highlight=False)
        self._working: dict[str, _Working] = {}
        self._spinner = Spinner("dots")
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._render)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.print(Text(text))

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        self._live.stop()
        yield
        self._live.start()

    def hear(self, heard: Heard) -> None:
        event, attempt = heard.event, heard.attempt
        if attempt:
            working = self._working.setdefault(attempt, _Working(attempt))
            working.hear(event)
            if isinstance(event, Moved) and event.status != "running":
                del self._working[attempt]
        text = _headline(event, max(20, self._console.width - 2))
        if text and isinstance(event, Said | CalledTool | Noted | Reported | Mailed | Checked | Moved):
            self._console.print(Text(text, style=_style(event)))

    def _render(self) -> RenderableType:
        if not self._working:
            return Text("")
        rows: list[RenderableType] = []
        for working in self._working.values():
            self._spinner.update(text=Text(words.one_line(working.line(), max(20, self._console.width - 4))))
            rows.append(self._spinner)
        return Group(*rows)


class _Working:
    """One attempt at work."""

    def __init__(self, attempt: str) -> None:
        self.attempt, self.started = attempt, time.monotonic()
        self.doing, self.spent = "starting", ""
        self.files: set[str] = set()

    def hear(self, event: Event) -> None:
        match event:
            case CalledTool(tool, shown):
                self.doing = f"{tool} {shown}".strip()
            case Said(text) | Reported(text):
                self.doing = text
            case Changed(path):
                self.files.add(path)
            case Spent(usd=usd) if usd is not None:
                self.spent = f", ${usd:.2f}"
            case _:
                pass

    def line(self) -> str:
        files = f", {len(self.files)} files" if self.files else ""
        return f"{self.attempt}  {words.seconds(time.monotonic() - self.started)}{self.spent}{files}  {self.doing}"


def _headline(event: Event, width: int) -> str:
    lines = (words.event_words(event) or "").splitlines()
    return words.one_line(lines[0], width) if lines else ""


def _style(event: Event) -> str:
    return "" if isinstance(event, Said) else "bold" if isinstance(event, Moved) else "dim"


def display(*, quiet: bool) -> Plain:
    """Choose by where the words go."""
    if quiet:
        return Silent()
    return Terminal() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else Plain()
