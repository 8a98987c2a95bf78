"""Checksums of a state, field by field: taken when it is handed on, verified where it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.adapters.states.handing import known_context
from passdown.adapters.states.plain_values import plain_text
from passdown.model.checksum import check_integrity, state_checksum

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from passdown.model.checksum import IntegrityReport

HANDED_ON = frozenset({"current_agent", "handoff_context"})
"""The fields that a handoff is there to change."""

_CHANGED_BETWEEN = "Hand on the state as it was left: only an agent's own turn may change it."
_CHANGED_IN_PLACE = "Return what is new instead of changing the state that was given."


def checksums(state: Mapping[str, Any], unchecked: Collection[str] = HANDED_ON) -> dict[str, str]:
    """The checksum of each field of a state by value, but for those that aren't checked."""
    return {
        name: state_checksum({name: plain_text(state[name], name)}, exclude=())
        for name in sorted(state)
        if name not in unchecked
    }


def verify_handoff(
    state: Mapping[str, Any], *, strict: bool = False, now: Mapping[str, str] | None = None
) -> IntegrityReport | None:
    """Compare a state with the checksums that its handoff context brought; None without any.

    Differences are named by field, logged to `passdown.integrity` and, when `strict`, raised as
    IntegrityViolation. `now` are the state's checksums, where they have been taken already.
    """
    context = known_context(state)
    hop: dict[str, Any] = context.get("hop") or {}
    if not hop or hop.get("run") != state.get("run", ""):
        return None
    before: dict[str, str] = hop["checksums"]
    skip = {*HANDED_ON, *hop["unchecked"]}
    found = checksums(state, skip) if now is None else now
    return check_integrity(
        before,
        {name: value for name, value in found.items() if name not in skip},
        exclude=(),
        source=context["source"],
        target=context["target"],
        strict=strict,
        next_step=_CHANGED_BETWEEN,
    )


def verify_untouched(
    before: Mapping[str, str],
    state: Mapping[str, Any],
    *,
    agent: str,
    target: str = "",
    strict: bool = False,
) -> IntegrityReport:
    """Compare a state with its checksums from before an agent's turn: it returns what is new, and
    changes nothing in place.
    """
    now = checksums(state)
    return check_integrity(
        before,
        now,
        exclude=(),
        source=agent,
        target=target,
        strict=strict,
        next_step=_CHANGED_IN_PLACE,
    )


def warnings_of(report: IntegrityReport | None, source: str, target: str) -> list[dict[str, Any]]:
    """The differences of a report as warnings for the state."""
    if report is None or report.ok:
        return []
    kinds = {"changed": report.changed, "missing": report.missing, "added": report.added}
    told = {kind: list(fields) for kind, fields in kinds.items() if fields}
    return [{"code": "integrity", "source": source, "target": target, **told}]
