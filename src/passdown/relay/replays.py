"""Replays: a recorded leg taken again, from exactly the state and the request that the first had.

A replay has a ledger of its own, which begins with the records up to the first agent's request,
byte for byte. So briefs, searches and checks give what they gave then, and nothing of the original
changes. What files were then is not part of it: the agent works in the folder that it is given.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from passdown.core.arguments import raise_problems
from passdown.core.handoff import handoff_from_body
from passdown.core.kinds import CONVERSATION_STREAM, stream_of
from passdown.core.names import agent_problems
from passdown.core.text import excerpt, storable_values
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotFound, PassdownError, Problem
from passdown.ledger.writer import MEASURED_FIELDS
from passdown.relay.messages import message_of
from passdown.relay.relay_file import check_relay
from passdown.relay.run import ERROR
from passdown.relay.runs import Runs
from passdown.relay.turns import Turns, turn_key
from passdown.store import open_store
from passdown.store.copy import copy_store
from passdown.workspace import Workspace
from passdown.workspace.context import context_of
from passdown.workspace.location import REPLAY, replay_location, replay_names
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.core.record import Record
    from passdown.relay.run import LegRun, Run
    from passdown.relay.runners import Runner
    from passdown.relay.runners.scripted import Function
    from passdown.workspace.location import Location

_REFUSED = "the leg is not taken again; nothing was changed"
_RUNNER_TOO = "say with --command or --script what runs it (in Python: runner=...)"
_ONLY = "only this leg was taken again"
_ABOUT_RUN = ("run", "leg", "to")
"""What the relay adds to a handoff's metadata."""


def replay_leg(
    workspace: Workspace,
    run: str,
    leg: str,
    *,
    by: str,
    agent: str = "",
    runner: Any = None,
    rest: bool = False,
    folder: str = "",
) -> JsonObject:
    """Take a leg of a run again, from the state and the request that the first agent had, and
    compare both handoffs. Everything is recorded in a ledger of its own, which `store` names.

    Args:
        run: The run.
        leg: The leg, of which the last turn is meant, or the number of a turn.
        by: Who starts it.
        agent: Who takes it; by default the agent that had it.
        runner: What runs that agent, as in a relay file (`{"command": [...]}`), or a function;
            by default the one that the relay declares.
        rest: Also take what follows, to the end of the run.
        folder: Where agents work; by default the project.
    """
    found = Runs(workspace).get(run)
    turn = _turn(found, leg)
    agent = agent or turn.agent
    given = cast("JsonObject", runner) if isinstance(runner, dict) else {}
    problems = [*agent_problems(by, "by"), *agent_problems(agent, "agent")]
    if agent not in found.relay.agents and not runner:
        message, known = f"{excerpt(agent)!r} is not in the relay", " | ".join(found.relay.agents)
        problems.append(Problem("agent", "unknown_agent", message, known, _RUNNER_TOO))
    if folder and not os.path.isdir(folder):
        problems.append(Problem("folder", "not_found", f"{excerpt(folder)!r}", "a folder"))
    raise_problems(_REFUSED, problems)
    asked = _request(workspace, found, turn)
    options = _checked_runner(workspace, found, turn, agent, given) if given else {}
    runners: dict[str, Any] | None = {agent: runner} if runner and not given else None
    first = {"agent": turn.agent, "outcome": turn.outcome, "version": turn.version}
    replayed: JsonObject = {
        "number": turn.number,
        "agent": agent,
        "runner": options,
        "first": first,
    }
    place = _copied(workspace, found, turn, asked, folder)
    with _opened(workspace, place) as other:
        started = Runs(other).replay(run, replayed, by=by)
        again = started.legs[turn.number]
        turns = Turns(other, runners=runners)
        if agent != turn.agent:
            said = message_of(asked.document()["message"]).content
            turns.repeat_request(started, again, said)
        if rest:
            _take_rest(other, started, place, runners)
        else:
            _take_one(other, turns, started, again)
            Runs(other).stop(run, by=by, why=_ONLY)
        return _comparison(workspace, other, place, run)


def list_replays(workspace: Workspace, run: str) -> list[JsonObject]:
    """The replays of a run's legs, each compared with the first handoff.

    Args:
        run: The run.
    """
    Runs(workspace).get(run)
    here = context_of(workspace).place
    found: list[JsonObject] = []
    for name in replay_names(here):
        if name.startswith(f"{REPLAY}{run}-"):
            place = replay_location(here, name)
            with _opened(workspace, place) as other:
                if Runs(other).position(run) and Runs(other).get(run).replay:  # else it was killed
                    found.append(_comparison(workspace, other, place, run))
    return found


def _turn(run: Run, leg: str) -> LegRun:
    """The turn of a leg, or of a number, that ended; raises NotFound."""
    turns = [turn for turn in run.legs.values() if turn.counts and not turn.is_open]
    named = [turn for turn in turns if leg in (turn.leg, str(turn.number))]
    if not named:
        known = ", ".join(f"{turn.number} ({turn.leg})" for turn in turns) or "none"
        message = f"{run.run} has no ended turn {excerpt(str(leg))!r}"
        raise NotFound(message, next_step=f"Name a leg, or one of these turns: {known}.")
    return named[-1]


