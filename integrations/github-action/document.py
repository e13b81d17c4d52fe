"""Print one field of a run document, on one line: document.py FILE FIELD."""

import json
import sys
from pathlib import Path
from typing import Any


def one_line(value: object) -> str:
    """Return a value as text without line ends: an output of a step must not begin another one."""
    return "" if value is None else " ".join(str(value).split())


def branch(run: dict[str, Any]) -> str:
    """Return where the result is: the branch of the pull request, or that of the last winner."""
    if pull := run.get("pull_request"):
        return str(pull["branch"])
    winners = [node["winner"] for node in run["nodes"] if node.get("winner")]
    attempts = [each for node in run["nodes"] for each in node["attempts"] if each["id"] in winners[-1:]]
    return attempts[-1]["branch"] or "" if attempts else ""


def because(run: dict[str, Any]) -> str:
    """Return why a run ended as it did, in the words of the engine."""
    errors = [each["error"]["class"] for node in run["nodes"] for each in node["attempts"] if each.get("error")]
    return f" ({errors[-1]})" if errors else ""


def summary(run: dict[str, Any]) -> str:
    cost = run["cost"]["usd"]
    rows = [f"| run | `{run['run']}` |", f"| status | {run['status']}{because(run)} |", f"| branch | `{branch(run)}` |"]
    rows.append(f"| cost | {'unknown' if cost is None else f'${cost:.2f}'} |")
    return "\n".join(["### Corral", "", "| | |", "|---|---|", *rows, ""])


def main() -> None:
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        run = json.load(file)
    match sys.argv[2]:
        case "run" | "run-id":
            print(one_line(run["run"]))
        case "cost-usd":
            print(one_line(run["cost"]["usd"]))
        case "branch":
            print(one_line(branch(run)))
        case "pull-request":
            print(one_line((run.get("pull_request") or {}).get("url")))
        case "because":
            print(because(run))
        case "summary":
            print(summary(run))
        case other:
            print(one_line(run.get(other)))


if __name__ == "__main__":
    main()
