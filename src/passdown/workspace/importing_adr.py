"""ADRs into decisions: one task per folder, one decision per ADR, replaced when its text changes.

Each record's key names the ADR, what it said and its status. So a second run writes nothing, a
changed text or status takes the place of the earlier one, and so does any other edit of the file
while its decision holds, so that what is cited is what is there. What people have since marked by
hand stays as they marked it until the ADR itself changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.model.importing.adr import Adr, chain, read_adr
from passdown.model.importing.detecting import form_of_page
from passdown.model.names import path_problems, suggest_tag
from passdown.workspace.importing_files import PAGES, place_of, text_at, within
from passdown.workspace.importing_results import (
    Done,
    Earlier,
    Tally,
    redactions,
    short_hash,
)
from passdown.workspace.noting import add_entry, create_task

if TYPE_CHECKING:
    from passdown.model.importing.adr import Chain
    from passdown.workspace.importing_files import Source
    from passdown.workspace.importing_results import Progress
    from passdown.workspace.opened import Opened

_DEFAULT_TASK = "adr"


class _Known(NamedTuple):
    """An ADR as it was last taken in: its state then, and the decision that holds it now."""

    state: str
    address: str
    status: str
    cited: dict[str, str]


def bring_adrs(
    opened: Opened, source: Source, *, agent: str, task: str, progress: Progress | None
) -> Tally:
    """Take in the ADRs of a folder, or of one file."""
    adrs, tally = _read(source, progress)
    linked = chain(adrs)
    task = task or _task_name(source)
    earlier = Earlier(opened, task)
    if not earlier.exists and linked.order:
        title = f"Architecture decisions in {os.path.basename(source.folder)}"
        create_task(opened, {"task": task, "title": title, "agent": agent}, None)
    work = _Work(opened, source, agent=agent, task=task, earlier=earlier, linked=linked)
    for adr in linked.order:
        tally.attempt(adr.name, "decision", lambda adr=adr: work.take(adr))
        tally.step()
    for problem in linked.problems:
        tally.refuse(problem, "link")
    tally.finish()
    return tally


def _read(source: Source, progress: Progress | None) -> tuple[list[Adr], Tally]:
    """The ADRs that the files hold; the others are counted, with the reason."""
    names = [name for name in source.names if name.lower().endswith(PAGES)]
    tally = Tally("adr", len(names), progress)
    found: dict[tuple[str, str], Adr] = {}
    for name in names:
        text = text_at(source, name)
        if isinstance(text, Problem):
            tally.refuse(text, "file")
            continue
        adr = read_adr(name, text)
        if source.is_folder and form_of_page(name, text) == "notes":
            reason = "is a note, not an ADR; import it by itself with --from notes"
            tally.add(name, "file", "skipped", reason=reason)
        elif isinstance(adr, Adr):
            first = found.setdefault((os.path.dirname(name), adr.digest), adr)
            if first is not adr:
                tally.add(name, "file", "skipped", reason=f"says the same as {first.name}")
        elif adr.is_meant or not source.is_folder:
            tally.refuse(adr.problem, "file")
        else:
            tally.add(name, "file", "skipped", reason=adr.problem.message)
    if not found:
        refused = [p for p in tally.entries if p.result == "refused"]
        problems = [Problem(p.source, "not_taken", p.reason) for p in refused]
        missing = Problem("source", "no_adr", "there is no ADR in it", "a folder of ADRs")
        raise InvalidInput("nothing was imported", problems or [missing])
    return list(found.values()), tally


def _task_name(source: Source) -> str:
    return suggest_tag(os.path.basename(source.folder)) or _DEFAULT_TASK


def _remarks(adr: Adr) -> list[str]:
    """What a reader of the summary should know of how an ADR was read."""
    notes: list[str] = []
    if not adr.said:
        notes.append("it states no status; taken as accepted")
    if adr.odd_date:
        notes.append(f"{adr.odd_date} is no date; the decision has that of its import")
    if adr.left_out:
        notes.append(f"only in the file: {', '.join(adr.left_out)[:300]}")
    return notes


class _Work:
    """Brings one ADR after another up to date."""

    def __init__(
        self,
        opened: Opened,
        source: Source,
        *,
        agent: str,
        task: str,
        earlier: Earlier,
        linked: Chain,
    ) -> None:
        self._opened = opened
        self._source = source
        self._agent = agent
        self._task = task
        self._earlier = earlier
        self._linked = linked
        self._replaced = {old for olds in linked.supersedes.values() for old in olds}
        self._addresses: dict[str, str] = {}
        # Two folders of a project may hold an ADR of the same name.
        self._place = place_of(opened, source)

    def take(self, adr: Adr) -> Done:
        """Record what is new about an ADR; gives what was done and the decision's address."""
        what = f"adr-{short_hash(self._place, adr.name)}"
        known = self._known(what)
        status = self._status(adr)
        named = self._linked.supersedes[adr.name]
        olds = [self._addresses[old] for old in named if old in self._addresses]
        content = short_hash(adr.digest, *olds)
        state = f"{content}-{status}"
        if known is None:
            return self._decide("added", adr, what, state, olds)
        self._addresses[adr.name] = known.address
        is_replaced = adr.name in self._replaced
        if known.state == state and (is_replaced or not self._is_outdated(adr, known)):
            return self._kept(adr, what, state, known, olds=olds)
        was_content, _, _ = known.state.partition("-")
        is_ending = was_content == content and status in ("reverted", "superseded")
        if is_ending and known.status in ("reverted", "superseded"):
            return Done("unchanged", known.address)
        # The decision is recorded anew for a new status, too: so it cites the file as it is now.
        return self._decide("changed", adr, what, state, [known.address, *olds])

    def _status(self, adr: Adr) -> str:
        """The status to record: an ADR whose successor is here is superseded by that decision."""
        return "accepted" if adr.name in self._replaced else adr.status

    def _known(self, what: str) -> _Known | None:
        decided = [record for record in self._earlier.of(what) if record.kind == "decided"]
        if not decided:
            return None
        with self._opened.store.reading() as reader:
            rows = reader.items_at(self._task, decided[-1].position)
        cited: dict[str, str] = decided[-1].document().get("cited", {})
        return _Known(self._earlier.state(what), rows[0].address, rows[0].status, cited)

    def _is_outdated(self, adr: Adr, known: _Known) -> bool:
        """Whether a decision that holds cites its ADR as it was before some edit, however small."""
        if known.status not in ("accepted", "proposed"):
            return False
        return any(
            self._opened.project.measure(path).sha256 != known.cited[path].removeprefix("sha256:")
            for path in self._paths(adr)
            if path in known.cited
        )

    def _kept(self, adr: Adr, what: str, state: str, known: _Known, *, olds: list[str]) -> Done:
        """Nothing new, unless an ADR that replaced this one has let go of it."""
        is_free = known.status == "superseded" and adr.name not in self._replaced
        if is_free and adr.status == "accepted" and self._was_replaced_by_adr(known.address):
            return self._decide("changed", adr, what, state, olds)
        return Done("unchanged", known.address)

    def _was_replaced_by_adr(self, address: str) -> bool:
        return any(
            address in decision.get("supersedes", ())
            for record in self._earlier.records
            if record.kind == "decided"
            for decision in record.document()["decisions"]
        )

    def _decide(self, result: str, adr: Adr, what: str, state: str, supersedes: list[str]) -> Done:
        entry: dict[str, Any] = {
            "summary": adr.title,
            "rationale": adr.rationale,
            "alternatives": list(adr.alternatives),
            "tags": list(adr.tags),
            "status": self._status(adr),
            "supersedes": supersedes,
            "paths": self._paths(adr),
        }
        if adr.date:
            entry["at"] = f"{adr.date}T00:00:00Z"
        key = self._earlier.key(what, state)
        receipt = add_entry(self._opened, "decision", self._task, self._agent, entry, key=key)
        self._addresses[adr.name] = receipt.items[0]
        told = [*_remarks(adr), redactions(receipt.warnings)]
        return Done(result, receipt.items[0], "; ".join(part for part in told if part))

    def _paths(self, adr: Adr) -> list[str]:
        """The ADR's own file, where it lies in the project."""
        name = within(self._opened, os.path.join(self._source.folder, *adr.name.split("/")))
        return [] if not name or path_problems(name, "") else [name]
