"""Rivals compared by what they answer to varied inputs: the answers of a probe, and who agrees with whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from corral.model import Attempt, Variation
from corral.rules.checks.outside import verdict
from corral.rules.race.varied_calls import ProductCall

MOST_SECONDS = 60.0  #: of one probe
MOST_SHOWN = 60  #: characters of an answer
MOST_OUTPUT = 4 << 20
LEAST_FOR_MAJORITY = 3
MARK = "corral-variation "
RAISES = "raises"


class RivalAnswer(Struct, frozen=True):
    """What a rival gave for one call."""

    value: str | None = None
    raises: str | None = None

    @property
    def token(self) -> str | None:
        """What is compared: different exceptions are alike."""
        return f"={self.value}" if self.value is not None else RAISES if self.raises is not None else None

    @property
    def text(self) -> str:
        if self.value is not None:
            return _printable(self.value)
        return f"{RAISES} {_printable(self.raises)}" if self.raises else "no answer"


def answers(output: str, calls: int, *, ended: bool) -> list[RivalAnswer]:
    """Read what a probe printed; a program that ended by itself before its last call ended in the next one."""
    missing = RivalAnswer(raises="the end of the program") if ended else RivalAnswer()
    found = verdict.answers(output, MARK, calls)
    return [RivalAnswer(each.value, each.raises) if each.known else missing for each in found]


def compare_rivals(
    calls: Sequence[ProductCall], given: Mapping[str, Sequence[RivalAnswer]], base: Sequence[RivalAnswer] | None = None
) -> dict[str, Variation]:
    """Put rivals into groups that agree on every call; the largest group is the first.

    `base` are the answers of the code before the work: a majority that answers as it did has no weight.
    """
    heard = {name: own for name, own in given.items() if any(each.token for each in own)}
    telling = [
        place
        for place, call in enumerate(calls)
        if not call.own and _tells(call, [own[place] for own in heard.values()])
    ]
    groups = _groups(heard, telling)
    largest = len(groups[0]) if groups else 0
    majority = largest if len(heard) >= LEAST_FOR_MAJORITY and largest * 2 > len(heard) else 0
    if base and majority and _is_unfixed(calls, telling, heard[groups[0][0]], base):
        majority = 0
    found = {name: Variation(note="its program gave no answers") for name in given}
    for number, group in enumerate(groups, 1):
        for name in group:
            place = _example(heard, telling, name, groups)
            found[name] = Variation(
                group=number,
                agrees=len(group),
                rivals=len(heard),
                majority=majority,
                calls=sum(not call.own for call in calls),
                example=_printable(calls[place].text) if place is not None else "",
                answer=heard[name][place].text if place is not None else "",
                others=heard[groups[0][0]][place].text if place is not None and number > 1 else "",
            )
    return found


def _tells(call: ProductCall, own: Sequence[RivalAnswer]) -> bool:
    """Tell whether the answers to a call tell rivals apart.

    A function may refuse a value or not: an exception against a value counts only where most agree, and
    not for values that are often refused.
    """
    counts = Counter(each.token for each in own if each.token)
    if len([token for token in counts if token != RAISES]) > 1:
        return True
    most = max(counts.values(), default=0)
    return len(counts) > 1 and not call.edge and len(own) >= LEAST_FOR_MAJORITY and most * 2 > len(own)


def _is_unfixed(
    calls: Sequence[ProductCall], telling: Sequence[int], own: Sequence[RivalAnswer], base: Sequence[RivalAnswer]
) -> bool:
    """Tell whether a rival gives other answers than the base to the tests' own calls, and mostly the same elsewhere.

    Then the bug may still be there: several rivals that know the answers of the tests agree with each other too.
    """
    fixed = {
        (call.module, call.name)
        for call, now, then in zip(calls, own, base, strict=True)
        if call.own and now.token and then.token and now.token != then.token
    }
    asked = [place for place in telling if (calls[place].module, calls[place].name) in fixed]
    same = sum(own[place].token == base[place].token for place in asked)
    return same * 2 > len(asked)


def _groups(heard: Mapping[str, Sequence[RivalAnswer]], telling: Sequence[int]) -> list[list[str]]:
    """Return who agrees with whom: a call without an answer agrees with any."""
    groups: list[tuple[dict[int, str], list[str]]] = []
    for name in sorted(heard, key=lambda name: (-sum(bool(heard[name][each].token) for each in telling), name)):
        own = {place: token for place in telling if (token := heard[name][place].token)}
        for shared, members in groups:
            if all(shared.get(place, token) == token for place, token in own.items()):
                shared.update(own)
                members.append(name)
                break
        else:
            groups.append((own, [name]))
    return sorted((members for _, members in groups), key=lambda members: (-len(members), members))


def _example(
    heard: Mapping[str, Sequence[RivalAnswer]], telling: Sequence[int], name: str, groups: Sequence[Sequence[str]]
) -> int | None:
    """Return a call that shows the difference: to the first group, or between the first two."""
    if len(groups) < 2:
        return None
    first, other = groups[0][0], groups[1][0] if name in groups[0] else name
    for place in telling:
        one, two = heard[first][place].token, heard[other][place].token
        if one and two and one != two:
            return place
    return None


def _printable(text: str) -> str:
    clean = re.sub(r"[^\x20-\x7e]", "?", text)
    return clean if len(clean) <= MOST_SHOWN else clean[: MOST_SHOWN - 3] + "..."


# --- what it means for a race


def of(attempt: Attempt) -> Variation | None:
    """Return what an attempt's answers to varied inputs came to; None: nobody asked."""
    return attempt.variation if isinstance(attempt.variation, Variation) else None


