"""Handlers of hook events: what each does with the session, the workspace and the response."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from passdown.core.values import NamedTuple
from passdown.hosts.definitions import (
    CURSOR,
    GEMINI,
    HOSTS,
    OPENCODE,
    PRE_COMPACT,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    STOP,
    SUBAGENT_START,
    SUBAGENT_STOP,
)
from passdown.hosts.hooks.files import MAX_FILES, HookSession, HookSessions
from passdown.hosts.hooks.protocol import HookResponse, counter_for, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.results import TaskDetails
    from passdown.core.settings import Settings
    from passdown.hosts.hooks.protocol import HookCall
    from passdown.workspace import Workspace
    from passdown.workspace.defaults import TaskChoice
    from passdown.workspace.location import Location


LOCK_WAIT_S = 0.3
"""How long a hook waits for another writer; its context doesn't depend on it."""

_COMPACTED = "This session before its context was compacted"
_GIT_S = 2.0
_MARGIN_S = 0.3
_TITLE = 80


class HookContext(NamedTuple):
    """A call at work: where, with which settings, until when, and what went wrong on the way."""

    call: HookCall
    place: Location
    settings: Settings
    deadline: float
    faults: list[str]

    @property
    def sessions(self) -> HookSessions:
        """The sessions of this workspace."""
        return HookSessions(self.place.folder)

    def left_s(self, most: float) -> float:
        """How much time something may take, with a margin for what follows."""
        return min(most, self.deadline - time.monotonic() - _MARGIN_S)

    def open_workspace(self) -> Workspace:
        """The workspace, with little patience for other writers."""
        from passdown.workspace import Workspace

        settings = self.settings
        patience = min(settings.lock_timeout_s, LOCK_WAIT_S)
        return Workspace(self.place, settings=settings._replace(lock_timeout_s=patience))

    def store_stamp(self) -> str:
        """Inode, time and size of the store's files: every write changes it. PostgreSQL: empty."""
        path = self.place.url.removeprefix("sqlite:///")
        found: list[str] = []
        for name in (path, f"{path}-wal") if path != self.place.url else ():
            with suppress(OSError):
                status = os.stat(name)
                found.append(f"{status.st_ino}.{status.st_mtime_ns}.{status.st_size}")
        return " ".join(found)

    def draft(self, task: str) -> str:
        """The path of a task's draft, as somebody in the host's folder names it."""
        from passdown.hosts.hooks.capture import draft_path

        return draft_path(self.place.folder, task, self.call.cwd or self.place.root)

    def keep(self, session: HookSession) -> None:
        """Remember a session, where that can be done."""
        try:
            self.sessions.write(self.call.session, session)
        except OSError as error:
            self.faults.append(f"session not kept: {error.strerror or error}")


def _choose_task(workspace: Workspace, session: HookSession, branch: str = "") -> TaskChoice:
    from passdown.workspace.defaults import choose_task, default_agent

    agent = session.agent or default_agent()
    return choose_task(workspace, agent=agent, before=session.task, branch=branch)


def handle(context: HookContext) -> HookResponse:
    """What a call is answered."""
    with context.sessions.alone(context.call.session):
        session = context.sessions.read(context.call.session)
        return _HANDLERS[context.call.event](context, session)


