"""The one declaration of a handoff, and of a task's state: fields, levels, rules and examples, as
frozen values.

Checks, JSON Schema, templates, command-line flags, tool schemas and the table in the documentation
follow from it. Field names are the same in Python, YAML and JSON; `stored` is the name of a field
in a record's body. Nothing here reads a disk, and a clock only for a decision or context that a
program makes without a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

from passdown.core import kinds
from passdown.core.results import HandoffCommand
from passdown.core.schema import (
    ADDRESS,
    AGENT,
    ANY_PHASE,
    ANY_PLACE,
    ANY_TEXT,
    COUNT,
    LINES,
    PATH,
    PHASE,
    PLACE,
    SHA256,
    TAG,
    TASK_ID,
    TEXT,
    TIME,
    TRUTH,
    VALUE,
    Checks,
    Choice,
    Flag,
    List,
    Map,
    Number,
    Optional,
    Part,
    Text,
    as_plain,
    check_depth,
    declare,
    fields_of,
    shape,
    value_of,
)
from passdown.core.text import child_path, text_problems
from passdown.core.times import utc_now
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, Problem


def _frozen(value: Any, depth: int = 0) -> Any:
    """The same value with every list as a tuple and every dict read-only, at any depth."""
    check_depth(depth)
    if isinstance(value, list | tuple):
        return tuple(_frozen(part, depth + 1) for part in cast("Sequence[Any]", value))
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return MappingProxyType({key: _frozen(part, depth + 1) for key, part in pairs})
    return value


class _Frozen:
    """A value whose lists and dicts can't be changed, whatever it was made from."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                object.__setattr__(self, name, _frozen(value))


def _no_metadata() -> Mapping[str, Any]:
    return MappingProxyType({})


@shape
class Decision(_Frozen):
    """What was chosen and why, over what; later superseded or reverted, never edited."""

    summary: str = declare(
        TEXT,
        "What was decided, in one sentence",
        aliases=("decision",),
        example="What was decided.",
        takes_text=True,
    )
    rationale: str = declare(TEXT, "Why", example="Why.", aliases=("why", "reason"))
    agent: str = declare(AGENT, "Who decided; the sender when left out", default="")
    at: datetime | None = declare(
        TIME,
        "When, ISO 8601 with a zone; now when left out",
        default=None,
        aliases=("timestamp",),
        made=utc_now,
    )
    alternatives: tuple[str, ...] = declare(
        List(TEXT), "What else was considered", default=(), example=["what else was considered"]
    )
    artifacts: tuple[str, ...] = declare(
        List(PLACE),
        "What the decision is about: files, or keys of memories",
        default=(),
        aliases=("related_artifacts",),
    )
    paths: tuple[str, ...] = declare(List(PATH), "Files that the decision governs", default=())
    tags: tuple[str, ...] = declare(List(TAG), "Tags: lowercase, hyphenated", default=())
    status: str = declare(Choice(*kinds.DECISION_STATUSES), default="accepted")
    supersedes: tuple[str, ...] = declare(
        List(ADDRESS), "Decisions that this one replaces", default=()
    )

    @property
    def timestamp(self) -> datetime | None:
        """Another name of `at`."""
        return self.at

    @property
    def related_artifacts(self) -> tuple[str, ...]:
        """Another name of `artifacts`."""
        return self.artifacts


@shape
class FileCreated:
    """A file that was made."""

    path: str = declare(
        PATH, "Path relative to the project root", example="src/login.py", takes_text=True
    )
    purpose: str = declare(
        TEXT, "What the file is for, in one sentence", example="What the file is for."
    )
    lines: str = declare(LINES, "N-M or all", default="all", example="all")


@shape
class FileModified:
    """A file that was changed."""

    path: str = declare(
        PATH, "Path relative to the project root", example="src/app.py", takes_text=True
    )
    lines: str = declare(LINES, "N-M or all", example="10-42")
    change_type: str = declare(Choice(*kinds.CHANGE_TYPES), example="modify")
    description: str = declare(TEXT, "What changed and why", example="What changed and why.")


