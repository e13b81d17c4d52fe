"""The entry for the registry of ACP agents keeps its rules, and starts what the registry's own check starts."""

import json
import re
from xml.etree import ElementTree as ET

from corral.version import __version__
from tests.rig.agents import PROJECT
from tests.rig.command import Corral
from tests.rig.editor import editor

FOLDER = PROJECT / "editors" / "acp-registry" / "corral"
PAINTS = {"currentColor", "none"}


def entry() -> dict[str, object]:
    return json.loads((FOLDER / "agent.json").read_text())


def test_the_entry_keeps_the_rules_of_the_registry() -> None:
    found = entry()
    assert found["id"] == FOLDER.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", FOLDER.name)
    assert found["version"] == __version__, "the registry refuses an entry of another version"
    assert re.fullmatch(r"\d+\.\d+\.\d+", str(found["version"]))
    assert found["distribution"] == {"uvx": {"package": f"corral=={__version__}", "args": ["acp"]}}
    known = {"id", "name", "version", "description", "repository", "website", "authors", "license", "distribution"}
    assert {"id", "name", "version", "description", "distribution"} <= set(found) <= known
    assert found["name"]
    assert found["description"]
    assert {path.name for path in FOLDER.iterdir()} == {"agent.json", "icon.svg"}


def test_the_icon_is_small_square_and_takes_the_colour_of_its_place() -> None:
    text = (FOLDER / "icon.svg").read_text()
    root = ET.fromstring(text)
    assert root.tag.endswith("}svg")
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    painted = [each.get(name) for each in root.iter() for name in ("fill", "stroke") if each.get(name)]
    assert "currentColor" in painted
    assert set(painted) <= PAINTS
    assert not re.search(r"<!--|style|href|script", text)


def test_the_agent_offers_a_login_as_the_registry_demands(corral: Corral) -> None:
    distribution = entry()["distribution"]
    assert isinstance(distribution, dict)
    words: list[str] = distribution["uvx"]["args"]
    assert words == ["acp"]
    with editor(corral) as client:
        told = client.initialize()
    methods = told["authMethods"]
    assert [each for each in methods if each.get("type", "agent") in ("agent", "terminal")], methods
