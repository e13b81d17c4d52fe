"""An agent that is not built in: the example of the documents, registered by its entry point, held to the same cases."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from corral.testing.conformance import Conformance
from tests.rig.command import Corral

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "nibble"
NIBBLE = Conformance(
    agent="nibble",
    key="NIBBLE_KEY",
    url="NIBBLE_URL",
    url_path="/v1",
    asks="/chat/completions",
    path=[str(EXAMPLE)],
    idle_seconds=3,
)


@pytest.fixture
def installed_plugin(tmp_path: Path) -> str:
    """What installing the example leaves: its module, and its entry point as metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "packages" / f"corral_nibble-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    entries = project["entry-points"]["corral.agents"]
    lines = "\n".join(f"{name} = {target}" for name, target in entries.items())
    (info / "entry_points.txt").write_text(f"[corral.agents]\n{lines}\n")
    (info.parent / "corral_nibble.py").write_text((EXAMPLE / "corral_nibble.py").read_text())
    return str(info.parent)


@pytest.mark.slow
@pytest.mark.parametrize("case", NIBBLE.cases)
def test_the_example_conforms(case: str, installed_plugin: str, tmp_path: Path) -> None:
    replace(NIBBLE, env={"PYTHONPATH": installed_plugin}).check(case, tmp_path)


def test_it_is_listed_with_its_version(corral: Corral, installed_plugin: str) -> None:
    env = {"PYTHONPATH": installed_plugin, "PATH": f"{EXAMPLE}:{corral.env['PATH']}"}
    listed = corral("agents", "--json", env=env).json
    found = next(agent for agent in listed if agent["name"] == "nibble")
    assert found["version"] == "1.2.0"
    assert found["resumes"]


def test_an_agent_takes_no_more_than_80_lines_and_the_page_shows_it_whole() -> None:
    text = (EXAMPLE / "corral_nibble.py").read_text()
    assert len(text.splitlines()) <= 80
    page = (ROOT / "docs" / "guides" / "writing-an-agent.md").read_text()
    assert f"```python\n{text}```" in page
    for name in ("pyproject.toml", "test_nibble.py"):
        assert (EXAMPLE / name).read_text() in page, name
