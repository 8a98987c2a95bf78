"""Record ADRs as decisions, beads issues as tasks and MCP memory as knowledge.

A second run of the same source writes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.graph import Edge, graph_of
from passdown.core.intake import check_task
from passdown.core.names import path_problems, suggest_tag
from passdown.core.record import canonical_bytes
from passdown.errors import InvalidInput, Problem
from passdown.imports.adr import Adr, chain, read_adr
from passdown.imports.beads import issue_node, read_beads
from passdown.imports.formats import format_of_page
from passdown.imports.mcp_memory import read_memory
from passdown.ledger.gates import cycle_problems, entry_guard
from passdown.workspace.entries import add_entry, create_task
from passdown.workspace.graph_access import learn
from passdown.workspace.handoff import hand_off
from passdown.workspace.import_results import (
    PAGE_SUFFIXES,
    EarlierImports,
    Entry,
    EntryResult,
    ImportTally,
    append,
    project_path,
    redactions,
    short_hash,
    source_bytes,
    source_id,
    source_text,
    state_in,
    what_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.core.graph import Node
    from passdown.core.record import Record
    from passdown.imports.adr import AdrChain
    from passdown.imports.beads import Issue
    from passdown.store.statements import Reader
    from passdown.workspace.context import Context
    from passdown.workspace.import_results import ImportSource, Progress


class KnowledgeWriter(NamedTuple):
    """Writes knowledge down in a task, on behalf of an agent."""

    opened: Context
    task: str
    agent: str
    earlier: EarlierImports

    def take(
        self,
        what: str,
        state: str,
        address: str,
        *,
        nodes: Sequence[Node] = (),
        edges: Sequence[Edge] = (),
    ) -> EntryResult:
        """Record nodes and edges unless the source said the same of `what` the last time.

        Raises InvalidInput where no import knows a node that says something else here.
        """

        def write() -> EntryResult:
            was = self.earlier.state(what)
            if was == state:
                return EntryResult("unchanged", address)
            if not was:
                self._refuse_others(nodes)
            key = self.earlier.key(what, state)
            done = learn(self.opened, nodes, edges, agent=self.agent, task=self.task, key=key)
            result = "unchanged" if done.is_replay else "changed" if was else "added"
            return EntryResult(result, address, redactions(done.warnings))

        return self.earlier.settle(write)

    def _refuse_others(self, nodes: Sequence[Node]) -> None:
        """An import never takes the place of knowledge that somebody wrote down here."""
        with self.opened.store.reading() as reader:
            for node in nodes:
                known = reader.known_node(node.id)
                if known and graph_of([known.node], ()) != graph_of([node], ()):
                    message = f"{known.task} has written down something else under this name"
                    problem = Problem("name", "exists", message, "a name that is free")
                    raise InvalidInput("nothing was changed", [problem])


ACTIVE_STATUSES = ("accepted", "proposed")


class KnownAdr(NamedTuple):
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
        return self.status in ACTIVE_STATUSES


class KnownAdrs:
    """The ADRs of a source that a task has decisions of."""

    def __init__(
        self, opened: Context, task: str, source: ImportSource, earlier: EarlierImports
    ) -> None:
        """`earlier` is looked at anew with every question: it grows while others write."""
        self._context = opened
        self._task = task
        self._source = source
        self._earlier = earlier
        # Two folders of a project may hold an ADR of the same name.
        self._place = source_id(opened, source)
        self._by_content: dict[str, list[Record]] = {}
        self._seen = 0

    def what(self, name: str) -> str:
        """What the records about an ADR are known by."""
        return f"adr-{short_hash(self._place, name)}"

    def at(self, name: str) -> KnownAdr | None:
        """The ADR of a file."""
        return self._last(self.what(name))

    def moved_to(self, name: str, content: str) -> KnownAdr | None:
        """The ADR that has this content and whose own file is gone, so that `name` can only be the
        same under another name; the latest of several.
        """
        self._index()
        found: list[KnownAdr] = []
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
            found.update(name for name in listed if name.lower().endswith(PAGE_SUFFIXES))
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

    def _last(self, what: str) -> KnownAdr | None:
        decided = list(self._decided(what))
        if not decided:
            return None
        last = decided[-1]
        with self._context.store.reading() as reader:
            (row,) = reader.items_at(self._task, last.position)
        body = last.document()
        paths = tuple(body["decisions"][0].get("paths", ()))
        cited: dict[str, str] = body.get("cited", {})
        state = self._earlier.state(what)
        return KnownAdr(state, last.position, row.address, row.status, cited, paths)

    def _index(self) -> None:
        for record in self._earlier.records[self._seen :]:
            if record.kind == "decided":
                content = state_in(record.key).partition("-")[0]
                self._by_content.setdefault(content, []).append(record)
        self._seen = len(self._earlier.records)

    def _is_gone(self, known: KnownAdr) -> bool:
        """Whether an ADR's file was in the project and isn't there any more."""
        return bool(known.paths) and not any(
            os.path.lexists(os.path.join(self._context.root, *path.split("/")))
            for path in known.paths
        )

    def _recorded_names(self) -> Iterator[str]:
        folder = project_path(self._context, self._source.folder)
        beginning = "" if folder == "." else f"{folder}/"
        for record in self._earlier.records:
            if folder and record.kind == "decided":
                for path in record.document()["decisions"][0].get("paths", ()):
                    if path.startswith(beginning):
                        yield path.removeprefix(beginning)


_ADR_TASK = "adr"


def import_adrs(
    opened: Context, source: ImportSource, *, agent: str, task: str, progress: Progress | None
) -> ImportTally:
    """Take in the ADRs of a folder, or of one file."""
    adrs, tally = _read_adrs(source, progress)
    task = task or _task_name(source)
    earlier = EarlierImports(opened, task)
    earlier.make_sure(f"Architecture decisions in {os.path.basename(source.folder)}", agent)
    known = KnownAdrs(opened, task, source, earlier)
    linked = chain(adrs)
    if linked.problems:
        # What a reference means may have been taken in before, from a file that isn't given now.
        linked = chain(adrs, known.names())
    work = _AdrImport(
        opened, source, agent=agent, task=task, earlier=earlier, linked=linked, known=known
    )
    for adr in linked.order:

        def take(adr: Adr = adr) -> EntryResult:
            return earlier.settle(lambda: work.take(adr))

        tally.attempt(adr.name, "decision", take)
        tally.step()
    for problem in linked.problems:
        tally.refuse(problem, "link")
    tally.finish()
    return tally


def _read_adrs(source: ImportSource, progress: Progress | None) -> tuple[list[Adr], ImportTally]:
    """The ADRs that the files hold; the others are counted, with the reason."""
    names = [name for name in source.names if name.lower().endswith(PAGE_SUFFIXES)]
    tally = ImportTally("adr", len(names), progress)
    found: dict[tuple[str, str], Adr] = {}
    for name in names:
        text = source_text(source, name)
        if isinstance(text, Problem):
            tally.refuse(text, "file")
            continue
        adr = read_adr(name, text)
        if source.is_folder and format_of_page(name, text) == "notes":
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


def _task_name(source: ImportSource) -> str:
    return suggest_tag(os.path.basename(source.folder)) or _ADR_TASK


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


class _AdrImport:
    """Brings one ADR after another up to date."""

    def __init__(
        self,
        opened: Context,
        source: ImportSource,
        *,
        agent: str,
        task: str,
        earlier: EarlierImports,
        linked: AdrChain,
        known: KnownAdrs,
    ) -> None:
        self._context = opened
        self._source = source
        self._agent = agent
        self._task = task
        self._earlier = earlier
        self._linked = linked
        self._known = known
        self._replaced = {old for olds in linked.supersedes.values() for old in olds}
        self._replaced_here = {old for adr in linked.order for old in linked.supersedes[adr.name]}
        self._addresses: dict[str, str] = {}

    def take(self, adr: Adr) -> EntryResult:
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
            return EntryResult("unchanged", known.address)
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

    def _move(self, adr: Adr, state: str, moved: KnownAdr, olds: list[str]) -> EntryResult:
        """The same ADR under another name; what people have marked stays as they marked it."""
        if not moved.holds:
            self._addresses[adr.name] = moved.address
            return EntryResult("unchanged", moved.address)
        done = self._decide("changed", adr, state, [moved.address, *olds])
        told = (f"was {moved.paths[0]}, which is gone", done.reason)
        return done._replace(reason="; ".join(part for part in told if part))

    def _is_outdated(self, adr: Adr, known: KnownAdr) -> bool:
        """Whether a decision that holds cites its ADR as it was before some edit, however small."""
        return known.holds and any(
            self._context.project.measure(path).sha256 != known.cited[path].removeprefix("sha256:")
            for path in self._paths(adr)
            if path in known.cited
        )

    def _kept(self, adr: Adr, state: str, known: KnownAdr, *, olds: list[str]) -> EntryResult:
        """Nothing new, unless an ADR that replaced this one has let go of it; one file alone can't
        tell that.
        """
        is_free = known.status == "superseded" and adr.name not in self._replaced
        is_asked = is_free and self._source.is_folder and adr.status == "accepted"
        if is_asked and self._known.was_replaced_by_adr(known.address):
            return self._decide("changed", adr, state, olds)
        return EntryResult("unchanged", known.address)

    def _decide(self, result: str, adr: Adr, state: str, supersedes: list[str]) -> EntryResult:
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
            self._context,
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
        return EntryResult(result, receipt.items[0], "; ".join(part for part in told if part))

    def _paths(self, adr: Adr) -> list[str]:
        """The ADR's own file, where it lies in the project."""
        name = project_path(self._context, os.path.join(self._source.folder, *adr.name.split("/")))
        return [] if not name or path_problems(name, "") else [name]


