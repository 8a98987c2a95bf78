"""The rows of what can be found, and the marks that filters ask for.

Apart from how they are made, which every start of the command line would otherwise load.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from passdown.model.graph import Edge, Node

NODE_PREFIX = "node:"


class EntryRow(NamedTuple):
    """One thing that search finds. `words` are compared, `heads` are those of its headings, `marks`
    are what filters ask for; `passage` is a digest of its text: equal texts share a vector.
    """

    address: str
    task: str
    kind: str
    agent: str
    at: str
    status: str
    position: int
    length: int
    traits: int
    heads: str
    passage: bytes
    words: str
    marks: str


class KnownRow(NamedTuple):
    """A node that somebody wrote down, and where."""

    node: Node
    task: str
    position: int


class Found(NamedTuple):
    """What a record adds. `dropped` are the addresses of entries, and `forgotten` the nodes and
    edges, that it takes out of what stands; `edges` may repeat what is there.
    """

    entries: tuple[EntryRow, ...] = ()
    edges: tuple[Edge, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    nodes: tuple[Node, ...] = ()
    forgotten_nodes: tuple[str, ...] = ()
    forgotten_edges: tuple[tuple[str, str, str], ...] = ()


class Sought(NamedTuple):
    """What an entry must have to be found: the word, where one is named, and of each group of marks
    at least one. How that is put to an index is the store's business.
    """

    word: str = ""
    marks: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=4_096)
def mark_of(name: str, value: str) -> str:
    """The mark that an entry with this value for `name` carries."""
    import hashlib

    return hashlib.blake2b(f"{name}={value}".encode(), digest_size=8).hexdigest()
