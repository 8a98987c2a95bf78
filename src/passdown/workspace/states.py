"""A task's state as a value: now, at a past version, or for the receiver of a handoff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.core.intake import read_command
from passdown.core.kinds import stream_of
from passdown.core.record import Head
from passdown.core.results import HandoffCommand
from passdown.core.task_state import TaskState
from passdown.errors import Conflict, InvalidInput, NotAllowed, Problem
from passdown.history.state import item_documents
from passdown.history.state import state as task_state
from passdown.ledger.channel import may_write
from passdown.store.statements import Reader
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from passdown.core.rows import TaskRow


def state(reader: Reader, task: str, version: int | None = None) -> TaskState:
    """A task's state now, or at a past version.

    Args:
        task: The task.
        version: The version; the current one by default.
    """
    return TaskState.from_dict(task_state(reader, task, version))


def load(reader: Reader, task: str) -> TaskState | None:
    """A task's state now, or None for an unknown task.

    Args:
        task: The task.
    """
    if reader.task(task) is None:
        return None
    return TaskState.from_dict(task_state(reader, task))


def receive_handoff(context: Context, command: HandoffCommand) -> TaskState:
    """The full, verified state for the receiver of a handoff.

    Raises GateRefused while a human gate holds the task, Conflict when it has changed since, and
    InvalidInput for what is no command, or one that was prepared and not recorded.

    Args:
        command: What recording the handoff gave, or its JSON object.
    """
    from passdown.workspace.task_context import gate_error

    command = read_command(command)
    if command.prepared is not None:
        message = "it was prepared and not recorded"
        problem = Problem("prepared", "not_recorded", message, "what hand_off(command) gives")
        raise InvalidInput("the command is refused", [problem])

    with context.store.reading() as reader:
        row = reader.existing_task(command.task)
        target = row.header["target_agent"]
        if target and not may_write(target):
            raise NotAllowed(
                f"the handoff of {row.task} is for {target}",
                next_step="Ask for your own: the inbox lists what waits for you.",
                code="not_recipient",
            )
        _check_command(reader, row, command)
        held = item_documents(reader, row.task, reader.open_items(row.task, ("k",)))
        if held:
            raise gate_error(row.task, [document for _, document in held])
        return TaskState.from_dict(task_state(reader, command.task))


def _check_command(reader: Reader, row: TaskRow, command: HandoffCommand) -> None:
    """A command holds while its handoff is the task's latest; an approval or a note since is fine.

    Its record has to be the one that was written, and so does the last one.
    """
    from passdown.ledger.writer import check_head_record

    latest = reader.item(row.task, "h", row.header["counts"].get("h", 0))
    if latest is None or latest.position != command.version:
        raise Conflict(row.task, expected=command.version, actual=row.version)
    stream = stream_of(row.task)
    record = reader.record(stream, command.version)
    if record is None or record.digest != command.digest:
        detail = "the command's digest is not that of the stored handoff"
        raise Conflict(row.task, expected=command.version, actual=row.version, detail=detail)
    check_head_record(reader, Head(stream, row.version, row.digest))
