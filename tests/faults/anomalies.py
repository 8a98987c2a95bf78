"""A checker of histories: transactions that read lists and append to them, in the manner of Elle.

Every value is appended once, so what a list finally holds is the order in which its writers came.
From what each transaction read follows who must have come before whom: a writer before the writer
of the next value (ww), before whoever read its value as the last (wr), and whoever read before the
writer of what it didn't see yet (rw). What had ended before another began came before it. If all of
that can't be put into one order, there is a cycle, and the store isn't strictly serialisable.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class Transaction(NamedTuple):
    """What one transaction did, and when its caller began it and had its answer."""

    name: str
    begun: int
    ended: int
    outcome: str
    reads: dict[str, list[str]]
    appends: dict[str, list[str]]


def parsed(line: dict[str, Any]) -> Transaction:
    """A transaction from a line of a history."""
    return Transaction(**line)


def anomalies(history: list[Transaction], final: dict[str, list[str]]) -> list[str]:
    """Everything in a history that no serial order explains; `final` are the lists at its end."""
    found = _broken_lists(history, final)
    graph = Graph(history)
    for read in (t for t in history if t.outcome == OK):
        found += _odd_reads(read, final)
    if found:
        return found
    _depend(graph, history, final)
    _follow(graph, history)
    return [
        "a cycle: " + " -> ".join(graph.names[node] for node in cycle[:8])
        for cycle in graph.cycles()
    ]


def _broken_lists(history: list[Transaction], final: dict[str, list[str]]) -> list[str]:
    """Appends that were lost, doubled, or are there though their transaction failed."""
    found: list[str] = []
    for key, values in final.items():
        if len(set(values)) < len(values):
            found.append(f"{key} holds a value twice")
    held = {key: set(values) for key, values in final.items()}
    for transaction in history:
        for key, values in transaction.appends.items():
            for value in values:
                is_there = value in held.get(key, ())
                if transaction.outcome == OK and not is_there:
                    found.append(f"{transaction.name}: {value} was acknowledged and is lost")
                if transaction.outcome == FAILED and is_there:
                    found.append(f"{transaction.name}: {value} failed and is there")
    return found


def _odd_reads(read: Transaction, final: dict[str, list[str]]) -> list[str]:
    """Reads that aren't a beginning of what the list finally holds."""
    return [
        f"{read.name}: read {seen[-3:]} of {key}, which never was so"
        for key, seen in read.reads.items()
        if seen != final.get(key, [])[: len(seen)]
    ]


class Graph:
    """Who must have come before whom."""

    def __init__(self, history: list[Transaction]) -> None:
        self.names = [transaction.name for transaction in history]
        self.next: list[set[int]] = [set() for _ in history]

    def add(self, before: int, after: int) -> None:
        """Note that one came before another."""
        if before != after:
            self.next[before].add(after)

    def add_moment(self) -> int:
        """A point in time as a node of its own, so that real time needs few edges."""
        self.names.append("")
        self.next.append(set())
        return len(self.names) - 1

    def cycles(self) -> list[list[int]]:
        """Groups of transactions each of which came before all others of its group."""
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        found: list[list[int]] = []
        for start in range(len(self.next)):
            if start in order:
                continue
            work = [(start, iter(self.next[start]))]
            order[start] = low[start] = len(order)
            stack.append(start)
            on_stack.add(start)
            while work:
                node, rest = work[-1]
                step = next(rest, None)
                if step is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == order[node]:
                        found += _popped(stack, on_stack, node)
                elif step not in order:
                    order[step] = low[step] = len(order)
                    stack.append(step)
                    on_stack.add(step)
                    work.append((step, iter(self.next[step])))
                elif step in on_stack:
                    low[node] = min(low[node], order[step])
        return [[n for n in group if self.names[n]] for group in found]


def _popped(stack: list[int], on_stack: set[int], node: int) -> list[list[int]]:
    group: list[int] = []
    while True:
        member = stack.pop()
        on_stack.discard(member)
        group.append(member)
        if member == node:
            return [group] if len(group) > 1 else []


def _depend(graph: Graph, history: list[Transaction], final: dict[str, list[str]]) -> None:
    """What was read and written puts transactions in order."""
    writers = {
        (key, value): number
        for number, transaction in enumerate(history)
        for key, values in transaction.appends.items()
        for value in values
    }
    for key, values in final.items():
        for before, after in pairwise(values):
            graph.add(writers[key, before], writers[key, after])
    for number, transaction in enumerate(history):
        if transaction.outcome != OK:
            continue
        for key, seen in transaction.reads.items():
            values = final.get(key, [])
            if seen:
                graph.add(writers[key, seen[-1]], number)
            if len(seen) < len(values):
                graph.add(number, writers[key, values[len(seen)]])


def _follow(graph: Graph, history: list[Transaction]) -> None:
    """What had ended before another began came before it; one chain of moments says so for all."""
    events = [(t.ended, 0, number) for number, t in enumerate(history) if t.outcome == OK]
    events += [(t.begun, 1, number) for number, t in enumerate(history)]
    moment = graph.add_moment()
    for _, is_begin, number in sorted(events):
        if is_begin:
            graph.add(moment, number)
        else:
            after = graph.add_moment()
            graph.add(moment, after)
            graph.add(number, after)
            moment = after
