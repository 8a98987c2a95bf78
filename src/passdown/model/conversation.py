"""What is said in a conversation, and what its agent sees of it. Pure.

A conversation stands in the ledger as records of three kinds: `reset` begins a *chapter* with a
system message, `message` adds to a chapter, `compacted` says from where on a chapter is still
shown. The fold here gives the context: what the agent sees now. Records of earlier chapters stay
where they are and are never part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.canonical import canonical_bytes
from passdown.model.kinds import CONVERSATION_STREAM, WORKSPACE_TASK
from passdown.model.names import agent_problems
from passdown.model.text import excerpt, text_problems

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.record import Record

Document = dict[str, Any]

ROLES = ("system", "user", "assistant", "tool")
MAX_CONTENT = 1_000_000
RESET, MESSAGE, COMPACTED = "reset", "message", "compacted"
EVERYONE = "*"
"""The peer of a context that several peers share; no agent can be called so."""
SUMMARY_BY = "summary"
"""The author of the system message that stands for what a context no longer shows."""


class Leased(Protocol):
    """What a conversation asks of a lease: that an agent is on a task, for the nth time."""

    @property
    def task(self) -> str:
        """The task that the agent is on."""
        ...

    @property
    def number(self) -> int:
        """Which lease it is; a later one has a higher number."""
        ...

    @property
    def run(self) -> str:
        """The run that it belongs to; empty outside of one."""
        ...


class ToolCall(NamedTuple):
    """A tool that the answering agent wants used; `arguments` are a JSON object or its text."""

    id: str
    name: str
    arguments: Any = ""


class Message(NamedTuple):
    """One thing said. `by` is its author's name; `tool_call_id` the call that a result answers."""

    role: str
    content: str
    by: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def document(self) -> Document:
        """The message as a plain JSON object, without what is empty."""
        document: Document = {"role": self.role, "content": self.content}
        if self.by:
            document["by"] = self.by
        if self.tool_calls:
            document["tool_calls"] = [call._asdict() for call in self.tool_calls]
        if self.tool_call_id:
            document["tool_call_id"] = self.tool_call_id
        return document


def message_of(given: object, path: str = "message") -> Message:
    """The message that a document spells, or a message itself, checked.

    Raises InvalidInput with every problem.
    """
    if isinstance(given, Message):
        given = given.document()
    problems: list[Problem] = []
    if isinstance(given, dict):
        document = cast("Document", given)
        extra = [name for name in document if name not in Message._fields]
        problems += [
            Problem(f"{path}.{excerpt(str(name))}", "unknown_field", "is no part of a message")
            for name in extra
        ]
        values: Document = {"role": "", "content": ""}
        values |= {name: document[name] for name in Message._fields if name in document}
        values["tool_calls"] = _calls(values.get("tool_calls", ()), f"{path}.tool_calls", problems)
        message = Message(**values)
        problems += _message_problems(message, path)
    else:
        problems = [Problem(path, "wrong_type", f"{type(given).__name__} given", "a message")]
        message = Message("", "")
    if problems:
        raise InvalidInput("the message is refused; nothing was recorded", problems)
    return message


def _calls(given: object, path: str, problems: list[Problem]) -> tuple[ToolCall, ...]:
    if not isinstance(given, list | tuple):
        problems.append(Problem(path, "wrong_type", f"{type(given).__name__} given", "a list"))
        return ()
    found: list[ToolCall] = []
    for index, each in enumerate(cast("list[object]", given)):
        fields = each._asdict() if isinstance(each, ToolCall) else each
        call = cast("Document", fields) if isinstance(fields, dict) else {}
        names = set(call)
        if not {"id", "name"} <= names <= set(ToolCall._fields):
            expected = "id, name and arguments"
            problems.append(Problem(f"{path}[{index}]", "wrong_type", "is no tool call", expected))
            continue
        found.append(ToolCall(**call))
    return tuple(found)


def _message_problems(message: Message, path: str) -> list[Problem]:
    found: list[Problem] = []
    if message.role not in ROLES:
        shown = f"{excerpt(str(message.role))!r}"
        found.append(Problem(f"{path}.role", "invalid_choice", shown, " | ".join(ROLES)))
    needs_text = message.role != "tool" and not message.tool_calls
    found += text_problems(
        message.content, f"{path}.content", required=needs_text, max_length=MAX_CONTENT
    )
    found += agent_problems(message.by, f"{path}.by") if message.by else []
    if message.tool_calls and message.role != "assistant":
        where = f"{path}.tool_calls"
        found.append(Problem(where, "not_allowed", "only an assistant calls tools", "none"))
    if message.role == "tool" or message.tool_call_id:
        found += _result_problems(message, f"{path}.tool_call_id")
    ids = [call.id for call in message.tool_calls]
    for index, call in enumerate(message.tool_calls):
        found += _call_problems(call, ids[:index], f"{path}.tool_calls[{index}]")
    return found


