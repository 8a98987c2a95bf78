"""The knowledge file: everything that was written down since the last time, in one batch."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.errors import InvalidInput, Problem
from passdown.ledger.durable_files import (
    keep_aside,
    named_lock,
    read_bytes,
    read_text,
    replace_file,
)
from passdown.ledger.retrying import persistently
from passdown.model.findable import node_of
from passdown.model.graph import graph_of
from passdown.model.graph_files import read_graph, write_graph
from passdown.model.graph_merging import NO_BASE, Base, Merge, base_of, digest_of, merged
from passdown.model.knowledge import (
    composed,
    in_one_spelling,
    is_reserved,
    reserved_problems,
    says_itself,
)
from passdown.workspace.knowing import learn, written_graph
from passdown.workspace.sync_path import no_graph, sync_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.graph import Graph
    from passdown.model.record import Record
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Held, Opened

DEFAULT_FILE = "knowledge.dot"
_LARGEST = 2**62
_PAGE = 200


class Synced(NamedTuple):
    """What came of bringing graph and file together. `taken` are the nodes that the ledger took
    over from the file; `kept_aside` is where a file that can't be read, or that was changed on both
    sides, was put.
    """

    path: str
    nodes: int
    edges: int
    taken: tuple[str, ...]
    is_changed: bool
    kept_aside: str
    reports: tuple[Problem, ...]


class Written(NamedTuple):
    """What was written down by now, up to the record `seq`, and what several agents wrote
    differently.
    """

    graph: Graph
    seq: int
    reports: tuple[Problem, ...]


class Ledger(Protocol):
    """The records that a knowledge file is brought together with: here, or behind a server."""

    def written(self, since: int) -> Written:
        """What was written down; reports are about what came after the record `since`."""
        ...

    def learn(self, merge: Merge, agent: str) -> None:
        """Write down what a file says."""
        ...


class Places(NamedTuple):
    """The project that a knowledge file is in, its private folder, and where it is remembered what
    the file said last time.
    """

    root: str
    private: str
    memory: str


class _Here:
    """The records of a store that is open in this process."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def written(self, since: int) -> Written:
        with self._opened.store.reading() as reader:
            reports = _rewritten(reader, since)
            return Written(written_graph(reader), reader.totals()[1], tuple(reports))

    def learn(self, merge: Merge, agent: str) -> None:
        learn(self._opened, merge.nodes, merge.edges, agent=agent)


def written_since(workspace: Held, since: int) -> Written:
    """What was written down in a workspace that is open here."""
    return _Here(workspace._opened).written(since)  # pyright: ignore[reportPrivateUsage]


def sync_knowledge(opened: Opened, path: str, *, agent: str) -> Synced:
    """Bring the knowledge file of this project and the graph together."""
    folder = opened.place.folder
    places = Places(opened.root, folder, os.path.join(folder, "knowledge"))
    return brought_together(_Here(opened), places, path, agent=agent)


def brought_together(side: Ledger, places: Places, path: str, *, agent: str) -> Synced:
    """Bring a knowledge file and the graph together; either may have changed since.

    A file that can't be read is kept aside and reported, never overwritten, or refused where it was
    never brought together before; what it says that is not for the graph to say is reported and
    left out. Nodes that several agents wrote differently
    since the last time are reported too; the newest words stand.

    The file, once links are followed, is a regular one in the project, or has to be named by an
    absolute path that is no link, in a folder that is there; anything else is refused.
    """
    target = sync_path(places.root, path or DEFAULT_FILE, places.private)
    form = "json" if target.endswith(".json") else "dot"
    remembered = os.path.join(places.memory, _base_name(places.root, target))
    os.makedirs(places.memory, mode=0o700, exist_ok=True)
    with named_lock(places.memory, "sync"):
        base = _read_base(remembered)
        data = persistently(f"reading {target}", lambda: read_bytes(target))
        data = data.replace(b"\r\n", b"\n") if data is not None else None
        text = data.decode(errors="replace") if data is not None else None
        ledger, _, reports = side.written(base.seq)
        file, aside, trouble = _read_file(target, data, ledger, is_known=base is not NO_BASE)
        if file is not None:
            file, trouble = _without_reserved(file)
        merge = merged(ledger, file, base) if file is not None else Merge((), (), ())
        if any(report.code == "conflict" for report in merge.reports):
            aside = _copy_aside(target, text or "")
        if merge.nodes or merge.edges:
            side.learn(merge, agent)
        ledger, seq, _ = side.written(_LARGEST)
        new = write_graph(ledger, form)
        if new != text:
            persistently(
                f"writing {target}", lambda: replace_file(target, new, is_project_file=True)
            )
        _write_base(remembered, base_of(ledger, seq))
    return Synced(
        path=target,
        nodes=len(ledger.nodes),
        edges=len(ledger.edges),
        taken=tuple(node.id for node in merge.nodes),
        is_changed=new != text,
        kept_aside=aside,
        reports=(*trouble, *reports, *merge.reports),
    )


