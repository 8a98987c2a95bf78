"""Declared shapes: fields, types and limits in one place; checks and JSON Schema follow from them.

A shape is a frozen dataclass whose fields are made with `declare`. `check` holds plain data to it
and reports every problem at once; `json_schema` publishes it. None of this needs a value, so the
dataclass is made for the first one: most commands make none, and compiling them takes time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from datetime import datetime
from functools import cache, cached_property, partial, wraps
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

from passdown.core.kinds import PHASES, parse_address
from passdown.core.names import (
    PHASE_FORM,
    agent_problems,
    id_problems,
    line_range_problems,
    normal_path,
    path_problems,
    phase_problems,
    place_problems,
    tag_problems,
)
from passdown.core.record import MAX_CANONICAL_DEPTH, MAX_INTEGER, canonical_bytes
from passdown.core.text import child_path, excerpt, text_problems
from passdown.core.times import parse_time, stamp
from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from inspect import Signature

    from passdown.core.arguments import Suggestions
    from passdown.core.types import JsonObject

Rule = Callable[[object, str], list[Problem]]
Shape = TypeVar("Shape")

MAX_ENTRIES = 10_000
MAX_UNKNOWN = 10_000
"""How many fields that nobody declared one object may have."""
MAX_VALUES = 200_000
"""How many values what is given may have in all, at any depth."""
MAX_CHARACTERS = 4 * 1_048_576
"""How long all its texts may be together: a record holds no more bytes."""
MAX_NAME = 200
"""How long the name of such a field may be."""
_TOO_DEEP = "nested too deeply, or contains itself"
KEPT = "it is kept under metadata"
_NO_NUMBER = "a boolean where a number belongs"

EMPTY: tuple[object, ...] = (None, "", [], {})
"""What counts as left out."""
_UNSET: Any = object()

REQUIRED: Any = _UNSET


class Flag(NamedTuple):
    """How the command line takes a field, or an entry's `fields` with `::`; `also` is added."""

    option: str
    metavar: str
    help: str
    fields: tuple[str, ...] = ()
    needs_all: bool = True
    also: tuple[tuple[str, str], ...] = ()


class Field(NamedTuple):
    """One declared field; `default` is `REQUIRED` where there is none.

    `level` says how much a reader needs it, `weight` how much it adds to the detail score.
    `stored` is its name in a record, `aliases` are other names that are accepted. `example` is
    what templates show; a field without one isn't in them. `factory` makes what a value made in
    Python has where it is left out, and `is_made` says that data has not. Two values are equal
    whatever they have in a field that isn't `is_compared`.
    """

    type: Type
    description: str = ""
    default: Any = REQUIRED
    name: str = ""
    level: str = ""
    weight: int = 0
    stored: str = ""
    aliases: tuple[str, ...] = ()
    example: Any = None
    hint: str = ""
    flag: Flag | None = None
    takes_text: bool = False
    is_compared: bool = True
    is_made: bool = False
    factory: Callable[[], Any] | None = None

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED

    def plain_default(self) -> Any:
        """Its value in plain data where it is left out."""
        default = cast("object", self.default)
        if default is None or type(default) is str:
            return default
        if _is_shape(type(default)):
            declared = fields_of(cast("type[Any]", type(self.default)))
            return {name: field.plain_default() for name, field in declared.items()}
        if isinstance(default, tuple):
            return list(cast("tuple[Any, ...]", default))
        return {} if isinstance(self.default, Mapping) else self.default


def declare(
    type: Type,
    description: str = "",
    *,
    default: Any = REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    made: Callable[[], Any] | None = None,
    level: str = "",
    **more: Any,
) -> Any:
    """Declare a field of a shape; see `Field`. `made` gives what a value made in Python has."""
    value = default if default_factory is None else default_factory()
    level = level or ("required" if value is REQUIRED else "optional")
    factory = made or default_factory
    made_up = {"level": level, "is_made": made is not None, "factory": factory}
    return Field(type, description, value, **made_up, **more)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(declare,))
def shape(cls: type[Shape]) -> type[Shape]:
    """Make a class with declared fields a frozen value, which takes their aliases too."""
    kind: Any = cls
    specs: list[tuple[str, Field]] = [(name, vars(cls)[name]) for name in cls.__annotations__]
    own = {name: each._replace(name=name, stored=each.stored or name) for name, each in specs}
    kind.__declared__ = {**getattr(cls, "__declared__", {}), **own}
    for name, _ in specs:
        delattr(cls, name)  # until it is made, no default is there that would be the field itself
    kind.__dataclass_fields__ = _FieldsOnDemand()
    kind.__signature__ = _SignatureOnDemand()
    kind.__new__ = _first_instance
    return cls


def tuple_shape(cls: type[Shape]) -> type[Shape]:
    """Make a named tuple whose fields are declared a shape: a value that needs no dataclass."""
    kind: Any = cls
    specs: dict[str, Field] = kind._field_defaults
    kind.__declared__ = {
        name: each._replace(name=name, stored=each.stored or name) for name, each in specs.items()
    }
    defaults = {name: each.default for name, each in specs.items() if not each.is_required}
    kind._field_defaults = defaults
    kind.__new__.__defaults__ = tuple(defaults.values())
    return cls


