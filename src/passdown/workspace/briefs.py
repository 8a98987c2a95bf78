"""Briefs: made, and their deliveries recorded before they are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from passdown.context import brief as brief_texts
from passdown.context.brief import Brief, Freshness
from passdown.context.ranking import focus_of
from passdown.context.rendering import KIND_NAMES, is_marker_of
from passdown.core.calls import COMMANDS, METHODS, NAMES, call_text
from passdown.core.kinds import deliveries_of, origins_of, stream_of
from passdown.core.names import agent_problems
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, PassdownError, Problem, raise_problems
from passdown.history.facts import HANDOFFS, FactQuery, facts_of, task_with_open_items
from passdown.ledger.channel import CHANNEL_FIELD
from passdown.ledger.writer import StreamEntry
from passdown.workspace.context import Context
from passdown.workspace.files import is_served

if TYPE_CHECKING:
    from passdown.core.tokens import Counter
    from passdown.core.types import JsonObject
    from passdown.store.statements import Reader

MAX_KEPT_TEXT = 262_144
"""A longer brief is recorded without its text."""


def brief(
    context: Context,
    task: str,
    *,
    agent: str,
    budget: int | None = None,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
    names: str = METHODS,
) -> Brief:
    """What an agent needs to know of a task, within a token budget.

    Args:
        agent: Who is to read it.
        format: markdown, plain, yaml, json, summary or injection.
        names: What it names for the rest: methods, commands, tools (of the MCP server) or
            functions (of `passdown.tools`).
    """
    return brief_for(
        context,
        task,
        agent,
        budget,
        counter=counter,
        format=format,
        tags=tags,
        record=record,
        names=names,
    )


def brief_for(
    context: Context,
    task: str,
    agent: str,
    budget: int | None = None,
    *,
    counter: CounterLike = None,
    format: str = "markdown",
    tags: Sequence[str] = (),
    record: bool = True,
    needs: Mapping[str, list[str]] | None = None,
    with_rest: bool = False,
    names: str = COMMANDS,
) -> Brief:
    """The brief of a task for an agent with these needs, or with those that it declares."""
    budget = context.settings.brief_budget if budget is None else budget
    problems = [*agent_problems(agent, "agent"), *brief_texts.request_problems(budget, format)]
    if isinstance(tags, str):
        problems.append(Problem("tags", "wrong_type", "a text given", "a list of tags"))
    if names not in NAMES:
        problems.append(Problem("names", "invalid_choice", f"{names!r:.40}", " | ".join(NAMES)))
    try:
        by = counter_of(counter, context.settings.counter)
    except InvalidInput as error:
        raise InvalidInput("no brief was made", [*problems, *error.problems]) from None
    raise_problems("no brief was made", problems)
    with context.store.reading() as reader:
        if format == "summary":
            found = _summary(context, reader, task, agent, budget=budget, counter=by)
        else:
            row, open_items = task_with_open_items(reader, task)
            handoffs = reader.titles_before(task, "h", NEWEST, HANDOFFS)
            summary = next((handoff.title for handoff in handoffs if handoff.title), "")
            focus = focus_of(row, open_items, needs or context.needs_of(agent), tags, summary)
            facts = facts_of(
                reader,
                row,
                open_items,
                handoffs,
                FactQuery(agent, focus.labels, focus.related),
                project=context.project,
            )._replace(names=names)
            found = brief_texts.brief(
                *(facts, agent, budget),
                counter=by,
                focus=focus,
                format=format,
                with_rest=with_rest,
            )
        found = _with_origin(context, reader, found)
    if is_served() and any(item.stale for item in found.shown):
        message = "what is marked as changed has changed in the server's checkout since"
        fix = "artifacts(task) of a workspace in Python compares with the files here"
        whose = Problem("files", "files_of_server", message, "", fix, "warning")
        found = found._replace(warnings=(*found.warnings, whose))
    return _recorded(context, found) if record else found


def left_out(
    context: Context,
    task: str,
    *,
    agent: str,
    budget: int | None = None,
    counter: CounterLike = None,
    tags: Sequence[str] = (),
    names: str = METHODS,
) -> list[str]:
    """The addresses of all items and texts of the task that a brief doesn't show, in the order in
    which a larger budget would show them; `show` gives each.

    Args:
        agent: Who would read the brief.
        names: What that brief names for the rest; it counts towards the budget.
    """
    found = brief_for(
        *(context, task, agent, budget),
        counter=counter,
        tags=tags,
        record=False,
        with_rest=True,
        names=names,
    )
    return list(found.waiting)


def _with_origin(context: Context, reader: Reader, found: Brief) -> Brief:
    """The brief with a warning where the task was imported and was at another commit."""
    if reader.head(origins_of(found.task)) is None:
        return found
    from passdown.workspace.maintenance import origin_warnings

    warnings = origin_warnings(context, reader, found.task, found.version)
    return found._replace(warnings=(*found.warnings, *warnings))


def _summary(
    context: Context, reader: Reader, task: str, agent: str, *, budget: int, counter: Counter
) -> Brief:
    """The task's summary as a brief: a few fixed lines and the file for everything else."""
    from passdown.workspace.queries import summary_from

    row, open_items = task_with_open_items(reader, task)
    text = summary_from(context, reader, row, budget, counter)
    live: dict[str, int] = row.header["live"]
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
        left_out={KIND_NAMES[letter]: count for letter, count in live.items() if count},
        waiting=tuple(item.address for item in open_items[:40]),
        parts={"summary": counter.tokens(text)},
        reach=(call_text(COMMANDS, "state", task), context.state_location(task, row)),
    )


