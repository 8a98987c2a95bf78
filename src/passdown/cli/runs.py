"""`runs`, `replay` and `agents`: list, show, answer, stop and replay runs; the agents' status."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, cast

from passdown.cli import output as out
from passdown.cli.parsing import AGENT, FILE, Author, command
from passdown.cli.session import UsageError, named_by_flags
from passdown.errors import error_from_document
from passdown.relay.agents import MACHINES, AgentStates, as_mermaid
from passdown.relay.run import ENDINGS, RUNNING, VERDICTS, WAITING

if TYPE_CHECKING:
    from passdown.cli.session import Session
    from passdown.core.types import JsonObject
    from passdown.workspace import Workspace


def duration_text(seconds: float) -> str:
    """A duration in a few characters: `2.4 s`, `3:05`, `1:02:09`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _measure(turn: JsonObject, name: str, form: str = ",") -> str:
    return format(turn["measured"][name], form) if name in turn["measured"] else ""


print_turns = out.row_printer(
    "#=number, leg, agent, visit, outcome=result, version=at, attempts, seconds, "
    "tokens in context=tokens, bytes out=out",
    "no turn was begun",
    whole="#,leg,agent,outcome",
    leg=lambda turn: turn["name"] if turn["kind"] == "budget_review" else turn["leg"],
    result=lambda turn: turn["verdict"] or turn["outcome"] or "open",
    at=lambda turn: turn["version"] or "",
    attempts=lambda turn: _measure(turn, "attempts"),
    seconds=lambda turn: _measure(turn, "seconds", ".1f"),
    tokens=lambda turn: _measure(turn, "context_tokens"),
    out=lambda turn: _measure(turn, "bytes_out"),
)
"""Prints a table of turns with what was measured."""

_print_runs = out.row_printer(
    "run, relay, task, status, leg, started (UTC)=started_at, lasted, turns=legs, why",
    "no runs; passdown run FILE --task TASK starts one",
    whole="run,status,lasted",
    short="why",
    lasted=lambda run: duration_text(run["seconds"]),
)
_print_agents = out.row_printer(
    "agent, run, state, task, since (UTC)=since, machine, note",
    "no agent activity yet",
    whole="agent,state",
)
_print_moves = out.row_printer(
    "at (UTC)=at, what=kind, states, task, run, why",
    "nothing happened to this agent yet",
    whole="what",
    short="why",
    states=lambda entry: " > ".join((entry["from"], *entry["path"])) if "path" in entry else "",
)


def print_run_status(run: JsonObject) -> None:
    """Print how a run ended or where it waits, and how to continue it."""
    turns = out.counted(len(run["turns"]), "turn")
    why = f": {run['why'].splitlines()[0]}" if run["why"] else ""
    out.line(f"{run['run']} {run['status']} after {duration_text(run['seconds'])}, {turns}{why}")
    for text in run["next"]:
        out.line(text, 2)


def _print_run(run: JsonObject) -> None:
    """Print a run in full: every field, every turn, the evidence of each failure."""
    about = run["file"].get("description", "")
    out.pairs(
        [
            ("run", run["run"]),
            ("relay", f"{run['relay']}: {about}".rstrip(": ")),
            *((name, run[name]) for name in ("task", "status", "why")),
            ("at", run["leg"]),
            ("lane", run["lane"]),
            ("started", f"{out.moment(run['started_at'])}, by {run['by']}"),
            ("ended", out.moment(run["ended_at"])),
            ("lasted", duration_text(run["seconds"])),
            (
                "asked",
                [f"{each['agent']} in {each['leg']}: {each['why']}" for each in run["asked"]],
            ),
            ("loops", [f"{name} {used} of {most}" for name, (used, most) in run["loops"].items()]),
            ("next", "\n".join(run["next"])),
        ]
    )
    out.line()
    print_turns(run["turns"])
    for turn in run["turns"]:
        out.line()
        _print_turn(turn)


def _print_turn(turn: JsonObject) -> None:
    out.line(f"turn {turn['number']}: {turn['name']}, {turn['agent']}")
    hidden = ("number", "name", "leg", "agent", "visit", "evidence", "measured")
    shown = [(name, value) for name, value in turn.items() if name not in hidden and value]
    out.pairs([(n, out.short_time(v) if n.endswith("_at") else v) for n, v in shown], 2)
    out.pairs([(name, value) for name, value in turn["measured"].items() if value != ""], 4)
    for attempt in turn["evidence"]:
        _print_attempt(attempt)


