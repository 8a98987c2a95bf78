"""`switch`, `artifact`, `rules` and `measure`: the whole context of an agent that takes over."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from passdown.cli.briefs import print_warnings, with_counter
from passdown.cli.output import (
    counted,
    heading,
    line,
    pairs,
    print_error,
    print_findings,
    print_json,
    print_problems,
    short_time,
    table,
    terminal_width,
    verbatim,
)
from passdown.cli.parsing import AGENT, DOMAIN, FILE, TASK, several, whole_number, with_store
from passdown.cli.session import UsageError, is_server_url, read_input, store_of, workspace_of

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.cli.parsing import Parser
    from passdown.core.types import JsonObject
    from passdown.errors import PassdownError
    from passdown.workspace import Workspace
    from passdown.workspace.growth import ContextGrowth, GrowthStep
    from passdown.workspace.prompts import Prompt
    from passdown.workspace.rules import RulesInjected
    from passdown.workspace.switches import ArtifactCheck


_PROMPT_TIMEOUT_S = 3.0
"""How long a prompt waits for others who write; then it goes on, and says what wasn't recorded."""


def switch(parser: Parser) -> None:
    """The arguments of `switch`."""
    parser.show(
        "passdown switch --task T-1 --to coder",
        "passdown switch --task T-1 --to coder --profiles agents --rules rules.md --json",
        "passdown switch --task T-1 --prompt - --active planner < prompt.txt",
    )
    parser.add_argument("--task", metavar=TASK, required=True, help="the task that goes over")
    parser.add_argument("--to", metavar=AGENT, help="who takes over")
    parser.add_argument(
        "--from", dest="sender", metavar=AGENT, help="who leaves; default: who has the task"
    )
    with_counter(parser)
    parser.add_argument("--profiles", metavar="DIR", help="NAME.md files; default: the settings'")
    parser.add_argument("--rules", metavar=FILE, help="text that goes in after the profile")
    parser.add_argument("--no-record", action="store_true", help="write nothing down")
    parser.add_argument(
        "--prompt",
        metavar=FILE,
        help="a user's prompt (- reads it): printed behind the context of the agent that it calls "
        "with @name or /name, else as it is",
    )
    parser.add_argument("--active", metavar=AGENT, help="with --prompt: who has the word now")
    with_store(parser)
    parser.set_defaults(run=_switch)


def _switch(args: Namespace) -> int:
    if args.prompt and any(getattr(args, name) for name in ("to", "sender", "profiles", "rules")):
        raise UsageError(
            "--prompt finds the agent in the prompt; it goes with --active, --budget, --counter "
            "and --no-record"
        )
    if args.prompt:
        return _prompt(args)
    if not args.to or args.active:
        raise UsageError("name who takes over with --to, or a prompt with --prompt")
    rules = read_input(args.rules).decode(errors="replace") if args.rules else ""
    with workspace_of(args) as workspace:
        found = workspace.switch(
            args.task,
            to_agent=args.to,
            from_agent=args.sender or "",
            budget=args.budget,
            counter=args.counter,
            profiles=args.profiles or "",
            rules=rules,
            record=not args.no_record,
        )
    if args.json:
        print_json(found.to_dict())
        return 0
    if sys.stdout.isatty():
        verbatim(found.text.removesuffix("\n"))
    else:
        # A model gets the profile as it stands in its file, whatever it holds.
        _write_bytes(found.text.encode() + (b"" if found.text.endswith("\n") else b"\n"))
    print_warnings(found.warnings)
    return 0


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _prompt(args: Namespace) -> int:
    """A prompt always goes on: what fails on the way is said on standard error."""
    given = _read_prompt(args.prompt)
    text = given.decode(errors="surrogateescape")
    try:
        with _impatient_workspace(args) as workspace:
            found = workspace.context.prompt(
                text,
                task=args.task,
                active=args.active or "",
                budget=args.budget,
                counter=args.counter,
                record=not args.no_record,
            )
    except Exception as error:  # noqa: BLE001
        return _print_unchanged(given, error, args)
    if args.json:
        print_json(_prompt_document(found))
        return 0
    _write_bytes(found.text.encode(errors="surrogateescape"))
    print_warnings(found.switched.warnings if found.switched else ())
    return 0


