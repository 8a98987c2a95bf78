"""What has become of artifacts: the same, changed or missing since the handoff that named them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import unknown_task
from passdown.recall.state import documents

if TYPE_CHECKING:
    from passdown.ledger.disk import Project
    from passdown.store.statements import Reader

Document = dict[str, Any]

BYTES_PER_TOKEN = 4


def artifact_report(reader: Reader, task: str, project: Project) -> list[Document]:
    """Every artifact of a task with what the disk says now."""
    if reader.task(task) is None:
        raise unknown_task(task)
    return [
        {**document, "now": now_of(document, project)}
        for _, document in documents(reader, task, reader.current_artifacts(task))
    ]


def now_of(document: Document, project: Project) -> str:
    """What became of an artifact since its handoff: same, changed or missing."""
    found = project.measure(document["path"])
    recorded = document.get("sha256")
    if found.sha256 is None:
        was_deleted = document.get("change") == "delete" and recorded is None
        return "same" if was_deleted and found.problem is None else "missing"
    return "same" if found.sha256 == (recorded or "").removeprefix("sha256:") else "changed"


def path_history(reader: Reader, task: str, path: str) -> list[Document]:
    """Every entry that a task has had for a path, oldest first."""
    if reader.task(task) is None:
        raise unknown_task(task)
    return [document for _, document in documents(reader, task, reader.path_history(task, path))]


def inline_plan(artifacts: list[Document], budget_tokens: int) -> Document:
    """Which artifacts fit into a budget and which stay references, smallest first.

    Sizes stand for tokens at four bytes each, rounded up. Smallest first puts the most files
    inline.
    """
    inline: list[str] = []
    references: list[str] = []
    used = 0
    sized = sorted(artifacts, key=lambda a: (a.get("size_bytes") or 0, a["path"]))
    for artifact in sized:
        size = artifact.get("size_bytes")
        tokens = -(-(size or 0) // BYTES_PER_TOKEN)
        if size is not None and used + tokens <= budget_tokens:
            inline.append(artifact["path"])
            used += tokens
        else:
            references.append(artifact["path"])
    return {
        "budget_tokens": budget_tokens,
        "used_tokens": used,
        "inline": inline,
        "references": references,
    }
