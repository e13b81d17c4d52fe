"""Routes of a folder: each file of it that has a `router` is one part; a new file needs no other line."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import cast

from fastapi import APIRouter


def routers(package: str, name: str = "router") -> Iterator[APIRouter]:
    """Yield the routers of that name in a package's files, file by file."""
    for each in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        router = getattr(importlib.import_module(each.name), name, None)
        if router is not None:
            yield cast("APIRouter", router)