def _read_prompt(path: str) -> bytes:
    """A prompt has no limit of its own: what is too long is for the model to refuse."""
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def _impatient_workspace(args: Namespace) -> Workspace:
    """The workspace, with less patience for others who write than the settings have."""
    if is_server_url(store_of(args)):
        return workspace_of(args)
    from passdown.workspace import Workspace
    from passdown.workspace.context import read_settings
    from passdown.workspace.location import locate

    place = locate(store_of(args), create=False)
    settings = read_settings(place.config)
    waits = min(settings.lock_timeout_s, _PROMPT_TIMEOUT_S)
    return Workspace(place, settings=settings._replace(lock_timeout_s=waits))


def _prompt_document(found: Prompt) -> JsonObject:
    switched = found.switched.to_dict() if found.switched else None
    return {"text": found.text, "agent": found.agent, "switched": switched}


def _print_unchanged(given: bytes, error: Exception, args: Namespace) -> int:
    from passdown.errors import PassdownError

    known = error if isinstance(error, PassdownError) else PassdownError(f"{error}", code="failed")
    if args.json:
        text = given.decode(errors="surrogateescape")
        said: JsonObject = {"text": text, "agent": args.active or "", "switched": None}
        print_json({**said, "error": known.to_dict()})
        return 0
    _write_bytes(given)
    _print_prompt_error(known)
    return 0


def _print_prompt_error(error: PassdownError) -> None:
    print_error(error, as_json=False)
    print("the prompt went on unchanged", file=sys.stderr)


def artifact(parser: Parser) -> None:
    """The arguments of `artifact` and the verbs below it."""
    save = parser.subverb(
        "save",
        "leave an artifact for an agent that comes later",
        "passdown artifact save --task T-1 --to tester",
        run=_artifact_save,
    )
    save.add_argument("--task", metavar=TASK, required=True)
    save.add_argument("--to", metavar=AGENT, required=True, help="who it waits for")
    save.add_argument("--from", dest="sender", metavar=AGENT, help="default: who has the task")
    with_store(save)
    listing = parser.subverb(
        "list",
        "the latest artifacts of all tasks, those of a task, or those that wait for an agent",
        "passdown artifact list",
        "passdown artifact list --task T-1",
        "passdown artifact list --agent tester --json",
        run=_artifact_list,
    )
    listing.add_argument("--task", metavar=TASK)
    listing.add_argument("--agent", metavar=AGENT, help="only what waits for it")
    with_store(listing)
    _add_file_verbs(parser)


def _add_file_verbs(parser: Parser) -> None:
    """The verbs that read artifact files, wherever they are."""
    check = parser.subverb(
        "check",
        "whether artifact files are sound and as they were recorded; exit code 1 when not",
        "passdown artifact check .passdown/handoffs/*.yaml",
        run=_artifact_check,
    )
    check.add_argument("files", metavar=FILE, nargs="+")
    with_store(check)
    show = parser.subverb(
        "show",
        "one artifact file, to read",
        "passdown artifact show handoff.yaml --markdown",
        run=_artifact_show,
    )
    show.add_argument("file", metavar=FILE)
    show.add_argument("--markdown", action="store_true", help="with headings")
    show.add_argument("--json", action="store_true", help="print JSON")
    parser.subverb(
        "template",
        "an empty artifact, to fill in by hand",
        "passdown artifact template > handoff.yaml",
        run=_artifact_template,
    )


