"""The plugin of Neovim, in a real Neovim without a window, with the real command."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rig.agents import PROJECT
from tests.rig.command import PROGRAM, TIMEOUT_SECONDS, Corral
from tests.rig.preloaded import PRELOADED
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "neovim"
PLUGIN = PROJECT / "editors" / "neovim"
SPECS = re.findall(r"^function M\.(\w+)", (FOLDER / "specs.lua").read_text(), re.MULTILINE)


def neovim() -> str:
    known = PROJECT / ".venv" / "neovim"
    assert known.exists(), "Neovim is not installed: tools/bootstrap dev"
    return known.read_text().strip()


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.agent(
        "mine", 'echo "I write"; printf "%s\\n" "$1" | head -n 1 > said.txt; echo more >> a.txt', "cost_usd = 0.0"
    )
    corral.agent("slow", "echo I wait; sleep 9876.5")
    corral.config('[defaults]\nagent = "mine"\n')
    return corral.repo(files={"a.txt": "one\ntwo\nthree\n"})


def run_neovim(corral: Corral, repo: Repo, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [neovim(), *words],
        cwd=repo.folder,
        env={**corral.env, **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("spec", SPECS)
def test_spec(corral: Corral, repo: Repo, tmp_path: Path, spec: str) -> None:
    doc = tmp_path / "plugin"
    shutil.copytree(PLUGIN, doc)  # Neovim writes tags of the manual beside it
    words = json.dumps(PRELOADED.stand_in(PROGRAM))
    done = run_neovim(
        corral, repo, "-l", FOLDER / "runner.lua", doc, spec, CORRAL_WORDS=words, CORRAL_DOC=str(doc / "doc")
    )
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout


def test_the_compiler_that_editors_writes_for_vim(corral: Corral, repo: Repo) -> None:
    (told,) = corral("editors", "vim", "--write", "--json", cwd=repo.folder).json["files"]
    make = ("+compiler corral", "+silent make! 'say it'", "+echo map(getqflist(), 'bufname(v:val.bufnr)')")
    path = f"set runtimepath^={Path(told['path']).parents[1]}"
    done = run_neovim(corral, repo, "--headless", "-u", "NONE", "-i", "NONE", f"+{path}", *make, "+qall")
    assert "['a.txt', 'said.txt']" in done.stderr, done.stderr


def test_what_editors_writes_loads_the_plugin(corral: Corral, repo: Repo) -> None:
    (told,) = corral("editors", "neovim", "--write", "--json", cwd=repo.folder).json["files"]
    assert told["state"] == "written"
    script = "lua vim.cmd('Corral acp'); vim.wait(60000, function() return vim.fn.bufnr('corral://acp') > 0 end)"
    see = ("+command Corral", "+echo g:corral.command", "+echo getbufline(bufnr('corral://acp'), 1, '$')")
    done = run_neovim(corral, repo, "--headless", "-i", "NONE", f"+{script}", *see, "+qall")
    assert "Error" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    assert str(PROGRAM) in done.stderr
    assert "Corral: run agents on tasks" in done.stderr
    assert str(PLUGIN) in done.stderr, "what it shows is what `corral editors neovim` prints"
