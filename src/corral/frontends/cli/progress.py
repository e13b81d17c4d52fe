"""What a user sees while agents work: a few plain lines on stderr; on a terminal a live view instead."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from corral.engine.views import flow_pictures
from corral.engine.views.flow_pictures import Board
from corral.frontends import run_text
from corral.frontends import text as words
from corral.model import Status
from corral.model.events import Checked, Event, Mailed, Noted, Reported, RunEvent, StatusChanged, UserAsked
from corral.model.flow import Flow

if TYPE_CHECKING:
    from corral.engine.engine import Engine


class Plain:
    """For pipes, logs and CI: only what changes the picture, one line each, no control codes."""

    patient = False  #: someone is there who may answer what is asked

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine  #: who knows what the run is that is heard of
        self.board: Board | None = None
        self.began = time.time()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Plain lines leave nothing to put back."""

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader may be gone; the work continues
            click.echo(text, err=True)

    def draw(self, flow: Flow) -> None:
        """Show a graph before it is carried out."""
        for line in flow_pictures.text(flow):
            self.say(line)

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """Leave the terminal to a question."""
        yield

    def recall(self, heard: RunEvent, at: float) -> None:
        """Take in what happened before, without a word."""
        self.board_of(heard.run).hear(heard, at)

    def settle(self, states: Mapping[str, Status]) -> None:
        """Take over the state of nodes: parts of a run may have been begun anew since what was recalled."""
        if self.board:
            for node, status in states.items():
                self.board.know(node, status)

    def hear(self, heard: RunEvent) -> None:
        board = self.board_of(heard.run)
        board.hear(heard, time.time())
        if isinstance(heard.event, Noted | UserAsked | Reported | Mailed | Checked) or (
            isinstance(heard.event, StatusChanged) and heard.attempt
        ):
            self.say(with_speaker(heard, board, headline(heard.event, 300)))

    def board_of(self, run: str) -> Board:
        """Return the board of the run that is driven: the first that is heard of."""
        if self.board is None:
            if self.engine:
                self.board = Board(run, self.engine.history.flow_of(run), self.engine.history.node_states(run))
            else:
                self.board = Board(run)
        return self.board


class Silent(Plain):
    """For --quiet and --json."""

    def say(self, text: str) -> None:
        """Print nothing."""

    def recall(self, heard: RunEvent, at: float) -> None:
        """Print nothing."""

    def hear(self, heard: RunEvent) -> None:
        """Print nothing."""


def with_speaker(heard: RunEvent, board: Board, text: str) -> str:
    """Say whose words these are where several speak."""
    who = speaker(heard, board)
    return f"{who}: {text}" if text and who else text


def speaker(heard: RunEvent, board: Board) -> str:
    """Name who speaks; nobody where the words name a node themselves."""
    moves = isinstance(heard.event, StatusChanged) and not heard.attempt
    return "" if moves else board.speaker(heard)


def headline(event: Event, width: int) -> str:
    lines = (run_text.event_words(event) or "").splitlines()
    return words.one_line(lines[0], width) if lines else ""