def _result_problems(message: Message, path: str) -> list[Problem]:
    if message.role != "tool":
        return [Problem(path, "not_allowed", "only a tool's result answers a call", "none")]
    return text_problems(message.tool_call_id, path, max_length=256)


def _call_problems(call: ToolCall, before: list[str], path: str) -> list[Problem]:
    found = text_problems(call.id, f"{path}.id", max_length=256)
    found += text_problems(call.name, f"{path}.name", max_length=256)
    if call.id in before:
        found.append(Problem(f"{path}.id", "duplicate", "is used twice", "an id of its own"))
    return found + _argument_problems(call.arguments, f"{path}.arguments")


def _argument_problems(arguments: object, path: str) -> list[Problem]:
    if not isinstance(arguments, dict | str):
        given = f"{type(arguments).__name__} given"
        return [Problem(path, "wrong_type", given, "a JSON object or its text")]
    try:
        canonical_bytes(cast("object", arguments))
    except InvalidInput as error:
        return [p._replace(path=f"{path}.{p.path}" if p.path else path) for p in error.problems]
    return []


def conversation_stream(agent: str, peer: str, task: str = "") -> str:
    """The stream of an agent's conversation with a peer about a task; without one, about work."""
    return f"{CONVERSATION_STREAM}{task or WORKSPACE_TASK}/{agent}/{peer}"


class Chapter(NamedTuple):
    """One stretch of a conversation, from a reset to the next: its stream and that reset's place.

    What is added to a chapter stays in it, also when the next one has begun meanwhile.
    """

    stream: str
    start: int


class Context(NamedTuple):
    """What an agent sees of a conversation at one position of its stream.

    `lease` is 0 for a conversation without a task. `entries` are the messages still shown, each
    with its position; `summary` stands for those that aren't. `start` 0: nothing began yet.
    """

    stream: str
    start: int = 0
    position: int = 0
    lease: int = 0
    begun_at: str = ""
    system: str = ""
    summary: str = ""
    entries: tuple[tuple[int, Message], ...] = ()

    @property
    def chapter(self) -> Chapter:
        """The chapter that the context shows."""
        return Chapter(self.stream, self.start)

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was said since the chapter began."""
        return not self.entries and not self.summary

    def messages(self) -> list[Message]:
        """The system message, the summary where there is one, and what was said since."""
        head = [Message("system", self.system)] if self.start else []
        summary = [Message("system", self.summary, SUMMARY_BY)] if self.summary else []
        return [*head, *summary, *(message for _, message in self.entries)]

    def document(self) -> Document:
        """The context as plain JSON; `context_of` gives an equal one back."""
        entries = [{"position": at, **message.document()} for at, message in self.entries]
        return {**self._asdict(), "entries": entries}


def context_of(document: Document) -> Context:
    """The context that `Context.document` wrote; raises InvalidInput for anything else."""
    given = dict(document)
    try:
        entries = [dict(entry) for entry in given.pop("entries")]
        found = tuple((int(entry.pop("position")), message_of(entry)) for entry in entries)
        return Context(**given, entries=found)
    except (KeyError, TypeError, AttributeError) as error:
        problem = Problem("", "wrong_type", excerpt(str(error), 120), "what document() gives")
        raise InvalidInput("this is no conversation", [problem]) from error


def after(context: Context, records: Iterable[Record], only: int = 0) -> Context:
    """The context once further records of its stream are read.

    With `only`, the chapter that began there is shown, whatever began after it.
    """
    entries = list(context.entries)
    for record in records:
        body = record.document()
        context = context._replace(position=record.position)
        if record.kind == RESET and only in (0, record.position):
            context = _begun(context, record, body)
            entries = []
        elif record.kind in (MESSAGE, COMPACTED) and body["chapter"] == context.start:
            if record.kind == MESSAGE:
                entries.append((record.position, _stored(body["message"])))
            else:
                context = context._replace(summary=body["summary"])
                entries = [entry for entry in entries if entry[0] >= body["kept_from"]]
    return context._replace(entries=tuple(entries))


def _stored(document: Document) -> Message:
    """A message as it was recorded: it was checked then, and rules may have changed since."""
    values = dict(document)
    values["tool_calls"] = tuple(ToolCall(**call) for call in document.get("tool_calls", ()))
    return Message(**values)


def _begun(context: Context, record: Record, body: Document) -> Context:
    number = body["lease"]["number"] if body["lease"] else 0
    return context._replace(
        start=record.position,
        lease=number,
        begun_at=record.at,
        system=body["system"],
        summary="",
    )
