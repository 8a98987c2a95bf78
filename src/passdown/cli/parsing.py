"""Commands, and the parsers that are derived from them.

A command is a function, or an operation of the workspace and a printer. Its positional parameters
become positional arguments and its keyword-only parameters options, with the type, the default
and the choices of the signature; `_WORDS` and the command itself have the help. Signatures are
read without `inspect`, which would take as long to import as all of this.
"""

from __future__ import annotations

import argparse
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, cast

from passdown.cli.output import busy, progress_bar, terminal_width
from passdown.cli.session import Session, UsageError
from passdown.core.text import excerpt
from passdown.core.values import NamedTuple
from passdown.errors import NotFound
from passdown.operations import OPERATION, OPERATIONS, argument_texts, load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from passdown.workspace import Workspace

    Run = Callable[..., int | None]

Author = str
"""The type of an option that names the author; where it is left out, see `Session.author`."""
Budget = int
"""The type of a number of tokens, at least one."""

TASK, AGENT, FILE, RUN, DOMAIN = "TASK", "AGENT", "FILE", "RUN", "DOMAIN"
PHASE = "PHASE"
"""Names of values that completion scripts look up."""
TAG, ITEM = "TAG", "ITEM"

HIDDEN = argparse.SUPPRESS
"""The help of options that only scripts use."""

