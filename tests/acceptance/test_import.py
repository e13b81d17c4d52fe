"""Agents brought along from an agents.yaml, and agents that are like known ones."""

import tomllib
from pathlib import Path

import pytest

from corral.config import loader
from tests.acceptance.test_bad_requests import refused
from tests.rig.command import Corral

pytestmark = pytest.mark.slow  # left out of `make quick`

YAML = """\
version: 1
agents:
  - name: backend
    role: developer
    description: |
      Writes the server.
      Knows "SQL".
    scope: ["src/**/*.ts", ./lib]
    model: opus
    instructions: |
      Use the repository's own
      "query" builder: \\d+
  - name: checks
    role: qa
    scope:
      - tests/**
      - {patterns: [docs/**], readOnly: true}
  - name: writer
    role: spec
  - name: looker
    role: reviewer
    scope: {patterns: ["**"], readOnly: true}
  - {name: head of design, role: architect}
  - name: poet
    role: bard
    instructions: Rhyme.
    temperature: 0.7
"""


def imported(corral: Corral, text: str, *arguments: str, name: str = "agents.yaml"):
    file = corral.root / name
    file.write_text(text)
    return corral("agents", "--import", file, *arguments)


def test_the_agents_of_the_file_become_settings(corral: Corral) -> None:
    outcome = imported(corral, YAML)
    assert outcome.code == 0, outcome
    assert tomllib.loads(outcome.out)["agents"] == {
        "backend": {
            "like": "claude",
            "role": "developer",
            "model": "opus",
            "instructions": 'Use the repository\'s own\n"query" builder: \\d+\n',
            "scope": {"write": ["src/**/*.ts", "lib"]},
        },
        "checks": {"like": "claude", "role": "tester", "scope": {"write": ["tests/**"], "readonly": ["docs/**"]}},
        "writer": {"like": "claude", "role": "spec-writer"},
        "looker": {"like": "claude", "role": "reviewer", "scope": {"write": [], "readonly": ["**"]}},
        "head of design": {"like": "claude", "role": "architect"},
        "poet": {"like": "claude", "instructions": "Your role: bard\n\nRhyme."},
    }
    assert '# Knows "SQL".' in outcome.out
    said = outcome.err.splitlines()
    assert len(said) == 2
    assert "`temperature` of `poet` (line 27)" in outcome.err
    assert "the role `bard` of `poet`" in outcome.err
    assert not corral.config_file.exists()


def test_written_they_are_added_once_and_the_rest_stays(corral: Corral) -> None:
    corral.config('# mine\n[defaults]\nagent = "backend"')
    before = corral.config_file.read_text()
    outcome = imported(corral, YAML, "--write")
    assert outcome.code == 0, outcome
    after = corral.config_file.read_text()
    assert after.startswith(before)
    assert after.endswith(outcome.out)
    listed = {agent["name"] for agent in corral("agents", "--json").json}
    assert {"backend", "checks", "writer", "looker", "head of design", "poet"} <= listed

    again = imported(corral, YAML.replace("checks", "other"), "--write")
    refused(again, "there already", "[agents.backend]", hint="--write")
    assert "other" not in again.err
    assert corral.config_file.read_text() == after


def test_settings_to_which_nothing_can_be_added_stay_as_they_are(corral: Corral) -> None:
    corral.config('agents = { mine = { model = "x", like = "claude" } }')
    before = corral.config_file.read_text()
    refused(imported(corral, YAML, "--write"), "cannot be added", hint="by hand")
    assert corral.config_file.read_text() == before


def test_what_was_imported_works(corral: Corral) -> None:
    corral.agent("parrot", 'printf "%s" "$1"', "cost_usd = 0.25")
    assert imported(corral, YAML, "--like", "parrot", "--write").code == 0
    outcome = corral.run(corral.repo(), "do it", "--agent", "checks", "--read-only")
    assert outcome.code == 0, outcome
    assert outcome.attempt["agent"] == "checks"
    assert outcome.attempt["role"] == "tester"
    assert outcome.attempt["output"].startswith("You are the tester.")
    assert outcome.json["cost"]["usd"] == 0.25

    poet = corral.run(corral.root / "repo", "do it", "--agent", "poet", "--read-only", "--fallback", "parrot")
    assert poet.attempt["output"].startswith("Your role: bard\n\nRhyme.")


