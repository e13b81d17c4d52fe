"""What answers outside the tests say of work: the same, others than the tests got, or only the tests' own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from corral.rules.checks.outside import shapes
from corral.rules.checks.outside.checked import CheckedCall, printable
from corral.rules.text.python_code import literal_value

LEAST_VARIANTS = 4  #: of one function, before it is said to answer only its tests
LEAST_LONGER = 3  #: the same of longer texts
MOST_LEFT = 0.75  #: of them, which do not follow the rule that the tests show
LEAST_INPUTS = 3  #: of single words, of which each may be a special case
UNKNOWN = object()  #: no value, or none that can be compared
TROUBLES = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


class ProbeAnswer(Struct, frozen=True):
    """One answer as a probe prints it; neither: there is no word on that call."""

    call: int
    value: str | None = None
    raises: str | None = None
    made: bool = False  #: what was called is a class: it gives an object of its own kind
    known: bool = True  #: the program came to this call

    def differs(self, checked: CheckedCall) -> bool:
        """Tell whether it is another answer than the test expects; not where nothing is known."""
        if self.raises is not None:
            return True
        value, expected = read(checked, self.value), read(checked, checked.expected)
        return value is not UNKNOWN and expected is not UNKNOWN and not is_same(value, expected)

    def fits(self, checked: CheckedCall) -> bool:
        value, expected = read(checked, self.value), read(checked, checked.expected)
        return value is not UNKNOWN and expected is not UNKNOWN and is_same(value, expected)

    @property
    def text(self) -> str:
        return printable(self.value) if self.value is not None else f"raises {printable(self.raises or 'an error')}"


class OutsideVerdict(Struct, frozen=True, kw_only=True):
    """What a probe of work came to."""

    against: tuple[str, ...] = ()  #: the work is doubtful
    limits: tuple[str, ...] = ()  #: it is at most unharmed
    note: str = ""  #: what to say of it in any case


def answers(output: str, mark: str, calls: int) -> list[ProbeAnswer]:
    """Read what a probe printed; calls without an answer have an empty one."""
    found: dict[int, ProbeAnswer] = {}
    for line in output.splitlines():
        if line.startswith(mark):
            try:
                row = msgspec.json.decode(line.removeprefix(mark), type=ProbeAnswer)
            except (msgspec.MsgspecError, ValueError):
                continue
            found.setdefault(row.call, row)
    return [found.get(place, ProbeAnswer(place, known=False)) for place in range(calls)]


def read(checked: CheckedCall, text: str | None) -> Any:  # noqa: ANN401 -- any plain value
    if not text:
        return UNKNOWN
    try:
        return literal_value(text) if checked.language == "python" else json.loads(text)
    except TROUBLES:
        return None if text == "undefined" else UNKNOWN


def is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 -- any plain values
    """Tell whether two plain values are equal, fractions nearly so."""
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, list | tuple):
        if type(cast("object", one)) is not type(other):
            return False
        own, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(own) == len(others) and all(map(is_same, own, others))
    if isinstance(one, dict) and isinstance(other, dict):
        table, second = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
        return table.keys() == second.keys() and all(is_same(value, second[key]) for key, value in table.items())
    return bool(one == other)


def judge_answers(
    calls: Sequence[CheckedCall], now: Sequence[ProbeAnswer], base: Sequence[ProbeAnswer]
) -> OutsideVerdict:
    """Compare what work and its base answer outside the tests; calls that no test expects anything of come last."""
    rows = [row for row in zip(calls, now, base, strict=True) if row[0].expected]
    compared = [row for row in rows if (row[1].differs(row[0]) or row[1].fits(row[0])) and not _is_own_kind(*row[1:])]
    if not compared:
        return OutsideVerdict()
    kept = [row for row in compared if row[0].state == "kept"]
    count = f"{len(compared)} call{'s' if len(compared) > 1 else ''} outside the tests"
    if any(then.differs(each) for each, _, then in rows if each.state == "kept"):
        return OutsideVerdict(note=f"probe: {count}: not used, as the base's own tests fail there too")
    wrong = [row for row in compared if row[0].state == "fixed" and row[1].differs(row[0])]
    strange = [row for row in kept if row[1].differs(row[0])]
    if not wrong and not strange:
        limits = only_own(list(zip(calls, now, base, strict=True)))
        return OutsideVerdict(limits=limits, note=f"probe: {count}, all the same")
    words = tuple(_words(each, here) for each, here, _ in (wrong or strange)[:3])
    sure = [row for row in wrong if _as_before(row[0], row[1], row[2])]
    if sure and not strange and any(here.fits(each) and then.fits(each) for each, here, then in compared):
        return OutsideVerdict(against=words, note=f"probe: {count}, {len(wrong)} otherwise")
    return OutsideVerdict(limits=words, note=f"probe: {count}, {len(wrong) + len(strange)} otherwise")


def _is_own_kind(here: ProbeAnswer, then: ProbeAnswer) -> bool:
    """Tell whether an object of a class was asked for, which may well be equal to other values."""
    return here.made and (then.made or then.value is None)


def _words(each: CheckedCall, here: ProbeAnswer) -> str:
    return f"`{each.text}` answers otherwise outside its tests: {here.text}, not {printable(each.expected)}"


def _as_before(each: CheckedCall, here: ProbeAnswer, then: ProbeAnswer) -> bool:
    """Tell whether a call is answered as the base did, or the base has no such function."""
    if here.raises is not None or then.raises is not None:
        return here.raises == then.raises or then.value is None
    return then.value is None or is_same(read(each, here.value), read(each, then.value))


Row = tuple[CheckedCall, ProbeAnswer, ProbeAnswer]


def only_own(rows: Sequence[Row]) -> tuple[str, ...]:
    """Say which functions give new answers to the inputs of tests alone, where the tests show a plain rule."""
    found: list[str] = []
    for function in dict.fromkeys(each.function for each, _, _ in rows):
        own = [row for row in rows if row[0].function == function]
        if (example := _special_call(own)) is not None:
            words = "only the tests' own inputs otherwise than before: not"
            words = "texts that are longer than the tests' as before:" if example.longer else words
            found.append(f"`{example.name}` answers {words} {example.text}")
    return tuple(found)


def _special_call(rows: Sequence[Row]) -> CheckedCall | None:
    """Return a call of the same shape that is not answered by the rule which the tests show, where most are not."""
    failing = [row for row in rows if row[0].expected and row[0].state == "fixed" and not row[2].fits(row[0])]
    enough = len({each.arguments for each, _, _ in failing}) >= LEAST_INPUTS
    if not failing or not (enough or any(shapes.has_words(each) for each, _, _ in failing)):
        return None
    rules = [rule for rule in shapes.RULES if all(_shows(rule, each, then) for each, _, then in rows if each.expected)]
    for longer in (False, True):
        telling = [row for row in rows if not row[0].expected and row[0].longer == longer and _tells(rules, *row)]
        left = [row for row in telling if not _follows(rules, *row)]
        few = len(telling) < (LEAST_LONGER if longer else LEAST_VARIANTS)
        if not few and len(left) >= len(telling) * MOST_LEFT:
            return left[0][0]
    return None


Rules = Sequence[Callable[[str], str]]


def _tells(rules: Rules, each: CheckedCall, here: ProbeAnswer, then: ProbeAnswer) -> bool:
    """Tell whether all rules change the base's answer, and the work gave one; a long text may be refused."""
    value = read(each, then.value)
    answered = here.value is not None or (here.raises is not None and not each.longer)
    known = bool(rules) and answered and value is not UNKNOWN
    return known and not any(is_same(shapes.by_rule(rule, value), value) for rule in rules)


def _follows(rules: Rules, each: CheckedCall, here: ProbeAnswer, then: ProbeAnswer) -> bool:
    """Tell whether an answer is one of a rule; of a long text, any but the base's may be."""
    value, before = read(each, here.value), read(each, then.value)
    if value is UNKNOWN:
        return False
    if each.longer:
        return not is_same(value, before)
    return any(is_same(value, shapes.by_rule(rule, before)) for rule in rules)


def _shows(rule: Callable[[str], str], each: CheckedCall, then: ProbeAnswer) -> bool:
    """Tell whether a test expects what the rule makes of the base's answer."""
    value = read(each, then.value)
    return value is not UNKNOWN and is_same(shapes.by_rule(rule, value), read(each, each.expected))
