"""Commands, and the parsers that are derived from them.

A command is a function, or an operation of the workspace and a printer. Its positional parameters
become positional arguments and its keyword-only parameters options, with the type, the default
and the choices of the signature; `_WORDS` and the command itself have the help. Signatures are
read without `inspect`, which would take as long to import as all of this.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from passdown.cli.output import terminal_width
from passdown.cli.session import Session, UsageError
from passdown.core.text import excerpt
from passdown.operations import OPERATION, OPERATIONS, load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    Run = Callable[..., int | None]

Author = str
"""The type of an option that names the author; where it is left out, see `Session.author`."""
Budget = int
"""The type of a number of tokens, at least one."""

TASK, AGENT, FILE, RUN, DOMAIN = "TASK", "AGENT", "FILE", "RUN", "DOMAIN"
"""Names of values that completion scripts look up."""
TAG, ITEM = "TAG", "ITEM"

HIDDEN = argparse.SUPPRESS
"""The help of options that only scripts use."""

MAX_BUDGET = 1_000_000_000
_COUNTERS = ("o200k_base", "cl100k_base", "chars4")
_DIGITS = 15
_UNKNOWN = "unrecognized arguments: "
_REQUIRED = object()
_AUTHOR = "default: PASSDOWN_AGENT, else your user name (with a server: the token's name)"
_TYPE_NAMES = {"budget": "Budget"}
_CHOICES = {"counter": _COUNTERS}
_FLAGS = {
    "from_agent": "--from",
    "to_agent": "--to",
    "criteria": "--criterion",
    "statuses": "--status",
    "depends_on": "--needs",
    "time_limit_minutes": "--time-limit",
}
_WORDS = {
    "after": ("SEQ", "continue after this sequence number"),
    "agent": (AGENT, "who writes this"),
    "budget": ("TOKENS", "at most; default: the settings'"),
    "by": (AGENT, "the person who answers"),
    "criteria": ("TEXT", "how to tell that it is done"),
    "counter": ("NAME", "what counts tokens; default: the settings'"),
    "depends_on": (TASK, "a task that comes first"),
    "description": ("TEXT", "more than the title says"),
    "depth": ("N", "steps from there"),
    "expect_version": ("N", "fail unless the task is at version N"),
    "file": (FILE, ""),
    "files": (FILE, ""),
    "from_agent": (AGENT, ""),
    "inputs": ("TEXT", "what is needed to begin"),
    "kinds": ("KIND", "only these kinds"),
    "item": (ITEM, "an address such as T-1#d3"),
    "key": ("KEY", "makes a retry safe: the same key gives the same record"),
    "limit": ("N", "at most"),
    "outputs": ("TEXT", "what it produces"),
    "paths": (FILE, "a file that it governs"),
    "path": ("PATH", ""),
    "reason": ("TEXT", "why"),
    "since": ("DATE", "since this date or time, in UTC"),
    "statuses": ("STATUS", ""),
    "store": ("URL", "a store's address, file or folder"),
    "supersedes": (ITEM, "a decision that it replaces"),
    "tags": (TAG, ""),
    "task": (TASK, ""),
    "time_limit_minutes": ("MINUTES", "how long it may take"),
    "types": ("TYPE", "only nodes of this type"),
    "until": ("DATE", "until this date or time, in UTC"),
    "to_agent": (AGENT, ""),
    "told_to": (AGENT, ""),
}
"""The name of the value, and the help, of parameters that mean the same in every command."""


class Command(NamedTuple):
    """What runs for a verb, or for a verb below one (`task new`).

    `help`, `flags`, `choices` and `types` are for single parameters, by name. Help may begin with
    the name of the value: `MINUTES: how long it may take`. Of the parameters in `exclusive`, at
    most one may be given, and where `is_one_needed`, one has to be.
    """

    name: str
    line: str
    run: Run
    arguments: Callable[[], list[Argument]]
    examples: tuple[str, ...]
    help: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    choices: Mapping[str, Collection[str]] = {}
    types: Mapping[str, Callable[[str], object]] = {}
    exclusive: tuple[str, ...] = ()
    is_one_needed: bool = False
    hidden: tuple[str, ...] = ()
    has_store: bool = True
    has_json: bool = True


class Argument(NamedTuple):
    """One parameter of a function, with what its docstring says of it."""

    name: str
    type: str
    default: Any
    is_option: bool
    help: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return self.type.startswith(("list[", "Sequence["))


COMMANDS: dict[str, Command] = {}
"""The commands of the modules that are loaded, by name."""


def command(
    name: str,
    *examples: str,
    like: str = "",
    without: Collection[str] = (),
    fields: Mapping[str, str] | None = None,
    shape: str = "",
    needs_none: bool = False,
    **settings: Any,
) -> Callable[[Run], Run]:
    """Make a function a command, with `settings` of Command.

    The function gets a Session and then the arguments; what it gives is the exit code, where None
    is 0. The first line of its docstring says what it does. Where it takes `**options`, these are
    the parameters of the operation `like`, the declared fields of a `shape` of the core, and
    `fields` with their types; with `needs_none`, no option is required.
    """

    def register(run: Run) -> Run:
        def arguments() -> list[Argument]:
            own = arguments_of(run)
            known = {"progress", *without, *(each.name for each in own)}
            more = [*_operation_arguments(like), *_shape_arguments(shape)]
            more += [Argument(each, kind, None, True) for each, kind in (fields or {}).items()]
            if needs_none:
                more = [each._replace(default=None) for each in more]
            return own + [each for each in more if each.name not in known]

        line = _first_line(run.__doc__ or "")
        shown = _examples(name, examples)
        COMMANDS[name] = Command(name, line, run, arguments, shown, **settings)
        return run

    return register


def operation(
    name: str,
    print_text: Callable[[Any], object],
    *examples: str,
    method: str = "",
    line: str = "",
    positional: Collection[str] = (),
    shape: str = "",
    changes: Mapping[str, str] | None = None,
    fixed: Mapping[str, object] | None = None,
    as_options: Collection[str] = (),
    without: Collection[str] = (),
    fails: Callable[[Any], object] = lambda _: False,
    **settings: Any,
) -> None:
    """Make an operation of the workspace a command, with `settings` of Command.

    It is the operation of this name on the command line, or `method`. `positional` are
    keyword-only parameters that are positional here, `as_options` the reverse. What it takes as
    `**fields` are the declared fields of a `shape`; with `changes`, further fields with their
    types, none of them is needed. `fixed` parameters aren't offered, nor those in `without`.
    Exit code 1 if the result `fails`.
    """
    called = method or next(each.name for each in OPERATIONS if each.cli == name)
    known = fixed or {}

    def run(session: Session, **values: Any) -> int:
        own = {each.name for each in _operation_arguments(called)}
        given = {n: v for n, v in values.items() if n in own or v not in (None, [], "")}
        with session.open() as workspace:
            result = _attribute(workspace, called)(**known, **given)
        session.show(result, print_text)
        return int(bool(fails(result)))

    def arguments() -> list[Argument]:
        own = _operation_arguments(called)
        hidden = {"progress", *known, *without, *(each.name for each in own)}
        more = [each for each in _shape_arguments(shape) if each.name not in hidden]
        if changes is not None:
            more += [Argument(each, kind, None, True) for each, kind in changes.items()]
            more = [each._replace(default=None) for each in more]
        found = [each for each in own if each.name not in {"progress", *known, *without}]
        placed = [
            each._replace(
                is_option=each.name in as_options
                or (each.is_option and each.name not in positional)
            )
            for each in found + more
        ]
        return sorted(placed, key=lambda each: each.is_option)

    shown = _examples(name, examples)
    COMMANDS[name] = Command(name, line, run, arguments, shown, **settings)


def _operation_arguments(name: str) -> list[Argument]:
    return arguments_of(load(OPERATION[name].function)) if name else []


def _shape_arguments(shape: str) -> list[Argument]:
    """The declared fields of a shape of the core, as options."""
    if not shape:
        return []
    from passdown.core import handoff, schema

    words: dict[schema.Type, str] = {
        schema.TASK_ID: TASK,
        schema.TAG: TAG,
        schema.ADDRESS: ITEM,
        schema.PATH: FILE,
    }
    found: list[Argument] = []
    for name, field in schema.fields_of(getattr(handoff, shape)).items():
        kind = field.type.of if isinstance(field.type, schema.Optional) else field.type
        inner = kind.of if isinstance(kind, schema.List) else kind
        choices = kind.words if isinstance(kind, schema.Choice) else ()
        type_name = "int" if isinstance(kind, schema.Number) else "str"
        text = field.description[:1].lower() + field.description[1:]
        if choices and field.default and not field.is_required:
            text = f"{text}; default: {field.default}".removeprefix("; ")
        found.append(
            Argument(
                name,
                "list[str]" if isinstance(kind, schema.List) else type_name,
                _REQUIRED if field.is_required else None,
                is_option=True,
                help=text,
                metavar=words.get(inner, ""),
                choices=tuple(word for word in choices if word),
            )
        )
    return found


def _examples(name: str, examples: Iterable[str]) -> tuple[str, ...]:
    """The whole commands; an example has the arguments alone, unless it is more than a command."""
    return tuple(
        each if "passdown " in each else f"passdown {name} {each}".rstrip() for each in examples
    )


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def arguments_of(function: Any) -> list[Argument]:
    """The parameters of a function, but for the first, which is what it works with."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(names[count - len(given) : count], given, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    texts = argument_texts(function.__doc__ or "")
    return [
        Argument(
            name,
            _TYPE_NAMES.get(name) or str(function.__annotations__[name]).removesuffix(" | None"),
            defaults.get(name, _REQUIRED),
            index >= count,
            texts.get(name, ""),
        )
        for index, name in enumerate(names)
        if index
    ]


