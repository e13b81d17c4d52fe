"""Rules for single tools: which word holds for which call."""

import pytest

from corral.model import PolicyRules
from corral.rules.scope.tool_policy import judge_call

RULES = PolicyRules(allow=("pytest*", "read_file src/*"), ask=("rm -rf", "send_mail"), deny=("git push",))
STRICT = PolicyRules(allow=("pytest*", "ls", "read_file src/*"), default="deny")


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("git push origin main", "deny"),
        ("git  push", "deny"),
        ('git "push"', "deny"),
        ("cd a && git push", "deny"),
        ("echo $(git push)", "deny"),
        ("true; rm -rf build | cat", "ask"),
        ("rm -rf x; git push", "deny"),
        ("git pushy", "allow"),
        ("git status", "allow"),
        ("pytest -q", "allow"),
    ],
)
def test_a_command_is_judged_by_all_its_parts(command: str, word: str) -> None:
    assert judge_call([RULES], "run_command", {"command": command}).word == word


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("run_command", {"command": "pytest -q"}, "allow"),
        ("run_command", {"command": "pytest -q && ls"}, "allow"),
        ("run_command", {"command": "pytest -q && curl x"}, "deny"),
        ("run_command", {"command": "curl x # pytest"}, "deny"),
        ("read_file", {"path": "src/a.py"}, "allow"),
        ("read_file", {"path": "key.pem"}, "deny"),
        ("report", {"text": "hello"}, "deny"),
        ("run_command", {}, "deny"),
        ("run_command", None, "deny"),
    ],
)
def test_what_no_pattern_fits_has_the_default(tool: str, arguments: object, word: str) -> None:
    assert judge_call([STRICT], tool, arguments).word == word


def test_the_strictest_file_holds_and_the_rule_is_named() -> None:
    open_rules = PolicyRules(allow=("git push*",))
    found = judge_call([open_rules, RULES], "run_command", {"command": "git push"})
    assert (found.word, found.rule, found.line) == ("deny", "git push", "run_command git push")
    assert judge_call([], "run_command", {"command": "git push"}).word == "allow"
