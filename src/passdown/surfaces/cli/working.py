"""`worker`: take turns of runs, and express items, until told to stop; list those that do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.relay.engine.faults import database_faults
from passdown.surfaces.cli.parsing import whole_number, with_store
from passdown.surfaces.cli.relaying import terms_of, with_engine
from passdown.surfaces.cli.session import Misuse, opened
from passdown.surfaces.cli.spanning import tell_of_spans

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.relay.engine.heartbeats import Worker
    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace import Workspace

_MOST_SLOTS = 64
_FINISHING = "finishing what is under way; once more ends it"


def worker(parser: Parser) -> None:
    """The arguments of `worker`."""
    parser.show(
        "passdown worker",
        "passdown worker --slots 4 --lease 60",
        "passdown worker --list",
    )
    parser.add_argument(
        "--slots", metavar="N", type=whole_number, help="turns taken at once; default: 1"
    )
    parser.add_argument("--list", action="store_true", help="instead: the workers there are")
    with_engine(parser)
    with_store(parser)
    parser.set_defaults(run=_worker)


def _worker(args: Namespace) -> int:
    if args.list:
        if args.slots is not None or args.lease is not None:
            raise Misuse("--list takes no turns; leave --slots and --lease out")
        return _list(args)
    if args.slots is not None and not 1 <= args.slots <= _MOST_SLOTS:
        raise Misuse(f"--slots has to be from 1 to {_MOST_SLOTS}")
    return _serve(args)


def _serve(args: Namespace) -> int:
    from passdown.relay.running import Shown, work
    from passdown.surfaces.cli.relay_logging import logged
    from passdown.surfaces.cli.relay_progress import Progress, screen_for
    from passdown.surfaces.cli.run_holding import stopping

    tell_of_spans()
    slots = args.slots or 1
    progress = Progress(screen_for(as_json=args.json), as_json=args.json, names_runs=True)
    shown = Shown(progress.turn, progress.run, progress.express)
    signals = stopping(progress.say, _FINISHING, "ending the agents at work")
    with opened(args) as workspace, signals as (stop, halt), logged(progress.say):
        terms = terms_of(args, workspace)
        turns = "1 turn" if slots == 1 else f"{slots} turns"
        progress.say(f"worker {os.getpid()} serves {workspace.root}: {turns} at once")
        with progress.ticking(), database_faults():
            work(workspace, slots=slots, terms=terms, shown=shown, stop=stop, halt=halt)
        progress.say("done; what waits is left to others")
    return 0


def _list(args: Namespace) -> int:
    from passdown.surfaces.cli.printing import print_json, table

    with opened(args) as workspace:
        found = workers_of(workspace, args.relay_store)
    documents = [
        {**each._asdict(), "silent_s": round(each.silent_s, 1), "state": state_of(each)}
        for each in found
    ]
    if args.json:
        print_json(documents)
        return 0
    rows = [
        [d["worker"], d["state"], d["pid"], f"{d['silent_s']} s ago", f"{d['lease_s']:g} s"]
        for d in documents
    ]
    names = ("worker", "state", "process", "last beat", "lease")
    table(names, rows, "no workers; passdown worker starts one", whole=("worker", "state"))
    return 0


def state_of(worker: Worker) -> str:
    """Whether a worker is alive, silent for longer than its lease, or a process that is gone."""
    if worker.is_gone:
        return "gone"
    return "silent" if worker.is_silent else "alive"


def workers_of(workspace: Workspace, url: str = "") -> list[Worker]:
    """All workers that have signed on and not off; nothing is made where none ever was."""
    from passdown.relay.engine.database import relay_url, run
    from passdown.relay.engine.heartbeats import workers
    from passdown.relay.running import Terms, engine_of
    from passdown.workspace.beside import Beside

    address = relay_url(Beside(workspace).opened.place.folder, url, workspace.store_url)
    if address.startswith("sqlite:///"):
        path = address.removeprefix("sqlite:///")
        if not os.path.exists(path):
            return []
    with database_faults(), engine_of(workspace, Terms(url=url)) as engine:
        with engine.database.begin() as connection:
            run(connection, "make_workers")
        return workers(engine.database)


def live_workers(workspace: Workspace, url: str = "") -> list[Worker]:
    """The workers that are alive."""
    return [each for each in workers_of(workspace, url) if state_of(each) == "alive"]
