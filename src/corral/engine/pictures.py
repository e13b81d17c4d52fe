"""Flows as front ends show them: lines for a terminal, Mermaid, SVG, an outline, and the schema of their files."""

from corral.rules.flows.drawing import mermaid, outline, svg, text
from corral.rules.flows.published import schema

__all__ = ["mermaid", "outline", "schema", "svg", "text"]
