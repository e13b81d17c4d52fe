"""YAML as a tree with places: what is read, what is refused, and where it says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from corral.rules.flows.tree import MOST_DEPTH, UnreadableYaml, read

TEXT = """\
# a list
agents:
  - name: qa
    on: yes
    count: 3
    rate: 1.5
    quoted: "3"
    nothing:
    words: |
      one
      two
  - {name: dev, ready: true}
"""


def test_values_have_the_meaning_of_yaml_1_2() -> None:
    assert read(TEXT).plain() == {
        "agents": [
            {
                "name": "qa", "on": "yes", "count": 3, "rate": 1.5, "quoted": "3", "nothing": None,
                "words": "one\ntwo\n",
            },
            {"name": "dev", "ready": True},
        ]
    }  # fmt: skip


def test_every_value_and_every_key_knows_its_place() -> None:
    key, agents = read(TEXT).value["agents"]
    assert (key.line, key.column) == (2, 1)
    name, value = agents.value[1].value["name"]
    assert (name.line, name.column) == (12, 6)
    assert (value.line, value.column) == (12, 12)


def test_json_is_read_too_and_an_empty_text_is_nothing() -> None:
    assert read('{"a": [1, "x", null]}').plain() == {"a": [1, "x", None]}
    assert read("").plain() is None
    assert read("# words\n").plain() is None


REFUSED = {
    "an anchor": ("a: &x 1\n", 1, 4, "anchors"),
    "an alias": ("a: 1\nb: *x\n", 2, 4, "anchors"),
    "a tag": ("a: 1\nb: !!python/object:os.system x\n", 2, 4, "tag"),
    "a tag of one's own": ("a: !mine x\n", 1, 4, "tag"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, 1, "twice"),
    "a key that is a list": ("? [a, b]\n: 1\n", 1, 3, "key"),
    "two documents": ("a: 1\n---\nb: 2\n", 3, 1, "more than one"),
    "a bracket left open": ("a: [1, 2\n", 2, 1, "no YAML"),
    "a tab": ("a:\n\tb: 1\n", 2, 1, "no YAML"),
    "much nesting": ("[" * (MOST_DEPTH + 5) + "]" * (MOST_DEPTH + 5), 1, MOST_DEPTH + 2, "deeply"),
    "very much nesting": ("[" * 100_000, 1, MOST_DEPTH + 2, "deeply"),
    "a long text": ("a: " + "x" * (600 << 10), 1, 1, "shorter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_hurt_is_refused_where_it_stands(case: str) -> None:
    text, line, column, word = REFUSED[case]
    with pytest.raises(UnreadableYaml) as caught:
        read(text)
    mistake = caught.value.mistake
    assert (mistake.line, mistake.column) == (line, column), mistake
    assert word in mistake.message
    assert "\n" not in mistake.message


@given(some.text(alphabet="ab:-[]{}&*!|>'\"#?,%@\\ \n\t0\u00e9\x00\u2028"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read(text)
    except UnreadableYaml as error:
        found = error.mistake
    assert found.line >= 1
    assert found.column >= 1