def _request(workspace: Workspace, run: Run, turn: LegRun) -> Record:
    """The record of what the agent of a turn was asked: the replay begins with all up to it."""
    streams = WorkspaceStreams(workspace)
    own = (head.stream for head in streams.streams(CONVERSATION_STREAM))
    kept = (s for s in own if f"/{turn.agent}/" in s)
    records = [streams.keyed(stream, turn_key(run, turn)) for stream in kept]
    found = next((record for record in records if record is not None), None)
    if found is None:
        message = f"turn {turn.number} of {run.run} has no recorded request"
        raise InvalidInput(_REFUSED, [Problem("leg", "no_request", message, "another turn")])
    return found


def _checked_runner(
    workspace: Workspace, run: Run, turn: LegRun, agent: str, runner: Mapping[str, Any]
) -> JsonObject:
    """A runner as a relay records it; raises InvalidInput with all problems."""
    leg = {"leg": turn.leg, "agent": agent}
    document = {"relay": run.relay.name, "agents": {agent: {"runner": runner}}, "legs": [leg]}
    try:
        relay = check_relay(document, folder=os.getcwd(), workspace=workspace)
    except InvalidInput as error:  # it is no file's: the paths are those of the argument
        own = [each._replace(path=_in_runner(each.path)) for each in error.problems]
        raise InvalidInput(_REFUSED, own) from error
    return relay.document["agents"][agent]["runner"]


def _in_runner(path: str) -> str:
    """The path of a relay's problem below its agent: `runner.command`."""
    _, found, below = path.rpartition(".runner")
    return f"runner{below}" if found else path


def _copied(workspace: Workspace, run: Run, turn: LegRun, asked: Record, folder: str) -> Location:
    """A new ledger with every record up to a request."""
    context = context_of(workspace)
    number = 1
    while True:
        name = f"{REPLAY}{run.run}-{turn.number}-{number}"
        place = replay_location(context.place, name, folder)
        try:
            os.makedirs(place.folder, mode=0o700)
            break
        except FileExistsError:
            number += 1
    with closing(open_store(place.url, durability="normal")) as target:
        copy_store(context.store, target, until=asked.seq)
    return place


def _opened(workspace: Workspace, place: Location) -> Workspace:
    context = context_of(workspace)
    return Workspace(place, settings=context.settings, clock=context.clock)


def _take_one(workspace: Workspace, turns: Turns, run: Run, turn: LegRun) -> None:
    ended: JsonObject = {}
    try:
        ended = turns.take(run, turn) or ended
    except PassdownError as error:
        ended = {"outcome": ERROR, "why": str(error), "measured": {}}
    Runs(workspace).end(run.run, turn.number, storable_values(ended))


def _take_rest(
    workspace: Workspace,
    run: Run,
    place: Location,
    runners: Mapping[str, Runner | Function] | None,
) -> None:
    from passdown.relay.worker import EngineOptions, run_here

    options = EngineOptions(url=f"sqlite:///{os.path.join(place.folder, 'relay.db')}")
    run_here(workspace, run.run, options=options, runners=runners, waits=False)


def _comparison(workspace: Workspace, other: Workspace, place: Location, run: str) -> JsonObject:
    """Both handoffs of a leg, and how they differ."""
    found = Runs(other).get(run)
    number, first = found.replay["number"], found.replay["first"]
    turn = found.legs[number]
    handoffs = [
        _handoff(workspace, found.task, first["version"]),
        _handoff(other, found.task, turn.version),
    ]
    return {
        "replay": os.path.basename(place.folder),
        "store": place.url,
        "run": run,
        "leg": turn.leg,
        "turn": number,
        "status": found.status,
        "why": found.why,
        "first": {**first, "handoff": handoffs[0]},
        "again": {
            **{name: getattr(turn, name) for name in ("agent", "outcome", "version", "why")},
            "measured": turn.measured,
            "handoff": handoffs[1],
        },
        "diff": handoff_diff(*handoffs) if all(handoffs) else {},
        "rest": [
            {name: getattr(each, name) for name in ("number", "leg", "agent", "outcome", "why")}
            for each in found.legs.values()
            if each.number > number
        ],
    }


def _handoff(workspace: Workspace, task: str, version: int) -> JsonObject:
    """A recorded handoff as plain data, without what was measured or added to it; {} for none."""
    record = WorkspaceStreams(workspace).record(stream_of(task), version) if version else None
    if record is None or record.kind != "handoff":
        return {}
    left_out = (*MEASURED_FIELDS, "lists", "via")
    body = {name: part for name, part in record.document().items() if name not in left_out}
    handoff = handoff_from_body(task, body)
    about = handoff.pop("metadata", {})
    metadata = {name: part for name, part in about.items() if name not in _ABOUT_RUN}
    return {**handoff, **({"metadata": metadata} if metadata else {})}


def handoff_diff(one: JsonObject, other: JsonObject) -> JsonObject:
    """How two handoffs differ, by field: both values, or of lists what only one of them has."""
    found: JsonObject = {}
    for name in dict.fromkeys((*one, *other)):
        first, again = one.get(name), other.get(name)
        if first == again:
            continue
        if isinstance(first or [], list) and isinstance(again or [], list):
            ours, theirs = cast("list[Any]", first or []), cast("list[Any]", again or [])
            first = [entry for entry in ours if entry not in theirs]
            again = [entry for entry in theirs if entry not in ours]
        found[name] = {"first": first, "again": again}
    return found
