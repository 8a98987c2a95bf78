"""Human gates: a held handoff pauses the graph until a person answers.

The graph stops with `interrupt`, so it needs a checkpointer. Resume it with
`Command(resume={"by": NAME, "approve": [GATE...], "reject": [GATE...], "reason": TEXT})`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import quote

from passdown.adapters.langgraph.compat import interrupt, running_config
from passdown.adapters.tools import workspace_of
from passdown.core.names import agent_problems
from passdown.errors import GateRefused, Problem
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from passdown.adapters.state_schema import Plain
    from passdown.adapters.tools import AnyWorkspace


_ASKED = "graph-asked/"
_ANSWER = {"by": "NAME", "approve": ["GATE"], "reject": ["GATE"], "reason": "why, to reject"}
_SHOWN = ("address", "task", "blocker", "suggested_resolution", "impact", "severity", "agent")


class GateAnswers(NamedTuple):
    """What a person said: which gates are open now, and which stay shut; to which questions."""

    questions: list[Plain]
    by: str
    approve: tuple[str, ...]
    reject: tuple[str, ...]
    reason: str


def ask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """Wait until every gate of a task has an answer and record it; gives the rejected ones.

    An answer counts for the gates that it names. One that leaves a gate out, or is wrong in
    another way, changes nothing: the graph pauses again with every problem. Rejected
    handoffs of `agent` itself are left out: it may continue and hand off again.
    """
    place = str(running_config().get("configurable", {}).get("checkpoint_ns", ""))
    for question in _earlier_questions(workspace, place):
        interrupt(question)
    waiting = [gate for gate in _human_gates(workspace, task) if gate["status"] == "pending"]
    if waiting:
        _record_answers(workspace, place, _ask_until_answered(waiting))
    # Read from the ledger, so that a rejection also holds after a crash.
    shut = [gate for gate in _human_gates(workspace, task) if gate["status"] == "rejected"]
    return [gate for gate in shut if gate["agent"] != agent]


async def aask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """`ask_people`, awaited."""
    return await asyncio.to_thread(ask_people, workspace, task, agent=agent)


def _earlier_questions(workspace: AnyWorkspace, place: str) -> list[Plain]:
    """The questions that people answered in this very turn of a node.

    LangGraph runs a node from its beginning after each pause and hands the answers out in their
    order: without these, the node's own first question would get the answer to a gate.
    """
    records = WorkspaceStreams(workspace_of(workspace)).records(_ASKED + quote(place, safe=""))
    return [question for record in records for question in record.document()["questions"]]


def _human_gates(workspace: AnyWorkspace, task: str) -> list[Plain]:
    found = workspace_of(workspace).gates(task)
    return [gate.to_dict() for gate in found if gate.kind == "human"]


def _ask_until_answered(waiting: list[Plain]) -> GateAnswers:
    """Pause the graph until somebody answers for each gate."""
    shown = [{name: gate[name] for name in _SHOWN if name in gate} for gate in waiting]
    question: Plain = {"gates": shown, "answer_with": _ANSWER}
    names = [gate["address"] for gate in waiting]
    questions: list[Plain] = []
    while True:
        questions.append(question)
        answers, problems = _parse_answer(interrupt(question), names)
        if answers is not None:
            return answers._replace(questions=questions)
        question = {**question, "problems": [problem.line() for problem in problems]}


def _parse_answer(given: object, names: list[str]) -> tuple[GateAnswers | None, list[Problem]]:
    if not isinstance(given, dict):
        return None, [Problem("", "wrong_type", f"{type(given).__name__} given", str(_ANSWER))]
    fields = cast("Plain", given)
    problems = agent_problems(fields.get("by", ""), "by")
    lists = {name: _gate_names(fields.get(name), name, problems) for name in ("approve", "reject")}
    for name in names:
        count = sum(name in listed for listed in lists.values())
        if count != 1:
            message = "is in both lists" if count else "has no answer"
            problems.append(Problem(name, "required", message, "approve or reject"))
    reason = fields.get("reason") or ""
    is_rejected = any(name in lists["reject"] for name in names)
    if not isinstance(reason, str) or (is_rejected and not reason.strip()):
        problems.append(Problem("reason", "required", "a rejection needs a reason", "text"))
    if problems:
        return None, problems
    approve, reject = ([n for n in names if n in lists[kind]] for kind in ("approve", "reject"))
    return GateAnswers([], fields["by"], tuple(approve), tuple(reject), str(reason)), []


def _gate_names(value: object, path: str, problems: list[Problem]) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        problems.append(Problem(path, "wrong_type", f"{type(value).__name__} given", "a list"))
        return []
    return list(cast("list[object]", value))


def _record_answers(workspace: AnyWorkspace, place: str, answers: GateAnswers) -> None:
    """Record what was asked and what a person said. Where another answer came first, that one
    holds.
    """
    opened = workspace_of(workspace)
    stream, body = _ASKED + quote(place, safe=""), {"questions": answers.questions}
    WorkspaceStreams(opened).add(StreamEntry(stream, "gates_asked", answers.by, body))
    for gate in (*answers.approve, *answers.reject):
        try:
            if gate in answers.approve:
                opened.approve(gate, by=answers.by, reason=answers.reason)
            else:
                opened.reject(gate, by=answers.by, reason=answers.reason)
        except GateRefused:
            continue
