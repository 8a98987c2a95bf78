"""Agent2Agent (A2A): a handoff as a data part under an extension, a gate as `input-required`.

`HandoffExecutor` is the receiving agent for a server of `a2a-sdk`; `handoff_message` is what a
client sends, and `read_handoff` reads the handoff in what comes back. An agent that doesn't know
the extension gets the text beside it. Needs `pip install 'passdown[a2a]'`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.shared import requires_extra
from passdown.core.schema import as_plain
from passdown.core.text import excerpt
from passdown.errors import (
    InvalidInput,
    NotFound,
    Problem,
    ProblemsError,
    raise_problems,
)
from passdown.tools import agent_name_of, hand_off, opening_text, waiting_gates
from passdown.tools.briefs import recording_workspace
from passdown.tools.payload import refusal_text

with requires_extra("a2a", "the A2A SDK is not installed"):
    from a2a import helpers
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.tasks import TaskUpdater
    from a2a.types import AgentExtension, Artifact, Message, Part, Role, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue

    from passdown.core.handoff import Handoff
    from passdown.core.results import Gate
    from passdown.core.types import JsonObject
    from passdown.tools.briefs import AnyWorkspace

    Work = Callable[[str, str], Any]
    Person = Callable[[RequestContext], str]

EXTENSION = "urn:passdown:a2a:handoff:1"
"""The extension: messages and artifacts that name it have a part with a handoff, or with gates."""
_ATTEMPTS = 3
_LATER = ("not_found", "human_gate")
"""Codes of problems that refuse no message: a missing task is created, and an open gate waits."""


def extension(*, required: bool = False) -> AgentExtension:
    """The extension as an agent card lists it under its capabilities."""
    about = "Structured handoffs as data parts; a gate for a person is input-required."
    return AgentExtension(uri=EXTENSION, description=about, required=required)


def handoff_part(handoff: Handoff | Mapping[str, Any], **task: Any) -> Part:
    """The data part of a handoff; `task` are fields that a receiver makes its task with, such as
    title and criteria.
    """
    return _part({"handoff": as_plain(handoff), **({"task": task} if task else {})})


def handoff_message(
    handoff: Handoff | Mapping[str, Any], *, text: str = "", context_id: str = "", **task: Any
) -> Message:
    """The message that hands a task off to another agent, with `text` for whoever doesn't know the
    extension, such as the brief. `task` is as of `handoff_part`.
    """
    return Message(
        role=Role.ROLE_USER,
        message_id=str(uuid.uuid4()),
        context_id=context_id,
        extensions=[EXTENSION],
        parts=[handoff_part(handoff, **task), *([helpers.new_text_part(text)] if text else [])],
    )


def answer_message(task: Task, gate: str, answer: str, *, reason: str = "") -> Message:
    """The message with a person's answer, approved or rejected, to a gate that a task waits for."""
    said = {"gate": gate, "answer": answer, "reason": reason}
    return Message(
        role=Role.ROLE_USER,
        message_id=str(uuid.uuid4()),
        task_id=task.id,
        context_id=task.context_id,
        extensions=[EXTENSION],
        parts=[_part({"answer": said})],
    )


def read_handoff(source: Message | Task | Artifact) -> JsonObject | None:
    """The newest handoff in a message, in an artifact, or in what an agent has made of a task."""
    return next((each["handoff"] for each in _found(source) if "handoff" in each), None)


def read_gates(source: Message | Task) -> list[JsonObject]:
    """The gates that a task waits for, each with its address (`gate`) and `question`."""
    status = source.status.message if isinstance(source, Task) else source
    found = [each["gates"] for each in _found(status) if "gates" in each]
    return found[0] if found else []


def _part(data: JsonObject) -> Part:
    part = helpers.new_data_part(data, media_type="application/json")
    part.metadata.update({"extension": EXTENSION})
    return part


def _found(source: Message | Task | Artifact) -> Iterator[JsonObject]:
    """The data of the parts that are marked with the extension, newest first."""
    holders: list[Any] = [source]
    if isinstance(source, Task):
        holders = [*reversed(source.artifacts)]
    for holder in holders:
        for part in cast("Iterable[Part]", holder.parts):
            if dict(part.metadata).get("extension") == EXTENSION:
                found = map(_whole, helpers.get_data_parts([part]))
                yield from (data for data in found if isinstance(data, dict))


