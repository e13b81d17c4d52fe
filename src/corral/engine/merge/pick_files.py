"""Make one new candidate of files, or of numbered pieces of files, that several attempts of a run changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from msgspec import Struct

from corral.model import Attempt, NodeState, Run
from corral.model.errors import BadRequest
from corral.model.merge import FilePick, Hunk, HunkedFile, Hunks
from corral.rules.merge import merge as rules
from corral.world.git import changes, merge_commits, resolve_conflicts
from corral.world.git.changes import CutFile, Piece
from corral.world.git.repository import Repository

TreeEntry = tuple[str, str] | None  #: mode and blob; None: gone


class PickedCommit(Struct, frozen=True):
    """A candidate, and whose work it is made of."""

    commit: str
    pairs: tuple[tuple[NodeState, Attempt], ...]


class _PickedPart(Struct, frozen=True):
    """What is taken of one attempt's version of a file."""

    take: FilePick
    attempt: Attempt
    pair: tuple[NodeState, Attempt]


def parse_pick(text: str, who: str) -> FilePick:
    """Read a part of some work: `a.py`, or hunks of it: `a.py#1,3-5`."""
    return rules.take(text, who)


# --- look


async def attempt_hunks(repository: Repository, run: Run, base: str | None, who: str | None) -> list[Hunks]:
    """Return the changes of attempts in numbered pieces; of all that have any, or of one."""
    if who is not None:
        attempts = [rules.attempts_to_merge(run, who)[0][1]]
    else:
        attempts = [each for node in run.nodes for each in node.attempts if each.commit]
    if base is None:
        raise BadRequest(
            "there is no base to count hunks from: the run began in an empty repository",
            hint="take whole files: --take PATH",
        )
    return [_hunks(each, base, await changes.cut_files(repository, base, each.commit or "")) for each in attempts]


def _hunks(attempt: Attempt, base: str, files: Sequence[CutFile]) -> Hunks:
    return Hunks(
        attempt=attempt.id,
        agent=attempt.agent,
        base=base,
        commit=attempt.commit or "",
        files=tuple(
            HunkedFile(
                path=file.path,
                whole=file.whole,
                hunks=tuple(
                    Hunk(
                        number=piece.number,
                        head=piece.head,
                        text=b"".join(_with_newline(line) for line in piece.lines).decode(errors="replace"),
                    )
                    for piece in file.pieces
                ),
            )
            for file in files
        ),
    )


def _with_newline(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


# --- take


async def combine_picks(repository: Repository, run: Run, base: str | None, takes: Sequence[FilePick]) -> PickedCommit:
    """Put what is taken together, on the run's base; what does not go together is refused."""
    if base is None:
        raise BadRequest("--take needs a base: the run began in an empty repository", hint="use --pick")
    by_path: dict[str, list[_PickedPart]] = {}
    for take in takes:
        pair = rules.attempts_to_merge(run, take.who)[0]
        by_path.setdefault(take.path, []).append(_PickedPart(take, pair[1], pair))
    entries: dict[str, TreeEntry] = {}
    for path, parts in by_path.items():
        entries |= await _entries(repository, base, path, parts)
    tree = await resolve_conflicts.edit_tree(repository, await repository.tree_of(base), entries)
    parts_taken = [part for parts in by_path.values() for part in parts]
    words = "".join(f"Taken: {part.take.path_with_hunks} from {part.attempt.id}\n" for part in parts_taken)
    message = rules.message(run, [], squashed=True, into="") + words
    commit = await merge_commits.commit_tree(repository, tree, [base], message)
    await repository.publish()
    await repository.git("update-ref", f"refs/corral/taken/{run.run}/{commit[:12]}", commit)
    return PickedCommit(commit, tuple(part.pair for part in parts_taken))


async def _entries(repository: Repository, base: str, path: str, parts: Sequence[_PickedPart]) -> dict[str, TreeEntry]:
    old = await resolve_conflicts.entries_of(repository, base, [path])
    if not any(part.take.hunks for part in parts):
        part = parts[-1]
        new = await resolve_conflicts.entries_of(repository, part.attempt.commit or "", [path])
        if not new and not old:
            raise BadRequest(
                f"--take {path}: neither {part.attempt.id} nor its base has that file",
                hint=f"corral diff {part.attempt.id} lists its files",
            )
        return {**dict.fromkeys(old), **new}
    return {path: await _file_from_hunks(repository, base, old.get(path), parts)}


async def _file_from_hunks(
    repository: Repository, base: str, old: tuple[str, str] | None, parts: Sequence[_PickedPart]
) -> TreeEntry:
    """Return a file that is made of pieces."""
    chosen: list[tuple[_PickedPart, CutFile, Piece]] = []
    for part in parts:
        found = await changes.cut_files(repository, base, part.attempt.commit or "", [part.take.path])
        file = next((each for each in found if each.path == part.take.path), None)
        chosen += [(part, *both) for both in _pieces(part, file)]
    for (one, _, piece), (other, _, second) in combinations(chosen, 2):
        if one.attempt.id != other.attempt.id and changes.do_clash(piece, second):
            raise _clash(one, piece, other, second)
    files = [file for _, file, _ in chosen]
    if gone := [part for part, file, _ in chosen if file.after is None]:
        if any(file.after for file in files):
            who = f"{gone[0].attempt.id} ({gone[0].attempt.agent})"
            raise BadRequest(
                f"--take {gone[0].take.path}: {who} removed that file, others changed it", hint="take one of them"
            )
        return None
    content = changes.apply(await repository.blob(old[1]) if old else b"", [piece for _, _, piece in chosen])
    whole = [file.after for part, file, _ in chosen if not part.take.hunks and file.after != file.before]
    mode = next(iter(whole), None) or (old[0] if old else None) or files[0].after or "100644"
    return mode, await resolve_conflicts.keep_file(repository, content)


def _pieces(part: _PickedPart, file: CutFile | None) -> list[tuple[CutFile, Piece]]:
    path, attempt = part.take.path, part.attempt
    if file is None:
        raise BadRequest(
            f"--take {part.take.path_with_hunks}: {attempt.id} ({attempt.agent}) did not change that file",
            hint=f"corral diff {attempt.id} lists its files",
        )
    if file.whole:
        raise BadRequest(
            f"--take {part.take.path_with_hunks}: {path} has no hunks: {file.whole}",
            hint=f"--take {path}={part.take.who}",
        )
    numbers = [piece.number for piece in file.pieces]
    if unknown := [number for number in part.take.hunks if number not in numbers]:
        raise BadRequest(
            f"--take {part.take.path_with_hunks}: {attempt.id} ({attempt.agent}) has no hunk {unknown[0]} there",
            hint=f"it has 1 to {numbers[-1]}: corral diff {attempt.id.rpartition('-')[0]} {attempt.id} --hunks",
        )
    return [(file, piece) for piece in file.pieces if not part.take.hunks or piece.number in part.take.hunks]


def _clash(one: _PickedPart, piece: Piece, other: _PickedPart, second: Piece) -> BadRequest:
    start, end = min(piece.start, second.start) + 1, max(piece.end, second.end)
    lines = f"lines {start} to {end}" if end > start else f"line {max(start, end)}"
    return BadRequest(
        f"--take {one.take.path}: hunk {piece.number} of {one.attempt.id} ({one.attempt.agent}) and hunk "
        f"{second.number} of {other.attempt.id} ({other.attempt.agent}) do not go together: both change {lines}",
        hint="take one of them",
    )
