"""A model provider on 127.0.0.1 that answers by a script, in the wire formats of the real providers."""

from corral.testing.model.load import load_turns
from corral.testing.model.routes import Request
from corral.testing.model.script import Call, Script, ScriptError, Turn, Usage
from corral.testing.model.server import ScriptedModel

__all__ = ["Call", "Request", "Script", "ScriptError", "ScriptedModel", "Turn", "Usage", "load_turns"]