BAD: dict[str, tuple[str, str, str]] = {
    "no YAML": ("agents: [a\n", ":2:1: this is no YAML", ""),
    "a tab": ("agents:\n\t- name: a\n", ":2:1: ", "spaces"),
    "an anchor": ("agents:\n- &a {name: a}\n", ":2:3: anchors", "write it out"),
    "a tag": ("agents: !!python/name:os.system\n", ":1:9: the tag", "plain"),
    "a key twice": ("agents:\n- name: a\n  name: b\n", ":3:3: `name` is here twice", "line 2"),
    "an agent twice": ("agents:\n- name: a\n- name: a\n", ":3:9: the agent `a` is here twice", "line 2"),
    "two documents": ("agents: []\n---\nagents: []\n", ":3:1: ", "one list"),
    "no agents": ("flows: []\n", ":1:1: there is no `agents`", "agents: ["),
    "nothing": ("", ":1:1: ", "agents: ["),
    "an empty list": ("agents: []\n", ":1:1: there are no agents", "agents: ["),
    "a word for a list": ("agents: all\n", ":1:9: the agents are a list", "agents: ["),
    "a word for an agent": ("agents: [qa]\n", ":1:10: an agent is a table", "name"),
    "no name": ("agents:\n- role: qa\n", ":2:3: an agent has a `name`", "name"),
    "a name that --agent cannot take": ("agents:\n- name: 'a:b'\n", ":2:9: `a:b` cannot be", "letters"),
    "a name that is a number": ("agents:\n- name: 7\n", ":2:9: `7` cannot be", "letters"),
    "a name that is ours": ("agents:\n- name: codex\n", ":2:9: `codex` is a built-in agent", "another name"),
    "a role that is a list": ("agents:\n- name: a\n  role: [qa]\n", ":3:9: `role` is text", "quotes"),
    "a pattern that is a number": ("agents:\n- name: a\n  scope: [3]\n", ":3:11: a pattern", "src/**"),
    "a scope elsewhere": ("agents:\n- name: a\n  scope: [/etc/**]\n", ":3:11: the scope `/etc/**` leaves", "src/**"),
    "a scope above": ("agents:\n- name: a\n  scope: [src/../../x]\n", ":3:11: ", "src/**"),
    "a scope's other key": ("agents:\n- name: a\n  scope: [{pattern: [x]}]\n", ":3:12: `pattern`", "patterns"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_one_line_with_its_place(corral: Corral, case: str) -> None:
    text, words, hint = BAD[case]
    outcome = imported(corral, text, "--write")
    refused(outcome, f"agents.yaml{words}", hint=hint)
    assert not corral.config_file.exists()


def test_files_that_cannot_be_read_and_options_that_do_not_fit(corral: Corral) -> None:
    refused(corral("agents", "--import", corral.root / "none.yaml"), "none.yaml")
    (corral.root / "bytes.yaml").write_bytes(b"\xff\xfe")
    refused(corral("agents", "--import", corral.root / "bytes.yaml"), "bytes.yaml", hint="UTF-8")
    refused(imported(corral, "agents: " + "x" * (600 << 10)), "512 KB")
    refused(imported(corral, YAML, "--like", "claud"), "claud", hint="did you mean `claude`")
    refused(corral("agents", "--write"), "--import")
    corral.config('[agents.mine]\nlike = "codex"')
    refused(imported(corral, YAML, "--like", "mine"), "--like mine", hint="--like codex")


# --- like


def test_an_agent_like_another_has_its_settings_and_its_family(corral: Corral) -> None:
    corral.agent("parrot", 'printf "%s %s" "$WORD" "$1"', 'settings = { WORD = "polly" }\ninstructions = "Be loud."')
    corral.config('[agents.quiet]\nlike = "parrot"\ninstructions = "Be quiet."\nfallback = ["parrot"]')
    outcome = corral.run(corral.repo(), "speak", "--agent", "quiet", "--read-only")
    assert outcome.code == 0, outcome
    assert outcome.attempt["agent"] == "quiet"
    assert outcome.attempt["output"].startswith("polly Be quiet.")


WRONG: dict[str, tuple[str, str, str]] = {
    "nobody": ('like = "claud"', "[agents.mine] like: no agent is called `claud`", "claude"),
    "itself": ('like = "mine"', "`mine` is itself like another agent", ""),
    "one that is like another": ('like = "other"\n[agents.other]\nlike = "codex"', "`other` is itself like", ""),
    "the scripted agent": ('like = "scripted"', "scripted", "claude"),
    "with a command": ('like = "claude"\ncommand = ["x"]', "either `like` or `command`", ""),
    "a number": ("like = 3", "like", ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_like_what_cannot_be(corral: Corral, case: str) -> None:
    text, words, hint = WRONG[case]
    corral.config(f"[agents.mine]\n{text}")
    refused(corral.run(corral.repo(), "t", "--agent", "mine"), words, hint=hint)
    assert corral("doctor").out, "the doctor looks at the rest all the same"


def test_a_repository_may_name_an_agent_like_another_without_trust(corral: Corral) -> None:
    corral.agent("parrot", 'printf "%s" "$1"')
    repo = corral.repo(
        files={"corral.toml": '[agents.team]\nlike = "parrot"\ninstructions = "You test."\n', "a.txt": "1\n"}
    )
    outcome = corral.run(repo, "do it", "--agent", "team", "--read-only")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"].startswith("You test.")


def test_a_repository_cannot_turn_an_agent_of_the_person_into_another(corral: Corral) -> None:
    corral.agent("parrot", "env")
    corral.config('[agents.mine]\nlike = "claude"\nsettings = { TOKEN = "secret" }')
    repo = corral.repo(files={"corral.toml": '[agents.mine]\nlike = "parrot"\n', "a.txt": "1\n"})
    refused(corral.run(repo, "do it", "--agent", "mine"), "corral.toml:1", "not trusted", hint="corral trust")


def test_an_agent_like_one_that_is_not_trusted_is_not_trusted(corral: Corral) -> None:
    text = '[agents.theirs]\ncommand = ["./x.sh"]\n[agents.team]\nlike = "theirs"\n'
    repo = corral.repo(files={"corral.toml": text, "x.sh": "#!/bin/sh\ntouch x\n"})
    refused(corral.run(repo, "do it", "--agent", "team"), "corral.toml:1", "not trusted", hint="corral trust")


def test_a_repository_that_adds_a_price_does_not_move_the_program(corral: Corral) -> None:
    corral.agent("mine", "echo mine > made.txt")
    files = {"corral.toml": "[agents.mine]\ncost_usd = 0.5\n", "mine.sh": "#!/bin/sh\necho theirs > made.txt\n"}
    repo = corral.repo(files=files)
    (repo.folder / "mine.sh").chmod(0o755)
    outcome = corral.run(repo, "make it", "--agent", "mine", "--check", "grep -qx mine made.txt")
    assert outcome.code == 0, outcome


@pytest.mark.parametrize(
    ("own", "theirs", "trusted"),
    [
        ("", "[agents.claude]\ncost_usd = 0", False),  # the meter would count for nothing
        ("", "[agents.claude]\ncost_usd = 5", False),
        ("", '[agents.team]\nlike = "claude"\ncost_usd = 0', False),
        ("[agents.claude]\ncost_usd = 2", "[agents.claude]\ncost_usd = 1.9", False),
        ("[agents.claude]\ncost_usd = 2", "[agents.claude]\ncost_usd = 2.5", True),
        ("[agents.claude]\ncost_usd = 2", '[agents.team]\nlike = "claude"\ncost_usd = 1', False),
        ("[agents.claude]\ncost_usd = 2", '[agents.team]\nlike = "claude"\ncost_usd = 3', True),
        ('[agents.a]\ncommand = ["true"]', "[agents.a]\ncost_usd = 0.5", True),
        ('[agents.a]\ncommand = ["true"]\nhosts = ["example.org"]', "[agents.a]\ncost_usd = 0.5", False),
        ('[agents.a]\ncommand = ["true"]\noutput = "jsonl"\ncost = "usd"', "[agents.a]\ncost_usd = 9", False),
        ('[agents.a]\ncommand = ["true"]\ncost = "usd"', '[agents.a]\ncost_unit = "cents"', False),
        ('[agents.a]\ncommand = ["true"]\ncost = "usd"', '[agents.a]\ncost = "other"', False),
    ],
)
def test_a_repository_may_raise_a_price_and_else_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, theirs: str, trusted: bool
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "corral").mkdir()
    (tmp_path / "corral/config.toml").write_text(own)
    (tmp_path / "corral.toml").write_text(theirs)
    name = theirs.partition(".")[2].partition("]")[0]
    assert (f"agents.{name}" not in loader.load(tmp_path).untrusted) == trusted
    assert not loader.load(tmp_path, trusted="yes").untrusted


def test_a_repository_that_lowers_a_price_is_refused_until_it_is_trusted(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt", "cost_usd = 0.5")
    repo = corral.repo(files={"corral.toml": "[agents.mine]\ncost_usd = 0\n", "a.txt": "1\n"})
    refused(corral.run(repo, "do it", "--agent", "mine"), "corral.toml:1", "not trusted", hint="corral trust")
    outcome = corral.run(repo, "do it", "--agent", "mine", "--trust")
    assert outcome.code == 0, outcome
    assert outcome.json["cost"]["usd"] == 0.0


def test_looking_at_runs_does_not_load_the_yaml_reader(corral: Corral) -> None:
    outcome = corral("ls", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert "corral.frontends" in outcome.err
    assert " yaml" not in outcome.err


def test_another_name_for_an_agent_is_no_way_out_of_its_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "corral").mkdir()
    own = '[agents.qa]\nlike = "codex"\nscope = { processes = 9 }\n[agents.codex]\nscope = { write = ["src/**"] }\n'
    (tmp_path / "corral/config.toml").write_text(own)
    (tmp_path / "corral.toml").write_text('[agents.team]\nlike = "codex"\n')
    sources = loader.load(tmp_path).scopes
    assert [(each.table.write, each.table.processes) for each in sources if each.agent == "qa"] == [
        (("src/**",), None),
        (None, 9),
    ]
    assert [each.table.write for each in sources if each.agent == "team"] == [("src/**",)]
