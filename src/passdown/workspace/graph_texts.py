"""The knowledge graph as text: files that are read back, and pictures to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.graph_files import FORMS, write_graph

if TYPE_CHECKING:
    from passdown.model.graph import Graph

PICTURES = ("mermaid", "svg")


def graph_text(graph: Graph, form: str) -> str:
    """A graph in one of the forms: `json` or `dot` as a file, `mermaid` or `svg` as a picture."""
    for known in FORMS:
        if form == known:
            return write_graph(graph, known)
    if form not in PICTURES:
        expected = f"one of {', '.join((*FORMS, *PICTURES))}"
        problem = Problem("form", "invalid_choice", repr(form[:60]), expected)
        raise InvalidInput("there is no such form of a graph", [problem])
    from passdown.briefing.pictures import mermaid, svg

    return mermaid(graph) if form == "mermaid" else svg(graph)
