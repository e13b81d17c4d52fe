from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from corral import model
from corral.boxed import player
from corral.model import events
from corral.model.events import Event
from corral.store.sqlite.store import Store
from tests.docs.pages import PAGES, ROOT
from tests.rig import browser

pytestmark = pytest.mark.slow  # left out of `make quick`

REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_is_built_strictly(site: Path) -> None:
    front = (site / "index.html").read_text()
    assert "Corral" in front
    assert '<img src="assets/logo.svg" alt="logo">' in front, "the page's own sign, not a stock one"
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_a_reader_of_the_site_fetches_nothing(site: Path) -> None:
    fetching = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//[^>]*>|<link[^>]*\shref=["']?(?:https?:)?//[^>]*>"""
    )
    for page in site.rglob("*.html"):
        assert not fetching.findall(page.read_text()), page


def test_search_works_from_disk(site: Path) -> None:
    with browser.started() as chromium:
        page = chromium.new_page()
        page.goto((site / "guides" / "flows.html").as_uri())
        page.get_by_placeholder("Search").fill("budget")
        page.locator(".md-search-result__item").first.wait_for()
        assert page.locator(".md-search-result__item").count() > 3


def test_troubleshooting_knows_every_error_class_and_only_messages_that_exist() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    classes, messages = text.split("## By message")
    assert [name for name in model.ErrorClass.__args__ if f"`{name}`" not in classes] == []
    source = "\n".join(file.read_text() for file in (ROOT / "src" / "corral").rglob("*.py"))
    named = re.findall(r"^\| `([^`]+)` \|", messages, re.MULTILINE)
    assert named
    parts = [part.strip(" ;:") for message in named for part in re.split("…|`", message)]
    assert [part for part in parts if part and part not in source] == []


def test_the_reference_is_not_stale() -> None:
    command = [sys.executable, "tools/generate_reference.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr


def _named(page: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", (REFERENCE / page).read_text()))


def test_every_field_of_the_run_document_is_described() -> None:
    fields: set[str] = set()
    for kind in (
        model.Run,
        model.NodeState,
        model.Attempt,
        model.CheckResult,
        model.MergeState,
        model.Tokens,
        model.Receipt,
        model.SandboxReport,
    ):
        fields |= {field.encode_name for field in msgspec.structs.fields(kind)}
    assert fields - _named("run-document.md") == set()


def test_every_class_of_error_and_every_status_is_described() -> None:
    classes = set(model.ErrorClass.__args__)
    assert classes - _named("run-document.md") == set()
    words = (ROOT / "docs" / "concepts" / "words.md").read_text()
    assert [status for status in model.Status.__args__ if f"`{status}`" not in words] == []


def test_every_event_and_its_fields_are_described() -> None:
    kinds = Event.__args__
    named = _named("events.md")
    for kind in kinds:
        assert str(kind.__struct_config__.tag) in named
        assert {field.encode_name for field in msgspec.structs.fields(kind)} <= named
    assert events.DECODER.decode(b'{"type":"said","text":"x"}') == events.Said("x")


def test_every_step_of_a_script_is_described() -> None:
    text = (REFERENCE / "scripted-agent.md").read_text()
    assert [kind for kind in player.KINDS if f"| `{kind} = " not in text] == []


def test_links_between_the_documents_of_the_repository_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", ROOT / "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"(?ms)^(`{3,}).*?^\1`*$", "", page.read_text())
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_links_to_a_heading_lead_to_one() -> None:
    broken: list[str] = []
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
            if anchor not in _anchors(page.parent / target if target else page):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_every_table_of_the_database_is_described(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "corral.db")) as database:
        rows = database.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow'"
        ).fetchall()
    tables = {name for (name,) in rows if not name.startswith("sqlite_")}
    page = (ROOT / "docs" / "concepts" / "storage.md").read_text().partition("## The tables")[2].partition("\n## ")[0]
    cells = re.findall(r"(?m)^\| (`.+?`) \|", page)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == tables


def test_the_readme_prints_the_test_command() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    assert re.search(r"^test:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_manifests_for_kubernetes_are_whole() -> None:
    text = (ROOT / "docs" / "guides" / "ray.md").read_text()
    (block,) = re.findall(r"^```yaml\n(apiVersion.*?)^```", text, re.DOTALL | re.MULTILINE)
    cluster, policy = yaml.safe_load_all(block)
    assert (cluster["kind"], policy["kind"]) == ("RayCluster", "NetworkPolicy")
    (group,) = cluster["spec"]["workerGroupSpecs"]
    assert json.loads(json.loads(group["rayStartParams"]["resources"])) == {"claude": 4}
    for part in (cluster["spec"]["headGroupSpec"], group):
        for container in part["template"]["spec"]["containers"]:
            assert container["image"]
    mounted = {mount["name"] for mount in group["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in group["template"]["spec"]["volumes"]}


def test_no_page_names_a_path_of_somebodys_machine() -> None:
    nobody = r"127\.0\.0\.1:9\b"  # the port of `discard`, where nothing listens
    private = re.compile(
        rf"/root/|/work/|/tmp/pytest|(?!{nobody})127\.0\.0\.1:\d|https?://(?!keepachangelog\.com|{nobody})"
    )
    for page in [*PAGES, *ROOT.glob("*.md")]:
        assert not private.findall(page.read_text()), page


def test_the_changelog_has_a_line_for_each_change_by_area() -> None:
    for version in (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        areas = [part.partition("\n") for part in version.split("\n### ")[1:]]
        names = [name for name, _, _ in areas]
        assert len(names) == len(set(names)), names
        lines = [line for name, _, text in areas if name != "Known limits" for line in text.splitlines() if line]
        assert [line for line in lines if not re.match(r"- (Added|Changed|Fixed|Removed): \S", line)] == []
