"""Puts the changes of an answer into the workspace; nothing outside it is ever touched."""

from __future__ import annotations

from msgspec import Struct

from corral.boxed.loop import patch
from corral.boxed.loop.answer_text import Edit, PatchEdit, ReplaceEdit, WholeFileEdit
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

MOST_BYTES = 20 << 20


class EditResult(Struct, frozen=True):
    """What became of one change."""

    path: str
    problem: str = ""


def apply(place: LoopWorkspace, edits: list[Edit]) -> list[EditResult]:
    """Apply changes one by one; one that does not fit changes nothing and says why."""
    return [_apply_edit(place, edit) for edit in edits]


def _apply_edit(place: LoopWorkspace, edit: Edit) -> EditResult:
    path = edit.path or (edit.was if isinstance(edit, PatchEdit) else None) or ""
    try:
        match edit:
            case WholeFileEdit():
                place.write(place.strict_path(path), edit.text)
            case ReplaceEdit():
                _replace(place, edit)
            case PatchEdit():
                _patch(place, edit)
    except ToolRefused as error:
        return EditResult(path, str(error))
    except (OSError, ValueError) as error:
        return EditResult(path, f"{path!r}: {error}")
    return EditResult(path)


def _replace(place: LoopWorkspace, edit: ReplaceEdit) -> None:
    target = place.strict_path(edit.path)
    if not edit.old.strip() and not target.exists():
        place.write(target, edit.new)  # nothing to search for: a new file
        return
    text = _read(place, edit.path)
    old, new = edit.old, edit.new
    if old not in text and old.removesuffix("\n") in text:
        old, new = old.removesuffix("\n"), new.removesuffix("\n")  # the last line of a file without a newline
    count = text.count(old) if old.strip() else 0
    if count != 1:
        words = "is not in the file" if count == 0 else f"is in the file {count} times"
        raise ToolRefused(f"{edit.path}: the SEARCH part {words}; it must occur exactly once, word for word")
    place.write(target, text.replace(old, new))


def _patch(place: LoopWorkspace, edit: PatchEdit) -> None:
    if edit.path is None:
        target = place.strict_path(edit.was or "")
        if patch.apply(_read(place, edit.was or ""), edit.hunks) is None:
            raise ToolRefused(f"{edit.was}: the diff that deletes it does not fit")
        target.unlink()
        return
    text = _read(place, edit.was) if edit.was is not None else ""
    target = place.strict_path(edit.path)
    if edit.was is None and target.exists():
        raise ToolRefused(f"{edit.path}: the diff makes a new file, but there is one already")
    changed = patch.apply(text, edit.hunks)
    if changed is None:
        raise ToolRefused(
            f"{edit.path}: the diff does not fit; its unchanged lines must stand in the file word for word"
        )
    place.write(target, changed)
    if edit.was is not None and edit.was != edit.path:
        place.strict_path(edit.was).unlink()


def _read(place: LoopWorkspace, name: str) -> str:
    path = place.strict_path(name)
    if not path.is_file():
        raise ToolRefused(f"{name}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        raise ToolRefused(f"{name}: it is too large")
    return path.read_bytes().decode()
