"""Values that operations return: handoff commands, receipts, checks, recalled entries; and views,
which have fields by name, are equal by content and have their JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from passdown.core.codec import as_document, short_repr
from passdown.core.text import first_few
from passdown.core.types import JsonObject
from passdown.core.values import NamedTuple
from passdown.errors import Problem


class HandoffCommand(NamedTuple):
    """The result of a handoff, recorded or only prepared: what the receiver is given.

    `state_delta` holds the actual changes, `context_summary` fits a prompt, `state_file` has the
    whole state. `held_by` names the human gates that keep the receiver from going on.

    A command that is only prepared has no digest; `prepared` is the handoff that it is of, and
    `hand_off(command)` records that.
    """

    task: str
    to_agent: str
    phase: str
    outcome: str
    version: int
    digest: str
    state_delta: dict[str, Any]
    context_summary: str
    state_file: str
    held_by: tuple[str, ...] = ()
    detail_score: int = 0
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()
    prepared: dict[str, Any] | None = None

    to_dict = as_document
    __repr__ = short_repr


class Receipt(NamedTuple):
    """The result of a smaller write: its version and its new items."""

    task: str
    version: int
    digest: str
    items: tuple[str, ...] = ()
    is_replay: bool = False
    warnings: tuple[Problem, ...] = ()

    to_dict = as_document
    __repr__ = short_repr


class Check(NamedTuple):
    """What a dry run finds: every problem and reason, how complete the handoff is, and the prepared
    command with what it would change; None where it would be refused.
    """

    problems: tuple[Problem, ...]
    detail_score: int
    handoff: dict[str, Any]
    command: HandoffCommand | None = None

    @property
    def ok(self) -> bool:
        """Whether the handoff would be recorded."""
        return all(problem.level != "error" for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        """The result as a plain JSON object."""
        return {
            "ok": self.ok,
            "detail_score": self.detail_score,
            "problems": [problem.to_dict() for problem in self.problems],
            "handoff": self.handoff,
            "command": self.command.to_dict() if self.command else None,
        }


class Recalled(NamedTuple):
    """One answer of a search.

    `address` opens with `show` (an item) or `graph` (knowledge, `node:ID`); `score` is 0 to 1;
    `passage` is the part of its text that fits the question; `stale` names cited files that have
    changed since, each with what became of it; `superseded_by` is the decision at the end of the
    chain that began with this one, and `holds` says whether that one holds; where the chain
    forked, `also_hold` are the others that do, the newest first.
    """

    address: str
    kind: str
    title: str
    passage: str
    score: float
    status: str
    agent: str
    at: str
    task: str
    version: int
    superseded_by: str = ""
    holds: bool = False
    stale: tuple[str, ...] = ()
    also_hold: tuple[str, ...] = ()

    to_dict = as_document
    __repr__ = short_repr

    @property
    def became(self) -> str:
        """What holds instead of a superseded decision, in words; empty for anything else."""
        if not self.superseded_by:
            return ""
        if not self.holds:
            return f"{self.superseded_by} took its place and doesn't hold either"
        if not self.also_hold:
            return f"{self.superseded_by} holds now"
        return f"forked: {first_few((self.superseded_by, *self.also_hold), 5)} hold now"


class View:
    """A frozen value over a JSON object; what an object leaves out has the field's default."""

    _defaults: ClassVar[Mapping[str, Any]] = {}
    _document: JsonObject

    def __init_subclass__(cls) -> None:
        # A default on the class would hide the field of every instance.
        named = {name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}
        for name in named:
            delattr(cls, name)
        cls._defaults = {**cls._defaults, **named}

    def __init__(self, document: JsonObject) -> None:
        object.__setattr__(self, "_document", document)

    @classmethod
    def from_dict(cls, document: JsonObject) -> Self:
        """The value of a JSON object."""
        return cls(document)

    def to_dict(self) -> JsonObject:
        """The value as a plain JSON object."""
        return dict(self._document)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in self._document:
                return self._document[name]
            if name in self._defaults:
                return self._defaults[name]
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} can't be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self._document == other._document

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[Self], tuple[JsonObject]]:
        return type(self), (self._document,)

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._document.items() if value not in ("", [], {})}
        fields = ", ".join(f"{name}={value!r}"[:60] for name, value in list(shown.items())[:6])
        return f"{type(self).__name__}({fields}{', ...' if len(shown) > 6 else ''})"


class TaskOverview(View):
    """A task in a list. `seq` is where the next page begins."""

    task: str
    title: str
    phase: str
    status: str
    holder: str
    version: int
    updated_at: str
    seq: int
    claimed_by: str = ""
    why: str = ""


class TaskDetails(TaskOverview):
    """One task: what it is, what it needs and what needs it, and its open items."""

    description: str = ""
    inputs: list[str]
    outputs: list[str]
    criteria: list[str]
    depends_on: list[str]
    time_limit_minutes: int | None = None
    metadata: JsonObject | None = None
    created_by: str
    created_at: str
    needs: list[str]
    needed_by: list[str]
    blocked_by: list[str]
    counts: dict[str, int]
    open: list[JsonObject]
    digest: str


