"""Runs cases through the engine, in this process: real repositories, real agents, the usual box."""

import asyncio
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import corral
from corral.model import Attempt, Run
from tests.evidence import by_night
from tests.evidence.bases import BASES
from tests.evidence.case import Case, Content, Race
from tests.rig.agents import runners
from tests.rig.repository import Repo

PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


def programs(folder: Path) -> None:
    """Make an environment with a Python that has pytest and nothing else: plug-ins of ours would make it slow."""
    known = Path(sysconfig.get_path("purelib"), "cached-packages.pth")
    source = Path(known.read_text().strip()) if known.exists() else Path(sysconfig.get_path("purelib"))
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in PACKAGES:
        shutil.copytree(source / name, site / name)
        for about in source.glob(f"{name}-*.dist-info"):
            shutil.copytree(about, site / about.name)
    shutil.copy(source / "py.py", site)
    real = Path(sys.executable).resolve()
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(real)
    start = f"#!{folder}/bin/python3\nimport sys\nimport pytest\nsys.exit(pytest.main())\n"
    (folder / "bin" / "pytest").write_text(start)
    (folder / "bin" / "pytest").chmod(0o755)
    shutil.copy(source.parents[2] / "bin" / "just", folder / "bin")
    for name in ("jest", "mocha", "vitest"):
        (folder / "bin" / name).symlink_to((runners() / ".bin" / name).resolve())


def written(writes: Mapping[str, Content], script: str = "") -> str:
    """Return the shell program that does what an agent does."""
    lines = ["set -e"]
    for name, content in writes.items():
        path = shlex.quote(name)
        if content is None:
            lines.append(f"rm -rf {path}")
            continue
        lines.append(f"mkdir -p {shlex.quote(str(Path(name).parent))}; rm -f {path}")
        if isinstance(content, bytes):
            lines.append(f"ln -s {shlex.quote(content.removeprefix(b'->').decode())} {path}")
        else:
            lines.append(f"cat > {path} <<'END-OF-FILE'\n{content.removesuffix(chr(10))}\nEND-OF-FILE")
            if content.startswith("#!"):
                lines.append(f"chmod +x {path}")
    return "\n".join([*lines, script, "true\n"])


class Trial:
    """One state folder for many cases, so that what the checks say at a base is found out once."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.settings = root, root / "state", root / "config" / "corral"
        self.settings.mkdir(parents=True)
        self._bases: dict[str, tuple[Repo, str]] = {}
        self._repos: dict[str, Repo] = {}

    def base(self, name: str, extra: Mapping[str, str]) -> tuple[Repo, str]:
        """Return a repository and the commit in it that a case starts from."""
        key = repr((name, sorted(extra.items())))
        if key not in self._bases:
            repo = self._repos.get(name)
            if repo is None:
                repo = self._repos[name] = Repo.make(self.root / "repos" / name, dict(BASES[name].files))
                repo.git("branch", "bare-base")
            repo.git("checkout", "--quiet", "-B", f"base-{len(self._bases)}", "bare-base")
            if extra:
                repo.commit(dict(extra), "more files")
                for path, text in extra.items():
                    if text.startswith("#!"):
                        repo.git("update-index", "--chmod=+x", path)
                        repo.git("commit", "--quiet", "--amend", "--no-edit")
            commit = repo.head
            repo.git("checkout", "--quiet", "--force", "bare-base")
            self._bases[key] = repo, commit
        return self._bases[key]

    def attempt(self, case: Case, held_out: Path | None = None) -> Attempt:
        """Run one case and return what became of it."""
        repo, commit = self.base(case.base, case.extra)
        base = BASES[case.base]
        self._agents({"mine": written(case.writes, case.script)})
        task = corral.Task(
            case.task or base.task,
            agents=["mine"],
            checks=[check] if (check := base.check if case.check is None else case.check) else [],
            type=case.type,
            held_out=str(held_out) if held_out else None,
            retries=0,
            timeout=case.timeout,
        )
        run = self._run(task, repo, commit)
        return run.nodes[-1].attempts[-1]

    def race(self, race: Race) -> Run:
        repo, commit = self.base(race.base, race.extra)
        base = BASES[race.base]
        self._agents({name: written(files, race.scripts.get(name, "")) for name, files in race.lanes.items()})
        task = corral.Task(
            race.task or base.task,
            agents=list(race.lanes),
            strategy="race",
            checks=[race.check or base.check],
            retries=0,
            timeout="120s",
        )
        return self._run(task, repo, commit)

    def _agents(self, agents: Mapping[str, str]) -> None:
        tables = [f'[scope]\nread = ["**", "{runners()}"]\n']
        for name, script in agents.items():
            (self.settings / f"{name}.sh").write_text(f"#!/bin/sh\n{script}")
            (self.settings / f"{name}.sh").chmod(0o755)
            tables.append(f'[agents.{name}]\ncommand = ["./{name}.sh"]\n')
        (self.settings / "config.toml").write_text("\n".join(tables))

    def _run(self, task: corral.Task, repo: Repo, commit: str) -> Run:
        async def carry_out() -> Run:
            async with corral.Engine(self.home) as engine:
                return await engine.run(task, repo.folder, base=commit)

        return asyncio.run(carry_out())


def plainly(case: Case, folder: Path, env: Mapping[str, str]) -> tuple[bool, bool]:
    """Do the work of a case without corral; return whether its check passes, and whether the work is right."""
    base = BASES[case.base]
    repo = Repo.make(folder, {**base.files, **case.extra})
    for path, text in case.extra.items():
        if text.startswith("#!"):
            (folder / path).chmod(0o755)

    def done(command: str) -> subprocess.CompletedProcess[bytes]:
        words = ["/bin/sh", "-c", command]
        return subprocess.run(words, cwd=folder, env=dict(env), capture_output=True, timeout=120, check=False)

    truth = case.truth or base.truth
    assert b"RIGHT" not in done(truth).stdout, "the base is right already"
    repo.git("clean", "-qfdx")
    work = done(written(case.writes, case.script))
    assert work.returncode == 0, work
    repo.git("clean", "-qfdX")
    check = done(base.check if case.check is None else case.check)
    sys.stdout.write(f"{check.stdout!r} {check.stderr!r}\n")
    return check.returncode == 0, b"RIGHT" in done(truth).stdout


def verdict(attempt: Attempt) -> str:
    """Return the grade of what is done, and the class of the error of what is not."""
    if attempt.status == "done":
        return attempt.evidence.grade if attempt.evidence else "done without evidence"
    return attempt.error.kind if attempt.error else attempt.status


def marked(cases: Sequence[Case | Race]) -> list[ParameterSet]:
    """Return cases as parameters with readable ids; what is too expensive for each change runs by night."""
    reasons = {case.kind: case.night or by_night.reason(case.kind) for case in cases}
    return [
        pytest.param(case, id=case.kind, marks=[pytest.mark.night(reasons[case.kind])] if reasons[case.kind] else [])
        for case in cases
    ]
