"""LangGraph checkpoints in the ledger: changes instead of copies, one successor per checkpoint.

Each thread and namespace is a stream, chained and verified like any other. Nothing is deleted:
what LangGraph calls deleting or pruning is a record that hides.
"""

from __future__ import annotations

import asyncio
import random
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote

from passdown.adapters.tools import LruCache, async_twin, local_workspace
from passdown.errors import Conflict, InvalidInput, Problem
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
        PendingWrite,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.adapters.langgraph.checkpoint_streams import CheckpointEntry, CheckpointTree
    from passdown.adapters.tools import AnyWorkspace


from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)

from passdown.adapters.langgraph.checkpoint_streams import (
    CHECKPOINT,
    EMPTY,
    HIDDEN,
    NOTHING,
    WRITES,
    ChannelValue,
    CheckpointStream,
    Part,
    RecordDraft,
    RecordRef,
    StrictSerializer,
    change_of,
    decode_part,
    encode_part,
    encoded_draft,
    join_value,
    split_value,
)

BRANCH = "__passdown_branch_from"
"""In the config of a checkpoint that has a successor: continuing from it means to branch."""


class _CheckpointKey(NamedTuple):
    thread: str
    namespace: str
    checkpoint: str
    branch: str


SAME_RECORD = 0
"""Used as a position: the value is in the same record."""


class NewCheckpoint(NamedTuple):
    """A checkpoint that is to be recorded; `may_branch` when its parent was read as history."""

    id: str
    parent: str
    begins: bool
    run: str
    frame: Part
    metadata: Part
    versions: Mapping[str, str | int | float]
    values: dict[str, Any]
    new: frozenset[str]
    may_branch: bool


class StoredWrite(NamedTuple):
    """One pending write, in the order that LangGraph applies them."""

    path: str
    task: str
    number: int
    channel: str
    part: Part


def record_checkpoint(
    stream: CheckpointStream, serde: SerializerProtocol, given: NewCheckpoint
) -> None:
    """Record a checkpoint; a repeat changes nothing. Raises Conflict for a second successor."""
    with stream.lock:
        new = [channel for channel in given.versions if channel in given.new]
        values = {channel: _split_channel(stream, serde, given, channel) for channel in new}

        def compose() -> RecordDraft | None:
            key = stream.trail.key(given.id)
            known = stream.by_key(key)
            if known is not None:
                _check_same(stream, given, known, values)
                return None
            _check_parent(stream, given)
            places = _value_refs(stream, given, values)
            for channel in given.values.keys() & given.versions.keys() - values.keys():
                if channel not in places:
                    values[channel] = _split_channel(stream, serde, given, channel)
            return _draft(stream, given, values, places)._replace(key=key)

        at = stream.append(compose)
        if at is not None:
            changes = stream.document(at)["held"]["values"]
            for channel, value in values.items():
                depth = changes[channel].get("depth", 0)
                stream.keep(at, channel, value._replace(depth=depth))


def _split_channel(
    stream: CheckpointStream, serde: SerializerProtocol, given: NewCheckpoint, channel: str
) -> ChannelValue:
    if channel not in given.values:
        return NOTHING
    if isinstance(given.values[channel], ChannelValue):
        return given.values[channel]
    value, live = split_value(serde, given.values[channel], stream.live.get(channel, []))
    stream.live[channel] = live
    return value


def _check_parent(stream: CheckpointStream, given: NewCheckpoint) -> None:
    """Refuse a second successor of the same checkpoint, and a second beginning of a thread."""
    trail = stream.trail
    if given.may_branch or not (given.parent or given.begins):
        return
    if given.parent not in trail.entries and trail.newest is not None:
        trail = stream.complete()
    others = [name for name in trail.successors(given.parent) if name != given.id]
    if not given.parent:
        others = [name for name in others if trail.entries[name].begins]
    if others:
        parent = trail.entries.get(given.parent)
        raise branch_conflict(stream, given, others[0], parent.at.position if parent else 0)


def branch_conflict(
    stream: CheckpointStream, given: NewCheckpoint, other: str, position: int
) -> Conflict:
    """The error for a writer whose checkpoint already has a successor."""
    place = f"checkpoint {given.parent}" if given.parent else "the beginning of the thread"
    error = Conflict(
        stream.name,
        expected=position,
        actual=stream.trail.head.position,
        detail=f"{place} already has the successor {other}; {given.id} was not recorded",
    )
    error.next_step = (
        "Read the thread again and run from its latest checkpoint. To branch on purpose, read the "
        "earlier checkpoint and continue from its config."
    )
    return error