class _FieldsOnDemand:
    """The fields of a shape as a dataclass; makes it one when they are first asked for."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        _make_dataclass(owner)
        return owner.__dataclass_fields__


class _SignatureOnDemand:
    """What `inspect.signature` gives for a shape."""

    def __get__(self, instance: object, owner: Any) -> Signature:
        from inspect import signature

        _make_dataclass(owner)
        found = signature(owner.__init__)
        return found.replace(parameters=list(found.parameters.values())[1:])


def _first_instance(cls: type[Any], *_: object, **__: object) -> Any:
    _make_dataclass(cls)
    return object.__new__(cls)


def _next_instance(cls: type[Any], *_: object, **__: object) -> Any:
    return object.__new__(cls)


_making = RLock()


def _make_dataclass(cls: type[Any]) -> None:
    """Make a shape, or the one that a class is of, the dataclass that it says it is."""
    import dataclasses

    with _making:
        kind: Any = next(each for each in cls.__mro__ if "__declared__" in vars(each))
        if not isinstance(vars(kind)["__dataclass_fields__"], _FieldsOnDemand):
            return  # another thread was first
        del kind.__dataclass_fields__
        for name in kind.__annotations__:
            field = fields_of(kind)[name]
            shown: JsonObject = {"compare": field.is_compared, "repr": field.is_compared}
            if field.factory:
                shown["default_factory"] = field.factory
            elif not field.is_required:
                shown["default"] = field.default
            setattr(kind, name, dataclasses.field(**shown))
        dataclasses.dataclass(frozen=True, kw_only=True)(kind)
        if aliases_of(kind):
            _take_aliases(kind)
        kind.__new__ = _next_instance  # one that was replaced can't be taken away again


def _take_aliases(kind: Any) -> None:
    made, others = kind.__init__, aliases_of(kind)

    @wraps(made)
    def __init__(self: Any, **values: Any) -> None:
        problems: list[Problem] = []
        for name in sorted(values.keys() & others.keys()):
            own, value = others[name], values.pop(name)
            if values.setdefault(own, value) != value:
                found = contradiction(own, values[own], value)
                problems.append(found._replace(fix=f"leave out {own} or {name}"))
        if problems:
            raise InvalidInput(f"the {kind.__name__} is refused", problems)
        made(self, **values)

    kind.__init__ = __init__


def _is_shape(kind: object) -> bool:
    return "__declared__" in vars(kind)


def fields_of(kind: type[Any]) -> dict[str, Field]:
    """The declared fields of a shape, by name."""
    return kind.__declared__


@cache
def _made_fields(kind: type[Any]) -> dict[str, Any]:
    """What data has where it leaves out fields that values made in Python have."""
    return {name: field.default for name, field in fields_of(kind).items() if field.is_made}


@cache
def aliases_of(kind: type[Any]) -> dict[str, str]:
    """Other names of a shape's fields, each with the field's own."""
    declared = fields_of(kind).values()
    return {alias: field.name for field in declared for alias in field.aliases}


class Checks:
    """What one check finds: errors, and fields that nobody declared.

    `phases` are those of the workspace; without them, any name may be one.
    """

    def __init__(self, phases: Sequence[str] = ()) -> None:
        self.phases = phases
        self.errors: list[Problem] = []
        self.unknown: list[Problem] = []

    @cached_property
    def suggestions(self) -> Suggestions:
        """The known words that are nearest to those given."""
        from passdown.core.arguments import Suggestions

        return Suggestions()

    def add(self, path: str, code: str, message: str, expected: str = "", fix: str = "") -> None:
        """Note an error."""
        self.errors.append(Problem(path, code, message, expected, fix))

    @property
    def has_errors(self) -> bool:
        """Whether anything is wrong; a field that nobody declared is, where it is misspelled."""
        return bool(self.errors) or any(each.level == "error" for each in self.unknown)

    def problems(self) -> list[Problem]:
        """Everything that was found, errors first."""
        return [*self.errors, *self.unknown]


class Type:
    """A kind of value: reads plain data, and says what it is in JSON Schema."""

    def read(self, value: Any, path: str, checks: Checks) -> Any:
        """The value in its plain form; what is wrong with it goes to `checks`."""
        return self.check(self.named(value), path, checks)

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Like `read`, for a value whose fields have their declared names already."""
        raise NotImplementedError

    def named(self, value: Any) -> Any:
        """Plain data under the names of its shapes, not checked."""
        return value

    def value(self, plain: Any) -> Any:
        """The Python value of plain data."""
        return plain

    def recorded(self, plain: Any, path: str, extra: JsonObject) -> Any:
        """Checked data as it is recorded; `extra` collects undeclared fields by path."""
        return plain

    def schema(self, definitions: JsonObject) -> JsonObject:
        """The type in JSON Schema; shapes go to `definitions`."""
        raise NotImplementedError

    def expected(self) -> str:
        """The words that it may be; empty where it may be anything."""
        return ""


