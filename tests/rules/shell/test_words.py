"""Shell text split as a shell splits it."""

import subprocess

import pytest

from corral.rules.shell.words import UnreadableShell, read, split, tokenize


def test_quotes_are_taken_as_a_shell_takes_them() -> None:
    tokens = tokenize(r"""a"b c"'d'\ e '$X' "$X" "~/x" """)
    assert tokens
    assert [(each.text, each.certain) for each in tokens] == [
        ("ab cd e", True),
        ("$X", True),
        ("$X", False),
        ("~/x", False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a b  c",
        r"a\ b 'c d' \"e",
        '"a\'b" \'c"d\' "e\\"f" "g\\\\h" "i\\j"',
        "a'b'\"c\"d",
        "a \\\n b",
        "a#b # c",
        "'' \"\" a",
        "$'a b' \\$X '`'",
        "a=b=c --x='y z'",
        "{ } ! [ [[ ]] -n",
        "é 'ü ß'",
    ],
)
def test_words_are_those_of_bash(text: str) -> None:
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True)
    assert [each.text for each in read(text)] == printed.stdout.decode().split("\0")[:-1]


def test_operators_and_documents() -> None:
    tokens = read("a<<E|b;c&&d\n$X\nE\ne <<-'F'\n\t$Y\n\tF\n")
    assert [each.text for each in tokens if each.operator] == ["<<", "|", ";", "&&", "\n", "<<-", "\n"]
    documents = [(each.document, each.verbatim) for each in tokens if each.document is not None]
    assert documents == [("$X", False), ("$Y", True)]


@pytest.mark.parametrize("text", ["'open", '"open', "$(open", "`open", "${open", 'a "$(b" c'])
def test_what_is_left_open_cannot_be_read(text: str) -> None:
    with pytest.raises(UnreadableShell):
        read(text)


@pytest.mark.parametrize("text", ["a $(b)", "a `b`", "a <<E\nE\n", "a <(b)", "'open"])
def test_substitutions_and_documents_are_not_flat(text: str) -> None:
    assert tokenize(text) is None


def test_tokens_are_split_at_operators() -> None:
    parts = split(read("a b && c; && d"), {"&&", ";"})
    assert [[each.text for each in part] for part in parts] == [["a", "b"], ["c"], ["d"]]
