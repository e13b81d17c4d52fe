"""The ways that a shell command may take through lists, conditions and loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence as Words

from msgspec import Struct, structs

from corral.rules.shell.state import Field, State
from corral.rules.shell.syntax import (
    AndOrList,
    Case,
    CommandGroup,
    Condition,
    ForLoop,
    Function,
    Loop,
    Node,
    Pipeline,
    RedirectedCommand,
    Sequence,
    Simple,
)
from corral.rules.shell.words import ShellToken

MOST_STEPS = 5000  #: commands that are walked through; loops and functions in each other have many
MOST_ROUNDS = 20  #: of a loop over words that are known
OK, FAIL, SOFT = "ok", "fail", "soft"  #: SOFT: a failure at which `set -e` does not stop
EITHER = frozenset({OK, FAIL})
SUCCESS, FAILURE = frozenset({OK}), frozenset({FAIL, SOFT})


class CommandEnds(Struct, frozen=True):
    """How a command may end: the shell continues with it, or ends with it."""

    goes_on: frozenset[str] = EITHER
    ended: frozenset[str] = frozenset()
    returned: frozenset[str] = frozenset()  #: from a function

    @property
    def any(self) -> frozenset[str]:
        return self.goes_on | self.ended | self.returned


class Walk(ABC):
    """Walks through a command on all the ways that it may take; `tested`: a failure is asked for, and stops nothing."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_open = False  #: something may turn a failure into success: a trap, a jump, what was not walked through

    @abstractmethod
    def simple(self, node: Simple, state: State, depth: int) -> CommandEnds:
        """Walk through a program or builtin with its arguments."""

    @abstractmethod
    def substitutions(self, token: ShellToken, state: State, depth: int) -> CommandEnds | None:
        """Walk through the commands in a word, each in a shell of its own; return how the last one ends."""

    @abstractmethod
    def mention(self, fields: Words[Field]) -> None:
        """Note paths that are read or written."""

    def node(self, node: Node, state: State, depth: int, *, tested: bool) -> CommandEnds:
        match node:
            case Simple():
                return self.simple(node, state, depth)
            case Pipeline():
                return self._pipeline(node, state, depth, tested=tested)
            case AndOrList():
                return self._chain(node, state, depth, tested=tested)
            case Sequence():
                return self.sequence(node, state, depth, tested=tested)
            case RedirectedCommand():
                self.mention(state.expand(node.targets))
                return self.node(node.body, state, depth, tested=tested)
            case Function():
                state.functions[node.name] = node.body
                return CommandEnds(frozenset({OK}))
            case _:
                return self._compound(node, state, depth, tested=tested)

    def _compound(
        self, node: Condition | Loop | ForLoop | Case | CommandGroup, state: State, depth: int, *, tested: bool
    ) -> CommandEnds:
        match node:
            case Condition():
                return self._condition(node, state, depth, tested=tested)
            case Loop():
                return self._loop(node, state, depth, tested=tested)
            case ForLoop():
                return self._each(node, state, depth, tested=tested)
            case Case():
                return self._case(node, state, depth, tested=tested)
            case CommandGroup():
                inner = state.copy() if node.own_shell else state
                way = self.sequence(node.body, inner, depth, tested=tested)
                state.sought |= inner.sought
                return CommandEnds(way.any) if node.own_shell else way

    # --- lists and pipelines

    def sequence(self, node: Sequence, state: State, depth: int, *, tested: bool) -> CommandEnds:
        goes_on: frozenset[str] = frozenset({OK})
        ended: frozenset[str] = frozenset()
        returned: frozenset[str] = frozenset()
        for chain, background in node.items:
            if background:
                self._chain(chain, state.copy(), depth, tested=True)
                goes_on = frozenset({OK})
                continue
            way = self._chain(chain, state, depth, tested=tested)
            ended, returned, goes_on = ended | way.ended, returned | way.returned, way.goes_on
            if state.stops and not tested and FAIL in goes_on:
                goes_on, ended = goes_on - {FAIL}, ended | {FAIL}
            state.status = goes_on
            if not goes_on:
                break
        return CommandEnds(goes_on, ended, returned)

    def _chain(self, node: AndOrList, state: State, depth: int, *, tested: bool) -> CommandEnds:
        """Walk through `a && b || c`: each one is reached with what the shell is after success, or after failure."""
        way = self._pipeline(node.first, state, depth, tested=tested or bool(node.others))
        states = {True: state, False: state}
        for place, (operator, pipeline) in enumerate(node.others):
            after = operator == "&&"
            taken = way.goes_on & (SUCCESS if after else FAILURE)
            # The failure of what is not the last one of a chain does not stop a shell.
            passed = frozenset(SOFT if each == FAIL else each for each in way.goes_on - taken)
            if not taken:
                way = CommandEnds(passed, way.ended, way.returned)
                continue
            inner = states[after].copy()
            inner.status = taken
            last = place == len(node.others) - 1
            new = self._pipeline(pipeline, inner, depth, tested=tested or not last)
            states[after] = inner
            if not passed:
                states[not after] = inner
            elif new.goes_on & (FAILURE if after else SUCCESS):
                states[not after] = states[not after].copy()
                states[not after].become([states[not after].copy(), inner])
            way = CommandEnds(new.goes_on | passed, way.ended | new.ended, way.returned | new.returned)
        if node.others and way.goes_on:
            ends = [states[good].copy() for good in (True, False) if way.goes_on & (SUCCESS if good else FAILURE)]
            state.become(ends)
        return way

    def _pipeline(self, node: Pipeline, state: State, depth: int, *, tested: bool) -> CommandEnds:
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.is_open = True
            return CommandEnds()
        tested = tested or node.negated
        if len(node.stages) == 1:
            way = self.node(node.stages[0], state, depth, tested=tested)
        else:
            ways: list[CommandEnds] = []
            for place, stage in enumerate(node.stages):
                inner = state.copy()
                way = self.node(
                    _feed_stage(stage, node.stages[place - 1] if place else None), inner, depth, tested=tested
                )
                ways.append(CommandEnds(way.any))
                state.sought |= inner.sought
            # A stage that never succeeds spoils the whole, whatever the last one makes of it.
            hopeless = any(OK not in way.goes_on for way in ways)
            way = CommandEnds(frozenset({FAIL}) if hopeless else ways[-1].goes_on)
        if node.negated:
            turned = {OK if each != OK else SOFT for each in way.goes_on}
            way = structs.replace(way, goes_on=frozenset(turned))
        return way

    # --- conditions and loops

    def _condition(self, node: Condition, state: State, depth: int, *, tested: bool) -> CommandEnds:
        ways: list[CommandEnds] = []
        states: list[State] = []
        for condition, body in node.branches:
            way = self.sequence(condition, state, depth, tested=True)
            ways.append(CommandEnds(frozenset(), way.ended, way.returned))
            if OK in way.goes_on:
                states.append(state.copy())
                ways.append(self.sequence(body, states[-1], depth, tested=tested))
            if not way.goes_on & {FAIL, SOFT}:
                break
        else:
            states.append(state.copy())
            rest = node.otherwise
            ways.append(self.sequence(rest, states[-1], depth, tested=tested) if rest else CommandEnds(frozenset({OK})))
        if states:
            state.become(states)
        return either(ways)

    def _loop(self, node: Loop, state: State, depth: int, *, tested: bool) -> CommandEnds:
        way = self.sequence(node.condition, state, depth, tested=True)
        enters = FAILURE if node.until else SUCCESS
        if not way.goes_on & enters:
            return CommandEnds(frozenset({OK}), way.ended, way.returned)
        over = frozenset({OK}) if way.goes_on - enters else frozenset[str]()
        inner = state.copy()
        body = self.sequence(node.body, inner, depth, tested=tested)
        state.become([state.copy(), inner])
        # Where its condition always holds, only what is in it ends the loop.
        return either(
            [CommandEnds(over, way.ended, way.returned), body if over else CommandEnds(over, body.ended, body.returned)]
        )

    def _each(self, node: ForLoop, state: State, depth: int, *, tested: bool) -> CommandEnds:
        given = state.expand(node.words) if node.words is not None else []
        patterns = node.words is not None and any(
            all(piece.kind in ("plain", "pattern") for piece in token.pieces) for token in node.words
        )
        known = bool(given) and all(each.certain for each in given) and len(given) <= MOST_ROUNDS
        for token in node.words or ():
            self.substitutions(token, state, depth)
        if node.words == ():
            return CommandEnds(frozenset({OK}))
        if known:
            ways: list[CommandEnds] = []
            for each in given:
                state.assign(node.name, each.text)
                ways.append(self.sequence(node.body, state, depth, tested=tested))
                if not ways[-1].goes_on:
                    break
            ended = [CommandEnds(frozenset(), way.ended, way.returned) for way in ways]
            return either([*ended, CommandEnds(ways[-1].goes_on)])
        inner = state.copy()
        inner.assign(node.name, None)
        way = self.sequence(node.body, inner, depth, tested=tested)
        # A pattern that matches nothing stays as it is: a loop over one has a round.
        state.become([inner] if patterns else [state.copy(), inner])
        return way if patterns else either([CommandEnds(frozenset({OK})), way])

    def _case(self, node: Case, state: State, depth: int, *, tested: bool) -> CommandEnds:
        ways: list[CommandEnds] = []
        states: list[State] = []
        for patterns, body in node.branches:
            states.append(state.copy())
            ways.append(self.sequence(body, states[-1], depth, tested=tested))
            if any(token.text == "*" for token in patterns):
                break
        else:
            states.append(state.copy())
            ways.append(CommandEnds(frozenset({OK})))
        state.become(states)
        return either(ways)


def _feed_stage(stage: Node, before: Node | None) -> Node:
    """Give a shell that reads a pipe the text that `echo` writes into it."""
    while isinstance(before, Pipeline | AndOrList):
        before = before.stages[0] if isinstance(before, Pipeline) else before.first
    if not (isinstance(stage, Simple) and isinstance(before, Simple) and len(before.words) == 2):
        return stage
    return structs.replace(stage, documents=(before.words[1],)) if before.words[0].text == "echo" else stage


def either(ways: Words[CommandEnds]) -> CommandEnds:
    none: frozenset[str] = frozenset()
    return CommandEnds(
        none.union(*(way.goes_on for way in ways)),
        none.union(*(way.ended for way in ways)),
        none.union(*(way.returned for way in ways)),
    )
