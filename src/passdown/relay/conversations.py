"""Conversations between agents: prompt templates, one conversation per peer and task, requests.

The stream in the ledger is the truth. Before each use a conversation reads what was added since,
by any process, and begins a new chapter where one is due.
"""

from __future__ import annotations

import logging
import os
import os.path
import re
import threading
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.core.arguments import number_problems, text_type_problems
from passdown.core.kinds import CONVERSATION_STREAM
from passdown.core.names import agent_problems
from passdown.core.text import excerpt, text_problems, visible
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
    message_tokens,
    shortened_to,
)
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from os import PathLike

    from passdown.core.record import Record
    from passdown.core.tokens import Count, Counter
    from passdown.relay.agent_states import Lease
    from passdown.relay.messages import ToolCall
    from passdown.workspace import Workspace


KNOWLEDGE_TOKENS = 1_500
SPEC_TOKENS = 4_000
MAX_TEMPLATE_BYTES = 262_144
MAX_SPEC_BYTES = 1_048_576
REQUESTS = ("plan_review", "code_review", "completion", "question", "budget_review")
_ABOUT = "agent peer profile role rules task title description criteria spec knowledge"
PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "system": tuple(_ABOUT.split()),
    "leg": tuple("agent agents task phase brief request guidance before example".split()),
    **dict.fromkeys(REQUESTS, ("content", "agent", "peer", "task")),
}
"""The placeholders of each template."""

_NONE = "(none)"
_PLACEHOLDER = re.compile(r"\{\{([^{}\n]{0,80})\}\}")


class Templates:
    """The built-in templates, each replaced by the file of the same name in the user's folder, if
    any. Files are read when they are used.

    A template has placeholders such as `{{name}}` and no other syntax. Values are inserted once and
    as they are.
    """

    def __init__(self, folder: str = "") -> None:
        if folder and not os.path.isdir(folder):
            problem = Problem("templates", "not_found", f"{excerpt(folder, 200)!r}", "a folder")
            raise InvalidInput("the folder of templates was not found", [problem])
        self.folder = folder

    def file(self, name: str) -> str:
        """The path of a template."""
        own = os.path.join(self.folder, f"{name}.md")
        if self.folder and os.path.lexists(own):
            return own
        return os.path.join(os.path.dirname(__file__), "templates", f"{name}.md")

    def render(self, name: str, values: Mapping[str, str]) -> str:
        """A template with its values; raises InvalidInput with every problem."""
        text, problems = self._read(name)
        if problems:
            raise InvalidInput("the template is invalid", problems, next_step="Fix the file.")
        return _PLACEHOLDER.sub(lambda found: values[found[1].strip()], text).strip()

    def problems(self) -> list[Problem]:
        """The problems of all templates."""
        return [problem for name in PLACEHOLDERS for problem in self._read(name)[1]]

    def _read(self, name: str) -> tuple[str, list[Problem]]:
        path = self.file(name)
        try:
            text = _file_text(path, MAX_TEMPLATE_BYTES)
        except (OSError, ValueError) as error:
            shown = excerpt(str(error), 200)
            return "", [Problem(excerpt(path, 200), "unreadable_file", shown, "a text file")]
        return text, _text_problems(text, PLACEHOLDERS[name], excerpt(path, 200))


def _text_problems(text: str, known: tuple[str, ...], path: str) -> list[Problem]:
    """Unknown and unclosed placeholders."""
    found: list[Problem] = []
    places: list[str] = _PLACEHOLDER.findall(text)
    for name in dict.fromkeys(place.strip() for place in places):
        if name not in known:
            close = get_close_matches(name, known, 1, 0.6)
            fix = f"did you mean {{{{{close[0]}}}}}?" if close else ""
            message = f"{{{{{excerpt(name)}}}}} is not a placeholder of this template"
            found.append(Problem(path, "unknown_placeholder", message, " | ".join(known), fix))
    rest = _PLACEHOLDER.sub("", text)
    for open_at in re.finditer(r"\{\{[^\n]{0,40}", rest):
        message = f"{excerpt(open_at[0])!r} is not closed"
        found.append(Problem(path, "unknown_placeholder", message, "{{name}}"))
    return found


def _file_text(path: str, most: int) -> str:
    if not os.path.isfile(path):
        raise ValueError("is not a regular file")
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most:,} bytes")
    return data.decode("utf-8-sig")


class PromptSubject(NamedTuple):
    """The participants and the subject of a system message. `spec` is a text, a file, or a folder
    with a file TASK.md for each task.
    """

    agent: str
    peer: str
    task: str
    role: str = ""
    rules: str = ""
    spec: str | os.PathLike[str] = ""
    profile: str = ""


