"""Ask GitHub: forge.py allow USER [NAMES], forge.py tell ISSUE TEXT, forge.py branch PULL (only of Corral's own)."""

import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, cast

MAY_WRITE = {"admin", "maintain", "write"}


def ask(path: str, body: dict[str, str] | None = None) -> dict[str, object]:
    """Send a request to the API of this repository; the token is only ever in a header."""
    address = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    headers = {"Authorization": f"Bearer {os.environ['GH_TOKEN']}", "Accept": "application/vnd.github+json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=60) as answer:
        return json.load(answer)


def permission(user: str) -> str:
    try:
        return str(ask(f"collaborators/{urllib.parse.quote(user, safe='')}/permission")["permission"])
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return "none"
        raise


def print_branch(number: str) -> int:
    """Print the branch of a pull request that Corral opened here; refuse all others, and all from forks."""
    head: dict[str, Any] = cast("dict[str, Any]", ask(f"pulls/{number}")["head"])
    branch, repository = str(head["ref"]), str((head["repo"] or {"full_name": ""})["full_name"])
    if repository.casefold() == os.environ["GITHUB_REPOSITORY"].casefold() and branch.startswith("corral/merged/"):
        print(branch)
        return 0
    print(
        f"::error::pull request {number} is not one of Corral in this repository; nothing was started", file=sys.stderr
    )
    print("hint: only pull requests that Corral opened are revised, never those of forks", file=sys.stderr)
    return 2


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["allow", user, names] if names.split():
                if user.casefold() in names.casefold().split():
                    return 0
                print(f"::error::{user} is not one of the users who may ask; nothing was started", file=sys.stderr)
                print("hint: the input users names them", file=sys.stderr)
                return 2
            case ["allow", user, *_]:
                if permission(user) in MAY_WRITE:
                    return 0
                print(f"::error::{user} has no write access to this repository; nothing was started", file=sys.stderr)
                print("hint: a user with write access must ask for it", file=sys.stderr)
                return 2
            case ["tell", issue, text] if found := re.search(r"/issues/(\d+)$", issue.rstrip("/")):
                ask(f"issues/{found[1]}/comments", {"body": text})
                return 0
            case ["branch", pull] if found := re.search(r"/pull/(\d+)$", pull.rstrip("/")):
                return print_branch(found[1])
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (urllib.error.URLError, KeyError) as error:
        print(f"::error::GitHub does not answer as expected: {type(error).__name__} {error}", file=sys.stderr)
        print("hint: the token needs contents, issues and pull-requests: write", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
