"""GitLab by its REST API; without a token, merge requests are opened by options of the push."""

from __future__ import annotations

from urllib.parse import quote

from corral.model.forge import FailedCheck, PullLook, PullState, Remark
from corral.world.forge import answers
from corral.world.forge.answers import Row, count, text
from corral.world.forge.client import ForgeClient
from corral.world.forge.forge import (
    PAGE,
    ForgeIssue,
    LabelEvents,
    LabelledIssues,
    OpenedPull,
    PullSource,
    PullText,
    check_state,
    pages,
)

STATES: dict[str, str] = {"success": "success", "skipped": "success", "manual": "success", "failed": "failure"}
RED = frozenset({"failed", "canceled"})
DEVELOPER = 30  #: the access level that may push


class GitLab:
    """A project on GitLab."""

    def __init__(self, client: ForgeClient) -> None:
        self.client, self.place = client, client.place
        self._project = "/projects/" + quote(client.place.path, safe="")

    async def open(self, wanted: PullText) -> OpenedPull:
        """Open a merge request, or bring the one of this branch up to date."""
        title = f"Draft: {wanted.title}" if wanted.draft else wanted.title
        path = f"{self._project}/merge_requests?state=opened&source_branch={quote(wanted.branch, safe='')}"
        listed = await pages(self.client, path, f"merge requests of {self.place.path}", newest_first=True)
        ids = {name: await self._id(name) for name in (wanted.source, self.place.path) if wanted.source}
        if ids:
            listed = [each for each in listed if text(each, "source_project_id") == ids[wanted.source]]
        if listed:
            again = f"{self._project}/merge_requests/{text(listed[0], 'iid')}"
            return _opened_pull(answers.row((await self.client.call("PUT", again, {"description": wanted.body})).data))
        asked = {
            "title": title,
            "description": wanted.body,
            "source_branch": wanted.branch,
            "target_branch": wanted.into,
        }
        what = f"merge request of {self.place.path}"
        source = self._project
        if ids:
            asked["target_project_id"] = ids[self.place.path]
            source = f"/projects/{ids[wanted.source]}"
        made = await self.client.call("POST", f"{source}/merge_requests", asked, what=what)
        return _opened_pull(answers.row(made.data))

    async def _id(self, repository: str) -> str:
        found = await self.client.get(f"/projects/{quote(repository, safe='')}", what=repository)
        return text(answers.row(found.data), "id")

    async def source(self, number: int) -> PullSource:
        about = f"{self.place.path}!{number}"
        row = answers.row((await self.client.get(f"{self._project}/merge_requests/{number}", what=about)).data)
        theirs, ours = text(row, "source_project_id"), text(row, "target_project_id")
        repository = self.place.path if theirs and theirs == ours else ""
        if theirs and theirs != ours:
            found = await self.client.call("GET", f"/projects/{quote(theirs)}", what=about, fine=(403, 404))
            repository = text(answers.row(found.data), "path_with_namespace") if found.status == 200 else ""
        return PullSource(branch=text(row, "source_branch"), repository=repository)

    async def look(self, number: int) -> PullLook:
        about = f"{self.place.path}!{number}"
        row = answers.row((await self.client.get(f"{self._project}/merge_requests/{number}", what=about)).data)
        states, failed = await self._checks(row)
        return PullLook(
            state=_state(row),
            commit=text(row, "sha"),
            checks=check_state(states),
            failed=tuple(failed),
            remarks=(*await self._approvals(number), *await self._notes(f"merge_requests/{number}", about)),
        )

    async def _checks(self, row: Row) -> tuple[list[str], list[FailedCheck]]:
        pipeline = answers.row(row.get("head_pipeline") or row.get("pipeline"))
        if not pipeline:
            return [], []
        state = text(pipeline, "status")
        word = "failure" if state in RED else STATES.get(state, "pending")
        if word != "failure":
            return [word], []
        jobs = await pages(
            self.client, f"{self._project}/pipelines/{text(pipeline, 'id')}/jobs", "jobs of the pipeline"
        )
        failed = [
            FailedCheck(name=text(job, "name"), words=text(job, "failure_reason"), url=text(job, "web_url"))
            for job in jobs
            if text(job, "status") in RED and not job.get("allow_failure")
        ]
        return [word], failed or [FailedCheck(name="pipeline", url=text(pipeline, "web_url"))]

    async def _approvals(self, number: int) -> list[Remark]:
        path = f"{self._project}/merge_requests/{number}/approvals"
        found = await self.client.call("GET", path, what="approvals", fine=(403, 404))  # not every edition has them
        listed = answers.rows(answers.row(found.data).get("approved_by")) if found.status == 200 else []
        names = [text(each, "user", "username") for each in listed]
        return [Remark(id=f"approval {name}", author=name, text="", verdict="approved") for name in names]

    async def _notes(self, of: str, about: str) -> list[Remark]:
        listed = await pages(self.client, f"{self._project}/{of}/notes?sort=asc&order_by=created_at", about)
        return [_remark(each) for each in listed if not each.get("system")]

    async def say(self, number: int, text: str) -> None:
        what = f"comment on {self.place.path}!{number}"
        await self.client.call("POST", f"{self._project}/merge_requests/{number}/notes", {"body": text}, what=what)

    async def say_in_issue(self, number: str, text: str) -> None:
        what = f"comment on {self.place.path}#{number}"
        await self.client.call("POST", f"{self._project}/issues/{number}/notes", {"body": text}, what=what)

    async def issue(self, number: str) -> ForgeIssue:
        about = f"{self.place.path}#{number}"
        row = answers.row((await self.client.get(f"{self._project}/issues/{quote(number)}", what=about)).data)
        return ForgeIssue(
            number=number,
            url=text(row, "web_url") or f"{self.place.page}/-/issues/{number}",
            title=text(row, "title"),
            body=text(row, "description"),
            author=text(row, "author", "username"),
            state="open" if text(row, "state") == "opened" else "closed",
            remarks=tuple(await self._notes(f"issues/{number}", about)) if self.client.token else (),
        )

    async def labelled_issues(self, label: str, etag: str) -> LabelledIssues:
        path = f"{self._project}/issues?state=opened&labels={quote(label, safe='')}"
        found = await self.client.get(f"{path}&per_page={PAGE}", etag=etag, what=f"issues of {self.place.path}")
        if found.status == 304:
            return LabelledIssues(etag=etag, unchanged=True)
        many = "next" in found.pages
        about = f"issues of {self.place.path}"
        listed = await pages(self.client, path, about, newest_first=True) if many else answers.rows(found.data)
        return LabelledIssues(
            etag="" if many else found.etag,
            numbers=tuple((text(each, "iid"), text(each, "web_url")) for each in listed),
        )

    async def labelled_by(self, number: str, label: str) -> LabelEvents:
        path = f"{self._project}/issues/{number}/resource_label_events"
        who = [
            text(each, "user", "username")
            for each in await pages(self.client, path, f"{self.place.path}#{number}")
            if text(each, "action") == "add" and text(each, "label", "name") == label
        ]
        return LabelEvents(who[-1] if who else "", len(who))

    async def may_write(self, user: str) -> bool:
        path = f"{self._project}/members/all?query={quote(user, safe='')}"
        listed = await pages(self.client, path, f"members of {self.place.path}")
        return any(count(each, "access_level") >= DEVELOPER for each in listed if text(each, "username") == user)


