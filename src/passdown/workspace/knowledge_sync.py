"""Three-way sync of the knowledge graph and its file.

Compares ledger, file and what both said last time. A change on one side is taken over by
the other. Where both changed, the ledger wins and the difference is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from passdown.core.graph import graph_of
from passdown.core.index_entries import node_of
from passdown.core.knowledge import (
    is_derived_edge,
    is_reserved,
    normal_id,
    reserved_problems,
    with_normal_ids,
)
from passdown.core.text import has_lone_surrogate
from passdown.errors import InvalidInput, Problem
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.knowledge.merge import (
    NO_SYNC_BASE,
    Merge,
    SyncBase,
    merge_graphs,
    part_digest,
    sync_base,
)
from passdown.ledger.durable_files import (
    named_lock,
    read_bytes,
    read_text,
    rename_unreadable,
    replace_file,
    with_retries,
)
from passdown.workspace.context import Context
from passdown.workspace.graph_access import add_knowledge, written_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.core.graph import Graph
    from passdown.core.record import Record
    from passdown.store.statements import Reader


_ENDINGS = (".dot", ".gv", ".json")
_LEFT_ALONE = "the knowledge file was left alone"


def sync_path(root: str, path: object, private: str) -> str:
    """The real path of the knowledge file that `path` names, relative to the project.

    A path in the project, or relative to it, has to stay in it once links are followed, and out of
    `private`, the store's folder, and `.git`. A path outside has to be absolute, no link, and in a
    folder that is there. Whatever has the name is a regular file, and the name that of a graph.
    Raises InvalidInput.
    """
    given = _text(path)
    base = os.path.realpath(root)
    named = os.path.normpath(os.path.join(root, given))
    target = os.path.realpath(named)
    if _is_beneath(target, base):
        parts = os.path.relpath(target, base).split(os.sep)
        if _is_beneath(target, os.path.realpath(private)) or ".git" in parts:
            raise _refused(given, target, "is among files that keep the project's history")
    elif not os.path.isabs(given) or _is_beneath(named, os.path.abspath(root), base):
        raise _refused(given, target, "leads out of the project")
    elif os.path.islink(named):
        raise _refused(given, target, "is a link outside of the project")
    elif not os.path.isdir(os.path.dirname(target)):
        raise _refused(given, target, "is in a folder that is not there")
    if not named.lower().endswith(_ENDINGS):
        expected = f"a name that ends with {', '.join(_ENDINGS)}"
        message = f"{given[:200]!r} is not the name of a graph"
        raise InvalidInput(_LEFT_ALONE, [Problem("path", "not_a_graph", message, expected)])
    try:
        is_file = stat.S_ISREG(os.lstat(target).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as error:
        raise _refused(given, target, error.strerror or "can't be looked at") from error
    if not is_file:
        raise _refused(given, target, "is not a regular file")
    return target


def not_a_graph(target: str, why: str) -> InvalidInput:
    """The refusal of a file that holds something else, which is not ours to move."""
    message = f"{target[:400]} is there and holds no graph: {why}"
    expected = "a file that isn't there yet, or a graph as JSON or DOT"
    fix = "name another file, or mend this one"
    return InvalidInput(_LEFT_ALONE, [Problem("path", "not_a_graph", message, expected, fix)])


def _text(path: object) -> str:
    if not isinstance(path, str):
        problem = Problem("path", "wrong_type", type(path).__name__, "the path of a file")
    elif "\0" in path or has_lone_surrogate(path):
        problem = Problem("path", "invalid_path", "holds what no path can", "the path of a file")
    else:
        return path
    raise InvalidInput("no such knowledge file", [problem])


def _is_beneath(path: str, *folders: str) -> bool:
    return any(os.path.commonpath([path, folder]) == folder for folder in folders)


def _refused(given: str, target: str, why: str) -> InvalidInput:
    expected = "a regular file in the project, or an absolute path that is no link"
    message = f"{given[:200]!r} ({target[:400]}) {why}"
    return InvalidInput(_LEFT_ALONE, [Problem("path", "unsafe_path", message, expected)])


DEFAULT_FILE = "knowledge.dot"
_LARGEST = 2**62
_PAGE = 200


class KnowledgeSync(NamedTuple):
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


class WrittenKnowledge(NamedTuple):
    """What was written down by now, up to the record `seq`, and what several agents wrote
    differently.
    """

    graph: Graph
    seq: int
    reports: tuple[Problem, ...]


class KnowledgeSource(Protocol):
    """The records that a knowledge file is brought together with: here, or behind a server."""

    def written(self, since: int) -> WrittenKnowledge:
        """What was written down; reports are about what came after the record `since`."""
        ...

    def add(self, merge: Merge, agent: str) -> None:
        """Write down what a file says."""
        ...


class SyncFolders(NamedTuple):
    """The project that a knowledge file is in, its private folder, and where it is remembered what
    the file said last time.
    """

    root: str
    private: str
    memory: str


class _LocalKnowledge:
    """The records of a store that is open in this process."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def written(self, since: int) -> WrittenKnowledge:
        with self._context.store.reading() as reader:
            reports = _conflicting_nodes(reader, since)
            return WrittenKnowledge(written_graph(reader), reader.totals()[1], tuple(reports))

    def add(self, merge: Merge, agent: str) -> None:
        add_knowledge(self._context, merge.nodes, merge.edges, agent=agent)


