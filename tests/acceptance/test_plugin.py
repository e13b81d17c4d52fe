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
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name in ("corral_nibble.py", "nibble_checks.py"):
        (info.parent / name).write_text((EXAMPLE / name).read_text())
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


def test_its_check_reader_counts_what_no_other_reads(corral: Corral, installed_plugin: str) -> None:
    corral.agent("mine", "echo x > x")
    check = "echo 'nibble: 3 crumbs, 2 too large: rye: oats'"
    options = ("make x", "--agent", "mine", "--check", check)
    counted = corral.run(corral.repo(), *options, env={"PYTHONPATH": installed_plugin}).json
    (result,) = counted["nodes"][0]["attempts"][0]["checks"]
    tests = result["tests"]
    assert (tests["format"], tests["passed"], tests["failed"], tests["failing"]) == ("nibble", 3, 2, ["oats", "rye"])
    listed = corral("plugins", "ls", "--json", env={"PYTHONPATH": installed_plugin}).json
    assert [(each["kind"], each["problem"]) for each in listed] == [("agent", None), ("check reader", None)]


def test_the_page_of_plug_ins_shows_the_check_reader_whole() -> None:
    page = (ROOT / "docs" / "guides" / "plugins.md").read_text()
    assert f"```python\n{(EXAMPLE / 'nibble_checks.py').read_text()}```" in page


def test_an_agent_takes_no_more_than_80_lines_and_the_page_shows_it_whole() -> None:
    text = (EXAMPLE / "corral_nibble.py").read_text()
    assert len(text.splitlines()) <= 80
    page = (ROOT / "docs" / "guides" / "writing-an-agent.md").read_text()
    assert f"```python\n{text}```" in page
    for name in ("pyproject.toml", "test_nibble.py"):
        assert (EXAMPLE / name).read_text() in page, name
