"""Documents of a server as the values that the same call gives in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.command import Check, HandoffCommand, Receipt
from passdown.model.recalled import Recalled

if TYPE_CHECKING:
    from passdown.briefing.brief import Brief, Shown

Document = dict[str, Any]


def _problems(document: Document, field: str) -> tuple[Problem, ...]:
    return tuple(Problem(**problem) for problem in document.get(field, ()))


def receipt_of(document: Document) -> Receipt:
    """The receipt of a write."""
    given: Document = {name: document[name] for name in Receipt._fields}
    given |= {"items": tuple(document["items"]), "warnings": _problems(document, "warnings")}
    return Receipt(**given)


def command_of(document: Document) -> HandoffCommand:
    """The command of a handoff."""
    given: Document = {name: document[name] for name in HandoffCommand._fields}
    given |= {"held_by": tuple(document["held_by"]), "warnings": _problems(document, "warnings")}
    return HandoffCommand(**given)


def check_of(document: Document) -> Check:
    """What a dry run found."""
    return Check(_problems(document, "problems"), document["completeness"], document["handoff"])


def brief_of(document: Document) -> Brief:
    """A brief."""
    from passdown.briefing.brief import Brief

    given: Document = {name: document[name] for name in Brief._fields}
    given |= {
        "shown": tuple(_shown(item) for item in document["shown"]),
        "waiting": tuple(document["waiting"]),
        "reach": tuple(document["reach"]),
        "warnings": _problems(document, "warnings"),
    }
    return Brief(**given)


def _shown(item: Document) -> Shown:
    from passdown.briefing.brief import Shown

    given: Document = {name: tuple(item.get(name, ())) for name in ("stale", "hints")}
    return Shown(**{**item, **given})


def recalled_of(document: Document) -> Recalled:
    """One answer of a search."""
    given: Document = {**document, "stale": tuple(document["stale"])}
    return Recalled(**given)