_FIELDS = ("title", "description", "criteria", "depends_on", "time_limit_minutes")
_TASK, _STANDING, _LINKS = "beads-task", "beads-standing", "beads-links"
_TEXT = "beads-text"
_DELETED = "deleted"


def import_beads(
    opened: Context, source: ImportSource, name: str, *, agent: str, progress: Progress | None
) -> ImportTally:
    """Take in the issues of one JSONL file."""
    data = source_bytes(source, name)
    if isinstance(data, Problem):
        raise InvalidInput("nothing was imported", [data])
    found = read_beads(data)
    if not found.issues:
        missing = Problem(name, "no_issue", "there is no issue in it", "an issue a line")
        raise InvalidInput("nothing was imported", found.problems or [missing])
    tally = ImportTally("beads", 2 * len(found.issues), progress)
    for problem in found.problems:
        kind = "line" if problem.path.startswith("line") else "link"
        tally.refuse(problem, "link" if problem.path.endswith("dependencies") else kind)
    made: list[tuple[Issue, EarlierImports]] = []
    named = {issue.id for issue in found.issues if not issue.is_tombstone}
    for issue in found.issues:
        earlier = EarlierImports(opened, issue.id)
        missing = _missing_dependencies(opened, issue, named)
        if _import_issue(opened, issue, earlier, agent, tally=tally, missing=missing):
            made.append((issue, earlier))
        tally.step()
    # Links come last: by now every task that they lead to is there.
    known = {issue.id for issue, _ in made}
    for issue, earlier in made:
        _import_links(opened, issue, earlier, agent=agent, known=known, tally=tally)
        tally.step()
    tally.finish()
    return tally


