"""The knowledge graph as text: files that are read back, and pictures to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.graph_files import FORMS, write_graph

if TYPE_CHECKING:
    from passdown.model.graph import Edge, Graph

PICTURES = ("mermaid", "svg")


def graph_text(graph: Graph, form: str, title: str = "") -> str:
    """A graph in one of the forms: `json` or `dot` as a file, `mermaid` or `svg` as a picture.

    `title` stands above the `svg` and says what of the graph it shows.
    """
    for known in FORMS:
        if form == known:
            return write_graph(graph, known)
    if form not in PICTURES:
        expected = f"one of {', '.join((*FORMS, *PICTURES))}"
        problem = Problem("form", "invalid_choice", repr(form[:60]), expected)
        raise InvalidInput("there is no such form of a graph", [problem])
    from passdown.briefing.pictures import mermaid, svg

    return mermaid(graph) if form == "mermaid" else svg(graph, title)


def relation_words(edge: Edge) -> str:
    """An edge's relation, and the word that it came with where it had one: `relates_to (owns)`."""
    if "name" not in edge.attributes:
        return edge.relation
    from passdown.briefing.pictures.choosing import relation_words as words

    return words(edge)
