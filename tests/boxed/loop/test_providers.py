"""The loop itself, without a box, against a scripted model in the wire format of every provider it speaks to."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn

pytestmark = pytest.mark.slow  # it imports what speaks to providers

#: provider -> the model, the variable that holds its endpoint, what follows the address, the variable that holds its key
PROVIDERS = {
    "ollama": ("qwen2.5-coder:32b", "OLLAMA_HOST", "", "OLLAMA_API_KEY"),
    "openai": ("gpt-5", "OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY"),
    "anthropic": ("claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "", "ANTHROPIC_API_KEY"),
    "google": ("gemini-2.5-flash", "GOOGLE_GEMINI_BASE_URL", "", "GEMINI_API_KEY"),
}
REFUSED = [
    (401, "wrong key", "auth"),
    (404, "model not found", "not_found"),
    (429, "slow down", "rate_limit"),
    (503, "overloaded", "overloaded"),
]
BREAKS_OFF = [
    Turn(text="I write it for you now.", write={"path": "a", "content": "b"}, drop=True, times=1),
    Turn(text="Done."),
]
#: One start for all tasks of a provider: what takes long is to import its library.
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from corral.boxed.loop import session
from corral.boxed.loop.settings import read
provider, model, variable, path, key, folder, *tasks = sys.argv[1:]
for place, (url, more) in enumerate(map(json.loads, tasks)):
    work = Path(folder, str(place))
    work.mkdir()
    settings = read([provider, model], {variable: url + path, key: "key-of-the-person", **more})
    ended = asyncio.run(session.run(settings, "make it", work, Path(folder)))
    told = [ended.error.kind, ended.error.message] if ended.error else None
    (work / "ended.json").write_text(json.dumps([ended.ok, told]))
"""


def carried_out(
    provider: str, folder: Path, tasks: list[tuple[list[Turn], dict[str, str]]]
) -> tuple[list[tuple[bool, list[str] | None]], list[ScriptedModel]]:
    """Have the loop carry out tasks, each by its script and settings; return how each ended, and who was asked."""
    with ExitStack() as stack:
        models = [stack.enter_context(ScriptedModel(script)) for script, _ in tasks]
        told = [json.dumps((model.url, settings)) for model, (_, settings) in zip(models, tasks, strict=True)]
        words = [provider, *PROVIDERS[provider], str(folder), *told]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False, timeout=240
        )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / str(place) / "ended.json").read_text()) for place in range(len(tasks))], models


@pytest.mark.parametrize("provider", list(PROVIDERS))
def test_what_is_refused_is_told_by_its_class_and_what_breaks_off_is_asked_for_again(
    provider: str, tmp_path: Path
) -> None:
    scripts = [[Turn(status=status, message=words, retry_after_seconds=0.01)] for status, words, _ in REFUSED]
    ended, _ = carried_out(provider, tmp_path, [(script, {}) for script in (*scripts, BREAKS_OFF)])
    for (_, said, kind), (ok, error) in zip(REFUSED, ended[:-1], strict=True):
        assert not ok
        assert error
        assert error[0] == kind
        assert said in error[1]
    assert ended[-1] == [True, None]
    assert (tmp_path / str(len(REFUSED)) / "a").read_text().strip() == "b"


def test_endings_that_are_none_and_the_newer_api(tmp_path: Path) -> None:
    too_long = "This model's maximum context length is 4096 tokens; your messages have 5000"
    written = Turn(write={"path": "a", "content": "b"})
    ended, models = carried_out(
        "openai",
        tmp_path,
        [
            ([Turn(status=400, message=too_long)], {}),
            ([written, Turn(text=""), Turn(text="")], {}),
            ([Turn(sh="true")] * 9, {"CORRAL_LOOP_TURNS": "3"}),
            ([written, Turn(text="Done.")], {"CORRAL_LOOP_API": "responses"}),
        ],
    )
    (small, small_error), (empty, empty_error), (limited, limited_error), newer = ended
    assert not small
    assert small_error
    assert small_error[0] == "context_too_long"
    assert not empty
    assert empty_error
    assert empty_error[0] == "bad_output"
    assert "without a word" in empty_error[1]
    assert not limited
    assert limited_error
    assert "used up its 3 turns" in limited_error[1]
    assert len(models[2].requests) == 3
    assert newer == [True, None]
    assert {request.path for request in models[3].requests} == {"/v1/responses"}
