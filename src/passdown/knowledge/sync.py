"""Three-way sync of the knowledge graph and its file.

Compares ledger, file and what both said last time. A change on one side is taken over by
the other. Where both changed, the ledger wins and the difference is reported.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple, Self

from passdown.core.graph import (
    Edge,
    Graph,
    Node,
    graph_of,
    is_derived_edge,
    is_reference,
    is_reserved,
    node_of,
    normal_id,
    part_document,
    reserved_problems,
    with_normal_ids,
)
from passdown.core.rows import newest_first
from passdown.core.text import has_lone_surrogate
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, PassdownError, Problem
from passdown.knowledge.graph import add_knowledge, written_graph
from passdown.knowledge.graph_files import read_graph, write_graph
from passdown.ledger.durable_files import (
    keep_aside,
    named_lock,
    read_bytes,
    read_text,
    replace_file,
    with_retries,
)
from passdown.store.statements import Reader
from passdown.workspace.context import Context
from passdown.workspace.files import is_beneath

Part = Node | Edge

DEFAULT_FILE = "knowledge.dot"
_PAGE = 200


class KnowledgeSync(NamedTuple):
    """Result of a sync. `taken` are the nodes that the ledger took over from the file; `kept_aside`
    is the new name of a file that can't be read or that was changed on both sides.
    """

    path: str
    nodes: int
    edges: int
    taken: tuple[str, ...]
    is_changed: bool
    kept_aside: str
    reports: tuple[Problem, ...]


class WrittenKnowledge(NamedTuple):
    """The written graph up to the record `seq`, and nodes that agents wrote differently."""

    graph: Graph
    seq: int
    reports: tuple[Problem, ...]


class SyncFolders(NamedTuple):
    """The project's folder, its private folder, and the folder for the state of the last sync."""

    root: str
    private: str
    memory: str

    @classmethod
    def of_client(cls, root: str, url: str) -> Self:
        """Those of a server's client. What the file said last time is remembered in the user's
        cache: a folder `.passdown` here would be taken for a workspace.
        """
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        whose = f"{url}\0{os.path.realpath(root)}".encode()
        name = hashlib.blake2b(whose, digest_size=8).hexdigest()
        memory = os.path.join(cache, "passdown", "knowledge", name)
        return cls(root, os.path.join(root, ".passdown"), memory)


def written_since(context: Context, since: int = 0) -> WrittenKnowledge:
    """What was recorded as knowledge, and what several agents wrote differently since a record.

    Args:
        since: A sequence number; reports are about later records.
    """
    with context.store.reading() as reader:
        reports = _conflicting_nodes(reader, since)
        return WrittenKnowledge(written_graph(reader), reader.totals()[1], tuple(reports))


