"""Handlers of hook events: what each does with the session, the workspace and the response."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from passdown.core.values import NamedTuple
from passdown.hosts.definitions import (
    GEMINI,
    OPENCODE,
    PRE_COMPACT,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_START,
    STOP,
    SUBAGENT_START,
    SUBAGENT_STOP,
)
from passdown.hosts.hooks.files import HookSession, HookSessions
from passdown.hosts.hooks.protocol import (
    HookResponse,
    counter_for,
    fits,
    takes_context,
    takes_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.settings import Settings
    from passdown.core.views import TaskDetails
    from passdown.hosts.hooks.messages import TaskChoice
    from passdown.hosts.hooks.protocol import HookCall
    from passdown.workspace import Workspace
    from passdown.workspace.location import Location


LOCK_WAIT_S = 0.3
"""How long a hook waits for another writer; its context doesn't depend on it."""

_GIT_S = 2.0
_MARGIN_S = 0.3


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

    def keep(self, session: HookSession) -> None:
        """Remember a session, where that can be done."""
        try:
            self.sessions.write(self.call.session, session)
        except OSError as error:
            self.faults.append(f"session not kept: {error.strerror or error}")


def handle(context: HookContext) -> HookResponse:
    """What a call is answered."""
    with context.sessions.alone(context.call.session):
        session = context.sessions.read(context.call.session)
        return _HANDLERS[context.call.event](context, session)


