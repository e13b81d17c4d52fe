"""Settings that are wrong: the file, the line, and what was probably meant."""

import pytest

from tests.acceptance.test_bad_requests import refused
from tests.rig.command import Corral

pytestmark = pytest.mark.slow  # left out of `make quick`

MINE = '[agents.mine]\ncommand = ["sh", "-c", "echo x > x"]\n'

BAD: dict[str, tuple[str, list[str], str]] = {
    "not TOML": ("[defaults]\nagent = mine\n", ["line 2"], ""),
    "unknown table": ("[default]\nagent = 'mine'\n", [":1", "default"], "did you mean `defaults`"),
    "unknown key": ("[defaults]\nagent = 'mine'\ncheks = []\n", [":3", "cheks"], "did you mean `checks`"),
    "unknown key of an agent": (MINE + "comand = []\n", [":3", "comand"], "did you mean `command`"),
    "unknown key, nothing near": ("[retry]\nzzz = 1\n", [":2", "zzz"], "delay_seconds"),
    "wrong type": ("[defaults]\nchecks = 'pytest'\n", [":2", "checks"], ""),
    "wrong type of an agent's key": ("[agents.mine]\ncommand = 'x'\n", [":2", "command"], ""),
    "wrong word": (MINE + "output = 'xml'\n", [":3", "output"], ""),
    "a table that is none": ("retry = 3\n", [":1", "retry"], "[retry]"),
    "agents that are no tables": ("[agents]\nmine = 3\n", [":2", "mine"], ""),
    "negative budget": ("[defaults]\nbudget_usd = -1.0\n", [":2", "budget"], ""),
    "negative price": (MINE + "cost_usd = -1.0\n", [":3", "price"], ""),
    "negative retries": ("[retry]\nmost = -1\n", ["retry"], ""),
    "a time in no unit": ("[defaults]\ntimeout = 'soon'\n", ["timeout"], "20m"),
    "an empty command": ("[agents.mine]\ncommand = []\n", ["mine"], ""),
    "an agent called auto": ('[agents.auto]\ncommand = ["x"]\n', [":1", "auto"], "another name"),
    "an agent called shell": ('[agents.shell]\ncommand = ["x"]\n', [":1", "shell"], "another name"),
    "a name of 300 characters": (f'[agents.{"x" * 300}]\ncommand = ["x"]\n', [":1", "300"], "characters"),
    "an unknown class": (MINE + "errors = { rate = '429' }\n", [":3", "rate"], "rate_limit"),
    "a pattern without end": (MINE + "errors = { network = '(a+)+b' }\n", [":3", "for ever"], "at most two"),
    "classes of a known agent": ("[agents.claude]\nerrors = { network = 'x' }\n", [":2", "errors"], ""),
    "a pattern that is none": (MINE + "output = 'regex'\nresult = '('\n", ["mine"], ""),
}


@pytest.mark.parametrize("where", ["person", "repository"])
@pytest.mark.parametrize("case", BAD)
def test_bad_settings_name_the_file_and_the_line(corral: Corral, case: str, where: str) -> None:
    text, words, hint = BAD[case]
    if where == "person":
        corral.config(text)
        repo, name = corral.repo(), "config.toml"
    else:
        repo, name = corral.repo(files={"corral.toml": text}), "corral.toml"
    outcome = corral.run(repo, "t", "--agent", "mine", "--trust")
    refused(outcome, *words, hint=hint)
    if case not in ("a time in no unit", "an empty command", "a pattern that is none"):
        assert name in outcome.err
    assert corral("ls", "--json").json == []


def test_settings_that_are_no_text(corral: Corral) -> None:
    repo = corral.repo(files={"corral.toml": ""})
    (repo.folder / "corral.toml").write_bytes(b"\xff\xfe\x00")
    refused(corral.run(repo, "t"), "corral.toml")


def test_defaults_of_the_person_hold(corral: Corral) -> None:
    corral.config(MINE + '[defaults]\nagent = "mine"\nchecks = ["test -f x"]\ntimeout = "5m"\n')
    outcome = corral.run(corral.repo(), "t")
    assert outcome.code == 0, outcome
    assert [check["command"] for check in outcome.attempt["checks"]] == ["test -f x"]


def test_an_agent_whose_program_is_gone(corral: Corral) -> None:
    corral.config('[agents.mine]\ncommand = ["./gone.sh"]')
    refused(corral.run(corral.repo(), "t", "--agent", "mine"), "mine", "gone.sh", hint="command")


def test_an_agent_whose_program_may_not_be_executed(corral: Corral) -> None:
    corral.agent("mine", "true")
    (corral.config_file.parent / "mine.sh").chmod(0o644)
    refused(corral.run(corral.repo(), "t", "--agent", "mine"), "mine.sh")
