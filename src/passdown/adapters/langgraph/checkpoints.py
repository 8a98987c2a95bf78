"""LangGraph checkpoints in the ledger: changes instead of copies, one successor per checkpoint.

Each thread and namespace is a stream, chained and verified like any other. Nothing is deleted:
what LangGraph calls deleting or pruning is a record that hides.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.tools import async_twin, local_workspace
from passdown.errors import InvalidInput, MissingExtra, Problem

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.adapters.langgraph.checkpoint_streams import CheckpointEntry, CheckpointStream
    from passdown.adapters.tools import AnyWorkspace


try:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        CheckpointTuple,
        get_checkpoint_metadata,
    )
except ImportError as error:
    raise MissingExtra(
        "the package langgraph is not installed",
        next_step="Install it: pip install 'passdown[langgraph]'",
    ) from error

from passdown.adapters.langgraph.checkpoint_records import (
    CheckpointThreads,
    NewCheckpoint,
    StoredWrite,
    read_values,
    record_checkpoint,
    record_writes,
    writes_of,
)
from passdown.adapters.langgraph.checkpoint_streams import StrictSerializer, decode_part

BRANCH = "__passdown_branch_from"
"""In the config of a checkpoint that has a successor: continuing from it means to branch."""


class _CheckpointKey(NamedTuple):
    thread: str
    namespace: str
    checkpoint: str
    branch: str


class LedgerSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in a workspace. Threads, tasks and processes may share it.

    By default only plain data, LangChain's messages and LangGraph's own types come back as what
    they were; give `serde` for anything else.
    """

    def __init__(self, workspace: AnyWorkspace, *, serde: SerializerProtocol | None = None) -> None:
        """Nothing is read or written yet. The workspace stays open for as long as this is used."""
        super().__init__(serde=serde or StrictSerializer())
        self._threads = CheckpointThreads(local_workspace(workspace, "LedgerSaver"))

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
        record_checkpoint(self._threads.stream(*place[:2]), self.serde, given)
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
        record_writes(self._threads.stream(*place[:2]), place.checkpoint, rows)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, else the latest; None if there is none.

        Raises Damaged, before anything is decoded, if a record isn't what was written.
        """
        place = _checkpoint_key(config)
        stream = self._threads.stream(*place[:2])
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
            [self._pending(write) for write in writes_of(stream, entry.id)],
        )

    def _pending(self, write: StoredWrite) -> tuple[str, str, Any]:
        return write.task, write.channel, self.serde.loads_typed(write.part)

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
        found = [
            (known, entry)
            for known in self._threads.known(thread)
            if namespace is None or known[1] == namespace
            for entry in _all_entries(known[2])
        ]
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
        self._threads.hide_all(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs, and their writes, in all threads."""
        self._threads.hide_runs(frozenset(map(str, run_ids)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Record a thread again under another name; if it breaks off, repeat it."""
        self._threads.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the latest checkpoint of each namespace, or with "delete" that one too.

        What was hidden still serves to rebuild delta channels.
        """
        if strategy not in ("keep_latest", "delete"):
            problem = Problem("strategy", "invalid_choice", repr(strategy), "keep_latest or delete")
            raise InvalidInput("nothing was pruned", [problem])
        for thread in thread_ids:
            if strategy == "delete":
                self._threads.hide_all(str(thread))
            else:
                self._threads.keep_newest(str(thread))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel the writes since the last stored value, oldest first, and that value."""
        from passdown.adapters.langgraph.checkpoint_records import delta_history

        place = _checkpoint_key(config)
        stream = self._threads.stream(*place[:2])
        with stream.lock:
            return delta_history(stream, self.serde, place.checkpoint, channels)

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


def _all_entries(stream: CheckpointStream) -> builtins.list[CheckpointEntry]:
    with stream.lock:
        stream.refresh()
        return [*stream.complete().entries.values()]


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
