"""Routes of the API, and requests read by them: every problem at once, with its path.

A route says who may call it, what may be given and what comes back. Routing, checks, rights, the
OpenAPI document and metrics all use it, so that they can't disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qsl

from passdown.core.intake import read_handoff
from passdown.core.parsing import load_json
from passdown.core.redaction import redact
from passdown.core.schema import check_json, json_expected, json_word
from passdown.core.text import child_path, excerpt
from passdown.errors import InvalidInput, NotAllowed, Problem, raise_problems
from passdown.web.openapi import CLIENT_FILES
from passdown.workspace.context import context_of
from passdown.workspace.files import FILES_FIELD, PROFILE_FIELD

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from passdown.core.access import AccessToken
    from passdown.core.types import JsonObject
    from passdown.web.openapi import Schema
    from passdown.web.server_state import Checks
    from passdown.workspace import Workspace
    from passdown.workspace.context import Context


EMPTY: Mapping[str, Any] = MappingProxyType({})

_MAX_NOTES = 20


@dataclass
class ApiRequest:
    """One request, read: the workspace, the caller, the arguments, and what headers say.

    `body` is the whole body of a route that checks it where it is used. `notes` are warnings that
    go out with the answer. `form` is what a page sends with its writes, `checks` the server's kept
    results.
    """

    caller: AccessToken
    arguments: JsonObject
    body: JsonObject = field(default_factory=dict[str, Any])
    expect_version: int | None = None
    key: str | None = None
    form: str = ""
    checks: Checks | None = None
    client_files: list[JsonObject] | None = None
    client_profile: tuple[JsonObject | None, ...] = ()
    notes: list[Problem] = field(default_factory=list[Problem])
    workspace: Workspace = field(init=False)

    @property
    def context(self) -> Context:
        """What functions below the workspace's own work on."""
        return context_of(self.workspace)

    def author(self, field: str, claimed: Any = None) -> Any:
        """Who writes: the token's own name, whatever the request claims.

        A claim is believed if the token may write for others, an empty one too, which the operation
        refuses. Otherwise it is noted, and the record bears the name of the token's holder. None is
        no claim.
        """
        if claimed is not None and self.caller.may("others"):
            return claimed
        if claimed not in ("", None, self.caller.name):
            self.note_claim(field, claimed)
        return self.caller.name

    def note_claim(self, field: str, claimed: object) -> None:
        """Note that a name was claimed that the token doesn't give."""
        own = self.caller.name
        named = claimed if isinstance(claimed, str) else type(claimed).__name__
        message = f"{excerpt(named)!r} was claimed; the token is {own}'s, and so is this"
        note = Problem(field, "author_is_token", message, own, "", "warning")
        if len(self.notes) < _MAX_NOTES and note not in self.notes:
            self.notes.append(note)

    def own_handoff(self, handoff: Any, fields: JsonObject) -> tuple[Any, JsonObject]:
        """A handoff, and what was given beside it, in the name of the token's holder, unless the
        token speaks for others; from the version that a header names.
        """
        if self.caller.may("others") and self.expect_version is None:
            return handoff, fields
        given = read_handoff(handoff, fields)
        plain = dict(given.data)
        if self.expect_version is not None:
            plain["expect_version"] = self.expect_version
        if not self.caller.may("others"):
            plain["from_agent"] = self.author("from_agent", plain.get("from_agent"))
            if isinstance(plain.get("decisions"), list):
                plain["decisions"] = [self.own_decision(entry) for entry in plain["decisions"]]
        return given._replace(data=plain), {}

    def own_decision(self, entry: Any) -> Any:
        """A decision without the name of somebody else."""
        fields = cast("JsonObject", entry) if isinstance(entry, dict) else {}
        if fields.get("agent", "") in ("", None, self.caller.name):
            return entry  # pyright: ignore[reportUnknownVariableType]
        self.note_claim("decisions", fields["agent"])
        return {name: value for name, value in fields.items() if name != "agent"}

    @property
    def claims(self) -> list[str]:
        """The notes for the log: on one line each, and without secrets."""
        return [redact(note.message)[0] for note in self.notes]

    def may_speak_for(self, name: str) -> bool:
        """Whether the caller is the agent that is named, or speaks for others."""
        return name == self.caller.name or self.caller.may("others")


class ApiResult(NamedTuple):
    """What comes back: a document, and the version that it stands for; or `text` or the bytes of
    `file` as some medium. The file, and the folder it is alone in, are removed once it
    was sent. `status` is given where it isn't the operation's own.
    """

    document: Any
    version: int | None = None
    text: str | None = None
    media: str = "application/json"
    file: str = ""
    status: int = 0


RouteFunction = Callable[[ApiRequest], ApiResult]


class ApiRoute(NamedTuple):
    """One route. `right` is what the token has to allow; `path` names parameters in braces.

    With `takes_any`, the body is an object that is checked where it is used, but for the fields in
    `checked`. One that `is_heavy` reads much of the store: few of them run at once. One that
    `takes_files` may be sent hashes of the client's files, one that `takes_profile` the client's
    profile of an agent. `media` says what else than JSON may come back.
    """

    name: str
    method: str
    path: str
    right: str
    summary: str
    function: RouteFunction
    parameters: Mapping[str, Schema] = EMPTY
    query: Mapping[str, Schema] = EMPTY
    body: Schema | None = None
    result: Mapping[str, Any] = EMPTY
    media: tuple[tuple[str, str], ...] = ()
    status: int = 200
    takes_any: bool = False
    checked: Mapping[str, Schema] = EMPTY
    takes_key: bool = False
    takes_version: bool = False
    takes_files: bool = False
    takes_profile: bool = False
    is_heavy: bool = False

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET" and self.right != "read"


