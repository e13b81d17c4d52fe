"""GitHub by its REST API, and Forgejo and Gitea, whose API is much like it."""

from __future__ import annotations

from urllib.parse import quote

from corral.model.forge import FailedCheck, PullLook, PullState, Remark
from corral.world.forge import answers
from corral.world.forge.answers import Row, count, text
from corral.world.forge.client import ForgeClient, ForgeRefusal
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

VERDICTS = {"APPROVED": "approved", "CHANGES_REQUESTED": "changes", "REQUEST_CHANGES": "changes"}
RED = frozenset({"failure", "error", "timed_out", "cancelled", "action_required", "startup_failure", "warning"})
WRITERS = frozenset({"admin", "write", "maintain", "owner"})
MOST_WORDS = 4000


class GitHub:
    """A repository on GitHub."""

    def __init__(self, client: ForgeClient) -> None:
        self.client, self.place = client, client.place
        self._repository = "/repos/" + quote(client.place.path)

    # --- pull requests

    async def open(self, wanted: PullText) -> OpenedPull:
        """Open a pull request, or bring the one of this branch up to date."""
        if existing := await self._find(wanted):
            path = f"{self._repository}/pulls/{count(existing, 'number')}"
            answer = await self.client.call("PATCH", path, {"body": wanted.body})
            return _opened_pull(answers.row(answer.data) or existing)
        body: dict[str, object] = {
            "title": self._title(wanted), "head": _head(wanted), "base": wanted.into, "body": wanted.body,
        }  # fmt: skip
        what = f"pull request of {self.place.path}"
        try:
            made = await self._create({**body, "draft": True} if wanted.draft else body, what)
        except ForgeRefusal as refused:
            if refused.status != 422 or "raft" not in str(refused):
                raise
            made = await self._create(body, what)  # not every plan has drafts
        return _opened_pull(made)

    async def _create(self, body: dict[str, object], what: str) -> Row:
        return answers.row((await self.client.call("POST", f"{self._repository}/pulls", body, what=what)).data)

    def _title(self, wanted: PullText) -> str:
        return wanted.title

    async def _find(self, wanted: PullText) -> Row | None:
        source = wanted.source or self.place.path
        path = f"{self._repository}/pulls?state=open&head={quote(f'{_owner(source)}:{wanted.branch}', safe='')}"
        for each in await pages(self.client, path, f"pull requests of {self.place.path}", newest_first=True):
            theirs = text(answers.row(each.get("head")), "repo", "full_name")
            if text(each, "head", "ref") == wanted.branch and theirs.casefold() in ("", source.casefold()):
                return each
        return None

    async def source(self, number: int) -> PullSource:
        found = await self.client.get(f"{self._repository}/pulls/{number}", what=f"{self.place.path}#{number}")
        row = answers.row(found.data)
        repository = text(answers.row(row.get("head")), "repo", "full_name")
        return PullSource(branch=text(row, "head", "ref"), repository=repository)

    async def look(self, number: int) -> PullLook:
        """Return how a pull request is doing: its state, its CI and what reviewers said."""
        found = await self.client.get(f"{self._repository}/pulls/{number}", what=f"{self.place.path}#{number}")
        commit = text(answers.row(found.data), "head", "sha")
        states, failed = await self._checks(commit)
        return PullLook(
            state=_state(answers.row(found.data)),
            commit=commit,
            checks=check_state(states),
            failed=tuple(failed),
            remarks=tuple(await self._remarks(number)),
        )

    async def _checks(self, commit: str) -> tuple[list[str], list[FailedCheck]]:
        states, failed = await self._statuses(commit)
        path = f"{self._repository}/commits/{commit}/check-runs"
        for each in await pages(self.client, path, "check runs", "check_runs"):
            word = text(each, "conclusion") if text(each, "status") == "completed" else "pending"
            states.append(_word(word))
            if _word(word) == "failure":
                words = "\n".join(filter(None, (text(each, "output", "title"), text(each, "output", "summary"))))
                failed.append(_failed_check(text(each, "name"), words, text(each, "html_url")))
        return states, failed

    async def _statuses(self, commit: str) -> tuple[list[str], list[FailedCheck]]:
        path = f"{self._repository}/commits/{commit}/status"
        states: list[str] = []
        failed: list[FailedCheck] = []
        for each in await pages(self.client, path, "commit status", "statuses"):
            word = _word(text(each, "state") or text(each, "status"))
            states.append(word)
            if word == "failure":
                failed.append(_failed_check(text(each, "context"), text(each, "description"), text(each, "target_url")))
        return states, failed

    async def _remarks(self, number: int) -> list[Remark]:
        about = f"{self.place.path}#{number}"
        reviews = await pages(self.client, f"{self._repository}/pulls/{number}/reviews", about)
        found = [
            Remark(
                id=f"review {text(each, 'id')}",
                author=text(each, "user", "login"),
                text=text(each, "body"),
                verdict=VERDICTS.get(text(each, "state"), ""),
            )
            for each in reviews
        ]
        return [*found, *await self._line_remarks(number, reviews), *await self._comments(str(number))]

    async def _line_remarks(self, number: int, reviews: list[Row]) -> list[Remark]:
        del reviews  # here they come all at once
        listed = await pages(self.client, f"{self._repository}/pulls/{number}/comments", f"{self.place.path}#{number}")
        return [_line_remark(each) for each in listed]

    async def _comments(self, number: str) -> list[Remark]:
        listed = await pages(self.client, f"{self._repository}/issues/{number}/comments", f"{self.place.path}#{number}")
        return [
            Remark(id=f"comment {text(each, 'id')}", author=text(each, "user", "login"), text=text(each, "body"))
            for each in listed
        ]

    async def say(self, number: int, text: str) -> None:
        await self.say_in_issue(str(number), text)

    async def say_in_issue(self, number: str, text: str) -> None:
        what = f"comment on {self.place.path}#{number}"
        await self.client.call("POST", f"{self._repository}/issues/{number}/comments", {"body": text}, what=what)

    # --- issues

    async def issue(self, number: str) -> ForgeIssue:
        found = await self.client.get(f"{self._repository}/issues/{quote(number)}", what=f"{self.place.path}#{number}")
        row = answers.row(found.data)
        return ForgeIssue(
            number=number,
            url=text(row, "html_url") or f"{self.place.page}/issues/{number}",
            title=text(row, "title"),
            body=text(row, "body"),
            author=text(row, "user", "login"),
            state=text(row, "state") or "open",
            remarks=tuple(await self._comments(number)),
        )

    async def labelled_issues(self, label: str, etag: str) -> LabelledIssues:
        path = f"{self._repository}/issues?state=open&labels={quote(label, safe='')}{self._only_issues}"
        found = await self.client.get(f"{path}&{self._first_page}", etag=etag, what=f"issues of {self.place.path}")
        if found.status == 304:
            return LabelledIssues(etag=etag, unchanged=True)
        many = "next" in found.pages
        about = f"issues of {self.place.path}"
        rows = await pages(self.client, path, about, newest_first=True) if many else answers.rows(found.data)
        listed = [each for each in rows if not each.get("pull_request")]
        return LabelledIssues(
            etag="" if many else found.etag,  # it is that of one page
            numbers=tuple((text(each, "number"), text(each, "html_url")) for each in listed),
        )

    _only_issues, _first_page = "", f"per_page={PAGE}"

    async def labelled_by(self, number: str, label: str) -> LabelEvents:
        """Return who set a label last, and how often it was set."""
        listed = await pages(self.client, f"{self._repository}/issues/{number}/events", f"{self.place.path}#{number}")
        who = [
            text(each, "actor", "login")
            for each in listed
            if text(each, "event") == "labeled" and text(each, "label", "name") == label
        ]
        return LabelEvents(who[-1] if who else "", len(who))

    async def may_write(self, user: str) -> bool:
        """Tell whether a user may push to the repository."""
        path = f"{self._repository}/collaborators/{quote(user, safe='')}/permission"
        try:
            found = await self.client.call("GET", path, what=f"permission of {user}", fine=(404,))
        except ForgeRefusal as refused:
            if refused.status == 403 and not refused.wait_seconds:
                return False  # only those who may push can ask: of a repository that was forked, nobody is known
            raise
        return found.status != 404 and text(answers.row(found.data), "permission") in WRITERS