def _session_start(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks import messages
    from passdown.workspace.location import branch_and_commit

    call = context.call
    branch, commit = branch_and_commit(call.cwd or context.place.root)
    is_first = not session.started
    session = session.reading(call.transcript)
    if is_first:
        session = session._replace(started=time.time(), commit=commit)
        context.sessions.prune()
    with context.open_workspace() as workspace:
        choice = _choose_task(workspace, session, branch)
        session, last = (
            _continued(context, workspace, session, choice) if is_first else (session, "")
        )
        if choice.task or not choice.tasks:
            session, text = _briefed(context, workspace, session, choice, last=last)
        else:
            session, text = session._replace(told=""), messages.task_list_text(call.host, choice)
    context.keep(session._replace(compacted=False, store=context.store_stamp()))
    return HookResponse(text, about=f"brief of {session.told}" if session.told else "list of tasks")


def _continued(
    context: HookContext, workspace: Workspace, session: HookSession, choice: TaskChoice
) -> tuple[HookSession, str]:
    """A new session with the work that the last one didn't hand off, and the text about it.

    The last one may have been killed: what it did is read from its transcript and from git.
    """
    from passdown.hosts.hooks import messages
    from passdown.hosts.hooks.protocol import HookCall
    from passdown.workspace import defaults

    name, last = context.sessions.newest(besides=context.call.session)
    host = name.partition("-")[0]
    bound = defaults.task_of(workspace, last.task)
    is_other = bound is not None and bound.task != choice.task
    if host not in HOSTS or is_other or (choice.tasks and not choice.task):
        return session, ""
    earlier = context._replace(call=HookCall(host, SESSION_END, name))
    with context.sessions.alone(name):
        last = _checkpoint(earlier, workspace, last, choice)
        earlier.keep(last)
    if not (last.unfinished and (last.changed or last.commands or last.subagents)):
        return session, ""
    head = messages.last_session_head(host, last, context.draft(last.task))
    kept = last._replace(agent=session.agent, told="", used_tokens=0, open_calls=())
    kept = kept._replace(transcript=session.transcript, read_to=session.read_to, understood=False)
    return kept, messages.session_text(last, head)


def _briefed(
    context: HookContext,
    workspace: Workspace,
    session: HookSession,
    choice: TaskChoice,
    *,
    switched: str = "",
    last: str = "",
) -> tuple[HookSession, str]:
    """The session bound to a task, and the text about it; without the brief if that of an agent
    that was called has one. `last` is about the session before this one.
    """
    from passdown.hosts.hooks import messages
    from passdown.workspace import defaults

    call = context.call
    task = defaults.task_of(workspace, choice.task)
    told = f"{choice.task} at version {task.version}" if task else ""
    is_compacted = call.source == "compact" or session.compacted
    before, _, version = session.told.rpartition(" at version ")
    has_brief = call.source == "resume" and HOSTS[call.host].keeps_context and not is_compacted
    if task and has_brief and before == choice.task:
        text = messages.changes_text(workspace, call.host, task, int(version))
        return session._replace(told=told), text
    session = _bound(session, task) if task else session
    text = messages.brief_text(
        workspace,
        call.host,
        choice,
        messages.agent_of(session, task.holder if task else "", call.host),
        budget=context.settings.brief_budget,
        faults=context.faults,
        more=messages.session_text(session, _COMPACTED) if is_compacted else last,
        has_brief=f"# {choice.task} for " in switched,
    )
    return session._replace(told=told), text


def _bound(session: HookSession, task: TaskDetails) -> HookSession:
    session = session._replace(holder=task.holder)
    if session.task == task.task:
        return session
    return session._replace(task=task.task, handoffs=handoffs_of(task))


def handoffs_of(task: TaskDetails) -> int:
    """How many handoffs a task has had."""
    return task.counts.get("h", 0)


def _prompt_submit(context: HookContext, session: HookSession) -> HookResponse:
    call = context.call
    has_rules = os.path.lexists(os.path.join(context.place.root, context.settings.rules_folder))
    may_call = "@" in call.prompt or "/" in call.prompt
    before, session = session, session.reading(call.transcript)
    if not session.title and not session.task:
        session = session._replace(title=title_of(call.prompt))
    # Most prompts concern nothing of ours: then nothing is opened.
    is_due = session.compacted or not session.task or has_rules or may_call
    # Cursor takes no context at a prompt.
    if call.host == CURSOR.name or not is_due:
        if session != before:
            context.keep(session)
        return HookResponse()
    with context.open_workspace() as workspace:
        session, texts = _prompted(context, workspace, session, has_rules=has_rules)
    context.keep(session)
    found = {what: text.rstrip("\n") for what, text in texts.items() if text}
    return _join_texts(call.host, found)


def title_of(prompt: str) -> str:
    """The title of a task that begins with a prompt: its first line, without secrets."""
    from passdown.core.redaction import redact
    from passdown.core.text import excerpt, visible

    # opencode puts a prompt of its command line in quotes.
    lines = (each.strip(' \t"') for each in prompt.splitlines())
    line = next((each for each in lines if each), "")
    return excerpt(redact(visible(line))[0], _TITLE)


def _prompted(
    context: HookContext, workspace: Workspace, session: HookSession, *, has_rules: bool
) -> tuple[HookSession, dict[str, str]]:
    """The session after a prompt, and the texts for the agent, by what they are."""
    from passdown.hosts.hooks import messages
    from passdown.workspace import defaults

    call = context.call
    texts: dict[str, str] = {}
    choice = _choose_task(workspace, session)
    named = defaults.tasks_named_in(call.prompt, choice.tasks) if not choice.task else []
    if len(named) == 1:
        choice = defaults.TaskChoice(named[0], "named in the prompt", choice.tasks)
    if choice.task:
        switched, agent = messages.switch_text(
            workspace,
            call.host,
            choice.task,
            call.prompt,
            active=session.agent,
            faults=context.faults,
        )
        session = session._replace(agent=agent) if agent else session
        if session.compacted or session.task != choice.task:
            session, text = _briefed(context, workspace, session, choice, switched=switched)
            session = session._replace(compacted=False)
            texts[f"brief of {session.told}"] = text
        texts[f"context of {agent}"] = switched
    if has_rules:
        texts["rules"] = _rules(context, workspace, session)
    return session, texts


def _rules(context: HookContext, workspace: Workspace, session: HookSession) -> str:
    found = workspace.rules.inject(
        context.call.prompt,
        session=context.call.session or "none",
        agent=session.agent or None,
        task=session.task or None,
        used=session.used_tokens or None,
        counter=counter_for(context.call.host),
    )
    context.faults.extend(problem.line() for problem in found.problems)
    return found.text


def _join_texts(host: str, texts: dict[str, str]) -> HookResponse:
    """The texts that fit, the last first: rules bear on this prompt, a brief can be had again."""
    kept: dict[str, str] = {}
    for what in reversed(texts):
        together = {what: texts[what], **kept}
        if fits(host, "\n\n".join(together.values())):
            kept = together
    return HookResponse("\n\n".join(kept.values()), about=", ".join(kept))


def _subagent_start(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks import messages

    call = context.call
    with context.open_workspace() as workspace:
        choice = _choose_task(workspace, session)
        if not choice.task:
            return HookResponse()
        holder = workspace.task(choice.task).holder
        name = messages.agent_of(session, holder, call.host, call.agent_type)
        budget, faults = context.settings.brief_budget, context.faults
        text = messages.brief_text(workspace, call.host, choice, name, budget=budget, faults=faults)
        return HookResponse(text, about=f"brief of {choice.task} for {name}")


def _subagent_stop(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks import capture

    session = capture.capture_subagent(session, context.call, context.place.root)
    # Kept at once: if its parent never gets to its own end, this isn't lost with it.
    context.keep(session)
    context.keep(_checkpointed(context, session)[0])
    return HookResponse()


def _pre_compact(context: HookContext, session: HookSession) -> HookResponse:
    with context.open_workspace() as workspace:
        session, choice = _checkpointed(context, session, workspace)
        # Gemini CLI announces one at every turn; that there was one shows in its transcript.
        is_sure = context.call.host != GEMINI.name or context.call.source == "manual"
        session = session._replace(compacted=session.compacted or is_sure)
        text = ""
        if choice.task and context.call.host == OPENCODE.name:
            session, text = _briefed(context, workspace, session, choice)
    context.keep(session)
    return HookResponse(text, about=f"brief of {session.told}" if text else "")


def _stop(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks import messages

    session, choice = _checkpointed(context, session)
    context.keep(session)
    call = context.call
    if (
        call.is_again
        or call.is_aborted
        or not session.unfinished
        or os.environ.get("PASSDOWN_ASK") == "off"
    ):
        return HookResponse()
    if not context.sessions.claim(call.session, "asked"):
        return HookResponse()
    text = messages.request_text(choice.task, context.draft(session.task), session.title)
    text += messages.other_calls(context.place.root)
    return HookResponse(request=text, about=f"request for {session.task}")


def _session_end(context: HookContext, session: HookSession) -> HookResponse:
    context.keep(_checkpointed(context, session)[0])
    return HookResponse()


def _checkpointed(
    context: HookContext, session: HookSession, workspace: Workspace | None = None
) -> tuple[HookSession, TaskChoice]:
    """The session with what it did since, kept as a draft of its task's next handoff; its task."""
    from passdown.workspace import defaults

    if workspace is None:
        stamp = context.store_stamp()
        is_known = session.holder and os.environ.get("PASSDOWN_TASK") in (None, session.task)
        if stamp and stamp == session.store and is_known:
            # Nothing was recorded since: its task is as it was.
            choice = defaults.TaskChoice(session.task, "as before", [])
            return _with_draft(context, _captured(context, session), choice), choice
        with context.open_workspace() as opened:
            session, choice = _checkpointed(context, session, opened)
        return session._replace(store=stamp if choice.task else ""), choice
    choice = _choose_task(workspace, session)
    return _checkpoint(context, workspace, session, choice), choice


def _captured(context: HookContext, session: HookSession) -> HookSession:
    """The session with what its transcript shows."""
    from passdown.hosts.hooks import capture

    session, fault = capture.capture_session(session, context.call, context.place.root)
    context.faults.extend([fault] if fault else [])
    return session


def _checkpoint(
    context: HookContext, workspace: Workspace, session: HookSession, choice: TaskChoice
) -> HookSession:
    from passdown.hosts.hooks import capture
    from passdown.workspace import defaults

    session = _captured(context, session)
    task = defaults.task_of(workspace, choice.task or session.task)
    session = _bound(session, task) if task else session._replace(holder="")
    if task and handoffs_of(task) > session.handoffs:
        # Handed off: that handoff has what was seen so far, and a new turn begins.
        capture.archive_draft(context.place.folder, task.task)
        fresh = HookSession(transcript=session.transcript, read_to=session.read_to)
        fresh = fresh._replace(task=choice.task, agent=session.agent, told=session.told)
        fresh = fresh._replace(used_tokens=session.used_tokens, understood=session.understood)
        fresh = fresh._replace(holder=task.holder if choice.task else "")
        return fresh._replace(handoffs=handoffs_of(task), started=time.time())
    if not choice.task and (task or choice.tasks):
        return session._replace(unfinished=False)  # several tasks are open, or its own was closed
    return _with_draft(context, session, choice)


def _with_draft(context: HookContext, session: HookSession, choice: TaskChoice) -> HookSession:
    """The session with the files that it changed; where it did anything, a draft is kept."""
    from passdown.hosts.hooks import capture, messages

    changed = capture.changed_files(session, context.place.root, context.left_s(_GIT_S))
    session = session._replace(changed=tuple(each.path for each in changed)[:MAX_FILES])
    has_done = bool(changed or session.commands or session.files or session.subagents)
    if has_done:
        session = session if choice.task else _with_new_task(session, context.call)
        agent = messages.agent_of(session, session.holder, context.call.host)
        text = capture.draft_text(session.task, agent, session, changed, is_new=not choice.task)
        try:
            capture.write_draft(context.place.folder, session.task, text)
        except OSError as error:
            context.faults.append(f"draft not kept: {error.strerror or error}")
    is_unknown = bool(choice.task) and not session.understood
    return session._replace(unfinished=has_done or is_unknown)


def _with_new_task(session: HookSession, call: HookCall) -> HookSession:
    """A session whose draft creates its task; the id is made as `passdown task new` makes it."""
    from passdown.workspace.entries import new_id

    title = session.title or f"Session of {HOSTS[call.host].title}"
    return session._replace(title=title, task=session.task or new_id(title, call.session))


_HANDLERS: dict[str, Callable[[HookContext, HookSession], HookResponse]] = {
    SESSION_START: _session_start,
    PROMPT_SUBMIT: _prompt_submit,
    PRE_COMPACT: _pre_compact,
    SUBAGENT_START: _subagent_start,
    SUBAGENT_STOP: _subagent_stop,
    STOP: _stop,
    SESSION_END: _session_end,
}
