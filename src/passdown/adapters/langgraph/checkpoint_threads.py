"""The streams of all threads: found by name, hidden and copied as wholes."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from passdown.adapters.langgraph.checkpoint_streams import Draft, Recent, Stream
from passdown.adapters.langgraph.checkpoint_trail import CHECKPOINT, HIDDEN, WRITES
from passdown.errors import InvalidInput, Problem
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace
    from passdown.adapters.langgraph.checkpoint_trail import Event
    from passdown.adapters.langgraph.checkpoint_values import Ref

PREFIX = "checkpoint/"
_HELD_STREAMS = 128


class Threads:
    """The threads of one workspace; those used last are kept at hand."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is read yet."""
        self._beside = Beside(workspace)
        self._streams: Recent[str, Stream] = Recent(_HELD_STREAMS)
        self._lock = Lock()

    def stream(self, thread: str, namespace: str) -> Stream:
        """The stream of a thread and a namespace, whether or not it has records."""
        name = f"{PREFIX}{_quoted(thread)}/{_quoted(namespace)}"
        with self._lock:
            return self._streams.get(name) or self._streams.put(name, Stream(self._beside, name))

    def known(self, thread: str | None) -> list[tuple[str, str, Stream]]:
        """Thread, namespace and stream of all that have records, or of one thread's."""
        prefix = PREFIX if thread is None else f"{PREFIX}{_quoted(thread)}/"
        heads = self._beside.streams(prefix)
        names = [head.stream.removeprefix(PREFIX).split("/") for head in heads]
        places = [(unquote(thread), unquote(namespace)) for thread, namespace in names]
        return [(*place, self.stream(*place)) for place in places]

    def hide_all(self, thread: str) -> None:
        """Hide everything of a thread."""
        for _, _, stream in self.known(thread):
            _hide(stream, _everything)

    def keep_newest(self, thread: str) -> None:
        """Hide all but the newest checkpoint of each namespace."""

        def others(stream: Stream) -> dict[str, Any] | None:
            trail = stream.complete()
            return {"keep": trail.newest} if len(trail.entries) > 1 else None

        for _, _, stream in self.known(thread):
            _hide(stream, others)

    def hide_runs(self, runs: frozenset[str]) -> None:
        """Hide the checkpoints of some runs, in all threads."""

        def theirs(stream: Stream) -> dict[str, Any] | None:
            entries = stream.complete().entries.values()
            names = [entry.id for entry in entries if entry.run and entry.run in runs]
            return {"ids": names} if names else None

        for _, _, stream in self.known(None):
            _hide(stream, theirs)

    def copy(self, source: str, target: str) -> None:
        """Record a thread again under another name, namespace by namespace, record by record.

        What the target has already is left out, so that a copy which broke off is completed.
        """
        for _, namespace, stream in self.known(source):
            with stream.lock:
                stream.refresh()
                events = stream.all_events()
                _copy(stream, events, self.stream(target, namespace))


def _everything(stream: Stream) -> dict[str, Any] | None:
    trail = stream.complete()
    return {"all": True} if trail.entries or trail.writes or trail.gone else None


def _hide(stream: Stream, choose: Callable[[Stream], dict[str, Any] | None]) -> None:
    def compose() -> Draft | None:
        hide = choose(stream)
        return Draft(HIDDEN, {"hide": hide}) if hide else None

    with stream.lock:
        stream.append(compose)


def _copy(source: Stream, events: list[Event], target: Stream) -> None:
    """Events of a stream as new records of another, with every reference put right."""
    whole = max((i for i, e in enumerate(events) if "all" in e.said.get("hide", ())), default=-1)
    moved: dict[int, Ref] = {}
    with target.lock:
        target.refresh()
        there = target.complete()
        copied = {at for name in there.writes for at in _origins(target, name)}
        for event in events[whole + 1 :]:
            known = there.entries.get(event.said.get("id", ""))
            if known or (event.kind == WRITES and event.at.position in copied):
                moved[event.at.position] = known.at if known else event.at
                continue
            draft = _moved(source, event, moved)
            at = target.append(_keyed(target, draft)) if draft else None
            moved[event.at.position] = at or event.at


def _keyed(target: Stream, draft: Draft) -> Callable[[], Draft]:
    def compose() -> Draft:
        name = draft.body.get("id", "")
        return draft._replace(key=target.trail.key(name)) if name else draft

    return compose


def _origins(target: Stream, name: str) -> list[int]:
    """The positions that a checkpoint's writes had where they were copied from."""
    return [target.document(at).get("copied_from", 0) for at in target.trail.writes[name]]


def _moved(source: Stream, event: Event, moved: dict[int, Ref]) -> Draft | None:
    if event.kind == HIDDEN:
        return Draft(HIDDEN, {"hide": event.said["hide"]})
    if event.kind not in (CHECKPOINT, WRITES):
        return None
    body: dict[str, Any] = {**source.document(event.at), "copied_from": event.at.position}
    held = body.pop("held")
    for dropped in ("index", "pieces"):
        body.pop(dropped, None)
    if event.kind == CHECKPOINT:
        body["early"] = [list(moved[position]) for position, _ in body["early"]]
        body["channels"] = {
            name: [version, *(moved[place[0]] if len(place) > 1 else place)]
            for name, (version, *place) in body["channels"].items()
        }
        held = {"values": {name: _rebased(each, moved) for name, each in held["values"].items()}}
    return Draft(event.kind, body, held)


def _rebased(change: dict[str, Any], moved: dict[int, Ref]) -> dict[str, Any]:
    if "base" not in change:
        return change
    return {**change, "base": list(moved[change["base"][0]])}


def _quoted(name: str) -> str:
    """A name with nothing in it that parts a stream's name; raises InvalidInput."""
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        problem = Problem("configurable", "lone_surrogate", "half a character", "proper text")
        raise InvalidInput("this can't be the name of a thread", [problem]) from None
