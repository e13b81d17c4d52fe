"""Images that go with a task: the real agents pass them on to their model, others refuse before anything starts."""

import base64
import struct
import zlib

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.stage import KEY
from tests.rig.agents import programs
from tests.rig.command import Corral
from tests.rig.suites import claude_program as program

pytestmark = pytest.mark.slow
AGENTS = {
    "claude:claude-sonnet-4-5": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "codex:gpt-5": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "opencode:fake-model": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "openai:gpt-5": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "acp:gemini:gemini-2.5-flash": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
}


def png(colour: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    size, row = 40, b"\0" + colour * 40
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * size)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("agent", AGENTS)
def test_the_model_of_a_real_agent_sees_it(corral: Corral, agent: str) -> None:
    key, base, path = AGENTS[agent]
    image = corral.root / "shot.png"
    image.write_bytes(png(b"\xff\0\0"))
    name = agent.rpartition(":")[0]
    with ScriptedModel([Turn(text="So.", write={"path": "seen.txt", "content": "red"}), Turn(text="Done.")]) as model:
        corral.env["PATH"] = f"{programs()}:{corral.env['PATH']}"
        corral.env[key] = KEY
        named = f'program = "{program()}"\n' if name == "claude" else ""
        corral.config(f'[agents."{name}"]\n{named}settings = {{ {base} = "{model.url}{path}", AGENT_RETRIES = "0" }}\n')
        outcome = corral.run(corral.repo(), "what colour is it?", "--agent", agent, "--image", str(image))
        assert outcome.code == 0, outcome
        body = str(model.work_requests[0].body)
    assert "~/images/1.png" in body
    assert base64.b64encode(image.read_bytes()).decode()[:40] in body, body[:3000]


BAD = {
    "none.png": (None, "No such file"),
    "text.png": (b"not an image", "this is no image"),
    "large.png": (png(b"\0\0\0") + bytes(6 << 20), "5 MB are the most"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_image_starts_nothing(corral: Corral, name: str) -> None:
    content, words = BAD[name]
    if content is not None:
        (corral.root / name).write_bytes(content)
    agent = corral.agent("mine", "true")
    outcome = corral("run", "x", "--agent", agent, "--image", corral.root / name, cwd=corral.repo().folder)
    assert outcome.code == 2, outcome
    assert words in outcome.err
    assert "hint: " in outcome.err


def test_an_agent_that_takes_no_images_is_refused(corral: Corral) -> None:
    (corral.root / "a.png").write_bytes(png(b"\0\0\0"))
    agent = corral.agent("mine", "true")
    outcome = corral("run", "x", "--agent", agent, "--image", corral.root / "a.png", cwd=corral.repo().folder)
    assert outcome.code == 2, outcome
    assert "--image: the agent `mine` takes no images" in outcome.err