def sync_knowledge(context: Context, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file with the graph, both ways; conflicts are reported.

    A file that can't be read is kept under another name.

    Args:
        path: The file; knowledge.dot by default, JSON by its ending.
        agent: Who records what the file says.
    """
    memory = os.path.join(context.place.folder, "knowledge")
    places = SyncFolders(context.root, context.place.home, memory)
    written, add = partial(written_since, context), partial(add_knowledge, context)
    return sync_file(written, add, places, path, agent=agent)


def sync_after_completion(context: Context) -> list[Problem]:
    """Write the knowledge file after a completion; what goes wrong is only a warning."""
    with context.store.reading() as reader:
        if not written_graph(reader).nodes:
            return []
    try:
        synced = sync_knowledge(context, agent="passdown")
    except (PassdownError, OSError) as error:
        message = f"the knowledge file was not written: {error}"
        fix = "passdown knowledge sync writes it"
        return [Problem("knowledge", "not_written", message, "", fix, "warning")]
    return [report._replace(level="warning") for report in synced.reports]


def sync_file(
    written: Callable[[int], WrittenKnowledge],
    add: Callable[..., object],
    places: SyncFolders,
    path: str,
    *,
    agent: str,
) -> KnowledgeSync:
    """Sync a knowledge file with the graph; either may have changed since the last sync.

    The ledger, here or behind a server, is what `written` gives since a record and `add` adds to.

    A file that can't be read is renamed and reported, or refused if it was never synced before.
    Parts of it that only other records may state are reported and left out. Nodes that several
    agents wrote differently since the last sync are reported; the newest version is kept.
    """
    target = sync_path(places.root, path or DEFAULT_FILE, places.private)
    form = "json" if target.endswith(".json") else "dot"
    # The name of the file with the state of the last sync; files may share their last name.
    place = os.path.relpath(target, os.path.realpath(places.root))
    digest = hashlib.blake2b(os.fsencode(place), digest_size=6).hexdigest()
    remembered = os.path.join(places.memory, f"{os.path.basename(target)[:100]}-{digest}.base")
    os.makedirs(places.memory, mode=0o700, exist_ok=True)
    with named_lock(places.memory, "sync"):
        base = _read_base(remembered)
        data = with_retries(f"reading {target}", lambda: read_bytes(target))
        data = data.replace(b"\r\n", b"\n") if data is not None else None
        text = data.decode(errors="replace") if data is not None else None
        ledger, _, reports = written(base.seq)
        file, aside, trouble = _read_file(target, data, ledger, is_known=base is not NO_SYNC_BASE)
        merge = merge_graphs(ledger, file, base) if file is not None else Merge((), (), ())
        if any(report.code == "conflict" for report in merge.reports):
            aside = f"{target}.conflict-{os.urandom(3).hex()}"
            replace_file(aside, text or "")
        if merge.nodes or merge.edges:
            add(merge.nodes, merge.edges, agent=agent)
        ledger, seq, _ = written(NEWEST)
        new = write_graph(ledger, form)
        if new != text:
            with_retries(
                f"writing {target}", lambda: replace_file(target, new, is_project_file=True)
            )
        digests = dict(sync_base(ledger, seq).digests)
        said = json.dumps({"seq": seq, "digests": digests}, ensure_ascii=False)
        if read_text(remembered) != said:
            replace_file(remembered, said)
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
) -> tuple[Graph | None, str, list[Problem]]:
    """The file's graph without parts that only other records may state, with warnings for these;
    or None with the new name of an unreadable file and a warning.

    Raises InvalidInput for an unreadable file that was never synced.
    """
    if not data:
        return (None, "", [])
    try:
        known = {node.id for node in ledger.nodes}
        file = read_graph(data.decode(), known=known)
    except (InvalidInput, UnicodeDecodeError) as error:
        why = error.problems[0].line() if isinstance(error, InvalidInput) else str(error)
        if not is_known:
            message = f"{target[:400]} is there and holds no graph: {why}"
            expected = "a file that isn't there yet, or a graph as JSON or DOT"
            raise _refused("not_a_graph", message, expected, "name another, or fix it") from error
        aside = keep_aside(target, "edited")
        message = f"can't be read and was kept as {os.path.basename(aside)}: {why}"
        fix = "fix it and give it the name of the file again, or leave it"
        return (None, aside, [Problem(target, "unreadable", message, "", fix, "warning")])
    nodes, edges = with_normal_ids(*file, lambda name: name if name in known else normal_id(name))
    reports = [p._replace(level="warning") for p in reserved_problems(nodes, edges)]
    own = graph_of(
        (node for node in nodes if not is_reserved(node.id)),
        (edge for edge in edges if not is_derived_edge(edge.key)),
    )
    return own, "", reports


def _conflicting_nodes(reader: Reader, since: int) -> list[Problem]:
    """Warnings for nodes that several agents wrote differently since a record."""
    said: dict[str, dict[str, str]] = {}
    records = newest_first(lambda before: reader.latest(before, _PAGE, kinds=["learned"]))
    for record in takewhile(lambda record: record.seq > since, records):
        for data in record.document().get("nodes", ()):
            digest = part_digest(graph_of([node_of(data)], ()).nodes[0])
            said.setdefault(data["id"], {}).setdefault(digest, record.author)
    found: list[Problem] = []
    for name, by in sorted(said.items()):
        authors = list(by.values())
        if len(set(authors)) > 1:
            message = f"was written differently by {', '.join(sorted(set(authors)))}"
            fix = f"the newest version, by {authors[0]}, is kept; record what should hold"
            where, expected = f"nodes.{name}", "one meaning for each id"
            found.append(Problem(where, "conflict", message, expected, fix, "warning"))
    return found


def _read_base(path: str) -> SyncBase:
    """The state of the last sync; empty if there is none, or it can't be read."""
    try:
        document: Any = json.loads(read_text(path) or "{}")
        # A file may say anything.
        seq = min(max(int(document["seq"]), 0), NEWEST)
        return SyncBase(seq, dict(document["digests"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return NO_SYNC_BASE


# Merging


class SyncBase(NamedTuple):
    """State at the last sync: the ledger's last record, and digests of nodes and edges by name."""

    seq: int
    digests: Mapping[str, str]


NO_SYNC_BASE = SyncBase(0, {})


class Merge(NamedTuple):
    """What the ledger takes over from the file, and warnings."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    reports: tuple[Problem, ...]


def part_digest(part: Part) -> str:
    """A short digest of a node or an edge."""
    document = part_document(part)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def sync_base(graph: Graph, seq: int) -> SyncBase:
    """The state to store once graph and file are the same."""
    return SyncBase(seq, {name: part_digest(part) for name, part in parts_of(graph).items()})


def merge_graphs(ledger: Graph, file: Graph, base: SyncBase) -> Merge:
    """Compare ledger, file and the last sync; a part that both changed is a conflict."""
    ours, theirs = parts_of(ledger), parts_of(file)
    taken: list[Part] = []
    reports: list[Problem] = []
    for name, part in theirs.items():
        own = ours.get(name)
        before = base.digests.get(name)
        if own == part or part_digest(part) == before:
            continue
        if own is None or part_digest(own) == before:
            taken.append(part)
            continue
        said = (p.summary if isinstance(p, Node) else dict(p.attributes) for p in (part, own))
        message = "was changed in the file ({!r}) and in the ledger ({!r})".format(*said)
        fix = "the ledger's version is kept; record what should hold with knowledge add"
        reports.append(_warning(part, "conflict", message, fix, "a change on one side"))
    for name, part in ours.items():
        if name not in theirs and base.digests.get(name) == part_digest(part):
            message = "was removed from the file; it is there again"
            fix = "remove it from the graph with knowledge forget"
            reports.append(_warning(part, "put_back", message, fix))
    return Merge(*split_parts(taken), tuple(reports))


def parts_of(graph: Graph) -> dict[str, Part]:
    """The nodes and edges of a graph by name."""
    return {_part_name(part): part for part in (*graph.nodes, *graph.edges)}


def _part_name(part: Part) -> str:
    return part.id if isinstance(part, Node) else json.dumps(part.key, ensure_ascii=False)


def _problem_path(part: Part) -> str:
    return f"nodes.{part.id}" if isinstance(part, Node) else f"edges.{' '.join(part.key)}"


def _warning(part: Part, code: str, message: str, fix: str, expected: str = "") -> Problem:
    return Problem(_problem_path(part), code, message, expected, fix, "warning")


class KnowledgeUpdate(NamedTuple):
    """The file's graph after an update, what the ledger takes over, and what was removed."""

    file: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    reports: tuple[Problem, ...]
    lost: tuple[str, ...]


def update_graph(file: Graph, entries: Graph, ledger: Graph, *, is_only: bool) -> KnowledgeUpdate:
    """Add entries to a file's graph, or, with `is_only`, replace it by them."""
    held, given, known = parts_of(file), parts_of(entries), parts_of(ledger)
    wished = given if is_only else held | given
    merge = merge_graphs(ledger, graph_of(*split_parts(wished.values())), sync_base(file, 0))
    reports = [report for report in merge.reports if report.code == "conflict"]
    disputed = {report.path for report in reports}
    taken = {_part_name(part) for part in (*merge.nodes, *merge.edges)}
    news = [part for name, part in given.items() if name in taken or name not in known]
    lost = tuple(sorted(held.keys() - wished.keys()))
    for name in lost:
        message = "was in the file and is not among the entries that replace it"
        fix = "git has the file as it was, and the graph still knows it; append brings it back"
        reports.append(_warning(held[name], "taken_out", message, fix))
    if not is_only:
        for name, part in wished.items():
            if name in known and _problem_path(part) in disputed:
                wished = wished | {name: known[name]}
        # A file with an edge to an unknown node can't be read.
        ends = {end for part in wished.values() if isinstance(part, Edge) for end in part.key[::2]}
        missing = (end for end in ends - wished.keys() if not is_reference(end))
        wished = wished | {name: known[name] for name in missing if name in known}
    whole, new = graph_of(*split_parts(wished.values())), graph_of(*split_parts(news))
    return KnowledgeUpdate(whole, new.nodes, new.edges, tuple(reports), lost)


def split_parts(parts: Iterable[Part]) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
    """Nodes and edges apart."""
    listed = list(parts)
    nodes = tuple(part for part in listed if isinstance(part, Node))
    return nodes, tuple(part for part in listed if isinstance(part, Edge))


# The path of the file

_ENDINGS = (".dot", ".gv", ".json")


def sync_path(root: str, path: object, private: str) -> str:
    """The real path of the knowledge file that `path` names, relative to the project.

    A path in the project, or relative to it, has to stay in it once links are followed, and out of
    `private`, the store's folder, and `.git`. A path outside has to be absolute, no link, and in an
    existing folder. It has to be a regular file, or none yet, with the ending of a graph file.
    Raises InvalidInput.
    """
    if not isinstance(path, str):
        raise _refused("wrong_type", type(path).__name__, "the path of a file")
    if "\0" in path or has_lone_surrogate(path):
        raise _refused("invalid_path", "holds what no path can", "the path of a file")
    named = os.path.normpath(os.path.join(root, path))
    target = os.path.realpath(named)
    if fault := _path_fault(root, path, named, private):
        expected = "a regular file in the project, or an absolute path that is no link"
        raise _refused("unsafe_path", f"{path[:200]!r} ({target[:400]}) {fault}", expected)
    if not named.lower().endswith(_ENDINGS):
        expected = f"a name that ends with {', '.join(_ENDINGS)}"
        raise _refused("not_a_graph", f"{path[:200]!r} is not the name of a graph", expected)
    return target


def _path_fault(root: str, path: str, named: str, private: str) -> str:
    target = os.path.realpath(named)
    if is_beneath(target, root):
        parts = os.path.relpath(target, os.path.realpath(root)).split(os.sep)
        if is_beneath(target, private) or ".git" in parts:
            return "is among files that keep the project's history"
    else:
        # It may be in the project by its name, wherever its links lead.
        roots = (os.path.abspath(root), os.path.realpath(root))
        is_named = any(os.path.commonpath([named, folder]) == folder for folder in roots)
        if not os.path.isabs(path) or os.path.islink(named) or is_named:
            return "leads out of the project, or is a link outside of it"
        if not os.path.isdir(os.path.dirname(target)):
            return "is in a folder that is not there"
    try:
        is_file = stat.S_ISREG(os.lstat(target).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_file = True  # none yet
    except OSError as error:
        return error.strerror or "can't be looked at"
    return "" if is_file else "is not a regular file"


def _refused(code: str, message: str, expected: str, fix: str = "") -> InvalidInput:
    problem = Problem("path", code, message, expected, fix)
    return InvalidInput("the knowledge file was left alone", [problem])
