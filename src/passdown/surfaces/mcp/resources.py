"""Resources: a task, the brief of a task for an agent, and the schema of a handoff, by address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from passdown.errors import NotFound, PassdownError
from passdown.model.item_text import flat
from passdown.model.kinds import WORKSPACE_TASK
from passdown.model.text import visible
from passdown.surfaces.mcp import reading

if TYPE_CHECKING:
    from passdown.surfaces.mcp.door import Door
    from passdown.workspace import Workspace

Document = dict[str, Any]

SCHEME = "passdown://"
PAGE = 50
_TEXT = "text/markdown"
_JSON = "application/schema+json"
_TITLE = 80

TEMPLATES: tuple[Document, ...] = (
    {
        "uriTemplate": f"{SCHEME}task/{{task}}",
        "name": "task",
        "description": "A task with all its items.",
        "mimeType": _TEXT,
    },
    {
        "uriTemplate": f"{SCHEME}brief/{{task}}/{{agent}}",
        "name": "brief",
        "description": "What an agent needs to know of a task.",
        "mimeType": _TEXT,
    },
)

_SCHEMA: Document = {
    "uri": f"{SCHEME}schema/handoff",
    "name": "handoff schema",
    "description": "Every field that a handoff may have, as JSON Schema.",
    "mimeType": _JSON,
}


class Listed(NamedTuple):
    """A page of resources, and the cursor of the next one; empty at the end."""

    resources: list[Document]
    cursor: str = ""


class Content(NamedTuple):
    """What a resource holds."""

    text: str
    kind: str


def listed(door: Door, cursor: str) -> Listed:
    """The resources there are: tasks in the order of their making, each with its holder's brief.

    Where no store can be read there is only what needs none: hosts ask for this list at the start,
    and an error here would look like a server that doesn't work.
    """
    after = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 18 else 0
    try:
        with door.workspace() as workspace:
            found = workspace.tasks(limit=PAGE, after=after)
    except (PassdownError, OSError):
        return Listed([] if after else [_SCHEMA])
    resources = [] if after else [_SCHEMA]
    for task in found:
        if task["task"] != WORKSPACE_TASK:
            resources += _of_task(task)
    return Listed(resources, str(found[-1]["seq"]) if len(found) == PAGE else "")


def _of_task(task: Document) -> list[Document]:
    title = f"{task['task']}: {flat(task['title'])[:_TITLE]}"
    name = quote(task["task"])
    whole = {"uri": f"{SCHEME}task/{name}", "name": title, "mimeType": _TEXT}
    if not task["holder"] or task["status"] in ("completed", "cancelled"):
        return [whole]
    told = f"brief of {task['task']} for {flat(task['holder'])}"
    address = f"{SCHEME}brief/{name}/{quote(task['holder'])}"
    return [whole, {"uri": address, "name": told, "mimeType": _TEXT}]


def read(door: Door, uri: str, agent: str) -> Content:
    """What stands at an address; raises NotFound for one that isn't any, and whatever reading the
    task raises.
    """
    kind, *rest = [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]
    if not uri.startswith(SCHEME) or not all(rest):
        raise _no_address(uri)
    if [kind, *rest] == ["schema", "handoff"]:
        return Content(handoff_schema(), _JSON)
    with door.workspace() as workspace:
        text = _text(workspace, uri, kind, rest, agent)
    return Content(visible(text, keep_newlines=True), _TEXT)


def _text(workspace: Workspace, uri: str, kind: str, rest: list[str], agent: str) -> str:
    if kind == "task" and len(rest) == 1:
        return reading.show(workspace, {"id": rest[0], "limit": reading.MOST}, agent)
    if kind == "brief" and len(rest) in (1, 2):
        return reading.brief(workspace, {"task": rest[0]}, rest[1] if rest[1:] else agent)
    raise _no_address(uri)


def _no_address(uri: str) -> NotFound:
    return NotFound(
        f"there is no resource {uri[:140]!r}",
        next_step=f"Addresses are {SCHEME}task/T-1, {SCHEME}brief/T-1/AGENT and "
        f"{SCHEME}schema/handoff.",
    )


def handoff_schema() -> str:
    """The JSON Schema of a handoff."""
    from passdown.model.intake.checking import handoff_schema as schema

    return json.dumps(schema(), ensure_ascii=False)