def _missing_dependencies(opened: Context, issue: Issue, named: set[str]) -> str:
    """What an issue waits for that is neither in the file nor here, in words; else empty."""
    with opened.store.reading() as reader:
        gone = [n for n in issue.depends_on if n not in named and reader.task(n) is None]
    return f"depends on {', '.join(gone)[:200]}, not in the file and not here" if gone else ""


def _import_issue(
    opened: Context,
    issue: Issue,
    earlier: EarlierImports,
    agent: str,
    *,
    tally: ImportTally,
    missing: str,
) -> bool:
    """Bring the task of an issue up to date; says whether there is one now."""
    if issue.is_tombstone:
        _cancel_deleted(opened, issue, earlier, agent, tally)
        return False
    where = f"line {issue.line}"
    had_stood = _last_state(earlier)

    def make() -> EntryResult:
        return earlier.settle(lambda: _import_task(opened, issue, earlier, agent, missing))

    def stand() -> EntryResult:
        return earlier.settle(lambda: _import_state(opened, issue, earlier, agent))

    if not tally.attempt(where, "task", make):
        return False
    if _state_hash(issue) or had_stood:
        tally.attempt(where, "standing", stand)
    learner = KnowledgeWriter(opened, issue.id, agent, earlier)
    tally.attempt(where, "text", lambda: _import_text(issue, learner))
    return True


