"""A repository's corral.toml: what it may add, and what needs a person's trust first."""

from tests.rig.command import Corral
from tests.rig.repository import Repo

SETTINGS = """
[defaults]
agent = "theirs"
checks = ["grep -q theirs made.txt"]

[agents.theirs]
command = ["./tools/agent.sh", "{prompt}"]
cost_usd = 0.1
"""
FILES = {"corral.toml": SETTINGS, "tools/agent.sh": "#!/bin/sh\necho theirs > made.txt\n", "a.txt": "one\n"}


def theirs(corral: Corral) -> Repo:
    repo = corral.repo(files=FILES)
    (repo.folder / "tools/agent.sh").chmod(0o755)
    repo.git("commit", "-qam", "executable")
    return repo


def test_trusted_once_it_counts_until_it_changes(corral: Corral) -> None:
    repo = theirs(corral)
    first = corral.run(repo, "make it", "--trust")
    assert first.code == 0, first
    assert first.attempt["agent"] == "theirs"
    assert [check["command"] for check in first.attempt["checks"]] == ["grep -q theirs made.txt"]
    assert corral.run(repo, "make it").code == 0

    repo.write({"corral.toml": SETTINGS + "# another byte\n"})
    changed = corral.run(repo, "make it")
    assert changed.code == 2
    assert "trust" in changed.err
    assert len(corral("ls", "--json").json) == 2


def test_without_trust_nothing_is_started_and_nothing_made(corral: Corral) -> None:
    repo = theirs(corral)
    before = repo.fingerprint()
    outcome = corral.run(repo, "make it")

    assert outcome.code == 2
    assert outcome.out == ""
    assert "corral.toml:6" in outcome.err.splitlines()[0]
    assert outcome.err.splitlines()[1].startswith("hint: ")
    assert corral("ls", "--json").json == []
    assert corral.leavings() == []
    assert repo.fingerprint() == before
    assert repo.refs("refs/heads/corral", "refs/corral") == []


def test_the_command_trust_shows_the_file_and_trusts_it(corral: Corral) -> None:
    repo = theirs(corral)
    outcome = corral("trust", cwd=repo.folder / "tools")
    assert outcome.code == 0, outcome
    assert "./tools/agent.sh" in outcome.err
    assert corral.run(repo, "make it").code == 0


def test_trust_where_there_is_nothing_to_trust(corral: Corral) -> None:
    outcome = corral("trust", corral.repo().folder)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")


def test_an_agent_that_the_person_defines_identically_needs_no_trust(corral: Corral) -> None:
    table = '[agents.same]\ncommand = ["sh", "-c", "echo x > x"]\n'
    corral.config(table)
    repo = corral.repo(files={"corral.toml": table, "a.txt": "one\n"})
    assert corral.run(repo, "make it", "--agent", "same").code == 0


def test_harmless_settings_need_no_trust(corral: Corral) -> None:
    corral.agent("mine", "echo x > x", "cost_usd = 0.2")
    repo = corral.repo(files={"corral.toml": '[defaults]\nagent = "mine"\nchecks = ["test -f x"]\n', "a.txt": "1\n"})
    outcome = corral.run(repo, "make it")
    assert outcome.code == 0, outcome
    assert outcome.attempt["agent"] == "mine"
    assert len(outcome.attempt["checks"]) == 1


def test_a_repository_may_not_name_another_program_for_a_known_agent(corral: Corral) -> None:
    repo = corral.repo(files={"corral.toml": '[agents.claude]\nprogram = "./evil"\n', "evil": "#!/bin/sh\n"})
    outcome = corral.run(repo, "make it", "--agent", "claude")
    assert outcome.code == 2
    assert "trust" in outcome.err


def test_a_repository_narrows_a_budget_and_never_widens_it(corral: Corral) -> None:
    corral.config("[defaults]\nbudget_usd = 1.0")
    agent = corral.script('[[step]]\nspend = 0.7\n[[step]]\nwrite = "x"\n')
    wide = corral.repo("wide", {"corral.toml": "[defaults]\nbudget_usd = 100.0\n"})
    narrow = corral.repo("narrow", {"corral.toml": "[defaults]\nbudget_usd = 0.5\n"})
    dear = corral.script("[[step]]\nspend = 1.5\n[[step]]\nhang = 3600\n", "dear.toml")

    assert corral.run(narrow, "t", "--agent", agent).code == 4
    assert corral.run(wide, "t", "--agent", agent).code == 0
    assert corral.run(wide, "t", "--agent", dear).code == 4