class Gate(View):
    """A human gate (`kind` is human, `blocker` says why) or a quality gate (`result`).

    It `holds` while the receiver can't start: it waits, or was rejected since the last handoff.
    """

    task: str
    address: str
    status: str
    agent: str
    at: str
    version: int
    name: str
    kind: str = ""
    result: str = ""
    detail: str = ""
    blocker: str = ""
    severity: str = ""
    impact: str = ""
    suggested_resolution: str = ""
    blocking_tasks: Sequence[str] = ()
    requires_human: bool = False
    answered_by: str = ""
    answered_at: str = ""
    reason: str = ""
    holds: bool = False


class Attention(View):
    """What a person must act on, the most urgent first; `more` says which kinds were cut.

    An entry has kind, task, address, title, detail, agent, at, and `next`: the operations that
    settle it.
    """

    entries: list[JsonObject]
    more: list[str]


class LogEntry(View):
    """A record in the log."""

    seq: int
    task: str
    stream: str
    version: int
    at: str
    author: str
    kind: str
    key: str
    digest: str
    previous: str
    summary: str
    counts: dict[str, int]
    bytes: int
    trace_id: str = ""
    via: str = ""
    imported: JsonObject | None = None
    recovered: JsonObject | None = None


class Changes(View):
    """Log entries after a `seq`, oldest first, and the `last` one looked at."""

    last: int

    @property
    def changes(self) -> list[LogEntry]:
        """The log entries."""
        return [LogEntry(entry) for entry in self._document["changes"]]


class Item(View):
    """One item with the record it came from; further fields are those of its kind."""

    address: str
    status: str
    agent: str
    at: str
    version: int
    source: JsonObject

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class StateDiff(View):
    """What differs between two versions of a task."""

    task: str
    old: int
    new: int
    fields: JsonObject
    added: dict[str, list[JsonObject]]
    changed: dict[str, list[JsonObject]]
    removed: dict[str, list[JsonObject]]


class InboxEntry(View):
    """A handoff that waits for an agent; `held` while a gate holds it."""

    agent: str
    task: str
    position: int
    held: bool


class ArtifactStatus(View):
    """An artifact of a task; `now` says what became of the file: same, changed or missing."""

    address: str
    path: str
    type: str
    change: str = ""
    lines: str = ""
    note: str = ""
    sha256: str | None = None
    size_bytes: int | None = None
    status: str
    agent: str
    at: str
    version: int
    now: str = ""


class Delivery(View):
    """What an agent was given; further fields are those of its kind (briefed, switched, ...)."""

    seq: int
    task: str
    number: int
    at: str
    kind: str
    agent: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Explanation(View):
    """Whether and when an agent was given an item, and if not, why."""

    item: str
    agent: str
    kind: str
    title: str
    status: str
    recorded_in_version: int
    told: bool
    briefs: int
    times: list[JsonObject]
    reason: str
    displaced_by: Sequence[str] = ()


class NextStep(View):
    """An open next step; `after` has the addresses of the steps that come before it."""

    address: str
    task: str
    step: str
    priority: str
    depends_on: list[str]
    after: list[str]


class Journal(View):
    """Where things are, active blockers and gotchas; `more` says which lists were cut."""

    schema: str
    task: str | None
    context_map: list[JsonObject]
    active_blockers: list[JsonObject]
    gotchas: list[JsonObject]
    more: list[str]


class Audit(View):
    """What an audit found: counts of all findings, and the newest of each kind."""

    schema: str
    standing: dict[str, int]
    counts: dict[str, int]
    incomplete: list[str]
    duplicates: list[list[str]]
    stale: list[JsonObject]
    never_recalled: list[str]
    orphaned: list[str]
    forked: list[JsonObject]


class Diagnosis(View):
    """What is known of a workspace, and what is wrong with it."""

    ok: bool
    facts: JsonObject
    findings: list[JsonObject]


class SavedHeads(View, Mapping[str, Any]):
    """The heads of all streams at a time: position and digest of each; `verify` takes them."""

    schema: str
    at: str
    heads: dict[str, list[Any]]

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)


class RuleDomain(View):
    """A domain of rules: its layer, its file, and when the rules apply."""

    name: str
    layer: int
    layer_name: str
    file: str
    trigger: list[str]
    recall: list[str]
    exclude: list[str]
    bracket: list[str]
    count: int
    rules: list[str]


class RuleReport(View):
    """All domains of rules, and what is wrong with their files."""

    folder: str
    devmode: bool
    problems: list[JsonObject]

    @property
    def domains(self) -> list[RuleDomain]:
        """The domains, in the order of the manifest."""
        return [RuleDomain(domain) for domain in self._document["domains"]]