def push_options(wanted: PullText, repository: str) -> list[str]:
    """Return the options by which a push opens a merge request; each is one line."""
    body = " ".join(wanted.body.split())
    return [
        "merge_request.create",
        f"merge_request.target={wanted.into}",
        f"merge_request.title={' '.join(wanted.title.split())}",
        f"merge_request.description={body[:2000]}",
        *([f"merge_request.target_project={repository}"] if wanted.source else []),
        *(["merge_request.draft"] if wanted.draft else []),
    ]


def _opened_pull(row: Row) -> OpenedPull:
    return OpenedPull(number=count(row, "iid"), url=text(row, "web_url"), state=_state(row))


def _state(row: Row) -> PullState:
    state = text(row, "state")
    if state in ("merged", "closed"):
        return "merged" if state == "merged" else "closed"
    return "draft" if row.get("draft") or text(row, "title").startswith("Draft:") else "open"


def _remark(row: Row) -> Remark:
    place = answers.row(row.get("position"))
    lines = answers.row(place.get("line_range"))
    last = count(place, "new_line", "old_line")
    first = count(answers.row(lines.get("start")), "new_line", "old_line")
    return Remark(
        id=f"note {text(row, 'id')}",
        author=text(row, "author", "username"),
        text=text(row, "body"),
        file=text(place, "new_path"),
        line=first or last or None,
        last_line=last or None,
        old=bool(last) and not count(place, "new_line"),
    )
