"""Check plain data against the schema and the rules; report every problem at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from passdown.core import handoff_schema as schema
from passdown.core.arguments import Suggestions
from passdown.core.handle_files import state_problems, state_schema
from passdown.core.handoff import (
    Artifact,
    Blocker,
    Decision,
    FileCreated,
    FileModified,
    GateResult,
    Gotcha,
    Handoff,
    NextStep,
    Pattern,
    Question,
    Reading,
    Story,
)
from passdown.core.items import fingerprint
from passdown.core.text import child_path, excerpt
from passdown.core.times import parse_time, stamp
from passdown.errors import Problem, limited_problems

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pydantic_core import ErrorDetails


Plain = dict[str, Any]

# Field, weight in the completeness score, and what a missing one means for the next agent.
RECOMMENDED = (
    ("summary", 2, "a few sentences on the state of the work"),
    ("patterns_discovered", 1, "what the next agent should keep to"),
    ("gotchas", 1, "what the next agent should watch out for"),
    ("dependencies_for_next", 2, "which files the next agent should read, and why"),
    ("suggested_next_steps", 2, "what should happen next"),
)
OPTIONAL = (("decisions", 1), ("open_questions", 1), ("to_agent", 1))
REQUIRED_WEIGHT = 4


def broken_rules(handoff: Mapping[str, Any], changed_files: Sequence[str] | None) -> list[Problem]:
    """The rules that no single field shows. `changed_files` is None where nobody knows them."""
    outcome = handoff.get("outcome")
    found: list[Problem] = []
    if outcome in ("partial", "failed", "blocked") and not handoff.get("blockers"):
        found.append(_required("blockers", f"outcome is {outcome}", "what is in the way"))
    if outcome == "partial" and not handoff.get("suggested_next_steps"):
        found.append(_required("suggested_next_steps", "outcome is partial", "what comes next"))
    found += _blocker_details(handoff, str(outcome))
    found += _file_lists(handoff, changed_files)
    found += _twice(handoff)
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


def _file_lists(handoff: Mapping[str, Any], changed_files: Sequence[str] | None) -> list[Problem]:
    if not changed_files:
        return []
    lists = ("files_created", "files_modified", "artifacts")
    named = {entry.get("path") for name in lists for entry in handoff.get(name) or ()}
    if not named:
        first = ", ".join(changed_files[:3]) + (" and more" if len(changed_files) > 3 else "")
        message = f"is missing, and {len(changed_files)} files changed ({excerpt(first, 120)})"
        return [Problem("files_modified", "required", message, "files_created or files_modified")]
    return [
        Problem("files_modified", "unlisted_file", f"{excerpt(path, 120)} changed", level="warning")
        for path in changed_files
        if path not in named
    ]


def _twice(handoff: Mapping[str, Any]) -> list[Problem]:
    """A path that one list names twice: which entry holds can't be known."""
    found: list[Problem] = []
    for name in ("files_created", "files_modified", "artifacts"):
        seen: set[object] = set()
        for index, entry in enumerate(handoff.get(name) or ()):
            path = entry.get("path")
            if path is not None and path in seen:
                where, given = f"{name}[{index}].path", excerpt(str(path), 80)
                found.append(Problem(where, "duplicate_path", f"{given} is listed twice", "once"))
            seen.add(path)
    return found


def recommendations(handoff: Mapping[str, Any]) -> list[Problem]:
    """Warnings for recommended fields that are missing."""
    return [
        Problem(name, "recommended", "is missing", why, level="warning")
        for name, _, why in RECOMMENDED
        if not handoff.get(name)
    ]


def completeness(handoff: Mapping[str, Any]) -> int:
    """How much of the schema a valid handoff fills, 0 to 100."""
    weights = [(name, weight) for name, weight, _ in RECOMMENDED] + list(OPTIONAL)
    total = REQUIRED_WEIGHT + sum(weight for _, weight in weights)
    filled = sum(weight for name, weight in weights if handoff.get(name))
    return round(100 * (REQUIRED_WEIGHT + filled) / total)