def system_text(
    workspace: Workspace, templates: Templates, about: PromptSubject, counter: Counter, most: int
) -> str:
    """The system message for an agent that talks with a peer about a task, within `most` tokens.

    Raises whatever prevents it: an invalid template, an unknown task.
    """
    profile = workspace.context.profile(about.profile or about.agent)
    task = workspace.task(about.task).to_dict() if about.task else {}
    knowledge = ""
    if about.task:
        knowledge = workspace.knowledge.pack(
            about.task, budget=KNOWLEDGE_TOKENS, counter=counter
        ).text
    values = {
        "agent": about.agent,
        "peer": about.peer,
        "profile": profile.text.strip() if profile else "",
        "role": about.role,
        "rules": about.rules,
        "task": about.task or "the project as a whole",
        "title": visible(" ".join(str(task.get("title", _NONE)).split())),
        "description": fenced(str(task.get("description") or "")),
        "criteria": fenced("\n".join(f"- {each}" for each in task.get("criteria") or ())),
        "spec": fenced(_spec(about, task, counter)),
        "knowledge": fenced(knowledge),
    }
    text = templates.render("system", values)
    whole = f"passdown state {about.task}" if about.task else templates.file("system")
    return shortened_to(text, most, counter, whole)


def minimal_text(about: PromptSubject) -> str:
    """The system message if no other can be made."""
    what = f"the task {about.task}" if about.task else "the project as a whole"
    return f"You are {about.agent}. You talk with {about.peer} about {what}."


def fenced(text: str) -> str:
    """A text in a fence of backticks longer than any in it."""
    if not text.strip():
        return _NONE
    longest = max((len(run) for run in _backticks().findall(text)), default=0)
    row = "`" * max(3, longest + 1)
    return f"{row}\n{text.strip()}\n{row}"


@cache
def _backticks() -> re.Pattern[str]:
    return re.compile("`+")


def _spec(about: PromptSubject, task: Mapping[str, Any], counter: Counter) -> str:
    """The given specification, or else the inputs and outputs of the task."""
    text, whole = "", "the specification that was given"
    if isinstance(about.spec, str):
        text = about.spec
    elif about.task:
        whole = os.fspath(about.spec)
        if os.path.isdir(whole):
            whole = os.path.join(whole, f"{about.task}.md")
        text = _file_text(whole, MAX_SPEC_BYTES) if os.path.exists(whole) else ""
    if not text.strip():
        lists = {name: task.get(name) or () for name in ("inputs", "outputs")}
        text = "\n".join(f"{name}: {', '.join(each)}" for name, each in lists.items() if each)
    return shortened_to(text, SPEC_TOKENS, counter, whole)


_LOG = logging.getLogger("passdown.relay")