def _print_attempt(attempt: JsonObject) -> None:
    """What one attempt gave: its problems, how its program ended, what it wrote."""
    reply = attempt.get("reply", {})
    out.line(f"attempt {attempt.get('attempt', '')}", 4)
    for problem in attempt.get("problems", ()):
        where = f"{problem['path']}: " if problem["path"] else ""
        out.line(f"- {where}{problem['message']} [{problem['code']}]", 6)
    known = ("failure", "error", "exit_code", "seconds", "bytes_in", "bytes_out", "is_truncated")
    out.pairs([(name, reply.get(name)) for name in known if reply.get(name)], 6)
    for name, text in {**reply.get("evidence", {}), "text": reply.get("text", "")}.items():
        if text:
            out.line(f"{name}:", 6)
            out.line(text.rstrip("\n"), 8)


@command(
    "replay",
    "R-1 code --agent tester",
    "R-1 code --command 'claude -p --model opus' --json",
    "R-1 code --rest",
    "R-1",
    flags={"program": "--command"},
    help={
        "run": "RUN: the run",
        "leg": "LEG: the leg, or the number of a turn; without it: what was taken again before",
        "agent": f"{AGENT}: who takes it; default: the agent that had it",
        "program": "TEXT: what runs that agent, in place of what the relay file says",
        "script": f"{FILE}: the same, from a file with replies",
        "rest": "also what follows, to the end of the run",
        "folder": "DIR: where agents work; default: the project",
        "by": "who starts it",
    },
)
def replay(
    session: Session,
    run: str,
    leg: str | None = None,
    *,
    agent: str = "",
    program: str = "",
    script: str = "",
    rest: bool = False,
    folder: str = "",
    by: Author,
) -> int:
    """Take a leg of a run again, from what the first agent was given, and compare both handoffs.

    It is recorded in a ledger of its own; the task and its run stay as they are.
    """
    if program and script:
        raise UsageError("name --command or --script, not both")
    if not leg and (agent or program or script or rest):
        raise UsageError("name the LEG that is to be taken again")
    runner = {"command": shlex.split(program), "script": script} if program or script else None
    with session.open() as workspace:
        if not leg:
            session.show(workspace.relay.replays(run), _print_replays)
            return 0
        flags = {"runner__command": "--command", "runner__script": "--script", "agent": "--agent"}
        with out.busy(f"passdown replay {run} {leg}"), named_by_flags(**flags):
            found = workspace.relay.replay(
                run, leg, by=by, agent=agent, runner=runner, rest=rest, folder=folder
            )
    session.show(found, _print_replay)
    is_done = found["again"]["handoff"] and (not rest or found["status"] == "completed")
    return 0 if is_done else 1


_print_replays = out.row_printer(
    "replay, leg, turn, first, again, differs in=diff",
    "no leg of this run was taken again",
    whole="replay",
    first=lambda each: _took(each["first"]),
    again=lambda each: _took(each["again"]),
    diff=lambda each: ", ".join(_differing(each)) or _same(each),
)


def _took(turn: JsonObject) -> str:
    return f"{turn['agent']}, {turn['outcome'] or 'open'}"


_NOT_SAID = ("schema_version", "from_agent", "trace", "at", "sha256", "digest", "size")
"""What Passdown adds to a handoff and its entries, and who made it, which is said above."""

_MAIN = ("summary", "pattern", "issue", "key", "file", "question", "step", "blocker", "path")
"""What an entry says, which comes first."""


def _entry_lines(entry: Any) -> list[str]:
    """An entry of a handoff as lines: a text's own, or one for each field that an agent filled."""
    if not isinstance(entry, dict):
        return str(entry).splitlines()
    fields = cast("JsonObject", entry)
    return [
        f"{name}: {', '.join(map(str, _entries(value)))}"
        for name, value in sorted(fields.items(), key=lambda field: field[0] not in _MAIN)
        if value not in (None, "", [], {}) and name not in _NOT_SAID
    ]


def _entries(side: Any) -> list[Any]:
    return cast("list[Any]", side) if isinstance(side, list) else [side] if side else []


def _differing(found: JsonObject) -> list[str]:
    """The fields in which what the agents said differs."""
    return [name for name in found["diff"] if name not in _NOT_SAID]


def _same(found: JsonObject) -> str:
    """What is said where no field differs: nothing does, or a handoff is missing."""
    tries = {"first": "the first try", "again": "the second try"}
    missing = [text for name, text in tries.items() if not found[name]["handoff"]]
    return f"{' and '.join(missing)} gave no handoff" if missing else "nothing"


def _print_replay(found: JsonObject) -> None:
    """Print who took the leg, what only one of the handoffs says, and what followed."""
    out.heading(f"{found['replay']}: {found['leg']} of {found['run']}, turn {found['turn']}")
    again = found["again"]
    why = f": {again['why']}" if again["why"] else ""
    out.pairs([("first", _took(found["first"])), ("again", _took(again) + why)])
    for name in _differing(found):
        out.line(name)
        for sign, side in (("-", "first"), ("+", "again")):
            for entry in _entries(found["diff"][name][side]):
                for at, text in enumerate(_entry_lines(entry)):
                    out.line(f"{' ' if at else sign} {text}", 2)
    if not _differing(found):
        same = _same(found)
        out.line(
            "both handoffs say the same" if same == "nothing" else f"nothing to compare: {same}"
        )
    _print_rest(found)
    out.line(f"recorded in {found['store']}")