_CODES = {
    "missing": "required",
    "literal_error": "invalid_choice",
    "bool_parsing": "wrong_type",
    "bool_type": "wrong_type",
    "int_parsing": "wrong_type",
    "int_type": "wrong_type",
    "int_from_float": "wrong_type",
    "list_type": "wrong_type",
    "dict_type": "wrong_type",
    "model_type": "wrong_type",
    "model_attributes_type": "wrong_type",
    "string_type": "wrong_type",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "string_pattern_mismatch": "invalid_format",
}

_PARTS: dict[str, type[Any]] = {
    "files_created": FileCreated,
    "files_modified": FileModified,
    "artifacts": Artifact,
    "patterns_discovered": Pattern,
    "gotchas": Gotcha,
    "dependencies_for_next": Reading,
    "open_questions": Question,
    "suggested_next_steps": NextStep,
    "blockers": Blocker,
    "gates": GateResult,
}

_ENTRIES: dict[str, type[BaseModel]] = {
    "decision": schema.DecisionInput,
    "pattern": schema.PatternInput,
    "gotcha": schema.GotchaInput,
    "gate": schema.GateInput,
    "mark": schema.MarkInput,
}


_OF_KEY = "[key]"
"""How a place ends that means the key of a mapping, and not what stands under it."""


_KEPT = "it is kept under metadata"


class CheckedHandoff(NamedTuple):
    """The outcome of a check: the handoff (None when it has errors), and every problem, up to as
    many as `errors.listed` lists.
    """

    handoff: Handoff | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stop the handoff."""
        return tuple(p for p in self.problems if p.level == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that don't."""
        return tuple(p for p in self.problems if p.level == "warning")


def check_handoff(data: object, *, changed_files: Sequence[str] | None = None) -> CheckedHandoff:
    """Check a handoff given as plain data.

    `changed_files`, where the caller knows them, are what the file lists must account for.
    """
    suggestions = Suggestions()
    model, problems = _validated(schema.HandoffInput, data, suggestions)
    if model is None:
        rules = _rules_on_raw(data, problems, changed_files)
        unknown = _unknown_names(data, schema.HandoffInput, suggestions)
        return CheckedHandoff(None, limited_problems((*problems, *rules, *unknown)))
    plain = model.model_dump()
    problems += _unknown_fields(model, "", suggestions)
    _stamp_times(plain["decisions"])
    problems += broken_rules(plain, changed_files)
    problems += recommendations(plain)
    if any(problem.level == "error" for problem in problems):
        return CheckedHandoff(None, limited_problems(problems))
    return CheckedHandoff(_value(plain, model), limited_problems(problems))


def check_task(data: object) -> tuple[dict[str, Any], list[Problem]]:
    """Check a task; gives its fields (empty when there are errors) and every problem."""
    return checked_fields(schema.TaskInput, data)


def check_entry(kind: str, data: object) -> tuple[dict[str, Any], list[Problem]]:
    """Check one decision, pattern, gotcha, gate or mark."""
    plain, problems = checked_fields(_ENTRIES[kind], data)
    if kind == "decision" and plain:
        _stamp_times([plain])
    return ({} if any(p.level == "error" for p in problems) else plain), problems


def handoff_schema() -> dict[str, Any]:
    """The JSON Schema of a handoff."""
    return schema.HandoffInput.model_json_schema()


def task_schema() -> dict[str, Any]:
    """The JSON Schema of a task."""
    return schema.TaskInput.model_json_schema()


def checked_fields(model: type[BaseModel], data: object) -> tuple[dict[str, Any], list[Problem]]:
    """Data as one of the schema's models has it (empty when it has errors), and every problem."""
    suggestions = Suggestions()
    checked, problems = _validated(model, data, suggestions)
    if checked is None:
        return {}, list(limited_problems([*problems, *_unknown_names(data, model, suggestions)]))
    problems = list(limited_problems([*problems, *_unknown_fields(checked, "", suggestions)]))
    known = {name: value for name, value in checked.model_dump().items() if name in _names(model)}
    if checked.model_extra:
        known["metadata"] = checked.model_extra
    return known, problems


