"""What belongs to one caller alone: the token, and an agent's conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotAllowed
from passdown.model.kinds import CONVERSATION_STREAM
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.schemas import answer, text
from passdown.surfaces.web.task_rows import PATH
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]


def _conversations(workspace: Workspace, call: Call) -> Answer:
    """Every message of an agent's conversations on a task, for that agent alone."""
    task, agent = call.given["task"], call.given["agent"]
    if not call.is_about_itself(agent):
        raise NotAllowed(
            f"what {agent} was told in its conversations is its own",
            next_step="Ask for what is recorded of the task: the brief, the log.",
        )
    beside = Beside(workspace)
    prefix = f"{CONVERSATION_STREAM}{task}/{agent}/"
    items = [
        {"peer": head.stream.removeprefix(prefix), "at": record.at, "kind": record.kind}
        | {"number": record.position, "body": record.document()}
        for head in beside.streams(prefix)
        for record in beside.records(head.stream)
    ]
    return Answer({"items": items})


def _me(_: Workspace, call: Call) -> Answer:
    return Answer(call.caller.as_document())


ROWS = (
    reading(
        "me",
        "/api/me",
        "Whose token this is, and what it allows",
        _me,
        answer=answer(
            id={"type": "string"},
            name={"type": "string"},
            is_person={"type": "boolean"},
            rights={"type": "array", "items": {"type": "string"}},
        ),
        tag="access",
    ),
    Operation(
        "conversations",
        "GET",
        "/api/tasks/{task}/conversations/{agent}",
        "read",
        "What an agent said and was told in a task; for that agent alone",
        _conversations,
        parameters={**PATH, "agent": text(most=64, least=1)},
        answer=answer(items={"type": "array", "items": {"type": "object"}}),
        tag="briefs",
    ),
)
