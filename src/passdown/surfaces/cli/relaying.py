"""`run`: start a relay on a task and watch it, or go on with a run that was left."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from passdown.relay.engine.faults import database_faults
from passdown.surfaces.cli.parsing import FILE, RUN, TASK, with_agent, with_store
from passdown.surfaces.cli.run_holding import INTERRUPTED, held, stopping
from passdown.surfaces.cli.session import Misuse, author, opened, read_input
from passdown.surfaces.cli.spanning import tell_of_spans

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.relay import Relay
    from passdown.model.run import Run
    from passdown.relay.running import Terms
    from passdown.relay.runs import Runs
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

_RUNNER_OPTIONS = ("prompt", "env", "pass_env", "max_output")
_MOST_SECONDS = 86_400.0


def run(parser: Parser) -> None:
    """The arguments of `run`."""
    parser.show(
        "passdown run relay.yaml --task T-1",
        "passdown run relay.yaml --task T-1 --no-wait --json",
        "passdown run relay.yaml --task T-1 --detach",
        "passdown run --resume R-1",
    )
    parser.add_argument("relay", metavar=FILE, nargs="?", help="a relay: YAML, or TOML by its name")
    parser.add_argument("--task", metavar=TASK, help="the task that the agents work on")
    parser.add_argument("--resume", metavar=RUN, help="instead: go on where this run was")
    with_agent(parser, "--by", "who starts it")
    parser.add_argument(
        "--detach", action="store_true", help="leave it to workers (passdown worker)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="end with 1 where a person is waited for"
    )
    with_engine(parser)
    with_store(parser)
    parser.set_defaults(run=_run)


def with_engine(parser: Parser) -> None:
    """The options of verbs that start the engine."""
    parser.add_argument(
        "--lease",
        metavar="SECONDS",
        type=some_seconds,
        help="silent for so long, a worker is lost and others take over; default: 30",
    )
    parser.add_argument(
        "--relay-store",
        metavar="URL",
        default="",
        help="the engine's database; default: PASSDOWN_RELAY_URL, else beside the store",
    )


def some_seconds(text: str) -> float:
    """An argument that is a time: more than no seconds, and at most a day."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to 86,400")
    return found


def terms_of(args: Namespace, workspace: Workspace) -> Terms:
    """How the engine is set up by the arguments; raises MissingExtra without its library, and
    InvalidInput for an address that is none.
    """
    from passdown.relay.engine.database import relay_url
    from passdown.relay.running import Terms
    from passdown.workspace.beside import Beside

    relay_url(Beside(workspace).opened.place.folder, args.relay_store, workspace.store_url)
    terms = Terms(url=args.relay_store)
    return terms._replace(lease_s=args.lease) if args.lease else terms


def _run(args: Namespace) -> int:
    if args.resume:
        if args.relay or args.task or args.detach:
            raise Misuse("--resume goes on with a run as it is; leave FILE, --task, --detach out")
        return _resume(args)
    if not args.relay or not args.task:
        raise Misuse("name a relay FILE and a --task, or a run with --resume")
    return _start(args)


def _start(args: Namespace) -> int:
    from passdown.relay.runs import HERE, Runs

    if args.detach and args.no_wait:
        raise Misuse("--detach never waits; leave --no-wait out")
    relay = relay_at(args.relay)
    with opened(args) as workspace:
        check_agents(relay, workspace)
        terms = terms_of(args, workspace)  # without the engine, nothing is recorded either
        if args.detach:
            from passdown.relay.running import start_detached

            with database_faults():
                started = start_detached(workspace, relay, args.task, by=author(args), terms=terms)
            return _detached(started, as_json=args.json)
        runs = Runs(workspace)
        started = runs.start(relay, args.task, by=author(args), lane=HERE)
        return _foreground(args, workspace, runs, started)


def _resume(args: Namespace) -> int:
    from passdown.relay.runs import HERE, Runs

    with opened(args) as workspace:
        runs = Runs(workspace)
        found = runs.get(args.resume)
        terms = terms_of(args, workspace)
        if found.lane != HERE:
            resumed = runs.resume(found.run, by=author(args))
            from passdown.relay.running import requeue

            requeue(workspace, found.run, terms)
            return _detached(resumed, as_json=args.json)
        with held(workspace, found.run):
            resumed = runs.resume(found.run, by=author(args))
        return _foreground(args, workspace, runs, resumed)


