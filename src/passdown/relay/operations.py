"""Operations of relays: runs, express items, agents and conversations, as the table names them.

Each takes the workspace and gives plain JSON, so that they are the same here and on a server.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple
from weakref import WeakKeyDictionary

from passdown.core.arguments import raise_problems, text_type_problems
from passdown.core.kinds import CONVERSATION_STREAM
from passdown.core.names import key_problems
from passdown.core.times import stamp
from passdown.core.types import JsonObject
from passdown.errors import Damaged, InvalidInput, NotAllowed, PassdownError, Problem
from passdown.ledger.channel import any_author
from passdown.relay.agents import AgentStatus, RunAgents
from passdown.relay.run import ENDINGS, RUNNING, WAITING, Run
from passdown.relay.runs import EXPRESS_RUN, HERE, Runs, run_document
from passdown.workspace import Workspace
from passdown.workspace.streams import WorkspaceStreams, may_record


class RunList(NamedTuple):
    """Runs, newest first, and the errors of those that can't be read."""

    items: list[JsonObject]
    damaged: list[JsonObject]


def list_runs(workspace: Workspace, status: str = "") -> RunList:
    """Runs of relays, newest first; a damaged one hides no other.

    Args:
        status: Only those with this status.
    """
    known = (RUNNING, WAITING, *ENDINGS)
    if status and status not in known:
        problem = Problem("status", "invalid_choice", f"{status[:80]!r}", " | ".join(known))
        raise InvalidInput("nothing was listed", [problem])
    runs, now, ended = Runs(workspace), _now(workspace), _ENDED.setdefault(workspace, {})
    items: list[JsonObject] = []
    damages: list[JsonObject] = []
    for name, position in runs.positions().items():
        known, document = ended.get(name, (0, {}))
        if known != position:
            try:
                run = runs.get(name)
            except Damaged as error:
                damages.append(error.to_dict())
                continue
            document = run_document(run, now, is_listed=True)
            if run.ended_at:
                ended[name] = run.position, document
        if status in ("", document["status"]):
            items.append({**document})
    items.sort(key=lambda run: (run["started_at"], len(run["run"]), run["run"]), reverse=True)
    return RunList(items, damages)


_ENDED: WeakKeyDictionary[Workspace, dict[str, tuple[int, JsonObject]]] = WeakKeyDictionary()
"""Ended runs with the number of their records: a list reads only those that have changed."""


def get_run(workspace: Workspace, run: str) -> JsonObject:
    """One run in full: its turns, what was measured, what it waits for.

    Args:
        run: The run.
    """
    return run_document(Runs(workspace).get(run), _now(workspace))


def answer_run(
    workspace: Workspace, run: str, verdict: str, *, by: str, guidance: str = ""
) -> JsonObject:
    """Answer the budget review that a run waits for.

    Args:
        run: The run.
        verdict: continue, pivot, escalate or abandon.
        by: Who decides.
        guidance: What the agent is told.
    """
    return _followed_up(workspace, Runs(workspace).answer(run, verdict, by=by, guidance=guidance))


def stop_run(workspace: Workspace, run: str, *, by: str, reason: str = "") -> JsonObject:
    """End a run; turns under way come to their end.

    Args:
        run: The run.
        by: Who decides.
        reason: Why.
    """
    return _followed_up(workspace, Runs(workspace).stop(run, by=by, why=reason))


def resume_run(workspace: Workspace, run: str, *, by: str, detach: bool = False) -> JsonObject:
    """Start a run again that has stopped or waits; workers take its turns.

    Args:
        run: The run.
        by: Who decides.
        detach: Leave a run to workers that a process in the foreground had.
    """
    return _followed_up(workspace, Runs(workspace).resume(run, by=by, detach=detach))


def list_workers(workspace: Workspace) -> list[JsonObject]:
    """Processes that take turns of runs: `state` is alive, silent or gone; `lease_ends` is when
    others take over unless a worker renews its lease.
    """
    from passdown.relay.worker import workers_of

    now = WorkspaceStreams(workspace).now()
    found = [each.document() for each in workers_of(workspace)]
    return [
        {**each, "lease_ends": stamp(now + timedelta(seconds=each["lease_s"] - each["silent_s"]))}
        for each in found
    ]


REQUEST_KINDS = ("question", "plan", "code", "completion", "budget")


class AgentAnswer(NamedTuple):
    """What an agent of a run answered; `verdict` is a review's first word, "" for a question."""

    run: str
    agent: str
    verdict: str
    text: str


