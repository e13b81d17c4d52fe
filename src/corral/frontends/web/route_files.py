"""Routes of a folder: each file of it that has a `router` is one part; a new file needs no other line."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import cast

from fastapi import APIRouter


def routers(package: str, folders: Iterable[str]) -> Iterator[APIRouter]:
    """Yield the routers of a package's files, by name."""
    for each in pkgutil.iter_modules(folders, f"{package}."):
        router = getattr(importlib.import_module(each.name), "router", None)
        if router is not None:
            yield cast("APIRouter", router)
