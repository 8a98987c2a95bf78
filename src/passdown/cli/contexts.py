"""`brief`, `why`, `context`, `switch`, `artifact`, `rules`, `measure`: what an agent is given."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from passdown.cli import output as out
from passdown.cli.parsing import Budget, comma_list, command, operation
from passdown.cli.session import Session, UsageError, plain, read_input
from passdown.core.calls import COMMANDS
from passdown.core.text import first_few, visible
from passdown.errors import InvalidInput, NotFound, PassdownError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.core.types import JsonObject
    from passdown.errors import Problem
    from passdown.workspace.growth import ContextGrowth
    from passdown.workspace.rules import RulesInjected
    from passdown.workspace.switches import ArtifactCheck, Switch

_MAX_DISPLACED = 12


@command(
    "brief",
    "T-1 --agent coder",
    "T-1 --agent coder --budget 300 --counter chars4 --tag money",
    "T-1 --agent coder --format yaml --no-record",
    "T-1 --check prompt.txt",
    like="brief",
    without=("names",),
    alone={"check": (), "left_out": ("agent", "budget", "counter", "tags")},
    choices={"format": ("markdown", "plain", "yaml", "json", "summary", "injection")},
    help={
        "agent": "who it is for; default: PASSDOWN_AGENT, else your user name",
        "record": "don't record that it was delivered",
        "check": "FILE: whether this brief is still current; exit code 1 when it isn't",
        "left_out": "list the addresses of what it leaves out instead",
    },
)
def brief(
    session: Session,
    task: str,
    *,
    agent: str | None = None,
    check: str | None = None,
    left_out: bool = False,
    **options: Any,
) -> int:
    """Print what an agent needs to know about a task, within a budget."""
    with session.open() as workspace:
        if check:
            text = read_input(check).decode(errors="replace")
            return out.print_freshness(session, workspace.context.check(task, text), task)
        if left_out:
            asked = {name: options[name] for name in ("budget", "counter", "tags")}
            agent = session.author(agent)
            rest = workspace.context.left_out(task, agent=agent, names=COMMANDS, **asked)
            session.show(rest, lambda rest: [out.line(address) for address in rest])
            return 0
        with out.busy("reading"):
            found = workspace.brief(task, agent=session.author(agent), names=COMMANDS, **options)
    session.show(found, lambda found: out.verbatim(found.text.removesuffix("\n")))
    if not session.as_json:
        print_warnings(found.warnings)
    return 0


def print_warnings(warnings: Iterable[Problem]) -> None:
    """Print warnings on standard error, apart from the text."""
    for problem in warnings:
        print(visible(f"{problem.level}: {problem.line()}"), file=sys.stderr)


_print_reason = out.value_printer(
    "kind, status, recorded in=recorded_in_version, agent, delivered=told, why=reason, "
    "came first=displaced_by",
    lambda found: f"{found['item']}  {found['title']}",
    kind=lambda found: found["kind"].replace("_", " "),
    recorded_in_version=lambda found: f"version {found['recorded_in_version']}",
    agent=lambda found: f"{found['agent']}, {out.counted(found['briefs'], 'brief')} so far",
    displaced_by=lambda found: first_few(found.get("displaced_by", []), _MAX_DISPLACED),
)
_print_deliveries = out.row_printer(
    "at (UTC)=at, length, as=kind, version, budget, asked=query",
    "",
    whole="",
    short="asked",
    budget=lambda time: f"{time['budget']} {time['counter']}" if time["budget"] else "",
)


def print_why(found: JsonObject) -> None:
    """Print whether an item was in an agent's brief, when, and what came first otherwise."""
    _print_reason(found)
    if found["times"]:
        out.line()
        _print_deliveries(found["times"])


operation(
    "why",
    print_why,
    "T-1#d3 --agent coder",
    "T-1#d3 --agent coder --json",
    help={"agent": "the agent that the brief was for"},
)


