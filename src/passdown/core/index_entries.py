"""Search entries, graph edges and tags that a record adds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from passdown.core.graph import MAX_ID, Edge, Node, edge_of, is_reference, node_of, summary_line
from passdown.core.items import entry_of, searched_text
from passdown.core.kinds import KINDS
from passdown.core.names import normal_path, path_problems
from passdown.core.record import Record
from passdown.core.rows import MEMORY_PREFIX, NODE_PREFIX, EntryRow, IndexChanges, ItemRow, mark_of
from passdown.core.times import parse_time, stamp
from passdown.core.values import NamedTuple
from passdown.core.words import band_marks, headings, keywords, traits, words
from passdown.errors import Problem

SEARCHED_LETTERS = "hdpgqbwnf"
"""The letters of the items that search finds."""

COMPARED_LETTERS = "dpg"
"""The letters of the items that are compared with what was recorded before."""

NODE_LETTERS = {"d": "decision", "p": "pattern", "g": "gotcha", "w": "insight"}
"""The items that are nodes of the graph, and the type of node each is."""

_LINKED_LETTERS = frozenset({"a", *NODE_LETTERS})
"""The letters of the items that edges begin at, or that are about a file."""

KNOWLEDGE = "knowledge"
"""The kind, among what search finds, of a node that somebody wrote down."""

FINDABLE_KINDS = (*(KINDS[letter].word for letter in SEARCHED_LETTERS), KNOWLEDGE)
"""The kinds that search finds."""

SEVERITY_ORDER = {"blocker": 0, "critical": 0, "high": 1, "medium": 2, "low": 3}

MAX_TITLE_LENGTH = 300
KEYWORD_TAGS = 3
_UNTAGGED = "gw"
MAX_TAG = 100

_NO_TAG = re.compile(r"[\s,\x00-\x1f\x7f]+")

NO_INDEX_CHANGES = IndexChanges()


class IndexedText(NamedTuple):
    """An entry's text as search sees it: prepared once, before writers wait for each other. `bands`
    are the marks that it shares with texts that say nearly the same.
    """

    words: str
    length: int
    traits: int
    heads: str
    passage: bytes
    tags: tuple[str, ...]
    bands: tuple[str, ...] = ()


IndexedTexts = dict[tuple[str, int], IndexedText]
"""The texts of a body, by field and place."""


def indexed_texts(body: dict[str, Any]) -> IndexedTexts:
    """Prepare the texts of a record's searched items beforehand."""
    found: IndexedTexts = {}
    for letter in SEARCHED_LETTERS:
        field = KINDS[letter].field
        count = ("outcome" in body) if letter == "h" else len(body.get(field, ()))
        for index in range(count):
            found[field, index] = _text_of(letter, entry_of(body, field, index))
    for index, asked in enumerate(body.get("preconditions", ())):
        if "question" in asked:
            found["preconditions", index] = _text_of("q", asked)
    for index, node in enumerate(body.get("nodes", ())):
        found["nodes", index] = indexed_node(node_of(node))
    return found


def _text_of(letter: str, entry: dict[str, Any]) -> IndexedText:
    main, rest = searched_text(letter, entry)
    text = f"{main}\n{rest}" if rest else main
    tags = item_tags(letter, entry, text) if letter in NODE_LETTERS else ()
    return _text(text, tags, main if rest else "", is_likened=letter in COMPARED_LETTERS)


def indexed_node(node: Node) -> IndexedText:
    """The text of a written node: id, summary, attributes and tags."""
    text = f"{node.id}\n{node_text(node)}\n{' '.join(sorted(set(node.tags)))}"
    return _text(text, node.tags, node.summary)


def node_text(node: Node) -> str:
    """The words of a written node, without its id and its metadata."""
    said = [value for name, value in node.attributes.items() if name != "metadata"]
    return "\n".join(dict.fromkeys([node.summary, *said]))


