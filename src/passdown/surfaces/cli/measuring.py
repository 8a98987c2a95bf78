"""`measure`: how contexts grow from switch to switch, with Passdown and without."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.surfaces.cli.briefing import with_counter
from passdown.surfaces.cli.parsing import FILE, TASK, several, whole_number, with_store
from passdown.surfaces.cli.printing import counted, line, print_json, table
from passdown.surfaces.cli.session import Misuse, opened
from passdown.surfaces.cli.terminal import terminal_width

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.workspace.measuring import Growth, Step

_BAR = 24
_NARROW_BAR = 10
_WIDE_ENOUGH = 96
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
        type=limit,
        help="exit code 1 when the last context has more tokens, or more %% of the one without",
    )
    with_store(parser)
    parser.set_defaults(run=_measure)


def limit(text: str) -> Limit:
    """An argument that limits a context: 6000, or 40%."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)%|(\d{1,12})", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is neither tokens nor a share such as 40%")
    return Limit(float(found[1] or found[2]), found[1] is not None)


def _measure(args: Namespace) -> int:
    if bool(args.personas) == bool(args.task):
        raise Misuse("name a folder with --personas, or a task with --task")
    if args.switches == 0:
        raise Misuse("--switches has to be 1 or more")
    found = _recorded(args) if args.task else _played(args)
    if args.svg:
        _draw(found, args.svg)
    most = args.check.most(found.last.without) if args.check else None
    is_over = most is not None and found.last.context > most
    is_lost = bool(found.kept and found.kept.lost)
    if args.json:
        print_json({**found.document(), "limit": most, "passed": not (is_over or is_lost)})
    else:
        print_growth(found)
        _say(found, args.check, args.svg)
    return int(is_over or is_lost)


def _recorded(args: Namespace) -> Growth:
    from passdown.workspace.measuring import recorded_growth

    playing = ("chain", "switches", "budget", *_SIZES)
    if any(getattr(args, name) is not None for name in playing):
        raise Misuse("--task plays no story; it goes with --counter, --svg and --check")
    with opened(args) as workspace:
        return recorded_growth(workspace, args.task, args.counter or "")


def _played(args: Namespace) -> Growth:
    from passdown.surfaces.cli.progress import progress_bar
    from passdown.workspace.measuring import measure_growth

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


def _draw(found: Growth, path: str) -> None:
    from passdown.workspace.growth_picture import growth_picture

    with open(path, "w", encoding="utf-8") as file:
        file.write(growth_picture(found))


def print_growth(found: Growth) -> None:
    """Print a row per switch, with a bar: # is the context, . is what it would be without."""
    most = max(max(step.without, step.context) for step in found.steps) or 1
    length = _NARROW_BAR if 0 < terminal_width() < _WIDE_ENOUGH else _BAR
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


def _saved(step: Step) -> str:
    if step.context > step.without:
        return f"more: {step.context - step.without:,}"
    return f"{step.saved:.1f} %"


def _bar(context: float, without: float, length: int) -> str:
    inked = max(round(context * length), 1)
    return "#" * inked + "." * max(round(without * length) - inked, 0)


def _say(found: Growth, most: Limit | None, picture: str | None) -> None:
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
