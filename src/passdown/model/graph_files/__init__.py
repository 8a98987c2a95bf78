"""Files of the knowledge graph: JSON and DOT, read and written without loss.

For every graph that keeps the rules of `check_graph`, `read_graph(write_graph(g, form)) == g`, and
what was read from our own text is written back byte for byte: sorted, one node or edge per line,
so that two versions differ in the lines that changed. Foreign files are read where what they mean
is clear (`json_text`, `dot_reading`); everything else is refused with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

from passdown.errors import InvalidInput, Problem
from passdown.model.graph import check_graph, graph_of
from passdown.model.graph_files.drafts import MAX_BYTES
from passdown.model.text import excerpt, has_lone_surrogate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.graph import Graph

__all__ = ["FORMS", "MAX_BYTES", "Form", "read_graph", "write_graph"]

Form = Literal["json", "dot"]
FORMS: tuple[Form, ...] = ("json", "dot")


def read_graph(
    text: str, form: Form | Literal["auto"] = "auto", known: Iterable[str] = ()
) -> Graph:
    """The graph that a text holds; `auto` takes what begins with a bracket for JSON.

    `known` are ids of nodes that exist elsewhere: edges may lead to them. Raises InvalidInput with
    every problem; its path is `line:column` in DOT and the path of the value in JSON.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        _refuse("too_large", f"{len(text):,} characters", f"at most {MAX_BYTES:,} bytes")
    if has_lone_surrogate(text):
        _refuse("lone_surrogate", "contains half of a surrogate pair", "valid Unicode")
    source = text.removeprefix("\ufeff")
    if form == "auto":
        form = "json" if source.lstrip()[:1] in ("{", "[") else "dot"
    if form == "json":
        from passdown.model.graph_files.json_text import read_json

        return read_json(source, known)
    _check_form(form)
    from passdown.model.graph_files.dot_reading import read_dot

    return read_dot(source, known)


def write_graph(graph: Graph, form: Form) -> str:
    """The graph as a text that `read_graph` reads back equal.

    Raises InvalidInput for a graph that breaks the rules (an edge into nowhere, say), since its
    text would be refused on reading.
    """
    _check_form(form)
    if problems := check_graph(graph.nodes, graph.edges):
        raise InvalidInput("the graph can't be written", problems)
    ordered = graph_of(graph.nodes, graph.edges)
    if form == "json":
        from passdown.model.graph_files.json_text import write_json

        text = write_json(ordered)
    else:
        from passdown.model.graph_files.dot_text import write_dot

        text = write_dot(ordered)
    if (size := len(text.encode())) > MAX_BYTES:
        expected = f"at most {MAX_BYTES:,}"
        _refuse("too_large", f"the text would have {size:,} bytes", expected, "write a part of it")
    return text


def _check_form(form: str) -> None:
    if form not in FORMS:
        _refuse("not_allowed", f"form {excerpt(form)}", f"one of {', '.join(FORMS)}")


def _refuse(code: str, message: str, expected: str, fix: str = "") -> NoReturn:
    raise InvalidInput("the graph can't be used", [Problem("", code, message, expected, fix)])