MAX_BUDGET = 1_000_000_000
_COUNTERS = ("o200k_base", "cl100k_base", "chars4")
_DIGITS = 15
_LONG_CHOICES = 24
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=|\Z)")
_REQUIRED = object()
_AUTHOR = "default: PASSDOWN_AGENT, else your user name"
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
    "budget": ("TOKENS", "at most; default: from the settings"),
    "by": (AGENT, "the person who decides"),
    "criteria": ("TEXT", "how to tell that it is done"),
    "counter": ("NAME", "the tokenizer; default: from the settings"),
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
    "title": ("TEXT", "what has to be done"),
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
    most one may be given, and where `is_one_needed`, one has to be. An option in `alone` goes with
    no other options than those. A TASK that comes first may be left out where one is plain, unless
    the command `names_task`; with `finds_task`, the option --task too, unless no task is open.
    """

    name: str
    run: Run
    arguments: Callable[[], list[Argument]]
    usages: tuple[str, ...]
    help: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    choices: Mapping[str, Collection[str]] = {}
    types: Mapping[str, Callable[[str], object]] = {}
    exclusive: tuple[str, ...] = ()
    is_one_needed: bool = False
    alone: Mapping[str, Collection[str]] = {}
    hidden: tuple[str, ...] = ()
    names_task: bool = False
    finds_task: bool = False
    has_store: bool = True
    has_json: bool = True

    @property
    def line(self) -> str:
        """The first sentence of its docstring, as it is shown in a list."""
        text = " ".join((self.run.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")
        return text[:1].lower() + text[1:]

    def may_find(self, argument: Argument) -> bool:
        """Whether an argument is the task that is worked on, which need not be named."""
        is_task = argument.name == "task" and argument.default is _REQUIRED
        return is_task and not (argument.is_option or self.names_task)

    @property
    def examples(self) -> list[str]:
        """Examples as whole commands; most are given as their arguments alone."""
        start = f"passdown {self.name}"
        return [
            each if re.search(r"(?<![\w.])passdown ", each) else f"{start} {each}".rstrip()
            for each in self.usages
        ]


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

    @property
    def is_author(self) -> bool:
        """Whether it names the author: that of an operation has no default. A person who decides
        has to be named.
        """
        is_named_so = self.name in ("agent", "by") and self.default is _REQUIRED
        is_named_so = is_named_so and self.type != "Person"
        return self.type == "Author" or (is_named_so and self.is_option)


_SYNONYMS = {
    "because": ("--why", "--reason"),
    "rationale": ("--why",),
    "agent": ("--from", "--by"),
    "author": ("--agent", "--by", "--from"),
    "by": ("--agent", "--from"),
    "from": ("--agent",),
    "to": ("--agent",),
    "message": ("--summary", "--reason"),
    "m": ("--summary", "--reason"),
    "reason": ("--summary",),
    "why": ("--summary",),
    "status": ("--outcome",),
    "n": ("--limit",),
    "max": ("--limit", "--budget"),
    "tokens": ("--budget",),
    "depends-on": ("--needs",),
    "output": ("--keep",),
    "version": ("--expect-version",),
    "at": ("--time", "--expect-version"),
}
"""What people type for an option of another name."""

_USUAL = {
    "new": ("add", "create"),
    "done": ("close", "complete", "finish"),
    "set": ("edit", "update", "change", "rename", "cancel", "delete", "rm"),
}
"""What people type for a verb below another one."""

_ALIASES = {"--why": "--reason", "--reason": "--why", "--at": "--version"}
"""Options that are one in every command, whichever of the names it shows."""

_RARE = ("key", "expect_version", "counter")
"""Parameters that come last in the help."""

_EVERYWHERE = ("--json", "--store", "--help", "-h")
"""Options that are proposed only for a slip of a letter: every command has them."""

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
    positional: Sequence[str] = (),
    as_options: Collection[str] = (),
    defaults: Mapping[str, object] | None = None,
    **settings: Any,
) -> Callable[[Run], Run]:
    """Make a function a command, with `settings` of Command.

    The function gets a Session and then the arguments; what it gives is the exit code, where None
    is 0. The first line of its docstring says what it does. Where it takes `**options`, these are
    the parameters of the operation `like`, the declared fields of a `shape` of the core (none of
    them required with `needs_none`), and `fields` with their types; but none in `without`.
    `positional` are keyword-only parameters that are positional here, in this order, `as_options`
    the reverse; `defaults` are for parameters that have none.
    """

    def arguments() -> list[Argument]:
        own = arguments_of(COMMANDS[name].run)
        found = [*own, *(operation_arguments(like) if like else ())]
        found += _shape_arguments(shape, needs_none=needs_none) if shape else ()
        found += [Argument(each, kind, None, True) for each, kind in (fields or {}).items()]
        known: dict[str, Argument] = {}
        for each in found:
            if each.name in as_options or each.name in positional:
                each = each._replace(is_option=each.name in as_options)  # noqa: PLW2901
            each = each._replace(default=(defaults or {}).get(each.name, each.default))  # noqa: PLW2901
            if each.name not in ("progress", *without):
                known.setdefault(each.name, each)
        order = {each: place for place, each in enumerate(positional, 1)}
        # What makes up a shape comes first, and then what is only about how it is given.
        order |= {each.name: 1 for each in own if shape and each.is_option}
        return sorted(known.values(), key=lambda each: (each.is_option, order.get(each.name, 0)))

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, run, arguments, examples, **settings)
        return run

    return register


def operation(
    name: str,
    print_text: Callable[[Any], object],
    *examples: str,
    method: str = "",
    line: str = "",
    fixed: Mapping[str, object] | None = None,
    without: Collection[str] = (),
    read: Mapping[str, Callable[[str], Any]] | None = None,
    progress: str = "",
    finish: Callable[[Workspace, Any], Any] = lambda _, result: result,
    hint: Callable[[Workspace, Any, dict[str, Any]], object] = lambda _w, _r, _g: None,
    fails: Callable[[Any], object] = lambda _: False,
    **settings: Any,
) -> None:
    """Make an operation of the workspace a command, with `settings` of `command`.

    It is the operation of this name on the command line, or `method`. `fixed` parameters aren't
    offered; those in `read` name a file, which the function reads. With a label in `progress`, a
    bar is drawn. What `finish` makes of the result is shown, and to people what `hint` prints,
    which gets the arguments too. Exit code 1 if the result `fails`.
    """
    called = method or next(each.name for each in OPERATIONS if each.cli == name)
    known = dict(fixed or {})

    def run(session: Session, /, **values: Any) -> int:
        own = {each.name for each in operation_arguments(called)}
        given = {n: v for n, v in values.items() if n in own or v not in (None, [], "")}
        for each, function in (read or {}).items():
            given[each] = function(given[each]) if given[each] else given[each]
        if progress:
            given["progress"] = progress_bar(progress)
        with session.open() as workspace:
            function: Any = workspace
            for part in called.split("."):
                function = getattr(function, part)
            # A bar says as much, and knows how far it is.
            with nullcontext() if progress else busy(f"passdown {name}"):
                result = finish(workspace, function(**known, **given))
            session.show(result, print_text)
            if not session.as_json:
                hint(workspace, result, given)
        return int(bool(fails(result)))

    run.__doc__ = line
    command(name, *examples, like=called, without=(*known, *without), **settings)(run)


def operation_arguments(name: str) -> list[Argument]:
    """The parameters of an operation."""
    return arguments_of(load(OPERATION[name].function))


def _shape_arguments(shape: str, *, needs_none: bool) -> list[Argument]:
    """The declared fields of a shape of the core, as options."""
    from passdown.core import handoff, schema

    words: dict[schema.Type, str] = {
        schema.TASK_ID: TASK,
        schema.TAG: TAG,
        schema.ADDRESS: ITEM,
        schema.PATH: FILE,
        schema.PHASE: PHASE,
    }
    found: list[Argument] = []
    for name, field in schema.fields_of(getattr(handoff, shape)).items():
        kind = field.type.of if isinstance(field.type, schema.Optional) else field.type
        is_list = isinstance(kind, schema.List)
        choices = kind.words if isinstance(kind, schema.Choice) else ()
        type_name = "int" if isinstance(kind, schema.Number) else "str"
        text = _as_help(field.description)
        if choices and field.default and not field.is_required:
            text = f"{text}; default: {field.default}".removeprefix("; ")
        found.append(
            Argument(
                name,
                "list[str]" if is_list else type_name,
                _REQUIRED if field.is_required and not needs_none else None,
                is_option=True,
                help=text,
                metavar=words.get(kind.of if is_list else kind, ""),
                choices=tuple(word for word in choices if word),
            )
        )
    return found


def arguments_of(function: Any) -> list[Argument]:
    """The parameters of a function, but for the first, which is what it works with."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(names[count - len(given) : count], given, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    texts = argument_texts(function)
    return [
        Argument(
            name,
            _TYPE_NAMES.get(name) or str(function.__annotations__[name]).removesuffix(" | None"),
            defaults.get(name, _REQUIRED),
            index >= count,
            _as_help(texts.get(name, "")),
        )
        for index, name in enumerate(names)
        if index
    ]