def test_a_workspace_setup_needs_trust(corral: Corral) -> None:
    corral.agent("mine", "cat from-setup > x")
    repo = corral.repo(files={"corral.toml": '[workspace]\nsetup = "echo made > from-setup"\n', "a.txt": "1\n"})
    refused = corral.run(repo, "t", "--agent", "mine")
    assert refused.code == 2
    assert "corral.toml:1" in refused.err
    assert corral.run(repo, "t", "--agent", "mine", "--trust").code == 0


def test_a_role_in_an_agents_table_needs_trust(corral: Corral) -> None:
    corral.agent("mine", 'printf "%s" "$1" > x')
    files = {"corral.toml": '[agents.mine]\nrole = "house"\n', ".corral/roles/house.md": "Our house.\n"}
    repo = corral.repo(files=files)
    refused = corral.run(repo, "t", "--agent", "mine")
    assert refused.code == 2
    assert "corral.toml:1" in refused.err
    trusted = corral.run(repo, "t", "--agent", "mine", "--trust")
    assert trusted.code == 0, trusted
    assert repo.read(trusted.attempt["commit"], "x").startswith("Our house.")


def test_skills_in_an_agents_table_need_trust(corral: Corral) -> None:
    corral.agent("mine", 'printf "%s" "$1" > x')
    files = {"corral.toml": '[agents.mine]\nskills = ["house"]\n', ".corral/skills/house/SKILL.md": "Our house.\n"}
    repo = corral.repo(files=files)
    refused = corral.run(repo, "t", "--agent", "mine")
    assert refused.code == 2
    assert "corral.toml:1" in refused.err
    trusted = corral.run(repo, "t", "--agent", "mine", "--trust")
    assert "Our house." in repo.read(trusted.attempt["commit"], "x")
    repo.write({".corral/skills/house/more.py": "print('changed')\n"})
    changed = corral.run(repo, "t", "--agent", "mine")
    assert changed.code == 2
    assert ".corral/skills/house/more.py" in changed.err


def test_a_changed_script_is_asked_for_again(corral: Corral) -> None:
    repo = theirs(corral)
    assert corral.run(repo, "make it", "--trust").code == 0
    repo.write({"tools/agent.sh": "#!/bin/sh\necho theirs, changed > made.txt\n"})
    changed = corral.run(repo, "make it")
    assert changed.code == 2
    assert "changed since you trusted it" in changed.err.splitlines()[0]
    assert "tools/agent.sh" in changed.err.splitlines()[1]
    trusted = corral("trust", cwd=repo.folder)
    assert "\n  tools/agent.sh\n" in trusted.err
    assert corral.run(repo, "make it").code == 0


def test_a_hook_that_an_agents_merged_work_changed_is_not_run(corral: Corral) -> None:
    marks = corral.root / "marks"
    hook = "[[hooks]]\non = \"before_start\"\nrun = './hook.sh'\n"
    repo = corral.repo(files={"corral.toml": hook, "hook.sh": f"#!/bin/sh\necho ran in $PWD >> {marks}\n"})
    (repo.folder / "hook.sh").chmod(0o755)
    repo.git("commit", "-qam", "executable")
    corral.agent("sly", f"echo 'echo sly >> {marks}' >> hook.sh")
    assert corral.run(repo, "t", "--agent", "sly", "--merge", "auto", "--trust").code == 0
    assert "sly" in (repo.folder / "hook.sh").read_text()
    later = corral.run(repo, "t", "--agent", "sly")
    assert later.code == 2
    assert marks.read_text() == f"ran in {repo.folder}\n"


def test_an_identical_agent_starts_what_is_the_users(corral: Corral) -> None:
    corral.agent("same", "echo mine > x")
    table = '[agents.same]\ncommand = ["./same.sh"]\n'
    repo = corral.repo(files={"corral.toml": table, "same.sh": "#!/bin/sh\necho theirs > x\n"})
    (repo.folder / "same.sh").chmod(0o755)
    outcome = corral.run(repo, "t", "--agent", "same")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "x") == "mine"
