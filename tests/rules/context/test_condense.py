"""A summary of a long execution: whatever its size, what must be kept stands in it; the rest as far as there is room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model import CheckResult, Failure
from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    Checked,
    Condensed,
    Ended,
    Event,
    Planned,
    Rejected,
    Said,
    SteerTaken,
    Step,
    ToolReturned,
)
from corral.model.flow import Task
from corral.rules.context import condense, prompt

TASK = Task(prompt="Port the parser to Rust.", files=("src/parser.py",), checks=("pytest -q",), read_only=True)
STORY: list[Event] = [
    Said("Decision: we use nom, not pest.\nThe API must not change.\nStill open: do we keep the old module?"),
    CalledTool("Bash", "cargo new parser", "1"),
    ToolReturned("1", False, "error: could not find Cargo\nhint: install it"),
    Changed("/work/src/lib.rs"),
    Asked("May I delete parser.py?", answer="no"),
    SteerTaken("keep the Python binding"),
    Planned((Step("read", "completed"), Step("port", "in_progress"))),
    Checked(CheckResult(command="pytest -q", exit_code=1, seconds=1.0, output="1 failed: test_parser")),
    Ended(ok=False, error=Failure("context_too_long", "prompt is too long: 210000 tokens")),
    Rejected(("output has no `notes`",)),
]
KEPT = (
    "Port the parser to Rust.",
    "src/parser.py",
    "`pytest -q`",
    "Decision: we use nom, not pest.",
    "The API must not change.",
    "Still open: do we keep the old module?",
    "error: could not find Cargo hint: install it",
    "src/lib.rs",
    "May I delete parser.py? -> no",
    "keep the Python binding",
    "[in_progress] port",
    "1 failed: test_parser",
    "prompt is too long: 210000 tokens",
    "its output did not fit: output has no `notes`",
    "also do the docs",
)


@pytest.mark.parametrize("most", [0, 500, 100_000])
def test_what_must_be_kept_is_there(most: int) -> None:
    text = condense.build_summary(TASK, condense.gather_facts(STORY, "/work"), most, ["also do the docs"])
    for item in KEPT:
        assert item in text
    assert "change no files" in text


@pytest.mark.slow
def test_a_very_long_execution_becomes_short() -> None:
    noise: list[Event] = []
    for place in range(5000):
        noise += [CalledTool("Bash", f"ls {place}", str(place)), ToolReturned(str(place), True, "x\n" * 500)]
    text = condense.build_summary(TASK, condense.gather_facts([*STORY, *noise], "/work"), 20_000, ["also do the docs"])
    assert len(text) < 30_000
    for item in KEPT:
        assert item in text
    assert "ls 4999" in text  # the last steps


def test_a_chain_of_summaries_loses_nothing_that_must_be_kept() -> None:
    first = condense.gather_facts(STORY, "/work")
    second = condense.gather_facts(
        [*STORY, Condensed(1, "full", "s1", "rules"), Said("I decided to drop serde."), Changed("/work/b.rs")], "/work"
    )
    third_story = [
        *STORY,
        Condensed(1, "full", "s1", "rules"),
        Said("I decided to drop serde."),
        Changed("/work/b.rs"),
        Condensed(2, "full", "s2", "rules"),
    ]
    third = condense.gather_facts([*third_story, CalledTool("Bash", "cargo test", "9")], "/work")
    assert [facts.summaries for facts in (first, second, third)] == [0, 1, 2]
    text = condense.build_summary(TASK, third, 0, ["also do the docs"])
    for item in (*KEPT, "I decided to drop serde.", "b.rs", "cargo test"):
        assert item in text
    assert "cargo new parser" not in text  # a step of long ago


TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=200)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    TEXTS.map(Said),
    TEXTS.map(lambda text: Said(f"Decision: {text}")),
    TEXTS.map(lambda text: Said(f"It must be so: {text}")),
    st.builds(ToolReturned, TEXTS, st.booleans(), TEXTS),
    TEXTS.map(Changed),
    TEXTS.map(SteerTaken),
    st.builds(Asked, TEXTS),
    st.builds(CalledTool, TEXTS, TEXTS, TEXTS),
    TEXTS.map(lambda text: Condensed(1, "full", text, "rules")),
)


@given(
    prompt_=TEXTS,
    story=st.lists(EVENTS, max_size=120),
    most=st.integers(0, 50_000),
    steers=st.lists(TEXTS, max_size=3),
)
def test_every_must_keep_item_survives_whatever_the_size(
    prompt_: str, story: list[Event], most: int, steers: list[str]
) -> None:
    task = Task(prompt=prompt_, files=("a b.py",), checks=("make check",))
    facts = condense.gather_facts(story)
    must = condense.must_keep(task, facts, steers)
    made = condense.build_summary(task, facts, most, steers)
    assert condense.missing_facts(made, must) == []
    assert condense.missing_facts(condense.complete_summary("a model's words", task, facts, steers), must) == []
    assert prompt_ in prompt.from_summary(task, made, "~/condensed/steps-1.md")


def test_thousands_of_files_are_told_by_their_folders() -> None:
    story = [Changed(f"generated/{place}.py") for place in range(3000)] + [Changed("src/last.py")]
    text = condense.build_summary(TASK, condense.gather_facts(story), 0)
    assert "generated/ (2601 files)" in text
    assert "src/last.py" in text
    assert len(text) < 40_000


def test_only_the_newest_of_many_remarks_stay() -> None:
    facts = condense.gather_facts([Said(f"Decision: number {place}.") for place in range(1000)])
    assert len(facts.decisions) == condense.MOST_ITEMS
    assert facts.decisions[-1] == "Decision: number 999."


def test_what_is_missing_from_a_foreign_summary_is_seen() -> None:
    facts = condense.gather_facts(STORY, "/work")
    must = condense.must_keep(TASK, facts)
    assert "src/lib.rs" in condense.missing_facts("All went well.", must)
    whole = condense.complete_summary("All went well.", TASK, facts)
    assert condense.missing_facts(whole, must) == []
    assert whole.endswith("All went well.")
