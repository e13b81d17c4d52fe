"""AGENTS.md names the tree as it is."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "src" / "corral"
#: Folders of tests that mirror no room: what they test is the whole, or what tests share.
OF_THE_WHOLE = {"acceptance", "docs", "evidence", "golden", "house", "pages", "rig"}


def _block(heading: str) -> list[str]:
    text = (PROJECT / "AGENTS.md").read_text().split(f"## {heading}\n", 1)[1]
    return text.split("```text\n", 1)[1].split("```", 1)[0].splitlines()


def test_every_package_has_its_row_and_every_row_its_package() -> None:
    rows = [line for line in _block("The tree") if line.startswith("  ")]
    named = {line.split()[0].rstrip("/") for line in rows}
    assert named == {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    for line in rows:
        package, words = line.split(maxsplit=1)
        for name in re.findall(r"\b([a-z_]+(?:/|\.py))", words):
            assert list((PACKAGE / package).rglob(name.rstrip("/"))), (
                f"{package}{name} is named in AGENTS.md and is not there"
            )


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    assert [re.split(r"\s{2,}", line.strip())[0] for line in _block("Who may import whom")] == layers


def test_tests_stand_in_folders_named_like_the_rooms_they_test() -> None:
    folders = {file.parent.relative_to(PROJECT / "tests") for file in (PROJECT / "tests").rglob("test_*.py")}
    rooms = {folder for folder in folders if folder.parts and folder.parts[0] not in OF_THE_WHOLE}
    assert len(rooms) > 30
    assert [str(room) for room in sorted(rooms) if not (PACKAGE / room / "__init__.py").exists()] == []