class Text(Type):
    """Text under a rule; `form` gives the one spelling of what the rule accepts."""

    def __init__(self, rule: Rule, form: Callable[[str], str] | None = None) -> None:
        self._rule = rule
        self._form = form

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check the text by its rule."""
        problems = self._rule(value, path)
        if problems:
            checks.errors.append(problems[0])
            return value
        return self._form(value) if self._form else value

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A string; what its rule says can't be written in JSON Schema."""
        return {"type": "string"}


class Value(Text):
    """A value of any scalar type, kept as text: a number and a truth as JSON writes them."""

    def __init__(self) -> None:
        super().__init__(text_problems)

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """The text of the value."""
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        return super().check(value, path, checks)

    def schema(self, definitions: JsonObject) -> JsonObject:
        """Any scalar; null where it may be left out is said by its field."""
        return {"type": ["string", "number", "boolean"]}


class Time(Text):
    """A time with a zone, in its stored form."""

    def __init__(self) -> None:
        super().__init__(_time_problems, lambda text: stamp(parse_time(text)))

    def value(self, plain: Any) -> Any:
        """The aware time."""
        return parse_time(plain) if plain else None


class Pattern(Type):
    """Text that a regular expression matches as a whole."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check the text against the pattern."""
        if not isinstance(value, str):
            checks.add(path, "wrong_type", f"{_type_name(value)} given", "text")
        elif not re.fullmatch(self._pattern, value):
            message = f"{excerpt(value)!r} has another form"
            checks.add(path, "invalid_format", message, self._pattern)
        return value

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A string with its pattern."""
        return {"type": "string", "pattern": f"^{self._pattern}$"}


class Choice(Type):
    """One of a few words; the empty one, where it is allowed, isn't listed in messages."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check that it is one of the words."""
        if not isinstance(value, str) or value not in self.words:
            given = str(value)
            fix = checks.suggestions.of(given.lower(), self.words, 0.75)
            message = f"{excerpt(given)!r} is not one of the choices"
            checks.add(path, "invalid_choice", message, self.expected(), fix)
        return value

    def schema(self, definitions: JsonObject) -> JsonObject:
        """An enumeration."""
        if len(self.words) == 1:
            return {"type": "string", "const": self.words[0]}
        return {"type": "string", "enum": list(self.words)}

    def expected(self) -> str:
        """The words, parted by bars."""
        return " | ".join(word for word in self.words if word)


class Phase(Text):
    """The name of a phase: one of the workspace's, where the check knows them."""

    def __init__(self, *, is_needed: bool = True) -> None:
        super().__init__(phase_problems)
        self._is_needed = is_needed

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check that it is a phase."""
        if value == "" and not self._is_needed:
            return value
        if checks.phases:
            return Choice(*checks.phases).check(value, path, checks)
        return super().check(value, path, checks)

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A string with its form: a schema is published for every workspace."""
        form = PHASE_FORM if self._is_needed else f"({PHASE_FORM})?"
        return {"type": "string", "pattern": f"^{form}$"}

    def expected(self) -> str:
        """The default phases."""
        return " | ".join(PHASES)


class Number(Type):
    """A number within limits; whole unless `is_float`. Text that spells one is taken for it."""

    def __init__(self, least: float, most: float = MAX_INTEGER, *, is_float: bool = False) -> None:
        self._least = least
        self._most = most
        self._is_float = is_float

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check that it is a number within the limits."""
        number = self._number(value)
        if number is None:
            expected = "a number" if self._is_float else "a whole number"
            message = f"{_type_name(value)} given"
            if isinstance(value, bool | str):
                is_text = isinstance(value, str)
                message = f"{excerpt(value)!r} is no number" if is_text else _NO_NUMBER
            checks.add(path, "wrong_type", message, expected)
            return value
        is_enough = number > 0 if self._is_float and not self._least else number >= self._least
        if not (is_enough and number <= self._most):  # not a number is neither
            expected = f"{self._least:,} to {self._most:,}"
            checks.add(path, "out_of_range", f"{excerpt(str(value))} given", expected)
        return number

    def _number(self, value: Any) -> int | float | None:
        if isinstance(value, bool):
            return None
        if isinstance(value, str):
            pattern = r"\s*[+-]?[0-9]{1,30}(\.[0-9]{0,30})?\s*"
            if not value.isascii() or not re.fullmatch(pattern, value):
                return None
            value = float(value) if "." in value else int(value)
        if not isinstance(value, int | float):
            return None
        if self._is_float:
            return float(value)
        is_whole = isinstance(value, int) or value.is_integer()
        return int(value) if is_whole else None

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A number with its limits."""
        if not self._is_float:
            return {"type": "integer", "minimum": self._least, "maximum": self._most}
        least = "minimum" if self._least else "exclusiveMinimum"
        return {"type": "number", least: self._least, "maximum": self._most}


class Truth(Type):
    """True or false, or a word that YAML and people write for them."""

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check that it means true or false."""
        given = value.lower() if isinstance(value, str) else value
        found = _TRUTHS.get(given) if isinstance(given, str | int | float) else None
        if found is None:
            message = f"{excerpt(str(value))!r} is neither"
            checks.add(path, "wrong_type", message, "true or false")
        return found

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A boolean."""
        return {"type": "boolean"}