def _session_start(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks.messages import choose_task, task_list_text
    from passdown.workspace.location import branch_and_commit

    call = context.call
    branch, commit = branch_and_commit(call.cwd or context.place.root)
    if not session.started:
        session = session._replace(started=int(time.time()), commit=commit)
        context.sessions.prune()
    with context.open_workspace() as workspace:
        choice = choose_task(workspace, session, branch)
        if choice.task:
            session, text = _briefed(context, workspace, session, choice)
        else:
            session, text = session._replace(task="", told=""), task_list_text(call.host, choice)
    context.keep(session._replace(compacted=False))
    return HookResponse(text, about=f"brief of {session.told}" if session.told else "list of tasks")


def _briefed(
    context: HookContext,
    workspace: Workspace,
    session: HookSession,
    choice: TaskChoice,
    switched: str = "",
) -> tuple[HookSession, str]:
    """The session bound to a task, and the text about it; without the brief if that of an agent
    that was called has one.
    """
    from passdown.hosts.hooks.messages import agent_of, brief_text, session_text

    call = context.call
    task = workspace.task(choice.task)
    session = _bound(session, task)
    is_compacted = call.source == "compact" or session.compacted
    text = brief_text(
        workspace,
        call.host,
        choice,
        agent_of(session, task.holder, call.host),
        budget=context.settings.brief_budget,
        faults=context.faults,
        more=session_text(session) if is_compacted else "",
        has_brief=f"# {choice.task} for " in switched,
    )
    return session._replace(told=f"{choice.task} at version {task.version}"), text


def _bound(session: HookSession, task: TaskDetails) -> HookSession:
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
    # Most prompts concern nothing of ours: then nothing is opened.
    is_due = session.compacted or not session.task or has_rules or may_call
    if not takes_context(call.host, call.event) or not is_due:
        return HookResponse()
    with context.open_workspace() as workspace:
        session, texts = _prompted(context, workspace, session, has_rules=has_rules)
    context.keep(session)
    found = {what: text.rstrip("\n") for what, text in texts.items() if text}
    return _join_texts(call.host, found)


def _prompted(
    context: HookContext, workspace: Workspace, session: HookSession, *, has_rules: bool
) -> tuple[HookSession, dict[str, str]]:
    """The session after a prompt, and the texts for the agent, by what they are."""
    from passdown.hosts.hooks.messages import TaskChoice, choose_task, switch_text, tasks_named_in

    call = context.call
    texts: dict[str, str] = {}
    choice = choose_task(workspace, session, "")
    named = tasks_named_in(call.prompt, choice.tasks) if not choice.task else []
    if len(named) == 1:
        choice = TaskChoice(named[0], "named in the prompt", choice.tasks)
    if choice.task:
        switched, agent = switch_text(
            workspace,
            call.host,
            choice.task,
            call.prompt,
            active=session.agent,
            faults=context.faults,
        )
        session = session._replace(agent=agent) if agent else session
        if session.compacted or session.task != choice.task:
            session, text = _briefed(context, workspace, session, choice, switched)
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
    from passdown.hosts.hooks.messages import brief_text, choose_task, subagent_name

    call = context.call
    if not takes_context(call.host, call.event):
        return HookResponse()
    with context.open_workspace() as workspace:
        choice = choose_task(workspace, session, "")
        if not choice.task:
            return HookResponse()
        holder = workspace.task(choice.task).holder
        name = subagent_name(call.agent_type, session, call.host, holder)
        budget, faults = context.settings.brief_budget, context.faults
        text = brief_text(workspace, call.host, choice, name, budget=budget, faults=faults)
        return HookResponse(text, about=f"brief of {choice.task} for {name}")


def _subagent_stop(context: HookContext, session: HookSession) -> HookResponse:
    from passdown.hosts.hooks.capture import capture_subagent

    session = capture_subagent(session, context.call, context.place.root)
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
    from passdown.hosts.hooks.capture import draft_path
    from passdown.hosts.hooks.messages import request_text

    session, choice = _checkpointed(context, session)
    context.keep(session)
    call = context.call
    is_quiet = call.is_again or call.is_aborted or not takes_request(call.host, call.event)
    if is_quiet or not session.unfinished or os.environ.get("PASSDOWN_ASK") == "off":
        return HookResponse()
    if not context.sessions.claim(call.session, "asked"):
        return HookResponse()
    draft = draft_path(context.place.folder, choice.task, call.cwd or context.place.root)
    return HookResponse(
        request=request_text(choice.task, draft), about=f"request for {choice.task}"
    )


def _session_end(context: HookContext, session: HookSession) -> HookResponse:
    context.keep(_checkpointed(context, session)[0])
    return HookResponse()


def _checkpointed(
    context: HookContext, session: HookSession, workspace: Workspace | None = None
) -> tuple[HookSession, TaskChoice]:
    """The session with what it did since, kept as a draft of its task's next handoff; its task."""
    from passdown.hosts.hooks.messages import choose_task

    if workspace is None:
        with context.open_workspace() as opened:
            return _checkpointed(context, session, opened)
    choice = choose_task(workspace, session, "")
    return _checkpoint(context, workspace, session, choice.task), choice


def _checkpoint(
    context: HookContext, workspace: Workspace, session: HookSession, name: str
) -> HookSession:
    from passdown.hosts.hooks.capture import (
        archive_draft,
        capture_session,
        changed_files,
        draft_text,
        write_draft,
    )
    from passdown.hosts.hooks.messages import agent_of

    folder, root = context.place.folder, context.place.root
    session, fault = capture_session(session, context.call, root)
    context.faults.extend([fault] if fault else [])
    if not name:
        if session.task and handoffs_of(workspace.task(session.task)) > session.handoffs:
            archive_draft(folder, session.task)  # its handoff has completed the task
        return session._replace(unfinished=False)
    task = workspace.task(name)
    session = _bound(session, task)
    if handoffs_of(task) > session.handoffs:
        # Handed off: that handoff has what was seen so far, and a new turn begins.
        archive_draft(folder, name)
        fresh = HookSession(transcript=session.transcript, read_to=session.read_to)
        fresh = fresh._replace(task=name, agent=session.agent, told=session.told)
        fresh = fresh._replace(used_tokens=session.used_tokens, understood=session.understood)
        return fresh._replace(handoffs=handoffs_of(task), started=int(time.time()))
    changed = changed_files(session, root, context.left_s(_GIT_S))
    has_done = bool(changed or session.commands or session.files or session.subagents)
    if has_done:
        agent = agent_of(session, task.holder, context.call.host)
        try:
            write_draft(folder, name, draft_text(name, agent, session, changed))
        except OSError as error:
            context.faults.append(f"draft not kept: {error.strerror or error}")
    return session._replace(unfinished=has_done or not session.understood)


_HANDLERS: dict[str, Callable[[HookContext, HookSession], HookResponse]] = {
    SESSION_START: _session_start,
    PROMPT_SUBMIT: _prompt_submit,
    PRE_COMPACT: _pre_compact,
    SUBAGENT_START: _subagent_start,
    SUBAGENT_STOP: _subagent_stop,
    STOP: _stop,
    SESSION_END: _session_end,
}
