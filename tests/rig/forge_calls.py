"""Webhooks as forges send them, signed as each documents it."""

import hashlib
import hmac
import itertools
import json
from typing import Any

from tests.rig.forge import NAME, Forge
from tests.rig.server import Answer, Server

SECRET = "canary-webhook-secret-0123456789"
deliveries = itertools.count(1)


def label_call(forge: Forge, number: int, by: str, label: str = "corral") -> tuple[str, dict[str, Any]]:
    """Set a label, and return what the forge sends of it."""
    forge.issues[number]["label_events"].append((by, label))
    named = forge.issues[number]["labels"]
    named[:] = [*(each for each in named if each != label), label]  # one that is there is removed first
    if forge.kind == "gitlab":
        titles = [{"title": each} for each in named]
        changes = {"labels": {"previous": titles[:-1], "current": titles}}
        about = {"iid": number, "url": forge.address(number), "action": "update", "updated_at": next(deliveries)}
        return "Issue Hook", {
            "object_kind": "issue", "user": {"username": by}, "project": {"path_with_namespace": NAME},
            "object_attributes": about, "changes": changes,
        }  # fmt: skip
    issue = {"number": number, "html_url": forge.address(number), "labels": [{"name": each} for each in named]}
    issue["updated_at"] = next(deliveries)
    body: dict[str, Any] = {"issue": issue, "repository": {"full_name": NAME}, "sender": {"login": by}}
    body |= {"action": "labeled", "label": {"name": label}} if forge.kind == "github" else {"action": "label_updated"}
    return "issues", body


def comment_call(forge: Forge, number: int, by: str, text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Comment on an issue or a pull request, and return what the forge sends of it."""
    on_pull = number in forge.pulls
    (forge.pulls.get(number) or forge.issues[number])["comments"].append((by, text))
    if forge.kind == "gitlab":
        kind = "merge_request" if on_pull else "issue"
        about = {
            "note": text, "noteable_type": "MergeRequest" if on_pull else "Issue", "action": "create", "system": False,
            "id": next(deliveries),
        }  # fmt: skip
        return "Note Hook", {
            "object_kind": "note", "user": {"username": by}, "project": {"path_with_namespace": NAME},
            "object_attributes": about, kind: {"iid": number, "url": forge.address(number)}, **more,
        }  # fmt: skip
    issue: dict[str, Any] = {"number": number, "html_url": forge.address(number)}
    if on_pull:
        issue["pull_request"] = {"html_url": forge.address(number)}
    comment = {"id": next(deliveries), "body": text, "user": {"login": by}, "author_association": "NONE", **more}
    return "issue_comment", {
        "action": "created", "issue": issue, "comment": comment, "repository": {"full_name": NAME},
        "sender": {"login": by}, "is_pull": on_pull,
    }  # fmt: skip


def send(
    server: Server, forge: Forge, call: tuple[str, dict[str, Any]], secret: str = SECRET, kind: str = ""
) -> Answer:
    """Send a webhook to the trigger `hub`, signed as the forge signs it."""
    event, payload = call
    body, kind = json.dumps(payload).encode(), kind or forge.kind
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    name = str(next(deliveries))
    headers = {
        "github": {
            "X-GitHub-Event": event, "X-GitHub-Delivery": name, "X-Hub-Signature-256": f"sha256={digest}",
        },
        "forgejo": {
            "X-Forgejo-Event": event, "X-Forgejo-Delivery": name, "X-Forgejo-Signature": digest,
            "X-Gitea-Event": event, "X-Gitea-Signature": digest, "X-Hub-Signature-256": f"sha256={digest}",
        },
        "gitlab": {"X-Gitlab-Event": event, "X-Gitlab-Event-UUID": name, "X-Gitlab-Token": secret},
    }[kind]  # fmt: skip
    return server.ask("POST", "triggers/hub", body, token=None, headers=headers)