def _as_help(text: str) -> str:
    return (text[:1].lower() + text[1:]).removesuffix(".")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that is as wide as the terminal; given a width, argparse needn't look for one."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, max_help_position=28, width=min(terminal_width() or 100, 100) - 2)


class Parser(argparse.ArgumentParser):
    """A parser for one command, or for a verb with commands below it: `subverbs`."""

    def __init__(self, name: str, line: str, command: Command | None = None) -> None:
        super().__init__(
            prog=f"passdown {name}",
            description=line[:1].upper() + line[1:] + "." if line else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
            argument_default=argparse.SUPPRESS,
        )
        self.command = command
        self.declared: list[Argument] = []
        self.arguments: list[argparse.Action] = []
        self.subverbs: dict[str, Command] = {}
        if command is None:
            below = (each for each in COMMANDS.values() if each.name.startswith(f"{name} "))
            self.subverbs = {each.name.partition(" ")[2]: each for each in below}
            self.add_argument("-h", "--help", action="help", help=HIDDEN)
            return
        group = None
        if command.exclusive:
            group = self.add_mutually_exclusive_group(required=command.is_one_needed)
        self.declared = command.arguments()
        rest = self.add_argument_group("in most commands")
        for argument in self.declared:
            usual = rest if argument.is_option and argument.name in _RARE else self
            to = group if group and argument.name in command.exclusive else usual
            names, options = _argparse_options(argument, command)
            self.arguments.append(to.add_argument(*names, **options))
        if command.has_store:
            help = _WORDS["store"][1]
            self.arguments.append(rest.add_argument("--store", metavar="URL", help=help))
        if command.has_json:
            help = "print JSON: the result is in `data`"
            self.arguments.append(rest.add_argument("--json", action="store_true", help=help))
        self.arguments.append(rest.add_argument("-h", "--help", action="help", help="show this"))

    def parse(self, argv: list[str]) -> tuple[Parser, dict[str, Any]]:
        """The parser that knows the command, and the arguments that are given.

        A verb with verbs below it passes on to the one that is named.
        """
        if self.command:
            argv = self._with_task_first(argv)
            # Named before anything that is missing: a misspelled option is both.
            self._check_options(argv)
            # A task can be left out before other arguments only where they are seen together.
            may_find = any(self.command.may_find(each) for each in self.declared)
            parse = self.parse_known_intermixed_args if may_find else self.parse_known_args
            given, unknown = parse(argv)
            if unknown:
                self.error(f"unexpected argument: {excerpt(' '.join(unknown))}")
            found = {name: value for name, value in vars(given).items() if value is not None}
            self._check_alone(self.command, found)
            return self, found
        if argv and argv[0] in self.subverbs:
            return self.below(argv[0]).parse(argv[1:])
        if not argv or argv[0] == "--json":
            self.error("a verb is missing: " + ", ".join(self.subverbs))
        if argv[0] not in ("-h", "--help"):
            usual = next((v for v, words in _USUAL.items() if argv[0] in words), "")
            is_usual = usual in self.subverbs
            hint = f"; did you mean {usual}?" if is_usual else close_to(argv[0], self.subverbs)
            known = ", ".join(self.subverbs)
            self.error(f"{excerpt(argv[0])!r} is none of its verbs{hint} ({known})")
        self.usage = f"{self.prog} VERB ..."
        self.parse_args(argv)
        raise AssertionError  # --help has ended it

    def _with_task_first(self, argv: list[str]) -> list[str]:
        """The arguments of a command whose first one is a task, where it is named with --task; or
        whose only one is an agent, with --agent.
        """
        names = [each.name for each in self.declared if not each.is_option]
        if names[:1] != ["task"] and names != ["agent"]:
            return argv
        flag = f"--{names[0]}"
        for place, word in enumerate(argv[: argv.index("--")] if "--" in argv else argv):
            name, mark, value = word.partition("=")
            if name == flag and mark:
                return [value, *argv[:place], *argv[place + 1 :]]
            if name == flag and place + 1 < len(argv):
                return [argv[place + 1], *argv[:place], *argv[place + 2 :]]
        return argv

    def _check_alone(self, command: Command, given: dict[str, Any]) -> None:
        """Usage error for an option that doesn't go with the others."""
        flags = {each.name: flag_of(each, command) for each in self.declared if each.is_option}
        for name, friends in command.alone.items():
            others = [
                flags[each] for each in flags if each in given and each not in (name, *friends)
            ]
            if name in given and others:
                self.error(f"{flags[name]} doesn't go with {', '.join(others)}")

    def below(self, name: str) -> Parser:
        """The parser of a command below this verb; its operation is loaded only then."""
        command = self.subverbs[name]
        return Parser(command.name, command.line, command)

    def run(self, given: dict[str, Any], store: str | None) -> int:
        """Run the command with the arguments that are given; gives the exit code."""
        command = cast("Command", self.command)
        own_store = given.pop("store", None) if command.has_store else None
        session = Session(own_store or store, as_json=given.pop("json", False))
        try:
            self._fill(command, session, given)
            return command.run(session, **given) or 0
        except UsageError as error:
            raise UsageError(str(error), error.prog or self.prog) from error
        except NotFound as error:
            if found := re.fullmatch(r"there is no task '(.+)'", error.message):
                raise _with_close_task(session, error, found[1]) from error
            raise

    def _fill(self, command: Command, session: Session, given: dict[str, Any]) -> None:
        """Add what wasn't given: the task, the author, defaults."""
        agent = given.get("agent") or given.get("from_agent")
        for argument in self.declared:
            if command.may_find(argument) and "task" not in given:
                to_hand_off = any(each.name == "from_agent" for each in self.declared)
                given["task"] = session.only_task(agent, to_hand_off=to_hand_off)
            elif command.finds_task and argument.name == "task" and "task" not in given:
                given["task"] = session.task_if_open(agent) or None
            elif argument.name in ("item", "gate") and _is_item_id(given[argument.name]):
                if argument.name == "gate" or _words_of(argument, command)[0] != "ID":
                    task = session.only_task(agent)
                    given[argument.name] = full_address(given[argument.name], task)
            elif argument.is_author:
                given[argument.name] = session.author(given.get(argument.name))
            elif argument.default is not _REQUIRED:
                given.setdefault(argument.name, [] if argument.is_list else argument.default)

    def format_help(self) -> str:
        """The help; examples, and the verbs below this one, are added only here."""
        if self.command:
            self.epilog = "\n".join(["examples:", *(f"  {each}" for each in self.command.examples)])
        else:
            import textwrap

            width = min(terminal_width() or 100, 100)
            lines = [
                textwrap.fill(f"  {name:<9} {sub.line}", width, subsequent_indent=" " * 12)
                for name, sub in self.subverbs.items()
            ]
            examples = [f"  {sub.examples[0]}" for sub in self.subverbs.values() if sub.examples]
            more = f"{self.prog} VERB --help shows the options of each."
            self.epilog = "\n".join(["verbs:", *lines, "", "examples:", *examples, "", more])
        return super().format_help()

    def _check_options(self, argv: list[str]) -> None:
        """Usage error for options that there are none of, each with the one probably meant."""
        known = [option for action in self.arguments for option in action.option_strings]
        places = [action.metavar for action in self.arguments if not action.option_strings]
        words = argv[: argv.index("--")] if "--" in argv else argv
        options = [word.partition("=")[0] for word in words if _OPTION.match(word)]
        faults: list[str] = []
        for option in dict.fromkeys(option for option in options if option not in known):
            name = option.lstrip("-")
            if name.upper() in places:
                faults.append(f"{name.upper()} is given by itself, without {option}")
                continue
            synonym = next((o for o in _SYNONYMS.get(name, ()) if o in known), "")
            own = [each for each in known if each not in _EVERYWHERE]
            close = close_to(option, own) or close_to(option, _EVERYWHERE, 0.8)
            hint = f"; did you mean {synonym}?" if synonym else close
            faults.append(f"there is no option {excerpt(option)}{hint}")
        if faults:
            self.error(", ".join(faults))

    def error(self, message: str) -> NoReturn:
        """Usage error: `main` says what is wrong and where to read on."""
        for pattern, words in _PLAIN_ERRORS:
            message = re.sub(pattern, words, message)
        raise UsageError(message, self.prog)