def _validated(
    model: type[BaseModel], data: object, suggestions: Suggestions
) -> tuple[Any, list[Problem]]:
    if not isinstance(data, dict):
        found = f"{type(data).__name__} given"
        return None, [Problem("", "wrong_type", found, "an object with the fields of the schema")]
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = error.errors(include_url=False)
        return None, [_problem(details, model, suggestions) for details in found]


def _problem(details: ErrorDetails, model: type[BaseModel], suggestions: Suggestions) -> Problem:
    path = ""
    for part in details["loc"]:
        path = path if part == _OF_KEY else child_path(path, part)
    context = details.get("ctx", {})
    code = _CODES.get(details["type"], details["type"])
    if "max_length" in context:
        code = "too_many"  # a list; texts that are too long are refused by a rule of ours
    given = details.get("input")
    message = details["msg"][:1].lower() + details["msg"][1:]
    expected, fix = str(context.get("expected", "")), str(context.get("fix", ""))
    if code == "required":
        message = "is missing"
        expected = _choices(model, details["loc"]) or f"a value for {details['loc'][-1]}"
    elif code == "invalid_choice":
        message = f"{excerpt(str(given))!r} is not one of the choices"
        choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
        expected = " | ".join(choice for choice in choices if choice)
        fix = suggestions.of(str(given).lower(), choices, 0.75)
    return Problem(path, code, message, expected, fix)


