"""`runs`: what runs there are and how each stands; answer one that asks, stop one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.model.run import ENDINGS, RUNNING, VERDICTS, WAITING
from passdown.surfaces.cli.parsing import RUN, with_agent, with_store
from passdown.surfaces.cli.session import Misuse, author, opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.run import Run
    from passdown.relay.runs import Runs
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

_STATUSES = (RUNNING, WAITING, *ENDINGS)


def runs(parser: Parser) -> None:
    """The arguments of `runs`."""
    parser.show(
        "passdown runs",
        "passdown runs --status waiting",
        "passdown runs R-1",
        "passdown runs R-1 --answer continue --by kim --guidance 'leave the tests as they are'",
        "passdown runs R-1 --stop --by kim --why 'the task is obsolete'",
    )
    parser.add_argument("name", metavar=RUN, nargs="?", default="", help="one run, in full")
    parser.add_argument("--status", choices=_STATUSES, help="only those that stand so")
    parser.add_argument("--answer", choices=VERDICTS, help="to the budget review that it waits for")
    parser.add_argument("--guidance", metavar="TEXT", default="", help="what its agent is told")
    parser.add_argument(
        "--stop", action="store_true", help="end it; turns under way come to an end"
    )
    parser.add_argument("--why", metavar="TEXT", default="", help="why it is stopped")
    with_agent(parser, "--by", "the person who answers or stops it")
    with_store(parser)
    parser.set_defaults(run=_runs)


def _runs(args: Namespace) -> int:
    from passdown.relay.runs import Runs

    _check(args)
    with opened(args) as workspace:
        found = Runs(workspace)
        if not args.name:
            return _list(workspace, found, args)
        if args.answer:
            from passdown.relay.deciding import answer_run

            run = answer_run(
                workspace, args.name, args.answer, by=author(args), guidance=args.guidance
            )
            return _changed(workspace, run, f"answered: {args.answer}", as_json=args.json)
        if args.stop:
            from passdown.relay.deciding import stop_run

            run = stop_run(workspace, args.name, by=author(args), why=args.why)
            return _changed(workspace, run, f"{run.run} is {run.status}", as_json=args.json)
        return _show(workspace, found.get(args.name), as_json=args.json)


def _check(args: Namespace) -> None:
    if (args.answer or args.stop) and not args.name:
        raise Misuse("name the RUN that is meant")
    if args.answer and args.stop:
        raise Misuse("--answer lets it go on, --stop ends it: choose one")
    if args.guidance and not args.answer:
        raise Misuse("--guidance goes with --answer")
    if args.why and not args.stop:
        raise Misuse("--why goes with --stop")
    if args.status and args.name:
        raise Misuse("--status lists runs; leave RUN out")


def _list(workspace: Workspace, runs: Runs, args: Namespace) -> int:
    """List runs; one that is damaged hides no other."""
    from passdown.relay.run_documents import listed_document, readable
    from passdown.surfaces.cli.printing import print_error, print_json

    found, damages = readable(runs)
    if args.status:
        found = [run for run in found if run.status == args.status]
    now = _now(workspace)
    if args.json:
        listed = [listed_document(run, now) for run in found]
        print_json([*listed, *(damage.as_document() for damage in damages)])
    else:
        _table(found, now)
        for damage in damages:
            print_error(damage, as_json=False)
    return 1 if damages else 0


def _table(found: list[Run], now: str) -> None:
    from passdown.relay.run_documents import now_at, seconds_between
    from passdown.surfaces.cli.printing import short_time, table
    from passdown.surfaces.cli.run_views import lasting

    rows = [
        [
            run.run,
            run.relay.name,
            run.task,
            run.status,
            now_at(run),
            short_time(run.started_at),
            lasting(seconds_between(run.started_at, run.ended_at or now)),
            len(run.legs),
            run.why,
        ]
        for run in found
    ]
    names = ("run", "relay", "task", "status", "leg", "started (UTC)", "lasted", "turns", "why")
    empty = "no runs; passdown run FILE --task TASK starts one"
    table(names, rows, empty, whole=("run", "status", "lasted"), short=("why",))


def _show(workspace: Workspace, run: Run, *, as_json: bool) -> int:
    from passdown.relay.run_documents import run_document
    from passdown.surfaces.cli.printing import print_json
    from passdown.surfaces.cli.run_views import print_run

    if as_json:
        print_json(run_document(run, _now(workspace)))
    else:
        print_run(run, _now(workspace))
    return 0


def _changed(workspace: Workspace, run: Run, said: str, *, as_json: bool) -> int:
    from passdown.relay.run_documents import next_commands, run_document
    from passdown.surfaces.cli.printing import line, print_json
    from passdown.surfaces.cli.run_holding import who_goes_on

    if as_json:
        print_json(run_document(run, _now(workspace)))
        return 0
    line(said)
    if run.status == RUNNING:
        line(who_goes_on(workspace, run))
    for command in next_commands(run):
        line(command, 2)
    return 0


def _now(workspace: Workspace) -> str:
    from passdown.model.times import stamp
    from passdown.workspace.beside import Beside

    return stamp(Beside(workspace).now())
