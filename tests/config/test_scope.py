"""A scope on a real file system: what is shown and masked, and every path that cannot be meant."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from corral.config import loader
from corral.config.policies import scope_file
from corral.machines.scope import MachinePaths, ResolvedPaths, ScopeView, agentignore, resolve
from corral.model import ScopeSource, ScopeTable
from corral.model.errors import BadRequest
from corral.rules.scope import globs, scope
from corral.rules.scope.scope import effective, named_paths
from corral.world.git.repository import Repository
from tests.rig.repository import Repo


class Room:
    """A workspace, a home, a state folder and a checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.state, self.checkout, self.tree = (folder / n for n in ("ada", "state", "repo", "work"))
        for made in (self.home, self.state, self.checkout, self.tree / ".git", folder / "data" / "in"):
            made.mkdir(parents=True)
        self.files("src/a.py", "src/gen/b.py", "docs/c.md", "README.md", "keys/id.pem")
        (folder / "data" / "in" / "x.csv").touch()
        (folder / "data" / "in" / "y.txt").touch()
        for name in (".ssh/id_rsa", ".ssh/config", ".config/gh/hosts.yml", ".config/app/settings", ".bash_history"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).touch()

    def files(self, *names: str) -> None:
        for name in names:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).touch()

    def resolve(self, ignore: str = "", *, many: bool = False, **keys: Sequence[object]) -> ResolvedPaths:
        words = {key: [str(item) for item in value] for key, value in keys.items()}
        table = msgspec.convert(words, ScopeTable)
        source = ScopeSource(table=table, where={key: f"--{key}" for key in keys}, many=many)
        return self.resolve_all([source], ignore)

    def resolve_all(self, sources: list[ScopeSource], ignore: str = "") -> ResolvedPaths:
        found = effective(sources, agent="claude", home=str(self.home))
        view = ScopeView(
            named=named_paths(found),
            inside=globs.top(found.scope, ignore=ignore),
            outside=globs.top(found.scope, outside=True),
            secrets=scope.secret_patterns(str(self.home)),
        )
        return resolve(view, MachinePaths(tree=self.tree, state=self.state, checkout=self.checkout))

    def masks(self, found: ResolvedPaths) -> list[tuple[str, str]]:
        return [(str(mask.path.relative_to(self.tree)), mask.mode) for mask in found.masks]

    def refused(self, *words: str, **keys: Sequence[object]) -> None:
        with pytest.raises(BadRequest) as caught:
            self.resolve("", many=False, **keys)
        message = str(caught.value)
        assert message.startswith(tuple(f"--{key}: " for key in keys))
        assert "\n" not in message
        assert caught.value.hint
        for word in words:
            assert word in message


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# --- the workspace


def test_everything_needs_no_mask(room: Room) -> None:
    assert room.resolve() == ResolvedPaths()


def test_a_write_list_makes_the_rest_read_only(room: Room) -> None:
    found = room.resolve(write=["src/**", "tests/unit/**"])
    assert room.masks(found) == [
        (".", "readonly"), (".git", "writable"), ("src", "writable"), ("tests/unit", "writable"),
    ]  # fmt: skip
    assert found.missing == (room.tree / "tests", room.tree / "tests" / "unit")


def test_a_name_that_may_be_made_leaves_its_folder_writable(room: Room) -> None:
    found = room.masks(room.resolve(write=["*.md"]))
    assert (".", "readonly") not in found
    assert ("src", "readonly") in found
    assert ("README.md", "readonly") not in found


def test_read_only_paths(room: Room) -> None:
    assert room.masks(room.resolve(readonly=["src/**"], write=["**", "src/gen/**"])) == [
        ("src", "readonly"), ("src/gen", "writable"),
    ]  # fmt: skip
    assert room.masks(room.resolve(readonly=["README.md"])) == [("README.md", "readonly")]


def test_a_read_list_hides_the_rest(room: Room) -> None:
    assert room.masks(room.resolve(read=["src/gen/**"])) == [
        (".", "readonly"), (".git", "writable"), ("README.md", "hidden"), ("docs", "hidden"), ("keys", "hidden"),
        ("src/a.py", "hidden"), ("src/gen", "writable"),
    ]  # fmt: skip


