"""Flows as front ends show them: lines for a terminal, Mermaid, SVG, an outline, and the schema of their files."""

from corral.rules.flows.drawing import SIGNS, mermaid, outline, svg, text
from corral.rules.flows.json_schema import schema
from corral.rules.schedule.board import Board, BoardAttempt, BoardRow

__all__ = ["SIGNS", "Board", "BoardAttempt", "BoardRow", "mermaid", "outline", "schema", "svg", "text"]
