"""Calls of forges about issues and pull requests, read without trust; who may start work by one."""

from __future__ import annotations

import re
from typing import Any, cast

from msgspec import Struct, structs

from corral.model.errors import BadRequest
from corral.model.server import TriggerRecord

WRITERS = "@write"  #: all who may push, as the forge says
ASSOCIATION = "association:"
USUAL_ON = ("label:corral", "comment:/corral")
OCCASION = re.compile(r"(?:label|comment):\S(?:.{0,98}\S)?")
USER = re.compile(r"[\w.-]{1,100}(?:\[bot\])?|@write|association:(?:OWNER|MEMBER|COLLABORATOR)")
MOST_WORDS = 20_000  #: characters of a comment
MOST_NAME = 200

Row = dict[str, Any]


class ForgeCall(Struct, frozen=True, kw_only=True):
    """What a forge reports: an issue that got a label, or a comment."""

    on: str  #: as in the trigger, `label:NAME` or `comment:WORD`
    repository: str
    number: str
    url: str
    actor: str
    association: str = ""  #: of the author of a comment, as GitHub says
    words: str = ""  #: of a comment, behind its first word
    on_pull: bool = False


def check_forge_trigger(record: TriggerRecord) -> TriggerRecord:
    """Return a trigger with what is usual for one of a forge; refuse what does not go together."""
    if record.forge is None:
        if record.on or record.who:
            raise BadRequest("`on` and `who` belong to a trigger of a forge", hint="name it: --forge github")
        return record
    if record.forge == "other":
        raise BadRequest("only known forges call a trigger", hint="forge: github, gitlab, forgejo or gitea")
    if record.branch:
        raise BadRequest("a trigger of a forge watches no branch", hint="make another trigger with --branch")
    if record.request.flow is not None:
        raise BadRequest("a trigger of a forge has no flow: its issue is the task", hint="leave out --flow")
    for each in record.on:
        if not OCCASION.fullmatch(each):
            raise BadRequest(f"on: `{each[:80]}` is no occasion", hint="as label:corral or comment:/corral")
    for each in record.who:
        if not USER.fullmatch(each):
            hint = "a user name, @write, or association:OWNER, MEMBER or COLLABORATOR"
            raise BadRequest(f"who: `{each[:80]}` is no user", hint=hint)
    return structs.replace(record, on=record.on or USUAL_ON, who=record.who or (WRITERS,))


def read_call(record: TriggerRecord, event: str, payload: object) -> ForgeCall | str:
    """Return what a call of a forge asks a trigger for, or why it asks for nothing."""
    body = _row(payload)
    found = _gitlab_call(record, body) if record.forge == "gitlab" else _github_call(record, event, body)
    if isinstance(found, str):
        return found
    return found if found.actor and found.number.isdecimal() and len(found.number) <= 12 else "that is no issue"


def is_named(call: ForgeCall, record: TriggerRecord, actor: str) -> bool:
    """Tell whether a trigger names a user, or the association that the forge says they have."""
    names = {each.casefold() for each in record.who if each != WRITERS and not each.startswith(ASSOCIATION)}
    return actor.casefold() in names or (actor == call.actor and f"{ASSOCIATION}{call.association}" in record.who)


def is_from_fork(payload: object) -> bool:
    """Tell whether a call is about a pull request whose branch is in another repository."""
    body = _row(payload)
    pull = _row(body.get("pull_request"))
    if pull:
        theirs, ours = _text(pull, "head", "repo", "full_name"), _text(pull, "base", "repo", "full_name")
        return not theirs or theirs != (ours or _text(body, "repository", "full_name"))
    merge = _row(body.get("merge_request"))
    if not merge and body.get("object_kind") == "merge_request":
        merge = _row(body.get("object_attributes"))
    return bool(merge) and merge.get("source_project_id") != merge.get("target_project_id")


def _github_call(record: TriggerRecord, event: str, body: Row) -> ForgeCall | str:
    """Read a call of GitHub, Forgejo or Gitea."""
    action, issue, comment = _text(body, "action"), _row(body.get("issue")), _row(body.get("comment"))
    about: Row = {
        "repository": _text(body, "repository", "full_name"),
        "number": _text(issue, "number"),
        "url": _text(issue, "html_url"),
    }
    if event.startswith("issue") and comment and action == "created":
        on, words = _spoken(record, _text(comment, "body"))
        on_pull = bool(issue.get("pull_request")) or body.get("is_pull") is True
        association = _text(comment, "author_association")
        actor = _text(comment, "user", "login")
        if not on:
            return "the comment is not for Corral"
        return ForgeCall(on=on, actor=actor, association=association, words=words, on_pull=on_pull, **about)
    if event.startswith("issue") and action in ("labeled", "label_updated"):
        labels = (
            [_text(_row(body.get("label")), "name")] if action == "labeled" else _names(issue.get("labels"), "name")
        )
        on = next((each for each in record.on if each in {f"label:{label}" for label in labels}), "")
        if not on or issue.get("pull_request"):
            return "the label is another one" if not on else "a label of a pull request starts nothing"
        return ForgeCall(on=on, actor=_text(body, "sender", "login"), **about)
    return f"nothing follows from `{event[:40]} {action[:40]}`".rstrip()


def _gitlab_call(record: TriggerRecord, body: Row) -> ForgeCall | str:
    kind, about, actor = (
        _text(body, "object_kind"),
        _row(body.get("object_attributes")),
        _text(body, "user", "username"),
    )
    project = _text(body, "project", "path_with_namespace")
    if kind == "note" and _text(about, "action") in ("", "create") and about.get("system") is not True:
        on, words = _spoken(record, _text(about, "note"))
        on_pull = _text(about, "noteable_type") == "MergeRequest"
        issue = _row(body.get("merge_request" if on_pull else "issue"))
        if not on:
            return "the comment is not for Corral"
        return ForgeCall(
            on=on, repository=project, number=_text(issue, "iid"), actor=actor, words=words, on_pull=on_pull,
            url=_text(issue, "url") or _text(about, "url").partition("#")[0],
        )  # fmt: skip
    if kind == "issue":
        labels = _row(_row(body.get("changes")).get("labels"))
        fresh = set(_names(labels.get("current"), "title")) - set(_names(labels.get("previous"), "title"))
        on = next((each for each in record.on if each in {f"label:{label}" for label in fresh}), "")
        if not on:
            return "the label is another one"
        return ForgeCall(
            on=on, repository=project, number=_text(about, "iid"), url=_text(about, "url"), actor=actor
        )  # fmt: skip
    return f"nothing follows from `{kind[:40]}`"


def _spoken(record: TriggerRecord, text: str) -> tuple[str, str]:
    """Return which word of the trigger a comment begins with, and what it says behind it."""
    text = text.strip()[:MOST_WORDS]
    for on in record.on:
        kind, _, word = on.partition(":")
        rest = text[len(word) :]
        if kind == "comment" and text.startswith(word) and (not rest or rest[0].isspace()):
            return on, rest.strip()
    return "", ""


def _row(value: object) -> Row:
    return cast("Row", value) if isinstance(value, dict) else {}


def _names(value: object, key: str) -> list[str]:
    return [_text(_row(each), key) for each in cast("list[object]", value)] if isinstance(value, list) else []


def _text(of: Row, *path: str) -> str:
    for key in path[:-1]:
        of = _row(of.get(key))
    found = of.get(path[-1])
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
