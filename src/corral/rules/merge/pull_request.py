"""Pull requests: a title and a body that a reviewer can work with, and what a look at one leads to."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct, structs

from corral import amounts
from corral.model import Attempt, Run
from corral.model.forge import FailedCheck, FollowRecord, IssueReference, PullLook, PullRequest, Remark
from corral.model.merge import MergeRecord
from corral.model.values import ErrorClass
from corral.rules.merge import merge as rules

MOST_TASK = 4000  #: characters
MOST_OUTPUT = 3000
MOST_FILES = 50
MOST_TITLE = 200
MARK = "<!-- corral -->"  #: in all that is said by corral, so that it does not answer itself
MOST_REMARK = 3000
MOST_NAMED = 10  #: files in conflict that are named
AGAIN_SECONDS = 600.0  #: what was refused for a reason that may pass is tried again
DAY_SECONDS = 86_400.0
MOST_DOUBLED = 8  #: by then a wait is longer than a day
NOT_BEGUN: frozenset[ErrorClass] = frozenset({"budget", "auth", "rate_limit", "network", "overloaded", "not_found"})
MOST_SUGGESTED = 20_000
SUGGESTION = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,})suggestion(?::-(?P<above>\d{1,4})\+(?P<below>\d{1,4}))?[ \t]*\r?\n"
    r"(?P<text>(?:(?!^[ ]{0,3}(?P=fence)).*\n)*?)^[ ]{0,3}(?P=fence)`*[ \t]*\r?$",
    re.MULTILINE,
)
FENCE = re.compile(r"`{3,}")


def title(run: Run, issue: IssueReference | None) -> str:
    """Return the title: that of the issue, or the name or the first line of the task."""
    found = (issue.title if issue else "") or run.name or rules.subject(run)
    return " ".join(found.split())[:MOST_TITLE] or run.run


def body(run: Run, issue: IssueReference | None, attempts: Sequence[str]) -> str:
    """Return what a reviewer needs to know: what was asked and done, how it was checked, what it cost, how to undo."""
    work = [each for node in run.nodes for each in node.attempts if each.id in attempts]
    parts = [
        "## What was asked",
        f"Issue: {issue.url}" if issue else "",
        quote(run.task, MOST_TASK) if not issue else "",
        "## What changed",
        _files(work),
        *(_words(each) for each in work),
        "## Evidence",
        *(_evidence(run, each) for each in work),
        "## Cost",
        _cost(run, work),
        "## How to undo it",
        "Close this pull request and delete its branch. After it was merged: `git revert -m 1 COMMIT`.",
        issue.closes if issue else "",
        f"Made by Corral, run `{run.run}`: `corral show {run.run}`, `corral diff {run.run}`.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def quote(text: str, most: int) -> str:
    """Return text of others in a block of its own: nothing in it is a mention, a link or a keyword."""
    kept = text.strip()
    kept = kept if len(kept) <= most else f"{kept[:most]}\n[...]"
    longest = max((len(found.group()) for found in FENCE.finditer(kept)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{kept}\n{fence}"


def _files(work: Sequence[Attempt]) -> str:
    names = list(dict.fromkeys(name for each in work for name in each.files_changed))
    lines = [f"- {_code(name)}" for name in names[:MOST_FILES]]
    if len(names) > MOST_FILES:
        lines.append(f"- and {len(names) - MOST_FILES} more")
    added, removed = sum(each.insertions for each in work), sum(each.deletions for each in work)
    count = f"{amounts.count(len(names), 'file')}, +{added} -{removed}"
    return "\n".join([count, "", *lines])


def _words(attempt: Attempt) -> str:
    said = attempt.output if isinstance(attempt.output, str) else ""
    return f"The agent's own words:\n\n{quote(said, MOST_OUTPUT)}" if said.strip() else ""


def _evidence(run: Run, attempt: Attempt) -> str:
    found = attempt.evidence
    grade = f"**{found.grade}**" if found else "no grade"
    why = next((node.why for node in run.nodes if node.winner == attempt.id and node.why), "")
    reasons = [f"- {_line(reason)}" for reason in (found.reasons if found else ())]
    rows = [
        f"| {_code(check.command)} | {'passed' if check.passed else 'failed'} | {check.seconds:.1f} |"
        for check in attempt.checks
    ]
    table = ["| check | result | seconds |", "|---|---|---|", *rows] if rows else ["There was no check."]
    head = f"{_code(attempt.agent)}: {grade}" + (f"; {_line(why)}" if why else "")
    return "\n".join([head, "", *table, *(["", *reasons] if reasons else [])])


def _cost(run: Run, work: Sequence[Attempt]) -> str:
    usd = "unknown" if run.cost.usd is None else f"{amounts.usd(run.cost.usd)} ({run.cost.source})"
    count = sum(len(node.attempts) for node in run.nodes)
    agents = ", ".join(dict.fromkeys(f"{each.agent}{f' ({each.model})' if each.model else ''}" for each in work))
    tries = f"{amounts.count(count, 'attempt')}"
    return f"{usd}, {run.tokens.total} tokens, {tries}, {run.seconds:.0f} s; by {_line(agents)}"


def _line(text: str) -> str:
    """Return text in one line, without what Markdown or a forge would act on."""
    return " ".join(text.split()).replace("@", "@\u200b").replace("#", "#\u200b").replace("|", "\\|")


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`"


# --- looked after


class FollowStep(Struct, frozen=True, kw_only=True):
    """What is done next, and why in words."""

    act: Literal["end", "revise", "wait"]
    reason: str
    good: bool = True  #: of an end
    seen: tuple[str, ...] = ()  #: what is acted on, or left out for good
    failed: tuple[FailedCheck, ...] = ()
    remarks: tuple[Remark, ...] = ()
    left_out: tuple[str, ...] = ()  #: authors that may not push


def new_remarks(look: PullLook, record: FollowRecord) -> list[Remark]:
    """Return what users said since the last look."""
    return [
        each
        for each in look.remarks
        if each.id not in record.seen and MARK not in each.text and (each.text.strip() or each.verdict == "changes")
    ]


def decide(look: PullLook, record: FollowRecord, pull: PullRequest, writers: Collection[str]) -> FollowStep:
    """Return what to do; `writers` are the users that may push, whose words alone count."""
    if look.state in ("merged", "closed"):
        words = "the pull request was merged" if look.state == "merged" else "the pull request was closed"
        return FollowStep(act="end", reason=words, good=look.state == "merged")
    said = new_remarks(look, record)
    counted = [each for each in said if each.author in writers and each.verdict != "approved"]
    strangers = tuple(dict.fromkeys(each.author for each in said if each.author not in writers))
    ids = tuple(each.id for each in said)
    approved = [author for author in look.approved_by if author in writers]
    red = look.checks == "failure" and f"ci {look.commit}" not in record.seen
    if look.commit != pull.commit:
        words = f"{pull.branch} is at {look.commit[:12]}, which others pushed: it is left to them"
        return FollowStep(act="wait", reason=words)
    if record.unpushed is not None:
        return FollowStep(act="wait", reason=f"nothing is pushed: {record.unpushed.trouble}")
    if not counted and not red:
        if approved and look.checks in ("none", "success"):
            return FollowStep(act="end", reason=f"approved by {', '.join(approved)}", seen=ids)
        return FollowStep(act="wait", reason=_waits(look, strangers), seen=ids, left_out=strangers)
    about = _about(look.failed if red else (), counted)
    if record.revisions >= record.most:
        words = f"{record.revisions} of {record.most} revisions are used, and there is more to do: {about}"
        return FollowStep(act="end", reason=words, good=False)
    return FollowStep(
        act="revise",
        reason=about,
        seen=(*ids, *((f"ci {look.commit}",) if red else ())),
        failed=look.failed if red else (),
        remarks=tuple(counted),
        left_out=strangers,
    )


def not_begun(attempts: Sequence[Attempt], changed: Collection[str]) -> str:
    """Return why a revision could not begin, or has to wait for its agent's quota; empty where it failed.

    `changed` are the attempts whose files differ from those of all before: a revision begins with the work it revises.
    """
    last = attempts[-1] if attempts else None
    if last is None or last.error is None:
        return ""
    idle = [each for each in attempts if not (each.tokens.total or each.cost.usd or each.id in changed)]
    classes = {each.error.kind for each in attempts if each.error}
    return last.error.message if last.status == "limited" or (idle == [*attempts] and classes <= NOT_BEGUN) else ""


def again_seconds(tries: int) -> float:
    """Return how long a revision waits that could not begin, after so many tries before: twice as long each time."""
    return min(AGAIN_SECONDS * 2.0 ** min(tries, MOST_DOUBLED), DAY_SECONDS)


def conflict_trouble(record: MergeRecord, into: str) -> str:
    """Return why a merge in conflict cannot be pushed."""
    files = ", ".join(_code(each.path) for each in record.conflicts[:MOST_NAMED])
    more = f" and {len(record.conflicts) - MOST_NAMED} more" if len(record.conflicts) > MOST_NAMED else ""
    return f"it conflicts with {_code(into)} in {files}{more}"


def _waits(look: PullLook, strangers: Sequence[str]) -> str:
    words = {"pending": "CI is at work", "success": "CI is green", "failure": "CI is red as before", "none": "no CI"}
    left = f"; not counted, without write access: {', '.join(strangers)}" if strangers else ""
    return f"{words[look.checks]}; waits for a review{left}"


def _about(failed: Sequence[FailedCheck], remarks: Sequence[Remark]) -> str:
    parts = [f"red CI ({', '.join(each.name for each in failed)})"] if failed else []
    if remarks:
        who = ", ".join(dict.fromkeys(each.author for each in remarks))
        parts.append(f"{amounts.count(len(remarks), 'comment')} by {who}")
    return " and ".join(parts)


def remark_parts(step: FollowStep) -> list[str]:
    """Return what an agent reads of the forge: checks that fail, and comments with their places."""
    checks = [
        f"The check `{each.name}` fails on the pull request."
        + (f" It says:\n{each.words[:MOST_REMARK]}" if each.words else "")
        for each in step.failed
    ]
    return [*checks, *(_remark_text(each) for each in step.remarks)]


def _remark_text(each: Remark) -> str:
    place = f" on {_place(each)}" if each.file else ""
    text = each.text[:MOST_SUGGESTED]
    words = SUGGESTION.sub("", text).strip()[:MOST_REMARK]
    suggested = [_suggestion(each, found) for found in SUGGESTION.finditer(text)]
    said = [f"{each.author} says{place}:\n{words or 'changes are requested'}"] if words or not suggested else []
    return "\n".join([*said, *suggested])


def _place(each: Remark) -> str:
    first, last = each.line, each.last_line or each.line
    lines = "" if first is None else f":{first}" if first == last else f":{first}-{last}"
    which = " (before the change)" if each.old else " (in an older version)" if each.outdated else ""
    return f"{each.file}{lines}{which}"


def _suggestion(each: Remark, found: re.Match[str]) -> str:
    """Return a suggested change of a review in words: GitHub's is for the lines of its comment, GitLab's names them."""
    first, last = each.line, each.last_line or each.line
    if found["above"] is not None and last is not None:
        first, last = max(1, last - int(found["above"])), last + int(found["below"])
    place = _place(structs.replace(each, line=first, last_line=last)) if each.file else "what is meant"
    text = found["text"].rstrip("\n")
    if not text:
        return f"{each.author} suggests to remove {place}."
    return f"{each.author} suggests to replace {place} with exactly:\n{quote(text, MOST_REMARK)}"
