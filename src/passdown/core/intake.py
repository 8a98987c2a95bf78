"""Read and check what comes in: a handoff in any accepted form, a task, a smaller entry.

Accepted are a `Handoff`, a `HandoffContext`, a dict, JSON, YAML, a task file whose `## Handoff`
section holds the YAML, and two neighbouring formats. Every problem is reported at once;
nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

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
from passdown.core.kinds import FILE_LISTS, STOPS
from passdown.core.results import HandoffCommand
from passdown.core.schema import (
    EMPTY,
    KEPT,
    MAX_ENTRIES,
    Checks,
    Part,
    aliases_of,
    as_plain,
    check,
    contradiction,
    fields_of,
    json_problems,
    json_schema,
    named_by_shape,
    size_problems,
    value_of,
)
from passdown.core.task_files import is_task_file_text, read_handoff_text
from passdown.core.text import excerpt
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem, limited_problems, raise_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.core.types import JsonObject

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
        for name, value in named_by_shape(Handoff, fields).items():
            known: Any = data.get(name)
            if value in EMPTY and (value is None or name in data or name not in CURRENT_LISTS):
                continue
            if known in EMPTY:
                data[name] = value
            elif isinstance(known, list) and isinstance(value, list | tuple):
                data[name] = [*cast("list[Any]", known), *cast("list[Any]", value)]
            elif (one := cast("object", known)) and str(one) != str(value):
                found.append(contradiction(name, one, value))
        return self._replace(data=data, contradictions=tuple(found))

    def as_written(self, problems: Iterable[Problem]) -> list[Problem]:
        """Problems with the field names that the writer used."""
        return renamed_problems(problems, self.names)


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
        [problem for given in (handoff, fields) for problem in size_problems(given)],
        next_step=NOTHING_CHANGED,
    )
    if handoff is None:
        handoff, fields = fields or {}, None
    if isinstance(handoff, GivenHandoff):
        return handoff.with_fields(fields or {})
    if isinstance(handoff, str | bytes):
        data, is_task_file = read_handoff_text(handoff), is_task_file_text(handoff)
    elif isinstance(handoff, Handoff | HandoffContext):
        data = as_plain(handoff)
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
        from passdown.core.handoff_formats import to_handoff_format

        data = to_handoff_format(data)
    own = named_by_shape(Handoff, data)
    aliases = aliases_of(Handoff)
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
    return GivenHandoff(named_by_shape(Handoff, command.prepared), prepared=hashes)


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
    """The outcome of a check: the handoff as it is recorded (None when it has errors), and every
    problem, up to as many as `errors.limited_problems` lists.
    """

    data: JsonObject | None
    problems: tuple[Problem, ...]

    @property
    def handoff(self) -> Handoff | None:
        """The handoff as a value."""
        return None if self.data is None else value_of(Handoff, self.data)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the handoff."""
        return tuple(p for p in self.problems if p.level == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that don't."""
        return tuple(p for p in self.problems if p.level == "warning")


def check_handoff(
    given: GivenHandoff | JsonObject, *, changed_files: Sequence[str] | None = None
) -> CheckedHandoff:
    """Check a handoff that was read, or plain data.

    `changed_files`, where the caller knows them, are what the file lists must account for.
    """
    data: object = given.data if isinstance(given, GivenHandoff) else given
    plain, checks = check(Handoff, data)
    checks.errors += given.contradictions if isinstance(given, GivenHandoff) else ()
    if checks.has_errors:
        rules = _rules_on_faulty(data, checks, changed_files)
        return CheckedHandoff(None, limited_problems((*checks.errors, *rules, *checks.unknown)))
    rules = broken_rules(plain, changed_files)
    recorded, extra = _recorded(plain)
    recorded |= {name: [] for name in CURRENT_LISTS if _is_given_empty(data, name)}
    rules += json_problems(extra, "metadata")
    problems = limited_problems((*checks.unknown, *rules, *recommendations(plain)))
    if any(problem.level == "error" for problem in problems):
        return CheckedHandoff(None, problems)
    metadata = as_plain(extra)
    return CheckedHandoff({**recorded, "metadata": metadata} if metadata else recorded, problems)


def _is_given_empty(data: object, name: str) -> bool:
    """Whether a list is given, and nothing is in it."""
    given: object = cast("Mapping[str, object]", data).get(name)
    return isinstance(given, list | tuple) and not given


def check_task(data: object) -> tuple[JsonObject, list[Problem]]:
    """Check a task; gives its fields (empty when there are errors) and every problem."""
    return checked_fields(TaskFields, data)


def check_entry(kind: str, data: object) -> tuple[JsonObject, list[Problem]]:
    """Check one decision, pattern, gotcha, fact, gate or mark."""
    given = cast("JsonObject", data) if isinstance(data, dict) else {}
    if kind == "fact" and "name" in given and "key" not in given:
        # A name alone lacks a value; only in a handoff's list is it the fact `name: VALUE`.
        given = {"key" if name == "name" else name: value for name, value in given.items()}
    return checked_fields(_ENTRIES[kind], given or cast("object", data))


def checked_fields(kind: type[Any], data: object) -> tuple[JsonObject, list[Problem]]:
    """Data as a declared shape has it (empty when it has errors), and every problem.

    Undeclared fields are under `metadata`.
    """
    if too_much := size_problems(data):
        return {}, too_much
    plain, checks = check(kind, data)
    fields = fields_of(kind)
    extra = {name: value for name, value in plain.items() if name not in fields}
    checks.errors += json_problems(extra, "") if extra else []
    problems = list(limited_problems(checks.problems()))
    if checks.has_errors:
        return {}, problems
    known = {name: value for name, value in plain.items() if name in fields}
    return ({**known, "metadata": as_plain(extra)} if extra else known), problems


def handoff_schema() -> JsonObject:
    """The JSON Schema of a handoff."""
    return json_schema(Handoff)


def task_schema() -> JsonObject:
    """The JSON Schema of a task."""
    return json_schema(TaskFields)


def as_error(problem: Problem) -> Problem:
    """A problem where nothing unknown is kept: each is an error, an unknown field too."""
    fix = "leave it out" if problem.fix == KEPT else problem.fix
    return problem._replace(level="error", fix=fix)


def _rules_on_faulty(
    data: object, checks: Checks, changed_files: Sequence[str] | None
) -> list[Problem]:
    """The rules across fields, also for input with faulty fields: all problems at once."""
    if not isinstance(data, dict):
        return []
    raw: JsonObject = {}
    for name, value in named_by_shape(Handoff, cast("JsonObject", data)).items():
        if isinstance(value, list):
            entries = cast("list[object]", value)
            entries = [] if len(entries) > MAX_ENTRIES else entries
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
    found = Part(Handoff).recorded(plain, "", extra)
    found.pop("metadata", None)
    return found, {**extra.pop("", {}), **plain["metadata"], **extra}


def _give_ids(entries: list[JsonObject], kind: type[Any], prefix: str) -> None:
    """Give ids to entries without one: made from the content, so the same text has the same id."""
    taken = {entry["id"] for entry in entries}
    numbers: dict[str, int] = {}
    for entry in entries:
        if not entry["id"]:
            content = {name: entry[name] for name in fields_of(kind)}
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
        expected = f"what is in the way; or what ran out, as stopped: {' | '.join(STOPS)}"
        found.append(_required("blockers", "outcome is partial", expected))
    elif outcome in ("failed", "blocked") and not handoff.get("blockers"):
        found.append(_required("blockers", f"outcome is {outcome}", "what is in the way"))
    if stopped and outcome != "partial":
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
    wanted = {"failed": "suggested_resolution", "blocked": "blocking_tasks"}.get(outcome)
    if wanted is None:
        return []
    return [
        _required(f"blockers[{index}].{wanted}", f"outcome is {outcome}", f"a {wanted} each")
        for index, blocker in enumerate(handoff.get("blockers") or ())
        if not blocker.get(wanted)
    ]


def _unlisted_files(
    handoff: Mapping[str, Any], changed_files: Sequence[str] | None
) -> list[Problem]:
    if not changed_files:
        return []
    named = [entry.get("path") for name in FILE_LISTS for entry in handoff.get(name) or ()]
    if not named:
        first = ", ".join(changed_files[:3]) + (" and more" if len(changed_files) > 3 else "")
        message = f"is missing, and {len(changed_files)} files changed ({excerpt(first, 120)})"
        return [Problem("files_modified", "required", message, "files_created or files_modified")]
    return [
        Problem("files_modified", "unlisted_file", f"{excerpt(path, 120)} changed", level="warning")
        for path in changed_files
        if path not in named
    ]


def _duplicate_paths(handoff: Mapping[str, Any]) -> list[Problem]:
    """A path that one list names twice: which entry holds can't be known."""
    found: list[Problem] = []
    for name in FILE_LISTS:
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


def recommendations(handoff: Mapping[str, Any]) -> list[Problem]:
    """Warnings for recommended fields that are missing."""
    return [
        Problem(name, "recommended", "is missing", _lower(field.description), level="warning")
        for name, field in fields_of(Handoff).items()
        if field.level == "recommended" and not handoff.get(name)
    ]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def detail_score(handoff: Mapping[str, Any]) -> int:
    """How much of the schema a valid handoff fills, 0 to 100, by the weights of its fields."""
    weights = {name: field.weight for name, field in fields_of(Handoff).items()}
    filled = sum(weight for name, weight in weights.items() if handoff.get(name))
    return round(100 * filled / sum(weights.values()))
