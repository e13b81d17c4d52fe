"""Roles, instructions and skills reach the agent: an agent that prints what it received shows it."""

import pytest

from tests.rig.command import Corral

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def parrot(corral: Corral) -> Corral:
    corral.agent("parrot", 'printf "%s" "$1"')
    return corral


def told(corral: Corral, *arguments: str) -> str:
    outcome = corral.run(corral.root / "repo", "do it", "--agent", "parrot", "--read-only", *arguments)
    assert outcome.code == 0, outcome
    return outcome.attempt["output"]


def test_without_a_role_the_task_arrives_alone(parrot: Corral) -> None:
    parrot.repo()
    assert told(parrot) == "do it\n\nChange no files: only look and answer."


@pytest.mark.parametrize(
    "role",
    [
        "product",
        "architect",
        "senior",
        "developer",
        "reviewer",
        "ops",
        "spec-writer",
        "implementer",
        "tester",
        "file-writer",
    ],
)
def test_every_built_in_role_is_there(parrot: Corral, role: str) -> None:
    parrot.repo()
    words = told(parrot, "--role", role)
    assert words.startswith("You ")
    assert "\n\ndo it" in words
    assert parrot("show", "@last", "--json").json["nodes"][0]["attempts"][0]["role"] == role


def test_a_repository_may_have_its_own_roles_and_a_person_too(parrot: Corral) -> None:
    repo = parrot.repo()
    parrot.config_file.parent.joinpath("roles").mkdir()
    parrot.config_file.parent.joinpath("roles", "developer.md").write_text("Mine.")
    assert told(parrot, "--role", "developer").startswith("Mine.")
    repo.write({".corral/roles/developer.md": "The team's."})
    assert told(parrot, "--role", "developer").startswith("The team's.")


def test_settings_give_an_agent_its_role_and_instructions(parrot: Corral) -> None:
    parrot.repo()
    parrot.config('role = "tester"\ninstructions = "Be brief."\n')
    words = told(parrot)
    assert words.startswith("You are the tester.")
    assert "Be brief." in words


def test_a_skill_is_told_and_its_files_are_brought_along(corral: Corral) -> None:
    repo = corral.repo()
    repo.write({
        ".corral/skills/release/SKILL.md": "---\nname: release\ndescription: how we release\n---\nTag it.\n",
        ".corral/skills/release/notes/template.txt": "the template",
    })  # fmt: skip
    corral.agent("reader", 'printf "%s\\n" "$1"; cat ~/skills/release/notes/template.txt')
    outcome = corral.run(repo, "do it", "--agent", "reader", "--read-only", "--skill", "release")
    assert "Tag it." in outcome.attempt["output"]
    assert "description:" not in outcome.attempt["output"]
    assert outcome.attempt["output"].endswith("the template")


def test_settings_give_an_agent_its_skills(corral: Corral) -> None:
    repo = corral.repo()
    corral.agent("reader", 'printf "%s\\n" "$1"; cat ~/skills/*/more.txt', 'skills = ["release", "style"]')
    for folder, whose in ((corral.config_file.parent / "skills", "mine"), (repo.folder / ".corral/skills", "theirs")):
        for name in ("release", "style") if whose == "mine" else ("release",):
            (folder / name).mkdir(parents=True)
            (folder / name / "SKILL.md").write_text(f"How {whose} {name}.\n")
            (folder / name / "more.txt").write_text(f"more of {whose} {name}\n")
    settled = corral.run(repo, "do it", "--agent", "reader", "--read-only").attempt["output"]
    assert "How mine release." in settled
    assert "How mine style." in settled
    assert settled.endswith("more of mine release\nmore of mine style")
    # Named by the person, the repository's comes before the person's, and is told once.
    asked = corral.run(repo, "do it", "--agent", "reader", "--read-only", "--skill", "release").attempt["output"]
    assert asked.count("# Skill: release") == 1
    assert "How theirs release." in asked
    assert asked.endswith("more of theirs release\nmore of mine style")
    corral.config_file.write_text(corral.config_file.read_text().replace('"style"', '"nothing"'))
    missing = corral.run(repo, "do it", "--agent", "reader", "--read-only")
    assert missing.code == 2
    assert "no skill is called `nothing`" in missing.err


