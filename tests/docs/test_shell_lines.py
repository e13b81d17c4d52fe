from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, console_lines, missing, run

pytestmark = pytest.mark.slow  # left out of `make quick`

RUNNABLE = [page for page in PAGES if console_lines(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=[str(page.relative_to(ROOT)) for page in RUNNABLE])
def test_every_shell_line_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    lines = console_lines(page)
    for line, outcome in zip(lines, run(lines, tmp_path), strict=True):
        assert outcome.exit_code == line.exit_code, f"{line.where}: {line.command}\n{outcome.output}"
        absent = missing(line, outcome, tmp_path)
        assert absent is None, f"{line.where} shows `{absent}`, but it printed:\n{outcome.output}"


def test_the_pages_a_newcomer_reads_have_shell_lines() -> None:
    names = {str(page.relative_to(ROOT)) for page in RUNNABLE}
    guides = {str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "guides").glob("*.md")}
    assert {"README.md", "docs/quickstart.md"} | guides <= names
