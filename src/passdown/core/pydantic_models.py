"""Pydantic models of the declared shapes, for programs that want them. Needs pydantic."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from passdown.core.handoff import Handoff
from passdown.core.schema import Checks, Choice, List, Map, Number, Optional, Part, Truth, fields_of

if TYPE_CHECKING:
    from passdown.core.schema import Type


@cache
def pydantic_model(shape: type[Any] = Handoff) -> type[BaseModel]:
    """A pydantic model with the fields of a declared shape; unknown fields are kept.

    It checks each field by its own rules; `Workspace.check_handoff` also knows the rules across
    fields.
    """
    fields: dict[str, Any] = {}
    for name, field in fields_of(shape).items():
        default = ... if field.is_required else field.plain_default()
        described = Field(default, description=field.description or None)
        kind = _annotation(field.type, allows_empty=not field.is_required)
        fields[name] = (kind | None if field.default is None else kind, described)
    config = ConfigDict(extra="allow", frozen=True, title=shape.__name__)
    return create_model(shape.__name__, __config__=config, __doc__=shape.__doc__, **fields)


def _annotation(kind: Type, *, allows_empty: bool = False) -> Any:
    if isinstance(kind, Optional):
        return _annotation(kind.of, allows_empty=allows_empty) | None
    if isinstance(kind, List):
        return list[_annotation(kind.of)]
    if isinstance(kind, Part):
        return pydantic_model(kind.of)
    if isinstance(kind, Map):
        return dict[str, Any]
    if isinstance(kind, Choice):
        return Literal[kind.words]
    plain = bool if isinstance(kind, Truth) else int if isinstance(kind, Number) else str
    return Annotated[plain, BeforeValidator(_checked_by(kind, allows_empty))]


def _checked_by(kind: Type, allows_empty: bool) -> Any:
    def check(value: Any) -> Any:
        checks = Checks()
        read = "" if allows_empty and value == "" else kind.read(value, "", checks)
        for problem in checks.errors:
            raise ValueError(problem.line())
        return read

    return check
