"""Forges that are small: real HTTP servers with the documented paths of GitHub, Forgejo, GitLab and Linear, and git."""

import base64
import http.server
import itertools
import json
import os
import re
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

from tests.rig.receiver import LoopbackServer
from tests.rig.repository import GIT_ENV, Repo, git

TOKEN = "canary-forge-token-0123456789"
NAME = "acme/shop"
PREFIX = {"github": "/api/v3", "forgejo": "/api/v1", "gitlab": "/api/v4", "other": "/none", "linear": "/graphql"}
HOOK = """#!/bin/sh
for number in $(seq 0 $((${GIT_PUSH_OPTION_COUNT:-0} - 1))); do
  eval "echo \\"\\$GIT_PUSH_OPTION_$number\\"" >> push-options
done
if grep -q merge_request.create push-options 2>/dev/null; then
  echo "View merge request for it:" >&2; echo "  URL/acme/shop/-/merge_requests/1" >&2
fi
"""


class Forge(LoopbackServer, http.server.ThreadingHTTPServer):
    """One repository on a forge of some kind."""

    request_queue_size = 50

    def __init__(self, root: Path, kind: str = "github") -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.kind, self.root = kind, root
        self.numbers = itertools.count(1)
        self.issues: dict[int, dict[str, Any]] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.checks: dict[str, list[tuple[str, str, str]]] = {}  #: commit -> name, state, words
        self.reviews: list[dict[str, Any]] = []
        self.line_comments: list[dict[str, Any]] = []
        self.users = {"ada": "write", "stranger": "read", "corral-bot": "write"}
        self.forks: dict[str, Repo] = {}  #: name -> repository
        self.takes_no_push = False  #: the repository itself; forks do
        self.private, self.refuses, self.limited, self.no_drafts = False, False, False, False
        self.locked: set[int] = set()  #: issues and pull requests that take no comment
        self.asked: list[tuple[str, str]] = []
        self.credentials: list[str] = []  #: that came with any request
        (root / NAME).parent.mkdir(parents=True)
        self.bare = Repo.make(root / f"{NAME}.git", {}, bare=True)
        for key in ("http.receivepack", "receive.advertisePushOptions"):
            self.bare.git("config", key, "true")
        hook = self.bare.folder / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(HOOK.replace("URL", self.url))
        hook.chmod(0o755)
        self.start()

    def fork(self, name: str = "me/shop") -> str:
        """Make a fork of the repository; return its address."""
        (self.root / name).parent.mkdir(parents=True)
        self.forks[name] = Repo.make(self.root / f"{name}.git", {}, bare=True)
        self.forks[name].git("config", "http.receivepack", "true")
        return f"{self.url}/{name}.git"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def remote(self) -> str:
        return f"{self.url}/{NAME}.git"

    def clone_of(self, repo: Repo) -> None:
        """Make a repository one that was cloned from here."""
        repo.git("remote", "add", "origin", self.remote)
        git(repo.folder, "push", "--quiet", str(self.bare.folder), "main")

    def issue(self, title: str, body: str, author: str = "ada", labels: tuple[str, ...] = (), by: str = "ada") -> int:
        number = next(self.numbers)
        self.issues[number] = {
            "number": number, "title": title, "body": body, "author": author, "comments": [], "state": "open",
            "labels": list(labels), "label_events": [(by, label) for label in labels],
        }  # fmt: skip
        return number

    def address(self, number: int) -> str:
        middle = "/-/issues" if self.kind == "gitlab" else "/issues"
        return f"{self.url}/{NAME}{middle}/{number}"

    def head(self, branch: str, repository: str = NAME) -> str:
        return git(self.forks.get(repository, self.bare).folder, "rev-parse", f"refs/heads/{branch}")

    def merge(self, number: int) -> None:
        pull = self.pulls[number]
        pull["merged"], pull["state"] = True, "closed"
        git(self.bare.folder, "update-ref", f"refs/heads/{pull['base']}", self.head(pull["head"]))

    def remarks(self, number: int) -> list[str]:
        """Return what was said on a pull request or an issue, by anybody."""
        return [text for _, text in (self.pulls.get(number) or self.issues[number])["comments"]]


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass

    @property
    def forge(self) -> Forge:
        assert isinstance(self.server, Forge)
        return self.server

    # --- what is asked

    def _answer(self, method: str) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        self.forge.asked.append((method, self.path))
        self.forge.credentials.append(self.headers.get("Authorization", ""))
        if path.startswith(tuple(f"/{name}.git/" for name in (NAME, *self.forge.forks))):
            self._git(method, path, query, sent)
            return
        prefix = PREFIX[self.forge.kind]
        if not path.startswith(prefix):
            self._send(404, {"message": "Not Found"})
            return
        body = json.loads(sent) if sent else {}
        given = self.headers.get("Authorization", "").rpartition(" ")[2]
        if given and given != TOKEN:
            self._send(401, {"message": "Bad credentials"})
        elif self.forge.limited:
            self._send(
                403, {"message": "API rate limit exceeded"}, {"X-RateLimit-Remaining": "0", "Retry-After": "120"}
            )
        elif self.forge.refuses:
            self._send(403, {"message": "Resource not accessible by this token"})
        elif (self.forge.private or method != "GET") and not given:
            self._send(404, {"message": "Not Found"})
        else:
            asked = urllib.parse.parse_qs(query)
            dialect = {"gitlab": GitLabPaths, "linear": LinearPaths}.get(self.forge.kind, GitHubPaths)
            status, data = dialect(self.forge).answer(method, path.removeprefix(prefix), asked, body)
            if method == "GET" and status == 200:
                data, links = self._page(data, path, asked)
                self._send(status, data, links)
            else:
                self._send(status, data)

    def _page(self, data: Any, path: str, asked: dict[str, list[str]]) -> tuple[Any, dict[str, str]]:
        """Return one page of a listing with its `Link`, as forges do; Forgejo never gives more than 50."""
        key = next((key for key in ("check_runs", "statuses") if isinstance(data, dict) and key in data), "")
        rows = data[key] if key else data
        if not isinstance(rows, list):
            return data, {}
        named = asked.get("limit" if self.forge.kind == "forgejo" else "per_page", ["30"])[0]
        size, page = min(int(named), 50 if self.forge.kind == "forgejo" else 100), int(asked.get("page", ["1"])[0])
        last = max(1, -(-len(rows) // size))
        words = {name: [value] for name, value in asked.items() if name != "page"}
        relations = {"next": page + 1, "last": last} if page < last else {}
        links = [
            f'<{self.forge.url}{path}?{urllib.parse.urlencode({**words, "page": [number]}, doseq=True)}>; rel="{relation}"'
            for relation, number in relations.items()
        ]
        shown = rows[(page - 1) * size : page * size]
        return ({**data, key: shown} if key else shown), ({"Link": ", ".join(links)} if links else {})

    def _send(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
        text = b"" if data is None else json.dumps(data).encode()
        tag = f'"{hash(text) & 0xFFFFFFFF:x}"'
        if status == 200 and self.headers.get("If-None-Match") == tag:
            status, text = 304, b""
        self.send_response(status)
        for name, value in {"ETag": tag, "Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    # --- git over HTTP, by git's own program

    def _git(self, method: str, path: str, query: str, sent: bytes) -> None:
        basic = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ") or b"").decode()
        allowed = basic.endswith(f":{TOKEN}") and not (self.forge.takes_no_push and path.startswith(f"/{NAME}.git/"))
        if ("receive-pack" in path or "receive-pack" in query) and not allowed:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        env = {
            **GIT_ENV, "GIT_PROJECT_ROOT": str(self.forge.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "REQUEST_METHOD": method, "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(sent)), "REMOTE_USER": "bot", "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }  # fmt: skip
        program = Path(git(self.forge.root, "--exec-path"), "git-http-backend")
        done = subprocess.run([os.fspath(program)], input=sent, env=env, capture_output=True, check=False, timeout=60)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        self.send_response(status)
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


Reply = tuple[int, Any]


class GitHubPaths:
    """The documented paths of GitHub; those of Forgejo that differ are here too."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Reply:
        if path == "/user":
            return 200, {"login": "corral-bot"}
        found = re.fullmatch(rf"/repos/{NAME}(/.*)", path)
        if not found:
            return 404, {"message": "Not Found"}
        parts = found[1].strip("/").split("/")
        match (method, *parts):
            case ("GET", "pulls"):
                wanted = query.get("head", [":"])[0].partition(":")[2]
                rows = [self.pull(each) for each in self.forge.pulls.values() if each["state"] == "open"]
                return 200, [row for row in rows if not wanted or row["head"]["ref"] == wanted]
            case ("POST", "pulls"):
                return self.open(body)
            case ("GET", "pulls", number):
                return 200, self.pull(self.forge.pulls[int(number)])
            case ("PATCH", "pulls", number):
                self.forge.pulls[int(number)].update(body)
                return 200, self.pull(self.forge.pulls[int(number)])
            case ("GET", "pulls", _, "reviews"):
                return 200, self.forge.reviews
            case ("GET", "pulls", _, "comments") if self.forge.kind == "github":
                return 200, self.forge.line_comments
            case ("GET", "pulls", _, "reviews", review, "comments"):
                rows = [each for each in self.forge.line_comments if str(each["review"]) == review]
                return 200, [{**each, "position": each["line"], "line": None} for each in rows]  # its name there
            case ("GET", "commits", commit, "check-runs") if self.forge.kind == "github":
                return 200, {"check_runs": [self.check_run(each) for each in self.forge.checks.get(commit, [])]}
            case ("GET", "commits", commit, "status"):
                rows = self.forge.checks.get(commit, []) if self.forge.kind == "forgejo" else []
                return 200, {"statuses": [{"context": n, "status": s, "description": w} for n, s, w in rows]}
            case ("GET", "issues"):
                label = query["labels"][0]
                return 200, [self.issue(each) for each in self.forge.issues.values() if label in each["labels"]]
            case ("GET", "issues", number):
                known = self.forge.issues.get(int(number))
                return (200, self.issue(known)) if known else (404, {"message": "Not Found"})
            case ("GET", "issues", number, "comments"):
                return 200, self.comments(int(number))
            case ("POST", "issues", number, "comments") if int(number) in self.forge.locked:
                return 403, {"message": "Unable to create comment because issue is locked."}
            case ("POST", "issues", number, "comments"):
                about = self.forge.pulls.get(int(number)) or self.forge.issues[int(number)]
                about["comments"].append(("corral-bot", body["body"]))
                return 201, {"id": 1}
            case ("GET", "issues", number, "events" | "timeline"):
                return 200, [self.event(*each) for each in self.forge.issues[int(number)]["label_events"]]
            case ("GET", "collaborators", _, "permission") if self.forge.takes_no_push:
                return 403, {"message": "Must have push access to view collaborator permission."}
            case ("GET", "collaborators", user, "permission"):
                known = self.forge.users.get(user)
                return (200, {"permission": known}) if known else (404, {"message": "Not Found"})
            case _:
                return 404, {"message": "Not Found"}

    def open(self, body: dict[str, Any]) -> Reply:
        if self.forge.kind == "github" and body.get("draft") and self.forge.no_drafts:
            return 422, {"message": "Draft pull requests are not supported in this repository."}
        number = next(self.forge.numbers)
        draft = bool(body.get("draft")) or body["title"].startswith("WIP:")
        owner, _, head = body["head"].rpartition(":")
        body["head"] = head
        source = next((name for name in self.forge.forks if name.startswith(f"{owner}/")), NAME) if owner else NAME
        self.forge.pulls[number] = {
            "from": source,
            "number": number, "title": body["title"], "body": body["body"], "head": body["head"], "base": body["base"],
            "draft": draft, "state": "open", "merged": False, "comments": [],
        }  # fmt: skip
        self.forge.head(body["head"], source)  # it was pushed before
        return 201, self.pull(self.forge.pulls[number])

    def pull(self, each: dict[str, Any]) -> dict[str, Any]:
        return {
            **{key: each[key] for key in ("number", "title", "body", "draft", "state", "merged")},
            "html_url": f"{self.forge.url}/{NAME}/pull/{each['number']}",
            "head": {
                "ref": each["head"],
                "sha": self.forge.head(each["head"], each.get("from", NAME)),
                "repo": {"full_name": each.get("from", NAME)},
            },
            "base": {"ref": each["base"], "repo": {"full_name": NAME}},
        }

    def check_run(self, check: tuple[str, str, str]) -> dict[str, Any]:
        name, state, words = check
        over = state != "pending"
        return {
            "name": name, "status": "completed" if over else "in_progress", "conclusion": state if over else None,
            "output": {"title": words, "summary": ""}, "html_url": f"{self.forge.url}/ci/{name}",
        }  # fmt: skip

    def issue(self, each: dict[str, Any]) -> dict[str, Any]:
        return {
            "number": each["number"], "title": each["title"], "body": each["body"], "state": each["state"],
            "html_url": self.forge.address(each["number"]), "user": {"login": each["author"]},
        }  # fmt: skip

    def comments(self, number: int) -> list[dict[str, Any]]:
        about = self.forge.pulls.get(number) or self.forge.issues[number]
        return [
            {"id": place, "user": {"login": who}, "body": text} for place, (who, text) in enumerate(about["comments"])
        ]

    def event(self, who: str, label: str) -> dict[str, Any]:
        if self.forge.kind == "github":
            return {"event": "labeled", "actor": {"login": who}, "label": {"name": label}}
        return {"type": "label", "user": {"login": who}, "label": {"name": label}, "body": "1"}


class GitLabPaths:
    """The documented paths of GitLab."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Reply:
        if path == "/user":
            return 200, {"username": "corral-bot"}
        ids = {NAME: 1, **dict.fromkeys(self.forge.forks, 2)}
        for name, number in ids.items():
            if path in (f"/projects/{number}", "/projects/" + urllib.parse.quote(name, safe="")):
                return 200, {"id": number, "path_with_namespace": name}
            if (method, path) == ("POST", f"/projects/{number}/merge_requests") and body.pop(
                "target_project_id"
            ) == "1":
                body["from"] = name
                path = "/projects/" + urllib.parse.quote(NAME, safe="") + "/merge_requests"
        project = "/projects/" + urllib.parse.quote(NAME, safe="")
        if not path.startswith(project):
            return 404, {"message": "404 Project Not Found"}
        parts = path.removeprefix(project).strip("/").split("/")
        match (method, *parts):
            case ("GET", "merge_requests"):
                wanted = query["source_branch"][0]
                rows = [each for each in self.forge.pulls.values() if each["state"] == "open"]
                return 200, [self.pull(each) for each in rows if each["head"] == wanted]
            case ("POST", "merge_requests"):
                number = next(self.forge.numbers)
                self.forge.pulls[number] = {
                    "from": body.get("from", NAME), "number": number, "title": body["title"],
                    "body": body["description"], "state": "open",
                    "head": body["source_branch"], "base": body["target_branch"], "merged": False, "comments": [],
                }  # fmt: skip
                return 201, self.pull(self.forge.pulls[number])
            case ("PUT", "merge_requests", number):
                self.forge.pulls[int(number)]["body"] = body["description"]
                return 200, self.pull(self.forge.pulls[int(number)])
            case ("GET", "merge_requests", number):
                return 200, self.pull(self.forge.pulls[int(number)])
            case ("GET", "merge_requests", _, "approvals"):
                names = [each["user"]["login"] for each in self.forge.reviews if each["state"] == "APPROVED"]
                return 200, {"approved_by": [{"user": {"username": name}} for name in names]}
            case ("GET", "merge_requests" | "issues", number, "notes"):
                return 200, self.notes(int(number))
            case ("POST", "merge_requests" | "issues", number, "notes"):
                about = self.forge.pulls.get(int(number)) or self.forge.issues[int(number)]
                about["comments"].append(("corral-bot", body["body"]))
                return 201, {"id": 1}
            case ("GET", "pipelines", _, "jobs"):
                rows = [each for checks in self.forge.checks.values() for each in checks]
                return 200, [{"name": n, "status": "failed", "failure_reason": w} for n, s, w in rows if s == "failure"]
            case ("GET", "issues"):
                label = query["labels"][0]
                return 200, [self.issue(each) for each in self.forge.issues.values() if label in each["labels"]]
            case ("GET", "issues", number):
                known = self.forge.issues.get(int(number))
                return (200, self.issue(known)) if known else (404, {"message": "404 Not found"})
            case ("GET", "issues", number, "resource_label_events"):
                rows = self.forge.issues[int(number)]["label_events"]
                return 200, [{"action": "add", "user": {"username": w}, "label": {"name": label}} for w, label in rows]
            case ("GET", "members", "all"):
                levels = {"write": 30, "read": 10}
                return 200, [{"username": n, "access_level": levels[p]} for n, p in self.forge.users.items()]
            case _:
                return 404, {"message": "404 Not Found"}

    def pull(self, each: dict[str, Any]) -> dict[str, Any]:
        commit = self.forge.head(each["head"], each.get("from", NAME))
        checks = self.forge.checks.get(commit, [])
        state = "failed" if any(s == "failure" for _, s, _ in checks) else "success"
        return {
            "iid": each["number"], "title": each["title"], "description": each["body"], "sha": commit,
            "state": "merged" if each["merged"] else "opened" if each["state"] == "open" else "closed",
            "draft": each["title"].startswith("Draft:"), "source_branch": each["head"],
            "source_project_id": 1 if each.get("from", NAME) == NAME else 2, "target_project_id": 1,
            "web_url": f"{self.forge.url}/{NAME}/-/merge_requests/{each['number']}",
            "head_pipeline": {"id": 5, "status": state} if checks else None,
        }  # fmt: skip

    def issue(self, each: dict[str, Any]) -> dict[str, Any]:
        return {
            "iid": each["number"], "title": each["title"], "description": each["body"], "state": "opened",
            "web_url": self.forge.address(each["number"]), "author": {"username": each["author"]},
        }  # fmt: skip

    def notes(self, number: int) -> list[dict[str, Any]]:
        about = self.forge.pulls.get(number) or self.forge.issues[number]
        said = [
            {"id": place, "author": {"username": who}, "body": text, "system": False}
            for place, (who, text) in enumerate(about["comments"])
        ]
        lines = [
            {
                "id": 1000 + each["id"], "author": {"username": each["user"]["login"]}, "body": each["body"],
                "position": {"new_path": each["path"], "new_line": each["line"]},
            }
            for each in self.forge.line_comments
        ]  # fmt: skip
        return [*said, *lines]


class LinearPaths:
    """The one path of Linear."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Reply:
        assert (method, path, query) == ("POST", "", {})
        found = re.fullmatch(r"ENG-(\d+)", body["variables"]["id"])
        each = self.forge.issues.get(int(found[1])) if found else None
        if each is None:
            return 200, {"data": None, "errors": [{"message": "Entity not found: Issue"}]}
        said = [{"id": "c", "body": text, "user": {"name": who}} for who, text in each["comments"]]
        return 200, {
            "data": {
                "issue": {
                    "identifier": f"ENG-{each['number']}", "title": each["title"], "description": each["body"],
                    "url": f"https://linear.app/acme/issue/ENG-{each['number']}", "creator": {"name": each["author"]},
                    "comments": {"nodes": said},
                }
            }
        }  # fmt: skip