def test_agentignore_hides(room: Room) -> None:
    assert room.masks(room.resolve("*.pem\n/docs/\n")) == [("docs", "hidden"), ("keys/id.pem", "hidden")]


def test_agentignore_is_read_from_the_commit(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "r", files={".agentignore": "*.pem\n"})
    repository = Repository(repo.folder, repo.folder / ".git")
    (repo.folder / ".agentignore").write_text("")
    head = repo.git("rev-parse", "HEAD").strip()
    assert asyncio.run(agentignore(repository, head)) == "*.pem\n"
    assert asyncio.run(agentignore(repository, None)) == ""


def test_more_single_files_than_can_be_masked(room: Room) -> None:
    room.files(*(f"many/f{number}.lock" for number in range(500)))
    found = room.resolve(write=["**", "!**/*.lock"])
    assert found.masks == ()
    assert "after the run" in found.notes[0]
    with pytest.raises(BadRequest, match="would each need a mask"):
        room.resolve("*.lock\n")


def test_a_workspace_of_which_nothing_may_be_read(room: Room) -> None:
    with pytest.raises(BadRequest, match="nothing is left to read"):
        room.resolve(read=[])


def test_a_deep_tree_is_walked(room: Room) -> None:
    folder = room.tree
    for _ in range(1200):
        folder = folder / "d"
        folder.mkdir()
    (folder / "x.pem").touch()
    found = room.resolve("*.pem\n")
    subprocess.run(["rm", "-rf", room.tree], check=True)  # too deep for Python's own way
    assert len(found.masks) == 2


def test_paths_in_the_workspace_that_cannot_be_meant(room: Room) -> None:
    (room.tree / "way").symlink_to("/etc")
    (room.tree / "circle").symlink_to("circle")
    room.refused("leads out of the workspace", write=["way/**"])
    room.refused("is not there", read=["no/such"])
    room.refused("is not there", readonly=["nope"])
    room.resolve(write=["new/file.py"])  # yet to be written
    room.resolve(read=["circle", "**"])
    room.resolve(many=True, readonly=["Makefile"])  # settings for all repositories


# --- elsewhere


def test_a_path_elsewhere_is_shown(room: Room) -> None:
    data = room.folder / "data"
    found = room.resolve(read=[data / "in"], write=[data])
    assert found.paths("writable") == (data, data / "in")
    assert room.resolve(read=[data / "in"]).paths("readonly") == (data / "in",)
    found = room.resolve(write=[data], readonly=[data / "in"])
    assert (found.paths("writable"), found.paths("readonly")) == ((data,), (data / "in",))
    assert room.resolve(read=[data / "in" / "*.csv"]).paths("readonly") == (data / "in" / "x.csv",)
    assert room.resolve(read=[data, f"!{data}/in/y.txt"]).paths("hidden") == (data / "in" / "y.txt",)


def test_a_repository_shows_nothing_of_the_machine(room: Room) -> None:
    table = ScopeTable(read=(str(room.folder / "data"),))
    found = room.resolve_all([ScopeSource(table=table, where={"read": "corral.toml:2"}, narrows=True)])
    assert found.elsewhere == ()
    assert found.notes[0].startswith("corral.toml:2")


def test_secrets_below_a_broad_path_are_covered(room: Room) -> None:
    found = room.resolve(read=["~"])
    assert found.paths("readonly") == (room.home,)
    assert set(found.paths("hidden")) == {room.home / name for name in (".ssh", ".config/gh", ".bash_history")}
    found = room.resolve(read=["~/.config"])
    assert found.paths("hidden") == (room.home / ".config" / "gh",)
    assert room.resolve(read=["~/*/app"]).paths("readonly") == (room.home / ".config" / "app",)
    assert room.resolve(read=["~/.s*/id_rsa"]).elsewhere == ()