def _recorded(context: Context, found: Brief) -> Brief:
    """Record a delivery. An agent gets its brief even where that can't be written down."""
    body = delivery_of(found)
    try:
        context.ledger.deliver(found.task, "briefed", found.agent, body)
    except PassdownError as error:
        message = f"that this brief was delivered could not be recorded: {error.message}"
        warning = Problem("", "not_recorded", message, "", error.next_step, "warning")
        return found._replace(warnings=(*found.warnings, warning))
    return found


def delivery_of(found: Brief) -> JsonObject:
    """What is written down of a brief: to whom, from what, which items, what waited, its text."""
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
        "text": found.text if len(found.text) <= MAX_KEPT_TEXT else "",
    }


def deliver_again(context: Context, given: Sequence[tuple[Brief, str | None]]) -> list[bool]:
    """Record that briefs are given which were made a moment ago, each through the channel that is
    named beside it (None: that isn't recorded), all in one transaction.

    Tells which of them still hold: of a task that has changed since, nothing is recorded.
    """
    with context.store.reading() as reader:
        heads = {brief.task: reader.head(stream_of(brief.task)) for brief, _ in given}
    digests = {task: head.digest if head else "" for task, head in heads.items()}
    entries: list[StreamEntry] = []
    for brief, via in given:
        if via is not None and digests[brief.task] == brief.digest:
            body = {**delivery_of(brief), **({CHANNEL_FIELD: via} if via else {})}
            entries.append(StreamEntry(deliveries_of(brief.task), "briefed", brief.agent, body))
    if entries:
        context.ledger.add_entries(entries)
    return [digests[brief.task] == brief.digest for brief, _ in given]


def check_text(context: Context, task: str, text: str) -> Freshness:
    """Whether a brief or a summary was made from the version of the task that is stored now.

    Args:
        text: The brief or the summary.
    """
    found = brief_texts.brief_version(text)
    if found is None:
        problem = Problem("text", "no_version", "names no version", "a line with its version")
        raise InvalidInput("the text can't be judged", [problem])
    named = brief_texts.task_named_in(text)
    if named and named != task:
        problem = Problem("text", "other_task", f"is of {named}", f"a brief of {task}")
        raise InvalidInput("the text can't be judged", [problem])
    with context.store.reading() as reader:
        row = reader.existing_task(task)
    version, proof = found
    is_same = proof == row.digest or is_marker_of(proof, row.digest)
    return Freshness(is_same and version == row.version, version, row.version)
