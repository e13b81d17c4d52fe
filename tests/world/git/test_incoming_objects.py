"""What agents' bundles may hold: hostile objects are refused in one line, with little memory and soon."""

import asyncio
import hashlib
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.model.errors import GitTrouble
from corral.world.git import collect
from corral.world.git.incoming_objects import MOST_OBJECTS
from corral.world.git.pack_index import BY_OFFSET, COMMIT, MOST_FOLDERS, MOST_PARENTS, TREE, read_pack
from corral.world.git.repository import Repository
from tests.rig.repository import GIT_ENV, Repo

#: Takes a bundle over in a process of its own: prints the error, and the most memory that it or a child of it had.
TAKES = """
import asyncio, json, re, resource, sys
from pathlib import Path
from corral.model.errors import CorralError
from corral.world.git import collect
from corral.world.git.repository import Repository
repo, bundle, base = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
repository, told = Repository(repo, repo / ".git"), ""

async def take():
    await collect.fetch(repository, bundle, ["HEAD:refs/corral/attempts/x"], base)
    await repository.change_and_sha256(base, await repository.commit_of("refs/corral/attempts/x"))

try:
    asyncio.run(take())
except CorralError as error:
    told = str(error)
own = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([told, max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) >> 10]))
"""
MOST_MB, MOST_SECONDS = 512, 200.0  # loose: the machine may be busy


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.make(tmp_path / "repo")


@pytest.fixture
def theirs(repo: Repo, tmp_path: Path) -> Repo:
    repo.git("clone", "--quiet", "--shared", str(repo.folder), str(tmp_path / "theirs"))
    return Repo(tmp_path / "theirs")


def bundle(theirs: Repo, commit: str, base: str) -> Path:
    theirs.git("update-ref", "--no-deref", "HEAD", commit)
    theirs.git("bundle", "create", "-q", "../work.bundle", "HEAD", f"^{base}")
    return theirs.folder.parent / "work.bundle"


def taken(repo: Repo, file: Path, base: str) -> str:
    """Take a bundle over; return why it was refused, or nothing."""
    began = time.monotonic()
    words = [sys.executable, "-c", TAKES, str(repo.folder), str(file), base]
    done = subprocess.run(words, capture_output=True, check=True, timeout=240)
    told, memory_mb = json.loads(done.stdout)
    assert memory_mb <= MOST_MB, told
    assert time.monotonic() - began < MOST_SECONDS, told
    assert "\n" not in told
    assert not list((repo.folder / ".git" / "objects").glob("corral-*"))
    assert not list((repo.folder / ".git" / "objects" / "pack").glob("*.keep"))
    assert bool(repo.refs("refs/corral")) is (told == ""), told
    return told


def stored(repo: Repo, kind: str, content: bytes) -> str:
    words = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
    done = subprocess.run(words, cwd=repo.folder, env=GIT_ENV, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


def tree(repo: Repo, *entries: tuple[str, str, str]) -> str:
    return stored(
        repo, "tree", b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(each) for mode, name, each in entries)
    )


def committed(theirs: Repo, root: str) -> str:
    return theirs.git("commit-tree", root, "-p", "HEAD", "-m", "hostile")


def tree_bomb(theirs: Repo) -> str:
    inner = tree(theirs, *[("100644", f"f{n}", stored(theirs, "blob", b"x\n")) for n in range(10)])
    for _ in range(9):
        inner = tree(theirs, *[("40000", f"d{n}", inner) for n in range(10)])
    return committed(theirs, inner)


def base_bomb(theirs: Repo) -> str:
    """Name the base's own folder again and again: the trees that are counted by themselves are few and small."""
    inner = theirs.git("rev-parse", "HEAD^{tree}")
    for _ in range(2):
        inner = tree(theirs, *[("40000", f"d{n:04}", inner) for n in range(600)])
    return committed(theirs, inner)


def wide_bomb(theirs: Repo) -> str:
    """Name one folder very often in the next, and that one in the next: few trees, each with many rows."""
    inner = tree(theirs, ("100644", "f", stored(theirs, "blob", b"x\n")))
    for _ in range(3):
        inner = tree(theirs, *[("40000", f"d{n:06}", inner) for n in range(50_000)])
    return committed(theirs, inner)


def beyond_numbers(theirs: Repo) -> str:
    """Name more paths than a floating point number can count."""
    inner = tree(theirs, ("100644", "f", stored(theirs, "blob", b"x\n")))
    for _ in range(350):
        inner = _loose(theirs, "tree", b"".join(b"40000 %d\0" % n + bytes.fromhex(inner) for n in range(10)))
    return committed(theirs, inner)