def _print_rest(found: JsonObject) -> None:
    """Print the legs that followed, and how the run ended."""
    if not found["rest"]:
        return
    out.line("what followed")
    for turn in found["rest"]:
        why = f": {turn['why']}" if turn["why"] else ""
        out.line(f"{turn['leg']}  {_took(turn)}{why}", 2)
    is_done = found["status"] == "completed"
    out.line("the rest was completed" if is_done else f"the rest is not done: {found['status']}")


@command(
    "runs",
    "",
    "--status waiting",
    "R-1",
    "R-1 --answer continue --by kim --guidance 'keep the tests'",
    "R-1 --stop --by kim --why 'the task is obsolete'",
    choices={"status": (RUNNING, WAITING, *ENDINGS), "answer": VERDICTS},
    help={
        "name": "RUN: one run, in full",
        "status": "only those with this status",
        "answer": "to the budget review that it waits for",
        "guidance": "instructions for its agent",
        "stop": "end it; open turns are finished",
        "why": "why it is stopped",
        "by": "who answers or stops it; default: PASSDOWN_AGENT, else your user name",
    },
)
def runs(
    session: Session,
    name: str = "",
    *,
    status: str | None = None,
    answer: str | None = None,
    guidance: str = "",
    stop: bool = False,
    why: str = "",
    by: str | None = None,
) -> int:
    """List and show runs; answer one, stop one."""
    wrong = {
        "name the RUN that is meant": (answer or stop) and not name,
        "--answer lets it continue, --stop ends it: choose one": answer and stop,
        "--guidance goes with --answer": guidance and not answer,
        "--why goes with --stop": why and not stop,
        "--status lists runs; leave RUN out": status and name,
    }
    if problem := next((text for text, is_so in wrong.items() if is_so), ""):
        raise UsageError(problem)
    with session.open() as workspace:
        if not name:
            found, damaged = workspace.relay.runs(status or "")
            session.show([*found, *damaged], lambda _: _print_runs(found))
            for document in damaged if not session.as_json else ():  # it hides no other
                out.print_error(error_from_document(document), as_json=False)
            return 1 if damaged else 0
        if answer:
            run = workspace.relay.answer(name, answer, by=session.author(by), guidance=guidance)
        elif stop:
            run = workspace.relay.stop(name, by=session.author(by), reason=why)
        else:
            session.show(workspace.relay.run(name), _print_run)
            return 0
        said = f"answered: {answer}" if answer else f"{name} is {run['status']}"
        session.show(run, lambda run: _print_changed_run(workspace, run, said))
    return 0


def _print_changed_run(workspace: Workspace, run: JsonObject, said: str) -> None:
    from passdown.cli.relays import resume_hint

    out.line(said)
    if run["status"] == RUNNING:
        out.line(resume_hint(workspace, run["run"], run["lane"]))
    for text in run["next"]:
        out.line(text, 2)


@command(
    "agents",
    "",
    "--busy",
    "coder",
    "--mermaid coder",
    choices={"mermaid": tuple(MACHINES)},
    help={
        "name": "AGENT: one agent: everything that happened to it",
        "busy": "only those that work on a task",
        "mermaid": "instead: the states as a Mermaid diagram",
    },
)
def agents(
    session: Session, name: str = "", *, busy: bool = False, mermaid: str | None = None
) -> None:
    """Show the status of each agent, or the moves of one."""
    if (name and busy) or (mermaid and (name or busy)):
        raise UsageError("name one AGENT, or --busy, or --mermaid")
    if mermaid:
        session.show_text(as_mermaid(MACHINES[mermaid]))
        return
    with session.open() as workspace:
        if name:
            states = AgentStates(workspace)
            seats = [name, *(each.agent for each in states.instances(name))]
            moves = [{"seat": seat, **entry} for seat in seats for entry in states.log(seat)]
            session.show(sorted(moves, key=lambda entry: entry["at"]), _print_moves)
            return
        found = workspace.relay.agents()
    session.show([each for each in _current(found) if each["leased"] or not busy], _print_agents)


def _current(found: list[JsonObject]) -> list[JsonObject]:
    """The rows without an agent's part in runs that have ended (`passdown agents AGENT` shows it);
    the latest of those for an agent that has nothing else.
    """
    rows = [row for row in found if row["leased"] or row["note"] or row["seat"] == row["agent"]]
    known = {row["agent"] for row in rows}
    latest = {row["agent"]: row for row in sorted(found, key=lambda row: row["since"])}
    return rows + [{**row, "run": ""} for name, row in latest.items() if name not in known]
