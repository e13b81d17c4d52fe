"""Whatever an agent prints or does to its workspace, its work ends on a branch, and soon."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.world.workspace import mounts
from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, write
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

GIT_FILES = (
    "index",
    "HEAD",
    "packed-refs",
    "objects/info/alternates",
    "info/exclude",
    "ORIG_HEAD",
    "shallow",
    "COMMIT_EDITMSG",
)
DEEP = "python3 -c \"print('[' * 3000 + ']' * 3000)\""
#: What an agent does besides its work; `work.txt` is written first.
ODD = {
    # what it prints
    "deep-list": DEEP,
    "deep-object": "python3 -c \"print('{\\\"a\\\":' * 3000 + '1' + '}' * 3000)\"",
    "long-number": "python3 -c \"print('{\\\"cost\\\": ' + '9' * 400 + '}')\"",
    "long-tokens": "python3 -c \"print('{\\\"usage\\\": 1' + '0' * 5000 + '}')\"",
    "infinite": """echo '{"cost": 1e999, "answer": NaN}'""",
    "no-utf8": "printf '\\377\\376{\"answer\": \\n'",
    "zero-bytes": "head -c 100000 /dev/zero; echo",
    "one-long-line": "head -c 3000000 /dev/zero | tr '\\0' x; echo",
    "surrogates": """printf '{"answer": "\\\\ud800"}\\n'""",
    # modes
    "read-only-files": "chmod -R a-w . ; true",
    "read-only-git": "chmod -R a-w .git; true",
    "unreadable-file": "echo x > secret; chmod 000 secret",
    "unreadable-folder": "mkdir locked; echo x > locked/file; chmod 000 locked",
    "no-rights-at-all": "mkdir -p d/e; echo x > d/e/f; chmod 000 d/e/f; chmod 000 d/e; chmod 000 d; chmod 500 .",
    "setuid": "cp /bin/true tool; chmod 6755 tool; mkdir shared; chmod 2777 shared; touch shared/x",
    # names that git refuses
    "file-GIT": "echo x > .GIT",
    "folder-Git": "mkdir .Git; echo x > .Git/config",
    "short-name": "echo x > 'git~1'",
    "nested-GIT": "mkdir -p sub/.GIT; echo x > sub/.GIT/f",
    "odd-names": "touch -- '-rf' 'a b' \"$(printf 'new\\nline')\" \"$(printf '\\377')\" '*' ':(top)x'",
    # its .git
    "no-objects": "rm -rf .git/objects/*",
    "empty-objects": "find .git/objects -type f -exec truncate -s 0 {} +",
    "empty-refs": "rm -rf .git/refs/*",
    "no-git-files": "rm -rf .git/HEAD .git/refs .git/index",
    "broken-index": "head -c 5000 /dev/urandom > .git/index",
    "broken-head": "echo nonsense > .git/HEAD",
    "head-elsewhere": "echo 'ref: refs/heads/nothing' > .git/HEAD",
    "foreign-alternates": "echo /nowhere/objects > .git/objects/info/alternates",
    "locked": "touch .git/index.lock .git/HEAD.lock .git/refs/heads/x.lock",
    "index-folder": "rm -f .git/index; mkdir .git/index",
    "nested-repositories": "for i in 1 2 3; do mkdir -p n$i && git init -q n$i && echo x > n$i/f; done",
    # pipes, sockets and links
    **{f"pipe-{name.replace('/', '-').lower()}": f"rm -rf .git/{name}; mkfifo .git/{name}" for name in GIT_FILES},
    "pipe-gitattributes": "mkfifo .gitattributes",
    "pipe-gitignore": "mkdir -p deep/er; mkfifo deep/er/.gitignore",
    "pipe-gitmodules": "mkfifo .gitmodules",
    "socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('.gitattributes')\"",
    "link-gitattributes": "ln -s /dev/zero .gitattributes",
    "link-loop": "ln -s loop loop; ln -s .. up",
    "odd-commit": "git add -A; t=$(git write-tree); c=$(printf 'tree %s\\nparent %s\\nauthor A <a@b.c> 99999999999999999999 +0000\\ncommitter A <a@b.c> 99999999999999999999 +0000\\n\\nodd\\n' $t $(git rev-parse HEAD) | git hash-object -t commit -w --literally --stdin); git update-ref HEAD $c",
    # settings
    "filter-sleeps": "printf '[filter \"f\"]\\n\\tclean = sleep 600\\n' >> ~/.gitconfig; echo '* filter=f' > .gitattributes",
    "hooks": "git config --global core.hooksPath /tmp/hooks; mkdir -p /tmp/hooks; printf '#!/bin/sh\\nsleep 600' > /tmp/hooks/pre-commit; chmod +x /tmp/hooks/pre-commit",
    "encoding": "echo '* text working-tree-encoding=UTF-16' > .gitattributes",
    "encoding-unknown": "echo '*.txt working-tree-encoding=NONSENSE' > .gitattributes; rm -f .git/index",
    "encoding-and-pipe": "echo '* working-tree-encoding=UTF-16' > .gitattributes; rm -f .git/HEAD; mkfifo .git/HEAD",
    # amounts
    "many-folders": "seq 20000 | sed 's,.*,m/&,' | xargs mkdir -p",
    "sparse-file": "truncate -s 25G sparse.bin",
    "deep-folders": "python3 -c \"import os\nfor _ in range(2100): os.mkdir('d'); os.chdir('d')\nopen('f','w')\"",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _remove_kept_workspaces(corral: Corral) -> Iterator[None]:
    """Remove folders that are too deep for pytest, which would fail to remove them in a later session."""
    yield
    for tree in (corral.home / "workspaces").glob("*/work"):
        mounts.unmount(tree)  # of one that was too deep to be copied
    subprocess.run(["rm", "-rf", str(corral.home / "workspaces")], check=True)


@pytest.mark.parametrize(
    "kind", ["clone", pytest.param("overlay", marks=pytest.mark.night("the same in the other kind of workspace"))]
)
def test_the_work_of_odd_agents_ends_on_a_branch(corral: Corral, kind: str) -> None:
    assert len(ODD) >= 40
    corral.config(f'[workspace]\nkind = "{kind}"')
    doer(corral, settings='output = "jsonl"\nresult = "answer"\ncost = "cost"\ntokens = "usage"')
    repo = corral.repo()
    folder = corral.root / "odd"
    folder.mkdir()
    flow = "name: odd\non_failure: continue\nnodes:\n"
    for name, script in ODD.items():
        (folder / f"{name}.sh").write_text(f'echo {name} > work.txt\n{script}\necho \'{{"answer": "done"}}\'\n')
        flow += f'  {name}: {{task: "DO: . {folder}/{name}.sh", retries: 0, timeout: 120s}}\n'
    corral.config(f'[scope]\nread = ["{folder}"]')
    file, began = write(corral, flow), time.monotonic()
    outcome = corral("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--yes", "--json", timeout=600)
    found, lost = nodes(outcome), {}
    for name in ODD:
        attempt = found[name]["attempts"][-1]
        if not attempt["branch"] or repo.read(attempt["branch"], "work.txt") != name:
            lost[name] = attempt["error"]
    assert lost == {}, time.monotonic() - began
    repo.git("fsck")
    modes = repo.git("ls-tree", "-r", found["setuid"]["attempts"][-1]["branch"], "tool")
    assert modes.startswith("100755")
    noted = [event for event in corral.events() if event["type"] == "noted" and "not collected" in event["text"]]
    for name, words in (("file-GIT", ".GIT"), ("sparse-file", "sparse.bin"), ("deep-folders", "d/d/d")):
        attempt = found[name]["attempts"][-1]["id"]
        assert any(event["attempt"] == attempt and words in event["text"] for event in noted), (name, noted)


def test_a_workspace_stays_while_something_in_it_is_on_no_branch(corral: Corral) -> None:
    repo = corral.repo()
    script = "echo work > work.txt; truncate -s 3G model.bin; mkdir -p a; echo odd > a/git~1"
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script))
    assert outcome.code == 0, outcome
    attempt = outcome.attempt
    assert repo.read(attempt["branch"], "work.txt") == "work"
    left = " ".join(attempt["not_collected"])
    assert "model.bin" in left
    assert "git~1" in left
    tree = Path(attempt["workspace"])
    assert (tree / "model.bin").stat().st_size == 3 << 30
    assert (tree / "a/git~1").read_text() == "odd\n"
    shown = corral("show", outcome.json["run"])
    assert "model.bin" in shown.out
    assert str(tree) in shown.out
    restored = corral("restore", attempt["id"])
    assert restored.code == 0, restored
    assert str(tree) in restored.err
    cleaned = corral("clean", "--keep", "0", "--json")
    assert cleaned.code == 0, cleaned
    assert not tree.exists()
    assert "workspace" not in corral("show", outcome.json["run"], "--json").json["nodes"][0]["attempts"][0]


def test_a_workspace_whose_only_work_is_on_no_branch_is_named_by_restore(corral: Corral) -> None:
    repo = corral.repo()
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", "truncate -s 3G only.bin"), "--retries", "0")
    assert outcome.code == 1, outcome
    tree = Path(outcome.attempt["workspace"])
    assert (tree / "only.bin").exists()
    restored = corral("restore", outcome.attempt["id"])
    assert restored.code == 2, restored
    assert "only.bin" in restored.err
    assert str(tree) in restored.err


def test_a_large_file_that_git_ignores_keeps_no_workspace(corral: Corral) -> None:
    repo = corral.repo(files={".gitignore": "build/\n", "a.txt": "a\n"})
    script = "echo work > work.txt; mkdir build; truncate -s 3G build/x.bin"
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script))
    assert outcome.code == 0, outcome
    assert "not_collected" not in outcome.attempt
    assert not [*corral.home.glob("workspaces/*/work")]


def test_work_that_cannot_be_collected_is_kept_and_restore_names_it(corral: Corral) -> None:
    repo = corral.repo()
    hostile = """printf '[submodule "../.."]\\n\\tpath = a\\n\\turl = b\\n' > .gitmodules; echo work > work.txt"""
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", hostile), "--retries", "0")
    assert outcome.code == 1, outcome
    error = outcome.attempt["error"]
    assert ".gitmodules" in error["message"]
    attempt = outcome.attempt["id"]
    restored = corral("restore", attempt)
    assert restored.code == 2, restored
    assert ".gitmodules" in restored.err
    (tree,) = corral.home.glob("workspaces/*/work")
    assert str(tree) in restored.err
    (tree / ".gitmodules").unlink()  # what a person would do
    restored = corral("restore", attempt, "--json")
    assert restored.code == 0, restored
    assert repo.read(restored.json["branch"], "work.txt") == "work"


@pytest.mark.parametrize("content", ["no bundle at all", "# v2 git bundle\\n\\nPACKnonsense"])
def test_a_forged_bundle_ends_the_command_and_costs_no_work(corral: Corral, content: str) -> None:
    repo = corral.repo()
    forge = f"printf '{content}' > ../out/work.bundle; touch ../out/done"
    # A process that outlives the agent would be ended; one that makes the collecting in the box fail is its own shell.
    agent = corral.agent("mine", f"echo work > work.txt; {forge}; mkdir -p ../out/work.bundle.lock")
    outcome = corral.run(repo, "t", "--agent", agent, "--retries", "0", timeout=100)
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work"


@pytest.mark.parametrize(
    "lay",
    [
        "mkfifo",
        "ln -s /dev/zero",
        "mkdir",
        "truncate -s 25G",
        "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])'",
    ],
    ids=["pipe", "link-to-device", "folder", "sparse", "socket"],
)
def test_nothing_in_the_place_of_a_bundle_holds_up_the_command(corral: Corral, lay: str) -> None:
    """The agent ends the shell that would collect in its box, and leaves what that should have left."""
    repo = corral.repo()
    script = f"git branch own; echo work > work.txt; {lay} ../out/work.bundle; touch ../out/done; kill -9 $PPID"
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script), "--retries", "0", timeout=60)
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work", outcome


DEEP_FOLDERS = "import os\nos.chdir('../out')\nfor _ in range(2100): os.mkdir('d'); os.chdir('d')"


@pytest.mark.parametrize("rights", ["755", "000"])
def test_folders_beside_its_work_hold_up_no_collecting(corral: Corral, rights: str) -> None:
    """An agent that broke its .git is collected in a box of its own, into the folder that it could write to."""
    repo = corral.repo()
    spoil = f'git branch own; rm -rf .git/refs; python3 -c "{DEEP_FOLDERS}"; chmod {rights} ../out/d; kill -9 $PPID'
    agent = corral.agent("mine", f"echo work > work.txt; {spoil}")
    outcome = corral.run(repo, "t", "--agent", agent, "--retries", "0", timeout=100)
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work", outcome


def test_nobody_else_may_enter_the_workspaces(corral: Corral) -> None:
    corral.home.mkdir(mode=0o755)
    (corral.home / "workspaces").mkdir(mode=0o755)
    repo = corral.repo()
    script = "cp /bin/true tool; chmod 4755 tool; stat -c %a ../../../workspaces > mode; echo x > x"
    outcome = corral.run(
        repo, "t", "--agent", corral.agent("mine", script), "--allow-unsandboxed", "--require-sandbox", "none"
    )
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "mode") == "700"


def test_the_time_for_collecting_is_a_setting_and_restore_takes_longer(corral: Corral) -> None:
    repo = corral.repo()
    corral.config('[workspace]\ncollect = "0.001s"')
    agent = corral.agent("mine", "echo work > work.txt; git branch own; rm -rf .git/objects/*")
    outcome = corral.run(repo, "t", "--agent", agent, "--retries", "0")
    assert outcome.code == 1, outcome
    message = outcome.attempt["error"]["message"]
    assert "cannot be collected within 0.001 s" in message
    assert "[workspace]" in message
    restored = corral("restore", outcome.attempt["id"], "--json")
    assert restored.code == 0, restored
    assert repo.read(restored.json["branch"], "work.txt") == "work"
    corral.config_file.write_text('[workspace]\ncollect = "never"\n')
    assert "[workspace] collect: `never` is not a length of time" in corral.run(repo, "t", "--agent", agent).err


def privileged(folder: Path) -> list[str]:
    """Return what in a folder makes whoever runs or enters it another user or group."""
    return [str(path) for path in folder.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000]


def test_setuid_bits_are_gone_from_a_kept_workspace_and_from_what_is_merged(corral: Corral) -> None:
    """The bits are looked for on the disk: git stores none of them, so no branch could show them."""
    repo = corral.repo()
    script = "cp /bin/true tool; chmod 6755 tool; mkdir -p in/shared; chmod 2777 in/shared; cp -p tool in/shared/; stat -c %a tool"
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", f"{script}; truncate -s 3G large.bin"))
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"].strip() == "6755"  # it could set them
    kept = Path(outcome.attempt["workspace"])
    assert (kept / "tool").exists()
    assert privileged(kept) == []
    assert corral("merge", "@last", cwd=repo.folder).code == 0
    assert (repo.folder / "in" / "shared" / "tool").exists()
    assert privileged(repo.folder) == []


def test_setuid_bits_are_out_of_reach_while_the_agent_works_and_gone_after_a_kill(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "cp /bin/true tool; chmod 4755 tool; test -e half || { echo x > half; sleep 600.43; }")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent) as run:
        until(lambda: list(corral.home.glob("workspaces/*/work/half")), "it is at work")
        (tool,) = corral.home.glob("workspaces/*/work/tool")
        assert tool.stat().st_mode & 0o4000
        assert (corral.home / "workspaces").stat().st_mode & 0o077 == 0  # nobody else comes as far as that
        run.process.kill()
        run.process.wait()
    stopped = corral("stop", "@last")
    assert stopped.code == 0, stopped
    assert privileged(corral.home / "workspaces") == []
