"""Two neighbouring formats, read and written: state files and switch artifacts."""

from __future__ import annotations

import re
from typing import Any, cast

from passdown.core.kinds import MAX_BLOCKERS, MAX_DECISIONS, MAX_FILES, NOT_STATED

Plain = dict[str, Any]

ARTIFACT_VERSION = "1.0"

_STATE_MARKS = {"decisions_made", "blocking_issues", "task_title", "quality_gates_passed"}
_ARTIFACT_MARKS = {"story_context", "next_action"}
_SHA256 = re.compile(r"(sha256:)?[0-9a-f]{64}")


def to_handoff_format(data: Plain) -> Plain:
    """Plain data in the handoff's own shape, whichever of the three shapes it came in."""
    inner = data.get("handoff")
    if isinstance(inner, dict) and "from_agent" in inner:
        around = {name: value for name, value in data.items() if name != "handoff"}
        return to_handoff_format({**around, **cast("Plain", inner)})
    if _STATE_MARKS & data.keys():
        return _from_state_file(data)
    if _ARTIFACT_MARKS & data.keys():
        return _from_artifact(data)
    return data


def _from_state_file(data: Plain) -> Plain:
    kept = {k: v for k, v in data.items() if k not in _STATE_ONLY}
    handoff = {_STATE_NAMES.get(name, name): value for name, value in kept.items()}
    handoff["artifacts"] = _artifacts(data.get("artifacts", []))
    # Their parts have names of their own, which are aliases of a handoff's.
    handoff["decisions"] = data.get("decisions_made", [])
    handoff["blockers"] = data.get("blocking_issues", [])
    handoff["gates"] = _gates(data)
    _keep(handoff, "state_file", data, _STATE_FACTS)
    handoff.setdefault("outcome", "completed")
    version = data.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        handoff["expect_version"] = version - 1
    elif version is not None:
        handoff["expect_version"] = version
    return handoff


_STATE_NAMES = {
    "task_id": "task",
    "source_agent": "from_agent",
    "target_agent": "to_agent",
    "context_summary": "summary",
}
_STATE_FACTS = ("task_title", "previous_phase", "phase_started_at", "handoff_timestamp")
_STATE_ONLY = {
    *_STATE_FACTS,
    "decisions_made",
    "blocking_issues",
    "quality_gates_passed",
    "quality_gates_failed",
    "version",
    "artifacts",
}


def _keep(handoff: Plain, shape: str, data: Plain, names: tuple[str, ...]) -> None:
    """Put what a handoff has no field for under its metadata."""
    facts = {name: data[name] for name in names if data.get(name) not in (None, "")}
    metadata = handoff.get("metadata", {})
    if facts and isinstance(metadata, dict):
        handoff["metadata"] = {**cast("Plain", metadata), shape: facts}


def _gates(data: Plain) -> Any:
    """The results of both lists; one that is no list is passed on for the schema to refuse."""
    found: list[Plain] = []
    for result in ("passed", "failed"):
        names: object = data.get(f"quality_gates_{result}") or []
        if not isinstance(names, list):
            return names
        found += [{"name": name, "result": result} for name in cast("list[Any]", names)]
    return found


def _artifacts(given: object) -> Any:
    """Artifacts whose hash, if it is a SHA-256, has the handoff's name; any other isn't trusted."""
    if not isinstance(given, list):
        return given
    found: list[Any] = []
    for artifact in cast("list[Any]", given):
        if isinstance(artifact, dict) and "content_hash" in artifact:
            parts = dict(cast("Plain", artifact))
            odd = parts.pop("content_hash")
            is_hash = odd is None or (isinstance(odd, str) and _SHA256.fullmatch(odd))
            found.append({**parts, "sha256" if is_hash else "content_hash": odd})
        else:
            found.append(artifact)
    return found


def _from_artifact(data: Plain) -> Plain:
    given: object = data.get("story_context") or {}
    story = cast("Plain", given) if isinstance(given, dict) else {}
    dropped = {"story_context", "next_action", "version", "timestamp", "files_modified"}
    handoff = {k: v for k, v in data.items() if k not in dropped}
    handoff["story"] = given
    handoff.setdefault("task", story.get("story_id"))
    # An artifact lists the newest first, a handoff in the order of happening.
    reason, changed = {"rationale": NOT_STATED}, {"change": "modify"}
    handoff["decisions"] = _reversed(data.get("decisions", []), "summary", reason)
    handoff["artifacts"] = _reversed(data.get("files_modified", []), "path", changed)
    _keep(handoff, "switch_artifact", data, ("version", "timestamp"))
    handoff["blockers"] = data.get("blockers", [])
    if data.get("next_action"):
        handoff["suggested_next_steps"] = [{"step": data["next_action"], "priority": "high"}]
    handoff.setdefault("outcome", "partial" if handoff["blockers"] else "completed")
    return handoff