_TRUTHS: dict[object, bool] = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on", 1), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off", 0), False),
}


class Optional(Type):
    """Another type, or null."""

    def __init__(self, of: Type) -> None:
        self.of = of

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check what isn't null."""
        return None if value is None else self.of.check(value, path, checks)

    def named(self, value: Any) -> Any:
        """The other type's."""
        return self.of.named(value)

    def value(self, plain: Any) -> Any:
        """The value of what isn't null."""
        return None if plain is None else self.of.value(plain)

    def recorded(self, plain: Any, path: str, extra: JsonObject) -> Any:
        """The other type's, of what isn't null."""
        return None if plain is None else self.of.recorded(plain, path, extra)

    def schema(self, definitions: JsonObject) -> JsonObject:
        """Either of both."""
        return {"anyOf": [self.of.schema(definitions), {"type": "null"}]}


class List(Type):
    """Several of another type; with `takes_one`, a text alone is a list of itself."""

    def __init__(
        self, of: Type, *, least: int = 0, most: int = MAX_ENTRIES, takes_one: bool = False
    ) -> None:
        self.of = of
        self._least = least
        self._most = most
        self._takes_one = takes_one

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check each entry, at its place."""
        if value is None:
            return []
        if isinstance(value, str) and self._takes_one:
            value = [value]
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | Mapping):
            checks.add(path, "wrong_type", f"{_type_name(cast('object', value))} given", "a list")
            return []
        entries = list(islice(cast("Iterable[Any]", value), self._most + 1))
        if len(entries) > self._most:
            number = f"{len(value):,}" if isinstance(value, Sized) else f"more than {self._most:,}"
            message, expected = f"{number} entries", f"at most {self._most:,}"
            checks.add(path, "too_many", message, expected)
            return []
        if len(entries) < self._least:
            checks.add(path, "too_short", f"{len(entries)} entries", f"at least {self._least}")
        # `named` takes no other iterable apart.
        read = self.of.check if isinstance(value, list | tuple) else self.of.read
        return [read(part, f"{path}[{i}]", checks) for i, part in enumerate(entries)]

    def named(self, value: Any) -> Any:
        """The same list with each entry under the names of its shape."""
        # What is too long is refused anyway: no work is done for it.
        entries = cast("list[Any]", value if isinstance(value, list | tuple) else [])
        if not entries or len(entries) > self._most:
            return cast("Any", value)
        return [self.of.named(entry) for entry in entries]

    def value(self, plain: Any) -> Any:
        """The values of its entries."""
        return tuple(self.of.value(part) for part in plain)

    def recorded(self, plain: Any, path: str, extra: JsonObject) -> Any:
        """Each entry as it is recorded."""
        return [self.of.recorded(part, f"{path}[{i}]", extra) for i, part in enumerate(plain)]

    def schema(self, definitions: JsonObject) -> JsonObject:
        """An array."""
        found: JsonObject = {"type": "array", "items": self.of.schema(definitions)}
        if self._least:
            found["minItems"] = self._least
        return {**found, "maxItems": self._most}


class Map(Type):
    """An object with any keys, each held to a rule, and values of a type (None: anything)."""

    def __init__(
        self, of: Type | None = None, *, key: Type | None = None, least: int = 0, most: int = 0
    ) -> None:
        self.of = of
        self._key = key
        self._least = least
        self._most = most

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check each key and each value."""
        if not isinstance(value, Mapping):
            checks.add(path, "wrong_type", f"{_type_name(value)} given", "an object")
            return {}
        found: JsonObject = {}
        for name, part in cast("Mapping[Any, Any]", value).items():
            within = child_path(path, name)
            if problem := _key_problem(name, within):
                checks.errors.append(problem)
                continue
            if self._key is not None:
                self._key.check(name, within, checks)
            found[name] = part if self.of is None else self.of.read(part, within, checks)
        if self.of is None:
            checks.errors += json_problems(found, path)
        if len(found) < self._least or (self._most and len(found) > self._most):
            expected = f"{self._least} to {self._most}"
            code = "too_many" if self._most and len(found) > self._most else "too_short"
            checks.add(path, code, f"{len(found):,} entries", expected)
        return found

    def value(self, plain: Any) -> Any:
        """The values of its entries."""
        given = cast("JsonObject", plain)
        return {name: self.of.value(part) for name, part in given.items()} if self.of else given

    def schema(self, definitions: JsonObject) -> JsonObject:
        """An object whose properties aren't named."""
        inner: Any = True if self.of is None else self.of.schema(definitions)
        found: JsonObject = {"type": "object", "additionalProperties": inner}
        if self._least:
            found["minProperties"] = self._least
        return {**found, "maxProperties": self._most} if self._most else found


