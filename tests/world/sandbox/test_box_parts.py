"""Parts of a box: ports answered from outside, control groups, links that lead out, and the levels this machine lacks."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from corral.model import Level
from corral.world import process
from corral.world.sandbox import other_boxes, probe, program_files
from corral.world.sandbox.confine import confine
from corral.world.sandbox.probe import is_at_least
from corral.world.untrusted_files import dangerous_links
from tests.rig.boxes import box_in, control_groups, run_in
from tests.rig.escapes.sockets import short_address


def test_a_port_in_the_box_is_answered_from_outside(open_folder: Path) -> None:
    async def asked() -> bytes:
        box = box_in(open_folder, listeners=(8118, 8119))
        script = "exec 3<>/dev/tcp/127.0.0.1/8119; cat <&3"
        with confine(["bash", "-c", script], box, "strict", tag="ports") as start:
            assert start.listeners
            running = asyncio.create_task(process.run(start))
            first, second = await start.listeners()
            peer, _ = await asyncio.get_running_loop().sock_accept(second)
            for each in (first, second):
                each.close()
            peer.sendall(b"from outside")
            peer.close()
            return (await running).out

    assert asyncio.run(asked()) == b"from outside"


def test_a_group_holds_the_memory_of_all_and_is_removed(open_folder: Path) -> None:
    async def run() -> tuple[int, int]:
        take = "python3 -c 'x = bytearray(50 << 20); import time; time.sleep(60)' & " * 4
        until_one_ends = f"{take} wait -n; kill $(jobs -p)"
        confined = confine(
            ["bash", "-c", until_one_ends], box_in(open_folder, memory_mb=120), "full", tag=f"group-{os.getpid()}"
        )
        with confined as start:
            await process.run(start)
        return confined.memory_kills, len(control_groups(f"group-{os.getpid()}"))

    kills, left = asyncio.run(run())
    assert kills > 0
    assert left == 0


def test_what_leads_out_of_a_workspace_is_dealt_with(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    tree.mkdir()
    outside.write_text("theirs")
    os.link(outside, tree / "linked")
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as left, short_address(tree / "socket") as address:
        left.bind(address)
        found = {each.path.name: each.kind for each in dangerous_links(tree)}
    assert found == {"linked": "hard link", "pipe": "pipe", "socket": "socket"}
    (tree / "linked").write_text("mine")
    assert outside.read_text() == "theirs"
    assert [path.name for path in tree.iterdir()] == ["linked"]


def test_a_box_that_cannot_be_built_starts_nothing(open_folder: Path) -> None:
    done = run_in(box_in(open_folder, readonly=(open_folder / "work/no-such-file",)), "strict", "echo", "started")
    assert done.code != 0
    assert done.out == b""


def test_levels_in_order() -> None:
    order: list[Level] = ["full", "strict", "container", "landlock", "none"]
    for place, level in enumerate(order):
        assert all(is_at_least(level, lower) for lower in order[place:])
        assert not any(is_at_least(level, higher) for higher in order[:place])
    assert is_at_least("seatbelt", "landlock")
    assert is_at_least("landlock", "seatbelt")


def test_the_command_for_podman_and_docker(open_folder: Path) -> None:
    box = box_in(open_folder, memory_mb=512, network=False)
    for program in ("podman", "docker"):
        made = other_boxes.command(f"/usr/bin/{program}", box, ["true"], uid=1, gid=2, tag="a/b")
        text = " ".join(made.argv)
        for words in ("--network none", "--cap-drop ALL", "--read-only", "--user 1:2", "--memory 512m", "--env HOME "):
            assert words in text
        assert f"--volume {box.workspace}:{box.workspace}:rw" in text
        assert "/home/agent:rw" in text
        assert ("--userns keep-id" in text) == (program == "podman" and os.geteuid() != 0), "root's podman refuses it"
        assert made.afterwards == f"/usr/bin/{program} rm --force corral-a-b"


def test_the_profile_for_macos(open_folder: Path) -> None:
    box = box_in(
        open_folder, listeners=(8118,), hidden=(open_folder / 'work/a"b',), readonly=(open_folder / "work/kept",)
    )
    lines = other_boxes.seatbelt_profile(box, open_folder / "tmp").splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    written = lines.index(f'(allow file-write* (subpath "{box.workspace}"))')
    assert lines.index(f'(deny file-write* (subpath "{box.workspace}/kept"))') > written
    assert f'(deny file-read* file-write* (subpath "{box.workspace}/a\\"b"))' in lines
    assert lines[-1] == '(allow network-outbound (remote ip "localhost:8118"))'


def test_each_reason_has_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    setting = tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns"
    setting.write_text("1\n")
    words = "bwrap: setting up uid map: Permission denied"
    assert "apparmor_restrict_unprivileged_userns=0" in probe.remedy("strict", words, tmp_path, tmp_path)
    assert "Delegate=yes" in probe.remedy("full", "no control group was delegated to this user", tmp_path, tmp_path)
    assert "landlock" in probe.remedy("strict", "inner: Landlock: Operation not supported", tmp_path, tmp_path)


#: Looks for its package as Node does: from its real file upwards.
SCRIPT = """#!/usr/bin/env python3
import os, sys
at = os.path.realpath(__file__)
while at != "/":
    at = os.path.dirname(at)
    if os.path.exists(f"{at}/node_modules/@openai/codex-linux-x64/vendor"):
        sys.exit(print("codex 0.166.0"))