def relay_at(path: str) -> Relay:
    """The relay in a file, or on standard input; raises InvalidInput with all its problems."""
    from passdown.model.intake.relay_schema import read_relay

    return read_relay(read_input(path), is_toml=path.endswith(".toml"))


def check_agents(relay: Relay, workspace: Workspace) -> None:
    """Look for every profile that is named and make every runner once, so that nothing that isn't
    there stops a run half-way, or is left out silently.
    """
    from passdown.errors import InvalidInput, Problem
    from passdown.relay.runners.declared import runner_of

    problems: list[Problem] = []
    for agent in relay.agents.values():
        if agent.profile != agent.name and workspace.profile(agent.profile) is None:
            known = ", ".join(workspace.agents()) or "there are none yet"
            problems.append(
                Problem(
                    f"agents.{agent.name}.profile",
                    "unknown_name",
                    f"{agent.profile!r:.80} is not known",
                    "a profile of the workspace",
                    known,
                )
            )
        declared = agent.runner
        kind = next(kind for kind in ("command", "script", "python") if declared[kind])
        names = (kind, *(_RUNNER_OPTIONS if kind == "command" else ()))
        given = {name: declared[name] for name in names if declared[name] is not None}
        try:
            runner_of(given, folder=workspace.root, path=f"agents.{agent.name}.runner")
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput("the relay is refused; nothing was started", problems)


def _detached(run: Run, *, as_json: bool) -> int:
    from passdown.relay.run_documents import run_document
    from passdown.surfaces.cli.printing import line, print_json

    if as_json:
        print_json(run_document(run, run.started_at))
        return 0
    line(f"{run.run}: {run.relay.name} on {run.task} is left to workers")
    line("passdown worker serves it, as many as you like", 2)
    line(f"passdown runs {run.run} shows where it is", 2)
    return 0


def _foreground(args: Namespace, workspace: Workspace, runs: Runs, run: Run) -> int:
    """Run it here, show it, and give the exit code."""
    from passdown.model.run import WAITING
    from passdown.relay.running import Shown, run_here
    from passdown.surfaces.cli.relay_logging import logged
    from passdown.surfaces.cli.relay_progress import Progress, screen_for

    tell_of_spans()
    progress = Progress(screen_for(as_json=args.json), as_json=args.json)
    if not args.json:
        print_start(run)
    shown = Shown(progress.turn, progress.run, progress.express)
    with (
        held(workspace, run.run),
        database_faults(f"Mend that, then go on with it: passdown run --resume {run.run}"),
        stopping(progress.say, "ending the agents at work") as (halt,),
        logged(progress.say),
        progress.ticking(),
    ):
        found = run_here(
            workspace,
            run.run,
            terms=terms_of(args, workspace),
            shown=shown,
            waits=not args.no_wait,
            halt=halt,
        )
    is_left = not found.ended_at and not (args.no_wait and found.status == WAITING)
    return _said(workspace, runs.get(run.run), as_json=args.json, is_left=is_left)


def print_start(run: Run) -> None:
    """Print which run this is."""
    from passdown.surfaces.cli.printing import counted, heading

    agents = counted(len(run.relay.agents), "agent")
    legs = counted(len(run.relay.legs), "leg")
    heading(f"{run.run}: {run.relay.name} on {run.task} ({agents}, {legs})")


def _said(workspace: Workspace, run: Run, *, as_json: bool, is_left: bool) -> int:
    import json

    from passdown.model.times import stamp
    from passdown.relay.run_documents import run_document
    from passdown.surfaces.cli.printing import line
    from passdown.surfaces.cli.run_views import print_standing, print_turns
    from passdown.workspace.beside import Beside

    now = stamp(Beside(workspace).now())
    if as_json:
        document: dict[str, Any] = {"event": "over", **run_document(run, now)}
        print(json.dumps(document))
    else:
        line()
        print_turns(run)
        line()
        print_standing(run, now)
        if is_left:
            line(f"go on with it: passdown run --resume {run.run}")
    if is_left:
        return INTERRUPTED
    return 0 if run.status == "completed" else 1
