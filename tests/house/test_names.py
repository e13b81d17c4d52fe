"""Names of the tree: one class name for one idea, no two modules that sound alike, no path in a document that is gone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # left out of `make quick`

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "corral"
FOLDERS = ("docs/concepts", "docs/contributing")
PACKAGES = sorted(each.parent for each in SOURCE.rglob("__init__.py"))
TOPS = "|".join(each.name for each in sorted(SOURCE.iterdir()) if each.is_dir() and not each.name.startswith("_"))
PATH = re.compile(rf"(?<![\w./-])(?:src/corral/)?((?:{TOPS})/[\w.*/-]+)")

#: What the engine does, and the part of the store that keeps its records.
STORED = {"Chats", "History", "Inbox", "Memory", "Merges", "Programs", "Review", "RunQueue", "Slots"}
#: One interface over two databases; ideas of the engine as the Python package offers them; tools of agents and programs.
TWO_FORMS = {"ChangeWatch", "Store"} | {"Engine", "Flow", "Task"} | {"ListFiles", "ReadFile"}
PUBLIC = {"Request"}  #: `corral.testing.Request`, what the scripted model was asked: users import it by this name
SHARED = STORED | TWO_FORMS | PUBLIC


@cache
def _class_places() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(SOURCE).as_posix())
    return found


def test_a_class_name_is_used_for_one_idea() -> None:
    twice = {name: places for name, places in _class_places().items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in SHARED} == {}


def test_the_list_of_shared_class_names_is_not_longer_than_needed() -> None:
    places = _class_places()
    assert {name for name in SHARED if len(places[name]) < 2} == set()
    for name in STORED:
        assert sorted(place.partition("/")[0] for place in places[name]) == ["engine", "store"], name


def _alike(names: Sequence[str]) -> list[list[str]]:
    """Return names that differ by an ending alone."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        found[name.removesuffix("s")].append(name)
    return [sorted(each) for each in found.values() if len(each) > 1]


def test_no_two_modules_of_a_package_share_a_stem() -> None:
    shared = {
        package.relative_to(ROOT).as_posix(): alike
        for package in PACKAGES
        if (alike := _alike([each.stem for each in package.iterdir() if each.suffix == ".py" or each in PACKAGES]))
    }
    assert shared == {}


def test_names_that_sound_alike_would_be_found() -> None:
    assert _alike(["run", "diff", "runs", "diff", "news"]) == [["run", "runs"], ["diff", "diff"]]


def _missing(text: str) -> Iterator[str]:
    for found in PATH.finditer(text):
        path = found[1].rstrip("/.")
        placeholder = re.search(r"\b[A-Z]{3,}\b", path)  # agents/NAME.py
        if not placeholder and not any(SOURCE.glob(path)):
            yield path


def test_paths_of_the_package_in_documents_exist() -> None:
    documents = [ROOT / "AGENTS.md", *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")))]
    texts = {page.relative_to(ROOT).as_posix(): page.read_text() for page in documents}
    assert any(PATH.search(text) for text in texts.values())
    assert {name: missing for name, text in texts.items() if (missing := [*_missing(text)])} == {}


def test_a_path_that_is_gone_would_be_found() -> None:
    text = "`engine/talk/recorder.py`, `agents/NAME.py`, `src/corral/rules/retry.py`, `attempt/runner.py`, `rules/race`"
    assert [*_missing(text)] == ["engine/talk/recorder.py", "rules/retry.py"]


def test_a_bare_pass_has_a_reason() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for lines in [path.read_text().split("\n")]
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.Pass) and not any("#" in each for each in lines[node.lineno - 2 : node.lineno])
    ]
    assert bare == []
