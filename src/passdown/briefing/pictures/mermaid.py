"""The graph as a Mermaid flowchart, in which no text can be anything but text.

Ids of the chart are numbers of ours, and whatever isn't a letter, a digit, a blank or a comma is
written as a character code. So no label can end its quotes, open a tag, a link or a list, or call
anything. A label says type, id and summary.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.briefing.pictures.choosing import chosen, settled_status
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from passdown.model.graph import Graph, Node

_SHAPES = {
    "task": ("[[", "]]"),
    "agent": ("([", "])"),
    "decision": ("{{", "}}"),
    "pattern": ("[/", "/]"),
    "gotcha": (">", "]"),
    "insight": ("(", ")"),
    "interface": ("([", "])"),
    "datastore": ("[(", ")]"),
    "external": ("[\\", "\\]"),
    "rule": ("[/", "\\]"),
}
_BOX = ("[", "]")
_STROKES = {
    "task": "#0969da",
    "agent": "#6639ba",
    "decision": "#b35900",
    "pattern": "#1a7f37",
    "gotcha": "#cf222e",
    "insight": "#9a6700",
    "file": "#57606a",
    "component": "#0550ae",
    "interface": "#1b7c83",
    "abstraction": "#8250df",
    "datastore": "#116329",
    "external": "#6e7781",
    "rule": "#a40e26",
}
# A full stop between a letter and a blank is the one mark that is left as it is: it ends sentences
# and, unlike one after a digit or within a word, begins neither a list nor the name of a site.
# Mermaid writes codes with three signs of its own while it works; ours mustn't be taken for them.
_CODED = re.compile(
    r"(?![ ,])[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\xb0\xb6\ufb02](?<!(?<=[A-Za-z])\.(?= |$))"
)


def mermaid(graph: Graph, starts: Iterable[str] = ()) -> str:
    """The chart; a note in it says what is left out. With `starts` it shows these first."""
    shown = chosen(graph, starts)
    numbers = {name: f"n{index}" for index, name in enumerate(shown.nodes)}
    lines = ["flowchart LR"]
    lines += [f"  {numbers[name]}{_label(node)}" for name, node in shown.nodes.items()]
    for wire in shown.wires:
        words = _coded(", ".join(wire.relations))
        lines.append(f'  {numbers[wire.source]} -->|"{words}"| {numbers[wire.target]}')
    if shown.note:
        lines.append(f'  left_out["{_coded(shown.note)}"]')
    lines += _classes(shown.nodes, numbers)
    return "".join(f"{line}\n" for line in lines)


def _label(node: Node) -> str:
    opening, closing = _SHAPES.get(node.type, _BOX)
    status = settled_status(node)
    # Ids of tasks, agents and files begin with their type, and some end with their summary: once
    # is enough.
    name = node.id if node.id.startswith(f"{node.type}:") else f"{node.type} {node.id}"
    head = _coded(f"{name} ({status})" if status else name)
    tail = "" if node.id.endswith(node.summary) else f": {_coded(node.summary)}"
    return f'{opening}"{head}{tail}"{closing}'


def _coded(text: str) -> str:
    return _CODED.sub(lambda found: f"#{ord(found[0])};", visible(text))


def _classes(nodes: dict[str, Node], numbers: dict[str, str]) -> Iterator[str]:
    """Colours by type; the type's word stands in the label too."""
    for kind, stroke in _STROKES.items():
        members = [numbers[name] for name, node in nodes.items() if node.type == kind]
        if members:
            yield f"  classDef {kind}Node stroke:{stroke},stroke-width:2px"
            yield f"  class {','.join(members)} {kind}Node"