def _artifact_save(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        saved = workspace.context.save_switch(
            args.task, to_agent=args.to, from_agent=args.sender or ""
        )
    if args.json:
        print_json(saved)
        return 0
    line(f"{saved['file']} waits for {saved['to_agent']}")
    names = ("path", "from_agent", "version")
    pairs([(name.replace("_", " "), saved[name]) for name in names], 2)
    return 0


def _artifact_list(args: Namespace) -> int:
    from passdown.workspace.switches import all_artifacts

    with workspace_of(args) as workspace:
        if args.task:
            workspace.task(args.task)  # which refuses one that isn't there
        if args.task or args.agent:
            found = workspace.context.saved_switches(task=args.task or "", agent=args.agent or "")
        else:
            found = all_artifacts(workspace)
    if args.json:
        print_json(found)
        return 0
    rows = [
        [
            entry["task"],
            short_time(entry["at"]),
            entry["from_agent"],
            entry["to_agent"],
            entry["version"],
            "consumed" if entry["consumed"] else "waits",
            entry["file"],
        ]
        for entry in found
    ]
    names = ("task", "at (UTC)", "from", "to", "version", "state", "file")
    empty = f"nothing waits for {args.agent}" if args.agent else "no artifacts"
    table(names, rows, empty, whole=names[:-1])
    return 0


def _artifact_check(args: Namespace) -> int:
    """1 when a file has an error; a warning alone leaves it sound."""
    found = {path: _compare_artifact(args, path) for path in args.files}
    is_sound = all(p.level != "error" for each in found.values() for p in each.problems)
    if args.json:
        plain = {path: [p._asdict() for p in each.problems] for path, each in found.items()}
        known = [path for path, each in found.items() if each.is_known]
        print_json({"sound": is_sound, "files": plain, "compared": known})
        return int(not is_sound)
    for path, each in found.items():
        line(f"{path}: {_artifact_verdict(each)}")
        print_problems(each.problems)
    return int(not is_sound)


def _artifact_verdict(found: ArtifactCheck) -> str:
    if any(problem.level == "error" for problem in found.problems):
        return "not sound"
    return "sound" if found.is_known else "well formed; not compared (no record of this file)"


def _compare_artifact(args: Namespace, path: str) -> ArtifactCheck:
    from passdown.errors import InvalidInput, NotFound
    from passdown.workspace.switches import ArtifactCheck, check_artifact, compare_artifact

    try:
        data = read_input(path)
    except InvalidInput as error:
        return ArtifactCheck(list(error.problems), is_known=False)
    try:
        workspace = workspace_of(args)
    except NotFound:
        if args.store:
            raise
        return ArtifactCheck(check_artifact(data), is_known=False)
    with workspace:
        return compare_artifact(workspace, path, data)


def _artifact_show(args: Namespace) -> int:
    from passdown.workspace.switches import artifact_data, artifact_view

    data = read_input(args.file)
    artifact = artifact_data(data)
    if args.json:
        print_json(artifact)
    elif args.markdown:
        verbatim(artifact_view(data).rstrip("\n"))
    else:
        verbatim(data.decode(errors="replace").rstrip("\n"))
    return 0


def _artifact_template(args: Namespace) -> int:
    from passdown.workspace.switches import artifact_template

    print(artifact_template(), end="")
    return 0


def rules(parser: Parser) -> None:
    """The arguments of `rules` and the verbs below it."""
    listing = parser.subverb(
        "list",
        "every domain of rules; exit code 1 when a file has faults",
        "passdown rules list",
        run=_rules_list,
    )
    with_store(listing)
    show = parser.subverb(
        "show",
        "the rules of a domain, or of all domains of a layer",
        "passdown rules show agent-dev",
        "passdown rules show keyword",
        run=_rules_show,
    )
    show.add_argument("name", metavar=DOMAIN, help="a domain or a layer")
    with_store(show)
    inject = parser.subverb(
        "inject",
        "the rules that go with a prompt",
        "passdown rules inject --session s1 --agent dev 'add a migration'",
        "passdown rules inject --session s1 --used 130000 - < prompt.txt",
        run=_rules_inject,
    )
    inject.add_argument("prompt", metavar="PROMPT", nargs="?", default="", help="- reads it")
    inject.add_argument("--session", metavar="ID", required=True, help="what conversation it is of")
    for name in ("agent", "workflow", "squad", "task"):
        help = f"the active {name}; left out: as before, empty: none"
        metavar = {"agent": AGENT, "task": TASK}.get(name, "NAME")
        inject.add_argument(f"--{name}", metavar=metavar, help=help)
    inject.add_argument(
        "--used", metavar="TOKENS", type=whole_number, help="tokens in the context; else reckoned"
    )
    with_store(inject)


def _rules_list(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        report = workspace.rules.report()
    if args.json:
        print_json(report)
    else:
        names = ("layer", "domain", "for", "rules", "file")
        rows = [
            [
                f"{domain['layer']} {domain['layer_name']}",
                domain["name"],
                domain["trigger"] or domain["recall"] or domain["bracket"],
                domain["count"],
                domain["file"],
            ]
            for domain in report["domains"]
        ]
        table(names, rows, f"no rules in {report['folder']}", whole=names[:2])
        print_findings(report["problems"])
    return int(any(problem["level"] == "error" for problem in report["problems"]))


def _rules_show(args: Namespace) -> int:
    with workspace_of(args) as workspace:
        report = workspace.rules.report()
    found = _named_domains(report["domains"], args.name)
    if args.json:
        print_json(found)
        return 0
    for index, domain in enumerate(found):
        if index:
            line()
        heading(f"{domain['name']} ({domain['layer_name']}, {domain['file']})")
        pairs([(key, domain[key]) for key in ("trigger", "recall", "exclude", "bracket")], 2)
        for rule in domain["rules"]:
            line(f"- {rule}")
    return 0


def _named_domains(domains: list[JsonObject], name: str) -> list[JsonObject]:
    """The domain of that name, else the domains of the layer of that name or number."""
    found = [domain for domain in domains if domain["name"] == name] or [
        domain for domain in domains if name.lower() in (domain["layer_name"], str(domain["layer"]))
    ]
    if not found:
        from passdown.errors import NotFound

        raise NotFound(
            f"there are no rules {name[:128]!r}",
            next_step="List domains and faults with passdown rules list.",
        )
    return found


def _rules_inject(args: Namespace) -> int:
    prompt = args.prompt
    if prompt == "-":
        from passdown.cli.session import read_input

        prompt = read_input("-").decode(errors="replace")
    with workspace_of(args) as workspace:
        found = workspace.rules.inject(
            prompt,
            session=args.session,
            agent=args.agent,
            workflow=args.workflow,
            squad=args.squad,
            task=args.task,
            used=args.used,
        )
    if args.json:
        print_json(found.to_dict())
        return 0
    verbatim(found.text.rstrip("\n"))
    _print_rule_warnings(found)
    return 0


def _print_rule_warnings(found: RulesInjected) -> None:
    """What the one who asked should know besides the text; kept apart from it."""
    from passdown.core.text import visible

    said = [problem.line() for problem in found.problems]
    if found.over_budget:
        said.append(f"{found.over_by} tokens over the budget of {found.bracket}; nothing may fall")
    if found.compaction.due:
        said.append(f"compaction is due ({', '.join(found.compaction.reasons)})")
    for text in said:
        print(visible(text), file=sys.stderr)


_BAR = 24
_NARROW_BAR = 10
_WIDE_TERMINAL = 96
_SIZES = {"decisions": 5, "files": 10, "blockers": 2}


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


def measure(parser: Parser) -> None:
    """The arguments of `measure`."""
    parser.show(
        "passdown measure --personas agents",
        "passdown measure --personas agents --chain sm,dev,qa --switches 50 --svg growth.svg",
        "passdown measure --personas agents --counter chars4 --check 50%",
        "passdown measure --task T-1",
    )
    parser.add_argument(
        "--personas", metavar="DIR", help="NAME.md files: plays a story with them, in a new folder"
    )
    parser.add_argument(
        "--task", metavar=TASK, help="instead: the switches that were recorded of this task"
    )
    parser.add_argument(
        "--chain", metavar="AGENTS", type=several, help="with commas; default: all, in order"
    )
    parser.add_argument(
        "--switches", metavar="N", type=whole_number, help="goes round the chain; default: once"
    )
    with_counter(parser)
    for name, default in _SIZES.items():
        help = f"that each agent leaves; default: {default}"
        parser.add_argument(f"--{name}", metavar="N", type=whole_number, help=help)
    parser.add_argument("--svg", metavar=FILE, help="write a picture")
    parser.add_argument(
        "--check",
        metavar="LIMIT",
        type=context_limit,
        help="exit code 1 when the last context has more tokens, or more %% of the one without",
    )
    with_store(parser)
    parser.set_defaults(run=_measure)


def context_limit(text: str) -> Limit:
    """An argument that limits a context: 6000, or 40%."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)%|(\d{1,12})", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is neither tokens nor a share such as 40%")
    return Limit(float(found[1] or found[2]), found[1] is not None)


def _measure(args: Namespace) -> int:
    if bool(args.personas) == bool(args.task):
        raise UsageError("name a folder with --personas, or a task with --task")
    if args.switches == 0:
        raise UsageError("--switches has to be 1 or more")
    found = _recorded_growth(args) if args.task else _played_growth(args)
    if args.svg:
        _write_picture(found, args.svg)
    most = args.check.most(found.last.without) if args.check else None
    is_over = most is not None and found.last.context > most
    is_lost = bool(found.kept and found.kept.lost)
    if args.json:
        print_json({**found.document(), "limit": most, "passed": not (is_over or is_lost)})
    else:
        print_growth(found)
        _print_conclusions(found, args.check, args.svg)
    return int(is_over or is_lost)


def _recorded_growth(args: Namespace) -> ContextGrowth:
    from passdown.workspace.growth import recorded_growth

    playing = ("chain", "switches", "budget", *_SIZES)
    if any(getattr(args, name) is not None for name in playing):
        raise UsageError("--task plays no story; it goes with --counter, --svg and --check")
    with workspace_of(args) as workspace:
        return recorded_growth(workspace, args.task, args.counter or "")


def _played_growth(args: Namespace) -> ContextGrowth:
    from passdown.cli.output import progress_bar
    from passdown.workspace.growth import measure_growth

    given = {name: getattr(args, name) for name in _SIZES}
    sizes = {name: _SIZES[name] if value is None else value for name, value in given.items()}
    return measure_growth(
        args.personas,
        chain=args.chain or (),
        switches=args.switches or 0,
        counter=args.counter,
        budget=args.budget,
        progress=progress_bar("measuring"),
        **sizes,
    )


def _write_picture(found: ContextGrowth, path: str) -> None:
    from passdown.workspace.growth import growth_picture

    with open(path, "w", encoding="utf-8") as file:
        file.write(growth_picture(found))


def print_growth(found: ContextGrowth) -> None:
    """Print a row per switch, with a bar: # is the context, . is what it would be without."""
    most = max(max(step.without, step.context) for step in found.steps) or 1
    length = _NARROW_BAR if 0 < terminal_width() < _WIDE_TERMINAL else _BAR
    rows = [
        [
            step.number,
            step.agent,
            f"{step.profile:,}",
            f"{step.without:,}",
            f"{step.context:,}",
            f"{step.on_top:,}",
            _saved(step),
            step.summaries,
            step.brief,
            _bar(step.context / most, step.without / most, length),
        ]
        for step in found.steps
    ]
    names = (
        *("switch", "agent", "profile", "without", "with", "on top", "saved"),
        *("summaries", "brief", "bar"),
    )
    table(names, rows, whole=names[:-1], short=("bar",))


def _saved(step: GrowthStep) -> str:
    if step.context > step.without:
        return f"more: {step.context - step.without:,}"
    return f"{step.saved:.1f} %"


def _bar(context: float, without: float, length: int) -> str:
    inked = max(round(context * length), 1)
    return "#" * inked + "." * max(round(without * length) - inked, 0)


def _print_conclusions(found: ContextGrowth, most: Limit | None, picture: str | None) -> None:
    last = found.last
    line(
        f"tokens by {found.counter}; without: every profile, each time it was loaded "
        f"(each once: {found.each_once:,}); on top: what comes with the profile"
    )
    if found.pays_from:
        line(f"shorter than without from switch {found.pays_from} on")
    else:
        line(f"not shorter than without within {counted(len(found.steps), 'switch', 'switches')}")
    if found.kept:
        total = found.kept.found + found.kept.reachable + len(found.kept.lost)
        line(
            f"of {total} facts that must not get lost: {found.kept.found} in the last context, "
            f"{found.kept.reachable} one step away, {len(found.kept.lost)} lost"
        )
        for text in found.kept.lost[:20]:
            line(f"lost: {text}", 2)
    if most is not None:
        verdict = "within" if last.context <= most.most(last.without) else "over"
        said = f"{last.context:,} tokens; the limit is {most.said(last.without)}"
        line(f"the last context is {verdict} the limit: {said}")
    if picture:
        line(f"picture: {picture}")