def _cancel_deleted(
    opened: Context, issue: Issue, earlier: EarlierImports, agent: str, tally: ImportTally
) -> None:
    """A deleted issue: its task is cancelled where an import made it, else there is nothing."""
    where = f"line {issue.line}"
    if not any(earlier.of(_TASK)):
        tally.add(where, "task", "skipped", reason=f"{issue.id} was deleted (a tombstone)")
        return

    def cancel() -> EntryResult:
        if earlier.state(_TASK) == _DELETED:
            return EntryResult("unchanged", issue.id)
        key, body = earlier.key(_TASK, _DELETED), {"status": "cancelled"}
        append(opened, Entry(issue.id, "task_changed", agent, body, key, earlier.version))
        return EntryResult("changed", issue.id)

    tally.attempt(where, "task", lambda: earlier.settle(cancel))


def _import_task(
    opened: Context, issue: Issue, earlier: EarlierImports, agent: str, missing: str
) -> EntryResult:
    """Make an issue's task, or change what the source changed; gives result and id."""
    fields: dict[str, Any] = {
        "title": issue.title,
        "description": issue.description,
        "criteria": list(issue.criteria),
        "depends_on": list(issue.depends_on),
        "time_limit_minutes": issue.minutes,
    }
    state = short_hash(canonical_bytes(fields).decode())
    if earlier.state(_TASK) == state:
        return EntryResult("unchanged", issue.id)
    key = earlier.key(_TASK, state)
    if not earlier.exists:
        phase = "implementing" if issue.standing.status == "in_progress" else "planning"
        given = {**fields, "task": issue.id, "agent": agent, "phase": phase}
        receipt = create_task(opened, given, key)
        told = (missing, redactions(receipt.warnings))
        result = "unchanged" if receipt.is_replay else "added"
        return EntryResult(result, issue.id, "; ".join(part for part in told if part))
    before = _last_fields(earlier)
    if not before:
        message = f"there is a task {issue.id} already, which no import made"
        problem = Problem("id", "exists", message, "an id that is free")
        raise InvalidInput("nothing was changed", [problem])
    changed = {name: value for name, value in fields.items() if before[name] != value}
    if earlier.state(_TASK) == _DELETED:
        changed["status"] = "open"
    _change(opened, Entry(issue.id, "task_changed", agent, changed, key, earlier.version))
    return EntryResult("changed", issue.id, missing if "depends_on" in changed else "")


def _last_fields(earlier: EarlierImports) -> dict[str, Any]:
    """An issue's fields as the source gave them last; empty where no import made the task."""
    told: dict[str, Any] = {}
    for record in earlier.of(_TASK):
        body = record.document()
        told |= {name: body[name] for name in _FIELDS if name in body}
    return told if len(told) == len(_FIELDS) else {}


def _change(opened: Context, entry: Entry) -> None:
    """Record what changed, if the task is still at the version that it was told from."""
    changed, task = entry.body, entry.task
    fields = {name: value for name, value in changed.items() if name != "status"}
    whole = {"title": "unchanged", **fields, "task": task, "agent": entry.author}
    checked, problems = check_task(whole)
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        raise InvalidInput("nothing was changed", errors)
    body = {**changed, **{name: checked[name] for name in fields}}

    def problems_of(reader: Reader, given: dict[str, Any]) -> list[Problem]:
        return cycle_problems(reader, task, given.get("depends_on", ()))

    append(opened, entry._replace(body=body), entry_guard(problems_of))


def _last_state(earlier: EarlierImports) -> str:
    """How an issue stood when it was last taken in; empty for one that was deleted since."""
    return earlier.state(_STANDING, since=earlier.version_of(_TASK, _DELETED))


def _state_hash(issue: Issue) -> str:
    """How an issue stands, as a state; empty for one that is merely open and says no more."""
    standing = issue.standing
    is_plain = standing.status == "open" and "\n" not in standing.summary and not standing.assignee
    return "" if is_plain else short_hash(standing.status, standing.summary, standing.assignee)


