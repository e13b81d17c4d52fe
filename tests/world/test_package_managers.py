"""The hosts of package clients: asked from programs that are there, whatever they answer."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from corral.world import package_managers as module
from corral.world.package_managers import host_of, registries


class Person:
    """A home and a PATH with small clients that answer as the real ones do."""

    def __init__(self, folder: Path) -> None:
        self.home, self.bin = folder / "ada", folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        self.env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home)}
        for missing in ("pip", "pip3", "python3", "uv", "npm", "cargo", "go"):
            self.client(missing, "exit 1")  # whatever this machine has, it is not asked

    def client(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def file(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hosts(self, **env: str) -> set[tuple[str, str]]:
        return {(each.client, each.host) for each in asyncio.run(registries({**self.env, **env}))}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_clients_that_fail_say_nothing(person: Person) -> None:
    assert person.hosts() == set()


def test_pip(person: Person) -> None:
    person.client(
        "pip",
        'case "$*" in "config list") echo "global.index-url=\'https://pip.mirror.example:8443/simple\'";'
        " echo \"global.extra-index-url='https://one.example/s http://two.example/s'\"; echo \"global.timeout='9'\";;\n"
        '*) echo "  -i, --index-url <url>  Base URL of the index (default https://built.in.example/simple). More";; esac',
    )
    assert person.hosts() == {
        ("pip", "pip.mirror.example:8443"), ("pip", "one.example"), ("pip", "two.example"), ("pip", "built.in.example"),
    }  # fmt: skip


def test_uv(person: Person) -> None:
    person.client(
        "uv",
        'echo "  --default-index <DEFAULT_INDEX>  The index (by default: <https://built.in.example/simple>) [env: X]"',
    )
    assert person.hosts() == {("uv", "built.in.example")}
    assert person.hosts(UV_INDEX="mine=https://user:pass@uv.example/simple") == {("uv", "uv.example")}
    person.file(
        ".config/uv/uv.toml", '[[index]]\nurl = "https://table.example/s"\n[pip]\nindex-url = "https://p.example"\n'
    )
    assert person.hosts() == {("uv", "table.example"), ("uv", "p.example")}
    person.file(".config/uv/uv.toml", "index = 3\n")
    assert person.hosts() == {("uv", "built.in.example")}


def test_npm(person: Person) -> None:
    person.client(
        "npm",
        'case "$*" in "config get registry") echo https://npm.example/;;\n'
        '*) echo \'{"@mine:registry": "https://scoped.example:99/x", "registry": "y", "list": []}\';; esac',
    )
    assert person.hosts() == {("npm", "npm.example"), ("npm", "scoped.example:99")}


def test_cargo(person: Person) -> None:
    person.client("cargo", "exit 0")
    person.file(
        ".cargo/config.toml",
        '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+https://crates.example/index/"\n'
        '[registries.corp]\nindex = "https://corp.example/git"\n',
    )
    (person.home / ".cargo/registry/index/used.example-0123456789abcdef").mkdir(parents=True)
    found = person.hosts(CARGO_REGISTRIES_OTHER_INDEX="sparse+https://other.example/")
    assert found == {("cargo", f"{name}.example") for name in ("crates", "corp", "used", "other")}


def test_go(person: Person) -> None:
    person.client("go", "echo 'https://goproxy.example,direct|off'; echo sums.example")
    assert person.hosts() == {("go", "goproxy.example"), ("go", "sums.example")}
    person.client("go", "echo off; echo off")
    assert person.hosts() == set()


def test_a_client_that_hangs_is_not_waited_for(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    person.client("npm", "exec sleep 600")
    person.client("go", "echo https://goproxy.example; echo off")
    assert person.hosts() == {("go", "goproxy.example")}


def test_a_repository_is_not_asked(person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person.client("npm", "test -f .npmrc && cat .npmrc || echo https://npm.example/")
    (tmp_path / ".npmrc").write_text("https://evil.example/")
    monkeypatch.chdir(tmp_path)
    assert person.hosts() == {("npm", "npm.example")}


@pytest.mark.parametrize("answer", ["\\0\\377", "not a url", "http://", "https://[::1", "file:///opt/x"])
def test_answers_that_name_no_host(person: Person, answer: str) -> None:
    person.client("npm", f"printf '{answer}'")
    assert person.hosts() == set()


def test_hosts_of_addresses() -> None:
    assert host_of("https://A.example:443/x") == "a.example"
    assert host_of("http://a.example:443/x") == "a.example:443"
    assert host_of("https://[::1]:8443/") == "[::1]:8443"
    assert host_of("git+ssh://a.example") is None


@pytest.mark.slow
@pytest.mark.parametrize("client", ["pip", "npm"])
def test_the_real_clients_name_a_host(client: str) -> None:
    assert shutil.which(client), f"{client} is part of the machine this is tested on"
    found = asyncio.run(registries(dict(os.environ)))
    assert [each for each in found if each.client == client and each.host]
