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


def test_a_merge_for_whose_files_there_is_no_room_is_as_if_it_never_was(corral: Corral, repo: Repo) -> None:
    names = [f"f{number}.bin" for number in range(8)]
    corral.agent(
        "mine", f"for f in {' '.join(names)}; do head -c 300000 /dev/urandom > $f; done; echo new > n.txt; rm old.txt"
    )
    repo.commit({**dict.fromkeys(names[:4], "small\n"), "old.txt": "old\n"})
    disk = corral.root / "disk"
    disk.mkdir()
    script = corral.root / "session.sh"
    looks = f"cd {disk}/repo; git status --porcelain; git rev-parse HEAD; sha1sum *.*; ls .git | grep index"
    script.write_text(
        f"cp -a {repo.folder} {disk}/repo; cd {disk}/repo\n"
        "$CORRAL run t --agent mine --retries 0 --json > /dev/null || exit 9\n"
        f"({looks}) > {corral.root}/before\n"
        f"cat /dev/zero > {disk}/ballast 2> /dev/null; truncate -s -1M {disk}/ballast\n"
        f'cd {disk}/repo; $CORRAL merge @last; echo "full $?"\n'
        f'cat /dev/zero >> {disk}/ballast 2> /dev/null; $CORRAL merge @last; echo "no block left $?"\n'
        f"({looks}) > {corral.root}/after; $CORRAL show @last --json\n"
        f'rm {disk}/ballast; cd {disk}/repo; $CORRAL merge @last; echo "room $?"; cat n.txt; git status --porcelain\n'
        f'$CORRAL undo @last; echo "undo $?"; ({looks}) > {corral.root}/undone\n'
    )
    steps = f"mount -t tmpfs -o size=8m,mode=0755 none {disk}"
    with in_private_mounts(steps, ["sh", str(script)]) as program:
        outcome = Corral(corral.root / "other", program)(env={**corral.env, "CORRAL": corral.program[0]})
    said = outcome.out + outcome.err
    assert "full 2" in said, said
    assert "nothing was moved" in said
    assert said.count("the disk is full: make room") == 2
    assert "no block left 2" in said
    assert '"merge":{"status":"ready"' in said
    before, after, undone = ((corral.root / name).read_text() for name in ("before", "after", "undone"))
    assert after == before
    assert "room 0" in said, said
    assert "undo 0" in said
    assert undone == before