def _whole(value: Any) -> Any:
    """A value with whole numbers as integers: the protocol sends every number as a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in cast("JsonObject", value).items()}
    if isinstance(value, list):
        return [_whole(part) for part in cast("list[Any]", value)]
    return value


class HandoffExecutor(AgentExecutor):
    """An agent behind A2A that takes tasks over, works on them, and hands them back.

    `work` gets what the agent is told (the brief) and the task's id, and gives the fields of its
    handoff; it may be a coroutine function. With problems it is called again with all of them, a
    few times. `person` gives the name of the person who sent a request, "" for none: only a person
    answers gates here. Without it they are answered in the workspace, and any message goes on.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        agent: str,
        work: Work,
        *,
        budget: int | None = None,
        person: Person | None = None,
    ) -> None:
        self.workspace = recording_workspace(workspace, "Handoffs over A2A")
        self.agent = agent_name_of(agent, "agent")
        self._work, self._budget, self._person = work, budget, person

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Take a handoff, or go on with the task of an earlier message."""
        message, known = context.message, context.current_task
        if message is None:
            raise InvalidInput("no message was sent", [_missing()])
        if known is None:
            await event_queue.enqueue_event(helpers.new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        try:
            given = await asyncio.to_thread(self._taken, context, message, known)
        except (ProblemsError, NotFound) as error:
            await updater.reject(updater.new_agent_message([helpers.new_text_part(str(error))]))
            return
        if await self._waits(updater, given["task"]):
            return
        made = len(known.artifacts) if known else 0
        if not made or await asyncio.to_thread(self._is_rejected, given["task"]):
            done = await self._done(updater, given, made)
            if done is None:
                return
            await updater.add_artifact([handoff_part(done)], name="handoff", extensions=[EXTENSION])
            if await self._waits(updater, given["task"]):
                return
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """End the request; what was recorded stays, and the task in the workspace is open."""
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    def _taken(self, context: RequestContext, message: Message, known: Task | None) -> JsonObject:
        """The handoff that a request is about, recorded; a task that isn't here yet is made."""
        found = [*_found(message)]
        sent: JsonObject = found[0] if found else {}
        earlier = [part for each in (known.history if known else ()) for part in _found(each)]
        handed: list[JsonObject] = [p["handoff"] for p in (sent, *earlier) if "handoff" in p]
        given: JsonObject = handed[0] if handed else {}
        problems = _shape_problems(sent) or ([] if given else [_missing()])
        raise_problems("the message is refused; nothing was recorded", problems)
        if "answer" in sent:
            self._answer(context, sent["answer"], str(given.get("task", "")))
        if sent.get("handoff"):
            self._record(sent, key=f"a2a-{message.message_id}")
        return given

    def _record(self, sent: JsonObject, key: str) -> None:
        handoff: JsonObject = {**sent["handoff"], "to_agent": self.agent}
        handoff.pop("expect_version", None)  # of the sender's own ledger
        task, sender = str(handoff.get("task", "")), str(handoff.get("from_agent", ""))
        # A faulty one leaves no task behind.
        faults = [p for p in self.workspace.check_handoff(handoff).problems if p.level == "error"]
        raise_problems("the handoff is refused", [p for p in faults if p.code not in _LATER])
        try:
            self.workspace.task(task)
        except NotFound:
            fields: JsonObject = {"title": task, **sent.get("task", {})}
            self.workspace.create_task(task, agent=sender, key=f"{key}-task", **fields)
        self.workspace.hand_off(handoff, key=key)

    def _answer(self, context: RequestContext, said: JsonObject, task: str) -> None:
        by, gate = self._person(context) if self._person else "", str(said.get("gate", ""))
        problems: list[Problem] = []
        if not by:
            message, expected = "gates are answered by people", "a person"
            problems.append(Problem("answer", "not_allowed", message, expected))
        if gate.partition("#")[0] != task:
            message = f"{excerpt(gate)!r} is no gate of {task}"
            problems.append(Problem("answer.gate", "not_found", message, f"a gate of {task}"))
        raise_problems("the answer is refused; nothing was changed", problems)
        is_yes = said.get("answer") == "approved"
        answer = self.workspace.approve if is_yes else self.workspace.reject
        answer(gate, by=by, reason=str(said.get("reason", "")))

    async def _waits(self, updater: TaskUpdater, task: str) -> bool:
        """Whether a person has to answer first; then the request requires input."""
        gates = await asyncio.to_thread(waiting_gates, self.workspace, task)
        if gates:
            await updater.requires_input(_question(updater, gates))
        return bool(gates)

    def _is_rejected(self, task: str) -> bool:
        return any(gate.status == "rejected" for gate in self.workspace.gates(task))

    async def _done(self, updater: TaskUpdater, given: JsonObject, made: int) -> JsonObject | None:
        """The agent's own handoff, recorded; None if it gave no valid one."""
        task, sender = given["task"], given["from_agent"]
        fixed: JsonObject = {"task": task, "from_agent": self.agent, "to_agent": sender}
        text = await asyncio.to_thread(
            opening_text, self.workspace, task, self.agent, budget=self._budget
        )
        await updater.start_work()
        for _ in range(_ATTEMPTS):
            found = self._work(text, task)
            fields: JsonObject = await found if inspect.isawaitable(found) else found
            key = f"a2a-{updater.task_id}-{made}"
            attempt = await asyncio.to_thread(hand_off, self.workspace, fields, key=key, **fixed)
            if attempt.command is not None:
                return {**fields, **fixed}
            text = refusal_text(attempt.problems)
        await updater.failed(updater.new_agent_message([helpers.new_text_part(text)]))
        return None


def _question(updater: TaskUpdater, gates: list[Gate]) -> Message:
    asked = [{"gate": gate.address, "question": gate.blocker} for gate in gates]
    lines = "\n".join(f"{each['gate']}: {each['question']}" for each in asked)
    message = updater.new_agent_message([_part({"gates": asked}), helpers.new_text_part(lines)])
    message.extensions.append(EXTENSION)
    return message


def _shape_problems(sent: JsonObject) -> list[Problem]:
    """What is wrong with a data part before its handoff is looked at."""
    named = [name for name in ("handoff", "task", "answer") if name in sent]
    found = [
        Problem(name, "wrong_type", f"{type(sent[name]).__name__} given", "an object")
        for name in named
        if not isinstance(sent[name], dict)
    ]
    fields: JsonObject = {} if found else sent.get("task", {})
    found += [
        Problem(f"task.{name}", "unknown_field", "the handoff says it", "to be left out")
        for name in ("task", "agent", "key")
        if name in fields
    ]
    return found


def _missing() -> Problem:
    expected = f"a data part with a handoff, marked {EXTENSION}"
    return Problem("parts", "no_handoff", "the message has no handoff", expected)