def _import_state(
    opened: Context, issue: Issue, earlier: EarlierImports, agent: str
) -> EntryResult:
    """Record how an issue stands, in one handoff, unless it stands as it did."""
    state, was = _state_hash(issue) or "open", _last_state(earlier)
    if was == state:
        return EntryResult("unchanged", issue.id)
    standing = issue.standing
    given: dict[str, Any] = {
        "task": issue.id,
        "from_agent": agent,
        "to_agent": standing.assignee if standing.assignee != agent else "",
        "outcome": "completed",
        "phase": standing.phase,
        "summary": standing.summary,
    }
    if standing.status == "blocked":
        blocker = {"blocker": "beads has it as blocked", "blocking_tasks": [issue.id]}
        given |= {"outcome": "blocked", "blockers": [blocker]}
    key = earlier.key(_STANDING, state)
    command = hand_off(opened, given, {}, key=key, rebase=False, changed_files=None)
    result = "unchanged" if command.is_replay else "changed" if was else "added"
    return EntryResult(result, f"{issue.id}@{command.version}", redactions(command.warnings))


def _import_text(issue: Issue, learner: KnowledgeWriter) -> EntryResult:
    """Record what an issue says where search looks, as a node beside its task."""
    node = issue_node(issue)
    state = short_hash(node.summary, *(f"{name} {text}" for name, text in node.attributes.items()))
    about = Edge(node.id, "relates_to", f"task:{issue.id}")
    return learner.take(_TEXT, state, f"node:{node.id}", nodes=[node], edges=[about])


def _import_links(
    opened: Context,
    issue: Issue,
    earlier: EarlierImports,
    *,
    agent: str,
    known: set[str],
    tally: ImportTally,
) -> None:
    """Record how an issue bears on others, as knowledge; links to nowhere are counted."""
    where = f"line {issue.line}"
    names: dict[tuple[str, str], list[str]] = {}
    for relation, other, kind in issue.relations:
        if other in known:
            names.setdefault((relation, other), []).append(kind)
        else:
            reason = f"{kind} {other}, which isn't here"
            tally.add(where, "link", "refused", issue.id, reason=reason)
    if not names:
        return
    edges = [
        Edge(f"task:{issue.id}", relation, f"task:{other}", {"name": "; ".join(sorted(kinds))})
        for (relation, other), kinds in names.items()
    ]
    state = short_hash(*(f"{edge.key} {edge.attributes['name']}" for edge in sorted(edges)))
    learner = KnowledgeWriter(opened, issue.id, agent, earlier)
    before = len(tally.entries)
    tally.attempt(
        where, "link", lambda: learner.take(_LINKS, state, f"task:{issue.id}", edges=edges)
    )
    # One record holds them all; each is counted.
    tally.entries += tally.entries[before:] * (len(edges) - 1)


_MEMORY_TASK = "memory"


def import_memory(
    opened: Context,
    source: ImportSource,
    name: str,
    *,
    agent: str,
    task: str,
    progress: Progress | None,
) -> ImportTally:
    """Take in the graph of one JSONL file, as knowledge that was written down in a task."""
    data = source_bytes(source, name)
    if isinstance(data, Problem):
        raise InvalidInput("nothing was imported", [data])
    found = read_memory(data)
    if not found.nodes:
        missing = Problem(name, "no_entity", "there is no entity in it", "an entity a line")
        raise InvalidInput("nothing was imported", found.problems or [missing])
    tally = ImportTally("memory", len(found.nodes) + len(found.edges), progress)
    for problem in found.problems:
        tally.refuse(problem, "line")
    task = task or _MEMORY_TASK
    earlier = EarlierImports(opened, task)
    earlier.make_sure("What the memory server of MCP knew", agent)
    work = _MemoryImport(KnowledgeWriter(opened, task, agent, earlier), tally)
    for node in found.nodes:
        told: list[object] = [node.summary, sorted(node.tags), dict(node.attributes)]
        work.take("entity", node.id, told, nodes=[node])
    for edge in found.edges:
        about = f"{edge.source} -> {edge.target}"
        work.take("relation", about, [dict(edge.attributes)], edges=[edge])
    return tally


class _MemoryImport:
    """Learns what is new, one node or edge at a time."""

    def __init__(self, learner: KnowledgeWriter, tally: ImportTally) -> None:
        self._learner = learner
        self._tally = tally

    def take(
        self,
        kind: str,
        about: str,
        told: list[object],
        *,
        nodes: Sequence[Node] = (),
        edges: Sequence[Edge] = (),
    ) -> None:
        """Record a node or an edge unless the source said the same of it the last time."""
        what = f"memory-{short_hash(kind, about)}"
        state = short_hash(canonical_bytes(told).decode())

        def write() -> EntryResult:
            return self._learner.take(what, state, about, nodes=nodes, edges=edges)

        self._tally.attempt(about, kind, write)
        self._tally.step()
