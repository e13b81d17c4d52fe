"""Functions of Go and Rust that returned plain values and now return a type which decides how it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator

GO_PLAIN = r"(?:u?int\d*|float\d+|complex\d+|string|bool|byte|rune)"
RUST_PLAIN = r"(?:[iu](?:8|16|32|64|128|size)|f32|f64|bool|char|String)"
#: By language: a function and its result, a type, a type that decides how it is shown or compared.
GO = (
    re.compile(r"(?m)^func\s+(?:\([^)\n]*\)\s*)?(\w+)\([^)\n]*\)\s*\(?(?:\w+\s+)?(\w+)\)?\s*\{"),
    re.compile(rf"(?m)^type\s+(\w+)\s+{GO_PLAIN}\s*$"),
    re.compile(r"(?m)^func\s+\(\s*\w*\s*\*?(\w+)\)\s*(?:String|Format|GoString|MarshalJSON|MarshalText|Error|Equal)\("),
    re.compile(GO_PLAIN),
)
RUST = (
    re.compile(r"(?m)^\s*(?:pub(?:\([^)\n]*\))?\s+)?(?:const\s+)?fn\s+(\w+)\s*\([^)\n]*\)\s*->\s*(\w+)\s*\{"),
    re.compile(rf"(?m)^\s*(?:pub(?:\([^)\n]*\))?\s+)?struct\s+(\w+)\s*(?:\((?:pub\s+)?{RUST_PLAIN}\)|\{{)"),
    re.compile(r"\bimpl\b[^{;\n]*\b(?:Display|Debug|ToString|Deref|Serialize|PartialEq|PartialOrd)\b[^{;\n]*\bfor\s+(\w+)"),
    re.compile(RUST_PLAIN),
)  # fmt: skip
BY_SUFFIX = {".go": GO, ".rs": RUST}


def own_results(suffix: str, base: str, now: str) -> Iterator[int]:
    """Return the lines of functions whose plain result became a type that decides how it is shown."""
    if suffix not in BY_SUFFIX:
        return
    function, type_, shows, plain = BY_SUFFIX[suffix]
    types = ({*type_.findall(now)} & {*shows.findall(now)}) - {*type_.findall(base)}
    before = {found[1] for found in function.finditer(base) if plain.fullmatch(found[2])}
    for found in function.finditer(now) if types else ():
        if found[1] in before and found[2] in types:
            yield now.count("\n", 0, found.start(1)) + 1