class Part(Type):
    """An object of a declared shape. Fields that nobody declared are kept and reported."""

    def __init__(self, of: type[Any]) -> None:
        self.of = of

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check each field; what is left out has its default in the result."""
        if not isinstance(value, dict):
            checks.add(path, "wrong_type", f"{_type_name(value)} given", "an object")
            return {}
        given = cast("dict[Any, Any]", value)
        fields, required, defaults = _plan_of(self.of)
        found = {name: make() if make else default for name, default, make in defaults}
        for name, field in fields.items():
            if name in given or name in required:
                _check_field(field, given, path, checks, found)
        if rule := getattr(self.of, "check_together", None):
            rule(found, path, checks)
        unknown = [name for name in given if name not in fields]
        if len(unknown) > MAX_UNKNOWN:
            message, expected = f"{len(unknown):,} unknown fields", f"at most {MAX_UNKNOWN}"
            checks.add(path, "too_many", message, expected)
            return found
        for name in unknown:
            found[name] = given[name]
            _report_unknown(self.of, name, given, path, checks)
        return found

    def named(self, value: Any) -> Any:
        """The same object under the shape's own names. An alias that says something else than the
        name, or than another alias, stays as it is, for `read` to refuse. A text alone is the
        shape's main field, and a declared value the same as its fields. A shape may take further
        forms by `from_given`.
        """
        fields, aliases = fields_of(self.of), aliases_of(self.of)
        if isinstance(value, str):
            main = next((name for name, field in fields.items() if field.takes_text), None)
            from_text = getattr(self.of, "from_text", None)
            return from_text(value) if from_text else {main: value} if main else value
        value = as_plain(value) if _is_shape(cast("object", type(value))) else value
        if not isinstance(value, Mapping):
            return value
        if from_given := getattr(self.of, "from_given", None):
            value = from_given(value)
        given = cast("Mapping[Any, Any]", value)
        found: dict[Any, Any] = {}
        # The names themselves first: an alias counts where the name is left out.
        is_alias = aliases.__contains__
        for name in sorted(given, key=is_alias) if any(map(is_alias, given)) else given:
            own = aliases.get(name, name)
            part = fields[own].type.named(given[name]) if own in fields else given[name]
            if own == name or found.get(own) in EMPTY:
                found[own] = part
            elif part not in EMPTY and part != found[own]:
                found[name] = part
        return found

    def value(self, plain: Any) -> Any:
        """The shape's value; fields that it doesn't declare are passed over."""
        fields = fields_of(self.of)
        given = cast("JsonObject", plain).items()
        found = {name: fields[name].type.value(v) for name, v in given if name in fields}
        return self.of(**{**_made_fields(self.of), **found})

    def recorded(self, plain: Any, path: str, extra: JsonObject) -> Any:
        """The shape's declared fields that aren't empty."""
        fields = fields_of(self.of)
        given = cast("JsonObject", plain)
        prefix = f"{path}." if path else ""
        found: JsonObject = {}
        for name, part in given.items():
            if name not in fields:
                extra.setdefault(path, {})[name] = part
            elif part or part not in EMPTY:
                kept = fields[name].type.recorded(part, prefix + name, extra)
                if kept or kept not in EMPTY:
                    found[name] = kept
        return found

    def schema(self, definitions: JsonObject) -> JsonObject:
        """A reference to the shape's own schema."""
        if self.of.__name__ not in definitions:
            definitions[self.of.__name__] = {}  # a shape may hold itself
            definitions[self.of.__name__] = _shape_schema(self.of, definitions)
        return {"$ref": f"#/$defs/{self.of.__name__}"}


def shape_of(field: Field) -> type[Any] | None:
    """The shape of a field's entries, or of the field itself; None for texts and numbers."""
    kind: Type = field.type
    while isinstance(kind, List | Optional):
        kind = kind.of
    return kind.of if isinstance(kind, Part) else None


class _Plan(NamedTuple):
    """What checking a shape needs, put together once: fields, those that are required, and each
    one's default in plain data; lists and objects are made for each use.
    """

    fields: dict[str, Field]
    required: frozenset[str]
    defaults: tuple[tuple[str, Any, Callable[[], Any] | None], ...]


_EMPTY_MAKERS: dict[str, Callable[[], Any]] = {"[]": list, "{}": dict}


@cache
def _plan_of(kind: type[Any]) -> _Plan:
    fields = fields_of(kind)
    defaults: list[tuple[str, Any, Callable[[], Any] | None]] = []
    for name, field in fields.items():
        plain: Any = None if field.is_required else field.plain_default()
        make = _EMPTY_MAKERS.get(repr(plain))
        if plain and type(plain) in (list, dict):
            make = field.plain_default
        defaults.append((name, plain, make))
    required = frozenset(name for name, field in fields.items() if field.is_required)
    return _Plan(fields, required, tuple(defaults))


def _check_field(
    field: Field, given: Mapping[Any, Any], path: str, checks: Checks, found: JsonObject
) -> None:
    """Check a field that is given or required; what counts as left out keeps its default."""
    value = given.get(field.name, _UNSET)
    default = field.default
    if default is not REQUIRED and (value is None or (value == "" and default in ("", None))):
        return
    where = f"{path}.{field.name}" if path else field.name
    if value is _UNSET:
        expected = field.type.expected() or f"a value for {field.name}"
        checks.add(where, "required", "is missing", expected)
        return
    found[field.name] = field.type.check(value, where, checks)


