"""What an agent wrote cannot drive the terminal of the user who looks at it."""

import re

import pytest

from tests.rig.command import Corral
from tests.rig.screen import on_terminal

pytestmark = pytest.mark.slow  # left out of `make quick`

HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b]0;title\x07\x9b31m\u202e"
OURS = re.compile(r"\x1b\[(?:[012]|3[12356])m")


def test_nothing_of_an_agents_reaches_the_terminal(corral: Corral) -> None:
    name = "$(printf 'a\\033[2Jb.txt')"
    words = HOSTILE.replace("\x1b", "\\033").replace("\x07", "\\007")
    corral.agent("hostile", f"printf '{words}' > plain.txt; printf x > {name}; printf '{words}'; printf '{words}' >&2")
    repo = corral.repo()
    assert corral.run(repo, "t", "--agent", "hostile", "--check", "true").code == 0
    broken = corral.root / f"flow{HOSTILE[:8]}.yaml"
    for command in (
        ("diff", "@last"),
        ("diff", "@last", "--stat"),
        ("diff", "@last", "--hunks"),
        ("logs", "@last"),
        ("logs", "@last", "--json"),
        ("show", "@last"),
        ("show", "@last", "--json"),
        ("merge", "@last", "--strategy", "patch"),
        ("flow", "check", broken),
        ("show", HOSTILE),
    ):
        with on_terminal(corral, *command) as screen:
            screen.end()
            shown = OURS.sub("", screen.raw)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", shown), (command, shown)
    pager = corral.root / "pager.sh"
    pager.write_text('#!/bin/sh\ncat > "$0.got"\n')
    pager.chmod(0o755)
    with on_terminal(corral, "diff", "@last", env={"PAGER": str(pager)}) as screen:
        assert screen.end() == 0
    paged = OURS.sub("", pager.with_name("pager.sh.got").read_text())
    assert "^[]52;c;" in paged
    assert "\x1b" not in paged
    patch = corral("diff", "@last").bytes  # in a pipe: as it is
    assert HOSTILE.encode() in patch
    (corral.root / "change.patch").write_bytes(patch)
    repo.git("apply", "--check", str(corral.root / "change.patch"))
