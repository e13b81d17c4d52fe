"""Whether code of the product loads an added file: then it is product too, even if it is named like a test."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from corral.rules.checks.steering.work import CheckedWork

SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")


def is_loaded_by_product(work: CheckedWork, path: str) -> bool:
    """Tell whether a changed file of the product imports an added one."""
    pattern = import_of(path)
    if pattern is None:
        return False
    name = PurePosixPath(path).stem if PurePosixPath(path).stem not in ("__init__", "index") else ""
    return any(name in text and pattern.search(text) for text in work.product_texts)


def import_of(path: str) -> re.Pattern[str] | None:
    """Return a pattern of the lines that import a file; None where its language is not known."""
    file = PurePosixPath(path)
    if file.suffix == ".py":
        return _python(file)
    if file.suffix == ".go":
        return (
            re.compile(rf'(?m)^\s*(?:import\s+)?(?:[\w.]+\s+)?"[^"\n]*/{re.escape(file.parent.name)}"')
            if file.parent.name
            else None
        )
    if file.suffix in SCRIPTS:
        stem = re.escape(file.parent.name if file.stem == "index" else file.stem)
        return re.compile(rf"(?:require\(|from|import\(?)\s*['\"]\.{{1,2}}/(?:[^'\"]*/)?{stem}(?:\.\w+)?['\"]")
    return None


def _python(file: PurePosixPath) -> re.Pattern[str]:
    parts = [part for part in file.with_suffix("").parts if part != "__init__"]
    parts = parts[1:] if parts[:1] in (["src"], ["lib"]) and len(parts) > 1 else parts
    whole, name = re.escape(".".join(parts)), re.escape(parts[-1] if parts else "")
    above = re.escape(".".join(parts[:-1]))
    return re.compile(
        rf"(?m)^\s*(?:from\s+(?:\.+|){whole}(?:\.[\w.]+)?\s+import\b|import\s+(?:[\w., ]+,\s*)?{whole}\b"
        rf"|from\s+\.+(?:[\w.]+\.)?{name}\s+import\b|from\s+(?:\.+|{above or '[.]+'})\s+import\s[^#\n]*\b{name}\b)"
    )
