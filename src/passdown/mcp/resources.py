"""Prompts and resources: texts of the workspace that a person or a host asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from passdown.core.items import one_line
from passdown.core.kinds import WORKSPACE_TASK
from passdown.core.text import visible
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem, raise_problems
from passdown.mcp import tools as reading
from passdown.mcp.texts import CHOOSE, HAND_OFF_NOW, RESUME
from passdown.mcp.tools import task_row
from passdown.workspace.defaults import open_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.core.types import JsonObject
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.workspace import Workspace


def _prompt(name: str, title: str, description: str, **arguments: str) -> JsonObject:
    listed = [
        {"name": each, "description": text, "required": False} for each, text in arguments.items()
    ]
    return {"name": name, "title": title, "description": description, "arguments": listed}


PROMPTS: tuple[JsonObject, ...] = (
    _prompt(
        "hand_off_now",
        "Hand off now",
        "Record where the work stands, so that another agent can go on",
        task="which task; default: the one being worked on",
        to="the next agent",
    ),
    _prompt(
        "resume",
        "Resume",
        "Go on with a task from its brief",
        task="which task; default: the one that waits",
        agent="who goes on; default: this client",
    ),
)


def prompt_text(shared: SharedWorkspace, name: str, given: Mapping[str, str], agent: str) -> str:
    """The text of a prompt; raises NotFound, InvalidInput, and what making a brief raises."""
    prompt = next((each for each in PROMPTS if each["name"] == name), None)
    if prompt is None:
        known = ", ".join(each["name"] for each in PROMPTS)
        raise NotFound(f"there is no prompt {name[:60]!r}", next_step=f"There are: {known}.")
    known = [argument["name"] for argument in prompt["arguments"]]
    problems = [
        Problem(each[:60], "unknown_parameter", "is unknown", f"one of {', '.join(known)}")
        for each in given
        if each not in known
    ]
    raise_problems("the prompt is refused", problems)
    text = _resume_prompt(shared, given, agent) if name == "resume" else _hand_off_now_prompt(given)
    return visible(text, keep_newlines=True)


def _hand_off_now_prompt(given: Mapping[str, str]) -> str:
    task, to = given.get("task"), given.get("to")
    return HAND_OFF_NOW.format(
        task=f" The task is {one_line(task)}." if task else "",
        to=f" It goes to {one_line(to)}." if to else "",
    )


def _resume_prompt(shared: SharedWorkspace, given: Mapping[str, str], agent: str) -> str:
    who = given.get("agent") or agent
    with shared.workspace() as workspace:
        task = given.get("task") or _default_task(workspace, who)
        if not task:
            shown = open_tasks(workspace)[: reading.TASKS_SHOWN]
            rows = [task_row(each.to_dict()) for each in shown]
            return CHOOSE.format(tasks="\n".join(rows) or "(no task is open)")
        brief = reading.brief_tool(workspace, {"task": task}, who)
    return RESUME.format(task=one_line(task), agent=one_line(who), brief=brief)


def _default_task(workspace: Workspace, agent: str) -> str:
    try:
        return reading.default_task(workspace, agent)
    except InvalidInput:
        return ""


SCHEME = "passdown://"
RESOURCES_PER_PAGE = 50
_MARKDOWN = "text/markdown"
_JSON_SCHEMA = "application/schema+json"
_TITLE_CHARACTERS = 80

TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": f"{SCHEME}task/{{task}}",
        "name": "task",
        "description": "A task with all its items.",
        "mimeType": _MARKDOWN,
    },
    {
        "uriTemplate": f"{SCHEME}brief/{{task}}/{{agent}}",
        "name": "brief",
        "description": "What an agent needs to know of a task.",
        "mimeType": _MARKDOWN,
    },
)

_SCHEMA_RESOURCE: JsonObject = {
    "uri": f"{SCHEME}schema/handoff",
    "name": "handoff schema",
    "description": "Every field that a handoff may have, as JSON Schema.",
    "mimeType": _JSON_SCHEMA,
}


class ResourcePage(NamedTuple):
    """A page of resources, and the cursor of the next one; empty at the end."""

    resources: list[JsonObject]
    cursor: str = ""


def resource_page(shared: SharedWorkspace, cursor: str) -> ResourcePage:
    """The resources there are: tasks in the order of their making, each with its holder's brief.

    Where no store can be read there is only what needs none: hosts ask for this list at the start,
    and an error here would look like a server that doesn't work.
    """
    after = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 18 else 0
    try:
        with shared.workspace() as workspace:
            found = workspace.tasks(limit=RESOURCES_PER_PAGE, after=after)
    except (PassdownError, OSError):
        return ResourcePage([] if after else [_SCHEMA_RESOURCE])
    resources = [] if after else [_SCHEMA_RESOURCE]
    for task in found:
        if task.task != WORKSPACE_TASK:
            resources += _task_resources(task.to_dict())
    return ResourcePage(resources, str(found[-1].seq) if len(found) == RESOURCES_PER_PAGE else "")


def _task_resources(task: JsonObject) -> list[JsonObject]:
    title = f"{task['task']}: {one_line(task['title'])[:_TITLE_CHARACTERS]}"
    name = quote(task["task"])
    whole = {"uri": f"{SCHEME}task/{name}", "name": title, "mimeType": _MARKDOWN}
    if not task["holder"] or task["status"] in ("completed", "cancelled"):
        return [whole]
    label = f"brief of {task['task']} for {one_line(task['holder'])}"
    address = f"{SCHEME}brief/{name}/{quote(task['holder'])}"
    return [whole, {"uri": address, "name": label, "mimeType": _MARKDOWN}]


def read_resource(shared: SharedWorkspace, uri: str, agent: str) -> JsonObject:
    """The content of a resource; raises NotFound for an address that isn't any, and whatever
    reading the task raises.
    """
    kind, *rest = [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]
    if not uri.startswith(SCHEME) or not all(rest):
        raise _no_resource(uri)
    if [kind, *rest] == ["schema", "handoff"]:
        from passdown.core.intake import handoff_schema

        text = json.dumps(handoff_schema(), ensure_ascii=False)
        return {"uri": uri, "text": text, "mimeType": _JSON_SCHEMA}
    with shared.workspace() as workspace:
        text = _resource_text(workspace, uri, kind, rest, agent)
    return {"uri": uri, "text": visible(text, keep_newlines=True), "mimeType": _MARKDOWN}


def _resource_text(workspace: Workspace, uri: str, kind: str, rest: list[str], agent: str) -> str:
    if kind == "task" and len(rest) == 1:
        return reading.show_tool(workspace, {"id": rest[0], "limit": reading.MAX_ROWS}, agent)
    if kind == "brief" and len(rest) in (1, 2):
        return reading.brief_tool(workspace, {"task": rest[0]}, rest[1] if rest[1:] else agent)
    raise _no_resource(uri)


def _no_resource(uri: str) -> NotFound:
    return NotFound(
        f"there is no resource {uri[:140]!r}",
        next_step=f"Addresses are {SCHEME}task/T-1, {SCHEME}brief/T-1/AGENT and "
        f"{SCHEME}schema/handoff.",
    )
