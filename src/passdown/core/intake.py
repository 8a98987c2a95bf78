"""Read and check what comes in: a handoff in any accepted form, a task, a smaller entry.

Accepted are a `Handoff`, a `HandoffContext`, a dict, JSON, YAML, a task file whose `## Handoff`
section holds the YAML, and two neighbouring formats. Every problem is reported at once;
nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from passdown.core import kinds, schema
from passdown.core.handoff import (
    CURRENT_LISTS,
    Decision,
    Fact,
    GateResult,
    Gotcha,
    Handoff,
    HandoffContext,
    Pattern,
    StatusMark,
    TaskFields,
)
from passdown.core.items import fingerprint
from passdown.core.results import HandoffCommand
from passdown.core.text import excerpt
from passdown.core.types import JsonObject
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem, limited_problems, raise_problems

_ENTRIES: dict[str, type[Any]] = {
    "decision": Decision,
    "pattern": Pattern,
    "gotcha": Gotcha,
    "fact": Fact,
    "gate": GateResult,
    "mark": StatusMark,
}


class GivenHandoff(NamedTuple):
    """A handoff that was read: plain data under the handoff's own names.

    `names` are the names that the writer used instead, by the handoff's own. A task file is a
    document: it is recorded once, whatever was recorded since. `contradictions` are fields that
    were given apart from it and say something else. `prepared`, of a prepared command, has the
    hashes that its files had then. `added_blockers` says that its blockers are new ones, and not
    the current list; `keeps_open` that it doesn't complete the task by naming no receiver.
    """

    data: JsonObject
    names: Mapping[str, str] = {}
    is_task_file: bool = False
    contradictions: tuple[Problem, ...] = ()
    prepared: Mapping[str, str | None] | None = None
    added_blockers: bool = False
    keeps_open: bool = False

    def with_fields(self, fields: Mapping[str, Any]) -> GivenHandoff:
        """The same with further fields: they fill what it leaves out and add to its lists."""
        data = dict(self.data)
        found = list(self.contradictions)
        for name, value in schema.named_by_shape(Handoff, fields).items():
            known: Any = data.get(name)
            if value in schema.EMPTY and (
                value is None or name in data or name not in CURRENT_LISTS
            ):
                continue
            if known in schema.EMPTY:
                data[name] = value
            elif isinstance(known, list) and isinstance(value, list | tuple):
                data[name] = [*cast("list[Any]", known), *cast("list[Any]", value)]
            elif (one := cast("object", known)) and str(one) != str(value):
                found.append(schema.contradiction(name, one, value))
        return self._replace(data=data, contradictions=tuple(found))


HandoffLike = (
    Handoff | HandoffContext | HandoffCommand | GivenHandoff | Mapping[str, Any] | str | bytes
)
"""A handoff, its fields, or its text: JSON, YAML or a task file; or a command that was prepared."""


def read_handoff(handoff: object, fields: Mapping[str, Any] | None = None) -> GivenHandoff:
    """Read a handoff in any accepted form; `fields` fill what it leaves out and add to its lists,
    or are the handoff where that is None.

    Raises InvalidInput for text that can't be read and for values of other types.
    """
    is_task_file = False
    raise_problems(
        "the handoff is refused",
        [problem for given in (handoff, fields) for problem in schema.size_problems(given)],
        next_step=NOTHING_CHANGED,
    )
    if handoff is None:
        handoff, fields = fields or {}, None
    if isinstance(handoff, GivenHandoff):
        return handoff.with_fields(fields or {})
    if isinstance(handoff, str | bytes):
        from passdown.core.task_files import read_handoff_text

        data, is_task_file = read_handoff_text(handoff)
    elif isinstance(handoff, Handoff | HandoffContext):
        data = schema.as_plain(handoff)
    elif isinstance(handoff, HandoffCommand):
        return _prepared_handoff(handoff).with_fields(fields or {})
    elif isinstance(handoff, Mapping):
        data = {**cast("Mapping[str, Any]", handoff)}
    else:
        given = type(handoff).__name__
        problem = Problem(
            "", "wrong_type", f"{given} given", "a Handoff, a HandoffContext, a dict or text"
        )
        raise InvalidInput("the handoff is refused", [problem], next_step=NOTHING_CHANGED)
    if data.keys() & {"state_delta", "command"}:
        # What a dry run gives has the command in it.
        return _prepared_handoff(read_command(data.get("command") or data)).with_fields(
            fields or {}
        )
    if _FOREIGN & data.keys():
        data = to_handoff_format(data)
    own = schema.named_by_shape(Handoff, data)
    aliases = schema.aliases_of(Handoff)
    names = {aliases[name]: name for name in data if name in aliases and aliases[name] not in data}
    return GivenHandoff(own, names, is_task_file).with_fields(fields or {})


def read_command(given: object) -> HandoffCommand:
    """A command, or the JSON object of one; raises InvalidInput for anything else."""
    if isinstance(given, HandoffCommand):
        return given
    from passdown.core.codec import decode

    try:
        return decode(HandoffCommand, given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"it is no command ({type(error).__name__}: {error})"
        problem = Problem("command", "wrong_type", message, "a HandoffCommand, or its JSON object")
        raise InvalidInput("the command is refused", [problem]) from error


def _prepared_handoff(command: HandoffCommand) -> GivenHandoff:
    """The handoff of a command that was prepared; refuses one that is recorded."""
    if command.prepared is None:
        message = f"it is recorded already, as version {command.version} of {command.task}"
        problem = Problem("prepared", "already_recorded", message, "a command that was prepared")
        raise InvalidInput("the handoff is refused", [problem], next_step=NOTHING_CHANGED)
    try:
        added = command.state_delta["add"].get("artifacts", ())
        hashes = {entry["path"]: entry.get("sha256") for entry in added}
    except (KeyError, TypeError, AttributeError) as error:
        message = "it doesn't say what the handoff changes"
        faulty = Problem("state_delta", "wrong_type", message, "what preparing it gave")
        raise InvalidInput("the command is refused", [faulty]) from error
    return GivenHandoff(schema.named_by_shape(Handoff, command.prepared), prepared=hashes)


_FOREIGN = {
    "handoff",
    "decisions_made",
    "blocking_issues",
    "task_title",
    "quality_gates_passed",
    "story_context",
    "next_action",
}
"""Fields by which data of a neighbouring format is recognised."""
NOTHING_CHANGED = "Nothing was changed. Fix these and hand off again."


def renamed_problems(problems: Iterable[Problem], names: Mapping[str, str]) -> list[Problem]:
    """Problems whose paths begin with other names for the same fields."""
    found: list[Problem] = []
    for problem in problems:
        head = re.match(r"\w*", problem.path)
        name = head[0] if head else ""
        rest = problem.path[len(name) :]
        found.append(problem._replace(path=names.get(name, name) + rest))
    return found


class CheckedHandoff(NamedTuple):
    """The result of a check: the handoff as recorded, None with errors, and its problems."""

    data: JsonObject | None
    problems: tuple[Problem, ...]

    @property
    def handoff(self) -> Handoff | None:
        """The handoff as a value."""
        return None if self.data is None else schema.value_of(Handoff, self.data)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the handoff."""
        return tuple(p for p in self.problems if p.level == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that don't."""
        return tuple(p for p in self.problems if p.level == "warning")


def check_handoff(
    given: GivenHandoff | JsonObject,
    *,
    changed_files: Sequence[str] | None = None,
    phases: Sequence[str] = (),
) -> CheckedHandoff:
    """Check a handoff, read or plain; its lists must account for `changed_files` if known, and its
    phase is one of `phases` if there are any.
    """
    if isinstance(given, GivenHandoff):
        data = given.data
        plain, checks = schema.check(Handoff, data, phases, is_named=True)
        checks.errors += given.contradictions
    else:
        data = given
        plain, checks = schema.check(Handoff, data, phases)
    if checks.has_errors:
        rules = _rules_on_faulty(data, checks, changed_files)
        return CheckedHandoff(None, limited_problems((*checks.errors, *rules, *checks.unknown)))
    rules = broken_rules(plain, changed_files)
    recorded, extra = _recorded(plain)
    recorded |= {name: [] for name in CURRENT_LISTS if data.get(name) in ([], ())}
    rules += schema.json_problems(extra, "metadata")
    problems = limited_problems((*checks.unknown, *rules, *recommendations(plain)))
    if any(problem.level == "error" for problem in problems):
        return CheckedHandoff(None, problems)
    metadata = schema.as_plain(extra)
    return CheckedHandoff({**recorded, "metadata": metadata} if metadata else recorded, problems)


def check_task(data: object, phases: Sequence[str] = ()) -> tuple[JsonObject, list[Problem]]:
    """Check a task; gives its fields (empty when there are errors) and every problem."""
    return checked_fields(TaskFields, data, phases)


def check_entry(kind: str, data: object) -> tuple[JsonObject, list[Problem]]:
    """Check one decision, pattern, gotcha, fact, gate or mark."""
    given = cast("JsonObject", data) if isinstance(data, dict) else {}
    if kind == "fact" and "name" in given and "key" not in given:
        # A name alone lacks a value; only in a handoff's list is it the fact `name: VALUE`.
        given = {"key" if name == "name" else name: value for name, value in given.items()}
    return checked_fields(_ENTRIES[kind], given or cast("object", data))


def checked_fields(
    kind: type[Any], data: object, phases: Sequence[str] = ()
) -> tuple[JsonObject, list[Problem]]:
    """Data as a shape has it, undeclared fields under `metadata`; {} with errors; all problems."""
    if too_much := schema.size_problems(data):
        return {}, too_much
    plain, checks = schema.check(kind, data, phases)
    fields = schema.fields_of(kind)
    extra = {name: value for name, value in plain.items() if name not in fields}
    checks.errors += schema.json_problems(extra, "") if extra else []
    problems = list(limited_problems(checks.problems()))
    if checks.has_errors:
        return {}, problems
    known = {name: value for name, value in plain.items() if name in fields}
    return ({**known, "metadata": schema.as_plain(extra)} if extra else known), problems


def handoff_schema() -> JsonObject:
    """The JSON Schema of a handoff."""
    return schema.json_schema(Handoff)


def as_error(problem: Problem) -> Problem:
    """A problem where nothing unknown is kept: each is an error, an unknown field too."""
    fix = "leave it out" if problem.fix == schema.KEPT else problem.fix
    return problem._replace(level="error", fix=fix)


def _rules_on_faulty(
    data: object, checks: schema.Checks, changed_files: Sequence[str] | None
) -> list[Problem]:
    """The rules across fields, also for input with faulty fields: all problems at once."""
    if not isinstance(data, dict):
        return []
    raw: JsonObject = {}
    for name, value in schema.named_by_shape(Handoff, cast("JsonObject", data)).items():
        if isinstance(value, list):
            entries = cast("list[object]", value)
            entries = [] if len(entries) > schema.MAX_ENTRIES else entries
            raw[str(name)] = [entry for entry in entries if isinstance(entry, dict)]
        elif isinstance(value, str) and name in ("outcome", "from_agent", "to_agent", "stopped"):
            raw[name] = value
    reported = {problem.path for problem in checks.errors}
    return [p for p in broken_rules(raw, changed_files) if p.path not in reported]


def _recorded(plain: JsonObject) -> tuple[JsonObject, JsonObject]:
    """A checked handoff as it is recorded, and its metadata, where undeclared fields are kept."""
    extra: JsonObject = {}
    _give_ids(plain["patterns_discovered"], Pattern, "pattern")
    _give_ids(plain["gotchas"], Gotcha, "gotcha")
    found = schema.Part(Handoff).recorded(plain, "", extra)
    found.pop("metadata", None)
    return found, {**extra.pop("", {}), **plain["metadata"], **extra}


def _give_ids(entries: list[JsonObject], kind: type[Any], prefix: str) -> None:
    """Give ids to entries without one: made from the content, so the same text has the same id."""
    taken = {entry["id"] for entry in entries}
    numbers: dict[str, int] = {}
    for entry in entries:
        if not entry["id"]:
            content = {name: entry[name] for name in schema.fields_of(kind)}
            base = identity = f"{prefix}-{fingerprint(content)[:8]}"
            while identity in taken:
                # Each number is tried once, however many entries say the same.
                numbers[base] = numbers.get(base, 1) + 1
                identity = f"{base}-{numbers[base]}"
            entry["id"] = identity
            taken.add(identity)


# -- rules across fields: what an outcome demands, what is recommended, how detailed it is


def broken_rules(handoff: Mapping[str, Any], changed_files: Sequence[str] | None) -> list[Problem]:
    """The rules that no single field shows. `changed_files` is None where nobody knows them."""
    outcome = handoff.get("outcome")
    found: list[Problem] = []
    stopped = handoff.get("stopped")
    if outcome == "partial" and not handoff.get("blockers") and not stopped:
        expected = f"what is in the way; or what ran out, as stopped: {' | '.join(kinds.STOPS)}"
        found.append(_required("blockers", "outcome is partial", expected))
    elif outcome in ("failed", "blocked") and not handoff.get("blockers"):
        found.append(_required("blockers", f"outcome is {outcome}", "what is in the way"))
    if stopped and outcome not in ("partial", None):
        message = f"{stopped} ran out, but outcome is {outcome}"
        fix = "outcome partial, or leave stopped out"
        found.append(Problem("stopped", "contradiction", message, "outcome: partial", fix))
    if outcome == "partial" and not handoff.get("suggested_next_steps"):
        found.append(_required("suggested_next_steps", "outcome is partial", "what comes next"))
    found += _blocker_details(handoff, str(outcome))
    found += _unlisted_files(handoff, changed_files)
    found += _duplicate_paths(handoff)
    if handoff.get("from_agent") and handoff.get("from_agent") == handoff.get("to_agent"):
        found.append(same_agent("is the sender"))
    return found


def same_agent(message: str) -> Problem:
    """A handoff whose sender is its receiver."""
    fix = "leave to_agent out, or name the receiver"
    return Problem("to_agent", "same_agent", message, "another agent", fix)


def _required(path: str, because: str, expected: str) -> Problem:
    return Problem(path, "required", f"is missing, and {because}", expected)


def _blocker_details(handoff: Mapping[str, Any], outcome: str) -> list[Problem]:
    wanted, expected = {
        "failed": ("suggested_resolution", "what would help"),
        "blocked": ("blocking_tasks", "ids of the tasks that wait, such as the task itself"),
    }.get(outcome, ("", ""))
    if not wanted:
        return []
    return [
        _required(f"blockers[{index}].{wanted}", f"outcome is {outcome}", expected)
        for index, blocker in enumerate(handoff.get("blockers") or ())
        if not blocker.get(wanted)
    ]


def _unlisted_files(
    handoff: Mapping[str, Any], changed_files: Sequence[str] | None
) -> list[Problem]:
    if not changed_files:
        return []
    named = [entry.get("path") for name in kinds.FILE_LISTS for entry in handoff.get(name) or ()]
    if not named:
        first = ", ".join(changed_files[:3]) + (" and more" if len(changed_files) > 3 else "")
        message = f"is missing, and files changed ({excerpt(first, 120)})"
        return [Problem("files_modified", "required", message, "files_created or files_modified")]
    return [
        Problem("files_modified", "unlisted_file", f"{excerpt(path, 120)} changed", level="warning")
        for path in changed_files
        if path not in named
    ]


def _duplicate_paths(handoff: Mapping[str, Any]) -> list[Problem]:
    """A path that one list names twice: which entry holds can't be known."""
    found: list[Problem] = []
    for name in kinds.FILE_LISTS:
        seen: set[str] = set()
        for index, entry in enumerate(handoff.get(name) or ()):
            path: Any = entry.get("path")
            if not isinstance(path, str):
                continue
            if path in seen:
                where, given = f"{name}[{index}].path", excerpt(path, 80)
                found.append(Problem(where, "duplicate_path", f"{given} is listed twice", "once"))
            seen.add(path)
    return found


@cache
def _recommended() -> list[Problem]:
    """A warning for each recommended field."""
    return [
        Problem(name, "recommended", "is missing", said[:1].lower() + said[1:], level="warning")
        for name, field in schema.fields_of(Handoff).items()
        if field.level == "recommended"
        for said in (field.description,)
    ]


def recommendations(handoff: Mapping[str, Any]) -> list[Problem]:
    """Warnings for recommended fields that are missing."""
    return [problem for problem in _recommended() if not handoff.get(problem.path)]


@cache
def _weights() -> dict[str, int]:
    return {name: each.weight for name, each in schema.fields_of(Handoff).items() if each.weight}


def detail_score(handoff: Mapping[str, Any]) -> int:
    """How much of the schema a valid handoff fills, 0 to 100, by the weights of its fields."""
    filled = sum(weight for name, weight in _weights().items() if handoff.get(name))
    return round(100 * filled / sum(_weights().values()))


# -- two neighbouring formats, read and written: state files and switch artifacts

ARTIFACT_VERSION = "1.0"

_STATE_MARKS = {"decisions_made", "blocking_issues", "task_title", "quality_gates_passed"}
_ARTIFACT_MARKS = {"story_context", "next_action"}
_SHA256 = re.compile(r"(sha256:)?[0-9a-f]{64}")


def to_handoff_format(data: JsonObject) -> JsonObject:
    """JsonObject data in the handoff's own shape, whichever of the three shapes it came in."""
    inner = data.get("handoff")
    if isinstance(inner, dict) and "from_agent" in inner:
        around = {name: value for name, value in data.items() if name != "handoff"}
        return to_handoff_format({**around, **cast("JsonObject", inner)})
    if _STATE_MARKS & data.keys():
        return _from_state_file(data)
    if _ARTIFACT_MARKS & data.keys():
        return _from_artifact(data)
    return data


def _from_state_file(data: JsonObject) -> JsonObject:
    kept = {k: v for k, v in data.items() if k not in _STATE_ONLY}
    handoff = {_STATE_NAMES.get(name, name): value for name, value in kept.items()}
    handoff["artifacts"] = _artifacts(data.get("artifacts", []))
    # Their parts have names of their own, which are aliases of a handoff's.
    handoff["decisions"] = data.get("decisions_made", [])
    handoff["blockers"] = data.get("blocking_issues", [])
    handoff["gates"] = _gates(data)
    _keep(handoff, "state_file", data, _STATE_FACTS)
    handoff.setdefault("outcome", "completed")
    version = data.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        handoff["expect_version"] = version - 1
    elif version is not None:
        handoff["expect_version"] = version
    return handoff


_STATE_NAMES = {
    "task_id": "task",
    "source_agent": "from_agent",
    "target_agent": "to_agent",
    "context_summary": "summary",
}
_STATE_FACTS = ("task_title", "previous_phase", "phase_started_at", "handoff_timestamp")
_STATE_ONLY = {
    *_STATE_FACTS,
    "decisions_made",
    "blocking_issues",
    "quality_gates_passed",
    "quality_gates_failed",
    "version",
    "artifacts",
}


def _keep(handoff: JsonObject, shape: str, data: JsonObject, names: tuple[str, ...]) -> None:
    """Put what a handoff has no field for under its metadata."""
    facts = {name: data[name] for name in names if data.get(name) not in (None, "")}
    metadata = handoff.get("metadata", {})
    if facts and isinstance(metadata, dict):
        handoff["metadata"] = {**cast("JsonObject", metadata), shape: facts}


def _gates(data: JsonObject) -> Any:
    """The results of both lists; one that is no list is passed on for the schema to refuse."""
    found: list[JsonObject] = []
    for result in ("passed", "failed"):
        names: object = data.get(f"quality_gates_{result}") or []
        if not isinstance(names, list):
            return names
        found += [{"name": name, "result": result} for name in cast("list[Any]", names)]
    return found


def _artifacts(given: object) -> Any:
    """Artifacts whose hash, if it is a SHA-256, has the handoff's name; any other isn't trusted."""
    if not isinstance(given, list):
        return given
    found: list[Any] = []
    for artifact in cast("list[Any]", given):
        if isinstance(artifact, dict) and "content_hash" in artifact:
            parts = dict(cast("JsonObject", artifact))
            odd = parts.pop("content_hash")
            is_hash = odd is None or (isinstance(odd, str) and _SHA256.fullmatch(odd))
            found.append({**parts, "sha256" if is_hash else "content_hash": odd})
        else:
            found.append(artifact)
    return found


def _from_artifact(data: JsonObject) -> JsonObject:
    given: object = data.get("story_context") or {}
    story = cast("JsonObject", given) if isinstance(given, dict) else {}
    dropped = {"story_context", "next_action", "version", "timestamp", "files_modified"}
    handoff = {k: v for k, v in data.items() if k not in dropped}
    handoff["story"] = given
    handoff.setdefault("task", story.get("story_id"))
    # An artifact lists the newest first, a handoff in the order of happening.
    reason, changed = {"rationale": kinds.NOT_STATED}, {"change": "modify"}
    handoff["decisions"] = _reversed(data.get("decisions", []), "summary", reason)
    handoff["artifacts"] = _reversed(data.get("files_modified", []), "path", changed)
    _keep(handoff, "switch_artifact", data, ("version", "timestamp"))
    handoff["blockers"] = data.get("blockers", [])
    if data.get("next_action"):
        handoff["suggested_next_steps"] = [{"step": data["next_action"], "priority": "high"}]
    handoff.setdefault("outcome", "partial" if handoff["blockers"] else "completed")
    return handoff


def _reversed(parts: object, text: str, defaults: JsonObject) -> Any:
    """Parts in reversed order, each with defaults; what is no list is for the check to refuse."""
    if not isinstance(parts, list):
        return parts
    entries = reversed(cast("list[Any]", parts))
    return [
        {**defaults, **(cast("JsonObject", e) if isinstance(e, dict) else {text: e})}
        for e in entries
    ]


def state_file(state: JsonObject) -> JsonObject:
    """A task's state document as a state file."""
    return {
        "task_id": state["task_id"],
        "task_title": state["title"],
        "phase": state["phase"],
        "previous_phase": state["previous_phase"],
        "phase_started_at": state["phase_started_at"],
        "artifacts": [_file_artifact(a) for a in state["artifacts"]],
        "context_summary": state["context_summary"],
        "decisions_made": [_file_decision(d) for d in state["decisions"]],
        "blocking_issues": [_file_blocker(b) for b in state["blockers"] if b["status"] == "open"],
        "warnings": [w["text"] for w in state["warnings"] if w["status"] == "active"],
        "quality_gates_passed": state["gates_passed"],
        "quality_gates_failed": state["gates_failed"],
        "source_agent": state["source_agent"],
        "target_agent": state["target_agent"],
        "handoff_timestamp": state["handoff_at"],
        "version": state["version"],
    }


def _file_artifact(artifact: JsonObject) -> JsonObject:
    return {
        "path": artifact["path"],
        "artifact_type": artifact["type"],
        "content_hash": artifact.get("sha256"),
        "size_bytes": artifact.get("size_bytes"),
    }


def _file_decision(decision: JsonObject) -> JsonObject:
    return {
        "decision": decision["summary"],
        "rationale": decision["rationale"],
        "timestamp": decision["at"],
        "agent": decision["agent"],
        "alternatives": decision.get("alternatives", []),
    }


def _file_blocker(blocker: JsonObject) -> JsonObject:
    return {
        "issue": blocker["blocker"],
        "severity": blocker["severity"],
        "suggested_action": blocker.get("suggested_resolution", ""),
        "requires_human": blocker.get("requires_human", False),
    }


def switch_artifact(state: JsonObject, state_path: str) -> JsonObject:
    """A task's state document as a switch artifact; what its limits cut is counted and named."""
    live = [d for d in state["decisions"] if d["status"] in ("accepted", "proposed")]
    reasons = ["" if d["rationale"] == kinds.NOT_STATED else f" ({d['rationale']})" for d in live]
    decisions = [f"{d['summary']}{why}" for d, why in zip(live, reasons, strict=True)][::-1]
    files = [a["path"] for a in reversed(state["artifacts"])]
    rank = ("blocker", "high", "medium", "low").index
    open_blockers = [b for b in state["blockers"] if b["status"] == "open"]
    blockers = [b["blocker"] for b in sorted(open_blockers, key=lambda b: rank(b["severity"]))]
    steps = [n["step"] for n in state["next_steps"] if n["status"] == "open"]
    stories: list[JsonObject] = [h["story"] for h in state["handoffs"] if "story" in h]
    story: JsonObject = stories[-1] if stories else {}
    limits = {
        "decisions": kinds.MAX_DECISIONS,
        "files_modified": kinds.MAX_FILES,
        "blockers": kinds.MAX_BLOCKERS,
    }
    lists = {"decisions": decisions, "files_modified": files, "blockers": blockers}
    cut = {name: len(lists[name]) - limits[name] for name in lists}
    return {
        "version": ARTIFACT_VERSION,
        "timestamp": state["handoff_at"] or state["updated_at"],
        "from_agent": state["source_agent"],
        "to_agent": state["target_agent"],
        "story_context": {
            "story_id": story.get("id") or state["task_id"],
            "story_path": story.get("path", ""),
            "story_status": story.get("status") or state["phase"],
            "current_task": story.get("current_task") or state["title"],
            "branch": story.get("branch", ""),
        },
        **{name: lists[name][: limits[name]] for name in lists},
        "next_action": steps[0] if steps else "",
        "omitted": {name: count for name, count in cut.items() if count > 0},
        "full_record": state_path,
    }
