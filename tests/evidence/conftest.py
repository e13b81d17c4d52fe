"""What the tables of evidence share: programs that checks use, and one state folder per process."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence.trial import Trial, programs
from tests.rig.shared import shared


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of programs that checks use."""
    own = tmp_path_factory.getbasetemp()
    all_processes = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared(all_processes / "toolchain", programs) as folder:
        yield folder / "bin"


@pytest.fixture(scope="session")
def own_trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("trial")
    yield Trial(folder)
    shutil.rmtree(folder)


@pytest.fixture
def trial(own_trial: Trial, search_path: str, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """The engine with a state folder and settings of its own."""
    monkeypatch.setenv("PATH", search_path)
    monkeypatch.setenv("CORRAL_HOME", str(own_trial.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_trial.settings.parent))
    return own_trial


@pytest.fixture
def search_path(toolchain: Path) -> str:
    """PATH as the checks have it."""
    usual = [entry for entry in os.environ["PATH"].split(os.pathsep) if "pyenv" not in entry]
    return os.pathsep.join([str(toolchain), *usual])