def test_secrets_named_exactly(room: Room) -> None:
    assert room.resolve(read=["~/.ssh"]).paths("readonly") == (room.home / ".ssh",)
    found = room.resolve(read=["~", "~/.ssh/config"])
    assert [(str(mask.path.relative_to(room.home)), mask.mode) for mask in found.elsewhere] == [
        (".", "readonly"), (".bash_history", "hidden"), (".ssh", "hidden"), (".config/gh", "hidden"),
        (".ssh/config", "readonly"),
    ]  # fmt: skip


def test_paths_elsewhere_that_cannot_be_meant(room: Room) -> None:
    data = room.folder / "data"
    room.refused("is not there", read=["/no/such/path"])
    room.refused("is not there", write=["~/nowhere/**"])
    (data / "out").symlink_to("/etc")
    room.refused("leads to /etc", read=[data / "out"])
    (data / "dead").symlink_to("gone")
    room.refused("leads nowhere", read=[data / "dead"])
    (room.home / "link").symlink_to(".ssh")
    room.refused("holds secrets", read=["~/link"])
    room.refused("corral's own folder", read=[room.state])
    room.refused("corral's own folder", read=[room.state / "**"])
    room.refused("corral's own folder", read=[room.folder])
    room.refused("corral's own folder", read=["/**"])
    (room.folder / "state-link").symlink_to(room.state)
    room.refused("corral's own folder", read=[room.folder / "state-link"])
    room.refused("cannot be written", write=["~"])
    room.refused("your checkout", write=[room.checkout])
    room.refused("kernel", read=["/proc"])
    assert room.resolve(read=[room.checkout]).paths("readonly") == (room.checkout,)


def test_a_link_on_the_way_is_followed(room: Room) -> None:
    (room.folder / "mnt").symlink_to(room.folder / "data")
    assert room.resolve(read=[room.folder / "mnt" / "in"]).paths("readonly") == (room.folder / "data" / "in",)


# --- settings files


def test_settings_hold_scopes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    mine, repo = tmp_path / "corral" / "config.toml", tmp_path / "repo"
    mine.parent.mkdir()
    repo.mkdir()
    mine.write_text('[scope]\nnet = "on"\nmemory_mb = 999\n\n[agents.codex]\nscope = { processes = 77 }\n')
    (repo / "corral.toml").write_text('[agents.codex.scope]\nmemory_mb = 500\n\n[scope]\nwrite = ["src/**"]\n')
    found = loader.load(repo).scopes
    assert [(each.agent, each.narrows, each.many) for each in found] == [
        (None, False, True), ("codex", False, True), (None, True, False), ("codex", True, False),
    ]  # fmt: skip
    assert found[0].where["memory_mb"] == f"{mine}:3"
    assert found[1].where["processes"] == f"{mine}:6"
    assert found[2].table.write == ("src/**",)
    assert effective(found, agent="codex", home="/h").scope.memory_mb == 500


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[scope]\nwirte = []\n", (":2", "wirte")),
        ("[scope]\nnet = 'maybe'\n", (":2", "maybe")),
        ("[scope]\nmemory_mb = 'much'\n", (":2", "memory_mb")),
        ("[agents.codex]\nscope = 3\n", (":2", "table")),
        ("[agents.codex.scope]\nwirte = 3\n", (":2", "wirte")),
        ("[agents.codex]\nscope = { wirte = 3 }\n", (":2", "wirte")),
    ],
)
def test_settings_that_are_no_scope(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "corral.toml").write_text(text)
    with pytest.raises(BadRequest) as caught:
        loader.load(tmp_path)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_scope_file(tmp_path: Path) -> None:
    file = tmp_path / "narrow.toml"
    file.write_text('read = ["**"]\nnet = ["a.org"]\n')
    source = scope_file(file)
    assert (source.table.net, source.where["net"], source.narrows) == (("a.org",), f"{file}:2", False)
    file.write_text('[scope]\nnet = "off"\n')
    assert scope_file(file).table.net == "off"
    file.write_text("nett = 3\n")
    with pytest.raises(BadRequest, match="unknown key `nett`"):
        scope_file(file)
    with pytest.raises(BadRequest, match="is not there"):
        scope_file(tmp_path / "no.toml")
