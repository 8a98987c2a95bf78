"""Documents of a server as the values that the same call gives in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.command import Check, HandoffCommand, Receipt
from passdown.model.recalled import Recalled

if TYPE_CHECKING:
    from passdown.briefing.brief import Brief, Shown
    from passdown.briefing.computed import Computed
    from passdown.ledger.verifying import Verified
    from passdown.model.handoff import Decision, HandoffContext
    from passdown.workspace.switching import Switched

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
    given: Document = {name: tuple(document.get(name, ())) for name in ("stale", "also_hold")}
    given = {**document, **given}
    return Recalled(**given)


def decision_of(document: Document) -> Decision:
    """A decision."""
    from passdown.model.bodies import decision_from_body

    return decision_from_body(document)


def context_of(document: Document) -> HandoffContext:
    """The context of a handoff."""
    from passdown.model.handoff import HandoffContext
    from passdown.model.times import parse_time

    return HandoffContext(
        source=document["source"],
        target=document["target"],
        at=parse_time(document["at"]),
        decisions=tuple(decision_of(decision) for decision in document["decisions"]),
        memory_refs=tuple(document["memory_refs"]),
        metadata=document["metadata"],
    )


def computed_of(document: Document) -> Computed:
    """What of earlier work bears on a task."""
    from passdown.briefing.computed import KINDS, Computed, Signals

    given: Document = {**document, **{kind: tuple(document[kind]) for kind in KINDS}}
    signals = {name: tuple(values) for name, values in document["signals"].items()}
    given["signals"] = Signals(**signals)
    return Computed(**given)


def switched_of(document: Document, root: str) -> Switched:
    """A switch. What it says of git is about the repository at `root`, if that is one."""
    from passdown.recall.git_head import has_git
    from passdown.recall.git_state import GitCheck
    from passdown.workspace.switching import Switched, git_check, git_warnings

    warnings = list(_problems(document, "warnings"))
    git = GitCheck(**_tuples(document["git"])) if document["git"] else None
    if has_git(root):
        theirs, git = git_warnings(git), git_check(root, document["files"])
        place = warnings.index(theirs[0]) if theirs else _after_profile(warnings)
        warnings[place : place + len(theirs)] = git_warnings(git)
    given: Document = {name: document[name] for name in Switched._fields}
    given |= {"brief": brief_of(document["brief"]), "summaries": tuple(document["summaries"])}
    given |= {"git": git, "warnings": tuple(warnings)}
    return Switched(**given)


def _after_profile(warnings: list[Problem]) -> int:
    return next((n for n, one in enumerate(warnings) if one.path != "profile"), len(warnings))


def _tuples(git: Document) -> Document:
    differing = tuple((path, reason) for path, reason in git["differing"])
    return {**git, "differing": differing, "unnamed": tuple(git["unnamed"])}


def verified_of(document: Document) -> Verified:
    """What came of verifying."""
    from passdown.ledger.verifying import Verified

    return Verified(_problems(document, "findings"), document["streams"], document["records"])