def _choices(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """The words that the field at a place may be; empty where it may be anything."""
    found: Any = model
    for name in (part for part in location if isinstance(part, str)):
        inner = next((part for part in _inside(found) if _is_model(part)), None)
        if inner is None or name not in inner.model_fields:
            return ""
        found = inner.model_fields[name].annotation
    words = get_args(found) if get_origin(found) is Literal else ()
    return " | ".join(str(word) for word in words if word)


def _inside(kind: Any) -> list[Any]:
    """A type and those that it is made of."""
    return [kind, *(part for each in get_args(kind) for part in _inside(each))]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _names(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


def as_error(problem: Problem) -> Problem:
    """A problem as it counts where nothing unknown is kept: each is an error, and a field that
    means nothing is a slip.
    """
    if problem.code != "unknown_field":
        return problem._replace(level="error")
    is_close = problem.fix != _KEPT
    return problem._replace(level="error", fix=problem.fix if is_close else "leave it out")


def _unknown(path: str, name: str, known: Collection[str], suggestions: Suggestions) -> Problem:
    close = suggestions.of(name, known)
    fix = f"did you mean {close}?" if close else _KEPT
    where = child_path(path, name)
    return Problem(where, "unknown_field", "is not in the schema", "", fix, "warning")


def _unknown_names(
    data: object, model: type[BaseModel], suggestions: Suggestions, path: str = ""
) -> list[Problem]:
    """Unknown fields of faulty input, at its top and in its entries: a slip is often the cause."""
    if not isinstance(data, dict):
        return []
    given = {str(name): value for name, value in cast("dict[object, object]", data).items()}
    names = _names(model)
    found = [_unknown(path, name, names, suggestions) for name in given if name not in names]
    for name, field in model.model_fields.items():
        inner = next((part for part in _inside(field.annotation) if _is_model(part)), None)
        if inner is None or name not in given:
            continue
        where, value = child_path(path, name), given[name]
        entries = [(where, value)] if inner is field.annotation else _entries(where, value)
        for place, entry in entries:
            found += _unknown_names(entry, inner, suggestions, place)
    return found


def _entries(path: str, value: object) -> list[tuple[str, Any]]:
    """The entries of a list or a mapping and where they are; none of anything else."""
    if isinstance(value, list):
        entries: Any = enumerate(cast("list[Any]", value))
    elif isinstance(value, dict):
        entries = cast("dict[Any, Any]", value).items()
    else:
        return []
    return [(child_path(path, at), entry) for at, entry in entries]


def _unknown_fields(model: BaseModel, path: str, suggestions: Suggestions) -> list[Problem]:
    """A warning for every field that the schema doesn't know: kept, but perhaps a slip."""
    names = _names(type(model))
    found = [_unknown(path, name, names, suggestions) for name in model.model_extra or {}]
    for name in type(model).model_fields:
        value: Any = getattr(model, name)
        # What was left out, or is a text or a number, has no fields of its own.
        if type(value) is str or not value:
            continue
        where = child_path(path, name)
        for place, part in [(where, value), *_entries(where, value)]:
            if isinstance(part, BaseModel):
                found += _unknown_fields(part, place, suggestions)
    return found


def _stamp_times(decisions: list[dict[str, Any]]) -> None:
    """Bring the times of decisions into their stored form."""
    for decision in decisions:
        if decision["at"]:
            decision["at"] = stamp(parse_time(decision["at"]))


_TEXTS_IN_RULES = ("outcome", "from_agent", "to_agent")


def _rules_on_raw(
    data: object, problems: list[Problem], changed_files: Sequence[str] | None
) -> list[Problem]:
    """The rules across fields, also for input with faulty fields: all problems at once."""
    if not isinstance(data, dict):
        return []
    raw: dict[str, Any] = {}
    for name, value in cast("dict[object, object]", data).items():
        if isinstance(value, list):
            entries = cast("list[object]", value)
            raw[str(name)] = [entry for entry in entries if isinstance(entry, dict)]
        elif isinstance(value, str) and name in _TEXTS_IN_RULES:
            raw[str(name)] = value
    reported = {problem.path for problem in problems}
    return [p for p in broken_rules(raw, changed_files) if p.path not in reported]


def _value(plain: dict[str, Any], model: BaseModel) -> Handoff:
    known = {name: value for name, value in plain.items() if name in _names(type(model))}
    metadata = {**(model.model_extra or {}), **known.pop("metadata")}
    for name, part in _PARTS.items():
        entries: list[dict[str, Any]] = known[name]
        known[name] = tuple(
            _part(part, entry, f"{name}[{i}]", metadata) for i, entry in enumerate(entries)
        )
    known["patterns_discovered"] = tuple(_with_ids(known["patterns_discovered"], "pattern"))
    known["gotchas"] = tuple(_with_ids(known["gotchas"], "gotcha"))
    decisions: list[dict[str, Any]] = known["decisions"]
    known["decisions"] = tuple(
        _decision(entry, f"decisions[{i}]", metadata) for i, entry in enumerate(decisions)
    )
    story = known["story"]
    known["story"] = _part(Story, story, "story", metadata) if story else None
    for name in ("warnings", "resolves"):
        known[name] = tuple(known[name])
    return Handoff(**known, metadata=metadata)


def _part(kind: type[Any], entry: Mapping[str, Any], path: str, metadata: dict[str, Any]) -> Any:
    """One part as its value; fields that it doesn't have go to the metadata, none is lost."""
    fields = kind.__dataclass_fields__
    known = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in entry.items()
        if name in fields
    }
    extra = {name: value for name, value in entry.items() if name not in fields}
    if extra:
        metadata[path] = extra
    return kind(**known)


def _decision(entry: dict[str, Any], path: str, metadata: dict[str, Any]) -> Decision:
    at = parse_time(entry["at"]) if entry["at"] else None
    return _part(Decision, {**entry, "at": at}, path, metadata)


def _with_ids(entries: tuple[Any, ...], prefix: str) -> list[Any]:
    """Give ids to entries without one: made from the content, so the same text has the same id."""
    from dataclasses import asdict, replace

    taken = {entry.id for entry in entries}
    numbers: dict[str, int] = {}
    result: list[Any] = []
    for entry in entries:
        identity = entry.id
        if not identity:
            plain = {
                name: list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
                for name, value in asdict(entry).items()
            }
            base = identity = f"{prefix}-{fingerprint(plain)[:8]}"
            while identity in taken:
                # Each number is tried once, however many entries say the same.
                numbers[base] = numbers.get(base, 1) + 1
                identity = f"{base}-{numbers[base]}"
        taken.add(identity)
        result.append(replace(entry, id=identity))
    return result


__all__ = [
    "CheckedHandoff",
    "as_error",
    "check_entry",
    "check_handoff",
    "check_task",
    "handoff_schema",
    "state_problems",
    "state_schema",
    "task_schema",
]
