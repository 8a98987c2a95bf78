"""What earlier imports made of ADRs: found again by file, and by text where the file is gone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from passdown.workspace.importing_files import PAGES, place_of, within
from passdown.workspace.importing_results import Earlier, short_hash, state_in, what_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.record import Record
    from passdown.workspace.importing_files import Source
    from passdown.workspace.opened import Opened

HOLDING = ("accepted", "proposed")


class Known(NamedTuple):
    """An ADR as it was last taken in: its state then, and the decision that holds it now."""

    state: str
    version: int
    address: str
    status: str
    cited: dict[str, str]
    paths: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing and nobody has taken the decision back."""
        return self.status in HOLDING


class KnownAdrs:
    """The ADRs of a source that a task has decisions of."""

    def __init__(self, opened: Opened, task: str, source: Source, earlier: Earlier) -> None:
        """`earlier` is looked at anew with every question: it grows while others write."""
        self._opened = opened
        self._task = task
        self._source = source
        self._earlier = earlier
        # Two folders of a project may hold an ADR of the same name.
        self._place = place_of(opened, source)
        self._by_content: dict[str, list[Record]] = {}
        self._seen = 0

    def what(self, name: str) -> str:
        """What the records about an ADR are known by."""
        return f"adr-{short_hash(self._place, name)}"

    def at(self, name: str) -> Known | None:
        """The ADR of a file."""
        return self._last(self.what(name))

    def moved_to(self, name: str, content: str) -> Known | None:
        """The ADR that has this content and whose own file is gone, so that `name` can only be the
        same under another name; the latest of several.
        """
        self._index()
        found: list[Known] = []
        for what in {what_in(record.key) for record in self._by_content.get(content, ())}:
            known = self._last(what) if what != self.what(name) else None
            if known and known.state.startswith(f"{content}-") and self._is_gone(known):
                found.append(known)
        return max(found, key=lambda known: known.version, default=None)

    def names(self) -> list[str]:
        """The files of the source's folder that were taken in before, whether still there or not,
        without those that are taken in now.
        """
        found = set(self._recorded_names())
        if not self._source.is_folder:
            listed = os.listdir(self._source.folder)
            found.update(name for name in listed if name.lower().endswith(PAGES))
        return sorted(
            name for name in found - set(self._source.names) if any(self._decided(self.what(name)))
        )

    def was_replaced_by_adr(self, address: str) -> bool:
        """Whether the decision of another ADR has taken the place of one."""
        return any(
            address in decision.get("supersedes", ())
            for record in self._earlier.records
            if record.kind == "decided"
            for decision in record.document()["decisions"]
        )

    def _decided(self, what: str) -> Iterator[Record]:
        return (record for record in self._earlier.of(what) if record.kind == "decided")

    def _last(self, what: str) -> Known | None:
        decided = list(self._decided(what))
        if not decided:
            return None
        last = decided[-1]
        with self._opened.store.reading() as reader:
            (row,) = reader.items_at(self._task, last.position)
        body = last.document()
        paths = tuple(body["decisions"][0].get("paths", ()))
        cited: dict[str, str] = body.get("cited", {})
        state = self._earlier.state(what)
        return Known(state, last.position, row.address, row.status, cited, paths)

    def _index(self) -> None:
        for record in self._earlier.records[self._seen :]:
            if record.kind == "decided":
                content = state_in(record.key).partition("-")[0]
                self._by_content.setdefault(content, []).append(record)
        self._seen = len(self._earlier.records)

    def _is_gone(self, known: Known) -> bool:
        """Whether an ADR's file was in the project and isn't there any more."""
        return bool(known.paths) and not any(
            os.path.lexists(os.path.join(self._opened.root, *path.split("/")))
            for path in known.paths
        )

    def _recorded_names(self) -> Iterator[str]:
        folder = within(self._opened, self._source.folder)
        beginning = "" if folder == "." else f"{folder}/"
        for record in self._earlier.records:
            if folder and record.kind == "decided":
                for path in record.document()["decisions"][0].get("paths", ()):
                    if path.startswith(beginning):
                        yield path.removeprefix(beginning)
