"""One conversation: an agent that answers, a peer that asks, and the task that the peer is on.

The stream in the ledger is the truth. Before each use the object reads what was added since, by
whatever process, and begins a new chapter where one is due.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import Conflict, InvalidInput, KeyReused, Problem
from passdown.model.compaction import compacted, context_tokens, message_tokens
from passdown.model.conversation import (
    COMPACTED,
    EVERYONE,
    MESSAGE,
    RESET,
    Chapter,
    Context,
    Message,
    after,
    conversation_stream,
    message_of,
)
from passdown.model.kinds import CONVERSATION_STREAM
from passdown.model.times import parse_time
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.conversation import Leased
    from passdown.model.record import Record
    from passdown.model.tokens import Count

_LOG = logging.getLogger("passdown.relay")


class Terms(NamedTuple):
    """How an agent's conversations are held.

    `room` is how many tokens a context may have; `lease_of` and `system_of` ask for a peer's lease
    and for its system message (with the fault that kept it small); `max_age_s` 0: no limit.
    """

    agent: str
    beside: Beside
    room: int
    tokens: Count
    max_age_s: float
    lease_of: Callable[[str], Leased | None]
    system_of: Callable[[str, Leased | None], tuple[str, str]]
    summarise: Callable[[list[Message]], str] | None


class Said(NamedTuple):
    """Something that was said at some time: to which task, under which lease, in which chapter."""

    at: str
    task: str
    lease: int
    chapter: int
    message: Message


class Conversation:
    """What an agent and a peer say to each other; threads may share it.

    `turn` is held by whoever asks and waits for the answer, so that requests come one by one.
    """

    def __init__(self, terms: Terms, peer: str) -> None:
        self.agent = terms.agent
        self.peer = peer
        self.turn = threading.RLock()
        self._terms = terms
        self._lock = threading.RLock()
        self._context = Context("")
        self._weights: dict[int, int] = {}

    def context(self, chapter: Chapter | None = None) -> Context:
        """What the agent sees now, or saw of a chapter; a chapter that is due is begun."""
        with self._lock:
            return self._settled() if chapter is None else self._chapter(chapter)

    def messages(self, chapter: Chapter | None = None) -> list[Message]:
        """The context as messages, within the window; raises InvalidInput where even the last
        exchange can't be made to fit.
        """
        with self._lock:
            context = self.context(chapter)
            if self._size(context) <= self._terms.room:
                return context.messages()
            terms = self._terms
            found = compacted(context.messages(), terms.room, terms.tokens, where=context.stream)
            return list(found.messages)

    def tokens(self, messages: list[Message]) -> int:
        """How long some messages are for a model."""
        return context_tokens(messages, self._terms.tokens)

    def document(self) -> dict[str, Any]:
        """The context as plain JSON; `model.conversation.context_of` gives it back."""
        return self.context().document()

    def add(
        self, message: Message | dict[str, Any], *, chapter: Chapter | None = None, key: str = ""
    ) -> Chapter:
        """Record what was said, in the current chapter or in one that is named; gives the chapter.

        With `key`, saying the same again is recorded once. Raises InvalidInput for a message that
        isn't one, or whose author has no part in this conversation.
        """
        checked = self._signed(message_of(message))
        with self._lock:
            at = self._settled().chapter if chapter is None else self._owned(chapter)
            at = self._recorded(at, checked, key)
            if at == self._read(at.stream).chapter:
                self._compact(self._context)
        return at

    def begin_again(self, why: str, key: str = "") -> Chapter:
        """Empty the context: `setup` (of a peer with a task only) or `asked`.

        Where nothing was said since the last time, nothing is written; with `key`, a repeat of
        the same call isn't either.
        """
        with self._lock:
            return self._settled(why, key).chapter

    def keyed(self, key: str, chapter: Chapter) -> tuple[Chapter, Message] | None:
        """What was said under a key about the task of a chapter, and in which chapter."""
        stream = self._owned(chapter).stream
        with self._terms.beside.opened.store.reading() as reader:
            record = reader.record_by_key(stream, key)
        if record is None or record.kind != MESSAGE:
            return None
        body = record.document()
        return Chapter(stream, body["chapter"]), message_of(body["message"])

    def transcript(self, task: str = "") -> list[Said]:
        """Everything that was ever said, across resets and compactions: of a task or of all."""
        beside, end = self._terms.beside, f"/{self.agent}/{self.peer}"
        prefix = f"{CONVERSATION_STREAM}{task}/" if task else CONVERSATION_STREAM
        found: list[tuple[int, Said]] = []
        for head in beside.streams(prefix):
            if head.stream.endswith(end):
                found += _told(head.stream, beside.records(head.stream))
        return [said for _, said in sorted(found, key=lambda each: each[0])]

    def _settled(self, asked: str = "", key: str = "") -> Context:
        """The context, once every chapter that is due has begun."""
        while True:
            lease = self._lease()
            context = self._read(self._stream(lease))
            why = self._wanted(context, lease, asked, key) or self._due(context, lease)
            if not why:
                return context
            # What was read may already stand for a later lease than the one that was asked for
            # before it: only a lease that still holds may begin a chapter.
            if self._lease() != lease:
                continue
            try:
                self._begin(context, lease, why, key if why == asked else "")
            except Conflict:
                continue
            asked = ""

    def _due(self, context: Context, lease: Leased | None) -> str:
        """Why a chapter has to begin whoever asks; empty when none has to."""
        if not context.start:
            return "lease" if lease else "first"
        if lease is not None and context.lease != lease.number:
            return "lease"
        return "age" if self._is_old(context) else ""

    def _is_old(self, context: Context) -> bool:
        if not self._terms.max_age_s:
            return False
        age = self._terms.beside.now() - parse_time(context.begun_at)
        return age.total_seconds() > self._terms.max_age_s

    def _wanted(self, context: Context, lease: Leased | None, asked: str, key: str) -> str:
        """What was asked for, unless there is nothing to empty."""
        if asked == "setup" and lease is None:
            return ""
        is_its_own = context.start and (lease is None or context.lease == lease.number)
        return "" if is_its_own and context.is_fresh and not key else asked

    def _begin(self, context: Context, lease: Leased | None, why: str, key: str) -> None:
        """Begin a chapter: the one place where a context is emptied.

        Raises Conflict where something was added meanwhile. What was said before stays recorded.
        """
        system, fault = self._terms.system_of(self.peer, lease)
        named = {"task": lease.task, "number": lease.number, "run": lease.run} if lease else None
        body: dict[str, Any] = {"lease": named, "why": why, "system": system}
        body |= {"fault": fault} if fault else {}
        aside = Aside(context.stream, RESET, self.agent, body, key, expect=context.position)
        try:
            (record,) = self._terms.beside.add(aside)
        except KeyReused:
            return  # this very reset was done before; its system message read differently then
        if record.position > context.position:
            fields = {"stream": context.stream, "why": why, "fault": fault}
            _LOG.info("%s begins anew (%s)", context.stream, why, extra=fields)
            if fault:
                message = "%s has no full system message: %s"
                _LOG.warning(message, context.stream, fault, extra=fields)

    def _compact(self, context: Context) -> None:
        """Leave out the oldest where the context is too long; what it was stays recorded."""
        terms = self._terms
        if self._size(context) <= terms.room:
            return
        try:
            found = compacted(
                context.messages(),
                terms.room,
                terms.tokens,
                terms.summarise,
                where=context.stream,
            )
        except InvalidInput:
            return  # what was said is recorded; whoever reads the messages gets this error
        if not found.dropped:
            return
        kept_from = context.entries[found.dropped][0]
        body = {"chapter": context.start, "kept_from": kept_from, "summary": found.summary}
        aside = Aside(context.stream, COMPACTED, self.agent, body, expect=context.position)
        try:
            terms.beside.add(aside)
        except Conflict:
            return  # somebody else goes on with it; the next message looks again
        fields = {"stream": context.stream, "dropped": found.dropped, "kept_from": kept_from}
        _LOG.info("%s leaves out %d", context.stream, found.dropped, extra=fields)

    def _recorded(self, at: Chapter, message: Message, key: str) -> Chapter:
        beside = self._terms.beside
        author = message.by or self.agent
        body = {"chapter": at.start, "message": message.document()}
        try:
            beside.add(Aside(at.stream, MESSAGE, author, body, key))
        except KeyReused:
            known = self.keyed(key, at)
            if known is None or known[1] != message:
                raise
            return known[0]  # said before, in a chapter that has ended since
        return at

    def _signed(self, message: Message) -> Message:
        """A message with its author; only the two whose conversation it is may be one."""
        names = {"user": self.peer, "assistant": self.agent}
        expected = names.get(message.role, message.by)
        problem = None
        if message.role == "system":
            where, fix = "message.role", "reset the conversation"
            problem = Problem(where, "not_allowed", "is made by a reset alone", "another", fix)
        elif expected == EVERYONE and not message.by:
            problem = Problem("message.by", "empty", "names nobody", "who asks")
        elif expected != EVERYONE and message.by not in ("", expected):
            shown = f"{message.by!r} has no part in it"
            problem = Problem("message.by", "other_author", shown, expected)
        if problem is not None:
            raise InvalidInput("the message is refused; nothing was recorded", [problem])
        return message if expected == EVERYONE else message._replace(by=expected)

    def _lease(self) -> Leased | None:
        return None if self.peer == EVERYONE else self._terms.lease_of(self.peer)

    def _stream(self, lease: Leased | None) -> str:
        return conversation_stream(self.agent, self.peer, lease.task if lease else "")

    def _read(self, stream: str) -> Context:
        """The context of a stream with all that was added to it, by whomever."""
        old = self._context if self._context.stream == stream else Context(stream)
        new = after(old, self._terms.beside.records(stream, old.position))
        if (new.chapter, new.summary) != (old.chapter, old.summary):
            self._weights.clear()
        self._context = new
        return new

    def _chapter(self, chapter: Chapter) -> Context:
        current = self._read(self._owned(chapter).stream)
        if current.start == chapter.start:
            return current
        records = self._terms.beside.records(chapter.stream)
        return after(Context(chapter.stream), records, only=chapter.start)

    def _owned(self, chapter: Chapter) -> Chapter:
        if chapter.stream.endswith(f"/{self.agent}/{self.peer}") and chapter.start > 0:
            return chapter
        problem = Problem("chapter", "not_found", f"{chapter.stream}@{chapter.start}", "its own")
        raise InvalidInput("this is a chapter of another conversation", [problem])

    def _size(self, context: Context) -> int:
        """The tokens of a context; each message of the current one is counted once."""
        count = self._terms.tokens
        if context is not self._context:
            return context_tokens(context.messages(), count)
        head = context._replace(entries=()).messages()
        if 0 not in self._weights:
            self._weights[0] = context_tokens(head, count)
        for position, message in context.entries:
            if position not in self._weights:
                self._weights[position] = message_tokens(message, count)
        return self._weights[0] + sum(self._weights[at] for at, _ in context.entries)


def _told(stream: str, records: list[Record]) -> list[tuple[int, Said]]:
    """What the records of a stream say, each with its place in the order of the whole store."""
    task = stream.removeprefix(CONVERSATION_STREAM).partition("/")[0]
    leases: dict[int, int] = {}
    found: list[tuple[int, Said]] = []
    for record in records:
        body = record.document()
        if record.kind == RESET:
            leases[record.position] = body["lease"]["number"] if body["lease"] else 0
            chapter, message = record.position, Message("system", body["system"])
        elif record.kind == MESSAGE:
            chapter, message = body["chapter"], message_of(body["message"])
        else:
            continue
        said = Said(record.at, task, leases.get(chapter, 0), chapter, message)
        found.append((record.seq, said))
    return found
