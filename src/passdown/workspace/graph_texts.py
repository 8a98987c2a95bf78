"""The knowledge graph as text: files that are read back, and pictures to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import texts_given
from passdown.model.findable import tag_of
from passdown.model.graph_files import FORMS, write_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.graph import Edge, Graph

PICTURES = ("mermaid", "svg")


def starts_of(
    graph: Graph, *, around: Sequence[str] = (), task: str = "", tags: Sequence[str] = ()
) -> list[str]:
    """The nodes of a part of the graph that it was asked for by, in the words of the question."""
    named = [*texts_given(around, "around", []), *([f"task:{task}"] if task else [])]
    wanted = {tag_of(tag) for tag in texts_given(tags, "tags", [])}
    tagged = (node.id for node in graph.nodes if not wanted.isdisjoint(node.tags))
    return list(dict.fromkeys([*named, *tagged]))


def graph_text(graph: Graph, form: str, title: str = "", starts: Sequence[str] = ()) -> str:
    """A graph in one of the forms: `json` or `dot` as a file, `mermaid` or `svg` as a picture.

    `title` stands above the `svg` and says what of the graph it shows. A picture has room for
    `starts` and the nearest to them; without any, for the best connected.
    """
    for known in FORMS:
        if form == known:
            return write_graph(graph, known)
    if form not in PICTURES:
        expected = f"one of {', '.join((*FORMS, *PICTURES))}"
        problem = Problem("form", "invalid_choice", repr(form[:60]), expected)
        raise InvalidInput("there is no such form of a graph", [problem])
    from passdown.briefing.pictures import mermaid, svg

    return mermaid(graph, starts) if form == "mermaid" else svg(graph, title, starts)


def relation_words(edge: Edge) -> str:
    """An edge's relation, and the word that it came with where it had one: `relates_to (owns)`."""
    if "name" not in edge.attributes:
        return edge.relation
    from passdown.briefing.pictures.choosing import relation_words as words

    return words(edge)
