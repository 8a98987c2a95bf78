"""Values that search queries return: entries and vectors."""

from __future__ import annotations

from passdown.core.values import NamedTuple


class IndexedEntry(NamedTuple):
    """Something that search found, as far as its row tells."""

    id: int
    address: str
    task: str
    kind: str
    agent: str
    at: str
    status: str
    position: int
    length: int
    traits: int


class ComparedEntry(NamedTuple):
    """An entry with all that is compared of it: the words of its headings, its words, its marks."""

    entry: IndexedEntry
    heads: str
    words: str
    marks: str


class SharedEntry(NamedTuple):
    """An entry that shares a mark with a text, as far as the two are compared."""

    address: str
    kind: str
    agent: str
    status: str
    words: str


class Embedder(NamedTuple):
    """Who made vectors: its name, their length, and up to which entry all are there."""

    id: int
    name: str
    dimensions: int
    done: int


class EntryToEmbed(NamedTuple):
    """An entry that may lack a vector; `is_there` when it has the right one after all."""

    id: int
    address: str
    passage: bytes
    is_there: bool


class StoredVector(NamedTuple):
    """A vector with what filters ask of its entry."""

    id: int
    vector: bytes
    kind: str
    agent: str
    task: str
