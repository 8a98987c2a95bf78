"""`brief`, `why` and `context`: what an agent is told about a task, and why not more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from passdown.cli.output import (
    counted,
    line,
    print_freshness,
    row_printer,
    value_printer,
    verbatim,
)
from passdown.cli.parsing import command, operation
from passdown.cli.session import UsageError, read_input
from passdown.core.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.errors import Problem

_MAX_DISPLACED = 12


@command(
    "brief",
    "T-1 --agent coder",
    "T-1 --agent coder --budget 300 --counter chars4 --tag money",
    "T-1 --agent coder --format yaml --no-record",
    "T-1 --check prompt.txt",
    like="brief",
    finds_task=True,
    alone={"check": (), "left_out": ("agent", "budget", "counter", "tags")},
    choices={"format": ("markdown", "plain", "yaml", "json", "summary", "injection")},
    help={
        "agent": "who it is for; default: PASSDOWN_AGENT, else your user name",
        "record": "don't record that it was delivered",
        "check": "FILE: whether this brief is still current; exit code 1 when it isn't",
        "left_out": "list the addresses of what it leaves out instead",
    },
)
def brief(
    session: Session,
    task: str,
    *,
    agent: str | None = None,
    check: str | None = None,
    left_out: bool = False,
    **options: Any,
) -> int:
    """Print what an agent needs to know about a task, within a budget."""
    with session.open() as workspace:
        if check:
            text = read_input(check).decode(errors="replace")
            return print_freshness(session, workspace.context.check(task, text), task)
        if left_out:
            asked = {name: options[name] for name in ("budget", "counter", "tags")}
            rest = workspace.context.left_out(task, agent=session.author(agent), **asked)
            session.show(rest, lambda rest: [line(address) for address in rest])
            return 0
        found = workspace.brief(task, agent=session.author(agent), **options)
    session.show(found, lambda found: verbatim(found.text.removesuffix("\n")))
    if not session.as_json:
        print_warnings(found.warnings)
    return 0


def print_warnings(warnings: Iterable[Problem]) -> None:
    """Print warnings on standard error, apart from the text."""
    for problem in warnings:
        print(visible(f"{problem.level}: {problem.line()}"), file=sys.stderr)


def _displaced_by(found: JsonObject) -> str:
    first = found.get("displaced_by", [])
    more = len(first) - _MAX_DISPLACED
    return ", ".join(first[:_MAX_DISPLACED]) + (f" and {more} more" if more > 0 else "")


_print_reason = value_printer(
    "kind, status, recorded in=recorded_in_version, agent, delivered=told, why=reason, "
    "came first=displaced_by",
    lambda found: f"{found['item']}  {found['title']}",
    kind=lambda found: found["kind"].replace("_", " "),
    recorded_in_version=lambda found: f"version {found['recorded_in_version']}",
    agent=lambda found: f"{found['agent']}, {counted(found['briefs'], 'brief')} so far",
    displaced_by=_displaced_by,
)
_print_deliveries = row_printer(
    "at (UTC)=at, length, as=kind, version, budget, asked=query",
    "",
    whole="",
    short="asked",
    budget=lambda time: f"{time['budget']} {time['counter']}" if time["budget"] else "",
)


def print_why(found: JsonObject) -> None:
    """Print whether an item was in an agent's brief, when, and what came first otherwise."""
    _print_reason(found)
    if found["times"]:
        line()
        _print_deliveries(found["times"])


operation(
    "why",
    print_why,
    "T-1#d3 --agent coder",
    "T-1#d3 --agent coder --json",
    help={"agent": "the agent that the brief was for"},
)


@command(
    "context",
    "T-2",
    "T-2 --for computed --complexity easy --explain",
    "T-2 --for compact",
    flags={"purpose": "--for"},
    finds_task=True,
    help={
        "purpose": "next: what its dependencies pass on, and its steps (default); "
        "computed: what bears on it; compact: itself in 2,000 characters",
        "complexity": "how much is computed; default: normal",
        "explain": "why each computed entry is in",
    },
)
def context(
    session: Session,
    task: str,
    *,
    purpose: Literal["next", "computed", "compact"] = "next",
    complexity: Literal["easy", "normal", "complex"] | None = None,
    explain: bool = False,
) -> None:
    """Print what earlier tasks pass on to a task."""
    if purpose != "computed" and (explain or complexity):
        raise UsageError("--explain and --complexity belong to --for computed")
    with session.open() as workspace:
        if purpose == "computed":
            found = workspace.context.computed(task, complexity=complexity or "normal")
            document = found.to_dict()
            if explain:
                document["explanation"] = found.explained()
            text = found.explained() if explain else found.text().rstrip("\n")
            session.show(document, lambda _: verbatim(text))
        elif purpose == "compact":
            compact = {"task": task, "text": workspace.context.compact(task)}
            session.show(compact, lambda found: verbatim(found["text"]))
        else:
            steps = [step.to_dict() for step in workspace.context.next_steps(task)]
            document = {
                "task": task,
                "text": workspace.context.injection(task),
                "next_steps": steps,
            }
            session.show(document, _print_next)


def _print_next(found: JsonObject) -> None:
    if found["text"]:
        verbatim(found["text"].rstrip("\n"))
    else:
        line(f"{found['task']} depends on no task")
    if found["next_steps"]:
        line()
        line(f"next steps of {found['task']}")
        for step in found["next_steps"]:
            line(f"{step['address']}  {step['priority']}  {step['step']}", 2)
