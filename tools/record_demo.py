"""A recording of `corral demo` as an animated SVG: docs/pictures/demo.svg, made from a real run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
COLUMNS, ROWS = 100, 24
LINE, CHARACTER, EDGE = 18, 7.8, 14  #: pixels
LONGEST_PAUSE, SHORTEST_PAUSE = 0.9, 0.12  #: seconds between two lines, so that one can read and need not wait
REST = 6.0  #: seconds at the end, before it begins again
STYLES = (
    (re.compile(r"^\d+\. "), "head"),
    (re.compile(r"FAIL|failed|^\s+-\s"), "bad"),
    (re.compile(r"passed|\bdone\b|merged|proven|^\s+\+\s|undone"), "good"),
    (re.compile(r"^\("), "faint"),
)


def record() -> list[tuple[float, str]]:
    """Run the demo in a home of its own; return its lines, each with its second."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "CORRAL_HOME": f"{home}/state", "COLUMNS": str(COLUMNS)}
        command = [str(Path(sys.executable).parent / "corral"), "demo"]
        began, lines = time.monotonic(), list[tuple[float, str]]()
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            for line in running.stdout or ():
                lines.append((time.monotonic() - began, line.rstrip("\n")))
        if running.returncode:
            raise SystemExit(f"corral demo ended with {running.returncode}")
    return lines


def times(lines: list[tuple[float, str]]) -> list[float]:
    """Return when each line appears: as it was, without long waits."""
    at, before, out = 0.4, 0.0, list[float]()
    for second, _ in lines:
        at += min(LONGEST_PAUSE, max(SHORTEST_PAUSE, second - before))
        before = second
        out.append(at)
    return out


def draw(lines: list[tuple[float, str]]) -> str:
    """Return the recording as an SVG that needs nothing else."""
    at = times(lines)
    whole = at[-1] + REST
    width, height = round(COLUMNS * CHARACTER + 2 * EDGE), ROWS * LINE + 2 * EDGE + 26
    rows = [
        f'<text class="{_style(text)}" y="{(number + 1) * LINE}">'
        f"{escape(text if len(text) <= COLUMNS else text[: COLUMNS - 1] + '…')}</text>"
        for number, (_, text) in enumerate(lines)
        if text.strip()
    ]
    steps = [
        f"{100 * second / whole:.2f}%{{transform:translateY(-{(number + 1 - ROWS) * LINE}px)}}"
        for number, second in enumerate(at)
        if number + 1 > ROWS
    ]
    opened = [
        f"{100 * second / whole:.2f}%{{transform:translateY({(number + 1) * LINE}px)}}"
        for number, second in enumerate(at)
    ]
    last, end = (len(lines) - ROWS) * LINE, len(lines) * LINE
    move = f"{whole:.2f}s step-end infinite"
    dots = "".join(f'<circle class="dot" cx="{x}" cy="13" r="5"/>' for x in (16, 32, 48))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="corral demo: a bug is fixed, checked, merged and the merge undone; then three agents race">
<style>
text{{font:13px ui-monospace,"SF Mono","DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#e8e8e2;white-space:pre}}
.bg{{fill:#151714}}.bar{{fill:#1d201c}}.dot{{fill:#383d36}}.faint,.title{{fill:#a5aaa0}}
.head{{fill:#7cc9b0;font-weight:600}}.good{{fill:#85d79a}}.bad{{fill:#ff9d94}}
.curtain{{animation:open {move}}}
@keyframes open{{0%{{transform:translateY(0)}}{"".join(opened)}100%{{transform:translateY({end}px)}}}}
.s{{animation:scroll {move}}}
@keyframes scroll{{0%{{transform:translateY(0)}}{"".join(steps)}100%{{transform:translateY(-{last}px)}}}}
@media (prefers-reduced-motion:reduce){{
.curtain{{display:none}}.s{{animation:none;transform:translateY(-{last}px)}}}}
</style>
<rect class="bg" width="{width}" height="{height}" rx="8"/><rect class="bar" width="{width}" height="26" rx="8"/>{dots}
<text class="title" x="{width // 2}" y="17" text-anchor="middle">$ corral demo</text>
<svg x="{EDGE}" y="{26 + EDGE // 2}" width="{width - 2 * EDGE}" height="{ROWS * LINE + 6}">
<g class="s" xml:space="preserve">
{chr(10).join(rows)}
<rect class="bg curtain" y="5" width="100%" height="{end + ROWS * LINE}"/>
</g></svg>
</svg>
"""


def _style(text: str) -> str:
    return next((name for pattern, name in STYLES if pattern.search(text)), "")


if __name__ == "__main__":
    PICTURE.write_text(draw(record()))
    print(PICTURE)