def ask_agent(
    workspace: Workspace,
    run: str,
    to_agent: str,
    text: str,
    *,
    by: str,
    kind: str = "question",
    key: str | None = None,
) -> AgentAnswer:
    """Ask an agent of a run, in its conversation with the sender, and wait for the answer.

    Its runner is executed where the store is.

    Args:
        run: The run.
        to_agent: The agent to ask.
        text: The question, or what is to be reviewed.
        by: Who asks.
        kind: question, or a review: plan, code, completion or budget.
        key: With it, a repeat gives the recorded answer and asks nobody.
    """
    from passdown.relay.turns import Turns

    problems = text_type_problems(run=run, to_agent=to_agent, text=text, by=by, kind=kind)
    problems += key_problems(key) if key not in (None, "") else []
    if isinstance(kind, str) and kind not in REQUEST_KINDS:  # pyright: ignore[reportUnnecessaryIsInstance]
        expected = " | ".join(REQUEST_KINDS)
        problems.append(Problem("kind", "invalid_choice", f"{kind[:80]!r}", expected))
    raise_problems("the request is refused; nothing was recorded", problems)
    found = Runs(workspace).get(run)
    with any_author():  # the answer is the agent's, not the sender's
        answer = Turns(workspace).ask(found, by, to_agent, kind, text, key=key or "")
    return AgentAnswer(run, to_agent, answer.verdict, answer.message.content)


def only_run(workspace: Workspace) -> str:
    """The run that is meant where none is named: PASSDOWN_RUN, or the only one under way."""
    if named := os.environ.get("PASSDOWN_RUN"):
        return named
    found = [run["run"] for run in workspace.relay.runs().items if not run["ended_at"]]
    if len(found) == 1:
        return found[0]
    problem = Problem("run", "required", f"{len(found)} runs are under way", "a run, such as R-1")
    raise InvalidInput("it isn't clear which run is meant", [problem])


def _followed_up(workspace: Workspace, run: Run) -> JsonObject:
    """Move the agents of a run to its new state and queue its open turns, since perhaps no process
    has the run. That is the engine's to write, and not the person's who decided. Without the
    engine, workers find it.
    """
    with any_author():
        RunAgents(workspace).settle(run)
        if run.lane != HERE and run.status == RUNNING:
            with suppress(PassdownError):
                from passdown.relay.worker import requeue

                requeue(workspace, run.run)
    return run_document(run, _now(workspace))


def _now(workspace: Workspace) -> str:
    return stamp(WorkspaceStreams(workspace).now())


def agent_statuses(workspace: Workspace) -> list[JsonObject]:
    """The status of each agent of a relay, and its task; `seat` is its name within a run. A lease
    whose process has ended doesn't count: `note` says how its run continues.
    """
    agents = RunAgents(workspace)
    return [_agent_document(agents, status) for status in agents.states.agents()]


def _agent_document(agents: RunAgents, status: AgentStatus) -> JsonObject:
    is_abandoned = agents.is_abandoned(status.lease)
    agent, mark, place = status.agent.rpartition(".R-")
    is_seat = bool(mark) and place.replace(".", "").isdigit()
    run = status.lease.run if status.lease else f"R-{place}" if is_seat else ""
    item = run.removeprefix(EXPRESS_RUN)
    resume = f"express queue {item}" if item != run else f"run --resume {run}"
    return {
        "agent": agent if is_seat else status.agent,
        "run": run,
        "state": status.state,
        "task": status.task,
        "since": status.since,
        "machine": status.machine,
        "seat": status.agent,
        "leased": status.lease is not None and not is_abandoned,
        "worker": agents.worker_of(status.lease),
        "note": f"its process has ended: passdown {resume}" if is_abandoned else "",
    }


def conversations(workspace: Workspace, task: str, agent: str, peer: str = "") -> list[JsonObject]:
    """What an agent said and was told in a task; for that agent, and the peer, alone.

    Args:
        task: The task; `workspace` for an agent without tasks.
        agent: The agent.
        peer: Only its conversation with this one.
    """
    if not may_record(agent) and not (peer and may_record(peer)):
        raise NotAllowed(
            f"what {agent[:80]} was told in its conversations is its own",
            next_step="Ask for what is recorded of the task: the brief, the log.",
        )
    streams = WorkspaceStreams(workspace)
    prefix = f"{CONVERSATION_STREAM}{task}/{agent}/"
    return [
        {"peer": head.stream.removeprefix(prefix), "at": record.at, "kind": record.kind}
        | {"number": record.position, "body": record.document()}
        for head in streams.streams(prefix)
        if peer in ("", head.stream.removeprefix(prefix))
        for record in streams.records(head.stream)
    ]


def list_express(workspace: Workspace, status: str = "") -> list[JsonObject]:
    """Express items and their outcomes, oldest first.

    Args:
        status: Such as sent, done, promoted.
    """
    from passdown.relay.express import express_records

    return [each.to_dict() for each in express_records(workspace, status=status)]


def get_express(workspace: Workspace, item: str) -> JsonObject:
    """One express item and its outcome.

    Args:
        item: Its id.
    """
    from passdown.relay.express import express_document, express_record

    return express_document(workspace, express_record(workspace, item))


def send_express(workspace: Workspace, item: JsonObject) -> JsonObject:
    """Send a small job that jumps the queue; the same item again is the same.

    Args:
        item: The job, as an express file has it.
    """
    from passdown.relay.express import express_document, submit

    sent, why = submit(workspace, item)
    return {**express_document(workspace, sent), "queued": not why, "not_queued": why}
