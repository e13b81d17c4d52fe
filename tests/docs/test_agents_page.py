"""AGENTS.md names the tree as it is."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src" / "corral"
#: Folders of tests that mirror no room: what they test is the whole, or what tests share.
OF_THE_WHOLE = {"acceptance", "docs", "editors", "evidence", "golden", "house", "integrations", "pages", "rig"}


def _block(heading: str) -> list[str]:
    text = (PROJECT / "AGENTS.md").read_text().split(f"## {heading}\n", 1)[1]
    return text.split("```text\n", 1)[1].split("```", 1)[0].splitlines()


def _rows() -> dict[Path, set[str]]:
    """Return the names of files and folders that the tree gives for each folder."""
    rows: dict[Path, set[str]] = {}
    folder = PROJECT
    for line in _block("The tree"):
        if line == "src/corral/":
            continue
        head = re.match(r"( {0,2})([\w-]+)/ ", line)
        if head:
            folder = (PACKAGE if head[1] else PROJECT) / head[2]
        words = re.findall(r"(?<![\w/`-])([\w-]+(?:/|\.py|\.md))(?![\w/-])", line[head.end() :] if head else line)
        rows.setdefault(folder, set()).update(words)
    return rows


def _folders(path: Path) -> set[str]:
    found = (entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith((".", "__")))
    return {entry.name for entry in found if any(file.is_file() for file in entry.rglob("[!_.]*"))}


def test_every_package_and_its_parts_are_in_the_tree() -> None:
    rows = _rows()
    assert {path.name for path in rows if path.parent == PACKAGE} == _folders(PACKAGE)
    for package in _folders(PACKAGE):
        assert {f"{name}/" for name in _folders(PACKAGE / package)} <= rows[PACKAGE / package], package


def test_everything_in_the_tree_exists() -> None:
    absent = [str(folder / name) for folder, names in _rows().items() for name in names if not (folder / name).exists()]
    assert absent == []


def test_the_folders_beside_the_source_are_in_the_tree() -> None:
    named = {path.name for path in _rows() if path.parent == PROJECT}
    assert {"tests", "bench", "docs", "examples", "tools"} <= named <= _folders(PROJECT)


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    assert [re.split(r"\s{2,}", line.strip())[0] for line in _block("Who may import whom")] == layers


def test_tests_stand_in_folders_named_like_the_rooms_they_test() -> None:
    folders = {file.parent.relative_to(PROJECT / "tests") for file in (PROJECT / "tests").rglob("test_*.py")}
    rooms = {folder for folder in folders if folder.parts and folder.parts[0] not in OF_THE_WHOLE}
    assert len(rooms) > 30
    assert [str(room) for room in sorted(rooms) if not (PACKAGE / room / "__init__.py").exists()] == []