@shape
class Artifact:
    """A reference to a file: path, type, content hash and size; never the content.

    `sha256` and `size_bytes` are taken from disk when the handoff is recorded; None where there is
    no such file any more.
    """

    path: str = declare(PATH, "Path relative to the project root", takes_text=True)
    type: str = declare(Choice(*kinds.ARTIFACT_TYPES, ""), default="", aliases=("artifact_type",))
    sha256: str | None = declare(Optional(SHA256), default=None)
    size_bytes: int | None = declare(Optional(COUNT), default=None)
    change: str = declare(
        Choice("created", *kinds.CHANGE_TYPES, ""), default="", aliases=("change_type",)
    )
    lines: str = declare(LINES, default="")
    note: str = declare(ANY_TEXT, default="", aliases=("purpose", "description"))


@shape
class Pattern(_Frozen):
    """A way of doing things that the next agent should keep to."""

    pattern: str = declare(
        TEXT,
        "The pattern in one sentence",
        example="A way of doing things.",
        takes_text=True,
    )
    location: str = declare(PLACE, "Where it is used or defined", example="Where it is used.")
    applies_to: tuple[str, ...] = declare(
        List(TAG), "Tags: lowercase, hyphenated", default=(), example=["lowercase-tags"]
    )
    id: str = declare(ANY_TEXT, "Made from the content when left out", default="")


@shape
class Gotcha:
    """Something that went wrong or would, and how to avoid it."""

    issue: str = declare(
        TEXT, "The gotcha in one sentence", example="What to watch out for.", takes_text=True
    )
    mitigation: str = declare(TEXT, "How to avoid or handle it", example="How to avoid it.")
    severity: str = declare(Choice(*kinds.LEVELS), example="medium")
    discovered_in: str = declare(
        ANY_PLACE, "Where or how it was found", default="", example="Where it was found."
    )
    id: str = declare(ANY_TEXT, "Made from the content when left out", default="")


@shape
class Reading:
    """A file that the next agent should read, and why."""

    file: str = declare(PATH, example="src/login.py", aliases=("path",), takes_text=True)
    reason: str = declare(TEXT, "Why it is needed", example="Why to read it.")


@shape
class Question:
    """Something unresolved; `blocking` when the next agent can't go on without an answer."""

    question: str = declare(TEXT, example="Something unresolved.", takes_text=True)
    context: str = declare(ANY_TEXT, "Why it matters", default="", example="Why it matters.")
    recommendation: str = declare(
        ANY_TEXT, "The suggested answer", default="", example="The suggested answer."
    )
    blocking: bool = declare(TRUTH, "Does this block the next agent?", default=False, example=False)


@shape
class NextStep(_Frozen):
    """What should happen next."""

    step: str = declare(TEXT, example="What should happen next.", takes_text=True)
    priority: str = declare(Choice(*kinds.LEVELS), default="medium", example="high")
    depends_on: tuple[str, ...] = declare(
        List(TEXT), "Files or components it depends on", default=(), example=["src/login.py"]
    )


@shape
class Blocker(_Frozen):
    """Something in the way. `requires_human` opens a gate that a person has to answer."""

    blocker: str = declare(TEXT, example="What is in the way.", aliases=("issue",), takes_text=True)
    impact: str = declare(ANY_TEXT, "What can't be done", default="", example="What can't be done.")
    suggested_resolution: str = declare(
        ANY_TEXT,
        "What would help; needed if failed",
        default="",
        aliases=("suggested_action",),
        example="What would help.",
        hint="needed if failed",
    )
    blocking_tasks: tuple[str, ...] = declare(
        List(TASK_ID),
        "Ids of tasks that have to wait; needed if blocked",
        default=(),
        example=["T-2"],
        hint="ids; needed if blocked",
        flag=Flag("--blocks", "TASK", "a task that waits for each --blocker"),
    )
    severity: str = declare(Choice(*kinds.SEVERITIES), default="blocker")
    requires_human: bool = declare(
        TRUTH,
        "Opens a gate that a person answers",
        default=False,
        hint="opens a gate",
        flag=Flag("--requires-human", "", "a person has to answer each --blocker: opens a gate"),
    )
    stopped: str = declare(
        Choice(*kinds.STOPS, ""), "What ran out; the next handoff closes the blocker", default=""
    )


_KEY = Text(partial(text_problems, max_length=100), lambda text: " ".join(text.split()))