@pytest.mark.parametrize("arguments", [("--role", "nobody"), ("--role", "../../etc"), ("--skill", "nothing")])
def test_what_is_not_there_is_said(parrot: Corral, arguments: tuple[str, str]) -> None:
    outcome = parrot.run(parrot.repo(), "do it", "--agent", "parrot", *arguments)
    assert outcome.code == 2
    assert "hint:" in outcome.err


def test_the_repositorys_own_words_come_before_the_task(parrot: Corral) -> None:
    repo = parrot.repo()
    repo.commit({"AGENTS.md": "Use tabs.\n", "CLAUDE.md": "For claude.\n"})
    repo.write({"AGENTS.md": "Not committed.\n"})
    words = told(parrot, "--role", "tester")
    assert words.startswith("You are the tester.")
    assert words.index("Use tabs.") < words.index("do it")
    assert "For claude." not in words
    assert "Not committed." not in words
    assert parrot("logs", "@last", "--prompt").out.strip() == words


def test_a_guide_that_is_a_link_out_of_the_repository_is_not_read(parrot: Corral) -> None:
    repo = parrot.repo()
    (repo.folder / "AGENTS.md").symlink_to("/etc/passwd")
    repo.commit({"more.txt": "x"})
    assert "root:" not in told(parrot)


def test_skills_that_nobody_asked_for_are_named_and_can_be_opened(corral: Corral) -> None:
    repo = corral.repo()
    repo.write({
        ".corral/skills/release/SKILL.md": "---\nname: release\ndescription: how we release\n---\nTag it.\n",
        ".claude/skills/style/SKILL.md": "---\ndescription: how we write\n---\nBe brief.\n",
    })  # fmt: skip
    corral.agent("reader", 'printf "%s\\n" "$1"; echo ==; cat ~/skills/release/SKILL.md')
    outcome = corral.run(repo, "do it", "--agent", "reader", "--read-only", "--skill", "style")
    told, opened = outcome.attempt["output"].split("==")
    assert "- ~/skills/release/SKILL.md: how we release" in told
    assert "Tag it." not in told
    assert "Be brief." in told
    assert "Tag it." in opened


@pytest.mark.parametrize("linked", ["file", "folder", "parent"])
@pytest.mark.parametrize("kind", ["role", "skill"])
def test_a_role_or_skill_that_is_a_link_is_not_read(parrot: Corral, kind: str, linked: str) -> None:
    """A repository could name any file of the user so, and have it sent to a model."""
    repo, outside = parrot.repo(), parrot.root / "outside"
    name = "notes.md" if kind == "role" else "notes/SKILL.md"
    target, place = outside / f"{kind}s" / name, repo.folder / ".corral" / f"{kind}s" / name
    target.parent.mkdir(parents=True)
    target.write_text("---\nname: notes\ndescription: secret-words\n---\nsecret-words\n")
    at, to = {
        "file": (place, target),
        "folder": (place.parent, target.parent),
        "parent": (repo.folder / ".corral", outside),
    }[linked]
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(to)
    repo.git("add", "-A")
    repo.git("commit", "--quiet", "-m", "a link")
    outcome = parrot.run(repo, "do it", "--agent", "parrot", "--read-only", f"--{kind}", "notes")
    assert outcome.code == 2, outcome
    assert "secret-words" not in outcome.out + outcome.err
    offered = parrot.run(repo, "do it", "--agent", "parrot", "--read-only")
    assert offered.code == 0, offered
    assert "secret-words" not in offered.attempt["output"]
