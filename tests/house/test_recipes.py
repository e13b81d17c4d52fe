"""What docs/contributing/recipes.md says is made in a copy of the tree, with the files it names and no others."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import corral

pytestmark = pytest.mark.slow  # left out of `make quick`

SOURCE = Path(corral.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "recipes.md"
NEW = ""  #: what stands there before, of a file that is new


class Edit(NamedTuple):
    """One file of a recipe."""

    file: str
    before: str
    after: str


class Recipe(NamedTuple):
    most: int
    edits: tuple[Edit, ...]
    proof: str  #: a program that ends well only if the change works


AGENT = '''"""crush."""

from corral.agents.formats.command_output import TextOutput
from corral.model.agent_api import AgentFacts, AgentProfile, Command


class Crush:
    facts = AgentFacts(name="crush", family="crush", programs=("crush",))

    def __init__(self, profile):
        self._profile = profile

    def start(self, task):
        return Command(argv=("crush", task.prompt))

    def converse(self, task):
        return TextOutput(AgentProfile(command=("crush",)))


AGENTS = {"crush": Crush}
'''
CHANNEL = '''"""Print it in colour."""


async def send(entry, setting):
    return f"colour {setting} {entry.text}"
'''
PARSER = '''"""colour."""

import re

from corral.model import Tally


def read(output):
    found = re.search(r"^COLOUR (\\d+) ok$", output, re.M)
    return Tally("colour", int(found[1]), 0, 0, ()) if found else None


READERS = ((5, read),)
'''
RECIPES = {
    "An agent": Recipe(
        1,
        (Edit("agents/crush.py", NEW, AGENT),),
        """
from corral.agents import find, names
from corral.model.agent_api import AgentTask
assert "crush" in names({})
assert find("crush", {}).start(AgentTask(prompt="x", workspace="", home="")).argv == ("crush", "x")
""",
    ),
    "A rule for races": Recipe(
        2,
        (
            Edit("model/flow.py", 'Select = Literal["evidence", ', 'Select = Literal["fewest-files", "evidence", '),
            Edit(
                "rules/race/select.py",
                '    "cheapest": (PROVEN,',
                '    "fewest-files": (PROVEN, Criterion("files", lambda each: len(each.files_changed), "fewest files",'
                ' lambda own, other: "more files")),\n    "cheapest": (PROVEN,',
            ),
        ),
        """
import msgspec
from corral.frontends.cli.run import run
from corral.frontends.web.api.bodies import Submission
from corral.model import Attempt
from corral.rules.flows import json_schema
from corral.rules.race import select
assert "fewest-files" in next(each for each in run.params if each.name == "select").type.choices
assert "fewest-files" in json_schema.KEYS["select"]["enum"]
assert msgspec.json.decode(b'{"task": "x", "select": "fewest-files"}', type=Submission).select == "fewest-files"
rivals = [Attempt(id=f"r-{n}", agent="a", status="done", files_changed=("a",) * (3 - n)) for n in (1, 2)]
ranking = select.rank(rivals, "fewest-files")
assert (ranking.winner, ranking.why) == ("r-2", "no check was asked for; fewest files"), ranking
""",
    ),
    "An option of a run": Recipe(
        5,
        (
            Edit("model/run.py", '    repo: str = "."\n', '    repo: str = "."\n    colour: str | None = None\n'),
            Edit(
                "frontends/cli/run.py",
                '@click.option("--base", ',
                '@click.option("--colour")\n@click.option("--base", ',
            ),
            Edit(
                "frontends/mcp/arguments.py",
                "    read_only: Annotated[bool, Meta(description=",
                "    colour: str | None = None\n    read_only: Annotated[bool, Meta(description=",
            ),
            Edit("frontends/python/tasks.py", "    base: str\n", "    base: str\n    colour: str\n"),
            Edit(
                "engine/planning/submit.py",
                "    notes += _without_mcp",
                "    notes += [request.colour] if request.colour else []\n    notes += _without_mcp",
            ),
        ),
        """
import asyncio, msgspec, subprocess, sys
from pathlib import Path
from corral.engine.engine import Engine
from corral.frontends.cli.run import build_request, run
from corral.frontends.cli.schedule import schedule
from corral.frontends.mcp import act_tools
from corral.frontends.mcp.arguments import ExecuteArguments
from corral.frontends.python.tasks import request
from corral.frontends.web.api.bodies import Submission, request_of
from corral.model import Request
options = run.make_context("run", ["x", "--colour", "red"]).params
typed = build_request(**{key: value for key, value in options.items() if key not in ("as_json", "quiet", "explain", "detach")})
assert typed.colour == "red"
assert "colour" in {each.name for each in schedule.commands["add"].params}
sent = msgspec.json.decode(b'{"task": "x", "colour": "red"}', type=Submission)
assert request_of(sent, "/r").colour == "red"
assert "colour" in act_tools.SAME and "colour" in ExecuteArguments.__struct_fields__
assert request("x", ".", {"colour": "red"}).colour == "red"
assert msgspec.json.decode(msgspec.json.encode(typed), type=Request).colour == "red"
here = Path.cwd() / "repo"
here.mkdir()
subprocess.run(["git", "init", "-q", "-b", "main", here], check=True)
(here / "script.toml").write_text("[[step]]\\nsay = 'x'\\n")
made = Request(prompt="x", repo=str(here), agents=(f"scripted:{here}/script.toml",), colour="red", require="none",
               unsandboxed=True)