def _read_file(
    target: str, data: bytes | None, ledger: Graph, *, is_known: bool
) -> tuple[Graph | None, str, tuple[Problem, ...]]:
    """The file's graph, or None with where a file was put that can't be read, and why.

    Raises InvalidInput for one that can't be read and may never have been a graph.
    """
    if not data:
        return (None, "", ())
    try:
        known = {node.id for node in ledger.nodes}
        file = read_graph(data.decode(), known=known)
        spelled = in_one_spelling(*file, lambda name: name if name in known else composed(name))
        return (graph_of(*spelled), "", ())
    except (InvalidInput, UnicodeDecodeError) as error:
        why = error.problems[0].line() if isinstance(error, InvalidInput) else str(error)
        if not is_known:
            raise no_graph(target, why) from error
        aside = keep_aside(target)
        message = f"can't be read and was kept as {os.path.basename(aside)}: {why}"
        fix = "mend it and give it the name of the file again, or leave it"
        return (None, aside, (Problem(target, "unreadable", message, "", fix, "warning"),))


def _without_reserved(file: Graph) -> tuple[Graph, tuple[Problem, ...]]:
    """A file's graph without what other records say, and a report of that."""
    reports = [p._replace(level="warning") for p in reserved_problems(file.nodes, file.edges)]
    nodes = [node for node in file.nodes if not is_reserved(node.id)]
    edges = [edge for edge in file.edges if not says_itself(edge.key)]
    return graph_of(nodes, edges), tuple(reports)


def _base_name(root: str, target: str) -> str:
    """The file that remembers what another said last time; two may have the same last name."""
    place = os.path.relpath(target, os.path.realpath(root))
    digest = hashlib.blake2b(os.fsencode(place), digest_size=6).hexdigest()
    return f"{os.path.basename(target)[:100]}-{digest}.base"


def _copy_aside(target: str, text: str) -> str:
    aside = f"{target}.conflict-{os.urandom(3).hex()}"
    replace_file(aside, text)
    return aside


def _rewritten(reader: Reader, since: int) -> list[Problem]:
    """Nodes that several agents wrote differently since the last time."""
    said: dict[str, dict[str, str]] = {}
    for record in _learned_since(reader, since):
        for data in record.document().get("nodes", ()):
            digest = digest_of(graph_of([node_of(data)], ()).nodes[0])
            said.setdefault(data["id"], {}).setdefault(digest, record.author)
    return [
        _by_several(name, list(by.values()))
        for name, by in sorted(said.items())
        if len(by) > 1 and len(set(by.values())) > 1
    ]


def _learned_since(reader: Reader, seq: int) -> Iterator[Record]:
    """What was written down after a record, newest first."""
    before = _LARGEST
    while page := reader.latest(before, _PAGE, kinds=["learned"]):
        for record in page:
            if record.seq <= seq:
                return
            yield record
        before = page[-1].seq


def _by_several(name: str, authors: list[str]) -> Problem:
    message = f"was written differently by {', '.join(sorted(set(authors)))}"
    fix = f"the words of {authors[0]}, the newest, stand; write down what should hold"
    return Problem(f"nodes.{name}", "conflict", message, "one meaning for each id", fix, "warning")


def _read_base(path: str) -> Base:
    """What was remembered; nothing where there is nothing that can be read."""
    try:
        document: Any = json.loads(read_text(path) or "{}")
        return Base(int(document["seq"]), dict(document["digests"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return NO_BASE


def _write_base(path: str, base: Base) -> None:
    text = json.dumps({"seq": base.seq, "digests": dict(base.digests)}, ensure_ascii=False)
    if read_text(path) != text:
        replace_file(path, text)
