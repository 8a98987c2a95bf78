"""Conversations between agents: one for each agent, peer and task, and the requests in them.

The stream in the ledger is the truth. Before each use a conversation reads what was added since,
by any process, and begins a new chapter where one is due.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.core.arguments import number_problems, raise_problems, text_type_problems
from passdown.core.kinds import CONVERSATION_STREAM
from passdown.core.names import agent_problems
from passdown.core.text import excerpt, text_problems
from passdown.core.times import parse_time
from passdown.core.tokens import counter_of
from passdown.errors import Conflict, InvalidInput, KeyReused, Problem
from passdown.relay.messages import (
    COMPACTED,
    EVERYONE,
    MAX_CONTENT,
    MESSAGE,
    RESET,
    Chapter,
    ConversationContext,
    Message,
    compact,
    context_tokens,
    conversation_stream,
    fold_context,
    message_of,
)
from passdown.relay.prompts import PromptSubject, Templates, minimal_text, system_text
from passdown.relay.run import APPROVALS, VERDICTS
from passdown.workspace.context import context_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from os import PathLike

    from passdown.core.record import Record
    from passdown.core.tokens import Count, Counter
    from passdown.relay.agents import Lease
    from passdown.relay.messages import ToolCall
    from passdown.workspace import Workspace

    Pairs = Collection[tuple[str, str]]
    Answer = Callable[[list[dict[str, Any]]], Message | str]
    UseTool = Callable[[ToolCall], str]
    Revise = Callable[[Message], str]

_LOG = logging.getLogger("passdown.relay")
OFF, ALL = "off", "all"
MIN_WINDOW = 256
MAX_REPLY_ROOM = 4_096


class TranscriptEntry(NamedTuple):
    """A message of a transcript: when, for which task, under which lease, in which chapter."""

    at: str
    task: str
    lease: int
    chapter: int
    message: Message


class Leases(Protocol):
    """Says which task an agent is assigned to."""

    def current_lease(self, agent: str, /) -> Lease | None:
        """The lease of an agent, or None."""
        ...


class Conversation:
    """The conversation of an agent with a peer; threads may share it.

    `turn` is held while a request waits for its answer, so that requests come one by one.
    """

    def __init__(self, owner: Conversations, peer: str) -> None:
        self.agent = owner.agent
        self.peer = peer
        self.turn = threading.RLock()
        self._owner = owner
        self._lock = threading.RLock()
        self._context = ConversationContext("")
        self._lease_read: dict[str, Any] | None = None

    def context(self, chapter: Chapter | None = None) -> ConversationContext:
        """What the agent sees now, or saw of a chapter; a chapter that is due is begun."""
        with self._lock:
            if chapter is None:
                return self._settled()
            stream, start = self._owned(chapter)
            records = self._owner.streams.records(stream)
            empty = ConversationContext(stream)
            return fold_context(empty, records, lambda record, _: record.position == start)

    def messages(self, chapter: Chapter | None = None) -> list[Message]:
        """The context as messages, within the window; raises InvalidInput if not even the last
        exchange fits.
        """
        context, owner = self.context(chapter), self._owner
        where = command_for(context.stream)
        return list(compact(context.messages(), owner.room, owner.tokens, where=where).messages)

    @property
    def where(self) -> str:
        """The command that shows all that was said about the task, also what no longer fits."""
        return command_for(self.context().stream)

    def tokens(self, messages: list[Message]) -> int:
        """The number of tokens of some messages."""
        return context_tokens(messages, self._owner.tokens)

    def document(self) -> dict[str, Any]:
        """The context as plain JSON; `messages.context_of` reads it back."""
        return self.context().document()

    def add(
        self, message: Message | dict[str, Any], *, chapter: Chapter | None = None, key: str = ""
    ) -> Chapter:
        """Record a message, in the current chapter or a given one; returns the chapter.

        With `key`, a repeat is recorded once. Raises InvalidInput for an invalid message, or one
        whose author isn't part of this conversation.
        """
        checked = self._signed(message_of(message))
        with self._lock:
            at = self._settled().chapter if chapter is None else self._owned(chapter)
            body = {"chapter": at.start, "message": checked.document()}
            entry = StreamEntry(at.stream, MESSAGE, checked.by or self.agent, body, key)
            try:
                self._owner.streams.add(entry)
            except KeyReused:
                known = self.keyed(key, at)
                if known is None or known[1] != checked:
                    raise
                at = known[0]  # recorded before, in an earlier chapter
            current = self._read(at.stream, self._lease_read)
            if at == current.chapter:
                self._compact(current)
        return at

    def begin_again(self, why: str, key: str = "") -> Chapter:
        """Empty the context: `setup` (only for a peer with a task) or `asked`.

        Nothing is written if nothing was said since the last time, or with `key` for a repeat.
        """
        with self._lock:
            return self._settled(why, key).chapter

    def keyed(self, key: str, chapter: Chapter) -> tuple[Chapter, Message] | None:
        """The message with a key about the task of a chapter, and its chapter."""
        stream = self._owned(chapter).stream
        record = self._owner.streams.keyed(stream, key)
        if record is None or record.kind != MESSAGE:
            return None
        body = record.document()
        return Chapter(stream, body["chapter"]), message_of(body["message"])

    def transcript(self, task: str = "") -> list[TranscriptEntry]:
        """All messages ever, across resets and compactions: of a task or of all."""
        streams, end = self._owner.streams, f"/{self.agent}/{self.peer}"
        prefix = f"{CONVERSATION_STREAM}{task}/" if task else CONVERSATION_STREAM
        own = (head.stream for head in streams.streams(prefix) if head.stream.endswith(end))
        found = [said for stream in own for said in _transcript(stream, streams.records(stream))]
        return [said for _, said in sorted(found, key=lambda each: each[0])]

    def _settled(self, asked: str = "", key: str = "") -> ConversationContext:
        """The context after every chapter that is due has begun."""
        while True:
            lease = self._lease()
            stream = conversation_stream(self.agent, self.peer, lease.task if lease else "")
            context = self._read(stream, lease and lease.document())
            why = self._due(context, lease, asked, is_keyed=bool(key))
            if self._lease() != lease:
                continue  # what was read may be of an earlier lease
            if not why:
                return context
            try:
                self._begin(context, lease, why, key if why == asked else "")
            except Conflict:
                continue
            asked = ""

    def _due(
        self, context: ConversationContext, lease: Lease | None, asked: str, *, is_keyed: bool
    ) -> str:
        """Why a chapter has to begin: because it was asked for, unless the context is empty, or in
        any case; "" if none has to.
        """
        is_empty = bool(context.start) and context.is_fresh and not is_keyed
        if asked and not is_empty and (lease or asked != "setup"):
            return asked
        if not context.start:
            return "lease" if lease else "first"
        if not self._owner.max_age_s:
            return ""
        age = self._owner.streams.now() - parse_time(context.begun_at)
        return "age" if age.total_seconds() > self._owner.max_age_s else ""

    def _begin(self, context: ConversationContext, lease: Lease | None, why: str, key: str) -> None:
        """Begin a chapter: the only place where a context is emptied.

        Raises Conflict if something was added meanwhile. Earlier messages stay recorded.
        """
        system, fault = self._owner.system_message(self.peer, lease)
        body: dict[str, Any] = {"lease": lease and lease.document(), "why": why, "system": system}
        body |= {"fault": fault} if fault else {}
        entry = StreamEntry(context.stream, RESET, self.agent, body, key, expect=context.position)
        try:
            (record,) = self._owner.streams.add(entry)
        except KeyReused:
            return  # this reset was done before, with another system message
        if record.position > context.position:
            fields = {"stream": context.stream, "why": why, "fault": fault}
            _LOG.info("%s: new chapter (%s)", context.stream, why, extra=fields)
            if fault:
                message = "%s has no full system message: %s"
                _LOG.warning(message, context.stream, fault, extra=fields)

    def _compact(self, context: ConversationContext) -> None:
        """Leave out the oldest messages if the context is too long; they stay recorded."""
        owner, messages, where = self._owner, context.messages(), command_for(context.stream)
        try:
            found = compact(messages, owner.room, owner.tokens, owner.summarise, where=where)
        except InvalidInput:
            return  # the message is recorded; reading the messages raises this error
        if not found.dropped:
            return
        kept_from = context.entries[found.dropped][0]
        body = {"chapter": context.start, "kept_from": kept_from, "summary": found.summary}
        entry = StreamEntry(context.stream, COMPACTED, self.agent, body, expect=context.position)
        try:
            owner.streams.add(entry)
        except Conflict:
            return  # another process continues it; the next message tries again
        fields = {"stream": context.stream, "dropped": found.dropped, "kept_from": kept_from}
        _LOG.info("%s: %d messages compacted", context.stream, found.dropped, extra=fields)

    def _signed(self, message: Message) -> Message:
        """A message with its author, who must be one of the two."""
        names = {"user": self.peer, "assistant": self.agent}
        expected = names.get(message.role, message.by)
        problems: list[Problem] = []
        if message.role == "system":
            where, fix = "message.role", "reset the conversation"
            problems = [Problem(where, "not_allowed", "only a reset adds one", "another", fix)]
        elif expected == EVERYONE and not message.by:
            problems = [Problem("message.by", "empty", "is missing", "the sender")]
        elif expected != EVERYONE and message.by not in ("", expected):
            shown = f"{message.by!r} isn't part of this conversation"
            problems = [Problem("message.by", "other_author", shown, expected)]
        raise_problems("the message is refused; nothing was recorded", problems)
        return message if expected == EVERYONE else message._replace(by=expected)

    def _lease(self) -> Lease | None:
        return None if self.peer == EVERYONE else self._owner.lease_of(self.peer)

    def _read(self, stream: str, lease: dict[str, Any] | None) -> ConversationContext:
        """The context of a lease with everything that was added, by any process.

        Runs at the same time on one task have a chapter each.
        """
        is_known = (self._context.stream, self._lease_read) == (stream, lease)
        old = self._context if is_known else ConversationContext(stream)
        records = self._owner.streams.records(stream, old.position)
        self._context = fold_context(old, records, lambda _, body: _is_same(body["lease"], lease))
        self._lease_read = lease
        return self._context

    def _owned(self, chapter: Chapter) -> Chapter:
        if chapter.stream.endswith(f"/{self.agent}/{self.peer}") and chapter.start > 0:
            return chapter
        problem = Problem("chapter", "not_found", f"{chapter.stream}@{chapter.start}", "its own")
        raise InvalidInput("the chapter belongs to another conversation", [problem])


def command_for(stream: str) -> str:
    """The command that shows a conversation."""
    return f"passdown show {shlex.quote(stream)}"


def _is_same(known: dict[str, Any] | None, lease: dict[str, Any] | None) -> bool:
    """Whether two leases share chapters: one that a run gets again when it is resumed, or asked
    after its end, continues what was said before.
    """
    if not known or not lease or not lease["run"]:
        return known == lease
    return all(known[name] == lease[name] for name in ("task", "run"))


def _transcript(stream: str, records: list[Record]) -> Iterator[tuple[int, TranscriptEntry]]:
    """The entries of a stream, each with its position in the whole store."""
    task = stream.removeprefix(CONVERSATION_STREAM).partition("/")[0]
    leases: dict[int, int] = {}
    for record in records:
        body = record.document()
        if record.kind == RESET:
            leases[record.position] = body["lease"]["number"] if body["lease"] else 0
            chapter, message = record.position, Message("system", body["system"])
        elif record.kind == MESSAGE:
            chapter, message = body["chapter"], message_of(body["message"])
        else:
            continue
        said = TranscriptEntry(record.at, task, leases.get(chapter, 0), chapter, message)
        yield record.seq, said


class Conversations:
    """The conversations of one agent, one for each peer; threads may share it.

    `window` is the model's, in tokens (0: the workspace's); `reply_room` of it stays free for an
    answer and `margin` for counting errors. `summary` makes a text of the messages that no longer
    fit. `templates` is a folder whose files replace the built-in ones (default: `templates` in the
    workspace's folder). `sharing`: `off` gives each peer its own context, `all` one to all of them,
    pairs of (agent, peer) their own to these only. With `has_brief`, requests come with a brief,
    and the system message leaves out what that says.
    """

    def __init__(
        self,
        workspace: Workspace,
        agent: str,
        *,
        leases: Leases,
        templates: str = "",
        profile: str = "",
        role: str = "",
        rules: str = "",
        spec: str | PathLike[str] = "",
        window: int = 0,
        reply_room: int | None = None,
        margin: int | None = None,
        counter: str | Count | Counter | None = None,
        max_age_hours: float = 0,
        sharing: str | Pairs = OFF,
        summary: Callable[[list[Message]], str] | None = None,
        has_brief: bool = False,
    ) -> None:
        self.streams = WorkspaceStreams(workspace)
        settings = context_of(workspace).settings
        window = window or settings.window
        reply_room = min(MAX_REPLY_ROOM, window // 4) if reply_room is None else reply_room
        margin = window // 50 if margin is None else margin
        problems = agent_problems(agent, "agent") + text_type_problems(role=role, rules=rules)
        is_number = isinstance(max_age_hours, int | float) and not isinstance(max_age_hours, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or not 0 <= max_age_hours < 1e9:
            shown, expected = repr(max_age_hours)[:40], "0 (no limit) or more"
            problems.append(Problem("max_age_hours", "out_of_range", shown, expected))
        problems += _sharing_problems(sharing) + _window_problems(window, reply_room, margin)
        raise_problems("the options are invalid", problems)
        own = os.path.join(context_of(workspace).place.home, "templates")
        self.agent = agent
        self.templates = Templates(templates or (own if os.path.isdir(own) else ""))
        self._workspace = workspace
        self._about = PromptSubject(agent, "", "", role, rules, spec, profile, has_brief)
        self._sharing = sharing if isinstance(sharing, str) else frozenset(sharing)
        self._counter = counter_of(counter, settings.counter)
        self._open: dict[str, Conversation] = {}
        self._lock = threading.Lock()
        self.room = window - reply_room - margin
        self.tokens = lru_cache(1_024)(self._counter.tokens)
        self.max_age_s = max_age_hours * 3_600
        self._summary = summary
        self.lease_of = leases.current_lease

    def summarise(self, messages: list[Message]) -> str:
        """The caller's summary of some messages; "" gives the built-in one, as after a failure."""
        try:
            return str(self._summary(messages) or "") if self._summary else ""
        except Exception as error:  # noqa: BLE001 - the message is recorded all the same
            shown = f"{type(error).__name__}: {excerpt(str(error), 200)}"
            _LOG.warning("the summary function failed: %s", shown, extra={"fault": shown})
            return ""

    def with_peer(self, peer: str) -> Conversation:
        """The conversation with a peer, always the same object; a chapter that is due is begun."""
        conversation = self._conversation(peer)
        conversation.context()
        return conversation

    def entered_setup(self, peer: str, *, key: str = "") -> Chapter:
        """Empty the context of a peer that has entered SETUP.

        Nothing happens for a peer without a task, or to a shared context. With `key`, a repeat
        changes nothing.
        """
        return self._conversation(peer).begin_again("setup", key)

    def reset(self, peer: str, *, key: str = "") -> Chapter:
        """Empty the context of a peer, with or without a task."""
        return self._conversation(peer).begin_again("asked", key)

    def task_of(self, peer: str) -> str:
        """The task of a peer's lease; "" for none."""
        lease = self.lease_of(_checked_peer(peer))
        return lease.task if lease else ""

    def has_own(self, peer: str) -> bool:
        """Whether a peer has its own context."""
        if isinstance(self._sharing, str):
            return self._sharing == OFF
        return (self.agent, peer) in self._sharing

    def _conversation(self, peer: str) -> Conversation:
        name = EVERYONE if not self.has_own(_checked_peer(peer)) else peer
        with self._lock:
            if name not in self._open:
                self._open[name] = Conversation(self, name)
            return self._open[name]

    def system_message(self, peer: str, lease: Lease | None) -> tuple[str, str]:
        """The system message for a peer, and the error that made it minimal, if any."""
        name = "all other agents" if peer == EVERYONE else peer.replace("_and_", " and ")
        about = self._about._replace(peer=name, task=lease.task if lease else "")
        most = self.room // 2
        try:
            text = system_text(self._workspace, self.templates, about, self._counter, most)
        except Exception as error:  # noqa: BLE001 - the old context must go in any case
            return minimal_text(about), f"{type(error).__name__}: {excerpt(str(error), 1_000)}"
        return (text, "") if text else (minimal_text(about), "the template is empty")


def _checked_peer(peer: str) -> str:
    raise_problems("the sender is invalid", agent_problems(peer, "sender"))
    return peer


def _window_problems(window: int, reply_room: int, margin: int) -> list[Problem]:
    problems = number_problems(window, "window", MIN_WINDOW)
    problems += [] if problems else number_problems(reply_room, "reply_room", 0, window)
    problems += [] if problems else number_problems(margin, "margin", 0, window)
    if problems or window - reply_room - margin >= window // 4:
        return problems
    left = f"{window - reply_room - margin:,} tokens are left for a context"
    return [Problem("window", "too_small", left, "a quarter of it or more")]


def _sharing_problems(sharing: str | Pairs) -> list[Problem]:
    expected = f"{OFF}, {ALL} or pairs of (agent, peer)"
    if isinstance(sharing, str):
        shown = f"{excerpt(sharing)!r}"
        is_known = sharing in (OFF, ALL)
        return [] if is_known else [Problem("sharing", "invalid_choice", shown, expected)]
    # A string is a collection too: ("architect", "coder-1") instead of a set of pairs.
    return [
        Problem(f"sharing[{index}]", "wrong_type", repr(pair)[:40], "(agent, peer)")
        for index, pair in enumerate(sharing)
        if isinstance(pair, str) or len(pair) != 2
    ]


REVIEWS = {
    "plan": "plan_review",
    "code": "code_review",
    "completion": "completion",
    "budget": "budget_review",
}
"""The kinds of reviews and their templates."""
FINAL = ("approved", "rejected", *VERDICTS)
"""The verdicts that end an approval; `changes` asks for another round."""
UNDECIDED = "undecided"
MAX_ROUNDS = 100
_REFUSED = "the request is refused; nothing was recorded"
_NO_TOOLS = "No tools are available; answer from what you know."
_WORD = re.compile(r"[\s*_#>\"'`-]{0,20}([A-Za-z]{1,20})\b")


class QuestionResult(NamedTuple):
    """The answer to a question after some rounds; not `is_final` if it still called tools."""

    message: Message
    rounds: int
    is_final: bool


class Approval(NamedTuple):
    """The result of an approval: a final verdict, or `undecided`; with the last answer."""

    verdict: str
    message: Message
    rounds: int


def review(
    conversations: Conversations,
    sender: str,
    kind: str,
    content: str,
    answer: Answer,
    *,
    task: str = "",
    key: str = "",
) -> Message:
    """Request one review: of a `plan`, `code`, `completion` or `budget`; returns the answer.

    `answer` is called once, with the sender's whole context. A `task` other than that of the
    sender's lease is refused. With `key`, a repeat returns the recorded answer.
    """
    found = approve(conversations, sender, kind, content, answer, rounds=1, task=task, key=key)
    return found.message


def ask(
    conversations: Conversations,
    sender: str,
    content: str,
    answer: Answer,
    *,
    use_tool: UseTool | None = None,
    rounds: int = 8,
    task: str = "",
    key: str = "",
) -> QuestionResult:
    """Ask a question. While the answer calls tools, they are used and it is asked again."""
    raise_problems(_REFUSED, number_problems(rounds, "rounds", 1, MAX_ROUNDS))
    request = _AgentRequest(conversations, sender, "question", task, key)
    with request.conversation.turn:
        request.put(content, 1)
        done, message = 1, request.answered(answer, use_tool, 1)
        while message.tool_calls and done < rounds:
            done += 1
            message = request.answered(answer, use_tool, done)
    return QuestionResult(message, done, not message.tool_calls)


def approve(
    conversations: Conversations,
    sender: str,
    kind: str,
    content: str,
    answer: Answer,
    *,
    revise: Revise | None = None,
    rounds: int = 3,
    task: str = "",
    key: str = "",
) -> Approval:
    """Request reviews until the verdict is final: `revise` turns an answer into the next request,
    or "" to give up.
    """
    raise_problems(_REFUSED, number_problems(rounds, "rounds", 1, MAX_ROUNDS))
    if kind not in REVIEWS:
        shown = f"{excerpt(str(kind))!r}"
        problem = Problem("kind", "invalid_choice", shown, " | ".join(REVIEWS))
        raise InvalidInput("unknown kind of review", [problem])
    request = _AgentRequest(conversations, sender, REVIEWS[kind], task, key)
    done = 0
    with request.conversation.turn:
        while True:
            done += 1
            request.put(content, done)
            message = request.answered(answer, None, done)
            verdict = verdict_of(message.content)
            if verdict in FINAL:
                return Approval(verdict, message, done)
            content = revise(message) if revise and done < rounds else ""
            if not content:
                return Approval(UNDECIDED, message, done)


def verdict_of(text: str) -> str:
    """The verdict at the start of an answer, in lower case; "" if there is none."""
    found = _WORD.match(text)
    word = found[1].lower() if found else ""
    return word if word in (*APPROVALS, *VERDICTS) else ""


class _AgentRequest:
    """A request in progress."""

    def __init__(
        self, conversations: Conversations, sender: str, template: str, task: str, key: str
    ) -> None:
        while True:
            self._task = conversations.task_of(sender)
            if task and task != self._task:
                shown, own = f"the request says {excerpt(task)!r}", self._task
                expected = f"{own}, as in the lease" if own else "no task: there is no lease"
                problem = Problem("task", "other_task", shown, expected)
                raise InvalidInput(_REFUSED, [problem])
            self.conversation = conversations.with_peer(sender)
            self.chapter = self.conversation.context().chapter
            # The lease may have changed between the two reads.
            own = conversation_stream(conversations.agent, sender, self._task)
            if self.chapter.stream == own or not conversations.has_own(sender):
                break
        self._templates = conversations.templates
        self._sender = sender
        self._template = template
        self._key = key

    def put(self, content: str, done: int) -> None:
        """Add the request as the sender's message.

        Further rounds stay in the chapter of the first, even if the sender has moved on.
        """
        raise_problems(_REFUSED, text_problems(content, "content", max_length=MAX_CONTENT))
        agent = self.conversation.agent
        values = {"content": content, "agent": agent, "peer": self._sender, "task": self._task}
        message = Message("user", self._templates.render(self._template, values), self._sender)
        key = self._named(done, "request")
        self.chapter = self.conversation.add(message, chapter=self.chapter, key=key)

    def answered(self, answer: Answer, use_tool: UseTool | None, done: int) -> Message:
        """Get the answer, record it, and add a result for each tool call."""
        chapter, key = self.chapter, self._named(done, "reply")
        known = self.conversation.keyed(key, chapter) if key else None
        if known:
            message = known[1]
        else:
            given = answer([m.document() for m in self.conversation.messages(chapter)])
            said = Message("assistant", given) if isinstance(given, str) else given
            message = message_of(said)._replace(by=self.conversation.agent)
            self.conversation.add(message, chapter=chapter, key=key)
        for index, call in enumerate(message.tool_calls):
            self._used(call, use_tool, self._named(done, f"tool/{index}"))
        return message

    def _used(self, call: ToolCall, use_tool: UseTool | None, key: str) -> None:
        if key and self.conversation.keyed(key, self.chapter):
            return
        try:
            text = str(use_tool(call)) if use_tool else _NO_TOOLS
        except Exception as error:  # noqa: BLE001 - every call needs a result
            text = f"The tool failed: {type(error).__name__}: {excerpt(str(error), 500)}"
        try:
            result = message_of(Message("tool", text, tool_call_id=call.id))
        except InvalidInput as error:
            failure = f"The result of the tool can't be recorded: {error.problems[0].line()}"
            result = Message("tool", failure, tool_call_id=call.id)
        self.conversation.add(result, chapter=self.chapter, key=key)

    def _named(self, done: int, part: str) -> str:
        return f"{self._key}/{done}/{part}" if self._key else ""