prepared = asyncio.run(Engine(Path.cwd() / "home").requests.prepare(made))
assert "red" in prepared.notes, prepared.notes
""",
    ),
    "An HTTP endpoint": Recipe(
        1,
        (
            Edit(
                "frontends/web/api/queue.py",
                '@router.patch("/queue", ',
                '@router.get("/queue/colour")\nasync def show_colour(_: Reader) -> Response:\n    """Show its colour."""\n'
                '    return answer({"colour": "red"})\n\n\n@router.patch("/queue", ',
            ),
        ),
        """
from fastapi import FastAPI
from corral.frontends.web.api import queue
from corral.frontends.web.bodies import describe
app = FastAPI()
app.include_router(queue.router, prefix="/api/v1")
found = describe(app)["paths"]["/api/v1/queue/colour"]["get"]
assert (found["operationId"], found["description"]) == ("show_colour", "Show its colour."), found
""",
    ),
    "A notification channel": Recipe(
        1,
        (Edit("world/notify/channels/colour.py", NEW, CHANNEL),),
        """
import asyncio, os
from pathlib import Path
from corral.config import loader
from corral.config.files import KEYS
from corral.model import Entry
from corral.world.notify.notify import notify
assert "colour" in KEYS["notify"]
folder = Path(os.environ["XDG_CONFIG_HOME"]) / "corral"
folder.mkdir(parents=True)
(folder / "config.toml").write_text("[notify]\\ncolour = 'red'\\nbell = false\\n")
entry = Entry(id="1", key="k", run="r", kind="question", about="gate", text="ok?", deadline=2.0, created=1.0)
assert asyncio.run(notify(entry, loader.notify())) == ["[notify] colour red ok?"]
""",
    ),
    "A parser of check output": Recipe(
        1,
        (Edit("rules/checks/results/colour.py", NEW, PARSER),),
        """
from corral.rules.checks import results
found = results.tally("COLOUR 3 ok\\n")
assert found and (found.format, found.passed) == ("colour", 3)
""",
    ),
    "A settings key": Recipe(
        1,
        (
            Edit(
                "config/settings.py",
                "class Defaults(Struct, frozen=True, kw_only=True):\n",
                "class Defaults(Struct, frozen=True, kw_only=True):\n    #: the colour of it all\n"
                "    colour: str | None = None\n",
            ),
        ),
        """
import os, sys
from pathlib import Path
from corral.config import loader
from corral.config.files import KEYS
sys.path.insert(0, os.environ["TOOLS"])
import generate_reference
assert "colour" in KEYS["defaults"]
folder = Path(os.environ["XDG_CONFIG_HOME"]) / "corral"
folder.mkdir(parents=True)
(folder / "config.toml").write_text("[defaults]\\ncolour = 'red'\\n")
assert loader.load(None).defaults.colour == "red"
assert "| `colour` | text | - | the colour of it all |" in generate_reference.keys()
""",
    ),
}


def sections() -> dict[str, list[str]]:
    """Return the recipes of the page, each with the files that its list names first."""
    parts = PAGE.read_text().split("\n## ")[1:]
    return {part.partition("\n")[0]: re.findall(r"^- .*?`src/corral/([^`]+)`", part, re.MULTILINE) for part in parts}


def test_the_page_has_these_recipes() -> None:
    assert list(sections()) == list(RECIPES)


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_change_takes_the_files_that_its_recipe_names(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    named = [re.sub(r"[A-Z]{4,}", "*", file) for file in sections()[name]]
    assert len(recipe.edits) <= recipe.most
    assert len(named) == len(recipe.edits)
    for edit, pattern in zip(recipe.edits, named, strict=True):
        assert Path(edit.file).match(pattern), (edit.file, pattern)
    tree = tmp_path / "src" / "corral"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in recipe.edits:
        file = tree / edit.file
        assert file.exists() == bool(edit.before), edit.file
        text = file.read_text() if edit.before else ""
        assert edit.before in text, edit.file
        file.write_text(text.replace(edit.before, edit.after, 1) if edit.before else edit.after)
    env = {
        **os.environ,
        "PYTHONPATH": str(tree.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TOOLS": str(Path(__file__).parents[2] / "tools"),
    }
    own = f"import corral\nassert corral.__file__ == {str(tree / '__init__.py')!r}\n"
    words = [sys.executable, "-c", own + recipe.proof]
    found = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