def many_folders(theirs: Repo) -> str:
    """Name the same thousand folders in many trees: what is kept of each row would fill the memory."""
    blob = bytes.fromhex(stored(theirs, "blob", b"x\n"))
    below = [_loose(theirs, "tree", b"100644 f%04d\0" % n + blob) for n in range(1001)]
    rows = b"".join(b"40000 d%04d\0" % n + bytes.fromhex(each) for n, each in enumerate(below))
    wide = MOST_FOLDERS // len(below) + 1
    trees = [_loose(theirs, "tree", rows + b"100644 z%04d\0" % n + blob) for n in range(wide)]
    # Each a commit's own: none of them has too many paths.
    who, parent = "Person <person@example.org> 1700000000 +0000", theirs.head
    for each in trees:
        words = f"tree {each}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nx\n"
        parent = _loose(theirs, "commit", words.encode())
    return parent


def nested(theirs: Repo) -> str:
    inner = tree(theirs, ("100644", "f", stored(theirs, "blob", b"x\n")))
    for _ in range(2500):
        content = b"40000 d\0" + bytes.fromhex(inner)
        inner = _loose(theirs, "tree", content)
    return committed(theirs, inner)


def _loose(repo: Repo, kind: str, content: bytes) -> str:
    """Store an object without starting git."""
    whole = f"{kind} {len(content)}\0".encode() + content
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    file = repo.folder / ".git" / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    if not file.exists():
        file.write_bytes(zlib.compress(whole, 1))
    return name


def many_parents(theirs: Repo) -> str:
    who = "Person <person@example.org> 1700000000 +0000"
    root = theirs.git("rev-parse", "HEAD^{tree}")
    parents = f"parent {theirs.head}\n" * 1_000_000
    return stored(theirs, "commit", f"tree {root}\n{parents}author {who}\ncommitter {who}\n\nx\n".encode())


def some_parents(theirs: Repo) -> str:
    who = "Person <person@example.org> 1700000000 +0000"
    root = theirs.git("rev-parse", "HEAD^{tree}")
    parents = f"parent {theirs.head}\n" * (MOST_PARENTS + 1)
    return stored(theirs, "commit", f"tree {root}\n{parents}author {who}\ncommitter {who}\n\nx\n".encode())


def long_name(theirs: Repo) -> str:
    blob = stored(theirs, "blob", b"x\n")
    return committed(theirs, _loose(theirs, "tree", b"100644 " + b"n" * 100_000 + b"\0" + bytes.fromhex(blob)))


def submodule(words: str) -> Callable[[Repo], str]:
    def make(theirs: Repo) -> str:
        return theirs.commit({".gitmodules": words})

    return make


