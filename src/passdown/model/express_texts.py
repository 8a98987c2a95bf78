"""What is written about an express item: in its commit, to its reviewers, in its task. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.express import ExpressItem

_MAX_SHOWN = 40_000


def commit_message(item: ExpressItem, mark: str) -> str:
    """The message of its commit. The last lines are for programs, the mark among them."""
    given = visible(str(item.content.get("message") or ""), keep_newlines=True).strip()
    reason = visible(item.reason, keep_newlines=True).strip()
    parts = [visible(item.title)]
    parts += [text for text in (given, reason) if text and text != parts[0]]
    trailers = [mark, f"Passdown-Kind: {item.kind}", f"Passdown-By: {item.by}"]
    trailers += [f"Passdown-Task: {item.task}"] if item.task else []
    return "\n\n".join([*parts, "\n".join(trailers)]) + "\n"


def request_body(item: ExpressItem, facts: Mapping[str, Any]) -> str:
    """What the reviewers of its branch are told; `facts` are what was committed."""
    lines = [visible(item.reason, keep_newlines=True), "", f"- {item.kind} {item.id}"]
    lines += [f"- by {item.by}", f"- commit {facts['commit']}"]
    lines += [f"- task {item.task}"] if item.task else []
    lines += [f"- changes {visible(path)}" for path in facts["files"]]
    lines += [f"- {visible(Problem(**report).line())}" for report in facts["reports"]]
    return "\n".join(lines) + "\n"


def task_description(item: ExpressItem, failed: Mapping[str, Any]) -> str:
    """All that is known of an item that failed; a long content is in its record as a whole."""
    content = json.dumps(dict(item.content), ensure_ascii=False, indent=1)
    if len(content) > _MAX_SHOWN:
        content = f"{content[:_MAX_SHOWN]}\n(cut: the record {item.stream} has all of it)"
    about = f" about {item.task}" if item.task else ""
    sent = f"{item.by} sent the express item {item.id} ({item.kind}, from {item.base}){about}"
    return "\n\n".join(
        [
            f"{sent}: {item.reason}",
            f"It could not be carried out: {failed['why']}",
            f"Evidence:\n{failed['evidence']}",
            f"It was to bring:\n{content}",
        ]
    )