@command(
    "context",
    "T-2",
    "T-2 --for computed --complexity easy --explain",
    "T-2 --for compact",
    flags={"purpose": "--for"},
    help={
        "purpose": "next: what its dependencies pass on, and its steps (default); "
        "computed: what bears on it; compact: itself in 2,000 characters",
        "complexity": "how much is computed; default: normal",
        "explain": "why each computed entry is in",
    },
)
def context(
    session: Session,
    task: str,
    *,
    purpose: Literal["next", "computed", "compact"] = "next",
    complexity: Literal["easy", "normal", "complex"] | None = None,
    explain: bool = False,
) -> None:
    """Print what earlier tasks pass on to a task."""
    if purpose != "computed" and (explain or complexity):
        raise UsageError("--explain and --complexity belong to --for computed")
    with session.open() as workspace:
        if purpose == "computed":
            found = workspace.context.computed(task, complexity=complexity or "normal")
            document = found.to_dict()
            if explain:
                document["explanation"] = found.explained()
            text = found.explained() if explain else found.text().rstrip("\n")
            session.show(document, lambda _: out.verbatim(text))
        elif purpose == "compact":
            compact = {"task": task, "text": workspace.context.compact(task)}
            session.show(compact, lambda found: out.verbatim(found["text"]))
        else:
            document = {"task": task, "text": workspace.context.injection(task)}
            document["next_steps"] = plain(workspace.context.next_steps(task))
            session.show(document, _print_next)


def _print_next(found: JsonObject) -> None:
    if found["text"]:
        out.verbatim(found["text"].rstrip("\n"))
    else:
        out.line(f"{found['task']} depends on no task")
    if found["next_steps"]:
        out.line()
        out.line(f"next steps of {found['task']}")
        for step in found["next_steps"]:
            out.line(f"{step['address']}  {step['priority']}  {step['step']}", 2)


@command(
    "switch",
    "T-1 --to coder",
    "T-1 --to coder --profiles agents --rules rules.md --json",
    "T-1 --prompt - --active planner < prompt.txt",
    like="context.prompt",
    without=("text",),
    help={
        "to_agent": "who takes over",
        "from_agent": "who leaves; default: who has the task",
        "profiles": "DIR: NAME.md files; default: the settings'",
        "rules": "FILE: text that goes in after the profile",
        "record": "record nothing",
        "prompt": "FILE: a user's prompt, or - for stdin: printed after the context of the agent "
        "that it calls with @name or /name, else as it is",
        "active": "AGENT: with --prompt: the active agent",
    },
)
def switch(
    session: Session,
    task: str,
    *,
    to_agent: str | None = None,
    from_agent: str | None = None,
    profiles: str | None = None,
    rules: str | None = None,
    prompt: str | None = None,
    active: str | None = None,
    **options: Any,
) -> None:
    """Print the whole context of an agent that takes over."""
    if prompt:
        if to_agent or from_agent or profiles or rules:
            raise UsageError(
                "--prompt finds the agent in the prompt; it goes with --active, --budget, "
                "--counter and --no-record"
            )
        _prompt(session, prompt, task=task, active=active or "", **options)
        return
    if not to_agent or active:
        raise UsageError("name who takes over with --to, or a prompt with --prompt")
    with session.open() as workspace:
        found = workspace.switch(
            task,
            to_agent=to_agent,
            from_agent=from_agent or "",
            profiles=profiles or "",
            rules=read_input(rules).decode(errors="replace") if rules else "",
            **options,
        )
    session.show(found, _print_switch)


def _print_switch(found: Switch) -> None:
    if sys.stdout.isatty():
        out.verbatim(found.text.removesuffix("\n"))
    else:
        # A model gets the profile as it is in its file, whatever it holds.
        _write_bytes(found.text.encode() + (b"" if found.text.endswith("\n") else b"\n"))
    print_warnings(found.warnings)


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _prompt(session: Session, path: str, *, active: str, **options: Any) -> None:
    """Print a prompt; it is always printed: what fails on the way is said on standard error."""
    # A prompt has no limit of its own: what is too long is for the model to refuse.
    if path == "-":
        given = sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            given = file.read()
    text = given.decode(errors="surrogateescape")
    try:
        with session.open() as workspace:
            found = workspace.context.prompt(text, active=active, **options)
    except Exception as error:  # noqa: BLE001
        is_ours = isinstance(error, PassdownError)
        known = error if is_ours else PassdownError(f"{error}", code="failed")
        if session.as_json:
            said: JsonObject = {"text": text, "agent": active, "switched": None}
            out.print_json({**said, "error": known.to_dict()})
            return
        _write_bytes(given)
        out.print_error(known, as_json=False)
        print("the prompt was passed on unchanged", file=sys.stderr)
        return
    if session.as_json:
        switched = found.switched.to_dict() if found.switched else None
        out.print_json({"text": found.text, "agent": found.agent, "switched": switched})
        return
    _write_bytes(found.text.encode(errors="surrogateescape"))
    print_warnings(found.switched.warnings if found.switched else ())


