"""What the API is made of: one row for each thing that can be asked, and what a row works with.

A row says who may ask, what may be given and what comes back. Routing, checking, rights, the
published description and the metrics all go by it, so that none of them can tell another story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import NotAllowed, Problem
from passdown.model.redaction import redact
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from passdown.model.access import Access
    from passdown.surfaces.web.schemas import Schema
    from passdown.workspace import Workspace

Document = dict[str, Any]

NOTHING: Mapping[str, Any] = MappingProxyType({})

_MOST_NOTES = 20


class Call:
    """One request, read: who asks, what was given, the version worked from, the key of a retry,
    what it says of the files of who asks.

    `notes` are warnings that go out with the answer.
    """

    def __init__(
        self,
        caller: Access,
        given: Document,
        *,
        expect_version: int | None = None,
        key: str | None = None,
        files_seen: list[Document] | None = None,
    ) -> None:
        self.caller = caller
        self.given = given
        self.expect_version = expect_version
        self.key = key
        self.files_seen = files_seen
        self.notes: list[Problem] = []

    def author(self, field: str = "agent") -> str:
        """Who writes: the token's own name, whatever the request claims.

        A claim is taken at its word from a token that speaks for others. From any other it is
        noted, and what is written bears the name of who wrote it.
        """
        claimed = self.given.pop(field, self.caller.name)
        if claimed == self.caller.name or self.caller.may("others"):
            return claimed
        self.note_claim(field, claimed)
        return self.caller.name

    def note_claim(self, field: str, claimed: object) -> None:
        """Say that a name was claimed that the token doesn't give."""
        own = self.caller.name
        named = claimed if isinstance(claimed, str) else type(claimed).__name__
        message = f"{excerpt(named)!r} was claimed; the token is {own}'s, and so is this"
        note = Problem(field, "author_is_token", message, own, "", "warning")
        if len(self.notes) < _MOST_NOTES and note not in self.notes:
            self.notes.append(note)

    @property
    def claims(self) -> list[str]:
        """What is said of claims in the log: on one line, in few words, and without secrets."""
        return [redact(note.message)[0] for note in self.notes]

    def listener(self) -> tuple[str, bool]:
        """Who is told something, and whether it may be recorded as told to that name."""
        named = self.given.pop("agent", "") or self.caller.name
        return named, named == self.caller.name or self.caller.may("others")

    def is_about_itself(self, name: str) -> bool:
        """Whether the caller is who is named, or speaks for others."""
        return name == self.caller.name or self.caller.may("others")


class Answer(NamedTuple):
    """What comes back: a document, and the version that it stands for; or `text`, `data` or
    the bytes of `file` as some medium. The file, and the folder it is alone in, are gone once it
    was sent.
    """

    document: Any
    version: int | None = None
    text: str | None = None
    media: str = "application/json"
    data: bytes | None = None
    file: str = ""


Carry = Callable[["Workspace", Call], Answer]


class Operation(NamedTuple):
    """One row. `right` is what the token has to allow; `path` names parameters in braces.

    With `takes_any`, the body is an object that is checked where it is used. One that `is_heavy`
    reads much of the store: few of them go on at once, so that the others are served meanwhile.
    One that `takes_files` may be told of the files of who asks. `media` says what else than JSON
    may come back.
    """

    name: str
    method: str
    path: str
    right: str
    summary: str
    carry: Carry
    parameters: Mapping[str, Schema] = NOTHING
    query: Mapping[str, Schema] = NOTHING
    body: Schema | None = None
    answer: Mapping[str, Any] = NOTHING
    media: tuple[str, ...] = ()
    status: int = 200
    takes_any: bool = False
    takes_key: bool = False
    takes_version: bool = False
    takes_files: bool = False
    is_heavy: bool = False
    tag: str = ""

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET" and self.right != "read"


def reading(name: str, path: str, summary: str, carry: Carry, **rest: Any) -> Operation:
    """A row that only looks."""
    return Operation(name, "GET", path, "read", summary, carry, **rest)


def require(caller: Access, right: str) -> None:
    """Raise NotAllowed unless a token allows something."""
    if not right or caller.may(right):
        return
    if right == "approve":
        raise NotAllowed(
            f"{caller.name} may not answer gates: people do, with a token that allows it",
            next_step="Tell the person you work for which gate waits, and go on with other work.",
        )
    allowed = ", ".join(caller.rights)
    raise NotAllowed(
        f"this needs a token that allows {right}; the one given allows {allowed}",
        next_step="Whoever keeps the server makes one with passdown token new --rights.",
    )