def _check_same(
    stream: CheckpointStream,
    given: NewCheckpoint,
    known: RecordRef,
    values: dict[str, ChannelValue],
) -> None:
    """Whether a checkpoint that is there says the same; raises Conflict otherwise."""
    document = stream.document(known)
    coding = document["coding"]
    same = document["parent"] == given.parent
    same = same and decode_part(document["frame"], coding) == given.frame
    same = same and decode_part(document["metadata"], coding) == given.metadata
    for channel, value in values.items():
        place = value_ref(document, channel, known)
        stored = stream.value(place, channel) if place else NOTHING
        same = same and (stored.shape, stored.parts) == (value.shape, value.parts)
    if not same:
        raise branch_conflict(stream, given, f"another checkpoint {given.id}", known.position)


def value_ref(document: dict[str, Any], channel: str, at: RecordRef) -> RecordRef | None:
    """The record that holds the value of a channel at a checkpoint; None without one."""
    _, *place = document["channels"].get(channel, [None])
    if not place:
        return None
    return at if place[0] == SAME_RECORD else RecordRef(*place)


def _value_refs(
    stream: CheckpointStream, given: NewCheckpoint, values: Mapping[str, ChannelValue]
) -> dict[str, RecordRef]:
    """Where the channels that aren't new have their values: found by their version."""
    missing = {channel for channel in given.versions if channel not in values}
    found: dict[str, RecordRef] = {}
    for entry in _earlier_entries(stream, given.parent):
        if not missing:
            break
        document = stream.document(entry.at)
        for channel in sorted(missing):
            known = document["channels"].get(channel)
            if known and known[0] == given.versions[channel]:
                missing.remove(channel)
                if place := value_ref(document, channel, entry.at):
                    found[channel] = place
    return found


def _earlier_entries(stream: CheckpointStream, parent: str) -> Iterator[CheckpointEntry]:
    """A checkpoint's parent, then all others, the newest first."""
    if parent in stream.trail.entries:
        yield stream.trail.entries[parent]
    if stream.trail.newest is not None:
        yield from sorted(stream.complete().entries.values(), key=lambda each: -each.at.position)


def _draft(
    stream: CheckpointStream,
    given: NewCheckpoint,
    values: dict[str, ChannelValue],
    places: dict[str, RecordRef],
) -> RecordDraft:
    parent = stream.trail.entries.get(given.parent)
    earlier = stream.document(parent.at) if parent else None
    channels: dict[str, list[Any]] = {}
    for channel, version in given.versions.items():
        place = places.get(channel)
        channels[channel] = [version, *((SAME_RECORD,) if channel in values else place or ())]

    def change(channel: str, value: ChannelValue, coding: str) -> dict[str, Any]:
        at = value_ref(earlier, channel, parent.at) if earlier and parent else None
        base = stream.value(at, channel) if at and value.shape != EMPTY else None
        return change_of(value, base, at, coding)

    def make(coding: str) -> dict[str, Any]:
        return {
            "id": given.id,
            "parent": given.parent,
            "begins": given.begins,
            "run": given.run,
            "early": [list(at) for at in stream.trail.early_writes(given.id)],
            "channels": channels,
            "frame": encode_part(given.frame, coding),
            "metadata": encode_part(given.metadata, coding),
            "held": {
                "values": {channel: change(channel, values[channel], coding) for channel in values}
            },
        }

    return encoded_draft(CHECKPOINT, make)


def read_values(
    stream: CheckpointStream, serde: SerializerProtocol, document: dict[str, Any], at: RecordRef
) -> dict[str, Any]:
    """The channels' values of a checkpoint, as new objects."""
    found: dict[str, Any] = {}
    for channel in document["channels"]:
        place = value_ref(document, channel, at)
        value = stream.value(place, channel) if place else NOTHING
        if value.shape != EMPTY:
            found[channel], stream.live[channel] = join_value(serde, value)
    return found


def record_writes(stream: CheckpointStream, checkpoint: str, writes: Sequence[StoredWrite]) -> None:
    """Record pending writes of a task; of a number that is there already, nothing, unless it is
    one of the special ones, which take the place of what was there.
    """

    def compose() -> RecordDraft | None:
        known = {(each.task, each.number): each for each in writes_of(stream, checkpoint)}
        new = [
            each
            for each in writes
            if (old := known.get((each.task, each.number))) is None
            or (each.number < 0 and each != old)
        ]
        if not new:
            return None

        def make(coding: str) -> dict[str, Any]:
            rows = [
                [each.path, each.task, each.number, each.channel, *encode_part(each.part, coding)]
                for each in new
            ]
            return {"checkpoint": checkpoint, "held": {"writes": rows}}

        return encoded_draft(WRITES, make)

    with stream.lock:
        stream.append(compose)


