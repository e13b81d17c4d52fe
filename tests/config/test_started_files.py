"""What a person trusts with a corral.toml: the file, and the files of the repository that it starts."""

from pathlib import Path

import pytest

from corral.config.paths import fingerprint
from corral.config.started_files import MOST_FILES, started_files

COMMANDS = {
    "a hook": ('[[hooks]]\non = "before_start"\nrun = "./x.sh"\n', "x.sh"),
    "by a shell": ('[[hooks]]\non = "before_start"\nrun = "sh ./x.sh"\n', "x.sh"),
    "in quotes": ('[[hooks]]\non = "before_start"\nrun = \'bash -c "true && ./tools/x.sh --fast"\'\n', "tools/x.sh"),
    "below a variable": ('[[hooks]]\non = "before_start"\nrun = \'"$PWD/tools/x.sh"\'\n', "tools/x.sh"),
    "in braces": ("[[hooks]]\non = \"before_start\"\nrun = '${HERE}/tools/x.sh'\n", "tools/x.sh"),
    "after cd": ('[[hooks]]\non = "before_start"\nrun = "cd tools && ./x"\n', "tools/x"),
    "as an option": ('[[hooks]]\non = "before_start"\nrun = "tool --config=conf/x.json"\n', "conf/x.json"),
    "a module": ('[[hooks]]\non = "before_start"\npython = "pack.mine:no"\n', "pack/mine.py"),
    "a module by -m": ('[[hooks]]\non = "before_start"\nrun = "python3 -m pack"\n', "pack/__main__.py"),
    "the package of a module": ('[[hooks]]\non = "before_start"\npython = "pack.mine:no"\n', "pack/__init__.py"),
    "the packages of a module by -m": ('[workspace]\nsetup = "python3 -m one.two.three"\n', "one/__init__.py"),
    "the inner package of a module": ('[workspace]\nsetup = "python3 -m one.two.three"\n', "one/two/__init__.py"),
    "a folder": ('[[hooks]]\non = "before_start"\nrun = "run-parts hooks.d"\n', "hooks.d/10.sh"),
    "a glob": ('[[hooks]]\non = "before_start"\nrun = "for f in hooks.d/*; do sh $f; done"\n', "hooks.d/a.txt"),
    "a glob of names": ('[[hooks]]\non = "before_start"\nrun = "cat $PWD/hooks/*.sh | sh"\n', "hooks/a.sh"),
    "setup": ('[workspace]\nsetup = "./setup.sh"\n', "setup.sh"),
    "make": ('[workspace]\nsetup = "make -s ready"\n', "Makefile"),
    "npm": ('[workspace]\nsetup = "npm run build"\n', "package.json"),
    "an agent": ('[agents.x]\ncommand = ["python3", "my agent.py"]\n', "my agent.py"),
    "a program": ('[agents.claude]\nprogram = "./bin/claude"\n', "bin/claude"),
    "a setting": ('[agents.claude]\nsettings = { NODE_OPTIONS = "--require ./x.js" }\n', "x.js"),
    "an MCP server": ('[mcp.x]\ncommand = ["node", "server.mjs"]\n', "server.mjs"),
    "a skill": ('[agents.claude]\nskills = ["house"]\n', ".corral/skills/house/SKILL.md"),
    "a file of a skill": ('[agents.claude]\nskills = ["house"]\n', ".claude/skills/house/tools/x.py"),
    "a role": ('[agents.claude]\nrole = "house"\n', ".corral/roles/house.md"),
}


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize("case", COMMANDS)
def test_a_change_of_what_is_started_is_noticed(tmp_path: Path, case: str) -> None:
    text, name = COMMANDS[case]
    settings = tmp_path / "corral.toml"
    write(tmp_path, "corral.toml", text)
    absent = fingerprint(settings)
    write(tmp_path, name, "one")
    write(tmp_path, "README.md", "one")
    first = fingerprint(settings)
    write(tmp_path, "README.md", "two")
    assert fingerprint(settings) == first
    write(tmp_path, name, "two")
    assert len({absent, first, fingerprint(settings)}) == 3


