"""Existing tests that follow a change of behaviour: the task asks for it, or only their expected values are others."""

from __future__ import annotations

import re

from corral.model.flow import Task
from corral.rules.checks.steering import moves, roles
from corral.rules.checks.steering.work import CheckedWork

#: Of tests that follow: with these words the checks must have passed before, and fail with the tests alone.
FOLLOWS = "with other expected values"
ASKED = "which the task asks to adapt"

VERBS = (
    r"\b(?:updat|adapt|adjust|chang|remov|delet|rewrit|convert|migrat|revis|drop|regenerat|refresh|modif|edit|"
    r"synchroni[sz]|renew|retir)\w*"
)
OWN = (
    r"(?:(?:the|its|their|all|any|existing|affected|corresponding|related|relevant|matching|old|unit|snapshot|golden|"
    r"expected|recorded|test|of)\s+)*"
)
NOUNS = (
    r"(?:tests?|test\s+(?:files?|cases?|suite|data|expectations?)|specs?|fixtures?|snapshots?|cassettes?|expectations?|"
    r"golden\s+files?|baselines?|expected\s+(?:values?|outputs?|results?|files?))\b"
)
JOINED = r"(?:\band|,|\bincluding|\balong\s+with|\btogether\s+with|\bas\s+well\s+as)\s+(?:also\s+)?"
#: What follows where tests are not what is to be changed, but what judges.
JUDGING = (
    r"(?!\s*(?:that|which|to|must|should|shall|will|can|may|need|pass|succeed|fail|run|say|show|expect|describe|work|"
    r"are|is|in\s+ci|stay|remain|keep|cover|green|untouched|alone)\b)"
)
TESTS_FOLLOW = re.compile(
    rf"(?i){VERBS}\s+{OWN}{NOUNS}{JUDGING}|{VERBS}(?:[^.;:\n]|\.(?=\w)){{0,80}}?{JOINED}{OWN}{NOUNS}{JUDGING}"
)
#: Tasks that leave the behaviour as it is.
KEEPS = re.compile(
    r"(?i)\b(refactor|clean|tidy|simplif|speed|faster|performan|optimi[sz]|restructur|reorgani|format|lint|document|"
    r"typ(e|ing)\s+hints?|annotat|behaviou?r\s+(must|should|stays|is kept|unchanged)|"
    r"(same|without\s+chang\w+)\s+(the\s+)?behaviou?r)"
)


def asks_for_tests(work: CheckedWork, task: Task, path: str) -> bool:
    """Tell whether the task wants existing tests, or their data, to be changed along with the product, as they were."""
    prompt = roles.FORBIDS.sub(" ", task.prompt)
    return roles.role_of(path) in ("test", "data") and bool(TESTS_FOLLOW.search(prompt)) and _changes_product(work)


def may_follow(work: CheckedWork, task: Task, path: str) -> bool:
    """Tell a test of which only literals became others, beside a change of the product."""
    if roles.role_of(path) != "test" or path not in work.base or path not in work.delivered:
        return False
    if task.type == "refactor" or KEEPS.search(task.prompt) or roles.FORBIDS.search(task.prompt):
        return False
    before, after = work.text("base", path), work.text("delivered", path)
    return _changes_product(work) and before is not None and after is not None and _only_literals(before, after)


def _changes_product(work: CheckedWork) -> bool:
    return any(roles.is_code(each.path) and roles.role_of(each.path) == "product" for each in work.changes)


def _only_literals(before: str, after: str) -> bool:
    if before == after or max(len(before), len(after)) > moves.LONGEST_TEXT:
        return False
    old, new = moves.tokens(before), moves.tokens(after)
    return len(old) == len(new) and all(
        one == other or (_kind(one) != "" and _kind(one) == _kind(other)) for one, other in zip(old, new, strict=True)
    )


def _kind(token: str) -> str:
    """Return what kind of literal a token is; nothing where it is none."""
    return "number" if token[0].isdigit() else "text" if token[0] in "\"'" and len(token) > 1 else ""
