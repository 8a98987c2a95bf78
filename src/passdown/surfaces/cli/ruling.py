"""`rules`: which rules there are, and which of them go with a prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from passdown.surfaces.cli.parsing import AGENT, DOMAIN, TASK, whole_number, with_store
from passdown.surfaces.cli.printing import (
    heading,
    line,
    pairs,
    print_findings,
    print_json,
    table,
    verbatim,
)
from passdown.surfaces.cli.session import opened

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace.ruling import RulesInjected

Document = dict[str, Any]


def rules(parser: Parser) -> None:
    """The arguments of `rules` and the verbs below it."""
    listing = parser.subverb(
        "list",
        "every domain of rules; exit code 1 when a file has faults",
        "passdown rules list",
        run=_list,
    )
    with_store(listing)
    show = parser.subverb(
        "show",
        "the rules of a domain, or of all domains of a layer",
        "passdown rules show agent-dev",
        "passdown rules show keyword",
        run=_show,
    )
    show.add_argument("name", metavar=DOMAIN, help="a domain or a layer")
    with_store(show)
    inject = parser.subverb(
        "inject",
        "the rules that go with a prompt",
        "passdown rules inject --session s1 --agent dev 'add a migration'",
        "passdown rules inject --session s1 --used 130000 - < prompt.txt",
        run=_inject,
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


def _list(args: Namespace) -> int:
    with opened(args) as workspace:
        report = workspace.rule_report()
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


def _show(args: Namespace) -> int:
    with opened(args) as workspace:
        report = workspace.rule_report()
    found = _named(report["domains"], args.name)
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


def _named(domains: list[Document], name: str) -> list[Document]:
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


def _inject(args: Namespace) -> int:
    prompt = args.prompt
    if prompt == "-":
        from passdown.surfaces.cli.session import read_input

        prompt = read_input("-").decode(errors="replace")
    with opened(args) as workspace:
        found = workspace.rules(
            prompt,
            session=args.session,
            agent=args.agent,
            workflow=args.workflow,
            squad=args.squad,
            task=args.task,
            used_tokens=args.used,
        )
    if args.json:
        print_json(found.as_document())
        return 0
    verbatim(found.text.rstrip("\n"))
    _say(found)
    return 0


def _say(found: RulesInjected) -> None:
    """What the one who asked should know besides the text; kept apart from it."""
    from passdown.model.text import visible

    said = [problem.line() for problem in found.problems]
    if found.over_budget:
        said.append(f"{found.over_by} tokens over the budget of {found.bracket}; nothing may fall")
    if found.compaction.due:
        said.append(f"compaction is due ({', '.join(found.compaction.reasons)})")
    for text in said:
        print(visible(text), file=sys.stderr)
