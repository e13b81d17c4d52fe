"""`corral acp --setup`: what an editor starts in a terminal when it is to log in."""

import tomllib

from tests.rig.command import Corral
from tests.rig.screen import on_terminal


def test_a_default_agent_is_chosen(corral: Corral) -> None:
    corral.agent("one", "true")
    corral.agent("two", "true")
    with on_terminal(corral, "acp", "--setup") as screen:
        screen.sees(r"Default agent \(.*one.*two.*\)")
        screen.type("nobody\n")
        screen.sees("'nobody' is not one of")
        screen.type("two\n")
        screen.sees("two is the default agent now")
        screen.process.wait(60)
    assert tomllib.loads(corral.config_file.read_text())["defaults"]["agent"] == "two"
    assert "sandbox" in screen.text, "it shows what `corral doctor` shows"


def test_without_a_terminal_it_is_refused(corral: Corral) -> None:
    refused = corral("acp", "--setup")
    assert refused.code == 2
    assert "there is no terminal" in refused.err
    assert "corral doctor shows the same" in refused.err
    assert refused.out == ""
