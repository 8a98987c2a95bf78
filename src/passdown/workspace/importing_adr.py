"""ADRs into decisions: one task per folder, one decision per ADR, replaced when its text changes.

Each record's key names the ADR, what it said and its status. So a second run writes nothing, a
changed text or status takes the place of the earlier one, and so does any other edit of the file
while its decision holds, so that what is cited is what is there. What people have since marked by
hand stays as they marked it until the ADR itself changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem
from passdown.model.importing.adr import Adr, chain, read_adr
from passdown.model.importing.detecting import form_of_page
from passdown.model.names import path_problems, suggest_tag
from passdown.workspace.importing_adr_known import KnownAdrs
from passdown.workspace.importing_files import PAGES, text_at, within
from passdown.workspace.importing_results import (
    Done,
    Earlier,
    Tally,
    redactions,
    short_hash,
)
from passdown.workspace.noting import add_entry

if TYPE_CHECKING:
    from passdown.model.importing.adr import Chain
    from passdown.workspace.importing_adr_known import Known
    from passdown.workspace.importing_files import Source
    from passdown.workspace.importing_results import Progress
    from passdown.workspace.opened import Opened

_DEFAULT_TASK = "adr"


def bring_adrs(
    opened: Opened, source: Source, *, agent: str, task: str, progress: Progress | None
) -> Tally:
    """Take in the ADRs of a folder, or of one file."""
    adrs, tally = _read(source, progress)
    task = task or _task_name(source)
    earlier = Earlier(opened, task)
    earlier.make_sure(f"Architecture decisions in {os.path.basename(source.folder)}", agent)
    known = KnownAdrs(opened, task, source, earlier)
    linked = chain(adrs)
    if linked.problems:
        # What a reference means may have been taken in before, from a file that isn't given now.
        linked = chain(adrs, known.names())
    work = _Work(
        opened, source, agent=agent, task=task, earlier=earlier, linked=linked, known=known
    )
    for adr in linked.order:

        def take(adr: Adr = adr) -> Done:
            return earlier.settle(lambda: work.take(adr))

        tally.attempt(adr.name, "decision", take)
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
        known: KnownAdrs,
    ) -> None:
        self._opened = opened
        self._source = source
        self._agent = agent
        self._task = task
        self._earlier = earlier
        self._linked = linked
        self._known = known
        self._replaced = {old for olds in linked.supersedes.values() for old in olds}
        self._replaced_here = {old for adr in linked.order for old in linked.supersedes[adr.name]}
        self._addresses: dict[str, str] = {}

    def take(self, adr: Adr) -> Done:
        """Record what is new about an ADR; gives what was done and the decision's address."""
        known = self._known.at(adr.name)
        status = self._status(adr)
        named = map(self._address, self._linked.supersedes[adr.name])
        olds = [address for address in named if address]
        content = short_hash(adr.digest, *olds)
        state = f"{content}-{status}"
        moved = self._known.moved_to(adr.name, content)
        if moved and (known is None or known.version < moved.version):
            return self._move(adr, state, moved, olds)
        if known is None:
            return self._decide("added", adr, state, olds)
        self._addresses[adr.name] = known.address
        is_replaced = adr.name in self._replaced
        if known.state == state and (is_replaced or not self._is_outdated(adr, known)):
            return self._kept(adr, state, known, olds=olds)
        was_content, _, _ = known.state.partition("-")
        is_ending = was_content == content and status in ("reverted", "superseded")
        if is_ending and known.status in ("reverted", "superseded"):
            return Done("unchanged", known.address)
        # The decision is recorded anew for a new status, too: so it cites the file as it is now.
        return self._decide("changed", adr, state, [known.address, *olds])

    def _address(self, name: str) -> str:
        """The decision of an ADR, taken in now or before; empty where it was refused."""
        if name not in self._addresses:
            known = self._known.at(name)
            return known.address if known else ""
        return self._addresses[name]

    def _status(self, adr: Adr) -> str:
        """The status to record: an ADR whose successor is here is superseded by that decision."""
        return "accepted" if adr.name in self._replaced_here else adr.status

    def _move(self, adr: Adr, state: str, moved: Known, olds: list[str]) -> Done:
        """The same ADR under another name; what people have marked stays as they marked it."""
        if not moved.holds:
            self._addresses[adr.name] = moved.address
            return Done("unchanged", moved.address)
        done = self._decide("changed", adr, state, [moved.address, *olds])
        told = (f"was {moved.paths[0]}, which is gone", done.reason)
        return done._replace(reason="; ".join(part for part in told if part))

    def _is_outdated(self, adr: Adr, known: Known) -> bool:
        """Whether a decision that holds cites its ADR as it was before some edit, however small."""
        return known.holds and any(
            self._opened.project.measure(path).sha256 != known.cited[path].removeprefix("sha256:")
            for path in self._paths(adr)
            if path in known.cited
        )

    def _kept(self, adr: Adr, state: str, known: Known, *, olds: list[str]) -> Done:
        """Nothing new, unless an ADR that replaced this one has let go of it; one file alone can't
        tell that.
        """
        is_free = known.status == "superseded" and adr.name not in self._replaced
        is_asked = is_free and self._source.is_folder and adr.status == "accepted"
        if is_asked and self._known.was_replaced_by_adr(known.address):
            return self._decide("changed", adr, state, olds)
        return Done("unchanged", known.address)

    def _decide(self, result: str, adr: Adr, state: str, supersedes: list[str]) -> Done:
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
        receipt = add_entry(
            self._opened,
            "decision",
            self._task,
            self._agent,
            entry,
            key=self._earlier.key(self._known.what(adr.name), state),
            expect_version=self._earlier.version,
        )
        self._earlier.refresh()
        self._addresses[adr.name] = receipt.items[0]
        told = [*_remarks(adr), redactions(receipt.warnings)]
        result = "unchanged" if receipt.is_replay else result
        return Done(result, receipt.items[0], "; ".join(part for part in told if part))

    def _paths(self, adr: Adr) -> list[str]:
        """The ADR's own file, where it lies in the project."""
        name = within(self._opened, os.path.join(self._source.folder, *adr.name.split("/")))
        return [] if not name or path_problems(name, "") else [name]
