"""Issues as tasks: read from their forge, and marked as text of others."""

from __future__ import annotations

import os

from msgspec import Struct, structs

from corral.model import Request
from corral.model.flow import Flow
from corral.model.forge import ForgeSettings, IssueReference
from corral.rules.context import untrusted
from corral.world.forge.finding import IssueAddress, issue_address, read_issue
from corral.world.forge.forge import ForgeIssue
from corral.world.forge.remotes import ForgePlace, place_of, push_remote
from corral.world.git.repository import Repository

MOST_NAME = 100


class IssueTask(Struct, frozen=True, kw_only=True):
    """An issue that was read, as a task."""

    request: Request
    reference: IssueReference
    text: str  #: for the prompt
    notes: tuple[str, ...] = ()

    def put_into(self, flow: Flow) -> Flow:
        """Return a flow whose agents read the issue after their task."""
        nodes = tuple(
            structs.replace(node, task=structs.replace(node.task, untrusted=self.text)) if node.kind == "task" else node
            for node in flow.nodes
        )
        return structs.replace(flow, nodes=nodes)


async def read_task(request: Request, settings: ForgeSettings, repository: Repository | None) -> IssueTask | None:
    """Return the issue that a request names; None where it names none."""
    if request.issue is None:
        return None
    here = await _place(repository, settings)
    address = issue_address(request.issue, settings, here)
    issue = await read_issue(address, settings)
    title = " ".join(issue.title.split())
    where = f"{address.place.path}#{issue.number}" if address.place else issue.number
    prompt = request.prompt.strip() or f"Resolve the issue {where}; its text, which others wrote, is below."
    name = request.name or "".join(each for each in f"{where} {title}" if each.isprintable())[:MOST_NAME].strip()
    remarks = [(each.author, each.text) for each in issue.remarks]
    parts = untrusted.issue_parts(title, issue.author, issue.body, remarks)
    return IssueTask(
        request=structs.replace(request, prompt=prompt, name=name),
        reference=IssueReference(
            url=issue.url or request.issue, number=issue.number, title=title[:200], closes=_closes(address, issue, here)
        ),
        text=untrusted.enclose(request.issue, parts, os.urandom(8).hex()),
        notes=(f"the issue {where} is closed",) if issue.state == "closed" else (),
    )


async def _place(repository: Repository | None, settings: ForgeSettings) -> ForgePlace | None:
    if repository is None or not (await repository.text("remote", fine=(0, 128))).split():
        return None
    return place_of((await push_remote(repository))[1], settings)


def _closes(address: IssueAddress, issue: ForgeIssue, here: ForgePlace | None) -> str:
    """Return what a pull request in this repository says to close an issue; nothing where no forge understands it."""
    if address.place is None:
        return f"Fixes {issue.number}"
    if here is None or here.host != address.place.host:
        return ""
    same = here.path == address.place.path
    return f"Closes #{issue.number}" if same else f"Closes {address.place.path}#{issue.number}"