operation(
    "artifact save",
    out.value_printer(
        "path, from_agent, version", lambda saved: f"{saved['file']} waits for {saved['to_agent']}"
    ),
    "T-1 --to tester",
    method="context.save_switch",
    line="save an artifact for a later agent",
    help={"to_agent": "who it waits for", "from_agent": "default: who has the task"},
)


@command(
    "artifact list",
    "",
    "--task T-1",
    "--agent tester --json",
    help={"agent": "only what waits for it"},
)
def artifact_list(session: Session, *, task: str | None = None, agent: str | None = None) -> None:
    """List the latest artifacts, of all tasks or one, or those waiting for an agent."""
    from passdown.workspace.switches import all_artifacts

    with session.open() as workspace:
        if task:
            workspace.task(task)  # refuses an unknown one
        if task or agent:
            found = workspace.context.saved_switches(task=task or "", agent=agent or "")
        else:
            found = all_artifacts(workspace)
    empty = f"nothing is waiting for {agent}" if agent else "no artifacts"
    columns = "task, at (UTC)=at, from=from_agent, to=to_agent, version, state, file"
    states = {True: "consumed", False: "waiting"}
    print_rows = out.row_printer(columns, empty, state=lambda entry: states[entry["consumed"]])
    session.show(found, print_rows)


@command("artifact check", ".passdown/handoffs/*.yaml")
def artifact_check(session: Session, files: list[str]) -> int:
    """Check that artifact files are as they were recorded; exit code 1 when not."""
    found = {path: _compare_artifact(session, path) for path in files}
    is_sound = all(p.level != "error" for each in found.values() for p in each.problems)
    if session.as_json:
        plain = {path: [p._asdict() for p in each.problems] for path, each in found.items()}
        known = [path for path, each in found.items() if each.is_known]
        out.print_json({"sound": is_sound, "files": plain, "compared": known})
        return int(not is_sound)
    for path, each in found.items():
        verdict = "sound" if each.is_known else "well formed; not compared (no record of this file)"
        is_wrong = any(problem.level == "error" for problem in each.problems)
        out.line(f"{path}: {'not sound' if is_wrong else verdict}")
        out.print_problems(each.problems)
    return int(not is_sound)


def _compare_artifact(session: Session, path: str) -> ArtifactCheck:
    from passdown.workspace.switches import ArtifactCheck, check_artifact, compare_artifact

    try:
        data = read_input(path)
    except InvalidInput as error:
        return ArtifactCheck(list(error.problems), is_known=False)
    try:
        workspace = session.open()
    except NotFound:
        if session.named_store:
            raise
        return ArtifactCheck(check_artifact(data)[1], is_known=False)
    with workspace:
        return compare_artifact(workspace, path, data)


@command(
    "artifact show",
    "handoff.yaml --markdown",
    has_store=False,
    help={"markdown": "with headings"},
)
def artifact_show(session: Session, file: str, *, markdown: bool = False) -> None:
    """Print one artifact file."""
    from passdown.workspace.switches import artifact_view, read_artifact

    if markdown and session.as_json:
        raise UsageError("--markdown doesn't go with --json")
    data = read_input(file)
    text = artifact_view(data) if markdown else data.decode(errors="replace")
    session.show(read_artifact(data), lambda _: out.verbatim(text.rstrip("\n")))


@command(
    "artifact template",
    "> handoff.yaml",
    "--folder templates --output handoff.yaml",
    has_store=False,
    help={
        "folder": "DIR: where your own switch-artifact.yaml is",
        "output": "FILE: a new file to write it to",
    },
)
def artifact_template(
    session: Session, *, folder: str | None = None, output: str | None = None
) -> None:
    """Print an empty artifact, to fill in by hand."""
    from passdown.workspace.switches import artifact_template as template

    text = template(folder or "")
    if not output or session.as_json:
        session.show_text(text)
    if not output:
        return
    with open(output, "x", encoding="utf-8") as file:
        file.write(text)