def _key_problem(name: object, where: str) -> Problem | None:
    """What is wrong with the name of a field that nobody declared."""
    if not isinstance(name, str):
        return Problem(where, "wrong_type", f"a key is {_type_name(name)}", "text as key")
    if len(name) > MAX_NAME:
        return Problem(where, "too_long", f"a key has {len(name):,} characters", f"{MAX_NAME}")
    return None


def size_problems(value: object) -> list[Problem]:
    """What is too much in what was given, counted before any of it is read."""
    found: list[Problem] = []
    values = characters = 0
    # A text alone has its own limit where it is read.
    is_text = isinstance(value, str | bytes)
    waiting: list[tuple[Place, object, int]] = [] if is_text else [("", value, 0)]
    while waiting:
        place, item, depth = waiting.pop()
        if depth > 2 * MAX_CANONICAL_DEPTH:  # it may contain itself
            expected = f"at most {MAX_CANONICAL_DEPTH} levels"
            return [*found, Problem(_path_of(place)[:200], "too_deep", _TOO_DEEP, expected)]
        number = len(item) if isinstance(item, Sized) else 0
        if number > MAX_ENTRIES:
            expected = f"at most {MAX_ENTRIES:,}"
            found.append(Problem(_path_of(place), "too_many", f"{number:,} entries", expected))
            continue
        for key, part in _entries_of(item):
            sizes = [len(text) for text in (key, part) if isinstance(text, str)]
            values, characters = values + 1, characters + sum(sizes)
            if values > MAX_VALUES:
                message, expected = f"more than {MAX_VALUES:,} values in all", f"{MAX_VALUES:,}"
                return [*found, Problem("", "too_many", message, f"at most {expected}")]
            if characters > MAX_CHARACTERS:
                is_long = isinstance(part, str)
                message = f"{sizes[-1]:,} characters" if is_long else "its texts are too long"
                expected = f"at most {MAX_CHARACTERS:,} characters in all texts"
                return [*found, Problem(_path_of((place, key)), "too_long", message, expected)]
            if type(part) not in _SCALARS:
                waiting.append(((place, key), part, depth + 1))
    return found


def _entries_of(item: object) -> Iterable[tuple[object, object]]:
    """What is in a value, with the key or the number of each; nothing for what holds nothing."""
    if isinstance(item, Mapping):
        return cast("Mapping[object, object]", item).items()
    if isinstance(item, list | tuple | set | frozenset):
        return enumerate(cast("Iterable[object]", item))
    return [(name, getattr(item, name)) for name in _value_fields(type(item))]


def json_problems(value: object, path: str) -> list[Problem]:
    """What keeps plain data from being recorded: its depth, or a type that JSON lacks."""
    try:
        canonical_bytes(as_plain(value))
    except InvalidInput as error:
        return [p._replace(path=f"{path}.{p.path}" if p.path else path) for p in error.problems]
    return []


def as_plain(value: object, depth: int = 0) -> Any:
    """A value as plain JSON data; what is empty or unset in a declared value is left out.

    Raises InvalidInput for what is nested too deeply or contains itself.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    check_depth(depth)
    if kind is tuple or kind is list:
        return [as_plain(part, depth + 1) for part in cast("Sequence[object]", value)]
    if names := _value_fields(kind):
        pairs = ((name, as_plain(getattr(value, name), depth + 1)) for name in names)
        return {name: part for name, part in pairs if part not in EMPTY}
    if isinstance(value, datetime):
        # A time without a zone is passed on as it is, for the check to name it.
        return stamp(value) if value.tzinfo else value.isoformat()
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return {key: as_plain(part, depth + 1) for key, part in entries}
    return value


_SCALARS = frozenset({str, int, bool, float, type(None)})


@cache
def _value_fields(kind: type) -> tuple[str, ...]:
    if _is_shape(kind):
        return tuple(fields_of(kind))
    if not hasattr(kind, "__dataclass_fields__"):
        return ()
    import dataclasses

    return tuple(field.name for field in dataclasses.fields(kind))


def check_depth(depth: int) -> None:
    """Raise InvalidInput for a value that is nested deeper than a record may be."""
    if depth > MAX_CANONICAL_DEPTH:
        expected = f"at most {MAX_CANONICAL_DEPTH} levels"
        problem = Problem("", "too_deep", _TOO_DEEP, expected)
        raise InvalidInput("the value can't be recorded; nothing was changed", [problem])


def named_by_shape(kind: type[Any], given: Mapping[str, Any]) -> JsonObject:
    """Plain data under a shape's own names, at any depth; not checked."""
    return Part(kind).named(given)


