"""One event after the other: what each does with the session, the store and the answer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, cast

from passdown.model.values import NamedTuple
from passdown.surfaces.hooks.answers import Answer, can_ask, can_tell, counter_for, fits
from passdown.surfaces.hooks.sessions import Session, Sessions
from passdown.surfaces.hosts.table import (
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.settings import Settings
    from passdown.surfaces.hooks.calls import Call
    from passdown.surfaces.hooks.choosing import Choice
    from passdown.workspace import Workspace
    from passdown.workspace.locating import Place

LOCK_WAIT_S = 0.3
"""How long a hook waits for another writer; what it has to tell doesn't depend on it."""

_GIT_S = 2.0
_MARGIN_S = 0.3


class Visit(NamedTuple):
    """A call at work: where, with which settings, until when, and what went wrong on the way."""

    call: Call
    place: Place
    settings: Settings
    deadline: float
    faults: list[str]

    @property
    def sessions(self) -> Sessions:
        """The sessions of this workspace."""
        return Sessions(self.place.folder)

    def left_s(self, most: float) -> float:
        """How much time something may take, with a margin for what follows."""
        return min(most, self.deadline - time.monotonic() - _MARGIN_S)

    def opened(self) -> Workspace:
        """The workspace, with little patience for other writers."""
        from passdown.workspace import Workspace

        settings = self.settings
        patience = min(settings.lock_timeout_s, LOCK_WAIT_S)
        return Workspace(self.place, settings=settings._replace(lock_timeout_s=patience))

    def keep(self, session: Session) -> None:
        """Remember a session, where that can be done."""
        try:
            self.sessions.write(self.call.session, session)
        except OSError as error:
            self.faults.append(f"session not kept: {error.strerror or error}")


def handle(visit: Visit) -> Answer:
    """What a call is answered."""
    with visit.sessions.alone(visit.call.session):
        session = visit.sessions.read(visit.call.session)
        return _HANDLERS[visit.call.event](visit, session)


def _session_start(visit: Visit, session: Session) -> Answer:
    from passdown.surfaces.hooks.choosing import choose
    from passdown.surfaces.hooks.telling import list_text
    from passdown.workspace.locating import branch_and_commit

    call = visit.call
    branch, commit = branch_and_commit(call.cwd or visit.place.root)
    if not session.started:
        session = session._replace(started=int(time.time()), commit=commit)
        visit.sessions.prune()
    with visit.opened() as workspace:
        choice = choose(workspace, session, branch)
        if choice.task:
            session, text = _briefed(visit, workspace, session, choice)
        else:
            session, text = session._replace(task="", told=""), list_text(call.host, choice)
    visit.keep(session._replace(compacted=False))
    return Answer(text, about=f"brief of {session.told}" if session.told else "list of tasks")


def _briefed(
    visit: Visit, workspace: Workspace, session: Session, choice: Choice
) -> tuple[Session, str]:
    """The session bound to a task, and what is told of it."""
    from passdown.surfaces.hooks.choosing import agent_of
    from passdown.surfaces.hooks.telling import brief_text, seen_text

    call = visit.call
    task = workspace.task(choice.task)
    session = _bound(session, task)
    is_compacted = call.source == "compact" or session.compacted
    text = brief_text(
        workspace,
        call.host,
        choice,
        agent_of(session, task["holder"], call.host),
        budget=visit.settings.brief_budget,
        faults=visit.faults,
        more=seen_text(session) if is_compacted else "",
    )
    return session._replace(told=f"{choice.task} at version {task['version']}"), text


def _bound(session: Session, task: dict[str, Any]) -> Session:
    if session.task == task["task"]:
        return session
    return session._replace(task=str(task["task"]), handoffs=handoffs_of(task))


def handoffs_of(task: dict[str, Any]) -> int:
    """How many handoffs a task has had."""
    counts = task.get("counts")
    return int(cast("dict[str, int]", counts).get("h", 0)) if isinstance(counts, dict) else 0


def _prompt_submit(visit: Visit, session: Session) -> Answer:
    call = visit.call
    has_rules = os.path.lexists(os.path.join(visit.place.root, visit.settings.rules_folder))
    may_call = "@" in call.prompt or "/" in call.prompt
    # Most prompts concern nothing of ours: then nothing is opened.
    is_due = session.compacted or not session.task or has_rules or may_call
    if not can_tell(call.host, call.event) or not is_due:
        return Answer()
    with visit.opened() as workspace:
        session, texts = _prompted(visit, workspace, session, has_rules=has_rules)
    visit.keep(session)
    told = {what: text.rstrip("\n") for what, text in texts.items() if text}
    return _together(call.host, told)


def _prompted(
    visit: Visit, workspace: Workspace, session: Session, *, has_rules: bool
) -> tuple[Session, dict[str, str]]:
    """The session after a prompt, and what there is to tell, by what it is."""
    from passdown.surfaces.hooks.choosing import Choice, choose, named_in
    from passdown.surfaces.hooks.telling import switch_text

    call = visit.call
    texts: dict[str, str] = {}
    choice = choose(workspace, session, "")
    named = named_in(call.prompt, choice.tasks) if not choice.task else []
    if len(named) == 1:
        choice = Choice(named[0], "named in the prompt", choice.tasks)
    if choice.task and (session.compacted or session.task != choice.task):
        session, text = _briefed(visit, workspace, session, choice)
        session = session._replace(compacted=False)
        texts[f"brief of {session.told}"] = text
    if choice.task:
        text, agent = switch_text(workspace, call.host, choice.task, call.prompt, session.agent)
        session = session._replace(agent=agent) if agent else session
        texts[f"context of {agent}"] = text
    if has_rules:
        texts["rules"] = _rules(visit, workspace, session)
    return session, texts


