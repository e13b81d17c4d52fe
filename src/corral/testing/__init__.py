"""For tests of agents and of plug-ins: a scripted model that real agent programs talk to, without key or network."""

from corral.testing.model import Call, Request, Script, ScriptedModel, ScriptError, Turn, Usage, load_turns

__all__ = ["Call", "Request", "Script", "ScriptError", "ScriptedModel", "Turn", "Usage", "load_turns"]