def _report_unknown(
    kind: type[Any], name: object, given: Mapping[Any, Any], path: str, checks: Checks
) -> None:
    """Report a field that isn't declared: an error where it is a misspelled one."""
    where = child_path(path, name)
    if problem := _key_problem(name, where):
        checks.errors.append(problem)
        return
    name = str(name)
    fields, aliases = fields_of(kind), aliases_of(kind)
    if name in aliases:
        own = aliases[name]
        checks.errors.append(contradiction(child_path(path, own), given.get(own), given[name]))
        return
    close = checks.suggestions.of(name, fields)
    fix = f"did you mean {close}?" if close else KEPT
    problem = Problem(where, "unknown_field", "is not in the schema", "", fix, "warning")
    is_misspelled = close and close not in given and _is_close(name, close)
    checks.unknown.append(problem._replace(level="error") if is_misspelled else problem)


def contradiction(path: str, one: object, other: object) -> Problem:
    """The problem with a field that was given twice, under two names or in two places."""
    message = f"is given as {excerpt(str(one))!r} and as {excerpt(str(other))!r}"
    return Problem(path, "contradiction", message, "one of them")


def _is_close(one: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other).ratio() >= 0.8


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def check(
    kind: type[Any], data: object, phases: Sequence[str] = (), *, is_named: bool = False
) -> tuple[JsonObject, Checks]:
    """Hold plain data to a shape; gives it with every default, and what is wrong with it. Data that
    `is_named` has the shape's own names at any depth.
    """
    checks = Checks(phases)
    if not isinstance(data, dict):
        expected = "an object with the fields of the schema"
        checks.add("", "wrong_type", f"{type(data).__name__} given", expected)
        return {}, checks
    read = Part(kind).check if is_named else Part(kind).read
    return read(cast("dict[str, Any]", data), "", checks), checks


def value_of(kind: type[Shape], plain: JsonObject) -> Shape:
    """The value of a shape from its plain form."""
    return Part(kind).value(plain)


def json_schema(kind: type[Any]) -> JsonObject:
    """The JSON Schema of a shape."""
    definitions: JsonObject = {}
    found = _shape_schema(kind, definitions)
    return {"$defs": definitions, **found} if definitions else found


def _shape_schema(kind: type[Any], definitions: JsonObject) -> JsonObject:
    fields = fields_of(kind)
    properties = {name: _field_schema(field, definitions) for name, field in fields.items()}
    found: JsonObject = {
        "type": "object",
        "title": kind.__name__,
        "description": (kind.__doc__ or "").partition("\n\n")[0],
        "properties": properties,
        "additionalProperties": True,
    }
    required = [name for name, field in fields.items() if field.is_required]
    return {**found, "required": required} if required else found


def _field_schema(field: Field, definitions: JsonObject) -> JsonObject:
    found = field.type.schema(definitions)
    if field.description:
        found["description"] = field.description
    is_made = isinstance(field.default, tuple) or _is_shape(cast("object", type(field.default)))
    if not field.is_required and not is_made:
        found["default"] = field.plain_default()
    return found


def _time_problems(value: object, path: str) -> list[Problem]:
    try:
        parse_time(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        expected = "ISO 8601 with a zone, such as 2026-01-09T10:00:00Z"
        return [Problem(path, "invalid_time", f"{excerpt(str(value))!r} is no time", expected)]
    return []


def _address_problems(value: object, path: str) -> list[Problem]:
    if isinstance(value, str) and parse_address(value):
        return []
    return [Problem(path, "invalid_address", f"{value!r:.60} is no item", "an address like T-1#b2")]


TEXT = Text(text_problems)
ANY_TEXT = Text(partial(text_problems, required=False))
TIME = Time()
TASK_ID = Text(id_problems)
AGENT = Text(agent_problems)
PHASE = Phase()
ANY_PHASE = Phase(is_needed=False)
VALUE = Value()
PATH = Text(path_problems, normal_path)
PLACE = Text(lambda value, path: text_problems(value, path) or place_problems(value, path))
ANY_PLACE = Text(place_problems)
LINES = Text(line_range_problems)
TAG = Text(tag_problems)
ADDRESS = Text(_address_problems)
SHA256 = Pattern("(sha256:)?[0-9a-f]{64}")
COUNT = Number(0)
TRUTH = Truth()

_JSON_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (type(None), "null"),
}
"""By its name in JSON Schema: a type, and what it is in words."""
JSON_TYPES = (*_JSON_TYPES, "number")
"""The names of types in JSON Schema."""
JsonReader = Callable[[object, str], object]
Place = str | tuple["Place", object]
"""Where a value is: a path, or a key below another place; few are ever written out."""


def _path_of(place: Place) -> str:
    return place if isinstance(place, str) else child_path(_path_of(place[0]), place[1])


def check_json(
    value: Any,
    schema: Mapping[str, Any],
    path: Place,
    problems: list[Problem],
    read: JsonReader | None = None,
) -> Any:
    """Hold plain data to a JSON Schema and give it back; what is wrong goes to `problems`.

    `read` may first turn a value into the type of the schema that it is meant as.
    """
    kinds = _json_kinds(schema)
    if read is not None and len(kinds) == 1:
        value = read(value, kinds[0])
    if kinds and not any(_is_json_type(value, kind) for kind in kinds):
        code = "not_an_integer" if set(kinds) - {"null"} == {"integer"} else "wrong_type"
        message = f"{json_word(value)} given"
        problems.append(Problem(_path_of(path), code, message, json_expected(schema)))
    elif isinstance(value, list):
        return _check_json_list(cast("list[Any]", value), schema, path, problems, read)
    elif isinstance(value, dict):
        return _check_json_object(cast("JsonObject", value), schema, path, problems, read)
    elif found := _json_scalar_problem(value, schema):
        problems.append(Problem(_path_of(path), *found))
    return value