def written_since(context: Context, since: int = 0) -> WrittenKnowledge:
    """What was written down in a workspace that is open here."""
    return _LocalKnowledge(context).written(since)


def sync_knowledge(context: Context, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file with the graph, both ways; conflicts are reported.

    A file that can't be read is kept under another name.

    Args:
        path: The file; knowledge.dot by default, JSON by its ending.
        agent: Who records what the file says.
    """
    folder = context.place.folder
    places = SyncFolders(context.root, folder, os.path.join(folder, "knowledge"))
    return sync_file(_LocalKnowledge(context), places, path, agent=agent)


def sync_file(
    side: KnowledgeSource, places: SyncFolders, path: str, *, agent: str
) -> KnowledgeSync:
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
        data = with_retries(f"reading {target}", lambda: read_bytes(target))
        data = data.replace(b"\r\n", b"\n") if data is not None else None
        text = data.decode(errors="replace") if data is not None else None
        ledger, _, reports = side.written(base.seq)
        file, aside, trouble = _read_file(target, data, ledger, is_known=base is not NO_SYNC_BASE)
        if file is not None:
            file, trouble = _without_reserved(file)
        merge = merge_graphs(ledger, file, base) if file is not None else Merge((), (), ())
        if any(report.code == "conflict" for report in merge.reports):
            aside = _copy_aside(target, text or "")
        if merge.nodes or merge.edges:
            side.add(merge, agent)
        ledger, seq, _ = side.written(_LARGEST)
        new = write_graph(ledger, form)
        if new != text:
            with_retries(
                f"writing {target}", lambda: replace_file(target, new, is_project_file=True)
            )
        _write_base(remembered, sync_base(ledger, seq))
    return KnowledgeSync(
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
        spelled = with_normal_ids(*file, lambda name: name if name in known else normal_id(name))
        return (graph_of(*spelled), "", ())
    except (InvalidInput, UnicodeDecodeError) as error:
        why = error.problems[0].line() if isinstance(error, InvalidInput) else str(error)
        if not is_known:
            raise not_a_graph(target, why) from error
        aside = rename_unreadable(target)
        message = f"can't be read and was kept as {os.path.basename(aside)}: {why}"
        fix = "mend it and give it the name of the file again, or leave it"
        return (None, aside, (Problem(target, "unreadable", message, "", fix, "warning"),))


def _without_reserved(file: Graph) -> tuple[Graph, tuple[Problem, ...]]:
    """A file's graph without what other records say, and a report of that."""
    reports = [p._replace(level="warning") for p in reserved_problems(file.nodes, file.edges)]
    nodes = [node for node in file.nodes if not is_reserved(node.id)]
    edges = [edge for edge in file.edges if not is_derived_edge(edge.key)]
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


def _conflicting_nodes(reader: Reader, since: int) -> list[Problem]:
    """Nodes that several agents wrote differently since the last time."""
    said: dict[str, dict[str, str]] = {}
    for record in _learned_since(reader, since):
        for data in record.document().get("nodes", ()):
            digest = part_digest(graph_of([node_of(data)], ()).nodes[0])
            said.setdefault(data["id"], {}).setdefault(digest, record.author)
    return [
        _node_conflict(name, list(by.values()))
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


def _node_conflict(name: str, authors: list[str]) -> Problem:
    message = f"was written differently by {', '.join(sorted(set(authors)))}"
    fix = f"the words of {authors[0]}, the newest, stand; write down what should hold"
    return Problem(f"nodes.{name}", "conflict", message, "one meaning for each id", fix, "warning")


def _read_base(path: str) -> SyncBase:
    """What was remembered; nothing where there is nothing that can be read."""
    try:
        document: Any = json.loads(read_text(path) or "{}")
        return SyncBase(int(document["seq"]), dict(document["digests"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return NO_SYNC_BASE


def _write_base(path: str, base: SyncBase) -> None:
    text = json.dumps({"seq": base.seq, "digests": dict(base.digests)}, ensure_ascii=False)
    if read_text(path) != text:
        replace_file(path, text)
