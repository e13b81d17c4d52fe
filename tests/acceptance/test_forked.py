"""A command that is forked from a loaded process does what one does that a shell starts: most tests rely on it."""

import re

import pytest

from tests.rig.command import Corral

AGENT = 'echo "$1" > said.txt; echo "home $HOME in $(pwd)"; echo trouble >&2'


def plain(text: str) -> str:
    """Leave out what differs between any two runs: ids, times, hashes, ports."""
    return re.sub(r"01[0-9a-z]{10}|[0-9a-f]{40,64}|\d\d:\d\d:\d\d(\.\d+)?|\d+\.\d+(e-\d+)?", "#", text)


@pytest.mark.parametrize(
    "words",
    [
        ("ls", "--json"),
        ("show", "@last"),
        ("nonsense",),
        ("run", "task", "--agent", "nobody"),
        ("run", "say \u00e9 \udcff", "--agent", "mine"),
        ("run", "say \u00e9", "--agent", "mine", "--check", "grep -q say said.txt", "--json"),
        ("run", "-", "--agent", "mine", "--check", "false", "--retries", "0"),
        ("--version",),
        ("ls",),
    ],
)
def test_it_says_and_does_the_same(corral: Corral, words: tuple[str, ...]) -> None:
    corral.agent("mine", AGENT)
    repo = corral.repo()
    ends = []
    for anew in (True, False):
        corral.always_anew = anew
        ends.append(corral(*words, cwd=repo.folder, stdin=b"from stdin\n", env={"CORRAL_X": "1"}))
    fresh, forked = ends
    assert (forked.code, plain(forked.out), plain(forked.err)) == (fresh.code, plain(fresh.out), plain(fresh.err))