def require_right(caller: AccessToken, right: str) -> None:
    """Raise NotAllowed unless a token allows something."""
    if caller.may(right):
        return
    if right == "approve":
        raise NotAllowed(
            f"{caller.name} may not answer gates: people do, with a token that allows it",
            next_step="Tell the person you work for which gate waits, and go on with other work.",
        )
    allowed = ", ".join(caller.rights)
    raise NotAllowed(
        f"this needs a token that allows {right}; the one given allows {allowed}",
        next_step="The administrator of the server makes one with passdown token new --rights.",
    )


_MAX_FIELDS = 300
_IN_HEADERS = ("key", "expect_version")
_PYTHON_NAMES = ("self", "context", "workspace")
_BOOLEANS = {"true": True, "false": False}


class MalformedRequest(InvalidInput):
    """A request that can't be read at all; status 400."""


def read_request(
    route: ApiRoute, caller: AccessToken, path: Mapping[str, str], query: bytes, body: bytes
) -> ApiRequest:
    """What a request gives, checked by its route. Raises InvalidInput with every problem."""
    problems: list[Problem] = []
    arguments: JsonObject = dict(path)
    check_json(arguments, {"properties": route.parameters}, "", problems)
    arguments |= _query(route, query, problems)
    loaded: JsonObject = {}
    files: list[JsonObject] | None = None
    if route.body is not None:
        loaded = _load_body(body)
        if route.takes_files and FILES_FIELD in loaded:
            files = check_json(loaded.pop(FILES_FIELD), CLIENT_FILES, FILES_FIELD, problems)
        if route.takes_any:
            problems += _reserved(route, loaded)
            own = {name: loaded[name] for name in route.checked if name in loaded}
            check_json(own, {"properties": route.checked}, "", problems)
        else:
            check_json(loaded, route.body, "", problems)
            arguments |= loaded
    elif body:
        problems.append(Problem("", "unexpected_body", "a body was sent", "no body"))
    has_profile = route.takes_profile and PROFILE_FIELD in arguments
    profile = (arguments.pop(PROFILE_FIELD),) if has_profile else ()
    raise_problems("the request is refused", problems, next_step="Fix all of these.")
    return ApiRequest(caller, arguments, loaded, client_files=files, client_profile=profile)


@contextmanager
def reporting_missing(given: Mapping[str, Any], names: Sequence[str]) -> Generator[None]:
    """Report fields that a body leaves out as missing, whatever is said of the empty values that
    stood in for them; every other problem stays as it is.
    """
    missing = [name for name in names if name not in given]
    try:
        yield
    except InvalidInput as error:
        problems = [
            Problem(p.path, "required", "is missing", f"a value for {p.path}")
            if p.path in missing
            else p
            for p in error.problems
        ]
        raise InvalidInput(error.message, problems, next_step=error.next_step) from error


def _reserved(route: ApiRoute, loaded: JsonObject) -> list[Problem]:
    """Fields that belong into the path or into headers and nowhere else, or that can't be any."""
    taken = [*route.parameters, *_IN_HEADERS, *_PYTHON_NAMES]
    expected = "it in the address" if route.parameters else "a header"
    return [
        Problem(name, "unknown_field", "is not taken here", expected)
        for name in taken
        if name in loaded and not (name == "task" and "handoffs" in route.path)
    ]


def _load_body(body: bytes) -> JsonObject:
    """The object that a body spells. What isn't JSON can't be read; what isn't an object is
    refused like any other mistake.
    """
    try:
        loaded = load_json(body)
    except InvalidInput as error:
        raise MalformedRequest(error.message, error.problems, next_step=error.next_step) from error
    if not isinstance(loaded, dict):
        problem = Problem("", "wrong_type", f"{json_word(loaded)} given", "an object")
        raise InvalidInput("the request is refused", [problem])
    return cast("JsonObject", loaded)


def _query(route: ApiRoute, query: bytes, problems: list[Problem]) -> JsonObject:
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        problem = Problem("", "invalid_query", str(error), "parameters in UTF-8, percent-encoded")
        raise MalformedRequest("the query can't be read", [problem]) from error
    found: JsonObject = {}
    for name, value in pairs:
        schema = route.query.get(name)
        if schema is None:
            known = ", ".join(route.query) or "no parameters"
            path = child_path("", name)
            problems.append(Problem(path, "unknown_filter", "is no parameter of this", known))
        elif schema["type"] == "array":
            found.setdefault(name, []).append(value)
        elif name in found:
            problems.append(Problem(name, "wrong_type", "several values given", "one value"))
        else:
            found[name] = _typed(value, schema["type"])
    check_json(found, {"properties": route.query}, "", problems)
    problems += [
        Problem(name, "required", "is missing", json_expected(schema))
        for name, schema in route.query.items()
        if schema.get("required") is True and name not in found
    ]
    return found


def _typed(value: str, kind: str | list[str]) -> object:
    """A parameter's text as the type that its schema wants, if it spells one."""
    if not value and "null" in kind:
        return None
    if "integer" in kind:
        return int(value) if re.fullmatch(r"-?[0-9]{1,40}", value) else value
    return _BOOLEANS.get(value, value) if kind == "boolean" else value