class TranscriptEntry(NamedTuple):
    """A message of a transcript: when, for which task, under which lease, in which chapter."""

    at: str
    task: str
    lease: int
    chapter: int
    message: Message


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
        self._weights: dict[int, int] = {}

    def context(self, chapter: Chapter | None = None) -> ConversationContext:
        """What the agent sees now, or saw of a chapter; a chapter that is due is begun."""
        with self._lock:
            return self._settled() if chapter is None else self._chapter(chapter)

    def messages(self, chapter: Chapter | None = None) -> list[Message]:
        """The context as messages, within the window; raises InvalidInput if not even the last
        exchange fits.
        """
        with self._lock:
            context = self.context(chapter)
            if self._size(context) <= self._owner.room:
                return context.messages()
            owner = self._owner
            found = compact(context.messages(), owner.room, owner.tokens, where=context.stream)
            return list(found.messages)

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
            at = self._recorded(at, checked, key)
            if at == self._read(at.stream).chapter:
                self._compact(self._context)
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
        found: list[tuple[int, TranscriptEntry]] = []
        for head in streams.streams(prefix):
            if head.stream.endswith(end):
                found += _transcript_entries(head.stream, streams.records(head.stream))
        return [said for _, said in sorted(found, key=lambda each: each[0])]

    def _settled(self, asked: str = "", key: str = "") -> ConversationContext:
        """The context after every chapter that is due has begun."""
        while True:
            lease = self._lease()
            context = self._read(self._stream(lease))
            why = self._wanted(context, lease, asked, key) or self._due(context, lease)
            if not why:
                return context
            # The context may be of a later lease than the one read before it: only a current lease
            # may begin a chapter.
            if self._lease() != lease:
                continue
            try:
                self._begin(context, lease, why, key if why == asked else "")
            except Conflict:
                continue
            asked = ""

    def _due(self, context: ConversationContext, lease: Lease | None) -> str:
        """Why a chapter has to begin in any case; "" if none has to."""
        if not context.start:
            return "lease" if lease else "first"
        if lease is not None and context.lease != lease.number:
            return "lease"
        return "age" if self._is_old(context) else ""

    def _is_old(self, context: ConversationContext) -> bool:
        if not self._owner.max_age_s:
            return False
        age = self._owner.streams.now() - parse_time(context.begun_at)
        return age.total_seconds() > self._owner.max_age_s

    def _wanted(
        self, context: ConversationContext, lease: Lease | None, asked: str, key: str
    ) -> str:
        """The requested reset, unless the context is empty already."""
        if asked == "setup" and lease is None:
            return ""
        is_its_own = context.start and (lease is None or context.lease == lease.number)
        return "" if is_its_own and context.is_fresh and not key else asked

    def _begin(self, context: ConversationContext, lease: Lease | None, why: str, key: str) -> None:
        """Begin a chapter: the only place where a context is emptied.

        Raises Conflict if something was added meanwhile. Earlier messages stay recorded.
        """
        system, fault = self._owner.system_message(self.peer, lease)
        named = {"task": lease.task, "number": lease.number, "run": lease.run} if lease else None
        body: dict[str, Any] = {"lease": named, "why": why, "system": system}
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
        owner = self._owner
        if self._size(context) <= owner.room:
            return
        try:
            found = compact(
                context.messages(),
                owner.room,
                owner.tokens,
                owner.summarise,
                where=context.stream,
            )
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

    def _recorded(self, at: Chapter, message: Message, key: str) -> Chapter:
        author = message.by or self.agent
        body = {"chapter": at.start, "message": message.document()}
        try:
            self._owner.streams.add(StreamEntry(at.stream, MESSAGE, author, body, key))
        except KeyReused:
            known = self.keyed(key, at)
            if known is None or known[1] != message:
                raise
            return known[0]  # recorded before, in an earlier chapter
        return at

    def _signed(self, message: Message) -> Message:
        """A message with its author, who must be one of the two."""
        names = {"user": self.peer, "assistant": self.agent}
        expected = names.get(message.role, message.by)
        problem = None
        if message.role == "system":
            where, fix = "message.role", "reset the conversation"
            problem = Problem(where, "not_allowed", "only a reset adds one", "another", fix)
        elif expected == EVERYONE and not message.by:
            problem = Problem("message.by", "empty", "is missing", "the sender")
        elif expected != EVERYONE and message.by not in ("", expected):
            shown = f"{message.by!r} isn't part of this conversation"
            problem = Problem("message.by", "other_author", shown, expected)
        if problem is not None:
            raise InvalidInput("the message is refused; nothing was recorded", [problem])
        return message if expected == EVERYONE else message._replace(by=expected)

    def _lease(self) -> Lease | None:
        return None if self.peer == EVERYONE else self._owner.lease_of(self.peer)

    def _stream(self, lease: Lease | None) -> str:
        return conversation_stream(self.agent, self.peer, lease.task if lease else "")

    def _read(self, stream: str) -> ConversationContext:
        """The context of a stream with everything that was added, by any process."""
        old = self._context if self._context.stream == stream else ConversationContext(stream)
        new = fold_context(old, self._owner.streams.records(stream, old.position))
        if (new.chapter, new.summary) != (old.chapter, old.summary):
            self._weights.clear()
        self._context = new
        return new

    def _chapter(self, chapter: Chapter) -> ConversationContext:
        current = self._read(self._owned(chapter).stream)
        if current.start == chapter.start:
            return current
        records = self._owner.streams.records(chapter.stream)
        return fold_context(ConversationContext(chapter.stream), records, only=chapter.start)

    def _owned(self, chapter: Chapter) -> Chapter:
        if chapter.stream.endswith(f"/{self.agent}/{self.peer}") and chapter.start > 0:
            return chapter
        problem = Problem("chapter", "not_found", f"{chapter.stream}@{chapter.start}", "its own")
        raise InvalidInput("the chapter belongs to another conversation", [problem])

    def _size(self, context: ConversationContext) -> int:
        """The tokens of a context; each message of the current one is counted once."""
        count = self._owner.tokens
        if context is not self._context:
            return context_tokens(context.messages(), count)
        head = context._replace(entries=()).messages()
        if 0 not in self._weights:
            self._weights[0] = context_tokens(head, count)
        for position, message in context.entries:
            if position not in self._weights:
                self._weights[position] = message_tokens(message, count)
        return self._weights[0] + sum(self._weights[at] for at, _ in context.entries)


