"""The recording of the demo in README: a picture that needs nothing else, and shows what the demo does today."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.rig.command import Corral

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "demo.svg"
MOST_BYTES = 40_000
IDS = re.compile(r"\b[0-9a-z]{12}\b|\b[0-9a-f]{7,12}\b")


def _headings(lines: list[str]) -> list[str]:
    return [IDS.sub("ID", line.strip())[:60] for line in lines if re.match(r"\d+\. ", line.strip())]


@pytest.mark.slow
def test_the_recording_shows_the_demo_of_today(corral: Corral) -> None:
    text = PICTURE.read_text()
    assert len(text) < MOST_BYTES
    assert not re.findall(r"(?:href|src|url)\s*[=(]", text), "it loads nothing"
    drawn = [each.text or "" for each in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    told = corral.anew("demo")
    assert told.code == 0, told
    assert _headings(drawn) == _headings((told.out + told.err).splitlines()), "tools/record_demo.py makes a new one"
