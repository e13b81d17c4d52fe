"""Settings of editors with our entries in them: what was there stays, letter for letter."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.rules.editors.commented_json import Unmergeable, merge, parse

WANTED = {"agent_servers": {"Corral": {"command": "/bin/corral", "args": ["acp"]}}}
SETTINGS = """\
// my settings
{
    "theme": "One // not a comment", // dark at night
    /* agents */
    "agent_servers": {
        "Other": { "command": "other" }, // keep me
    },
    "tab_size": 4 // last
}
"""


def test_comments_and_order_survive() -> None:
    merged = merge(SETTINGS, WANTED)
    assert parse(merged).value == {
        **parse(SETTINGS).value,
        "agent_servers": {"Other": {"command": "other"}, **WANTED["agent_servers"]},
    }
    left = iter(merged.splitlines())
    assert all(line in left for line in SETTINGS.splitlines()), "every old line is there, in its order"
    assert merge(merged, WANTED) == merged
    assert '\n        "Corral": {\n            "command"' in merged, "indented as the file is"


@pytest.mark.parametrize(
    "before",
    ["", "\n", "// only a remark\n", "{}", '{"a": 1}', '{\n\t"a": 1\n}', '{"agent_servers": {}}', '\ufeff{"a": [1,],}'],
)
def test_any_object_takes_an_entry(before: str) -> None:
    merged = merge(before, WANTED)
    assert parse(merged).value["agent_servers"] == WANTED["agent_servers"]
    assert merge(merged, WANTED) == merged


def test_an_entry_of_ours_is_brought_up_to_date() -> None:
    before = '{"agent_servers": {"Corral": {"command": "/old/corral", "args": ["acp"], "env": {"A": "1"}}}}'
    merged = merge(before, WANTED)
    assert merged == before.replace("/old/corral", "/bin/corral"), "what the user added to it stays"


def test_items_of_lists_are_known_by_their_name() -> None:
    before = '[\n  // tests\n  {"label": "test", "command": "make"},\n  {"label": "Corral: a", "command": "old"}\n]\n'
    merged = merge(before, [{"label": "Corral: a", "command": "new"}, {"label": "Corral: b", "command": "b"}])
    assert [(each["label"], each["command"]) for each in parse(merged).value] == [
        ("test", "make"),
        ("Corral: a", "new"),
        ("Corral: b", "b"),
    ]
    assert "// tests" in merged


def test_line_ends_of_windows_stay() -> None:
    merged = merge(SETTINGS.replace("\n", "\r\n"), WANTED)
    assert "\n" not in merged.replace("\r\n", "")
    assert merged.replace("\r\n", "\n") == merge(SETTINGS, WANTED)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("{", "line 1"),
        ('{\n"a": }', "line 2: not JSON"),
        ('{"a" 1}', "a colon is missing"),
        ('{"a": 1 "b": 2}', "a comma or } is missing"),
        ("{a: 1}", 'a name in "quotes"'),
        ("{} {}", "something follows"),
        ("/* open {}", "not JSON"),
        ("[]", "the whole is not an object"),
        ('{"agent_servers": []}', "agent_servers is not an object"),
        ("[" * 5000, "nested too deep"),
        ('{"a": 01x}', "line 1"),
    ],
)
def test_what_cannot_be_joined_is_refused(before: str, words: str) -> None:
    with pytest.raises(Unmergeable, match=words.replace("(", r"\(")):
        merge(before, WANTED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.sampled_from([None, 2, "\t"]))
def test_nothing_else_changes(before: dict[str, object], indent: int | str | None) -> None:
    before.pop("agent_servers", None)
    merged = merge(json.dumps(before, indent=indent), WANTED)
    assert parse(merged).value == {**before, **WANTED}
    assert json.loads(merged) == {**before, **WANTED}, "plain JSON stays plain JSON"
