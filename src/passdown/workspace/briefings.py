"""Briefs: what an agent is told, that it was told, and why it wasn't told something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.briefing.brief import Brief, ask_problems, brief, made_from, task_named_in
from passdown.briefing.focus import focus_of
from passdown.errors import InvalidInput, PassdownError, Problem, unknown_task
from passdown.model.kinds import origins_of
from passdown.model.names import agent_problems
from passdown.model.tokens import counter_of
from passdown.recall.facts import Search, facts_of, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.briefing.summary import Freshness
    from passdown.model.rows import TaskRow
    from passdown.model.tokens import Counter
    from passdown.store.statements import Reader
    from passdown.workspace.aliases import CounterLike
    from passdown.workspace.opened import Opened

Document = dict[str, Any]


def brief_for(
    opened: Opened,
    task: str,
    agent: str,
    budget: int | None,
    *,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
    needs: dict[str, list[str]] | None = None,
) -> Brief:
    """The brief of a task for an agent; that it was delivered is recorded beside the task."""
    budget = opened.settings.brief_budget if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *ask_problems(budget, format)]
    if isinstance(tags, str):
        problems.append(Problem("tags", "wrong_type", "a text given", "a list of tags"))
    try:
        by = counter_of(counter, opened.settings.counter)
    except InvalidInput as error:
        raise InvalidInput("no brief was made", [*problems, *error.problems]) from None
    if problems:
        raise InvalidInput("no brief was made", problems)
    with opened.store.reading() as reader:
        if format == "summary":
            found = _summary(opened, reader, task, agent, budget=budget, counter=by)
        else:
            row, open_items = standing(reader, task)
            focus = focus_of(row, open_items, needs or opened.needs_of(agent), tags)
            facts = facts_of(
                reader,
                row,
                open_items,
                Search(focus.labels, focus.concerns),
                project=opened.project,
                state_file=opened.state_place(task),
            )
            found = brief(facts, agent, budget, counter=by, focus=focus, format=format)
        found = _with_origin(opened, reader, found)
    return _recorded(opened, found) if record else found


def _with_origin(opened: Opened, reader: Reader, found: Brief) -> Brief:
    """The brief with a warning where the task came from another machine and stood elsewhere."""
    if reader.head(origins_of(found.task)) is None:
        return found
    from passdown.workspace.bundling import warned_of_origin

    warnings = warned_of_origin(opened, reader, found.task, found.version)
    return found._replace(warnings=(*found.warnings, *warnings))


def _summary(
    opened: Opened, reader: Reader, task: str, agent: str, *, budget: int, counter: Counter
) -> Brief:
    """The task's summary as a brief: a few fixed lines and the file for everything else."""
    from passdown.workspace.reading import summary_from

    row, open_items = standing(reader, task)
    text = summary_from(opened, reader, row, budget, counter)
    live = {k: v for k, v in row.header["live"].items() if v}
    return Brief(
        task=task,
        agent=agent,
        version=row.version,
        digest=row.digest,
        budget=budget,
        counter=counter.name,
        format="summary",
        text=text,
        tokens=counter.tokens(text),
        shown=(),
        left_out=_by_word(live),
        waiting=tuple(item.address for item in open_items[:40]),
        parts={"summary": counter.tokens(text)},
        reach=(f"passdown state {task}", opened.state_place(task)),
    )


def _by_word(live: dict[str, int]) -> dict[str, int]:
    from passdown.briefing.renderings import WORDS

    return {WORDS[letter]: count for letter, count in live.items()}


def _recorded(opened: Opened, found: Brief) -> Brief:
    """Record a delivery. An agent gets its brief even where that can't be written down."""
    body = delivery_of(found)
    try:
        opened.ledger.deliver(found.task, "briefed", found.agent, body)
    except PassdownError as error:
        message = f"that this brief was delivered could not be recorded: {error.message}"
        warning = Problem("", "not_recorded", message, "", error.next_step, "warning")
        return found._replace(warnings=(*found.warnings, warning))
    return found


def delivery_of(found: Brief) -> Document:
    """What is written down of a brief: to whom, from what, which items, and what waited."""
    return {
        "agent": found.agent,
        "version": found.version,
        "digest": found.digest,
        "budget": found.budget,
        "counter": found.counter,
        "format": found.format,
        "tokens": found.tokens,
        "shown": {item.address: item.length for item in found.shown},
        "left_out": found.left_out,
        "waiting": list(found.waiting),
    }


def check_brief(opened: Opened, task: str, text: str) -> Freshness:
    """Whether a brief was made from the version of the task that is stored now."""
    from passdown.briefing.summary import Freshness

    found = made_from(text)
    if found is None:
        problem = Problem("brief", "no_version", "names no version", "a line with its version")
        raise InvalidInput("the brief can't be judged", [problem])
    named = task_named_in(text)
    if named and named != task:
        problem = Problem("brief", "other_task", f"is of {named}", f"a brief of {task}")
        raise InvalidInput("the brief can't be judged", [problem])
    with opened.store.reading() as reader:
        row: TaskRow | None = reader.task(task)
    if row is None:
        raise unknown_task(task)
    short = row.digest.removeprefix("sha256:")[: len(found[1])]
    return Freshness(found == (row.version, short), found[0], row.version)