def argument_texts(docstring: str) -> dict[str, str]:
    """What the `Args:` section of a docstring says of each argument, as a help text."""
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    last = ""
    indent = len(section) - len(section.lstrip())
    for line in section.splitlines():
        name, mark, text = line.strip().partition(": ")
        if mark and name.isidentifier() and len(line) - len(line.lstrip()) == indent:
            last, found[name] = name, text[:1].lower() + text[1:]
        elif line.strip().startswith("*"):
            last = ""
        elif last:
            found[last] += f" {line.strip()}"
    return {name: text.strip().removesuffix(".") for name, text in found.items()}


def _first_line(docstring: str) -> str:
    """The summary of a docstring, as it is shown in a list."""
    text = " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")
    return text[:1].lower() + text[1:]


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that is as wide as the terminal; given a width, argparse needn't look for one."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=28, width=min(terminal_width() or 100, 100) - 2)


class Parser(argparse.ArgumentParser):
    """A parser for one command, or for a verb with commands below it: `subverbs`."""

    def __init__(self, prog: str, line: str = "", command: Command | None = None) -> None:
        self.arguments: list[argparse.Action] = []
        self.subverbs: dict[str, Command] = {}
        self.line = line
        self.command = command
        self.examples = command.examples if command else ()
        super().__init__(
            prog=prog,
            description=line[:1].upper() + line[1:] + "." if line else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        help = self.add_argument("-h", "--help", action="help", help="show this help and exit")
        self.arguments.append(help)
        if command:
            self.epilog = "\n".join(["examples:", *(f"  {each}" for each in self.examples)])
            self._add_arguments(command)

    def _add_arguments(self, command: Command) -> None:
        group = None
        if command.exclusive:
            group = self.add_mutually_exclusive_group(required=command.is_one_needed)
        for argument in command.arguments():
            to = group if group and argument.name in command.exclusive else self
            names, options = _argparse_options(argument, command)
            self.arguments.append(to.add_argument(*names, **options))
        if command.has_store:
            help = _WORDS["store"][1]
            self.arguments.append(self.add_argument("--store", metavar="URL", help=help))
        if command.has_json:
            action = self.add_argument("--json", action="store_true", help="print JSON")
            self.arguments.append(action)

    def parse(self, argv: list[str]) -> tuple[Command, dict[str, Any]]:
        """The command and its arguments; a verb with verbs below it passes on to the named one."""
        if self.command:
            return self.command, vars(self.parse_args(argv))
        if argv and argv[0] in self.subverbs:
            return self.below(argv[0]).parse(argv[1:])
        self.epilog = self._verbs_below()
        self.usage = f"{self.prog} VERB ..."
        if not argv or argv[0] == "--json":
            self.error("a verb is missing: " + ", ".join(self.subverbs))
        if argv[0] not in ("-h", "--help"):
            hint = close_to(argv[0], self.subverbs)
            known = ", ".join(self.subverbs)
            self.error(f"there is no {self.prog} {argv[0]}{hint} ({known})")
        self.parse_args(argv)
        raise AssertionError  # --help has ended it

    def below(self, name: str) -> Parser:
        """The parser of a command below this verb; its operation is loaded only then."""
        command = self.subverbs[name]
        return Parser(f"passdown {command.name}", command.line, command)

    def _verbs_below(self) -> str:
        lines = [f"  {name:<9} {sub.line}" for name, sub in self.subverbs.items()]
        examples = [f"  {sub.examples[0]}" for sub in self.subverbs.values() if sub.examples]
        more = f"{self.prog} VERB --help shows the options of each."
        return "\n".join(["verbs:", *lines, "", "examples:", *examples, "", more])

    def error(self, message: str) -> NoReturn:
        """Usage error: `main` says what is wrong and where to read on."""
        head, _, unknown = message.partition(_UNKNOWN)
        if not head and unknown.startswith("--"):
            known = {option: None for action in self.arguments for option in action.option_strings}
            message += close_to(unknown.partition(" ")[0].partition("=")[0], known)
        raise UsageError(message, self.prog)


def parser_for(verb: str, line: str) -> Parser:
    """The parser of a verb whose module is loaded."""
    if verb in COMMANDS:
        return Parser(f"passdown {verb}", line, COMMANDS[verb])
    parser = Parser(f"passdown {verb}", line)
    parser.subverbs = {
        name.partition(" ")[2]: below
        for name, below in COMMANDS.items()
        if name.startswith(f"{verb} ")
    }
    return parser


def run_command(command: Command, values: dict[str, Any], store: str | None) -> int:
    """Run a command with its parsed arguments; gives the exit code."""
    given = values.pop("store", None) if command.has_store else None
    session = Session(given or store, as_json=values.pop("json", False))
    for argument in command.arguments():
        name = argument.name
        if _is_author(argument):
            values[name] = session.author(values[name])
        elif values[name] is None and argument.default == "":
            values[name] = ""
    return command.run(session, **values) or 0


def _is_author(argument: Argument) -> bool:
    """Whether an argument is who writes: the one of an operation has no default."""
    is_named_so = argument.name in ("agent", "by") and argument.default is _REQUIRED
    return argument.type == "Author" or (is_named_so and argument.is_option)


def _argparse_options(
    argument: Argument, command: Command
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What `add_argument` gets for an argument."""
    is_needed = argument.default is _REQUIRED
    metavar, text = _words_of(argument, command)
    options: dict[str, Any] = {"help": text}
    if argument.type == "bool":
        options["action"] = "store_false" if argument.default is True else "store_true"
    else:
        options |= _value_options(argument, command, metavar)
        if not is_needed:
            default = argument.default if argument.default != "" else None
            options["default"] = [] if argument.is_list else default
    if argument.is_option:
        if is_needed and not _is_author(argument):
            options["required"] = True
        return (_flag_of(argument, command),), {**options, "dest": argument.name}
    if argument.is_list:
        options |= {
            "nargs": "+" if is_needed else "*",
            "type": command.types.get(argument.name, str),
        }
        options.pop("action", None)
    elif not is_needed:
        options["nargs"] = "?"
    return (argument.name,), options


def _value_options(argument: Argument, command: Command, metavar: str) -> dict[str, Any]:
    name, kind = argument.name, argument.type
    choices = _choices_of(argument, command)
    options: dict[str, Any] = {"choices": choices} if choices else {"metavar": metavar}
    if argument.is_list and choices:
        options |= {"action": "append", "metavar": metavar}
    elif argument.is_list:
        is_word = metavar in (TASK, TAG, ITEM)
        options |= {"action": "extend", "type": comma_list if is_word else _single}
    elif kind in _TYPES:
        options["type"] = _TYPES[kind]
    if name in command.types:
        options["type"] = command.types[name]
    return options


def _flag_of(argument: Argument, command: Command) -> str:
    name = argument.name
    known = command.flags.get(name) or _FLAGS.get(name)
    if known:
        return known
    name = name.strip("_")
    if argument.is_list:
        name = name.removesuffix("s")
    return ("--no-" if argument.default is True else "--") + name.replace("_", "-")


def _words_of(argument: Argument, command: Command) -> tuple[str, str]:
    """The name of an argument's value, and its help."""
    metavar, text = _WORDS.get(argument.name, ("", ""))
    metavar, text = argument.metavar or metavar, text or argument.help
    given = command.help.get(argument.name, "")
    named, mark, rest = given.partition(": ")
    if mark and re.fullmatch(r"[A-Z0-9_:.=%-]+", named):
        metavar, text = named, rest
    elif given:
        text = given
    if not metavar:
        by_type = {"int": "N", "Budget": "TOKENS", "Author": AGENT}
        metavar = by_type.get(argument.type, "TEXT")
    if argument.name in command.hidden:
        return metavar, HIDDEN
    if _is_author(argument):
        return metavar, f"{text}; {_AUTHOR}"
    if argument.is_list and argument.is_option:
        choices = _choices_of(argument, command)
        more = f": {', '.join(choices)}" if choices else ""
        more = more or (", or hold several with commas" if metavar in (TASK, TAG, ITEM) else "")
        return metavar, f"{text}; may be repeated{more}"
    is_shown = isinstance(argument.default, int | float | str) and argument.default not in ("", 0)
    if is_shown and argument.type != "bool" and "default" not in text:
        return metavar, f"{text}; default: {argument.default}".removeprefix("; ")
    return metavar, text


def _choices_of(argument: Argument, command: Command) -> Collection[str]:
    known = command.choices.get(argument.name) or _CHOICES.get(argument.name) or argument.choices
    if not known and argument.type.startswith("Literal["):
        return tuple(re.findall(r"""["']([^"']*)["']""", argument.type))
    return known


def close_to(word: str, known: Iterable[str]) -> str:
    """A hint at the known word that was probably meant, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {close[0]}?" if close else ""


def comma_list(text: str) -> list[str]:
    """The words of an argument, which commas separate."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} has nothing before or after a comma")
    return words


def _single(text: str) -> list[str]:
    return [text]


def token_budget(text: str) -> int:
    """A number of tokens: at least one."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0
    if not 1 <= found <= MAX_BUDGET:
        expected = f"a whole number from 1 to {MAX_BUDGET:,}"
        raise argparse.ArgumentTypeError(f"{excerpt(text)!r} given, expected {expected}")
    return found


def whole_number(text: str) -> int:
    """A whole number, 0 or more."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    what = f"from 0 to {10**_DIGITS - 1:,}" if is_number else "a whole number"
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {what}")


def seconds(text: str) -> float:
    """A number of seconds: more than none, and at most a day."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to 86,400")
    return found


def given_text(text: str) -> str:
    """A text that isn't empty: an empty one is most likely a slip."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing is given; leave the option out for all")
    return text


_TYPES: dict[str, Callable[[str], object]] = {
    "int": whole_number,
    "Budget": token_budget,
}
