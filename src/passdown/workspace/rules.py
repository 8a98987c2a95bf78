"""Rules for a prompt: read the files, update the session, select within the budget; when to
compact.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.context.rules import (
    LAYERS,
    MANIFEST,
    DroppedSection,
    Extras,
    LayerRun,
    Manifest,
    RulesRequest,
    RulesText,
    fit_rules,
    layer_providers,
    parse_manifest,
    parse_rules,
    run_layers,
)
from passdown.context.sessions import (
    Active,
    Compaction,
    Session,
    active_problems,
    begin_prompt,
    bracket_of,
    compaction_of,
    counted,
    ended,
    estimated_tokens,
    is_number,
    is_stale,
    read_session,
    remaining_percent,
    used_since,
)
from passdown.core.codec import as_document, encode, short_repr
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.views import RuleReport
from passdown.errors import PassdownError, Problem, raise_problems
from passdown.history.profiles import RuleFiles, SessionFiles, session_warning
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from datetime import datetime

    from passdown.core.tokens import Counter


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
    layers: tuple[LayerRun, ...]
    fallen: tuple[DroppedSection, ...]
    switched: tuple[str, ...]
    compaction: Compaction
    problems: tuple[Problem, ...]
    session: Session
    over_budget: bool
    over_by: int
    held: tuple[str, ...]
    artifact: str = ""

    to_dict = as_document
    __repr__ = short_repr


class _Request(NamedTuple):
    """A prompt's facts after they were checked."""

    prompt: str
    active: Active
    used_tokens: object
    counter: Counter
    memory: tuple[str, ...]
    summary: str


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
        counter: How tokens are counted: a name, or a function from text to a number.
        memory: Texts worth remembering, for brackets that have room for them.
        summary: A summary of what happened so far.
    """
    active = Active(agent, workflow, squad, task)
    hints = tuple(memory) if isinstance(memory, list | tuple) else (memory,)
    _check(prompt, active, hints, summary)
    request = _Request(
        prompt,
        active,
        used,
        counter_of(counter, context.settings.counter),
        cast("tuple[str, ...]", hints),
        summary,
    )
    files = SessionFiles(os.path.join(context.place.folder, "sessions"))
    files.path(session)
    now = context.clock()
    rules = read_rules(context)
    problems = list(rules.problems)
    with files.alone(problems):
        before = _session(files, session, now, problems)
        result = _injected(context, rules, before, request, now)
        files.write(session, result.session.to_dict(), problems)
    result = result._replace(problems=(*problems, *result.problems))
    return _with_artifact(context, before.active_agent, result)


def _with_artifact(context: Context, from_agent: str, result: RulesInjected) -> RulesInjected:
    """Save the artifact of a switch between two prompts, of an agent, a workflow or a squad."""
    session = result.session
    agent, task = session.active_agent, session.active_task
    if not (result.switched and agent and task):
        return result
    from passdown.workspace.prompts import LOCK_TIMEOUT_S
    from passdown.workspace.switches import save_domain_switch

    try:
        with closing(context.impatient(LOCK_TIMEOUT_S)) as quick:
            path = save_domain_switch(quick, task, from_agent or agent, agent)
    except PassdownError as error:
        message = f"the artifact of the switch was not saved: {error.message}"
        problem = Problem("", "not_saved", message, "", error.next_step, "warning")
        return result._replace(problems=(*result.problems, problem))
    return result._replace(artifact=os.path.relpath(path, context.root) if path else "")


def _check(prompt: object, active: Active, memory: Sequence[object], summary: object) -> None:
    texts = [("prompt", prompt), ("summary", summary), *(("memory", hint) for hint in memory)]
    problems = active_problems(active)
    problems += [
        Problem(path, "wrong_type", f"{type(value).__name__} given", "text")
        for path, value in texts
        if not isinstance(value, str)
    ]
    raise_problems("no rules can be chosen for this prompt", problems)


def _session(files: SessionFiles, id: str, now: datetime, problems: list[Problem]) -> Session:
    """The session as its last prompt left it; a new one if it is missing, broken or old."""
    document = files.read(id, problems)
    if document is None:
        return Session(id)
    found = read_session(document, id)
    if found is None:
        problems.append(session_warning("session_broken", "is no session; starts over"))
    elif is_stale(found, now):
        said = f"last seen {found.updated_at}, more than a day from now; starts over"
        problems.append(session_warning("session_stale", said))
    else:
        return found
    return Session(id)


def _injected(
    context: Context, rules: Manifest, before: Session, request: _Request, now: datetime
) -> RulesInjected:
    window = context.settings.window
    session, switched = begin_prompt(before, request.active)
    known = request.used_tokens
    session = counted(session, known)
    used = known if known is not None else _reckoned(session)
    percent = remaining_percent(window, used_tokens=used)
    bracket = bracket_of(percent)
    asked = RulesRequest(
        request.prompt,
        session.active_agent,
        session.active_workflow,
        session.active_task,
        session.active_squad,
        bracket.name,
    )
    chosen = run_layers(bracket, layer_providers(rules.domains, asked), TIMER)
    faults = sum(problem.level == "error" for problem in rules.problems)
    is_estimated = known is None and session.used_tokens is not None
    extras = Extras(request.memory, request.summary, rules.devmode, faults, is_estimated)
    text = fit_rules(bracket, percent, chosen, request.counter, extras)
    names = [name for run in text.layers if run.state == "used" for name in run.domains]
    return RulesInjected(
        text.text,
        text.tokens,
        bracket.name,
        percent,
        text.layers,
        text.fallen,
        switched,
        _compaction(context, used, switched),
        (*_number_problems(known), *_layer_problems(text)),
        ended(session, percent, names, now),
        text.over_by > 0,
        text.over_by,
        text.held,
    )


def _reckoned(session: Session) -> float | None:
    """What is used by now: since the last count, else since the beginning."""
    since = used_since(session.used_tokens, session.prompt_count - session.counted_at)
    return estimated_tokens(session.prompt_count) if since is None else since


def _number_problems(used: object) -> list[Problem]:
    if used is None or (is_number(used) and used >= 0):
        return []
    message = f"{used!r:.40} is no number of tokens; taken for a full context"
    return [Problem("used_tokens", "wrong_type", message, "0 or more", level="warning")]


def _layer_problems(text: RulesText) -> list[Problem]:
    return [
        Problem(f"layer {run.name}", f"layer_{run.state}", run.detail, level="warning")
        for run in text.layers
        if run.state in ("slow", "failed")
    ]


def _compaction(context: Context, used: object, switched: tuple[str, ...] = ()) -> Compaction:
    found = compaction_of(used, context.settings.window, context.settings.compact_at)
    if not switched:
        return found
    return found._replace(due=True, reasons=(*found.reasons, "switch"))


def compaction(context: Context, used: int) -> Compaction:
    """Whether a context of this size is due for compaction, by the window in the settings.

    Args:
        used: How many tokens are used.
    """
    return _compaction(context, used)


def read_rules(context: Context) -> Manifest:
    """Every domain with its rules, and all problems; nothing where there is no folder.

    A domain whose file can't be read is left out; of one with faulty lines, the others hold.
    """
    files = RuleFiles(rules_folder(context))
    if not files.exists():
        return Manifest()
    text = files.text(MANIFEST)
    if isinstance(text, Problem):
        return Manifest(problems=(text,))
    manifest = parse_manifest(text)
    problems = list(manifest.problems)
    domains = [
        domain._replace(rules=rules)
        for domain in manifest.domains
        if (rules := _rules(files, domain.file, problems)) is not None
    ]
    return manifest._replace(domains=tuple(domains), problems=tuple(problems))


def _rules(files: RuleFiles, name: str, problems: list[Problem]) -> tuple[str, ...] | None:
    text = files.text(name)
    if isinstance(text, Problem):
        problems.append(text)
        return None
    rules, faults = parse_rules(text, name)
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
            "layer_name": LAYERS[domain.layer].name,
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