_print_domains = out.row_printer(
    "layer, domain=name, for=trigger, rules=count, file",
    "no rules; they belong in .passdown/rules",
    whole="layer,domain",
    layer=lambda domain: f"{domain['layer']} {domain['layer_name']}",
    trigger=lambda domain: domain["trigger"] or domain["recall"] or domain["bracket"],
)


operation(
    "rules list",
    lambda report: (_print_domains(report["domains"]), out.print_findings(report["problems"])),
    "",
    line="list every domain of rules; exit code 1 when a file has errors",
    fails=lambda report: any(problem["level"] == "error" for problem in report.problems),
)


@command("rules show", "agent-dev", "keyword", help={"name": "DOMAIN: a domain or a layer"})
def rules_show(session: Session, name: str) -> None:
    """Show the rules of a domain, or of all domains of a layer."""
    with session.open() as workspace:
        domains: list[JsonObject] = workspace.rules.report().to_dict()["domains"]
    found = [domain for domain in domains if domain["name"] == name] or [
        domain for domain in domains if name.lower() in (domain["layer_name"], str(domain["layer"]))
    ]
    if not found:
        raise NotFound(
            f"there are no rules {name[:128]!r}",
            next_step="List domains and errors with passdown rules list.",
        )
    session.show(found, _print_rules)


def _print_rules(found: list[JsonObject]) -> None:
    for index, domain in enumerate(found):
        if index:
            out.line()
        out.heading(f"{domain['name']} ({domain['layer_name']}, {domain['file']})")
        out.pairs([(key, domain[key]) for key in ("trigger", "recall", "exclude", "bracket")], 2)
        for rule in domain["rules"]:
            out.line(f"- {rule}")


def _print_injected(found: RulesInjected) -> None:
    out.verbatim(found.text.rstrip("\n"))
    said = [problem.line() for problem in found.problems]
    if found.over_budget:
        said.append(f"{found.over_by} tokens over the budget of {found.bracket}; none can be cut")
    if found.compaction.due:
        said.append(f"compaction is due ({', '.join(found.compaction.reasons)})")
    if found.artifact:
        said.append(f"what was before is kept: passdown artifact show {found.artifact}")
    for text in said:
        print(visible(text), file=sys.stderr)


operation(
    "rules inject",
    _print_injected,
    "--session s1 --agent dev 'add a migration'",
    "--session s1 --used 130000 - < prompt.txt",
    line="print the rules that go with a prompt",
    without=("counter",),
    read={"prompt": lambda text: text if text != "-" else read_input("-").decode(errors="replace")},
    help={
        "prompt": "PROMPT: the prompt, or - for stdin",
        "session": "ID: the conversation it is part of",
        "agent": "the active agent; left out: as before, empty: none",
        "workflow": "NAME: the active workflow, as --agent",
        "squad": "NAME: the active squad, as --agent",
        "task": "the active task, as --agent",
        "used": "TOKENS: tokens in the context; default: estimated",
    },
)


_BAR = 24
_WIDE_TERMINAL = 100


class Limit(NamedTuple):
    """What a last context may have: tokens, or per cent of the one without."""

    value: float
    is_share: bool

    def most(self, without: int) -> int:
        """The limit in tokens."""
        return int(without * self.value / 100) if self.is_share else int(self.value)

    def said(self, without: int) -> str:
        """The limit in words, with what it is a share of."""
        most = f"{self.most(without):,}"
        return f"{most} ({self.value:g} % of {without:,})" if self.is_share else most