def _unquoted(found: re.Match[str]) -> str:
    return f"{found[1]} is not one of {found[2].replace(chr(39), '')}"


_PLAIN_ERRORS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^the following arguments are required: (.*)$", r"missing: \1"),
    (r"^one of the arguments (\S+) (.*) is required$", r"missing: \1 or \2"),
    (r"^argument (.+?): not allowed with argument (.*)$", r"\1 doesn't go with \2"),
    (r"^argument (.+?): expected one argument$", r"\1 needs a value"),
    (r"invalid choice: ('.*?') \(choose from (.*)\)$", _unquoted),
    (r"^argument ", ""),
)
"""Patterns of messages from `argparse`, and the plainer words that replace them."""


def _with_close_task(session: Session, error: NotFound, named: str) -> NotFound:
    """The error for an unknown task, with the most similar task as a hint."""
    with session.open() as workspace:
        known = [each.task for each in workspace.tasks()]
    begun = [task for task in known if task.casefold().startswith(named.casefold())]
    hint = f"; did you mean {begun[0]}?" if len(begun) == 1 else close_to(named, known, 0.8)
    if not hint:
        return error
    return NotFound(error.message + hint, next_step=error.next_step, code=error.code)


def _argparse_options(
    argument: Argument, command: Command
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What `add_argument` gets for an argument."""
    is_needed = argument.default is _REQUIRED and not command.may_find(argument)
    metavar, text = _words_of(argument, command)
    options: dict[str, Any] = {"help": text}
    if argument.type == "bool":
        options["action"] = "store_false" if argument.default is True else "store_true"
    else:
        options |= _value_options(argument, command, metavar)
    if argument.is_option:
        if is_needed and not argument.is_author:
            options["required"] = True
        flag = flag_of(argument, command)
        names = (flag, _ALIASES[flag]) if flag in _ALIASES else (flag,)
        return names, {**options, "dest": argument.name}
    if argument.is_list:
        options |= {"nargs": "+"} if is_needed else {"nargs": "*", "default": argparse.SUPPRESS}
        options["type"] = command.types.get(argument.name, str)
        options.pop("action", None)
    elif not is_needed:
        options |= {"nargs": "?", "default": None}
    return (argument.name,), options


def _value_options(argument: Argument, command: Command, metavar: str) -> dict[str, Any]:
    choices = _choices_of(argument, command)
    options: dict[str, Any] = {"choices": choices} if choices else {"metavar": metavar}
    if _is_long(choices):
        options["metavar"] = metavar
    if argument.is_list and choices:
        options |= {"action": "append", "metavar": metavar}
    elif argument.is_list:
        is_word = metavar in (TASK, TAG, ITEM)
        options |= {"action": "extend", "type": comma_list if is_word else _single}
    elif argument.type in _TYPES:
        options["type"] = _TYPES[argument.type]
    if argument.name in command.types:
        options["type"] = command.types[argument.name]
    return options


def flag_of(argument: Argument, command: Command) -> str:
    """The option that gives an argument."""
    name = argument.name
    known = command.flags.get(name) or _FLAGS.get(name)
    if known:
        return known
    name = name.strip("_")
    if argument.is_list:
        name = name.removesuffix("s")
    return ("--no-" if argument.default is True else "--") + name.replace("_", "-")


_BY_TYPE = {"int": "N", "Budget": "TOKENS", "Author": AGENT}


def _words_of(argument: Argument, command: Command) -> tuple[str, str]:
    """The name of an argument's value, and its help."""
    metavar, text = _WORDS.get(argument.name, ("", ""))
    metavar, text = argument.metavar or metavar, text or argument.help
    if argument.type == "Person":
        metavar = "NAME"
    if command.may_find(argument):
        text = "default: the one you work on, the only open one, or the one of the branch"
    given = command.help.get(argument.name, "")
    named, mark, rest = given.partition(": ")
    if mark and re.fullmatch(r"[A-Z0-9_:.=%-]+", named):
        metavar, text = named, rest
    elif given:
        text = given
    metavar = metavar or _BY_TYPE.get(argument.type, "TEXT")
    if argument.name in command.hidden:
        return metavar, HIDDEN
    if argument.is_author:
        return metavar, f"{text}; {_AUTHOR}"
    choices = _choices_of(argument, command)
    if argument.is_list and argument.is_option:
        more = f": {', '.join(choices)}" if choices else ""
        more = more or (", or hold several with commas" if metavar in (TASK, TAG, ITEM) else "")
        return metavar, f"{text}; may be repeated{more}"
    if _is_long(choices):
        metavar, text = argument.name.upper(), _with_choices(text, choices)
    is_shown = isinstance(argument.default, int | float | str) and argument.default not in ("", 0)
    if is_shown and argument.type != "bool" and "default" not in text:
        return metavar, f"{text}; default: {argument.default}".removeprefix("; ")
    return metavar, text


def _with_choices(text: str, choices: Collection[str]) -> str:
    """A help text with the choices added, unless it lists them already."""
    head, mark, more = text.partition("; ")
    words = "" if all(each in head for each in choices) else ", ".join(choices)
    if head and words and not head.startswith("default"):
        return f"{head}: {words}{mark}{more}"
    return f"{words}; {text}".strip("; ")


def _is_long(choices: Collection[str]) -> bool:
    """Whether choices are too long for a line of usage, and are in the help alone."""
    return sum(map(len, choices)) > _LONG_CHOICES


def _is_item_id(text: str) -> bool:
    """Whether a text is an item's id without its task, as briefs have it: d3."""
    from passdown.core.kinds import KINDS

    return text[:1] in KINDS and text[1:].isascii() and text[1:].isdigit()


def full_address(text: str, task: str | None) -> str:
    """The address of an item; an id without a task is one of this task."""
    return f"{task}#{text}" if task and _is_item_id(text) else text


def _choices_of(argument: Argument, command: Command) -> Collection[str]:
    known = command.choices.get(argument.name) or _CHOICES.get(argument.name) or argument.choices
    if not known and argument.type.startswith("Literal["):
        return tuple(re.findall(r"""["']([^"']*)["']""", argument.type))
    return known


def close_to(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint at the known word that was probably meant, or nothing."""
    from difflib import get_close_matches

    names = {name.lstrip("-"): name for name in known}
    close = get_close_matches(word.lstrip("-"), names, 1, cutoff)
    return f"; did you mean {names[close[0]]}?" if close else ""


def comma_list(text: str) -> list[str]:
    """The words of an argument, which commas separate."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} has nothing before or after a comma")
    return words


def _single(text: str) -> list[str]:
    return [text]


def whole_number(text: str) -> int:
    """A whole number, 0 or more."""
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if is_number and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    what = f"from 0 to {10**_DIGITS - 1:,}" if is_number else "a whole number"
    raise argparse.ArgumentTypeError(f"{excerpt(text)!r} is not {what}")


def token_budget(text: str) -> int:
    """A number of tokens: at least one."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0
    if not 1 <= found <= MAX_BUDGET:
        expected = f"a whole number from 1 to {MAX_BUDGET:,}"
        raise argparse.ArgumentTypeError(f"{excerpt(text)!r} given, expected {expected}")
    return found


def seconds(text: str) -> float:
    """A number of seconds: more than none, and at most a day."""
    found = decimal(text)
    if not 0 < found <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds up to 86,400")
    return found


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    if not 0 <= decimal(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} given, expected a number from 0 to 1")
    return decimal(text)


def decimal(text: str) -> float:
    """The number that a text spells; not a number where it spells none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def given_text(text: str) -> str:
    """A text that isn't empty: an empty one is most likely a slip."""
    if not text.strip():
        raise argparse.ArgumentTypeError("nothing is given; leave the option out for all")
    return text


_TYPES: dict[str, Callable[[str], object]] = {
    "int": whole_number,
    "Budget": token_budget,
}