HOSTILE: dict[str, tuple[Callable[[Repo], str], str]] = {
    "tree bomb": (tree_bomb, "paths, more than"),
    "bomb of the base's trees": (base_bomb, "paths, more than"),
    "wide folders": (wide_bomb, "paths, more than"),
    "more paths than a number holds": (beyond_numbers, "paths, more than"),
    "many trees of many folders": (many_folders, "1,000,000 folders"),
    "nested": (nested, "a path of"),
    "many parents": (many_parents, "a commit object of more than"),
    "some parents": (some_parents, "parents"),
    "long name": (long_name, "a path of"),
    "submodule name": (submodule('[submodule "../.."]\n\tpath = a\n\turl = b\n'), ".gitmodules"),
    "submodule url": (submodule('[submodule "a"]\n\tpath = a\n\turl = --upload-pack=x\n'), ".gitmodules"),
    "submodule path": (submodule('[submodule "a"]\n\tpath = -x\n\turl = b\n'), ".gitmodules"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_objects_are_refused_in_one_line(repo: Repo, theirs: Repo, kind: str) -> None:
    make, words = HOSTILE[kind]
    base = repo.head
    told = taken(repo, bundle(theirs, make(theirs), base), base)
    assert told
    assert words in told


WHO = "A <a@b.c> 1700000000 +0000"
ODD_COMMITS = {
    "badDateOverflow": "A <a@b.c> 99999999999999999999 +0000",
    "badDate": "A <a@b.c> soon +0000",
    "zeroPaddedDate": "A <a@b.c> 01700000000 +0000",
    "badTimezone": "A <a@b.c> 1700000000 UTC",
    "missingSpaceBeforeDate": "A <a@b.c>1700000000 +0000",
    "missingEmail": "A 1700000000 +0000",
    "badEmail": "A <a@b.c 1700000000 +0000",
    "missingNameBeforeEmail": "<a@b.c> 1700000000 +0000",
    "missingSpaceBeforeEmail": "A<a@b.c> 1700000000 +0000",
}


@pytest.mark.parametrize("finding", ODD_COMMITS)
def test_a_commit_that_would_break_the_users_fsck_is_refused(repo: Repo, theirs: Repo, finding: str) -> None:
    base, who = repo.head, ODD_COMMITS[finding]
    tree = theirs.git("rev-parse", f"{theirs.commit({'x.txt': 'x'})}^{{tree}}")
    for author, committer in ((who, WHO), (WHO, who)):
        text = f"tree {tree}\nparent {base}\nauthor {author}\ncommitter {committer}\n\nodd\n"
        (theirs.folder.parent / "odd").write_text(text)
        odd = theirs.git("hash-object", "-t", "commit", "-w", "--literally", "../odd")
        words = asyncio.run(refused(repo, bundle(theirs, odd, base), base))
        assert f"`git fsck` calls broken: {odd}: {finding}" in words
    repo.git("fsck")


async def refused(repo: Repo, file: Path, base: str) -> str:
    repository = Repository(repo.folder, repo.folder / ".git")
    with pytest.raises(GitTrouble) as raised:
        await collect.fetch(repository, file, ["HEAD:refs/corral/attempts/x"], base)
    return str(raised.value)


def test_work_on_folders_of_the_base_that_are_large_or_far_down_is_taken(repo: Repo, theirs: Repo) -> None:
    files = {f"deep/{'d/' * level}f{level}": "x\n" for level in range(30)}
    repo.commit({**files, **{f"wide/f{number}": "x\n" for number in range(300)}})
    theirs.git("pull", "--quiet")
    base = repo.head
    theirs.git("mv", "wide", "deep/wide")
    assert taken(repo, bundle(theirs, theirs.commit({"new.txt": "x\n"}), base), base) == ""


def entry(kind: int, content: bytes, size: int, back: int = 0) -> bytes:
    """Write an entry of a pack; as a difference to the one `back` bytes before it where that is said."""
    head, rest = bytearray(), size >> 4
    head.append((kind << 4) | (size & 15) | (0x80 if rest else 0))
    while rest:
        head.append((rest & 0x7F) | (0x80 if rest >> 7 else 0))
        rest >>= 7
    if kind == BY_OFFSET:
        parts = [back & 0x7F]
        back >>= 7
        while back:
            back -= 1
            parts.append(0x80 | (back & 0x7F))
            back >>= 7
        head += bytes(reversed(parts))
    return bytes(head) + zlib.compress(content)


def varint(number: int) -> bytes:
    out = bytearray()
    while number >> 7:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    return bytes([*out, number])


def swelling_bundle() -> bytes:
    """Return a small bundle whose objects would be 6 MB, 600 MB and, twice, 1.6 GB."""
    size = 60_000
    pack, last = bytearray(b"PACK" + (2).to_bytes(4) + (5).to_bytes(4)), 12
    pack += entry(3, b"x" * size, size)
    for number in range(4):  # each a hundred times the one before, and a byte of its own
        copied = min(size, 0xFFFFFF)
        copies = (b"\xf0" + copied.to_bytes(3, "little")) * 100
        delta = varint(size) + varint(copied * 100 + 1) + copies + bytes([1, number])
        place = len(pack)
        pack += entry(BY_OFFSET, delta, len(delta), place - last)
        last, size = place, copied * 100 + 1
    pack += hashlib.sha1(bytes(pack), usedforsecurity=False).digest()
    return b"# v2 git bundle\n" + b"1" * 40 + b" HEAD\n\n" + bytes(pack)


@pytest.mark.slow
def test_objects_that_swell_when_they_are_unpacked_are_refused(repo: Repo, tmp_path: Path) -> None:
    file = tmp_path / "work.bundle"
    file.write_bytes(swelling_bundle())
    assert "the work is too much" in taken(repo, file, repo.head)


def test_a_bundle_of_too_many_objects_is_refused_before_it_is_read(repo: Repo, tmp_path: Path) -> None:
    pack = b"PACK" + (2).to_bytes(4) + (MOST_OBJECTS + 1).to_bytes(4)
    file = tmp_path / "work.bundle"
    file.write_bytes(b"# v2 git bundle\n" + b"1" * 40 + b" HEAD\n\n" + pack)
    assert taken(repo, file, repo.head) == "its work holds 2,000,001 objects, more than 2,000,000: it is not taken"


def test_a_commit_that_an_agent_was_not_given_is_not_its_result(repo: Repo, theirs: Repo) -> None:
    base = repo.head
    repo.git("checkout", "--quiet", "-b", "private")
    private = repo.commit({"private.txt": "not for agents\n"})
    repo.git("checkout", "--quiet", "main")
    own = theirs.commit({"own.txt": "x\n"})
    file = bundle(theirs, own, base)
    file.write_bytes(file.read_bytes().replace(own.encode() + b" HEAD", private.encode() + b" HEAD"))
    assert "was not given" in taken(repo, file, base)
    # as a parent, and as the content of a file, its own commit around it
    as_parent = theirs.git("commit-tree", f"{own}^{{tree}}", "-p", base, "-p", private, "-m", "x")
    blob = repo.git("rev-parse", f"{private}:private.txt")
    as_file = committed(theirs, tree(theirs, ("100644", "stolen", blob)))
    for commit in (as_parent, as_file):
        file.write_bytes(
            f"# v2 git bundle\n-{base}\n{commit} HEAD\n\n".encode() + packed(theirs, commit, base, {private, blob})
        )
        assert "was not given" in taken(repo, file, base)


def packed(theirs: Repo, commit: str, base: str, without: set[str]) -> bytes:
    """Return a pack of all that is new in a commit but for some objects."""
    lines = theirs.git("rev-list", "--objects", commit, f"^{base}").splitlines()
    names = "".join(f"{line[:40]}\n" for line in lines if line[:40] not in without)
    words = ["git", "pack-objects", "-q", "--stdout"]
    done = subprocess.run(words, cwd=theirs.folder, env=GIT_ENV, input=names.encode(), capture_output=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_what_earlier_commits_had_may_come_back(repo: Repo, theirs: Repo) -> None:
    repo.commit({"a.txt": "other\n", "sub/c.txt": "c\n"})
    base = repo.commit({"a.txt": "newest\n"})
    repo.git("repack", "--quiet", "-adb")
    theirs.git("fetch", "--quiet", "origin")
    theirs.git("reset", "--quiet", "--hard", base)
    theirs.git("mv", "src/b.txt", "moved.txt")
    done = theirs.commit({"a.txt": "one\n"})
    assert taken(repo, bundle(theirs, done, base), base) == ""


@pytest.mark.slow
def test_long_histories_and_large_files_are_taken(repo: Repo, theirs: Repo) -> None:
    base = repo.commit({f"many/f{number}": f"{number}\n" for number in range(3000)})
    theirs.git("pull", "--quiet", "--ff-only", "origin", "main")
    commits = ""
    for number in range(80):
        after = f"from {base}\n" if not number else ""
        commits += f"commit refs/heads/main\ncommitter P <p@example.org> {number} +0000\ndata 1\nx\n{after}"
        commits += f"M 644 inline many/f{number}\ndata 8\nchanged\n"
    words = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(words, cwd=theirs.folder, env=GIT_ENV, input=commits.encode(), check=True)
    theirs.git("reset", "--quiet", "--hard", "main")
    lines = "".join(f"line {number}\n" for number in range(1_000_000))
    done = theirs.commit({"large.txt": lines * 4, "large.bin": "\0" * (100 << 20)})
    file = bundle(theirs, done, base)
    assert taken(repo, file, base) == ""
    assert repo.git("rev-parse", "refs/corral/attempts/x") == done


def test_the_kinds_of_objects_are_read_from_a_pack(repo: Repo) -> None:
    for number in range(5):
        repo.commit({"a.txt": "".join(f"{line}\n" for line in range(200 + number))})
    repo.git("repack", "--quiet", "-ad")
    (index,) = (repo.folder / ".git" / "objects" / "pack").glob("*.idx")
    listed = repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    kinds = dict(line.split() for line in listed.splitlines())
    found = read_pack(index, 20)
    assert set(found.of_kind(COMMIT)) == {name for name, kind in kinds.items() if kind == "commit"}
    assert set(found.of_kind(TREE)) == {name for name, kind in kinds.items() if kind == "tree"}
    assert found.count == len(kinds)
    assert all(name in found for name in kinds)
    assert "0" * 40 not in found
    assert "f" * 40 not in found
