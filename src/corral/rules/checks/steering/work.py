"""A work and its checks as this package sees them: paths, contents that were read, programs of the checks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from corral.rules.checks.steering import judging, roles
from corral.rules.checks.steering.change import Contents, Key, PathChange, Side
from corral.rules.checks.steering.programs import CheckReader, Programs

MOST_TESTS = 40  #: read to find out what they use
Made = TypeVar("Made")


class CheckedWork:
    """The changed paths of a work, and what was read of them; `missing` is what should be read as well."""

    def __init__(
        self, changes: Sequence[PathChange], checks: Sequence[str], base_paths: Sequence[str], contents: Contents
    ) -> None:
        self.changes, self.checks, self._contents = changes, checks, contents
        self.base = frozenset(base_paths)
        self.added = {each.path for each in changes if each.kind == "added"}
        self.delivered = (self.base - {each.path for each in changes if each.kind == "deleted"}) | self.added
        self.packages = {path.rpartition("/")[0] for path in self.delivered if path.endswith("/__init__.py")}
        self.missing: dict[Key, None] = {}
        self._remembered: dict[str, object] = {}
        self.programs = self._read_checks()

    def content(self, side: Side, path: str) -> bytes | None:
        """Return a file's content; None where it was not read, or could not be."""
        key: Key = (side, path)
        if key not in self._contents:
            self.missing[key] = None
        return self._contents.get(key)

    def text(self, side: Side, path: str) -> str | None:
        content = self.content(side, path)
        return None if content is None else content.decode(errors="replace")

    def _read_checks(self) -> Programs:
        modules = {path.split("/")[0].removesuffix(".py") for path in self.base if path.endswith(".py")}

        def text(path: str) -> str | None:
            return self.text("base" if path in self.base else "delivered", path)

        reader = CheckReader(self.base | self.added, text, lambda path, words: judging.judges(path, words, modules))
        for check in self.checks:
            reader.check(check)
        return reader.found

    @functools.cached_property
    def product_texts(self) -> list[str]:
        """The changed code of the product, as far as it was read."""
        texts = [self.text("delivered", path) for side, path in self.product_sources() if side == "delivered"]
        return [each for each in texts if each]

    @functools.cached_property
    def test_texts(self) -> list[str]:
        """The base's tests and their configuration, as far as they were read."""
        tests = [
            path
            for path in sorted(self.base)
            if roles.is_code(path) and roles.role_of(path) in ("test", "runner") and "node_modules/" not in path
        ]
        return [text for path in tests[:MOST_TESTS] if (text := self.text("base", path))]

    def remember(self, name: str, make: Callable[[CheckedWork], Made]) -> Made:
        """Return what was made of this work before, or make it."""
        if name not in self._remembered:
            self._remembered[name] = make(self)
        return cast("Made", self._remembered[name])

    def product_sources(self) -> list[Key]:
        """Return the keys of all product code, about which doubts may be raised."""
        found: list[Key] = []
        for each in self.changes:
            if each.kind != "deleted" and is_source(each.path):
                found.append(("delivered", each.path))
                if each.kind == "changed":
                    found.append(("base", each.path))
        return found


def is_source(path: str) -> bool:
    """Tell code of the product, and what says how it is built."""
    code = roles.is_code(path) or path.endswith(".cmake")
    return path.endswith("CMakeLists.txt") or (code and roles.role_of(path) == "product")