def _json_scalar_problem(value: Any, schema: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Code, message and expectation for a text or a number that doesn't keep to a schema."""
    if value is not None and value not in schema.get("enum", (value,)):
        return "invalid_choice", f"{excerpt(str(value))!r} is no choice", json_expected(schema)
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            expected = f"at most {schema['maxLength']:,} characters"
            return "too_long", f"{len(value):,} characters", expected
        if "pattern" in schema and not re.fullmatch(schema["pattern"].strip("^$"), value):
            return "invalid_form", f"{excerpt(value)!r}", schema["pattern"]
    elif isinstance(value, int) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            given = value if abs(value) < MAX_INTEGER else "a number of many digits"
            return "out_of_range", f"{given} given", f"{least:,} to {most:,}"
    return None


def _check_json_list(
    value: list[Any],
    schema: Mapping[str, Any],
    path: Place,
    problems: list[Problem],
    read: JsonReader | None,
) -> list[Any]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        code, expected = "too_many" if len(value) > most else "too_short", f"{least} to {most:,}"
        problems.append(Problem(_path_of(path), code, f"{len(value):,} entries", expected))
        return value
    inner: Mapping[str, Any] = schema.get("items", {})
    return [check_json(e, inner, (path, i), problems, read) for i, e in enumerate(value)]


_ANY_STRING = {"type": "string"}


def _check_json_object(
    value: JsonObject,
    schema: Mapping[str, Any],
    path: Place,
    problems: list[Problem],
    read: JsonReader | None,
) -> JsonObject:
    known: Mapping[str, Any] = schema.get("properties", {})
    found: JsonObject = {}
    for name, entry in value.items():
        if read is None and type(entry) is str and known.get(name) == _ANY_STRING:
            found[name] = entry  # most fields are, and say no more of themselves
            continue
        within = (path, name)
        if name not in known and schema.get("additionalProperties") is False:
            expected = ", ".join(known) or "no fields"
            problems.append(Problem(_path_of(within), "unknown_field", "is unknown", expected))
        found[name] = check_json(entry, known.get(name, {}), within, problems, read)
    problems += [
        Problem(_path_of((path, name)), "required", "is missing", json_expected(known.get(name)))
        for name in schema.get("required", ())
        if name not in value
    ]
    return found


def _json_kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    given: object = schema.get("type", ())
    return (given,) if isinstance(given, str) else tuple(cast("list[str]", given))


def _is_json_type(value: object, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    is_truth = isinstance(value, bool)
    return isinstance(value, _JSON_TYPES[kind][0]) and (kind == "boolean") is is_truth


def json_word(value: object) -> str:
    """A plain value's type, in words."""
    if isinstance(value, float):
        return "a number"
    kinds = (words for kind, (_, words) in _JSON_TYPES.items() if _is_json_type(value, kind))
    return next(kinds, "something else")


def json_expected(schema: Mapping[str, Any] | None) -> str:
    """What a JSON Schema asks for, in words."""
    if schema and "enum" in schema:
        return " | ".join(str(choice) for choice in schema["enum"])
    kinds = [_JSON_TYPES[k][1] if k in _JSON_TYPES else k for k in _json_kinds(schema or {})]
    return " or ".join(kinds) or "a value"


_DIGITS = 15
_BOOLEANS = {"true": True, "false": False}
_JSON_STARTS = {"array": "[", "object": "{"}


def as_meant(value: object, kind: str) -> object:
    """A value as the type that a schema wants, where there is no doubt that it is meant: a number,
    a list or an object as text, a whole number as another one, one entry where a list belongs.
    """
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value) if abs(value) < 10**_DIGITS else value
    if isinstance(value, str) and kind in _JSON_STARTS:
        read = _from_json(value) if value.lstrip().startswith(_JSON_STARTS[kind]) else None
        if read is not None or kind == "object":
            return read if read is not None else value
        return [value] if value.strip() else []
    if isinstance(value, str) and kind == "boolean":
        return _BOOLEANS.get(value.strip().lower(), value)
    if isinstance(value, str) and kind in ("integer", "number"):
        number = _number_meant(value.strip(), kind)
        return value if number is None else number
    is_entry = kind == "array" and isinstance(value, dict)
    return [cast("object", value)] if is_entry else cast("object", value)


def _number_meant(text: str, kind: str) -> int | float | None:
    """The number that a text is; None for none. A whole one has digits alone."""
    if not text.isascii() or len(text) > _DIGITS:
        return None
    if text.isdigit():
        return int(text)
    read = _from_json(text) if kind == "number" else None
    return read if type(read) in (int, float) else None


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
