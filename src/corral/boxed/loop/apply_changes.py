"""Puts the changes of an answer into the workspace; nothing outside it is ever touched."""

from __future__ import annotations

from msgspec import Struct

from corral.boxed.loop import patch
from corral.boxed.loop.answer_text import Edit, Patch, Replace, Whole
from corral.boxed.loop.workspace import Refused, Workspace

MOST_BYTES = 20 << 20


class Applied(Struct, frozen=True):
    """What became of one change."""

    path: str
    problem: str = ""


def apply(place: Workspace, edits: list[Edit]) -> list[Applied]:
    """Apply changes one by one; one that does not fit changes nothing and says why."""
    return [_tried(place, edit) for edit in edits]


def _tried(place: Workspace, edit: Edit) -> Applied:
    path = edit.path or (edit.was if isinstance(edit, Patch) else None) or ""
    try:
        match edit:
            case Whole():
                place.write(place.strictly(path), edit.text)
            case Replace():
                _replace(place, edit)
            case Patch():
                _patch(place, edit)
    except Refused as error:
        return Applied(path, str(error))
    except (OSError, ValueError) as error:
        return Applied(path, f"{path!r}: {error}")
    return Applied(path)


def _replace(place: Workspace, edit: Replace) -> None:
    target = place.strictly(edit.path)
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
        raise Refused(f"{edit.path}: the SEARCH part {words}; it must occur exactly once, word for word")
    place.write(target, text.replace(old, new))


def _patch(place: Workspace, edit: Patch) -> None:
    if edit.path is None:
        target = place.strictly(edit.was or "")
        if patch.apply(_read(place, edit.was or ""), edit.hunks) is None:
            raise Refused(f"{edit.was}: the diff that deletes it does not fit")
        target.unlink()
        return
    text = _read(place, edit.was) if edit.was is not None else ""
    target = place.strictly(edit.path)
    if edit.was is None and target.exists():
        raise Refused(f"{edit.path}: the diff makes a new file, but there is one already")
    changed = patch.apply(text, edit.hunks)
    if changed is None:
        raise Refused(f"{edit.path}: the diff does not fit; its unchanged lines must stand in the file word for word")
    place.write(target, changed)
    if edit.was is not None and edit.was != edit.path:
        place.strictly(edit.was).unlink()


def _read(place: Workspace, name: str) -> str:
    path = place.strictly(name)
    if not path.is_file():
        raise Refused(f"{name}: there is no such file")
    if path.stat().st_size > MOST_BYTES:
        raise Refused(f"{name}: it is too large")
    return path.read_bytes().decode()