def _rules(visit: Visit, workspace: Workspace, session: Session) -> str:
    found = workspace.rules(
        visit.call.prompt,
        session=visit.call.session or "none",
        agent=session.agent or None,
        task=session.task or None,
        used_tokens=session.used_tokens or None,
        counter=counter_for(visit.call.host),
    )
    visit.faults.extend(problem.line() for problem in found.problems)
    return found.text


def _together(host: str, texts: dict[str, str]) -> Answer:
    """The texts that fit, the last first: rules bear on this prompt, a brief can be had again."""
    kept: dict[str, str] = {}
    for what in reversed(texts):
        together = {what: texts[what], **kept}
        if fits(host, "\n\n".join(together.values())):
            kept = together
    return Answer("\n\n".join(kept.values()), about=", ".join(kept))


def _subagent_start(visit: Visit, session: Session) -> Answer:
    from passdown.surfaces.hooks.choosing import choose
    from passdown.surfaces.hooks.telling import brief_text, subagent_name

    call = visit.call
    if not can_tell(call.host, call.event):
        return Answer()
    with visit.opened() as workspace:
        choice = choose(workspace, session, "")
        if not choice.task:
            return Answer()
        holder = workspace.task(choice.task)["holder"]
        name = subagent_name(call.agent_type, session, call.host, holder)
        budget, faults = visit.settings.brief_budget, visit.faults
        text = brief_text(workspace, call.host, choice, name, budget=budget, faults=faults)
        return Answer(text, about=f"brief of {choice.task} for {name}")


def _subagent_stop(visit: Visit, session: Session) -> Answer:
    from passdown.surfaces.hooks.capturing import subagent_captured

    session = subagent_captured(session, visit.call, visit.place.root)
    # Kept at once: if its parent never gets to its own end, this isn't lost with it.
    visit.keep(session)
    visit.keep(_checkpointed(visit, session)[0])
    return Answer()


def _pre_compact(visit: Visit, session: Session) -> Answer:
    with visit.opened() as workspace:
        session, choice = _checkpointed(visit, session, workspace)
        # Gemini CLI announces one at every turn; that there was one shows in its transcript.
        is_sure = visit.call.host != GEMINI.name or visit.call.source == "manual"
        session = session._replace(compacted=session.compacted or is_sure)
        text = ""
        if choice.task and visit.call.host == OPENCODE.name:
            session, text = _briefed(visit, workspace, session, choice)
    visit.keep(session)
    return Answer(text, about=f"brief of {session.told}" if text else "")


def _stop(visit: Visit, session: Session) -> Answer:
    from passdown.surfaces.hooks.drafting import draft_path
    from passdown.surfaces.hooks.telling import request_text

    session, choice = _checkpointed(visit, session)
    visit.keep(session)
    call = visit.call
    is_quiet = call.is_again or call.is_aborted or not can_ask(call.host, call.event)
    if is_quiet or not session.unfinished or os.environ.get("PASSDOWN_ASK") == "off":
        return Answer()
    if not visit.sessions.claim(call.session, "asked"):
        return Answer()
    draft = draft_path(visit.place.folder, choice.task, call.cwd or visit.place.root)
    return Answer(request=request_text(choice.task, draft), about=f"request for {choice.task}")


def _session_end(visit: Visit, session: Session) -> Answer:
    visit.keep(_checkpointed(visit, session)[0])
    return Answer()


def _checkpointed(
    visit: Visit, session: Session, workspace: Workspace | None = None
) -> tuple[Session, Choice]:
    """The session with what it did since, kept as a draft of its task's next handoff; its task."""
    from passdown.surfaces.hooks.choosing import choose

    if workspace is None:
        with visit.opened() as opened:
            return _checkpointed(visit, session, opened)
    choice = choose(workspace, session, "")
    return _checkpoint(visit, workspace, session, choice.task), choice


def _checkpoint(visit: Visit, workspace: Workspace, session: Session, name: str) -> Session:
    from passdown.surfaces.hooks.capturing import captured, changes
    from passdown.surfaces.hooks.choosing import agent_of
    from passdown.surfaces.hooks.drafting import draft_text, set_aside, write_draft

    folder, root = visit.place.folder, visit.place.root
    session, fault = captured(session, visit.call, root)
    visit.faults.extend([fault] if fault else [])
    if not name:
        return session._replace(unfinished=False)
    task = workspace.task(name)
    session = _bound(session, task)
    if handoffs_of(task) > session.handoffs:
        # Handed on: what was seen so far is told in that handoff, and a new turn begins.
        set_aside(folder, name)
        fresh = Session(transcript=session.transcript, read_to=session.read_to)
        fresh = fresh._replace(task=name, agent=session.agent, told=session.told)
        fresh = fresh._replace(used_tokens=session.used_tokens, understood=session.understood)
        return fresh._replace(handoffs=handoffs_of(task), started=int(time.time()))
    changed = changes(session, root, visit.left_s(_GIT_S))
    has_done = bool(changed or session.commands or session.files or session.subagents)
    if has_done:
        agent = agent_of(session, str(task["holder"]), visit.call.host)
        try:
            write_draft(folder, name, draft_text(name, agent, session, changed))
        except OSError as error:
            visit.faults.append(f"draft not kept: {error.strerror or error}")
    return session._replace(unfinished=has_done or not session.understood)


_HANDLERS: dict[str, Callable[[Visit, Session], Answer]] = {
    SESSION_START: _session_start,
    PROMPT_SUBMIT: _prompt_submit,
    PRE_COMPACT: _pre_compact,
    SUBAGENT_START: _subagent_start,
    SUBAGENT_STOP: _subagent_stop,
    STOP: _stop,
    SESSION_END: _session_end,
}
