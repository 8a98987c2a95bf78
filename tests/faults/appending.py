"""A process that reads and appends to lists in transactions: `python -m tests.faults.appending`.

Lists are streams of records, values their keys. What it did goes to a file, a line for each
transaction. With `bug`, it makes a mistake that a checker has to find.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from passdown.core.record import Head, Record, canonical_bytes, chained
from passdown.errors import PassdownError, StoreBusy
from passdown.store import open_store

if TYPE_CHECKING:
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer

AT = "2026-01-09T10:00:00.000000Z"
LISTS = 5
ROUND = 12
"""After so many transactions everybody turns to new lists, so that none grows long."""

BUGS = ("rolled_back", "piecemeal", "stale")


def stream(key: str) -> str:
    return f"list/{key}"


def read_list(reader: Reader, key: str) -> list[str]:
    """The values of a list."""
    return [record.key for record in reader.records(stream(key))]


class Appender:
    """One process's work on a store."""

    def __init__(self, store: Store, name: str, bug: str) -> None:
        self.store = store
        self.rng = random.Random(name)
        self.name = name
        self.bug = bug
        self.number = 0
        self.kept: dict[str, list[str]] = {}
        self.between: list[dict[str, Any]] = []

    def step(self) -> dict[str, Any]:
        """One transaction; gives what it did."""
        first = self.number // ROUND * LISTS
        keys = [f"{first + n}" for n in self.rng.sample(range(LISTS), self.rng.randint(2, 3))]
        is_write = self.rng.random() < 0.5
        self.number += 1
        reads: dict[str, list[str]] = {}
        appends: dict[str, list[str]] = {}
        begun = time.monotonic_ns()
        try:
            if is_write:
                self._write(keys, reads, appends)
            else:
                reads = self._read(keys)
            outcome = "ok"
        except PassdownError as error:
            outcome = "failed" if isinstance(error, StoreBusy) else "unknown"
        return {
            "name": f"{self.name}.{self.number}",
            "begun": begun,
            "ended": time.monotonic_ns(),
            "outcome": outcome,
            "reads": reads if outcome == "ok" else {},
            "appends": appends,
        }

    def _write(
        self, keys: list[str], reads: dict[str, list[str]], appends: dict[str, list[str]]
    ) -> None:
        try:
            with self.store.writing([stream(key) for key in keys]) as writer:
                for key in keys:
                    reads[key] = read_list(writer, key)
                for key in self.rng.sample(keys, self.rng.randint(1, 2)):
                    value = f"{self.name}-{self.number}-{key}"
                    appends[key] = [value]
                    _append(writer, key, value)
                if self.bug == "rolled_back" and self.number % 20 == 0:
                    raise _RolledBack
        except _RolledBack:
            pass  # and tells its caller that all went well

    def _read(self, keys: list[str]) -> dict[str, list[str]]:
        if self.bug == "piecemeal":
            found: dict[str, list[str]] = {}
            for key in keys:
                with self.store.reading() as reader:
                    found[key] = read_list(reader, key)
                if len(found) == 1:
                    self._write_between(keys)
            return found
        with self.store.reading() as reader:
            found = {key: read_list(reader, key) for key in keys}
        if self.bug == "stale":
            known = {key: self.kept.get(key, found[key]) for key in keys}
            self.kept = dict(found)
            return known
        return found

    def _write_between(self, keys: list[str]) -> None:
        """What another process might write to all lists while this one reads in pieces."""
        begun = time.monotonic_ns()
        appends = {key: [f"{self.name}-{self.number}-{key}-between"] for key in keys}
        with self.store.writing([stream(key) for key in keys]) as writer:
            for key, (value,) in appends.items():
                _append(writer, key, value)
        self.between.append(
            {
                "name": f"{self.name}.{self.number}-between",
                "begun": begun,
                "ended": time.monotonic_ns(),
                "outcome": "ok",
                "reads": {},
                "appends": appends,
            }
        )


class _RolledBack(Exception):
    pass


def _append(writer: Writer, key: str, value: str) -> None:
    head: Head | None = writer.head(stream(key))
    body = canonical_bytes({"value": value})
    writer.append(chained(Record(stream(key), 0, AT, "a", "noted", value, "", "", body), head))


def main(options: dict[str, Any]) -> None:
    """Make transactions until enough are made."""
    store = open_store(options["url"], durability=options.get("durability", "full"))
    appender = Appender(store, options["name"], options.get("bug", ""))
    with open(options["history"], "w", encoding="utf-8") as file:
        for _ in range(options["count"]):
            file.write(json.dumps(appender.step()) + "\n")
        for each in appender.between:
            file.write(json.dumps(each) + "\n")
    store.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
