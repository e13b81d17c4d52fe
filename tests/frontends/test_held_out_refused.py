"""Callers from elsewhere name no folder of this machine: `held_out` is refused by HTTP and MCP."""

import msgspec
import pytest

from corral.frontends.mcp import arguments
from corral.frontends.web.api.bodies import Submission
from corral.rules.flows.reader import KnownNames, read_flow


def test_http_and_mcp_take_no_held_out_folder() -> None:
    with pytest.raises(msgspec.ValidationError, match="held_out"):
        msgspec.json.decode(b'{"task": "t", "held_out": "/srv/checks"}', type=Submission)
    with pytest.raises(msgspec.ValidationError, match="held_out"):
        msgspec.convert({"task": "t", "held_out": "/srv/checks"}, arguments.ExecuteArguments)


def test_a_flow_file_names_none_either() -> None:
    text = "name: f\nnodes:\n  a: {task: t, agent: mine, held_out: /srv/checks}\n"
    found = read_flow(text, KnownNames(agents=frozenset({"mine"})), {})
    assert any("held_out" in str(each) for each in found.mistakes)
