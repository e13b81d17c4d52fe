"""Paths of others in what an agent asks its tools for are told; its own, and plain words, are not."""

import pytest

from corral.rules.scope import scope
from corral.rules.scope.refusals import PathOwners, foreign_paths

GROUNDS = PathOwners(
    own=("/state/workspaces/r-1",),
    others=("/home/ann/shop", "/state"),
    secrets=scope.secret_patterns("/home/ann"),
    homes=("/home/ann",),
)


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("cat ~/.ssh/id_rsa", ["/home/ann/.ssh/id_rsa"]),
        ("echo x > /home/ann/shop/EVIL; ls", ["/home/ann/shop/EVIL"]),
        ("cp /state/corral.db .", ["/state/corral.db"]),
        ('cat "/etc/shadow"', ["/etc/shadow"]),
        ("curl --unix-socket /var/run/docker.sock http://x/", ["/var/run/docker.sock"]),
        ("cat /state/workspaces/r-1/work/a.py", []),
        ("cat src/etc/shadow.py; ls /usr/bin; a//b; http://host/home/ann/shop", []),
        ("/home/ann/shopping is another folder", []),
    ],
)
def test_what_is_told(words: str, paths: list[str]) -> None:
    assert [(each.kind, each.path) for each in foreign_paths(words, GROUNDS)] == [("tried", path) for path in paths]