def writes_of(stream: CheckpointStream, checkpoint: str) -> list[StoredWrite]:
    """The pending writes of a checkpoint, in the order in which LangGraph applies them."""
    found: dict[tuple[str, int], StoredWrite] = {}
    for at in stream.trail.writes.get(checkpoint, ()):
        document = stream.document(at)
        for path, task, number, channel, kind, text in document["held"]["writes"]:
            part = decode_part([kind, text], document["coding"])
            if number < 0 or (task, number) not in found:
                found[task, number] = StoredWrite(path, task, number, channel, part)
    return sorted(found.values(), key=lambda each: (each.path, each.task, each.number))


PREFIX = "checkpoint/"
_CACHED_STREAMS = 128


def _everything(stream: CheckpointStream) -> dict[str, Any] | None:
    trail = stream.complete()
    return {"all": True} if trail.entries or trail.writes or trail.gone else None


def _all_but_newest(stream: CheckpointStream) -> dict[str, Any] | None:
    trail = stream.complete()
    return {"keep": trail.newest} if len(trail.entries) > 1 else None


def _hide(
    stream: CheckpointStream, choose: Callable[[CheckpointStream], dict[str, Any] | None]
) -> None:
    def compose() -> RecordDraft | None:
        hide = choose(stream)
        return RecordDraft(HIDDEN, {"hide": hide}) if hide else None

    with stream.lock:
        stream.append(compose)


def _copy_stream(
    trail: CheckpointTree,
    source: CheckpointStream,
    target: CheckpointStream,
    serde: SerializerProtocol,
) -> None:
    with target.lock:
        target.refresh()
        there = {*target.complete().entries, *target.trail.gone}
        entries = sorted({**trail.gone, **trail.entries}.values(), key=lambda e: e.at.position)
        for entry in (each for each in entries if each.id not in there):
            record_checkpoint(target, serde, _stored_checkpoint(source, entry))
        for name in trail.writes:
            record_writes(target, name, writes_of(source, name))
        gone = [name for name in trail.gone if name in target.complete().entries]
        if gone:
            _hide(target, lambda _: {"ids": gone})


def _stored_checkpoint(stream: CheckpointStream, entry: CheckpointEntry) -> NewCheckpoint:
    """A checkpoint as it was recorded, its values in parts."""
    document = stream.document(entry.at)
    places = {name: value_ref(document, name, entry.at) for name in document["channels"]}
    values = {name: stream.value(place, name) for name, place in places.items() if place}
    frame, metadata = (decode_part(document[n], document["coding"]) for n in ("frame", "metadata"))
    return NewCheckpoint(
        entry.id,
        entry.parent,
        entry.begins,
        entry.run,
        frame,
        metadata,
        {name: known[0] for name, known in document["channels"].items()},
        values,
        frozenset(name for name, place in places.items() if place == entry.at),
        may_branch=True,
    )


def _quoted(name: str) -> str:
    """A name with nothing in it that parts a stream's name; raises InvalidInput."""
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        problem = Problem("configurable", "lone_surrogate", "half a character", "proper text")
        raise InvalidInput("this can't be the name of a thread", [problem]) from None


class LedgerSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in a workspace. Threads, tasks and processes may share it.

    By default only plain data, LangChain's messages and LangGraph's own types come back as what
    they were; give `serde` for anything else.
    """

    def __init__(self, workspace: AnyWorkspace, *, serde: SerializerProtocol | None = None) -> None:
        """Nothing is read or written yet. The workspace stays open for as long as this is used."""
        super().__init__(serde=serde or StrictSerializer())
        self._streams = WorkspaceStreams(local_workspace(workspace, "LedgerSaver"))
        self._cached: LruCache[str, CheckpointStream] = LruCache(_CACHED_STREAMS)
        self._lock = Lock()

    def _stream(self, thread: str, namespace: str) -> CheckpointStream:
        """The stream of a thread and a namespace, whether or not it has records."""
        name = f"{PREFIX}{_quoted(thread)}/{_quoted(namespace)}"
        with self._lock:
            return self._cached.get(name) or self._cached.put(
                name, CheckpointStream(self._streams, name)
            )

    def _known(self, thread: str | None) -> builtins.list[tuple[str, str, CheckpointStream]]:
        """Thread, namespace and stream of all that have records, or of one thread's."""
        prefix = PREFIX if thread is None else f"{PREFIX}{_quoted(thread)}/"
        heads = self._streams.streams(prefix)
        names = [head.stream.removeprefix(PREFIX).split("/") for head in heads]
        places = [(unquote(thread), unquote(namespace)) for thread, namespace in names]
        return [(*place, self._stream(*place)) for place in places]

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """A version above `current`, and unlike any that another branch gives itself."""
        number = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{number + 1:016}.{random.getrandbits(32):08x}"

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Record a checkpoint after the one that `config` names: of its channels, those that are
        new. The same again changes nothing.

        Raises Conflict if another checkpoint has followed that one since it was read.
        """
        place = _checkpoint_key(config)
        told = cast("dict[str, Any]", get_checkpoint_metadata(config, metadata))
        frame = {
            name: part
            for name, part in checkpoint.items()
            if name not in ("channel_values", "channel_versions")
        }
        given = NewCheckpoint(
            checkpoint["id"],
            place.checkpoint,
            _starts_thread(place, told),
            str(told.get("run_id", "")),
            self.serde.dumps_typed(frame),
            self.serde.dumps_typed(told),
            checkpoint["channel_versions"],
            checkpoint["channel_values"],
            frozenset(new_versions),
            bool(place.branch) and place.branch == place.checkpoint,
        )
        record_checkpoint(self._stream(*place[:2]), self.serde, given)
        return _config(place.thread, place.namespace, given.id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Record what a task wrote, before the checkpoint that it leads to.

        A write that is there already is kept, but errors, interrupts and resumes take the place of
        those before them.
        """
        place = _checkpoint_key(config)
        rows = [
            StoredWrite(
                task_path,
                task_id,
                WRITES_IDX_MAP.get(channel, number),
                channel,
                self.serde.dumps_typed(value),
            )
            for number, (channel, value) in enumerate(writes)
        ]
        record_writes(self._stream(*place[:2]), place.checkpoint, rows)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, else the latest; None if there is none.

        Raises Damaged, before anything is decoded, if a record isn't what was written.
        """
        place = _checkpoint_key(config)
        stream = self._stream(*place[:2])
        with stream.lock:
            trail = stream.refresh()
            name = place.checkpoint or trail.newest
            if name is not None and name not in trail.entries:
                trail = stream.complete()
                name = place.checkpoint or trail.newest
            entry = trail.entries.get(name) if name else None
            return self._tuple(stream, place.thread, place.namespace, entry) if entry else None

    def _tuple(
        self, stream: CheckpointStream, thread: str, namespace: str, entry: CheckpointEntry
    ) -> CheckpointTuple:
        document = stream.document(entry.at)
        coding = document["coding"]
        frame: dict[str, Any] = self.serde.loads_typed(decode_part(document["frame"], coding))
        versions = {channel: known[0] for channel, known in document["channels"].items()}
        values = read_values(stream, self.serde, document, entry.at)
        has_successor = bool(stream.trail.successors(entry.id))
        config = _config(thread, namespace, entry.id, has_successor=has_successor)
        parent = _config(thread, namespace, entry.parent, has_successor=True)
        checkpoint = {**frame, "channel_values": values, "channel_versions": versions}
        return CheckpointTuple(
            config,
            cast("Checkpoint", checkpoint),
            self.serde.loads_typed(decode_part(document["metadata"], coding)),
            parent if entry.parent else None,
            [
                (write.task, write.channel, self.serde.loads_typed(write.part))
                for write in writes_of(stream, entry.id)
            ],
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, a namespace or, without `config`, of all, newest first.

        `filter` compares metadata for equality, whatever the names and values are.
        """
        wanted = _checkpoint_key(config).checkpoint if config else ""
        bound = before.get("configurable", {}).get("checkpoint_id", "") if before else ""
        count = 0
        for (thread, namespace, stream), entry in self._entries(config):
            if limit is not None and count >= limit:
                return
            if (wanted and entry.id != wanted) or (bound and entry.id >= bound):
                continue
            with stream.lock:
                if filter and not self._passes(stream, entry, filter):
                    continue
                found = self._tuple(stream, thread, namespace, entry)
            count += 1
            yield found

    def _entries(
        self, config: RunnableConfig | None
    ) -> builtins.list[tuple[tuple[str, str, CheckpointStream], CheckpointEntry]]:
        """What may be listed, newest first."""
        thread = _checkpoint_key(config).thread if config else None
        namespace = config.get("configurable", {}).get("checkpoint_ns") if config else None
        found: builtins.list[tuple[tuple[str, str, CheckpointStream], CheckpointEntry]] = []
        for known in self._known(thread):
            if namespace is None or known[1] == namespace:
                with known[2].lock:
                    known[2].refresh()
                    found += [(known, entry) for entry in known[2].complete().entries.values()]
        return sorted(found, key=lambda each: each[1].id, reverse=True)

    def _passes(
        self, stream: CheckpointStream, entry: CheckpointEntry, wanted: dict[str, Any]
    ) -> bool:
        document = stream.document(entry.at)
        metadata: dict[str, Any] = self.serde.loads_typed(
            decode_part(document["metadata"], document["coding"])
        )
        return all(metadata.get(name) == wanted[name] for name in wanted)

    def delete_thread(self, thread_id: str) -> None:
        """Hide everything of a thread. The records stay in the ledger."""
        for _, _, stream in self._known(str(thread_id)):
            _hide(stream, _everything)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs, and their writes, in all threads."""
        runs = frozenset(map(str, run_ids))

        def theirs(stream: CheckpointStream) -> dict[str, Any] | None:
            entries = stream.complete().entries.values()
            names = [entry.id for entry in entries if entry.run and entry.run in runs]
            return {"ids": names} if names else None

        for _, _, stream in self._known(None):
            _hide(stream, theirs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Record a thread again under another name; if it breaks off, repeat it.

        What the target has already stays. What is hidden is copied too, and hidden again: values
        may be made of it.
        """
        for _, namespace, stream in self._known(str(source_thread_id)):
            with stream.lock:
                stream.refresh()
                target = self._stream(str(target_thread_id), namespace)
                _copy_stream(stream.complete(), stream, target, self.serde)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the latest checkpoint of each namespace, or with "delete" that one too.

        What was hidden still serves to rebuild delta channels.
        """
        if strategy not in ("keep_latest", "delete"):
            problem = Problem("strategy", "invalid_choice", repr(strategy), "keep_latest or delete")
            raise InvalidInput("nothing was pruned", [problem])
        choose = _everything if strategy == "delete" else _all_but_newest
        for thread in thread_ids:
            for _, _, stream in self._known(str(thread)):
                _hide(stream, choose)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel the writes since the last stored value, oldest first, and that value."""
        place = _checkpoint_key(config)
        stream = self._stream(*place[:2])
        writes: dict[str, builtins.list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        with stream.lock:
            stream.refresh()
            trail = stream.complete()
            # What was hidden counts: a pruned thread still needs what its channels are made of.
            known = {**trail.gone, **trail.entries}
            entry = known.get(place.checkpoint or trail.newest or "")
            while entry is not None and (entry := known.get(entry.parent)) is not None:
                read = self._tuple(stream, place.thread, place.namespace, entry)
                for write in reversed(read.pending_writes or ()):
                    if write[1] in writes and write[1] not in seeds:
                        writes[write[1]].append(write)
                values = read.checkpoint["channel_values"]
                seeds = {**{name: values[name] for name in writes if name in values}, **seeds}
                if len(seeds) == len(writes):
                    break
        histories = {name: {"writes": found[::-1]} for name, found in writes.items()}
        found = {
            n: {**each, "seed": seeds[n]} if n in seeds else each for n, each in histories.items()
        }
        return cast("Mapping[str, DeltaChannelHistory]", found)

    aget_tuple = async_twin(get_tuple)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, each step in a thread."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    aput = async_twin(put)
    aput_writes = async_twin(put_writes)
    adelete_thread = async_twin(delete_thread)
    adelete_for_runs = async_twin(delete_for_runs)
    acopy_thread = async_twin(copy_thread)
    aprune = async_twin(prune)
    aget_delta_channel_history = async_twin(get_delta_channel_history)


def _starts_thread(place: _CheckpointKey, told: dict[str, Any]) -> bool:
    """Whether this is how LangGraph starts a thread; subgraphs may start again within one."""
    is_first = (told.get("source"), told.get("step")) == ("input", -1)
    return is_first and not place.checkpoint and not place.namespace


def _checkpoint_key(config: RunnableConfig) -> _CheckpointKey:
    """What a config names; raises InvalidInput if it names no thread."""
    given = config.get("configurable", {})
    if "thread_id" not in given:
        expected = 'a config such as {"configurable": {"thread_id": "1"}}'
        problem = Problem("configurable.thread_id", "missing", "is not there", expected)
        raise InvalidInput("no thread is named", [problem])
    return _CheckpointKey(
        str(given["thread_id"]),
        given.get("checkpoint_ns") or "",
        given.get("checkpoint_id") or "",
        given.get(BRANCH) or "",
    )


def _config(
    thread: str, namespace: str, checkpoint: str, *, has_successor: bool = False
) -> RunnableConfig:
    named = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    return {"configurable": {**named, BRANCH: checkpoint} if has_successor else named}