@lru_cache(maxsize=256)
def _text(text: str, tags: tuple[str, ...], title: str, *, is_likened: bool = False) -> IndexedText:
    """The last ones are remembered: what is compared with the past is then written down."""
    compared = words(text)
    heads = words(title) if len(title) <= MAX_TITLE_LENGTH else []
    heads += [word for line in headings(text) for word in words(line)]
    digest = hashlib.blake2b(text.encode(), digest_size=12).digest()
    return IndexedText(
        words=" ".join(compared),
        length=len(compared),
        traits=traits(text),
        heads=" ".join(heads),
        passage=digest,
        tags=tags,
        bands=tuple(band_marks(compared)) if is_likened else (),
    )


def item_tags(letter: str, entry: dict[str, Any], text: str) -> tuple[str, ...]:
    """The tags of an item as given; of kinds without any, a few words that stand out."""
    if letter in _UNTAGGED:
        return tuple(sorted(keywords(text, KEYWORD_TAGS)))
    given = entry.get("applies_to" if letter == "p" else "tags", ())
    return tuple(sorted({tag_of(tag) for tag in given} - {""}))


def tag_of(text: str) -> str:
    """A text as a tag: lowercase, a hyphen for spaces and commas, at most 100 characters."""
    return _NO_TAG.sub("-", text.strip().lower())[:MAX_TAG]


def index_changes(
    record: Record,
    body: dict[str, Any],
    added: Sequence[ItemRow],
    texts: IndexedTexts | None = None,
) -> IndexChanges:
    """What a record adds to search and graph; `added` are its new items."""
    if not added and record.kind != "learned":
        return NO_INDEX_CHANGES
    texts = indexed_texts(body) if texts is None else texts
    entries: list[EntryRow] = []
    edges: list[Edge] = []
    tags: list[tuple[str, str]] = []
    for row in added:
        entry = entry_of(body, row.field, row.index)
        text = texts.get((row.field, row.index)) if row.letter in SEARCHED_LETTERS else None
        # A handoff may say nothing; what has only stop words is still found by filters.
        if text is not None and (row.letter != "h" or entry.get("summary")):
            entries.append(_item_entry(record, body, row, entry, text))
        if text is not None and row.letter in NODE_LETTERS:
            tags += [(tag, row.address) for tag in text.tags]
        edges += _item_edges(record, body, row, entry)
    nodes = body.get("nodes", ())
    if nodes:
        entries += _node_entries(record, body, texts)
        tags += [(tag, data["id"]) for data in nodes for tag in sorted(set(data.get("tags", ())))]
    return IndexChanges(
        tuple(entries),
        (*edges, *map(edge_of, body.get("edges", ()))),
        tuple(tags),
        tuple(map(node_of, nodes)),
        tuple(body.get("forgotten_nodes", ())),
        tuple((e["source"], e["relation"], e["target"]) for e in body.get("forgotten_edges", ())),
    )


def _item_entry(
    record: Record, body: dict[str, Any], row: ItemRow, entry: dict[str, Any], text: IndexedText
) -> EntryRow:
    kind, agent = KINDS[row.letter].word, entry.get("agent") or record.author
    paths = _paths_of(row.letter, entry)
    if row.letter == "h":
        paths = [artifact["path"] for artifact in body.get("artifacts", ())]
    said = (row.address, row.task, kind, agent, _time_of(entry, record), row.status)
    severity = [mark_of("severity", row.grade)] if row.letter == "g" else []
    return _entry_row(said, record.position, text, paths, (*severity, *text.bands))


def _entry_row(
    said: tuple[str, str, str, str, str, str],
    position: int,
    text: IndexedText,
    paths: Iterable[str],
    marks: Iterable[str] = (),
) -> EntryRow:
    """The entry of a text; `said` are its address, task, kind, agent, time and status.

    Filters ask for marks within the same index as the words, so a filter costs no results however
    few entries pass it. A mark is a digest: names may hold anything.
    """
    _, task, kind, agent, _, _ = said
    found = [mark_of("kind", kind), mark_of("agent", agent), mark_of("task", task)]
    found += [mark_of("tag", tag) for tag in text.tags]
    compared = (text.length, text.traits, text.heads, text.passage, text.words)
    return EntryRow(*said, position, *compared, " ".join([*found, *_path_marks(paths), *marks]))


def _time_of(entry: dict[str, Any], record: Record) -> str:
    """The time of an entry: its own where it has one, such as that of an imported decision."""
    given = entry.get("at")
    if not given or given == record.at:
        return record.at
    try:
        return stamp(parse_time(given))
    except ValueError:
        return record.at


