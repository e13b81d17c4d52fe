"""`corral completion --install` sets up the shell; `corral --version` says which build this is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.command import Corral


def install(corral: Corral, home: Path, *words: str, **env: str) -> str:
    outcome = corral("completion", *words, "--install", env={"HOME": str(home), "XDG_DATA_HOME": "", **env})
    assert outcome.code == 0, outcome
    return outcome.out


def test_a_new_bash_completes_it_and_installing_twice_is_the_same(corral: Corral, tmp_path: Path) -> None:
    start = tmp_path / ".bashrc"
    start.write_text("export MINE=1")
    told = install(corral, tmp_path, SHELL="/bin/bash")
    once = start.read_text()
    assert once.startswith("export MINE=1\n")
    assert str(start) in told
    install(corral, tmp_path, "bash")
    assert start.read_text() == once
    shell = subprocess.run(
        ["bash", "-i", "-c", "complete -p corral; echo MINE=$MINE"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "_corral_completion corral" in shell.stdout
    assert "MINE=1" in shell.stdout


@pytest.mark.parametrize(
    ("shell", "file", "start"),
    [("zsh", ".local/share/corral/completion.zsh", ".zshrc"), ("fish", ".config/fish/completions/corral.fish", None)],
)
def test_other_shells(corral: Corral, tmp_path: Path, shell: str, file: str, start: str | None) -> None:
    install(corral, tmp_path, shell, XDG_CONFIG_HOME="")
    assert "corral" in (tmp_path / file).read_text()
    assert start is None or str(tmp_path / file) in (tmp_path / start).read_text()


def test_without_a_shell_it_asks_for_one(corral: Corral, tmp_path: Path) -> None:
    outcome = corral("completion", "--install", env={"HOME": str(tmp_path), "SHELL": "/bin/dash"})
    assert outcome.code == 2
    assert "hint:" in outcome.err
    assert not list(tmp_path.glob(".*"))


def test_the_version_names_build_and_extras(corral: Corral) -> None:
    outcome = corral("--version")
    assert outcome.code == 0
    first, extras = outcome.out.splitlines()
    assert first.startswith("corral 0.")
    assert f"Python {sys.version.split()[0]}" in first
    assert "launcher" in first
    assert extras.startswith("extras: ")
    assert "otel" in extras
