"""Files in which a check keeps its own result: work that begins to name one may write the result itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from corral.rules.checks.steering.change import Contents

FILE = re.compile(r"[\w./-]*\w\.(?:json|xml|txt|log|out|tap|ya?ml|csv|status|result)\b")


def claimed_files(
    checks: Sequence[str], product: Collection[str], changed: Collection[str], base: Collection[str], contents: Contents
) -> Mapping[str, tuple[str, ...]]:
    """Return by check the result files that the work names anew.

    A result file is named by a check and by an unchanged program of the base, and is not in the base itself.
    """
    programs = [text for (side, path), text in contents.items() if side == "base" and path not in changed and text]
    found: dict[str, tuple[str, ...]] = {}
    for check in checks:
        names = {PurePosixPath(each).name for each in FILE.findall(check) if each.removeprefix("./") not in base}
        kept = [name for name in sorted(names) if any(name.encode() in text for text in programs)]
        if own := tuple(name for name in kept if any(_is_newly_named(name, path, contents) for path in product)):
            found[check] = own
    return found


def _is_newly_named(name: str, path: str, contents: Contents) -> bool:
    before, after = contents.get(("base", path)) or b"", contents.get(("delivered", path)) or b""
    return name.encode() in after and name.encode() not in before
