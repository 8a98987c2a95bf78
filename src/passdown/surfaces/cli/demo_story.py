"""The later chapters of `demo`: what agents were told, what is remembered, how changes show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.surfaces.cli.demo_briefs import growth
from passdown.surfaces.cli.demo_relay import history
from passdown.surfaces.cli.printing import counted, line

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.surfaces.cli.demo import Stage

_WHY = "binary fractions can't hold a tenth, and sums drift"
_ASKED = "## What is asked of you"


def _told(stage: Stage, agent: str) -> list[str]:
    """Everything that an agent was told in the run, as it is in the ledger."""
    from passdown.model.conversation import MESSAGE, conversation_stream
    from passdown.workspace.beside import Beside

    run = stage.notes["run"].run
    stream = conversation_stream(agent, f"{agent}.{run}", "T-1")
    bodies = [r.document() for r in Beside(stage.workspace).records(stream) if r.kind == MESSAGE]
    messages = [body["message"] for body in bodies]
    return [message["content"] for message in messages if message["role"] == "user"]


def _returned(stage: Stage) -> None:
    stage.chapter("The coder's first handoff was faulty; it got every reason at once")
    faults = next(text for text in _told(stage, "coder") if text.startswith("Your handoff"))
    stage.says("coder", "was told:")
    for text in faults.splitlines():
        line(text, 4)


def _brief(stage: Stage) -> None:
    run = stage.notes["run"]
    turn = next(t for t in run.legs.values() if (t.agent, t.visit) == ("reviewer", 2))
    stage.chapter("What the reviewer knew on its second visit: its brief")
    text = _told(stage, "reviewer")[-1].partition(_ASKED)[0].strip()
    for part in text.splitlines():
        line(part, 4)
    measured = turn.measured
    stage.good(
        f"{measured['brief_tokens']} tokens of a budget of {run.relay.budget}; its whole context, "
        f"with its profile and what it said before: {measured['context_tokens']:,}"
    )


def _recall(stage: Stage) -> None:
    stage.chapter("Ask the past")
    question = "how is half a cent rounded?"
    stage.types(f"passdown recall '{question}'")
    kinds = ("gotcha", "decision")
    for answer in stage.workspace.recall(question, kinds=kinds, by_words=True, limit=2):
        line(f"{answer.address} {answer.kind} by {answer.agent}: {answer.title}", 4)


def _safety(stage: Stage) -> None:
    stage.chapter("Changes show: verify, a byte changed behind its back, an old copy put back")
    stage.types("passdown verify")
    from passdown.workspace import open as open_workspace

    workspace = stage.workspace
    old = os.path.join(stage.root, "copy-old.db")
    workspace.backup(old)
    workspace.warn("T-1", agent="planner", text="Invoices need the tax rate of the day of sale")
    heads = workspace.heads()
    found = workspace.verify()
    records, streams = counted(found.records, "record"), counted(found.streams, "stream")
    stage.good(f"{records} in {streams} are as they were written")
    changed = os.path.join(stage.root, "copy-changed.db")
    workspace.backup(changed)
    with open(changed, "rb") as file:
        data = file.read()
    with open(changed, "wb") as file:
        # Everywhere: pages that are no longer in use may hold the text as well.
        file.write(data.replace(_WHY.encode(), b"B" + _WHY[1:].encode()))
    stage.tells("one byte of a decision's reason is changed in a copy of the database:")
    with open_workspace(changed, create=False) as copy:
        findings = copy.verify(chain_only=True).findings
        stage.found(next(each.line() for each in findings if each.path.startswith("task/")))
    stage.tells("an older copy is put in place of the database; taken by itself, it looks whole:")
    with open_workspace(old, create=False) as copy:
        alone = copy.verify()
        stage.good(f"verify finds {counted(len(alone.findings), 'fault')} in the older copy")
        stage.tells("compared with the heads that were saved elsewhere, it is found out:")
        stage.found(copy.verify(heads).findings[0].line())


STORY_CHAPTERS: tuple[Callable[[Stage], None], ...] = (
    _returned,
    _brief,
    _recall,
    growth,
    history,
    _safety,
)