class Forgejo(GitHub):
    """A repository on Forgejo or Gitea."""

    _only_issues, _first_page = "&type=issues", "limit=50"

    def _title(self, wanted: PullText) -> str:
        return f"WIP: {wanted.title}" if wanted.draft else wanted.title  # that is what a draft is there

    async def _create(self, body: dict[str, object], what: str) -> Row:
        body.pop("draft", None)
        return await super()._create(body, what)

    async def _checks(self, commit: str) -> tuple[list[str], list[FailedCheck]]:
        return await self._statuses(commit)

    async def _line_remarks(self, number: int, reviews: list[Row]) -> list[Remark]:
        found: list[Remark] = []
        for review in reviews:
            path = f"{self._repository}/pulls/{number}/reviews/{text(review, 'id')}/comments"
            answer = await self.client.get(path, what=f"{self.place.path}#{number}")
            found += [_line_remark(each) for each in answers.rows(answer.data)]
        return found

    async def labelled_by(self, number: str, label: str) -> LabelEvents:
        path = f"{self._repository}/issues/{number}/timeline"
        who = [
            text(each, "user", "login")
            for each in await pages(self.client, path, f"{self.place.path}#{number}")
            if text(each, "type") == "label" and text(each, "label", "name") == label and text(each, "body") == "1"
        ]
        return LabelEvents(who[-1] if who else "", len(who))


def _owner(repository: str) -> str:
    return repository.partition("/")[0]


def _head(wanted: PullText) -> str:
    return f"{_owner(wanted.source)}:{wanted.branch}" if wanted.source else wanted.branch


def _opened_pull(row: Row) -> OpenedPull:
    return OpenedPull(number=count(row, "number"), url=text(row, "html_url"), state=_state(row))


def _state(row: Row) -> PullState:
    if row.get("merged") or row.get("merged_at"):
        return "merged"
    if row.get("state") == "closed":
        return "closed"
    return "draft" if row.get("draft") else "open"


def _word(word: str) -> str:
    return "failure" if word in RED else "pending" if word == "pending" or not word else "success"


def _failed_check(name: str, words: str, url: str) -> FailedCheck:
    return FailedCheck(name=name or "check", words=words[:MOST_WORDS], url=url)


def _line_remark(row: Row) -> Remark:
    """Read a comment on lines; Forgejo calls the line `position`, or `original_position` if it is one of the base."""
    now = count(row, "line", "position")
    last = now or count(row, "original_line", "original_position")
    first = count(row, "start_line") if now else count(row, "original_start_line")
    return Remark(
        id=f"line {text(row, 'id')}",
        author=text(row, "user", "login"),
        text=text(row, "body"),
        file=text(row, "path"),
        line=first or last or None,
        last_line=last or None,
        old=text(row, "side") == "LEFT" or ("side" not in row and not now and count(row, "original_position") > 0),
        outdated="original_line" in row and not now,
    )
