"""What a command that names a known node changes of it, and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from passdown.model.graph import Node
    from passdown.workspace import Workspace

Document = dict[str, Any]


def written_node(workspace: Workspace, name: str) -> Node | None:
    """A node that somebody wrote down; None for what is unknown or stands for itself."""
    from passdown.errors import NotFound
    from passdown.model.graph import stands_for

    try:
        return None if stands_for(name) else workspace.graph(around=[name], depth=0).nodes[0]
    except NotFound:
        return None


def merged_node(old: Node | None, given: Document) -> Document:
    """What is given, and of a known node all that isn't: tags add up, an empty attribute takes one
    away.
    """
    if old is None:
        return given
    return {
        "id": old.id,
        "type": given["type"] or old.type,
        "summary": given["summary"] or old.summary,
        "tags": [*dict.fromkeys((*old.tags, *given["tags"]))],
        "attributes": {**old.attributes, **given["attributes"]},
    }


def node_changes(old: Node | None, new: Node | None) -> dict[str, Document]:
    """What differs between two states of a node, with `old` and `new`; nothing for a new one."""
    if old is None or new is None:
        return {}
    before, now = _fields(old), _fields(new)
    return {
        name: {"old": before.get(name), "new": now.get(name)}
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    }


def _fields(node: Node) -> Document:
    tags = sorted(node.tags)
    return {"type": node.type, "summary": node.summary, "tags": tags, **node.attributes}
