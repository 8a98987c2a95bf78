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


def _moved(data: Plain, names: dict[str, str]) -> Plain:
    """The fields that only change their name; the others stay as they are, so none is lost."""
    return {names.get(name, name): value for name, value in data.items()}


def _each(value: object, names: dict[str, str], text: str) -> Any:
    """A list of parts with their fields renamed; a bare text becomes the part's main field."""
    if not isinstance(value, list):
        return value
    return [
        _moved(cast("Plain", part), names) if isinstance(part, dict) else {text: part}
        for part in cast("list[object]", value)
    ]


def _from_state_file(data: Plain) -> Plain:
    kept = {k: v for k, v in data.items() if k not in _STATE_ONLY}
    handoff = _moved(kept, _STATE_NAMES)
    handoff["artifacts"] = _artifacts(data.get("artifacts", []))
    decision = {"decision": "summary", "timestamp": "at"}
    handoff["decisions"] = _each(data.get("decisions_made", []), decision, "summary")
    blocker = {"issue": "blocker", "suggested_action": "suggested_resolution"}
    handoff["blockers"] = _each(data.get("blocking_issues", []), blocker, "blocker")
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
    names = {"artifact_type": "type", "content_hash": "sha256"}
    parts = _each(given, names, "path")
    return [_without_odd_hash(a) for a in parts] if isinstance(given, list) else parts


def _without_odd_hash(artifact: Any) -> Any:
    """Hashes are taken from disk; one that isn't a SHA-256 is kept aside rather than trusted."""
    given = artifact.get("sha256")
    if given is None or (isinstance(given, str) and _SHA256.fullmatch(given)):
        return artifact
    return {**{k: v for k, v in artifact.items() if k != "sha256"}, "content_hash": given}


def _from_artifact(data: Plain) -> Plain:
    given: object = data.get("story_context") or {}
    story = cast("Plain", given) if isinstance(given, dict) else {}
    names = {"story_id": "id", "story_path": "path", "story_status": "status"}
    dropped = {"story_context", "next_action", "version", "timestamp", "files_modified"}
    handoff = {k: v for k, v in data.items() if k not in dropped}
    handoff["story"] = _moved(story, names) if story or not given else given
    handoff.setdefault("task", story.get("story_id"))
    # An artifact lists the newest first, a handoff in the order of happening.
    decisions = _each(data.get("decisions", []), {"decision": "summary"}, "summary")
    handoff["decisions"] = _with({"rationale": NOT_STATED}, decisions)
    files = _each(data.get("files_modified", []), {}, "path")
    handoff["artifacts"] = _with({"change": "modify"}, files)
    _keep(handoff, "switch_artifact", data, ("version", "timestamp"))
    handoff["blockers"] = _each(data.get("blockers", []), {}, "blocker")
    if data.get("next_action"):
        handoff["suggested_next_steps"] = [{"step": data["next_action"], "priority": "high"}]
    handoff.setdefault("outcome", "partial" if handoff["blockers"] else "completed")
    return handoff


def _with(defaults: Plain, parts: object) -> Any:
    """Parts in reversed order, each with defaults; what is no list is for the schema to refuse."""
    if not isinstance(parts, list):
        return parts
    return [{**defaults, **part} for part in reversed(cast("list[Plain]", parts))]


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
