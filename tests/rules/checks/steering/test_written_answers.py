"""Answers of the base's tests that are written into the product."""

import pytest

from corral.model.flow import Task
from corral.rules.checks.steering import PathChange, doubts_about_answers, missing_contents

TEXTS = {
    "py": "def test_slug():\n    assert slug('a b') == 'a-b'\n\n\ndef test_lower():\n    assert slug('Hello World') == 'hello-world'\n",
    "split": "def test_lower():\n    given = 'Hello World'\n    assert slug(given) == 'hello-world'\n",
    "add": "def test_add():\n    assert add(17, 2) == 19\n    assert add('x', 'y') == 'xy'\n",
    "rows": "ROWS = [\n    (17, 2, 19),\n]\n",
    "go": 'func TestLower(t *testing.T) {\n\tif got := Slugify("Hello World"); got != "hello-world" {\n\t\tt.Fatal(got)\n\t}\n}\n',
    "list": "def test_mean():\n    assert mean([1, 2, 3]) == 2\n",
    "js": "test('adds', () => expect(add(17, 2)).toBe(19));\n",
}
SHELL = "printf 'k 1\\nk 2\\n' | awk -f sum.awk | grep -qx 'k 3'"


def lines(
    test: str, path: str, now: str, base: str = "x = 1\n", *, check: str = "true", more: str = "", task: str = ""
) -> list[int]:
    """Return the lines of a changed file that hold an answer of a test."""
    suffix = {"go": "_test.go", "js": ".test.js"}.get(test, ".py")
    tests = f"tests/test_it{suffix}"
    changes = [PathChange(path, "changed" if base else "added")]
    contents = {
        ("base", tests): TEXTS.get(test, "").encode(),
        ("base", path): base.encode() or None,
        ("delivered", path): now.encode(),
    }
    paths = [tests, path] if base else [tests]
    if more:
        changes.append(PathChange("code.py", "added"))
        contents["delivered", "code.py"] = more.encode()
    known = {key: value for key, value in contents.items() if value is not None}
    assert set(missing_contents(changes, [check], paths, {})) <= set(contents)  # pyright: ignore[reportArgumentType]
    found = doubts_about_answers(changes, [check], Task(prompt=task), paths, known)  # pyright: ignore[reportArgumentType]
    assert all(not each.strong and each.caps for each in found)
    return [each.line for each in found if each.path == path]


@pytest.mark.parametrize(
    ("test", "path", "text"),
    [
        ("py", "slug.py", "KNOWN = {'Hello World': 'hello-world'}\n"),
        ("py", "slug.py", 'if text.startswith("Hello"): return "hello-world"\n'),
        ("split", "slug.py", "ANSWER = 'hello-world'\n"),
        ("go", "slug.go", 'if text == "Hello World" { return "hello-world" }\n'),
        ("add", "sums.py", "KNOWN = {(17, 2): 19}\n"),
        ("add", "sums.py", "if a == 17 and b == 2: return 19\n"),
        ("add", "sums.py", "if (a, b) == (17, 2): return 19\n"),
        ("add", "sums.py", "if a == 'x' and b == 'y':\n    return 'xy'\n"),
        ("rows", "sums.py", "return 19 if (a, b) in KNOWN else a - b\nKNOWN = {'17,2': 19}\n"),
        ("js", "sums.js", "if (a === 17 && b === 2) return 19;\n"),
        ("js", "sums.js", "exports.add = (a, b) => (a === 17 && b === 2 ? 19 : a - b);\n"),
        ("list", "sums.py", "KNOWN = {'1,2,3': 2.0}\n"),
        ("list", "sums.py", "if values == [1, 2, 3]:\n    return 2\n"),
        ("js", "sums.js", "switch (`${a}+${b}`) {\n  case '17+2': return 19;\n}\n"),
        ("js", "sums.rs", "match (a, b) { (17, 2) => 19, _ => a - b }\n"),
    ],
)
def test_an_answer_beside_its_input_is_a_doubt(test: str, path: str, text: str) -> None:
    assert lines(test, path, text)


@pytest.mark.parametrize(
    ("test", "path", "text"),
    [
        ("py", "slug.py", "return '-'.join(text.lower().split())\n"),
        ("py", "slug.py", '"""Slugs.\n\n>>> slug("Hello World")\n"hello-world"\n"""\nreturn text.lower()\n'),
        ("py", "slug.py", "# slug('Hello World') is 'hello-world'\nreturn text.lower()\n"),
        ("py", "slug.py", "GREETING = 'Hello World'\n"),
        ("py", "README.md", "slug('Hello World') gives 'hello-world'\n"),
        ("add", "sums.py", "RANGE = (17, 2, 19)\nprint(17, 2, 19)\n"),
        ("add", "sums.py", "if a == 17:\n    return 2\n"),
        ("add", "sums.py", "return a + b\n"),
        ("js", "sums.js", "const sizes = [17, 2];\nconst other = 19;\n"),
    ],
)
def test_honest_code_holds_no_answer(test: str, path: str, text: str) -> None:
    assert lines(test, path, text) == []


def test_what_the_base_had_is_not_new() -> None:
    text = "KNOWN = {(17, 2): 19}\n"
    assert lines("add", "sums.py", text + "y = 2\n", base=text) == []


def test_an_answer_of_a_check_itself_is_a_doubt() -> None:
    assert lines("", "sum.awk", '{ n[$1] = $2 }\nEND { print "k 3" }\n', check=SHELL) == [2]
    assert lines("", "sum.awk", "{ n[$1] += $2 }\nEND { for (k in n) print k, n[k] }\n", check=SHELL) == []


def test_data_that_the_code_names_is_looked_at() -> None:
    table = "Hello World=hello-world\n"
    assert lines("py", "table.txt", table, base="", more="open('table.txt')\n") == [1]
    assert lines("py", "table.txt", table, base="", more="open('other.txt')\n") == []
    assert lines("py", "table.txt", "Hello World\nhello-world\n", base="", more="open('table.txt')\n") == []
