"""What acceptance tests may ask for besides the command itself."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.person import Person, command, install
from tests.rig.quickness import is_left_out
from tests.rig.shared import shared

NUMBERS = itertools.count(1)
#: Of the many that run the installed command, `make quick` tries these alone: one task from its start to its merge.
QUICK = {
    "test_checks": (
        "test_honest_work_passes",
        "test_a_weakened_test_proves_nothing",
        "test_a_deleted_test_proves_nothing",
        "test_a_script_that_the_check_names_is_the_bases",
        "test_a_task_about_tests_may_change_them",
        "test_a_check_sees_only_what_was_delivered",
        "test_a_check_that_leaves_a_process_behind_ends_all_the_same",
    ),
    "test_merge": (
        "test_it_lands_on_the_branch_and_undo_takes_it_back_exactly",
        "test_a_check_that_passes_on_each_side_and_fails_on_both_keeps_it_out",
        "test_a_dirty_checkout_is_refused_and_autostash_carries_it_over",
        "test_undo_is_refused_when_newer_work_would_be_lost",
        "test_what_cannot_be_merged_is_refused",
    ),
    "test_run": (
        "test_a_task_ends_as_a_proven_commit_on_a_branch",
        "test_the_run_document_has_every_key_of_the_contract",
        "test_commits_of_the_agent_itself_are_kept_and_its_rest_is_committed",
        "test_an_agent_that_fails_keeps_its_work_and_its_last_words",
        "test_changing_nothing_is_success_when_the_task_is_read_only",
    ),
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config, QUICK) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and not _is_quick(item):
            item.add_marker(pytest.mark.slow)


def _is_quick(item: pytest.Item) -> bool:
    return item.name in QUICK.get(item.path.stem, ())


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The command, installed where every user of this machine may read it."""
    own = tmp_path_factory.getbasetemp()
    all_processes = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared(all_processes / "installed", install) as folder:
        yield command(folder)


@pytest.fixture
def sleep() -> str:
    """How long an agent sleeps: so long that it must be ended, and so odd that its process is found by it."""
    return f"9{os.getpid()}.{next(NUMBERS)}25"


@pytest.fixture
def person(installed: Path, open_folder: Path) -> Person:
    """An ordinary user with the command installed."""
    return Person(open_folder / "person", installed)
