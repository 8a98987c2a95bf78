"""`run` and `worker`: run relays, with live progress, locks and signals."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.cli import output as out
from passdown.cli.parsing import Author, command, seconds
from passdown.cli.runs import print_run_status, print_turns
from passdown.cli.session import (
    UsageError,
    is_server_url,
    named_by_flags,
    read_input,
    start_tracing,
)
from passdown.core.text import visible
from passdown.errors import PassdownError, StoreBusy
from passdown.relay.conversations import REVIEWS
from passdown.relay.engine import database_faults
from passdown.relay.run import REVIEW, WAITING
from passdown.relay.runs import (
    HERE,
    Runs,
    leg_name,
    next_commands,
    run_document,
    run_lock,
    turn_document,
)
from passdown.workspace.context import context_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown.cli.session import Session
    from passdown.relay.engine.engine import Worker
    from passdown.relay.express import ExpressRecord
    from passdown.relay.run import LegRun, Relay, Run
    from passdown.relay.turns import ExchangeEvent
    from passdown.relay.worker import EngineOptions
    from passdown.workspace import Workspace


@contextmanager
def relay_warnings(say: Callable[[str], None]) -> Generator[None]:
    """Show warnings of the relay, and of the engine's library, as lines as long as this lasts;
    where PASSDOWN_DEBUG asks for it, with their tracebacks.
    """

    def take(record: logging.LogRecord) -> bool:
        """Show a record here, and nowhere else."""
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + (f": {error}" if error else "")
        if error and os.environ.get("PASSDOWN_DEBUG"):
            text = logging.Formatter().format(record)
        for part in text.splitlines() if record.levelno >= logging.WARNING else ():
            say(part)
        return False

    logger, library = logging.getLogger("passdown"), logging.getLogger("dbos")
    handler = logging.Handler()
    handler.addFilter(take)
    library.addFilter(take)
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        library.removeFilter(take)
        logger.propagate = before


_REDRAW_S = 0.2
_REMINDER_S = 30.0
_SPINNER = "|/-\\"
_STYLES = {"completed": "green", "partial": "yellow", "blocked": "yellow", "waits": "yellow"}


class Screen:
    """Standard output: lines that stay and, on a terminal, lines below them that are redrawn."""

    def __init__(self, *, is_live: bool = False) -> None:
        self.is_live = is_live
        self._is_gone = False
        self._drawn = 0

    def keep(self, text: str) -> None:
        """Print a line that stays."""
        self._write(f"{self._wiped()}{text}\n")

    def draw(self, lines: list[str]) -> None:
        """Put lines in the place of those that were drawn last."""
        if not self.is_live:
            return
        width = out.terminal_width()
        wiped = self._wiped()
        self._drawn = len(lines)
        shown = [out.styled(out.cut(text, width - 1), "dim") for text in lines]
        self._write(wiped + "".join(f"{text}\n" for text in shown))

    def _wiped(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\r\x1b[J" if drawn else ""

    def _write(self, text: str) -> None:
        if self._is_gone or not text:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except RuntimeError:
            pass  # a signal came in the middle of a write; its line is lost, nothing else
        except (OSError, ValueError):
            self._is_gone = True


class _OpenTurn(NamedTuple):
    """A turn that is under way, as it is drawn."""

    head: str
    since: float
    attempt: int
    size: int
    told_at: float


class Progress:
    """Takes what an engine tells of runs, from any thread, and shows it in order.

    With `names_runs`, every line begins with the run: for a process that serves many.
    """

    def __init__(self, *, as_json: bool = False, names_runs: bool = False) -> None:
        self._screen = Screen(
            is_live=not as_json and out.has_colours() and out.terminal_width() > 0
        )
        self._as_json = as_json
        self._names_runs = names_runs
        self._lock = threading.RLock()
        self._started = time.monotonic()
        self._seen: dict[str, tuple[int, set[int], str]] = {}
        self._open: dict[tuple[str, int], _OpenTurn] = {}
        self._frame = 0

    def turn(self, run: Run, turn: LegRun, event: ExchangeEvent) -> None:
        """Show an event of a turn."""
        with self._lock:
            if not self._names_runs:
                self._catch_up(run)
            key, said = (run.run, turn.number), ""
            if self._as_json:
                told = event._asdict()
                at = {"run": run.run, "number": turn.number, "leg": turn.leg, "visit": turn.visit}
                self._json({"event": told.pop("kind"), **at, **told})
            elif said := self._event_text(event, self._open.get(key)):
                self._line(run, turn, said)
            self._track(key, run, turn, event, is_said=bool(said))
            self._redraw()

    def run(self, run: Run) -> None:
        """Show what has changed in a run."""
        with self._lock:
            self._catch_up(run)
            self._redraw()

    def express(self, done: ExpressRecord) -> None:
        """Show what came of an express item."""
        if self._as_json:
            self._json({"event": "express", **done.to_dict()})
            return
        task, branch = done.run.promoted, done.result.get("branch")
        said = done.status + (f" by {done.result['agent']} on {branch}" if branch else "")
        said = f"became the task {task}: {done.why}" if task else said
        self.say(f"express {done.item.id}: {said}")

    def say(self, text: str) -> None:
        """Show a message."""
        with self._lock:
            if self._as_json:
                self._json({"event": "said", "text": text})
            else:
                self._screen.keep(f"{self._at()}  {visible(text)}")
            self._redraw()

    @contextmanager
    def ticking(self) -> Generator[None]:
        """Redraw the open turns again and again, so that one sees time pass."""
        if not self._screen.is_live:
            yield
            return
        over = threading.Event()

        def tick() -> None:
            while not over.wait(_REDRAW_S):
                with self._lock:
                    self._frame += 1
                    self._redraw()

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with self._lock:
                self._screen.draw([])

    def _catch_up(self, run: Run) -> None:
        """Show turns that have ended and a new status, unless they were shown before."""
        position, shown, status = self._seen.get(run.run, (0, set[int](), ""))
        if run.position <= position:
            return
        ended = [t for t in run.legs.values() if not t.is_open and t.number not in shown]
        for turn in sorted(ended, key=lambda turn: turn.ended_at):
            self._open.pop((run.run, turn.number), None)
            self._ended(run, turn)
            shown.add(turn.number)
        now = f"{run.status}: {run.why}"
        if now != status and (status or run.status != "running"):
            self._status(run)
        self._seen[run.run] = (run.position, shown, now)

    def _ended(self, run: Run, turn: LegRun) -> None:
        if self._as_json:
            self._json({"event": "ended", "run": run.run, **turn_document(run, turn)})
            return
        parts = {
            out.styled(turn.outcome, _STYLES.get(turn.outcome, "red")): True,
            f"version {turn.version}": turn.version,
            f"verdict {turn.verdict}": turn.verdict,
            f"for {visible(turn.to)}": turn.to,
        }
        told, attempts = turn.measured, turn.measured.get("attempts", 1)
        measures = {
            f"{told.get('seconds', 0):.1f} s": "seconds" in told,
            f"{told.get('context_tokens', 0):,} tokens in context": "context_tokens" in told,
            out.counted(attempts, "attempt"): attempts > 1,
        }
        text, size = (", ".join(p for p, is_so in d.items() if is_so) for d in (parts, measures))
        self._line(run, turn, f"{text} ({size})" if size else text)
        for text in turn.why.splitlines():
            self._screen.keep(f"{' ' * len(self._at())}  {visible(text)}")

    def _status(self, run: Run) -> None:
        if self._as_json:
            status = {"status": run.status, "why": run.why, "next": next_commands(run)}
            self._json({"event": "run", "run": run.run, **status})
            return
        said = {"waiting": "waits", "running": "continues"}.get(run.status, run.status)
        why = f": {run.why.splitlines()[0]}" if run.why else ""
        name = f"{run.run} " if self._names_runs else ""
        self._screen.keep(
            f"{self._at()}  {name}{out.styled(said, _STYLES.get(said, 'bold'))}{visible(why)}"
        )
        if run.status == "waiting":
            for text in next_commands(run):
                self._screen.keep(f"{' ' * len(self._at())}  {text}")

    def _event_text(self, event: ExchangeEvent, going: _OpenTurn | None) -> str:
        """What to say of an event; of how a turn ended only where nothing else says it, and that
        one is under way now and then, where nothing is redrawn.
        """
        if event.kind == "asked":
            return "asked" if event.attempt == 1 else f"asked again, attempt {event.attempt}"
        if event.kind == "returned":
            return f"{out.styled('sent back', 'yellow')}: {visible(event.said)}"
        size = _size_text(event.bytes)
        if event.kind == "working":
            is_due = going is not None and time.monotonic() - going.told_at >= _REMINDER_S
            is_due = is_due and not self._screen.is_live
            return f"at work, {event.seconds:.0f} s, {size} so far" if is_due else ""
        if not self._names_runs:
            return ""
        if event.kind == "accepted":
            return f"{out.styled('handed off', 'green')} ({event.seconds:.1f} s, {size})"
        return f"{out.styled('failed', 'red')}: {visible(event.said)}"

    def _track(
        self, key: tuple[str, int], run: Run, turn: LegRun, event: ExchangeEvent, *, is_said: bool
    ) -> None:
        """Remember what is under way, to be drawn."""
        if event.kind in ("accepted", "failed"):
            self._open.pop(key, None)
            return
        now = time.monotonic()
        before = self._open.get(key) or _OpenTurn(self._head(run, turn), now, 0, 0, now)
        self._open[key] = before._replace(
            attempt=event.attempt,
            size=event.bytes or before.size,
            told_at=now if is_said else before.told_at,
        )

    def _redraw(self) -> None:
        now = time.monotonic()
        mark = _SPINNER[self._frame % len(_SPINNER)]
        self._screen.draw(
            [
                f"{self._at()}  {going.head}  {mark} at work {now - going.since:.0f} s"
                + (f", attempt {going.attempt}" if going.attempt > 1 else "")
                + (f", {_size_text(going.size)}" if going.size else "")
                for going in self._open.values()
            ]
        )

    def _line(self, run: Run, turn: LegRun, text: str) -> None:
        self._screen.keep(f"{self._at()}  {self._head(run, turn)}  {text}")

    def _head(self, run: Run, turn: LegRun) -> str:
        """Agent, leg and phase in columns that are the same for all turns of a run."""
        legs = run.relay.legs
        agent = max(len(name) for name in run.relay.agents)
        leg = max(len(name) for name in legs) + 4
        phase = max(len(each.phase) for each in legs.values())
        name = f"{run.run}  " if self._names_runs else ""
        if turn.kind == REVIEW:
            return f"{name}{turn.agent:<{agent}}  {leg_name(turn):<{leg + 2 + phase}}"
        shown = f"{leg_name(turn):<{leg}}  {legs[turn.leg].phase:<{phase}}"
        return f"{name}{turn.agent:<{agent}}  {shown}"

    def _at(self) -> str:
        """When it happened: since the start, or by the clock where runs come and go."""
        if self._names_runs:
            return time.strftime("%H:%M:%S")
        return f"{time.monotonic() - self._started:5.1f}s"

    def _json(self, document: dict[str, Any]) -> None:
        self._screen.keep(json.dumps({"schema": out.SCHEMA, "data": document}))


def _size_text(count: int) -> str:
    return f"{count} bytes" if count < 1_000 else f"{count / 1_000:.1f} kB"


INTERRUPTED = 130
_SAME_SIGNAL_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def resume_hint(workspace: Workspace, run: str, lane: str) -> str:
    """Who continues a run, or how to, in one line."""
    if is_server_url(workspace.store_url):
        return f"{run} continues where the server is"
    if lane == HERE:
        with suppress(StoreBusy), run_lock(workspace, run, 0):
            return f"{run} can continue, but no process runs it: passdown run --resume {run}"
        return f"{run} continues"
    with suppress(PassdownError):
        if live_workers(workspace):
            return f"{run} continues"
    return f"{run} continues as soon as there is a worker: passdown worker"


@contextmanager
def stop_signals(tell: Callable[[str], None], *said: str) -> Generator[tuple[threading.Event, ...]]:
    """Events that SIGINT and SIGTERM set, one after the other, each with what is said then.

    A signal beyond the last ends this process at once; what an agent's program has started is
    ended with it, by its guard. What comes at the same moment is one signal: `timeout` and others
    send theirs to a process and to its group.
    """
    events = tuple(threading.Event() for _ in said)
    last = float("-inf")

    def note(number: int, _frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before < _SAME_SIGNAL_S:
            return
        at = sum(event.is_set() for event in events)
        if at == len(events):
            os._exit(INTERRUPTED)
        events[at].set()
        tell(f"{signal.Signals(number).name}: {said[at]}")

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, note) for number in _SIGNALS} if is_main else {}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_MAX_SLOTS = 64
_FINISHING_NOTE = "finishing open turns; once more ends it"
_ENGINE: dict[str, Any] = {
    "types": {"lease": seconds},
    "help": {
        "lease": "SECONDS: after so long without a heartbeat, a worker is lost; default: 30",
        "relay_store": "URL: the engine's database; default: PASSDOWN_RELAY_URL, else next to the "
        "store",
    },
}


@command(
    "run",
    "relay.yaml --task T-1",
    "relay.yaml --task T-1 --no-wait --json",
    "relay.yaml --task T-1 --detach",
    "relay.yaml --task T-1 --from review",
    "--resume R-1",
    types=_ENGINE["types"],
    flags={"begins_with": "--from"},
    help={
        **_ENGINE["help"],
        "relay": "FILE: a relay: YAML, or TOML by its name",
        "task": "the task that the agents work on",
        "resume": "RUN: instead: continue this run",
        "begins_with": "LEG: start with this leg, not with the first",
        "by": "who starts it",
        "detach": "leave it to workers (passdown worker)",
        "wait": "exit with 1 if a person has to answer",
    },
)
def run(
    session: Session,
    relay: str | None = None,
    *,
    task: str | None = None,
    resume: str | None = None,
    begins_with: str = "",
    by: Author,
    detach: bool = False,
    wait: bool = True,
    lease: float | None = None,
    relay_store: str = "",
) -> int:
    """Run a relay of agents on a task, and watch it."""
    if resume and (relay or task or begins_with):
        raise UsageError("--resume continues a run as it is; leave FILE, --task and --from out")
    if not resume and not (relay and task):
        raise UsageError("name a relay FILE and a --task, or a run with --resume")
    if detach and not wait:
        raise UsageError("--detach never waits; leave --no-wait out")
    with named_by_flags(begins_with="--from"), session.open() as workspace:
        found = relay_at(relay, workspace, task or "") if relay else None
        options = _engine_options(workspace, relay_store, lease)  # without it, nothing is recorded
        runs = Runs(workspace)
        if found and detach:
            from passdown.relay.worker import start_detached

            with database_faults():
                started = start_detached(
                    workspace, found, task or "", by=by, options=options, begins_with=begins_with
                )
            return _show_detached(session, started)
        if found:
            started = runs.start(found, task or "", by=by, lane=HERE, begins_with=begins_with)
            return _run_here(session, workspace, started, options=options, wait=wait)
        left = runs.get(resume or "")
        if left.lane != HERE or detach:
            from passdown.relay.worker import requeue

            resumed = runs.resume(left.run, by=by, detach=detach)
            requeue(workspace, left.run, options)
            return _show_detached(session, resumed)
        with run_lock(workspace, left.run):
            resumed = runs.resume(left.run, by=by)
        return _run_here(session, workspace, resumed, options=options, wait=wait)


def _engine_options(workspace: Workspace, url: str, lease: float | None) -> EngineOptions:
    """The settings of the engine; raises MissingExtra without its library, and InvalidInput for an
    address that is none.
    """
    from passdown.relay.engine.engine import relay_url
    from passdown.relay.worker import EngineOptions

    relay_url(context_of(workspace).place.folder, url, workspace.store_url)
    options = EngineOptions(url=url)
    return options._replace(lease_s=lease) if lease else options


def relay_at(path: str, workspace: Workspace, task: str) -> Relay:
    """The relay in a file, or on standard input; raises InvalidInput with all its problems."""
    from passdown.relay.relay_file import read_relay

    folder = "" if path == "-" else os.path.dirname(os.path.abspath(path))
    is_toml = path.endswith(".toml")
    found = read_input(path)
    return read_relay(found, is_toml=is_toml, folder=folder, workspace=workspace, task=task)


def _show_detached(session: Session, run: Run) -> int:
    def print_text(_: object) -> None:
        on = f" on {run.task}" if run.task else ""
        out.line(f"{run.run}: {run.relay.name}{on} is left to workers")
        out.line("passdown worker serves it, as many as you like", 2)
        out.line(f"passdown runs {run.run} shows where it is", 2)

    session.show(run_document(run, run.started_at), print_text)
    return 0


def _run_here(
    session: Session, workspace: Workspace, run: Run, *, options: EngineOptions, wait: bool
) -> int:
    """Run it here, show it, and give the exit code."""
    from passdown.relay.worker import ProgressCallbacks, run_here

    start_tracing()
    progress = Progress(as_json=session.as_json)
    if not session.as_json:
        agents, legs = len(run.relay.agents), len(run.relay.legs)
        size = f"{out.counted(agents, 'agent')}, {out.counted(legs, 'leg')}"
        out.heading(f"{run.run}: {run.relay.name} on {run.task} ({size})")
    callbacks = ProgressCallbacks(progress.turn, progress.run, progress.express)
    with (
        run_lock(workspace, run.run),
        database_faults(f"Fix that, then resume it: passdown run --resume {run.run}"),
        stop_signals(progress.say, "ending the agents at work") as (halt,),
        relay_warnings(progress.say),
        progress.ticking(),
    ):
        found = run_here(
            workspace, run.run, options=options, callbacks=callbacks, waits=wait, halt=halt
        )
    is_left = not found.ended_at and (wait or found.status != WAITING)
    over = workspace.relay.run(run.run)
    if session.as_json:
        print(json.dumps({"schema": out.SCHEMA, "data": {"event": "over", **over}}))
    else:
        out.line()
        print_turns(over["turns"])
        out.line()
        print_run_status(over)
        if is_left:
            out.line(f"continue it: passdown run --resume {run.run}")
    if is_left:
        return INTERRUPTED
    return 0 if over["status"] == "completed" else 1


@command(
    "worker",
    "",
    "--slots 4 --lease 60",
    "--list",
    types=_ENGINE["types"],
    flags={"is_list": "--list"},
    help={
        **_ENGINE["help"],
        "slots": "turns taken at once; default: 1",
        "is_list": "instead: list the workers",
    },
)
def worker(
    session: Session,
    *,
    slots: int | None = None,
    is_list: bool = False,
    lease: float | None = None,
    relay_store: str = "",
) -> None:
    """Take turns of runs, and express items, until stopped."""
    if is_list and (slots is not None or lease is not None):
        raise UsageError("--list takes no turns; leave --slots and --lease out")
    if slots is not None and not 1 <= slots <= _MAX_SLOTS:
        raise UsageError(f"--slots has to be from 1 to {_MAX_SLOTS}")
    with session.open() as workspace:
        if is_list:
            from passdown.relay.worker import workers_of

            session.show([w.document() for w in workers_of(workspace, relay_store)], _print_workers)
            return
        options = _engine_options(workspace, relay_store, lease)
        _serve_turns(session, workspace, slots=slots or 1, options=options)


def _serve_turns(
    session: Session, workspace: Workspace, *, slots: int, options: EngineOptions
) -> None:
    from passdown.relay.worker import ProgressCallbacks, run_worker

    start_tracing()
    progress = Progress(as_json=session.as_json, names_runs=True)
    callbacks = ProgressCallbacks(progress.turn, progress.run, progress.express)
    signals = stop_signals(progress.say, _FINISHING_NOTE, "ending the agents at work")
    with signals as (stop, halt), relay_warnings(progress.say):
        turns = out.counted(slots, "turn")
        progress.say(f"worker {os.getpid()} serves {workspace.root}: {turns} at once")
        with progress.ticking(), database_faults():
            run_worker(
                workspace, slots=slots, options=options, callbacks=callbacks, stop=stop, halt=halt
            )
        progress.say("done; what waits is left to others")


_print_workers = out.row_printer(
    "worker, state, process=pid, last heartbeat=silent, lease",
    "no workers; passdown worker starts one",
    whole="worker,state",
    silent=lambda each: f"{each['silent_s']} s ago",
    lease=lambda each: f"{each['lease_s']:g} s",
)


def live_workers(workspace: Workspace, url: str = "") -> list[Worker]:
    """The workers that are alive."""
    from passdown.relay.worker import workers_of

    return [each for each in workers_of(workspace, url) if each.state == "alive"]


_REQUEST = {
    "agent": "the agent to ask",
    "text": "the request, or - for stdin",
    "kind": "plan, code, completion or budget",
    "run": "RUN: default: PASSDOWN_RUN, or the only run under way that has the agent",
    "by": "the agent or person asking",
    "key": "with it, a repeat gives the recorded answer",
}
_REVIEWS = {"kind": tuple(REVIEWS)}


def _request_command(name: str, usual: str, *examples: str, **settings: Any) -> None:
    """Make a verb that asks an agent of a run, in its conversation with you, and waits for the
    answer. That of a review begins with the verdict; `approve` ends with 1 unless it approves.
    """

    def ask(
        session: Session,
        agent: str,
        text: str,
        *,
        kind: str = usual,
        run: str = "",
        by: Author,
        key: str = "",
    ) -> int:
        from passdown.relay.operations import only_run

        content = read_input("-").decode() if text == "-" else text
        with session.open() as workspace:
            run = run or only_run(workspace)
            answer = workspace.relay.ask(run, agent, content, kind=kind, by=by, key=key)
        session.show(answer._asdict(), lambda _: out.verbatim(answer.text))
        return int(name == "approve" and answer.verdict not in ("approved", "continue"))

    command(name, *examples, help=_REQUEST, **settings)(ask)


_request_command(
    *("ask", "question", "architect 'Is a cookie fine?'", "architect - --run R-1 --by coder"),
    without=("kind",),
)
_request_command(
    *("review", "code", "architect 'Plan: a cookie' --kind plan"),
    "architect - --kind code --run R-1",
    choices=_REVIEWS,
)
_request_command(
    *("approve", "completion", "architect 'All criteria are met' --kind completion"),
    choices=_REVIEWS,
)
