"""The parts of the suite that later capabilities added, so that what each of them costs can be read off a whole run."""

from pathlib import Path

HOUSE = "all before"
ACCEPTANCE = "tests/acceptance/test_"
#: Part -> how the paths of its tests begin.
PARTS: dict[str, tuple[str, ...]] = {
    "speed": (
        f"{ACCEPTANCE}overlays.py", "tests/world/workspace/test_overlay.py", f"{ACCEPTANCE}pool.py",
        "tests/world/workspace/test_pool.py", "tests/store/sqlite/test_plain_list.py",
        "tests/world/git/test_pair_conflicts.py",
    ),
    "the first hour": (
        *(f"{ACCEPTANCE}{name}.py" for name in (
            "init", "completion", "terminal", "install", "with_changes", "without_run", "python_repl",
        )),
        "tests/docs/test_recording.py",
    ),
    "reviews, forges, messages": (
        *(f"{ACCEPTANCE}{name}.py" for name in (
            "review", "pull_requests", "follow", "issue_watch", "issue_tasks", "notifiers", "callbacks", "merge_apply",
        )),
        "tests/pages/test_review.py",
    ),
    "editors": (
        f"{ACCEPTANCE}editors.py", "tests/frontends/acp", "tests/editors",
        "tests/rules/editors",
    ),
    "machines, PostgreSQL": (
        *(f"{ACCEPTANCE}{name}.py" for name in (
            "machines", "machine_attach", "machine_keys", "machine_namespaces", "postgres_store", "store_command",
        )),
        "tests/machines/test_frames.py", "tests/store/postgres",
    ),
    "plans, programs, memory": tuple(
        f"{ACCEPTANCE}{name}.py" for name in (
            "plan", "code", "hostile_programs", "programs_of_agents", "tools", "memory", "checkpoints",
        )
    ),
}  # fmt: skip


def part_of(test: str) -> str:
    """Return the part that a test belongs to, by its id."""
    if test.startswith("tests/store/") and "[postgres" in test:
        return "machines, PostgreSQL"
    return next((part for part, begins in PARTS.items() if test.startswith(begins)), HOUSE)


def missing_paths(project: Path) -> list[str]:
    """Return what is named here and is not there any more."""
    return [begin for begins in PARTS.values() for begin in begins if not (project / begin).exists()]
