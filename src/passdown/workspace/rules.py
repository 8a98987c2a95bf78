"""Rules for a prompt: read the files, update the session, select within the budget; when to
compact.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.context import rules as selection
from passdown.context import sessions
from passdown.context.sessions import Compaction
from passdown.core.codec import as_document, encode, short_repr
from passdown.core.results import RuleReport
from passdown.core.tokens import CounterLike, counter_of
from passdown.errors import PassdownError, Problem, raise_problems
from passdown.history.profiles import SessionFiles, session_warning, text_beneath
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from datetime import datetime


# The processor's time: a busy machine then costs no layer. Files are read beforehand.
TIMER = time.thread_time


class RulesInjected(NamedTuple):
    """What goes into a prompt, and what was left out of it.

    `switched` names the scopes whose domain changed with this prompt; compaction is due then, and
    `artifact` is the file that keeps what was before.
    `over_budget`: what never falls is longer than the budget, `over_by` tokens. `held` names what
    the bracket keeps back.
    """

    text: str
    tokens: int
    bracket: str
    percent: float
    layers: tuple[selection.LayerRun, ...]
    fallen: tuple[selection.DroppedSection, ...]
    switched: tuple[str, ...]
    compaction: Compaction
    problems: tuple[Problem, ...]
    session: sessions.Session
    over_budget: bool
    over_by: int
    held: tuple[str, ...]
    artifact: str = ""

    to_dict = as_document
    __repr__ = short_repr


def inject_rules(
    context: Context,
    prompt: str = "",
    *,
    session: str,
    agent: str | None = None,
    workflow: str | None = None,
    squad: str | None = None,
    task: str | None = None,
    used: int | None = None,
    counter: CounterLike = None,
    memory: Sequence[str] = (),
    summary: str = "",
) -> RulesInjected:
    """The rules for a prompt, by layer, within the bracket of what context remains.

    None keeps what the session has active; an empty text means none. The session is updated and
    saved; a save that fails is a warning among the problems.

    Args:
        prompt: What the user typed.
        session: The id of the session.
        agent: The active agent.
        workflow: The active workflow.
        squad: The active squad.
        task: The active task.
        used: How many tokens of the context are used.
        memory: Texts worth remembering, for brackets that have room for them.
        summary: A summary of what happened so far.
    """
    active = sessions.Active(agent, workflow, squad, task)
    hints = tuple(memory) if isinstance(memory, list | tuple) else (memory,)
    _check(prompt, active, hints, summary)
    by = counter_of(counter, context.settings.counter)
    files = SessionFiles(os.path.join(context.place.folder, "sessions"))
    files.path(session)
    now = context.clock()
    rules = read_rules(context)
    problems = list(rules.problems)
    with files.alone(problems):
        before = _session(files, session, now, problems)
        after, switched = sessions.begin_prompt(before, active)
        after = sessions.counted(after, used)
        spent = used if used is not None else _reckoned(after)
        percent = sessions.remaining_percent(context.settings.window, used_tokens=spent)
        bracket = sessions.bracket_of(percent)
        asked = selection.RulesRequest(
            prompt,
            after.active_agent,
            after.active_workflow,
            after.active_task,
            after.active_squad,
            bracket.name,
        )
        chosen = selection.run_layers(
            bracket, selection.layer_providers(rules.domains, asked), TIMER
        )
        faults = sum(problem.level == "error" for problem in rules.problems)
        is_estimated = used is None and after.used_tokens is not None
        texts = cast("tuple[str, ...]", hints)
        extras = selection.Extras(texts, summary, rules.devmode, faults, is_estimated)
        text = selection.fit_rules(bracket, percent, chosen, by, extras)
        names = [name for run in text.layers if run.state == "used" for name in run.domains]
        after = sessions.ended(after, percent, names, now)
        files.write(session, after.to_dict(), problems)
    result = RulesInjected(
        text.text,
        text.tokens,
        bracket.name,
        percent,
        text.layers,
        text.fallen,
        switched,
        _compaction(context, spent, switched),
        (*problems, *_number_problems(used), *_layer_problems(text)),
        after,
        text.over_by > 0,
        text.over_by,
        text.held,
    )
    return _with_artifact(context, before.active_agent, result)


def _with_artifact(context: Context, from_agent: str, result: RulesInjected) -> RulesInjected:
    """Save the artifact of a switch between two prompts, of an agent, a workflow or a squad."""
    session = result.session
    agent, task = session.active_agent, session.active_task
    if not (result.switched and agent and task):
        return result
    from passdown.workspace.switches import LOCK_TIMEOUT_S, save_domain_switch

    try:
        with closing(context.impatient(LOCK_TIMEOUT_S)) as quick:
            path = save_domain_switch(quick, task, from_agent or agent, agent)
    except PassdownError as error:
        message = f"the artifact of the switch was not saved: {error.message}"
        problem = Problem("", "not_saved", message, "", error.next_step, "warning")
        return result._replace(problems=(*result.problems, problem))
    return result._replace(artifact=os.path.relpath(path, context.root) if path else "")


def _check(
    prompt: object, active: sessions.Active, memory: Sequence[object], summary: object
) -> None:
    texts = [("prompt", prompt), ("summary", summary), *(("memory", hint) for hint in memory)]
    problems = sessions.active_problems(active)
    problems += [
        Problem(path, "wrong_type", f"{type(value).__name__} given", "text")
        for path, value in texts
        if not isinstance(value, str)
    ]
    raise_problems("no rules can be chosen for this prompt", problems)


def _session(
    files: SessionFiles, id: str, now: datetime, problems: list[Problem]
) -> sessions.Session:
    """The session as its last prompt left it; a new one if it is missing, broken or old."""
    document = files.read(id, problems)
    if document is None:
        return sessions.Session(id)
    found = sessions.read_session(document, id)
    if found is None:
        problems.append(session_warning("session_broken", "is no session; starts over"))
    elif sessions.is_stale(found, now):
        said = f"last seen {found.updated_at}, more than a day from now; starts over"
        problems.append(session_warning("session_stale", said))
    else:
        return found
    return sessions.Session(id)


def _reckoned(session: sessions.Session) -> float | None:
    """What is used by now: since the last count, else since the beginning."""
    since = sessions.used_since(session.used_tokens, session.prompt_count - session.counted_at)
    return sessions.estimated_tokens(session.prompt_count) if since is None else since


def _number_problems(used: object) -> list[Problem]:
    if used is None or (sessions.is_number(used) and used >= 0):
        return []
    message = f"{used!r:.40} is no number of tokens; taken for a full context"
    return [Problem("used_tokens", "wrong_type", message, "0 or more", level="warning")]


def _layer_problems(text: selection.RulesText) -> list[Problem]:
    return [
        Problem(f"layer {run.name}", f"layer_{run.state}", run.detail, level="warning")
        for run in text.layers
        if run.state in ("slow", "failed")
    ]


def _compaction(context: Context, used: object, switched: tuple[str, ...] = ()) -> Compaction:
    found = sessions.compaction_of(used, context.settings.window, context.settings.compact_at)
    if not switched:
        return found
    return found._replace(due=True, reasons=(*found.reasons, "switch"))


def compaction(context: Context, used: int) -> Compaction:
    """Whether a context of this size is due for compaction, by the window in the settings.

    Args:
        used: How many tokens are used.
    """
    return _compaction(context, used)


def read_rules(context: Context) -> selection.Manifest:
    """Every domain with its rules, and all problems; nothing where there is no folder.

    A domain whose file can't be read is left out; of one with faulty lines, the others hold.
    """
    folder = rules_folder(context)
    if not os.path.lexists(folder):
        return selection.Manifest()
    text = text_beneath(folder, selection.MANIFEST)
    if isinstance(text, Problem):
        return selection.Manifest(problems=(text,))
    manifest = selection.parse_manifest(text)
    problems = list(manifest.problems)
    domains = [
        domain._replace(rules=rules)
        for domain in manifest.domains
        if (rules := _rules(folder, domain.file, problems)) is not None
    ]
    return manifest._replace(domains=tuple(domains), problems=tuple(problems))


def _rules(folder: str, name: str, problems: list[Problem]) -> tuple[str, ...] | None:
    text = text_beneath(folder, name)
    if isinstance(text, Problem):
        problems.append(text)
        return None
    rules, faults = selection.parse_rules(text, name)
    problems += faults
    return rules


def rules_folder(context: Context) -> str:
    """Where the rules are; a relative setting counts from the project root."""
    return os.path.join(context.root, context.settings.rules_folder)


def rule_report(context: Context) -> RuleReport:
    """All domains of rules with layer, file and rules, and what is wrong with the files."""
    rules = read_rules(context)
    domains = [
        {
            **domain._asdict(),
            "layer_name": selection.LAYERS[domain.layer].name,
            "bracket": domain.brackets,
            "count": len(domain.rules),
        }
        for domain in rules.domains
    ]
    document = {
        "folder": rules_folder(context),
        "devmode": rules.devmode,
        "domains": [{k: v for k, v in domain.items() if k != "brackets"} for domain in domains],
        "problems": rules.problems,
    }
    return RuleReport(encode(document))
