"""Listings of forges that are longer than a page."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.model.forge import ForgeKind, ForgeSettings
from corral.world.forge.finding import forge_at
from corral.world.forge.forge import MOST_PAGES
from corral.world.forge.forge import Forge as Asked
from corral.world.forge.remotes import known_place
from tests.rig.forge import NAME, TOKEN, Forge

KINDS: list[ForgeKind] = ["github", "gitlab", "forgejo"]


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge", request.param) as found:
        yield found


@pytest.fixture
def asked(forge: Forge) -> Asked:
    kind = KINDS[["github", "gitlab", "forgejo"].index(forge.kind)]
    settings = ForgeSettings(kind=kind, token_env="TOKEN")
    place = known_place("http", f"127.0.0.1:{forge.port}", NAME, settings)
    found = forge_at(place, settings, {"TOKEN": TOKEN})
    assert found is not None
    return found


def test_every_page_of_a_listing_is_read(forge: Forge, asked: Asked) -> None:
    number = forge.issue("long", "", labels=("corral",))
    forge.issues[number]["comments"] = [("ada", f"said {place}") for place in range(120)]
    found = asyncio.run(asked.issue(str(number)))
    assert [each.text for each in found.remarks] == [f"said {place}" for place in range(120)]


def test_of_a_very_long_listing_the_newest_are_read(forge: Forge, asked: Asked) -> None:
    number = forge.issue("endless", "")
    forge.issues[number]["comments"] = [("ada", f"said {place}") for place in range(5321)]
    found = asyncio.run(asked.issue(str(number)))
    assert found.remarks[-1].text == "said 5320"
    assert len([path for _, path in forge.asked if "page=" in path]) <= MOST_PAGES + 1


def test_labelled_issues_of_more_than_a_page(forge: Forge, asked: Asked) -> None:
    numbers = [forge.issue(f"issue {place}", "", labels=("corral",)) for place in range(130)]
    found = asyncio.run(asked.labelled_issues("corral", ""))
    assert [int(number) for number, _ in found.numbers] == numbers
    assert not found.etag, "a tag of one page says nothing of the others"


def test_of_very_many_issues_the_first_pages_are_read_where_they_are_the_newest(forge: Forge, asked: Asked) -> None:
    numbers = [forge.issue(f"issue {place}", "", labels=("corral",)) for place in range(620)]  # as the forge sorts them
    found = [int(number) for number, _ in asyncio.run(asked.labelled_issues("corral", "")).numbers]
    assert found == numbers[: len(found)]
    assert len(found) in (250, 500)


def test_the_hundredth_check_may_be_the_one_that_fails(forge: Forge, asked: Asked) -> None:
    number = next(forge.numbers)
    head = forge.bare.git("commit-tree", "-m", "x", forge.bare.git("mktree"))
    forge.bare.git("update-ref", "refs/heads/work", head)
    forge.pulls[number] = {
        "number": number, "title": "t", "body": "", "head": "work", "base": "main", "draft": False, "state": "open",
        "merged": False, "comments": [],
    }  # fmt: skip
    forge.checks[head] = [(f"job {place}", "success", "") for place in range(100)] + [("last", "failure", "no")]
    look = asyncio.run(asked.look(number))
    assert look.checks == "failure"
    assert [each.name for each in look.failed] == ["last"]
