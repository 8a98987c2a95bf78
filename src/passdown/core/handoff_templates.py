"""Templates, examples, tool schemas and models made from the declaration of a handoff."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, cast

from passdown.core import schema
from passdown.core.handoff import Handoff
from passdown.core.types import JsonObject

_NEEDED = "Needed when the outcome is partial, failed or blocked:"


def yaml_template() -> str:
    """A handoff to fill in: every field that has an example, commented out but for the outcome."""
    parts: list[str] = []
    for field in schema.fields_of(Handoff).values():
        lines = _example_lines(field)
        if not lines:
            continue
        if field.is_required:
            parts.append(f"{field.name}:{_choices(field)}")
            continue
        needed = [f"# {_NEEDED}"] if field.level == "by outcome" else []
        gap = [""] if schema.shape_of(field) else []
        parts.append("\n".join([*gap, *needed, *(f"# {line}" for line in lines)]))
    return "\n".join(parts) + "\n"


PROMPT_FIELDS: dict[str, tuple[str, ...]] = {
    "outcome": (),
    "summary": (),
    "evidence": (),
    "decisions": ("summary", "rationale"),
    "files_created": ("path", "purpose"),
    "files_modified": ("path", "lines", "change_type", "description"),
    "patterns_discovered": ("pattern", "location"),
    "gotchas": ("issue", "mitigation", "severity"),
    "facts": ("key", "value"),
    "dependencies_for_next": ("file", "reason"),
    "suggested_next_steps": ("step", "priority"),
    "open_questions": ("question", "blocking"),
    "blockers": ("blocker", "suggested_resolution", "blocking_tasks"),
}
"""What an agent that ends its turn is shown, and of entries the parts."""


def yaml_example(names: Mapping[str, Collection[str]] = PROMPT_FIELDS, *, task: str = "T-2") -> str:
    """A filled handoff of some fields, for prompts; `task` is one that it blocks."""
    lines: list[str] = []
    for name, parts in names.items():
        field = schema.fields_of(Handoff)[name]
        kind = schema.shape_of(field)
        if kind is None:
            lines.append(f"{name}: {_scalar(field.example)}{_choices(field)}")
            continue
        needed = "  # needed unless completed" if field.level == "by outcome" else ""
        inner = (schema.fields_of(kind)[part] for part in parts)
        pairs = [(part.name, _scalar(part.example).rstrip(".")) for part in inner]
        if name == "facts":  # in the form that takes fewest words
            pairs = [(pairs[0][1], pairs[1][1])]
        entry = ", ".join(f"{part}: {value}" for part, value in pairs).replace("[T-2]", f"[{task}]")
        lines += [f"{name}:{needed}", f"  - {{{entry}}}"]
    return "\n".join(lines) + "\n"


def _example_lines(field: schema.Field) -> list[str]:
    kind = schema.shape_of(field)
    if kind is None:
        return [] if field.example is None else [f"{field.name}: {_scalar(field.example)}"]
    shown = [part for part in schema.fields_of(kind).values() if part.example is not None]
    lines = [f"{part.name}: {_scalar(part.example)}{_choices(part)}" for part in shown]
    marked = [f"  {'-' if number == 0 else ' '} {line}" for number, line in enumerate(lines)]
    return [f"{field.name}:", *marked] if marked else []


def _choices(field: schema.Field) -> str:
    words = field.type.expected()
    return f"  # {words}" if words else ""


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(cast('list[str]', value))}]"
    return str(value)


def tool_schema(
    names: Mapping[str, Collection[str]],
    *,
    required: Collection[str] = ("task", "outcome"),
    renamed: Mapping[str, str] | None = None,
    is_short: bool = True,
) -> JsonObject:
    """The JSON Schema of what a model fills in: some fields, and of their entries some parts.

    Entries without parts are texts. `renamed` gives fields shorter names; with `is_short`,
    descriptions only say what the names don't.
    """
    own = renamed or {}
    properties = {
        own.get(name, name): _tool_field(schema.fields_of(Handoff)[name], parts, is_short=is_short)
        for name, parts in names.items()
    }
    return {"type": "object", "properties": properties, "required": list(required)}


def _tool_field(field: schema.Field, parts: Collection[str], *, is_short: bool) -> JsonObject:
    kind = schema.shape_of(field)
    if kind is None:
        found = tool_type(field.type)
    else:
        found: JsonObject = {"type": "array", "items": {"type": "string"}}
        if parts:
            inner = {name: schema.fields_of(kind)[name] for name in parts}
            found["items"] = {
                "type": "object",
                "properties": {
                    name: _tool_field(part, (), is_short=is_short) for name, part in inner.items()
                },
                "required": [name for name, part in inner.items() if part.is_required],
            }
    hint = field.hint if is_short else field.description
    return {**found, "description": hint} if hint else found


def tool_type(kind: schema.Type) -> JsonObject:
    """A type without limits and null, which only cost tokens."""
    if isinstance(kind, schema.Optional):
        return tool_type(kind.of)
    if isinstance(kind, schema.List):
        return {"type": "array", "items": tool_type(kind.of)}
    if isinstance(kind, schema.Choice):
        return {"type": "string", "enum": [word for word in kind.words if word]}
    return {"type": kind.schema({})["type"]}


@cache
def pydantic_model(shape: type[Any] = Handoff) -> Any:
    """A pydantic model with the fields of a declared shape; unknown fields are kept.

    It checks each field by its own rules; `Workspace.check_handoff` also knows the rules across
    fields. Needs pydantic.
    """
    from pydantic import ConfigDict, create_model
    from pydantic import Field as PydanticField

    fields: dict[str, Any] = {}
    for name, field in schema.fields_of(shape).items():
        default = ... if field.is_required else field.plain_default()
        described = PydanticField(default, description=field.description or None)
        kind = _annotation(field.type, allows_empty=not field.is_required)
        fields[name] = (kind | None if field.default is None else kind, described)
    config = ConfigDict(extra="allow", frozen=True, title=shape.__name__)
    return create_model(shape.__name__, __config__=config, __doc__=shape.__doc__, **fields)


def _annotation(kind: schema.Type, *, allows_empty: bool = False) -> Any:
    from pydantic import BeforeValidator

    if isinstance(kind, schema.Optional):
        return _annotation(kind.of, allows_empty=allows_empty) | None
    if isinstance(kind, schema.List):
        return list[_annotation(kind.of)]
    if isinstance(kind, schema.Part):
        return pydantic_model(kind.of)
    if isinstance(kind, schema.Map):
        return dict[str, Any]
    if isinstance(kind, schema.Choice):
        return Literal[kind.words]
    plain = (
        bool if isinstance(kind, schema.Truth) else int if isinstance(kind, schema.Number) else str
    )

    def check(value: Any) -> Any:
        checks = schema.Checks()
        read = "" if allows_empty and value == "" else kind.read(value, "", checks)
        for problem in checks.errors:
            raise ValueError(problem.line())
        return read

    return Annotated[plain, BeforeValidator(check)]
