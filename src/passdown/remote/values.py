"""Decode a server's JSON into the values that the same call gives in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.core.results import Check, HandoffCommand, Recalled, Receipt
from passdown.errors import Problem

if TYPE_CHECKING:
    from passdown.context.brief import Brief, BriefItem
    from passdown.context.related import ComputedContext
    from passdown.core.handoff import Decision, HandoffContext
    from passdown.core.types import JsonObject
    from passdown.ledger.verification import Verification
    from passdown.workspace.switches import Switch


def _problems(document: JsonObject, field: str) -> tuple[Problem, ...]:
    return tuple(Problem(**problem) for problem in document.get(field, ()))


def receipt_of(document: JsonObject) -> Receipt:
    """The receipt of a write."""
    given: JsonObject = {name: document[name] for name in Receipt._fields}
    given |= {"items": tuple(document["items"]), "warnings": _problems(document, "warnings")}
    return Receipt(**given)


def command_of(document: JsonObject) -> HandoffCommand:
    """The command of a handoff."""
    given: JsonObject = {name: document[name] for name in HandoffCommand._fields}
    given |= {"held_by": tuple(document["held_by"]), "warnings": _problems(document, "warnings")}
    return HandoffCommand(**given)


def check_of(document: JsonObject) -> Check:
    """What a dry run found."""
    return Check(_problems(document, "problems"), document["completeness"], document["handoff"])


def brief_of(document: JsonObject) -> Brief:
    """A brief."""
    from passdown.context.brief import Brief

    given: JsonObject = {name: document[name] for name in Brief._fields}
    given |= {
        "shown": tuple(_shown(item) for item in document["shown"]),
        "waiting": tuple(document["waiting"]),
        "reach": tuple(document["reach"]),
        "warnings": _problems(document, "warnings"),
    }
    return Brief(**given)


def _shown(item: JsonObject) -> BriefItem:
    from passdown.context.brief import BriefItem

    given: JsonObject = {name: tuple(item.get(name, ())) for name in ("stale", "hints")}
    return BriefItem(**{**item, **given})


def recalled_of(document: JsonObject) -> Recalled:
    """One answer of a search."""
    given: JsonObject = {name: tuple(document.get(name, ())) for name in ("stale", "also_hold")}
    given = {**document, **given}
    return Recalled(**given)


def decision_of(document: JsonObject) -> Decision:
    """A decision."""
    from passdown.core.handoff import Decision
    from passdown.core.schema import value_of

    return value_of(Decision, document)


def context_of(document: JsonObject) -> HandoffContext:
    """The context of a handoff."""
    from passdown.core.handoff import HandoffContext
    from passdown.core.times import parse_time

    return HandoffContext(
        source=document["source"],
        target=document["target"],
        at=parse_time(document["at"]),
        decisions=tuple(decision_of(decision) for decision in document["decisions"]),
        memory_refs=tuple(document["memory_refs"]),
        metadata=document["metadata"],
    )


def computed_of(document: JsonObject) -> ComputedContext:
    """What of earlier work bears on a task."""
    from passdown.context.related import KINDS, ComputedContext, Signals

    given: JsonObject = {**document, **{kind: tuple(document[kind]) for kind in KINDS}}
    signals = {name: tuple(values) for name, values in document["signals"].items()}
    given["signals"] = Signals(**signals)
    return ComputedContext(**given)


def switched_of(document: JsonObject, root: str) -> Switch:
    """A switch. What it says of git is about the repository at `root`, if that is one."""
    from passdown.history.git import GitCheck, has_git
    from passdown.workspace.switches import Switch, git_check, git_warnings

    warnings = list(_problems(document, "warnings"))
    git = GitCheck(**_tuples(document["git"])) if document["git"] else None
    if has_git(root):
        theirs, git = git_warnings(git), git_check(root, document["files"])
        place = warnings.index(theirs[0]) if theirs else _after_profile(warnings)
        warnings[place : place + len(theirs)] = git_warnings(git)
    given: JsonObject = {name: document[name] for name in Switch._fields}
    given |= {"brief": brief_of(document["brief"]), "summaries": tuple(document["summaries"])}
    given |= {"git": git, "warnings": tuple(warnings)}
    return Switch(**given)


def _after_profile(warnings: list[Problem]) -> int:
    return next((n for n, one in enumerate(warnings) if one.path != "profile"), len(warnings))


def _tuples(git: JsonObject) -> JsonObject:
    differing = tuple((path, reason) for path, reason in git["differing"])
    return {**git, "differing": differing, "unnamed": tuple(git["unnamed"])}


def verified_of(document: JsonObject) -> Verification:
    """What came of verifying."""
    from passdown.ledger.verification import Verification

    return Verification(_problems(document, "findings"), document["streams"], document["records"])