def test_what_a_script_names_counts_too_and_so_does_where_a_link_leads(tmp_path: Path) -> None:
    write(tmp_path, "corral.toml", '[[hooks]]\non = "before_start"\nrun = "./hooks/first.sh"\n')
    write(tmp_path, "hooks/first.sh", "#!/bin/sh\n. ./hooks/second.sh\npython3 $(dirname $0)/third.py\n")
    marks = [fingerprint(tmp_path / "corral.toml")]
    for name, text in (("hooks/second.sh", "a"), ("hooks/second.sh", "b"), ("hooks/third.py", "a"), ("other.sh", "b")):
        write(tmp_path, name, text)
        marks.append(fingerprint(tmp_path / "corral.toml"))
    assert marks[-1] == marks[-2]  # nothing names it
    assert len(set(marks)) == 4
    (tmp_path / "hooks/second.sh").unlink()
    (tmp_path / "hooks/second.sh").symlink_to("../other.sh")  # the same content, from elsewhere
    assert fingerprint(tmp_path / "corral.toml") not in marks


IMPORTS = {
    "from .lib import x": "tools/lib.py",
    "from .lib.part import x": "tools/lib/__init__.py",
    "from . import lib": "tools/lib.py",
    "from ..lib import x": "lib.py",
    "import lib.part": "lib/__init__.py",
    "import part": "tools/part/__init__.py",
    'require("./lib")': "tools/lib/index.js",
    'import x from "./lib"': "tools/lib.mjs",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_what_a_script_imports_counts_wherever_its_language_looks_for_it(tmp_path: Path, line: str) -> None:
    settings = tmp_path / "corral.toml"
    script = "tools/hook.py" if line.startswith(("from", "import lib", "import part")) else "tools/hook.js"
    write(tmp_path, "corral.toml", f'[workspace]\nsetup = "run {script}"\n')
    write(tmp_path, script, f"{line}\n")
    absent = fingerprint(settings)
    write(tmp_path, IMPORTS[line], "one")
    first = fingerprint(settings)
    write(tmp_path, IMPORTS[line], "two")
    assert len({absent, first, fingerprint(settings)}) == 3


def test_scripts_are_followed_until_there_is_nothing_new(tmp_path: Path) -> None:
    write(tmp_path, "corral.toml", '[[hooks]]\non = "before_start"\nrun = "./hook.sh"\n')
    write(tmp_path, "hook.sh", ". ./lib/a.sh\n")
    write(tmp_path, "lib/a.sh", ". ./lib/b.sh\n. ./hook.sh\n")
    write(tmp_path, "lib/b.sh", 'for each in parts.d/*; do . "$each"; done\ncase $1 in *) ;; esac\n')
    write(tmp_path, "parts.d/x", "python3 -m pack.deep\n")
    write(tmp_path, "pack/deep.py", "one")
    write(tmp_path, "other.sh", "one")
    started = started_files(tmp_path, (tmp_path / "corral.toml").read_bytes())
    assert started.whole
    names = ["hook.sh", "lib/a.sh", "lib/b.sh", "pack/deep.py", "parts.d/x"]
    assert [str(path.relative_to(tmp_path.resolve())) for path in started.files] == names
    before = fingerprint(tmp_path / "corral.toml")
    write(tmp_path, "pack/deep.py", "two")
    assert fingerprint(tmp_path / "corral.toml") != before


def test_more_than_is_looked_at_is_said(tmp_path: Path) -> None:
    write(tmp_path, "corral.toml", '[[hooks]]\non = "before_start"\nrun = "./0.sh"\n')
    for number in range(MOST_FILES + 1):
        write(tmp_path, f"{number}.sh", f". ./{number + 1}.sh\n")
    started = started_files(tmp_path, (tmp_path / "corral.toml").read_bytes())
    assert (len(started.files), started.whole) == (MOST_FILES, False)
    (tmp_path / f"{MOST_FILES}.sh").unlink()
    started = started_files(tmp_path, (tmp_path / "corral.toml").read_bytes())
    assert (len(started.files), started.whole) == (MOST_FILES, True)


def test_a_file_that_starts_nothing_of_the_repository_is_trusted_as_before(tmp_path: Path) -> None:
    import hashlib  # noqa: PLC0415

    text = '[workspace]\nsetup = "echo ready"\n'
    write(tmp_path, "corral.toml", text)
    plain = hashlib.sha256(str(tmp_path / "corral.toml").encode() + b"\0" + text.encode()).hexdigest()
    assert fingerprint(tmp_path / "corral.toml") == plain


@pytest.mark.parametrize("text", ["[" * 20_000, "a = " + "[" * 20_000 + "]" * 20_000, "\udcff", "hooks = 1"])
def test_a_file_that_cannot_be_read_has_a_fingerprint(tmp_path: Path, text: str) -> None:
    (tmp_path / "corral.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert fingerprint(tmp_path / "corral.toml")