def _node_entries(record: Record, body: dict[str, Any], texts: IndexedTexts) -> Iterator[EntryRow]:
    task = record.stream.partition("/")[2]
    for index, data in enumerate(body.get("nodes", ())):
        node = node_of(data)
        status = node.attributes.get("status") or "current"
        said = (NODE_PREFIX + node.id, task, KNOWLEDGE, record.author, record.at, status)
        path = normal_path(node.attributes.get("path", "").strip())
        yield _entry_row(said, record.position, texts["nodes", index], [path])


def _item_edges(
    record: Record, body: dict[str, Any], row: ItemRow, entry: dict[str, Any]
) -> Iterator[Edge]:
    if row.letter not in _LINKED_LETTERS:
        return
    task = "task:" + row.task
    if row.letter == "a":
        yield Edge(f"file:{row.path}", "changed_in", task)
        return
    if row.letter == "d":
        yield Edge(row.address, "decided_by", f"agent:{entry.get('agent') or record.author}")
        yield Edge(row.address, "relates_to", task)
        for target in entry.get("supersedes", ()):
            yield Edge(row.address, "supersedes", target)
    else:
        yield Edge(row.address, "discovered_in", task)
    if row.letter in "dp":
        for target in sorted(_targets(row.letter, entry, body) - {task}):
            yield Edge(row.address, "relates_to", target)


def _targets(letter: str, entry: dict[str, Any], body: dict[str, Any]) -> set[str]:
    """The memories, references and files that an item names, as nodes.

    Which artifacts of a decision are no files was found when it was written: keys of memories (that
    were there, or that can't be anything else), or references to tasks, items, agents and files.
    """
    named: set[str] = {*entry.get("artifacts", ())} if letter == "d" else set()
    memories, references = (named & {*body.get(field, ())} for field in ("memories", "references"))
    files = {*_paths_of(letter, entry)} - memories - references
    return {*(MEMORY_PREFIX + key for key in memories), *references, *(f"file:{p}" for p in files)}


def unlinked_artifacts(body: dict[str, Any]) -> list[Problem]:
    """A warning for each artifact of a decision that can't be the end of a relationship."""
    return [
        Problem(
            f"decisions[{number}].artifacts[{index}]",
            "no_relationship",
            f"{name[:80]!r} is kept as text, without a relationship",
            "a file, task:ID, file:PATH, agent:NAME, an item's address or the key of a memory",
            level="warning",
        )
        for number, entry in enumerate(body.get("decisions", ()))
        for index, name in enumerate(entry.get("artifacts", ()))
        if path_problems(name, "") and not is_key_only(name) and not is_reference(name)
    ]


def is_key_only(name: str) -> bool:
    """Whether an artifact can only be a memory's key: no path, and no other known name."""
    is_key = len(MEMORY_PREFIX + name) <= MAX_ID and name == name.strip() and name.isprintable()
    is_named = is_reference(name) or name.startswith(NODE_PREFIX)
    return bool(path_problems(name, "")) and bool(name) and is_key and not is_named


def _paths_of(letter: str, entry: dict[str, Any]) -> list[str]:
    """The files that an item names; of free text, only what can be a path."""
    if letter == "d":
        given: list[str] = [*entry.get("artifacts", ()), *entry.get("paths", ())]
    elif letter == "p":
        given = [entry.get("location", "").partition(":")[0].strip()]
    else:
        return []
    return sorted({normal_path(path) for path in given if not path_problems(path, "")} - {""})


def _path_marks(paths: Iterable[str]) -> list[str]:
    """Marks of the files that an item names, and of their parent folders."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        found.update(dict.fromkeys("/".join(parts[:end]) for end in range(len(parts), 0, -1)))
    return [mark_of("path", path) for path in found if path]


def item_node(row: ItemRow, tags: Sequence[str]) -> Node:
    """An item as a node of the graph."""
    attributes = {"status": row.status, **({"severity": row.grade} if row.letter == "g" else {})}
    summary = summary_line(row.title) or row.address
    return Node(row.address, NODE_LETTERS[row.letter], summary, tuple(tags), attributes)