def context_limit(text: str) -> Limit:
    """An argument that limits a context: 6000, or 40%."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)%|(\d{1,12})", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is neither tokens nor a share such as 40%")
    return Limit(float(found[1] or found[2]), found[1] is not None)


@command(
    "measure",
    "--personas agents",
    "--personas agents --chain sm,dev,qa --svg growth.svg",
    "--personas agents --counter chars4 --check 50%",
    "--task T-1",
    types={"chain": comma_list, "check": context_limit},
    flags={"decisions": "--decisions", "files": "--files", "blockers": "--blockers"},
    help={
        "personas": "DIR: profiles (NAME.md): simulates switches between them in a new folder",
        "task": "instead: the switches that were recorded of this task",
        "chain": "AGENTS: comma-separated; default: all, in order",
        "switches": "how many; default: once round the chain",
        "decisions": "N: decisions per agent; default: 5",
        "files": "N: files per agent; default: 10",
        "blockers": "N: blockers per agent; default: 2",
        "svg": "FILE: write a picture",
        "check": "LIMIT: exit code 1 when the last context has more tokens, or more %% of the one "
        "without",
    },
)
def measure(
    session: Session,
    *,
    personas: str | None = None,
    task: str | None = None,
    counter: str | None = None,
    svg: str | None = None,
    check: Limit | None = None,
    chain: Sequence[str] | None = None,
    switches: int | None = None,
    budget: Budget | None = None,
    decisions: int | None = None,
    files: int | None = None,
    blockers: int | None = None,
) -> int:
    """Measure how contexts grow from switch to switch."""
    from passdown.workspace.growth import growth_picture, measure_growth, recorded_growth

    if bool(personas) == bool(task):
        raise UsageError("name a folder with --personas, or a task with --task")
    if switches == 0:
        raise UsageError("--switches has to be 1 or more")
    sizes = {"decisions": decisions, "files": files, "blockers": blockers}
    story = {"chain": chain, "switches": switches, "budget": budget, **sizes}
    given: dict[str, Any] = {
        name: value for name, value in story.items() if value not in (None, [])
    }
    if task:
        if given:
            raise UsageError("--task plays no story; it goes with --counter, --svg and --check")
        with session.open() as workspace:
            found = recorded_growth(workspace, task, counter or "")
    else:
        progress = out.progress_bar("measuring")
        found = measure_growth(personas or "", counter=counter, progress=progress, **given)
    if svg:
        with open(svg, "w", encoding="utf-8") as file:
            file.write(growth_picture(found))
    most = check.most(found.last.without) if check else None
    is_over = most is not None and found.last.context > most
    is_lost = bool(found.kept and found.kept.lost)
    if session.as_json:
        out.print_json({**found.to_dict(), "limit": most, "passed": not (is_over or is_lost)})
    else:
        print_growth(found)
        _print_conclusions(found, check, svg)
    return int(is_over or is_lost)


def print_growth(found: ContextGrowth) -> None:
    """Print a row per switch, with a bar: # is the context, . is what it would be without."""
    most = max(max(step.without, step.context) for step in found.steps) or 1
    is_narrow = 0 < out.terminal_width() < _WIDE_TERMINAL
    rows: list[JsonObject] = []
    for step in found.steps:
        is_more = step.context > step.without
        saved = f"more: {step.context - step.without:,}" if is_more else f"{step.saved:.1f} %"
        inked = max(round(step.context / most * _BAR), 1)
        bar = "#" * inked + "." * max(round(step.without / most * _BAR) - inked, 0)
        row = {**step.to_dict(), "saved": saved, "bar": "" if is_narrow else bar}
        sizes = ("profile", "without", "context", "on_top")
        rows.append({**row, **{name: f"{row[name]:,}" for name in sizes}})
    _print_steps(rows)


_print_steps = out.row_printer(
    "switch=number, agent, profile, without, with=context, on_top, saved, summaries, brief, bar",
    "",
    short="bar",
)


def _print_conclusions(found: ContextGrowth, most: Limit | None, picture: str | None) -> None:
    last = found.last
    out.line(
        f"tokens by {found.counter}; without: every profile, each time it was loaded "
        f"(each once: {found.each_once:,}); on top: what comes with the profile"
    )
    if found.pays_from:
        out.line(f"shorter than without from switch {found.pays_from} on")
    else:
        out.line(
            f"not shorter than without within {out.counted(len(found.steps), 'switch', 'switches')}"
        )
    if found.kept:
        total = found.kept.found + found.kept.reachable + len(found.kept.lost)
        out.line(
            f"of {total} facts that must not get lost: {found.kept.found} in the last context, "
            f"{found.kept.reachable} one step away, {len(found.kept.lost)} lost"
        )
        for text in found.kept.lost[:20]:
            out.line(f"lost: {text}", 2)
    if most is not None:
        verdict = "within" if last.context <= most.most(last.without) else "over"
        said = f"{last.context:,} tokens; the limit is {most.said(last.without)}"
        out.line(f"the last context is {verdict} the limit: {said}")
    if picture:
        out.line(f"picture: {picture}")
