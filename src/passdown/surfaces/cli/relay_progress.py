"""What goes on while agents work: a line for each event, or JSON, or a view that redraws itself.

Whoever shows something here is in the middle of an agent's turn: nothing is raised, also when
nobody reads any more.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.run import REVIEW
from passdown.model.text import visible
from passdown.relay.run_documents import leg_name, next_commands, turn_document
from passdown.surfaces.cli.printing import counted
from passdown.surfaces.cli.terminal import cut, has_colours, styled, terminal_width

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown.model.run import LegRun, Run
    from passdown.relay.exchange import Event
    from passdown.relay.express import ExpressDone

_REDRAW_S = 0.2
_STILL_S = 30.0
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
        width = terminal_width()
        wiped = self._wiped()
        self._drawn = len(lines)
        shown = [styled(cut(line, width - 1), "dim") for line in lines]
        self._write(wiped + "".join(f"{line}\n" for line in shown))

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


class _Open(NamedTuple):
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

    def __init__(self, screen: Screen, *, as_json: bool = False, names_runs: bool = False) -> None:
        self._screen = screen
        self._as_json = as_json
        self._names_runs = names_runs
        self._lock = threading.RLock()
        self._started = time.monotonic()
        self._seen: dict[str, tuple[int, set[int], str]] = {}
        self._open: dict[tuple[str, int], _Open] = {}
        self._frame = 0

    def turn(self, run: Run, turn: LegRun, event: Event) -> None:
        """Show what an agent at work does."""
        with self._lock:
            if not self._names_runs:
                self._catch_up(run)
            key = (run.run, turn.number)
            if self._as_json:
                self._print_event(run, turn, event)
            elif event.kind == "working":
                self._still_at_it(key, run, turn, event)
            else:
                said = _said(event, is_last_word=self._names_runs)
                if said:
                    self._line(run, turn, said)
            self._track(key, run, turn, event)
            self._redraw()

    def run(self, run: Run) -> None:
        """Show what has changed in a run."""
        with self._lock:
            self._catch_up(run)
            self._redraw()

    def express(self, done: ExpressDone) -> None:
        """Show what came of an express item."""
        if self._as_json:
            self._json({"event": "express", **done.as_document()})
            return
        where = f" on {done.branch}" if done.branch else ""
        became = f"became the task {done.task}: {done.why}" if done.task else done.outcome + where
        self.say(f"express {done.id}: {became}")

    def say(self, text: str) -> None:
        """Show a line of our own."""
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
        """Show the turns that ended, and how the run stands, as far as it wasn't shown yet."""
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
        what = styled(turn.outcome, _STYLES.get(turn.outcome, "red"))
        parts = [what, f"version {turn.version}" if turn.version else ""]
        parts += [f"verdict {turn.verdict}" if turn.verdict else "", _addressed(run, turn)]
        text = ", ".join(part for part in parts if part)
        self._line(run, turn, f"{text}{_measures(turn)}")
        for text in turn.why.splitlines():
            self._screen.keep(f"{' ' * len(self._at())}  {visible(text)}")

    def _status(self, run: Run) -> None:
        if self._as_json:
            status = {"status": run.status, "why": run.why, "next": next_commands(run)}
            self._json({"event": "run", "run": run.run, **status})
            return
        said = {"waiting": "waits", "running": "goes on"}.get(run.status, run.status)
        why = f": {run.why.splitlines()[0]}" if run.why else ""
        name = f"{run.run} " if self._names_runs else ""
        self._screen.keep(
            f"{self._at()}  {name}{styled(said, _STYLES.get(said, 'bold'))}{visible(why)}"
        )
        if run.status == "waiting":
            for command in next_commands(run):
                self._screen.keep(f"{' ' * len(self._at())}  {command}")

    def _track(self, key: tuple[str, int], run: Run, turn: LegRun, event: Event) -> None:
        """Remember what is under way, to be drawn."""
        if event.kind in ("accepted", "failed"):
            self._open.pop(key, None)
            return
        now = time.monotonic()
        before = self._open.get(key) or _Open(self._head(run, turn), now, 0, 0, now)
        told_at = before.told_at if event.kind == "working" else now
        self._open[key] = before._replace(
            attempt=event.attempt, size=event.bytes or before.size, told_at=told_at
        )

    def _still_at_it(self, key: tuple[str, int], run: Run, turn: LegRun, event: Event) -> None:
        """On a stream that nobody redraws, a line now and then."""
        going = self._open.get(key)
        if self._screen.is_live or going is None:
            return
        if time.monotonic() - going.told_at >= _STILL_S:
            self._open[key] = going._replace(told_at=time.monotonic())
            self._line(run, turn, f"at work, {event.seconds:.0f} s, {_size(event.bytes)} so far")

    def _redraw(self) -> None:
        now = time.monotonic()
        mark = _SPINNER[self._frame % len(_SPINNER)]
        self._screen.draw(
            [
                f"{self._at()}  {going.head}  {mark} at work {now - going.since:.0f} s"
                + (f", attempt {going.attempt}" if going.attempt > 1 else "")
                + (f", {_size(going.size)}" if going.size else "")
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

    def _print_event(self, run: Run, turn: LegRun, event: Event) -> None:
        told = event._asdict()
        where = {"run": run.run, "number": turn.number, "leg": turn.leg, "visit": turn.visit}
        self._json({"event": told.pop("kind"), **where, **told})

    def _json(self, document: dict[str, Any]) -> None:
        self._screen.keep(json.dumps(document))


def screen_for(*, as_json: bool) -> Screen:
    """The screen that standard output is: redrawn only where that can be done and is wanted."""
    return Screen(is_live=not as_json and has_colours() and terminal_width() > 0)


def _said(event: Event, *, is_last_word: bool) -> str:
    """What to say of an event; of how a turn ended only where nothing else says it."""
    if event.kind == "asked":
        return "asked" if event.attempt == 1 else f"asked again, attempt {event.attempt}"
    if event.kind == "returned":
        return f"{styled('sent back', 'yellow')}: {visible(event.said)}"
    if is_last_word and event.kind == "accepted":
        return f"{styled('handed off', 'green')} ({event.seconds:.1f} s, {_size(event.bytes)})"
    if is_last_word and event.kind == "failed":
        return f"{styled('failed', 'red')}: {visible(event.said)}"
    return ""


def _addressed(run: Run, turn: LegRun) -> str:
    """Whom the agent sent it to, where it did so itself."""
    return f"for {visible(turn.to)}" if turn.to else ""


def _measures(turn: LegRun) -> str:
    measured = turn.measured
    parts = [
        f"{measured['seconds']:.1f} s" if "seconds" in measured else "",
        f"{measured['context_tokens']:,} tokens in context" if "context_tokens" in measured else "",
        counted(measured["attempts"], "attempt") if measured.get("attempts", 1) > 1 else "",
    ]
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1_000 else f"{count / 1_000:.1f} kB"
