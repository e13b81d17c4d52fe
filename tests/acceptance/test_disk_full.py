"""A full disk: said plainly, nothing lost, and going on when there is room."""

import pytest

from tests.rig.command import Corral
from tests.rig.mounts import in_private_mounts
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # left out of `make quick`


def on_small_disk(corral: Corral, megabytes: float, then: str) -> str:
    """Run `then` (shell; $CORRAL is the command) with the state folder on a disk of that size; return what was said."""
    corral.home.mkdir()
    script = corral.root / "session.sh"
    script.write_text(f"{then}\n")
    steps = f"mount -t tmpfs -o size={int(megabytes * 1024)}k,mode=0700 none {corral.home}"
    with in_private_mounts(steps, ["sh", str(script)]) as program:
        outcome = Corral(corral.root / "other", program)(env={**corral.env, "CORRAL": corral.program[0]})
    return outcome.out + outcome.err


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def test_no_room_for_the_workspace(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x")
    repo.commit({"large.bin": "x" * (6 << 20)})
    before = repo.fingerprint()
    said = on_small_disk(corral, 4, f'$CORRAL run t --repo "{repo.folder}" --agent mine --retries 0; echo "exit $?"')
    assert "exit 1" in said, said
    assert "No space left" in said or "disk is full" in said, said
    assert "Traceback" not in said
    assert "corral itself failed" not in said
    assert "hint: " in said
    assert repo.fingerprint() == before


def test_an_agent_that_fills_the_disk_loses_nothing(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x; head -c 50000000 /dev/zero > zeros; echo words")
    said = on_small_disk(
        corral,
        8,
        f'$CORRAL run t --repo "{repo.folder}" --agent mine --retries 0; echo "exit $?"\n'
        "rm -f $CORRAL_HOME/workspaces/*/work/zeros\n"
        '$CORRAL stop @last --json; echo; echo "then $?"; echo "sound: $($CORRAL doctor | grep store)"',
    )
    assert "exit 1" in said, said
    assert "make room" in said
    assert "corral itself failed" not in said
    assert "then 0" in said
    assert '"status":"stopped"' in said
    assert "(ok" in said.partition("sound: ")[2], said
    assert repo.read(repo.refs("refs/corral")[0], "x") == "x"


def test_no_room_for_the_database(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x")
    said = on_small_disk(
        corral,
        1,
        "head -c 2000000 /dev/zero > $CORRAL_HOME/ballast\n"
        f'$CORRAL run t --repo "{repo.folder}" --agent mine; echo "exit $?"',
    )
    assert "exit 1" in said, said
    assert said.count("error: ") == 1
    assert "hint: " in said
    assert "corral itself failed" not in said


def test_what_was_stored_before_the_disk_was_full_can_be_read(corral: Corral, repo: Repo) -> None:
    corral.agent("mine", "echo x > x; echo words")
    run = f'$CORRAL run t --repo "{repo.folder}" --agent mine'
    said = on_small_disk(
        corral,
        8,
        f"{run}; head -c 20000000 /dev/zero > $CORRAL_HOME/ballast; {run}; echo second $?; "
        f"rm $CORRAL_HOME/ballast; $CORRAL export; {run}; echo third $?",
    )
    assert "second 1" in said, said
    assert "make room" in said, said
    assert '"text":"words"' in said
    assert "third 0" in said