print("Error: Missing optional dependency @openai/codex-linux-x64\\n    at x (y:1:2)\\n\\nNode.js v20", file=sys.stderr)
sys.exit(1)
"""


def linked_codex(folder: Path, form: str) -> Path:
    """Install a package as npm, Volta or pnpm does, and return the link by which a user starts it."""
    modules = folder / "lib" / "node_modules"
    if form == "volta":
        modules = folder / ".volta" / "tools" / "image" / "packages" / "@openai" / "codex" / "lib" / "node_modules"
    store = modules / ".pnpm" / "codex@1" / "node_modules" if form == "pnpm" else modules
    script = store / "@openai" / "codex" / "bin" / "codex.js"
    script.parent.mkdir(parents=True)
    (store / "@openai" / "codex-linux-x64").mkdir()
    (store / "@openai" / "codex-linux-x64" / "vendor").touch()
    script.write_text(SCRIPT)
    script.chmod(0o755)
    link = folder / "bin" / "codex"
    targets = [script]
    if form == "bin":
        targets.append(modules / ".bin" / "codex")
    elif form == "mise":
        targets.append(folder / "installs" / "node" / "20.20.2" / "bin" / "codex")
    elif form == "volta":
        targets.append(modules.parents[1] / "bin" / "codex")
        link = folder / ".volta" / "bin" / "codex"
    for before, place in zip(targets, [*targets[1:], link], strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(before, place.parent))
    if form == "volta":
        shim = link.parent / "volta-shim"
        shim.write_text("#!/bin/sh\necho 'Volta error: Could not determine home directory.' >&2; exit 126\n")
        shim.chmod(0o755)
        link.unlink()
        link.symlink_to("volta-shim")
    return link


@pytest.mark.parametrize("form", ["plain", "bin", "mise", "pnpm", "volta"])
def test_a_linked_package_of_node_finds_its_parts_in_the_box(open_folder: Path, form: str) -> None:
    link = linked_codex(open_folder, form)
    found = program_files.find("codex", {"PATH": f"{link.parent}:/usr/bin"})
    assert found is not None
    assert asyncio.run(probe.try_start(found, ["--version"], "strict", open_folder)) == ""
    (next(open_folder.rglob("codex-linux-x64")) / "vendor").unlink()
    wrong = asyncio.run(probe.try_start(found, ["--version"], "strict", open_folder))
    assert wrong == "it ended with 1: Error: Missing optional dependency @openai/codex-linux-x64"