def _transcript_entries(stream: str, records: list[Record]) -> list[tuple[int, TranscriptEntry]]:
    """The entries of a stream, each with its position in the whole store."""
    task = stream.removeprefix(CONVERSATION_STREAM).partition("/")[0]
    leases: dict[int, int] = {}
    found: list[tuple[int, TranscriptEntry]] = []
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
        found.append((record.seq, said))
    return found


if TYPE_CHECKING:
    Pairs = Collection[tuple[str, str]]


PER_AGENT, SINGLE = "per_agent", "single"
MIN_WINDOW = 256
MAX_REPLY_ROOM = 4_096


class Leases(Protocol):
    """Tells which task an agent is assigned to."""

    def current_lease(self, agent: str) -> Lease | None:
        """The lease of an agent, or None."""
        ...


class Conversations:
    """The conversations of one agent, one for each peer; threads may share it.

    `window` is the model's, in tokens (0: the workspace's); `reply_room` of it stays free for an
    answer and `margin` for counting errors. `summary` makes a text of the messages that no longer
    fit. `templates` is a folder whose files replace the built-in ones (default: `templates` in the
    workspace's folder). `sharing`: `per_agent` gives each peer its own context, `single` one to all
    of them, pairs of (agent, peer) their own to these only.
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
        sharing: str | Pairs = PER_AGENT,
        summary: Callable[[list[Message]], str] | None = None,
    ) -> None:
        self.streams = WorkspaceStreams(workspace)
        settings = self.streams.context.settings
        window = window or settings.window
        _check_options(agent, window, max_age_hours, role=role, rules=rules)
        reply_room = min(MAX_REPLY_ROOM, window // 4) if reply_room is None else reply_room
        margin = window // 50 if margin is None else margin
        self.agent = agent
        self.templates = Templates(templates or self._own_templates())
        self._workspace = workspace
        self._about = PromptSubject(agent, "", "", role, rules, spec, profile)
        self._sharing = _checked_sharing(sharing)
        self._counter = counter_of(counter, settings.counter)
        self._open: dict[str, Conversation] = {}
        self._lock = threading.Lock()
        self.room = _room(window, reply_room, margin)
        self.tokens = self._counter.tokens
        self.max_age_s = max_age_hours * 3_600
        self.summarise = _logging_failures(summary) if summary else None
        self.lease_of = leases.current_lease

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
            return self._sharing == PER_AGENT
        return (self.agent, peer) in self._sharing

    def _conversation(self, peer: str) -> Conversation:
        name = EVERYONE if not self.has_own(_checked_peer(peer)) else peer
        with self._lock:
            if name not in self._open:
                self._open[name] = Conversation(self, name)
            return self._open[name]

    def _own_templates(self) -> str:
        folder = os.path.join(self.streams.context.place.folder, "templates")
        return folder if os.path.isdir(folder) else ""

    def system_message(self, peer: str, lease: Lease | None) -> tuple[str, str]:
        """The system message for a peer, and the error that made it minimal, if any."""
        name = "everyone who asks" if peer == EVERYONE else peer
        about = self._about._replace(peer=name, task=lease.task if lease else "")
        most = self.room // 2
        try:
            text = system_text(self._workspace, self.templates, about, self._counter, most)
        except Exception as error:  # noqa: BLE001 - the old context must go in any case
            return minimal_text(about), f"{type(error).__name__}: {excerpt(str(error), 1_000)}"
        return (text, "") if text else (minimal_text(about), "the template is empty")


def _checked_peer(peer: str) -> str:
    problems = agent_problems(peer, "sender")
    if problems:
        raise InvalidInput("the sender is invalid", problems)
    return peer


def _check_options(agent: str, window: int, max_age_hours: float, **texts: str) -> None:
    problems = agent_problems(agent, "agent") + text_type_problems(**texts)
    problems += number_problems(window, "window", MIN_WINDOW)
    is_number = isinstance(max_age_hours, int | float) and not isinstance(max_age_hours, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_number or not 0 <= max_age_hours < 1e9:
        shown = repr(max_age_hours)[:40]
        problems.append(Problem("max_age_hours", "out_of_range", shown, "0 (no limit) or more"))
    if problems:
        raise InvalidInput("the options are invalid", problems)


def _room(window: int, reply_room: int, margin: int) -> int:
    """The tokens of the window that a context may use."""
    problems = number_problems(reply_room, "reply_room", 0, window)
    problems += number_problems(margin, "margin", 0, window)
    room = 0 if problems else window - reply_room - margin
    if not problems and room < window // 4:
        expected = "less than three quarters of it"
        problems.append(Problem("window", "too_small", f"{room:,} tokens are left", expected))
    if problems:
        raise InvalidInput("the window leaves no room for a context", problems)
    return room


def _checked_sharing(sharing: str | Pairs) -> str | frozenset[tuple[str, str]]:
    if isinstance(sharing, str):
        if sharing in (PER_AGENT, SINGLE):
            return sharing
        expected = f"{PER_AGENT}, {SINGLE} or pairs of (agent, peer)"
        problem = Problem("sharing", "invalid_choice", f"{excerpt(sharing)!r}", expected)
        raise InvalidInput("the options are invalid", [problem])
    # A string is a collection too: ("architect", "coder-1") instead of a set of pairs.
    problems = [
        Problem(f"sharing[{index}]", "wrong_type", repr(pair)[:40], "(agent, peer)")
        for index, pair in enumerate(sharing)
        if isinstance(pair, str) or len(pair) != 2
    ]
    if problems:
        raise InvalidInput("the options are invalid", problems)
    return frozenset(sharing)


def _logging_failures(summary: Callable[[list[Message]], str]) -> Callable[[list[Message]], str]:
    """A summary function whose failures are logged; the built-in summary follows."""

    def summarise(messages: list[Message]) -> str:
        try:
            return str(summary(messages) or "")
        except Exception as error:  # noqa: BLE001 - the message is recorded all the same
            shown = f"{type(error).__name__}: {excerpt(str(error), 200)}"
            _LOG.warning("the summary function failed: %s", shown, extra={"fault": shown})
            return ""

    return summarise


if TYPE_CHECKING:
    Answer = Callable[[list[dict[str, Any]]], Message | str]
    UseTool = Callable[[ToolCall], str]
    Revise = Callable[[Message], str]

REVIEWS = {
    "plan": "plan_review",
    "code": "code_review",
    "completion": "completion",
    "budget": "budget_review",
}
"""The kinds of reviews and their templates."""
FINAL = ("approved", "rejected", "continue", "pivot", "escalate", "abandon")
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
    request = _AgentRequest(conversations, sender, _template(kind), task, key)
    with request.conversation.turn:
        request.put(content, 1)
        return request.answered(answer, None, 1)


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
    _check_rounds(rounds)
    request = _AgentRequest(conversations, sender, "question", task, key)
    with request.conversation.turn:
        request.put(content, 1)
        message = request.answered(answer, use_tool, 1)
        done = 1
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
    _check_rounds(rounds)
    request = _AgentRequest(conversations, sender, _template(kind), task, key)
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
    return word if word in (*FINAL, "changes") else ""


class _AgentRequest:
    """A request in progress."""

    def __init__(
        self, conversations: Conversations, sender: str, template: str, task: str, key: str
    ) -> None:
        self.conversation, self.chapter, self._task = _begin_request(conversations, sender, task)
        self._templates = conversations.templates
        self._sender = sender
        self._template = template
        self._key = key

    def put(self, content: str, done: int) -> None:
        """Add the request as the sender's message.

        Further rounds stay in the chapter of the first, even if the sender has moved on.
        """
        problems = text_problems(content, "content", max_length=MAX_CONTENT)
        if problems:
            raise InvalidInput(_REFUSED, problems)
        values = {
            "content": content,
            "agent": self.conversation.agent,
            "peer": self._sender,
            "task": self._task,
        }
        text = self._templates.render(self._template, values)
        message = Message("user", text, self._sender)
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


def _begin_request(
    conversations: Conversations, sender: str, task: str
) -> tuple[Conversation, Chapter, str]:
    """The sender's conversation, its chapter, and the task of the lease."""
    while True:
        leased = conversations.task_of(sender)
        if task and task != leased:
            shown = f"the request says {excerpt(task)!r}"
            expected = f"{leased}, as in the lease" if leased else "no task: there is no lease"
            problem = Problem("task", "other_task", shown, expected)
            raise InvalidInput(_REFUSED, [problem])
        conversation = conversations.with_peer(sender)
        chapter = conversation.context().chapter
        # The lease may have changed between the two reads.
        own = conversation_stream(conversation.agent, sender, leased)
        if chapter.stream == own or not conversations.has_own(sender):
            return conversation, chapter, leased


def _template(kind: str) -> str:
    if kind in REVIEWS:
        return REVIEWS[kind]
    shown = f"{excerpt(str(kind))!r}"
    problem = Problem("kind", "invalid_choice", shown, " | ".join(REVIEWS))
    raise InvalidInput("unknown kind of review", [problem])


def _check_rounds(rounds: int) -> None:
    problems = number_problems(rounds, "rounds", 1, MAX_ROUNDS)
    if problems:
        raise InvalidInput(_REFUSED, problems)