@shape
class Fact:
    """A value that holds until another is given for its key. What is still unknown is `open` and
    needs no value; null alone withdraws the fact.
    """

    key: str = declare(
        _KEY, "What it is about, in a few words", example="port", aliases=("name",), takes_text=True
    )
    value: str | float | None = declare(
        Optional(VALUE),
        "Its value; null withdraws the fact",
        default=None,
        made=str,
        example=80,
        hint="null: no longer",
    )
    status: str = declare(Choice(*kinds.FACT_STATUSES, ""), default="", example="verified")
    source: str = declare(ANY_TEXT, "Where it is from", default="", example="config/app.toml")

    @staticmethod
    def from_text(text: str) -> JsonObject:
        """The fields that `key: value` means; `key :: value` for a key with a colon in it."""
        key, _, value = text.partition("::" if "::" in text else ":")
        found = {"key": key.strip(), "value": value.strip()}
        return found if found["value"] else {"key": text}

    @staticmethod
    def from_given(given: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The fields that `{key: value}` means, as YAML reads `- key: value`; null withdraws."""
        if len(given) == 1 and not given.keys() & fields_of(Fact).keys():
            ((key, value),) = given.items()
            given = {"key": key, "value": value}
        is_withdrawn = given.get("value", "") is None and not given.get("status")
        return {**given, "status": "withdrawn"} if is_withdrawn else given

    @staticmethod
    def check_together(fact: JsonObject, path: str, checks: Checks) -> None:
        """A fact that is neither open nor withdrawn has a value."""
        if fact["value"] is None and fact["status"] not in ("open", "withdrawn"):
            expected = "a text, a number, true or false; status: open for what is unknown"
            checks.add(child_path(path, "value"), "required", "is missing", expected)


@shape
class Precondition:
    """What the receiver has to check before it acts: a command that succeeds, a file that is as it
    was (or has this hash), or a question that a person answers. Nothing is run by itself.
    """

    command: str = declare(
        ANY_TEXT, "A command that has to succeed", default="", example="make test", takes_text=True
    )
    file: str = declare(PATH, "A file that has to be as it was", default="", aliases=("path",))
    sha256: str | None = declare(
        Optional(SHA256), "Its hash; taken from disk when left out", default=None
    )
    question: str = declare(ANY_TEXT, "A question to a person", default="")
    to: str = declare(AGENT, "The person who is asked", default="")
    shell: bool | None = declare(Optional(TRUTH), "Does the command need a shell?", default=None)
    note: str = declare(ANY_TEXT, "Why it matters", default="")

    @staticmethod
    def check_together(given: JsonObject, path: str, checks: Checks) -> None:
        """It says one thing to check; a hash is of a file, and a person is asked a question."""
        named = [name for name in ("command", "file", "question") if given[name]]
        if len(named) != 1:
            said = f"has {' and '.join(named)}" if named else "says nothing to check"
            checks.add(path, "one_of", said, "one of command, file, question")
            return
        for name, of in (("sha256", "file"), ("to", "question"), ("shell", "command")):
            if given[name] and named != [of]:
                checks.add(child_path(path, name), "not_here", f"belongs to a {of}", f"a {of}")


@shape
class GateResult:
    """How a quality gate ended: passed or failed."""

    name: str = declare(TEXT, aliases=("gate",))
    result: str = declare(Choice("passed", "failed"), aliases=("status",))
    detail: str = declare(ANY_TEXT, default="", aliases=("details",))


@shape
class Story:
    """The story that a task belongs to, for teams that work by stories."""

    id: str = declare(ANY_TEXT, default="", aliases=("story_id",))
    path: str = declare(ANY_PLACE, default="", aliases=("story_path",))
    status: str = declare(ANY_TEXT, default="", aliases=("story_status",))
    current_task: str = declare(ANY_TEXT, default="")
    branch: str = declare(ANY_TEXT, default="")


@shape
class Handoff(_Frozen):
    """One agent passes a task to another, with everything needed to go on."""

    task: str = declare(
        TASK_ID,
        "The task that is handed off",
        aliases=("task_id",),
        flag=Flag("--task", "TASK", "the task, where FILE names none"),
    )
    outcome: str = declare(
        Choice(*kinds.OUTCOMES),
        "How this step of the work ended",
        weight=4,
        example="completed",
        flag=Flag("--outcome", "", ""),
    )
    from_agent: str = declare(
        AGENT,
        "The sender; the task's holder when left out",
        default="",
        aliases=("from", "agent", "source", "source_agent"),
        flag=Flag("--from", "AGENT", "default: the holder"),
    )
    to_agent: str = declare(
        AGENT,
        "The receiver",
        default="",
        weight=1,
        aliases=("to", "target", "target_agent"),
        hint="the next agent",
        flag=Flag("--to", "AGENT", "the receiver"),
    )
    phase: str = declare(
        ANY_PHASE,
        "The phase that the task moves to; unchanged when left out, unless it is the last handoff",
        default="",
        hint="the task moves to",
        flag=Flag(
            "--phase",
            "PHASE",
            f"the phase that the task moves to: {', '.join(kinds.PHASES)}, or as in the settings",
        ),
    )
    summary: str = declare(
        ANY_TEXT,
        "A few sentences on the state of the work",
        default="",
        level="recommended",
        weight=2,
        example="The state of the work in a few sentences.",
        hint="state of the work",
        aliases=("context_summary",),
        flag=Flag("--summary", "TEXT", "the state of the work"),
    )
    files_created: tuple[FileCreated, ...] = declare(
        List(Part(FileCreated)), default=(), level="if files changed"
    )
    files_modified: tuple[FileModified, ...] = declare(
        List(Part(FileModified)), default=(), level="if files changed"
    )
    artifacts: tuple[Artifact, ...] = declare(
        List(Part(Artifact)),
        "Files merely referred to",
        default=(),
        aliases=("files",),
        hint="paths made or changed",
        flag=Flag("--file", "PATH", "an artifact", ("path",)),
    )
    decisions: tuple[Decision, ...] = declare(
        List(Part(Decision)),
        default=(),
        weight=1,
        flag=Flag(
            "--decision", "TEXT::WHY", "a decision, '::' and its reason", ("summary", "rationale")
        ),
    )
    patterns_discovered: tuple[Pattern, ...] = declare(
        List(Part(Pattern)),
        "What the next agent should keep to",
        default=(),
        level="recommended",
        weight=1,
        stored="patterns",
        aliases=("patterns",),
        flag=Flag(
            "--pattern",
            "TEXT::PLACE",
            "a way of doing things, '::' and where it is used",
            ("pattern", "location"),
        ),
    )
    gotchas: tuple[Gotcha, ...] = declare(
        List(Part(Gotcha)),
        "What the next agent should watch out for",
        default=(),
        level="recommended",
        weight=1,
        flag=Flag(
            "--gotcha",
            "TEXT::HOW",
            "something to watch out for, '::' and how to avoid it",
            ("issue", "mitigation"),
            also=(("severity", "medium"),),
        ),
    )
    facts: tuple[Fact, ...] = declare(
        List(Part(Fact)),
        "What is known, by key; the last value of a key holds",
        default=(),
        hint="key: value",
        flag=Flag("--fact", "KEY::VALUE", "a fact, '::' and its value"),
    )
    dependencies_for_next: tuple[Reading, ...] = declare(
        List(Part(Reading)),
        "Which files the next agent should read, and why",
        default=(),
        level="recommended",
        weight=2,
        stored="reading",
        aliases=("reading",),
        flag=Flag("--read", "PATH::WHY", "a file to read first, '::' and why", ("file", "reason")),
    )
    open_questions: tuple[Question, ...] = declare(
        List(Part(Question)),
        default=(),
        weight=1,
        stored="questions",
        aliases=("questions",),
        flag=Flag("--question", "TEXT", "something unresolved", ("question",)),
    )
    suggested_next_steps: tuple[NextStep, ...] = declare(
        List(Part(NextStep)),
        "What should happen next",
        default=(),
        level="recommended",
        weight=2,
        stored="next_steps",
        aliases=("next_steps",),
        hint="needed unless completed",
        flag=Flag("--next", "TEXT", "a step that comes next", ("step",)),
    )
    blockers: tuple[Blocker, ...] = declare(
        List(Part(Blocker)),
        "What is in the way; needed unless the outcome is completed",
        default=(),
        level="by outcome",
        hint="needed unless completed",
        flag=Flag(
            "--blocker",
            "TEXT::FIX",
            "what is in the way, '::' and what would help",
            ("blocker", "suggested_resolution"),
            needs_all=False,
        ),
    )
    stopped: str = declare(
        Choice(*kinds.STOPS, ""),
        "What ran out before the work was finished; with outcome partial, in place of a blocker",
        default="",
        hint="partial only: what ran out",
        flag=Flag("--stopped", "", "what ran out; with --outcome partial, in place of a blocker"),
    )
    preconditions: tuple[Precondition, ...] = declare(
        List(Part(Precondition)),
        "What the receiver has to check before it acts; run on request only",
        default=(),
        flag=Flag("--precondition", "COMMAND", "a command that has to succeed before work goes on"),
    )
    evidence: tuple[str, ...] = declare(
        List(TEXT, takes_one=True),
        "What shows that the work is done: a commit, a test's result, an output",
        default=(),
        example=["tests pass"],
        flag=Flag("--evidence", "TEXT", "what shows that the work is done"),
    )
    gates: tuple[GateResult, ...] = declare(
        List(Part(GateResult)), "Results of quality gates", default=(), aliases=("quality_gates",)
    )
    despite: str = declare(
        ANY_TEXT,
        "Why the task is completed over a failed gate, an open blocker, a blocking question or a "
        "task that it needs",
        default="",
        hint="why complete over what is open",
        flag=Flag("--despite", "TEXT", "why the task is completed over what is open"),
    )
    warnings: tuple[str, ...] = declare(
        List(TEXT),
        "Texts that stay with the task",
        default=(),
        flag=Flag("--warning", "TEXT", "a warning that stays with the task"),
    )
    resolves: tuple[str, ...] = declare(
        List(ADDRESS),
        "Open items that this step closed",
        default=(),
        hint="ids now closed: T-1#n2",
        flag=Flag("--resolves", "ITEM", "an open item that this step closed"),
    )
    memory_refs: tuple[str, ...] = declare(
        List(TEXT),
        "What the next agent should look up: keys of memories, ids of items",
        default=(),
        flag=Flag("--memory-ref", "KEY", "a memory or an item to look up"),
    )
    at: datetime | None = declare(
        TIME,
        "When the work was handed off, ISO 8601 with a zone; when it is recorded if left out",
        default=None,
        aliases=("timestamp",),
        flag=Flag("--time", "TIME", "when, ISO 8601 with a zone; default: now"),
    )
    story: Story | None = declare(Optional(Part(Story)), default=None)
    expect_version: int | None = declare(
        Optional(COUNT),
        "The version worked from; refused when the task has moved on",
        default=None,
        hint="refuse if it moved on",
        flag=Flag("--expect-version", "N", "fail unless the task is at version N"),
    )
    schema_version: str = declare(Choice(kinds.SCHEMA_VERSION), default=kinds.SCHEMA_VERSION)
    metadata: Mapping[str, Any] = declare(
        Map(), "Anything else, kept as it is", default_factory=_no_metadata
    )


@shape
class HandoffMetrics:
    """What a handoff took until it was written: milliseconds, bytes, entries of each kind."""

    duration_ms: int = declare(COUNT)
    bytes: int = declare(COUNT)
    counts: Mapping[str, int] = declare(Map(COUNT), default_factory=_no_metadata)


@shape
class TaskFields:
    """A task: what has to be done and how one knows that it is."""

    task: str = declare(TASK_ID)
    title: str = declare(TEXT)
    description: str = declare(ANY_TEXT, default="")
    inputs: tuple[str, ...] = declare(List(TEXT), default=())
    outputs: tuple[str, ...] = declare(List(TEXT), default=())
    criteria: tuple[str, ...] = declare(List(TEXT), "Testable criteria", default=())
    depends_on: tuple[str, ...] = declare(List(TASK_ID), default=())
    phase: str = declare(PHASE, "The phase that it begins in", default="planning")
    time_limit_minutes: int | None = declare(Optional(Number(1)), default=None)
    agent: str = declare(AGENT)


@shape
class StatusMark:
    """A new status for an item."""

    item: str = declare(ADDRESS)
    status: str = declare(TEXT)
    reason: str = declare(ANY_TEXT, default="")


@shape
class HandoffContext(_Frozen):
    """What travels with a handoff inside a program: who, to whom, which decisions, what to look up.

    `memory_refs` are addresses of items, each of which opens with `Workspace.show`, and keys of
    memories.
    """

    source: str = declare(TEXT, aliases=("source_agent",))
    target: str = declare(ANY_TEXT, aliases=("target_agent",))
    at: datetime = declare(TIME, default=None, aliases=("timestamp",), made=utc_now)
    decisions: tuple[Decision, ...] = declare(List(Part(Decision)), default=())
    memory_refs: tuple[str, ...] = declare(List(TEXT), default=())
    metadata: Mapping[str, Any] = declare(Map(), default_factory=_no_metadata)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks = Checks()
        TEXT.read(self.source, "source", checks)
        ANY_TEXT.read(self.target, "target", checks)
        TIME.read(as_plain(self.at), "at", checks)
        if checks.errors:
            raise InvalidInput("the context is refused", checks.errors)

    @property
    def source_agent(self) -> str:
        """Another name of `source`."""
        return self.source

    @property
    def target_agent(self) -> str:
        """Another name of `target`."""
        return self.target

    @property
    def timestamp(self) -> datetime:
        """Another name of `at`."""
        return self.at


@shape
class TaskState:
    """Everything that is known of a task at one version.

    `blockers`, `questions`, `next_steps`, `reading` and `preconditions` hold what is open, `facts`
    the last value of each key; `document` has every item with its address, status and source.
    """

    task_id: str = declare(TASK_ID)
    title: str = declare(TEXT)
    description: str = declare(ANY_TEXT)
    inputs: tuple[str, ...] = declare(List(TEXT))
    outputs: tuple[str, ...] = declare(List(TEXT))
    criteria: tuple[str, ...] = declare(List(TEXT))
    depends_on: tuple[str, ...] = declare(List(TASK_ID))
    phase: str = declare(PHASE)
    previous_phase: str | None = declare(Optional(PHASE))
    phase_started_at: datetime = declare(TIME)
    status: str = declare(Choice(*kinds.TASK_STATUSES))
    outcome: str | None = declare(Optional(Choice(*kinds.OUTCOMES)))
    context_summary: str = declare(ANY_TEXT)
    source_agent: str = declare(ANY_TEXT)
    target_agent: str = declare(ANY_TEXT)
    handoff_at: datetime | None = declare(Optional(TIME))
    version: int = declare(COUNT)
    digest: str = declare(SHA256)
    gates_passed: tuple[str, ...] = declare(List(TEXT))
    gates_failed: tuple[str, ...] = declare(List(TEXT))
    decisions: tuple[Decision, ...] = declare(List(Part(Decision)))
    artifacts: tuple[Artifact, ...] = declare(List(Part(Artifact)))
    patterns: tuple[Pattern, ...] = declare(List(Part(Pattern)))
    gotchas: tuple[Gotcha, ...] = declare(List(Part(Gotcha)))
    facts: tuple[Fact, ...] = declare(List(Part(Fact)))
    reading: tuple[Reading, ...] = declare(List(Part(Reading)))
    questions: tuple[Question, ...] = declare(List(Part(Question)))
    next_steps: tuple[NextStep, ...] = declare(List(Part(NextStep)))
    blockers: tuple[Blocker, ...] = declare(List(Part(Blocker)))
    preconditions: tuple[Precondition, ...] = declare(List(Part(Precondition)))
    warnings: tuple[str, ...] = declare(List(TEXT))
    document: dict[str, Any] = declare(Map(), is_compared=False)

    def to_dict(self) -> dict[str, Any]:
        """The state document."""
        return self.document

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> TaskState:
        """The value of a state document; refuses one of another schema."""
        given = document.get("schema")
        if given != kinds.STATE_SCHEMA:
            problem = Problem("schema", "unknown_schema", f"{given!r}", kinds.STATE_SCHEMA)
            raise InvalidInput("this is not a state document that this release knows", [problem])
        live = {kind.field: _live(document.get(kind.field, ())) for kind in kinds.KINDS.values()}
        live["facts"] = [
            {**fact, "status": fact["status"].replace("active", "")} for fact in live["facts"]
        ]
        stated = {"decisions": document["decisions"], "document": document}
        warnings = [warning["text"] for warning in live["warnings"]]
        return value_of(cls, {**document, **live, **stated, "warnings": warnings})


def _live(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        entry for entry in entries if entry["status"] in kinds.LIVE or entry["status"] == "recorded"
    ]


@runtime_checkable
class AgentHandoffProtocol(Protocol):
    """Prepares the handoff of a task, and gives the receiver its state. A workspace does both."""

    def prepare_handoff(
        self, task: str, to_agent: str, phase: str, **fields: Any
    ) -> HandoffCommand:
        """The command of a handoff by the task's holder, not recorded until it is handed off."""
        ...

    def receive_handoff(self, command: HandoffCommand) -> TaskState:
        """The full, verified state for the receiver of a command."""
        ...


def artifact_type(path: str) -> str:
    """Guess what a file is for from its name: test, doc, config or source."""
    parts = path.lower().split("/")
    name = parts[-1]
    stem, _, ending = name.rpartition(".")
    if "tests" in parts[:-1] or "test" in parts[:-1] or "__tests__" in parts[:-1]:
        return "test"
    if stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec", "_spec")):
        return "test"
    if ending in ("md", "rst", "txt", "adoc") or "docs" in parts[:-1]:
        return "doc"
    if ending in ("toml", "yaml", "yml", "json", "ini", "cfg", "conf", "env") or not stem:
        return "config"
    return "source"


_NOT_STORED = frozenset({"task", "files_created", "files_modified", "artifacts", "expect_version"})
"""Fields that a record's body doesn't have as they are given; all files become one list."""

CURRENT_LISTS = ("blockers", "suggested_next_steps", "dependencies_for_next")
"""Lists that, when a handoff gives them, are the current ones, empty or not: what they leave out is
closed. One that isn't given changes nothing.
"""

_RAN_OUT = {"time": "time", "context": "context", "budget": "budget", "turn": "turns"}


@cache
def _stored_fields() -> dict[str, str]:
    """The stored name of each field that a record's body has as it is given."""
    declared = fields_of(Handoff).values()
    return {field.name: field.stored for field in declared if field.name not in _NOT_STORED}


def all_artifacts(handoff: JsonObject) -> list[JsonObject]:
    """Everything that a checked handoff says of files, one artifact per path."""
    found: dict[str, JsonObject] = {}
    for made in handoff.get("files_created", ()):
        facts = {"change": "created", "lines": made["lines"], "note": made["purpose"]}
        found[made["path"]] = {"path": made["path"], **facts}
    for changed in handoff.get("files_modified", ()):
        facts = {"change": changed["change_type"], "note": changed["description"]}
        found[changed["path"]] = {"path": changed["path"], "lines": changed["lines"], **facts}
    for artifact in handoff.get("artifacts", ()):
        # The file lists say what changed; the artifact has type, hash and size.
        found[artifact["path"]] = {**artifact, **found.get(artifact["path"], {})}
        if artifact.get("note"):
            found[artifact["path"]]["note"] = artifact["note"]
    return [
        {**each, "type": each.get("type") or artifact_type(each["path"])} for each in found.values()
    ]


def handoff_body(handoff: JsonObject, artifacts: list[JsonObject]) -> JsonObject:
    """The body of a handoff's record, from its checked data and its measured artifacts."""
    names = _stored_fields()
    body = {names[name]: part for name, part in handoff.items() if name in names and part}
    body["lists"] = [names[name] for name in CURRENT_LISTS if name in handoff]
    if "stopped" in body:
        reason = body["stopped"]
        body["blockers"] = [
            *body.get("blockers", ()),
            {"blocker": f"Ran out of {_RAN_OUT[reason]}", "severity": "low", "stopped": reason},
        ]
    return {**body, "artifacts": artifacts} if artifacts else body


def handoff_from_body(task: str, body: JsonObject) -> JsonObject:
    """The handoff that a record's body holds, as plain data."""
    names = {stored: name for name, stored in _stored_fields().items()}
    found = {"task": task, **{names.get(name, name): part for name, part in body.items()}}
    listed = found.pop("lists", ())
    if "stopped" in found:
        found["blockers"] = found["blockers"][:-1]
        if not found["blockers"]:
            del found["blockers"]
    return {**{names[name]: [] for name in listed}, **found}
