"""What a corral that was killed left among a repository's objects goes; what one holds, and what is a person's, stays."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from corral.world.git import incoming_objects
from corral.world.git.repository import Repository
from tests.rig.repository import Repo

HOLDS = """
import sys, time
from pathlib import Path
from corral.world.git.incoming_objects import leftover_folder, mark_leftover
objects = Path(sys.argv[1])
with leftover_folder(objects), mark_leftover(objects / "pack" / "pack-1.keep"):
    print("holds", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_corral_left_goes_and_what_is_held_stays(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    objects = repo.folder / ".git" / "objects"
    own = objects / "pack" / "pack-2.keep"
    own.write_text("mine\n")

    def there() -> tuple[int, set[str]]:
        return len(list(objects.glob("corral-*"))), {file.name for file in objects.glob("pack/*.keep")}

    with subprocess.Popen([sys.executable, "-c", HOLDS, str(objects)], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"holds\n"
        with incoming_objects.quarantine(Repository(repo.folder, repo.folder / ".git")):
            assert there() == (2, {"pack-1.keep", "pack-2.keep"})
        other.send_signal(signal.SIGKILL)
    assert there() == (1, {"pack-1.keep", "pack-2.keep"})
    with incoming_objects.quarantine(Repository(repo.folder, repo.folder / ".git")):
        assert there() == (1, {"pack-2.keep"})
    assert there() == (0, {"pack-2.keep"})


def test_a_mark_that_two_need_stays_until_both_are_done(tmp_path: Path) -> None:
    file = tmp_path / "pack-1.keep"

    async def both() -> None:  # in one process, as attempts of one run are
        with incoming_objects.mark_leftover(file):
            with incoming_objects.mark_leftover(file):
                await asyncio.sleep(0)
            assert file.exists()
        assert not file.exists()

    asyncio.run(both())