def _reversed(parts: object, text: str, defaults: Plain) -> Any:
    """Parts in reversed order, each with defaults; what is no list is for the check to refuse."""
    if not isinstance(parts, list):
        return parts
    entries = reversed(cast("list[Any]", parts))
    return [
        {**defaults, **(cast("Plain", e) if isinstance(e, dict) else {text: e})} for e in entries
    ]


def state_file(state: Plain) -> Plain:
    """A task's state document as a state file."""
    return {
        "task_id": state["task_id"],
        "task_title": state["title"],
        "phase": state["phase"],
        "previous_phase": state["previous_phase"],
        "phase_started_at": state["phase_started_at"],
        "artifacts": [_file_artifact(a) for a in state["artifacts"]],
        "context_summary": state["context_summary"],
        "decisions_made": [_file_decision(d) for d in state["decisions"]],
        "blocking_issues": [_file_blocker(b) for b in state["blockers"] if b["status"] == "open"],
        "warnings": [w["text"] for w in state["warnings"] if w["status"] == "active"],
        "quality_gates_passed": state["gates_passed"],
        "quality_gates_failed": state["gates_failed"],
        "source_agent": state["source_agent"],
        "target_agent": state["target_agent"],
        "handoff_timestamp": state["handoff_at"],
        "version": state["version"],
    }


def _file_artifact(artifact: Plain) -> Plain:
    return {
        "path": artifact["path"],
        "artifact_type": artifact["type"],
        "content_hash": artifact.get("sha256"),
        "size_bytes": artifact.get("size_bytes"),
    }


def _file_decision(decision: Plain) -> Plain:
    return {
        "decision": decision["summary"],
        "rationale": decision["rationale"],
        "timestamp": decision["at"],
        "agent": decision["agent"],
        "alternatives": decision.get("alternatives", []),
    }


def _file_blocker(blocker: Plain) -> Plain:
    return {
        "issue": blocker["blocker"],
        "severity": blocker["severity"],
        "suggested_action": blocker.get("suggested_resolution", ""),
        "requires_human": blocker.get("requires_human", False),
    }


def _decision_line(decision: Plain) -> str:
    summary, rationale = decision["summary"], decision["rationale"]
    return str(summary) if rationale == NOT_STATED else f"{summary} ({rationale})"


def switch_artifact(state: Plain, state_path: str) -> Plain:
    """A task's state document as a switch artifact; what its limits cut is counted and named."""
    live = [d for d in state["decisions"] if d["status"] in ("accepted", "proposed")]
    decisions = [_decision_line(d) for d in reversed(live)]
    files = [a["path"] for a in reversed(state["artifacts"])]
    rank = ("blocker", "high", "medium", "low").index
    open_blockers = [b for b in state["blockers"] if b["status"] == "open"]
    blockers = [b["blocker"] for b in sorted(open_blockers, key=lambda b: rank(b["severity"]))]
    steps = [n["step"] for n in state["next_steps"] if n["status"] == "open"]
    stories: list[Plain] = [h["story"] for h in state["handoffs"] if "story" in h]
    story: Plain = stories[-1] if stories else {}
    limits = {"decisions": MAX_DECISIONS, "files_modified": MAX_FILES, "blockers": MAX_BLOCKERS}
    lists = {"decisions": decisions, "files_modified": files, "blockers": blockers}
    cut = {name: len(lists[name]) - limits[name] for name in lists}
    return {
        "version": ARTIFACT_VERSION,
        "timestamp": state["handoff_at"] or state["updated_at"],
        "from_agent": state["source_agent"],
        "to_agent": state["target_agent"],
        "story_context": {
            "story_id": story.get("id") or state["task_id"],
            "story_path": story.get("path", ""),
            "story_status": story.get("status") or state["phase"],
            "current_task": story.get("current_task") or state["title"],
            "branch": story.get("branch", ""),
        },
        **{name: lists[name][: limits[name]] for name in lists},
        "next_action": steps[0] if steps else "",
        "omitted": {name: count for name, count in cut.items() if count > 0},
        "full_record": state_path,
    }
