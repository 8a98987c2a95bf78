"""Argument parsers with examples, sized to the terminal; completion scripts are made from them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from passdown.cli.output import terminal_width
from passdown.cli.session import UsageError
from passdown.core.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable


if TYPE_CHECKING:
    Run = Callable[[argparse.Namespace], int]

TASK = "TASK"
"""The metavar of arguments that name a task; completion scripts offer task ids for them."""

HIDDEN = argparse.SUPPRESS
"""The help of options that only scripts use."""

TAG = "TAG"
ITEM = "ITEM"

AGENT = "AGENT"
"""The metavar of arguments that name an agent; completion scripts offer those with a profile."""

DOMAIN = "DOMAIN"
"""The metavar of arguments that name rules: a domain, or a layer."""

RUN = "RUN"
"""The metavar of arguments that name a run."""

FILE = "FILE"
"""The metavar of arguments that name a file."""

MAX_BUDGET = 1_000_000_000
_DIGITS = 15
_UNKNOWN = "unrecognized arguments: "


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that is as wide as the terminal; given a width, argparse needn't look for one."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=28, width=min(terminal_width() or 100, 100) - 2)


class Parser(argparse.ArgumentParser):
    """A parser for one verb. `offers` lists its arguments, `subverbs` the parsers below it."""

    def __init__(self, prog: str, line: str = "", examples: tuple[str, ...] = ()) -> None:
        self.offers: list[argparse.Action] = []
        self.subverbs: dict[str, Parser] = {}
        self.line = line
        super().__init__(
            prog=prog,
            description=line[:1].upper() + line[1:] + "." if line else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.show(*examples)

    def show(self, *examples: str) -> None:
        """Put examples at the end of the help."""
        self.examples = examples
        if examples:
            self.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add an argument and remember it."""
        action = super().add_argument(*args, **kwargs)
        self.offers.append(action)
        return action

    def subverb(self, name: str, line: str, *examples: str, run: Run) -> Parser:
        """Add a verb below this one."""
        parser = Parser(f"{self.prog} {name}", line, examples)
        parser.set_defaults(run=run)
        self.subverbs[name] = parser
        return parser

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """The arguments; a verb with verbs below it hands over to the one that is named."""
        if not self.subverbs:
            return self.parse_args(argv)
        if argv and argv[0] in self.subverbs:
            return self.subverbs[argv[0]].parse(argv[1:])
        self.epilog = self._verbs_below()
        self.usage = f"{self.prog} VERB ..."
        if not argv or argv[0] == "--json":
            self.error("a verb is missing: " + ", ".join(self.subverbs))
        if argv[0] not in ("-h", "--help"):
            hint = close_to(argv[0], self.subverbs)
            known = ", ".join(self.subverbs)
            self.error(f"there is no {self.prog} {argv[0]}{hint} ({known})")
        return self.parse_args(argv)

    def _verbs_below(self) -> str:
        lines = [f"  {name:<9} {sub.line}" for name, sub in self.subverbs.items()]
        examples = [f"  {sub.examples[0]}" for sub in self.subverbs.values() if sub.examples]
        more = f"{self.prog} VERB --help shows the options of each."
        return "\n".join(["verbs:", *lines, "", "examples:", *examples, "", more])

    def error(self, message: str) -> NoReturn:
        """Misuse: `main` says what is wrong and where to read on."""
        head, _, unknown = message.partition(_UNKNOWN)
        if not head and unknown.startswith("--"):
            known = {option: None for action in self.offers for option in action.option_strings}
            message += close_to(unknown.partition(" ")[0].partition("=")[0], known)
        raise UsageError(message, self.prog)


def close_to(word: str, known: dict[str, Any]) -> str:
    """A hint at the known word that was probably meant, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else ""


def with_store(parser: Parser) -> None:
    """Options of every verb that opens a workspace."""
    parser.add_argument("--store", metavar="URL", help="a store's address, file or folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def with_agent(parser: Parser, option: str = "--agent", help: str = "who writes this") -> None:
    """The option that names the author; see `session.author` for what stands in."""
    parser.add_argument(
        option,
        dest="agent",
        metavar=AGENT,
        help=f"{help}; default: PASSDOWN_AGENT, else your user name (behind a server: the token's)",
    )


def listed(parser: Parser, option: str, metavar: str, help: str, dest: str = "") -> None:
    """An option that takes one value and may be repeated; ids and tags may share one, with commas
    between them.
    """
    name = dest or option.lstrip("-").replace("-", "_")
    is_word = metavar in (TASK, TAG, ITEM)
    parser.add_argument(
        option,
        dest=name,
        metavar=metavar,
        action="extend",
        type=several if is_word else _single,
        default=[],
        help=f"{help}; may be repeated" + (", or hold several with commas" if is_word else ""),
    )


def several(text: str) -> list[str]:
    """The words of an argument, which commas separate."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} names nothing before or after a comma")
    return words


def _single(text: str) -> list[str]:
    return [text]


def token_budget(text: str) -> int:
    """An argument that says how many tokens there may be: at least one."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0
    if not 1 <= found <= MAX_BUDGET:
        expected = f"a whole number from 1 to {MAX_BUDGET:,}"
        raise argparse.ArgumentTypeError(f"{excerpt(text)!r} given, expected {expected}")
    return found


def whole_number(text: str) -> int:
    """An argument that counts something: a whole number, 0 or more."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    what = f"from 0 to {10**_DIGITS - 1:,}" if is_number else "a whole number"
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {what}")


def given_text(text: str) -> str:
    """An argument that was meant to say something: an empty one is most likely a slip."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing is given; leave the option out for all")
    return text
