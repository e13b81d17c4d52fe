"""Which agent gets a task: rules first, then what went well before, then what is known of agents."""

from corral.model import RoutingRule, TrackRecord
from corral.model.flow import Task
from corral.rules.flows.routing import Knowledge, route

SIMPLE = Task(prompt="mend a typo", type="documentation")
LARGE = Task(prompt="design and migrate the architecture", type="architecture", files=("a.py", "b.py"))


def only(*names: str) -> Knowledge:
    return Knowledge(able=lambda name: name in names)


def test_the_first_rule_that_fits_and_can_be_followed() -> None:
    rules = (
        RoutingRule(agent="absent", type=("documentation",)),
        RoutingRule(agent="writer:small", words=("Typo", "spelling"), reason="small words, small model"),
        RoutingRule(agent="claude"),
    )
    known = Knowledge(rules=rules, able=lambda name: name != "absent")
    found = route(SIMPLE, known)
    assert (found.agent, found.reason) == ("writer:small", "[[routing]] 2: small words, small model")
    assert route(LARGE, known).reason == "[[routing]] 3: always"


def test_what_a_rule_looks_at() -> None:
    task = Task(prompt="Fix the parser", type="bugfix", role="tester", files=("src/deep/parser.py",))
    fitting = (
        RoutingRule(agent="x", type=("bugfix", "test")),
        RoutingRule(agent="x", grade=("simple", "moderate")),
        RoutingRule(agent="x", role=("tester",)),
        RoutingRule(agent="x", words=("parser",)),
        RoutingRule(agent="x", files=("docs/**", "**/*.py")),
        RoutingRule(agent="x", files=("src/**",)),
    )
    others = (
        RoutingRule(agent="x", type=("feature",)),
        RoutingRule(agent="x", grade=("complex",)),
        RoutingRule(agent="x", role=("developer",)),
        RoutingRule(agent="x", words=("pars", "arse")),
        RoutingRule(agent="x", files=("docs/**",)),
        RoutingRule(agent="x", type=("bugfix",), words=("lexer",)),
    )
    for rule in fitting:
        assert route(task, Knowledge(rules=(rule,))).agent == "x", rule
    for rule in others:
        assert route(task, Knowledge(rules=(rule,))).agent != "x", rule


def test_history_counts_from_five_on_and_says_its_n() -> None:
    history = (
        TrackRecord(agent="lucky", count=4, done=4, usd=0.01),
        TrackRecord(agent="dear", count=10, done=9, usd=2.0),
        TrackRecord(agent="cheap", count=20, done=18, usd=0.5),
        TrackRecord(agent="bad", count=50, done=20, usd=0.0),
    )
    found = route(SIMPLE, Knowledge(history=history, free=("bad",)))
    assert found.agent == "cheap"
    assert found.reason == "of documentation tasks here it did 90% (n = 20, $0.50 each)"
    assert route(SIMPLE, Knowledge(history=history, able=lambda name: name == "dear")).agent == "dear"
    assert route(SIMPLE, Knowledge(history=history[3:], able=lambda _: False)).agent == "claude:haiku"


def test_what_is_known_of_agents() -> None:
    assert route(SIMPLE, Knowledge(free=("local",))).agent == "local"
    assert route(SIMPLE, only("gemini")).agent == "gemini"
    assert route(LARGE, Knowledge(free=("local",), able=lambda name: name == "auto-claude")).agent == "auto-claude"
    assert route(LARGE, only("claude")).agent == "claude:opus"
    assert route(LARGE, only()).agent == "claude:opus"  # then the person is told how to get it
