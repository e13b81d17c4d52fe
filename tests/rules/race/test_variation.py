"""Rivals are told apart by what they answer to varied inputs of the base's tests."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.model import Attempt, Evidence
from corral.rules.checks.outside import programs
from corral.rules.race import select, variation
from corral.rules.race.variation import RivalAnswer
from corral.rules.race.varied_calls import MOST_CALLS, ProductCall, found_in, modules, vary_calls, with_own

RIGHT = "def add(a, b):\n    return a + b\n"
KNOWN = "def add(a, b):\n    return {(1, 2): 3}.get((a, b), 0)\n"
FORMS = {
    "pytest": "from sums import add\ndef test_add():\n    assert add(1, 2) == 3\n",
    "parametrize": "import pytest\nfrom sums import add\n@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\n"
    "def test_add(a, b):\n    assert add(a, b) == a + b\n",
    "pytest.param": "import pytest\nfrom sums import add\n@pytest.mark.parametrize('a', [pytest.param(1, id='x')])\n"
    "def test_add(a):\n    assert add(a, 2)\n",
    "unittest": "import sums, unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
    "        self.assertEqual(sums.add(1, 2), 3)\n",
    "script": "import sums as s\nassert s.add(1, 2) == 3\n",
    "loop": "from sums import add\nfor a, b, c in [(1, 2, 3)]:\n    assert add(a, b) == c\n",
    "variables": "from sums import add as plus\ndef test():\n    one = 1\n    assert plus(one, b=2) == 3\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_found_in_tests_of_all_forms(form: str) -> None:
    found = found_in([FORMS[form]], modules(["sums.py"]))
    assert (found[0].module, found[0].name, found[0].arguments.replace("b=", "")) == ("sums", "add", "1, 2")


def test_only_plain_calls_of_changed_modules_count() -> None:
    source = "from other import f\nfrom sums import add\nf(1)\nadd(x, 2)\nadd(*y)\nadd()\nadd(1e999, 1)\nadd(f(1), 2)\n"
    assert found_in([source, "def broken(:\n"], modules(["sums.py", "README.md"])) == []


def test_a_module_has_all_names_by_which_it_can_be_imported() -> None:
    found = modules(["src/pkg/deep/mod.py", "tool.py", "a-b/c.py"])
    assert (found["pkg.deep.mod"], found["pkg"], found["mod"]) == ("src", "src", "src/pkg/deep")
    assert (found["tool"], found["c"]) == (".", "a-b")
    assert "a-b.c" not in found


def test_values_vary_within_their_types_and_the_calls_are_bounded() -> None:
    calls = [
        ProductCall("m", "f", "1, 'abc'"),
        ProductCall("m", "g", "[3, 1], key={'a': 2.5}"),
        ProductCall("m", "h", "True, None"),
    ]
    found = vary_calls(calls)
    assert 10 < len(found) <= MOST_CALLS
    assert {call.name for call in found} == {"f", "g", "h"}
    assert not {call.text for call in found} & {call.text for call in calls}
    assert vary_calls([ProductCall("m", "f", f"{number}, {number}") for number in range(50)])[MOST_CALLS:] == ()
    for call in found:
        if call.name == "f":
            number, text = eval(f"({call.arguments})")
            assert (type(number), type(text)) == (int, str)
    assert any(call.edge for call in found)
    assert not found[0].edge


def probed(folder: Path, product: str, calls: Sequence[ProductCall]) -> list[RivalAnswer]:
    folder.mkdir()
    (folder / "sums.py").write_text(product)
    program = programs.python(calls, ["."], variation.MARK, errors=True)
    command = ["/bin/sh", "-c", programs.command(program, sys.executable, "main.py", {})]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return variation.answers(ended.stdout, len(calls), ended=True)


def test_the_probe_gives_plain_answers(tmp_path: Path) -> None:
    product = (
        "import os, sys\nprint('noise')\n"
        "def add(a, b):\n"
        "    os.write(1, b'more noise')\n"
        "    if a == 0: raise KeyError(b)\n"
        "    if a == 1: return object()\n"
        "    if a == 2: return {'b': {2, 1}, 'a': (0.1 + 0.2,)}\n"
        "    if a == 3: sys.exit(0)\n"
        "    if a == 4: return '\\x1b[31m' + 'x' * 100\n"
        "    if a == 5:\n        while True: pass\n"
        "    os._exit(0)\n"
    )
    found = probed(tmp_path / "one", product, [ProductCall("sums", "add", f"{a}, 1") for a in range(8)])
    assert found[0] == RivalAnswer(raises="KeyError")
    assert found[1] == RivalAnswer()
    assert found[2].value == "{'a': (0.3,), 'b': {1, 2}}"
    assert found[3] == RivalAnswer(raises="SystemExit")
    assert found[4].text.endswith("...")
    assert "\x1b" not in found[4].text
    assert found[5] == RivalAnswer(), "too slow: no word"
    assert found[6].raises == found[7].raises == "the end of the program"


def test_a_majority_and_a_split(tmp_path: Path) -> None:
    calls = vary_calls(found_in([FORMS["pytest"]], modules(["sums.py"])))
    right, known = probed(tmp_path / "a", RIGHT, calls), probed(tmp_path / "b", KNOWN, calls)
    found = variation.compare_rivals(calls, {"r-1": known, "r-2": right, "r-3": right})
    assert [found[f"r-{number}"].group for number in (1, 2, 3)] == [2, 1, 1]
    assert (found["r-1"].majority, found["r-1"].rivals, found["r-2"].agrees) == (2, 3, 2)
    two = variation.compare_rivals(calls, {"r-1": known, "r-2": right})
    assert two["r-1"].majority == 0
    assert {two["r-1"].answer, two["r-2"].answer} >= {"0"}
    assert two["r-1"].example == two["r-2"].example
    same = variation.compare_rivals(calls, {"r-1": right, "r-2": right})
    assert {each.group for each in same.values()} == {1}


def test_exceptions_count_only_against_a_majority() -> None:
    call, edge = ProductCall("m", "f", "1"), ProductCall("m", "f", "-1", edge=True)
    value, other, error = RivalAnswer("1"), RivalAnswer(raises="KeyError"), RivalAnswer(raises="ValueError")

    def groups(asked: ProductCall, *given: RivalAnswer) -> set[int]:
        rivals = {f"r-{number}": [each, RivalAnswer("0")] for number, each in enumerate(given)}
        return {each.group for each in variation.compare_rivals([asked, call], rivals).values()}

    assert groups(call, value, other) == {1}
    assert groups(call, error, other, error) == {1}, "different exceptions are no difference"
    assert groups(call, value, value, other) == {1, 2}
    assert groups(edge, value, value, other) == {1}, "a function may refuse such a value"
    assert groups(call, value, RivalAnswer("2"), RivalAnswer()) == {1, 2}
    nothing = variation.compare_rivals([call], {"r-1": [value], "r-2": [RivalAnswer()]})
    assert (nothing["r-2"].group, nothing["r-2"].note) == (0, "its program gave no answers")


def test_a_majority_that_answers_as_the_base_did_has_no_weight(tmp_path: Path) -> None:
    calls = with_own(found_in([FORMS["parametrize"]], modules(["sums.py"])))
    assert [call.own for call in calls[:3]] == [True, True, False]
    wrong = probed(tmp_path / "base", "def add(a, b):\n    return a - b\n", calls)
    known = probed(tmp_path / "known", "def add(a, b):\n    return {(1, 2): 3, (3, 4): 7}.get((a, b), a - b)\n", calls)
    right = probed(tmp_path / "right", RIGHT, calls)
    cheats = {"r-1": known, "r-2": known, "r-3": right}
    assert variation.compare_rivals(calls, cheats)["r-3"].majority == 2
    assert variation.compare_rivals(calls, cheats, wrong)["r-3"].majority == 0
    honest = {"r-1": known, "r-2": right, "r-3": right}
    assert variation.compare_rivals(calls, honest, wrong)["r-1"].majority == 2
    changed = probed(tmp_path / "changed", "def add(a, b):\n    return a + b if a < 5 else 0\n", calls)
    others = {"r-1": changed, "r-2": right, "r-3": right}
    assert variation.compare_rivals(calls, others, right)["r-1"].majority == 2, "a refactoring: the base is no bad sign"


def attempts(tmp_path: Path, *products: str) -> list[Attempt]:
    calls = vary_calls(found_in([FORMS["pytest"]], modules(["sums.py"])))
    given = {f"r-{n}": probed(tmp_path / str(n), text, calls) for n, text in enumerate(products, 1)}
    found = variation.compare_rivals(calls, given)
    return [
        Attempt(
            id=name, agent=name, status="done", files_changed=("sums.py",), insertions=place,
            evidence=Evidence(grade="proven"), variation=found[name],
        )
        for place, name in enumerate(given)
    ]  # fmt: skip


def test_the_ranking_follows_the_majority_before_size(tmp_path: Path) -> None:
    found = attempts(tmp_path, KNOWN, RIGHT, RIGHT + "# more\n")
    ranking = select.rank(found)
    assert ranking.winner == "r-2"
    assert "agrees with 2 of 3 rivals on varied inputs; smallest change" in ranking.why
    assert ranking.reasons["r-1"].startswith("differs from 2 of 3 rivals: add(")
    assert ranking.reasons["r-1"].split(" gives ")[1].startswith("0, others ")
    assert select.undecided_attempts(found, {}) == ()


def test_two_that_differ_are_undecided(tmp_path: Path) -> None:
    found = attempts(tmp_path, KNOWN, RIGHT)
    assert select.undecided_attempts(found, {}) == ("r-1", "r-2")
    assert variation.dispute(found).startswith("they differ: add(")
    assert "0 in r-1" in variation.dispute(found)
    (tmp_path / "same").mkdir()
    assert select.undecided_attempts(attempts(tmp_path / "same", RIGHT, RIGHT), {}) == ()
