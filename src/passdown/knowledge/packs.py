"""Knowledge packs: the part of the graph about a task, within node and token limits."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import NamedTuple

from passdown.context.pipeline import beginning, budget_of
from passdown.core.arguments import number_problems, raise_problems
from passdown.core.graph import Graph
from passdown.core.index_entries import KNOWLEDGE, NODE_LETTERS
from passdown.core.kinds import KINDS, LIVE
from passdown.core.rows import NODE_PREFIX
from passdown.core.tokens import CounterLike
from passdown.core.types import NEWEST
from passdown.core.words import words
from passdown.errors import Problem
from passdown.knowledge.graph import part_of, reachable, subgraph
from passdown.knowledge.graph_files import GRAPH_FORMATS, write_graph
from passdown.search.query import SearchFilter
from passdown.search.ranking import Search
from passdown.store.statements import Reader
from passdown.workspace.context import Context

MAX_TERMS = 20
MIN_GATHERED = 20
"""At least so many nodes are considered, so that any limit counts among the same nodes."""
MAX_PACK_NODES = 500
_KINDS = (*(KINDS[letter].word for letter in NODE_LETTERS), KNOWLEDGE)
_SETTLED = frozenset({"superseded", "reverted", "retracted", "deprecated", "legacy"})


class Pack(NamedTuple):
    """A subgraph for a task, as a graph and as text; `left_out` nodes had no room."""

    task: str
    terms: tuple[str, ...]
    graph: Graph
    text: str
    tokens: int
    left_out: int


def pack(
    context: Context,
    task: str,
    *,
    nodes: int = 20,
    budget: int = 1500,
    depth: int = 1,
    counter: CounterLike = None,
    format: str = "dot",
) -> Pack:
    """The part of the knowledge graph about a task, within node and token limits.

    It holds what the task itself found, the nodes that its most frequent words find, and what is
    around them, in the order of how well they fit. What was left out is counted.

    Args:
        task: The task.
        nodes: The largest number of nodes.
        budget: The most tokens that its text may take.
        depth: The largest number of steps around the nodes that fit.
        counter: How tokens are counted: a name, or a function from text to a number.
        format: dot or json.
    """
    problems = number_problems(nodes, "nodes", 1, MAX_PACK_NODES)
    problems += number_problems(budget, "budget", 1) + number_problems(depth, "depth", 0)
    if format not in GRAPH_FORMATS:
        expected = " | ".join(GRAPH_FORMATS)
        problems.append(Problem("format", "invalid_choice", repr(format), expected))
    raise_problems("no such pack", problems)
    room = budget_of(budget, counter or context.settings.counter)
    with context.store.reading() as reader:
        terms = _terms(reader, task)
        names = _names(reader, task, terms, nodes, depth)
        whole = subgraph(reader, names)
    known = {n.id for n in whole.nodes if n.attributes.get("status") not in _SETTLED}
    ordered = [name for name in names if name in known]
    kept, _ = beginning(
        ordered[:nodes],
        lambda some: room.fits(write_graph(part_of(whole, {*some}), format)),  # pyright: ignore[reportArgumentType]
    )
    graph = part_of(whole, {*kept})
    text = write_graph(graph, format) if kept else ""  # pyright: ignore[reportArgumentType]
    left_out = len(ordered) - len(kept)
    return Pack(task, terms, graph, text, room.tokens(text) if text else 0, left_out)


def _terms(reader: Reader, task: str) -> tuple[str, ...]:
    """The words that a task's own texts use most, the most frequent first."""
    row = reader.existing_task(task)
    said = (row.details.get("description"), *(row.details.get("criteria") or ()))
    texts = [str(row.details["title"]), *(part for part in said if isinstance(part, str))]
    texts += [item.title for item in reader.open_items(task, ("n", "q", "b"))]
    tally = Tally(word for text in texts for word in words(text))
    # Of words as frequent, the first in the title's order.
    return tuple(word for word, _ in tally.most_common(MAX_TERMS))


def _own(reader: Reader, task: str, most: int) -> list[str]:
    """The task's own decisions and lessons that hold, the newest first."""
    found = [
        row for letter in NODE_LETTERS for row in reader.items_before(task, letter, NEWEST, most)
    ]
    found.sort(key=lambda row: (-row.position, row.letter, row.ordinal))
    return [row.address for row in found if row.status in LIVE][:most]


def _names(reader: Reader, task: str, terms: Sequence[str], nodes: int, depth: int) -> list[str]:
    """Ids of nodes in the order of their worth: the task's own, half of `nodes` at most, what fits
    best, more of the task's own, then what is around it.

    What search gives without a term in it, to give as many as were asked for, is no part of this.
    """
    only = SearchFilter(kinds=_KINDS, without=_SETTLED)
    found = [entry for entry, _ in Search(reader, " ".join(terms), only).best(MAX_PACK_NODES)]
    said = reader.words_of(entry.id for entry in found)
    best = [
        entry.address.removeprefix(NODE_PREFIX)
        for entry in found
        if not set(terms).isdisjoint(said[entry.id].split())
    ]
    wanted = max(nodes, MIN_GATHERED)
    own = _own(reader, task, wanted // 2)
    best = list(dict.fromkeys([*own[: max(1, nodes // 2)], *best, *own]))
    names = dict.fromkeys(best)
    for name in best[:wanted]:
        around = reachable(reader, name, depth=depth, direction="both", limit=MAX_PACK_NODES)
        names.update(dict.fromkeys(place.node for place in around))
    return list(names)