def is_outvoted(attempt: Attempt) -> bool:
    """Tell whether most rivals agree on other answers."""
    found = of(attempt)
    return found is not None and found.majority > 0 and found.group > 1


def is_split(attempts: Sequence[Attempt]) -> bool:
    """Tell whether rivals differ, and no majority says who is right."""
    found = [each for each in map(of, attempts) if each and each.group]
    return len({each.group for each in found}) > 1 and not any(each.majority for each in found)


def agreement(attempt: Attempt) -> str:
    """Say that most rivals agree with it where some do not; empty: there is nothing to say."""
    found = of(attempt)
    if found is None or not found.majority or found.group != 1 or found.agrees == found.rivals:
        return ""
    return f"agrees with {found.agrees} of {found.rivals} rivals on varied inputs"


def difference(attempt: Attempt) -> str:
    """Say in what it differs from most rivals."""
    found = of(attempt) or Variation()
    words = f"differs from {found.majority} of {found.rivals} rivals"
    return f"{words}: {found.example} gives {found.answer}, others {found.others}" if found.example else words


def dispute(attempts: Sequence[Attempt]) -> str:
    """Say in what rivals differ among which no majority decides; empty: they do not."""
    if not is_split(attempts):
        return ""
    shown: dict[str, dict[str, str]] = {}
    for each in attempts:
        if (found := of(each)) and found.example:
            shown.setdefault(found.example, {})[each.id] = found.answer
    if not shown:
        return "they differ on varied inputs"
    call, by_name = max(shown.items(), key=lambda row: len(row[1]))
    return f"they differ: {call} is " + ", ".join(f"{answer} in {name}" for name, answer in by_name.items())


def note(attempt: Attempt) -> str:
    """Say what varied inputs showed of one attempt; empty: nothing was asked."""
    found = of(attempt)
    if found is None:
        return ""
    if not found.group:
        return f"varied inputs: {found.note}" if found.note else ""
    if is_outvoted(attempt):
        return f"varied inputs: {difference(attempt)}"
    if found.agrees == found.rivals:
        return f"varied inputs: all {found.rivals} rivals agree on {found.calls} calls"
    if words := agreement(attempt):
        return f"varied inputs: {words}"
    return f"varied inputs: rivals differ: {found.example} is {found.answer} here"
