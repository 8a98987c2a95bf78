"""`completion`: shell completion scripts, made from the parsers of the verbs.

A script knows every verb, its subverbs, their options and choices; task ids, runs, agents and
rules are looked up when they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from passdown.cli.main import VERBS
from passdown.cli.parsing import AGENT, DOMAIN, FILE, HIDDEN, RUN, TASK, command
from passdown.cli.session import UsageError

if TYPE_CHECKING:
    from argparse import Action

    from passdown.cli.parsing import Parser
    from passdown.cli.session import Session


_FILES = (FILE, "DIR", "PATH")
_ASKED = {
    "@tasks": "command passdown task list --all --ids 2>/dev/null",
    "@agents": "command passdown completion --offer agents 2>/dev/null",
    "@rules": "command passdown completion --offer rules 2>/dev/null",
    "@runs": "command passdown completion --offer runs 2>/dev/null",
}
"""The command that lists the values of each source."""


class _Level(NamedTuple):
    """What may follow a verb: `words` at once, `values` after an option, `places` by position."""

    path: str
    words: list[str]
    values: dict[str, str]
    place: str
    lines: dict[str, str]


@command(
    "completion",
    'eval "$(passdown completion bash)"',
    'eval "$(passdown completion zsh)"',
    "passdown completion fish > ~/.config/fish/completions/passdown.fish",
    has_store=False,
    has_json=False,
    hidden=("offer",),
    help={"shell": "the shell"},
)
def completion(
    session: Session,
    shell: Literal["bash", "zsh", "fish"] | None = None,
    *,
    offer: Literal["agents", "rules", "runs"] | None = None,
) -> None:
    """Print a completion script for your shell."""
    if offer:
        _print_names(session, offer)
        return
    if not shell:
        raise UsageError("name a shell: bash, zsh or fish")
    scripts = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    print(scripts[shell](), end="")


def _print_names(session: Session, offer: str) -> None:
    """Print names, one a line; shells expand what they are offered, so only plain ones."""
    from passdown.core.names import id_problems

    with session.open() as workspace:
        if offer == "agents":
            names = list(workspace.context.agents())
        elif offer == "runs":
            from passdown.relay.runs import Runs

            names = list(Runs(workspace).positions())
        else:
            domains = workspace.rules.report()["domains"]
            names = [domain[key] for key in ("name", "layer_name") for domain in domains]
    for name in dict.fromkeys(names):
        if not id_problems(name, "name"):
            print(name)


def _levels() -> list[_Level]:
    from passdown.cli.main import parser_of

    found: list[_Level] = []
    for verb in VERBS:
        parser = parser_of(verb)
        if parser.subverbs:
            lines = {name: sub.line for name, sub in parser.subverbs.items()}
            found.append(_Level(verb, list(parser.subverbs), {}, "", lines))
            found += [_level(f"{verb} {name}", parser.below(name)) for name in parser.subverbs]
        else:
            found.append(_level(verb, parser))
    return found


def _level(path: str, parser: Parser) -> _Level:
    words: list[str] = []
    values: dict[str, str] = {}
    lines: dict[str, str] = {}
    place = ""
    for action in parser.arguments:
        if action.help == HIDDEN:
            continue
        if not action.option_strings:
            place = place or _source(action)
        for option in action.option_strings:
            words.append(option)
            lines[option] = str(action.help or "").partition(";")[0]
            if action.nargs != 0:
                values[option] = _source(action)
    return _Level(path, words, values, place, lines)


def _source(action: Action) -> str:
    """Where an argument's values come from: one of `_ASKED`, `@files`, some words, or nowhere."""
    if action.choices is not None:
        return " ".join(str(choice) for choice in action.choices)
    asked = {TASK: "@tasks", AGENT: "@agents", DOMAIN: "@rules", RUN: "@runs"}
    if action.metavar in asked:
        return asked[str(action.metavar)]
    return "@files" if action.metavar in _FILES else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def bash_script() -> str:
    """The script for bash."""
    cases = [
        f"    {_quoted(f'{level.path} {option}')}) from={_quoted(source)} ;;"
        for level in _levels()
        for option, source in level.values.items()
    ]
    words = [
        f"    {_quoted(level.path)}) words={_quoted(' '.join(level.words))}"
        f" place={_quoted(level.place)} ;;"
        for level in _levels()
    ]
    pairs = " ".join(level.path for level in _levels() if not level.words[0].startswith("-"))
    return _BASH.format(
        verbs=" ".join(VERBS),
        groups=pairs,
        asked="\n".join(
            f'    {source}) COMPREPLY=( $(compgen -W "$({command})" -- "$current") ) ;;'
            for source, command in _ASKED.items()
        ),
        cases="\n".join(cases),
        words="\n".join(words),
    )


_BASH = """\
# Completion of passdown for bash. Load it with: eval "$(passdown completion bash)"
_passdown() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local at=1 path from='-' words='' place=''
  if [[ ${{COMP_WORDS[1]}} == --store && $COMP_CWORD -gt 2 ]]; then at=3; fi
  if (( COMP_CWORD == at )); then
    COMPREPLY=( $(compgen -W '{verbs} help --help --version --store' -- "$current") )
    return
  fi
  path=${{COMP_WORDS[at]}}
  if [[ " {groups} " == *" $path "* ]] && (( COMP_CWORD > at + 1 )); then
    path="$path ${{COMP_WORDS[at+1]}}"
  fi
  case "$path $previous" in
{cases}
  esac
  case "$path" in
{words}
  esac
  if [[ $from == '-' ]]; then
    if [[ $current == -* || -z $place ]]; then
      COMPREPLY=( $(compgen -W "$words" -- "$current") )
      return
    fi
    from=$place
  fi
  case "$from" in
{asked}
    @files) compopt -o filenames 2>/dev/null; COMPREPLY=( $(compgen -f -- "$current") ) ;;
    *) COMPREPLY=( $(compgen -W "$from" -- "$current") ) ;;
  esac
}}
complete -F _passdown passdown
"""


def zsh_script() -> str:
    """The script for zsh: bash's, by way of zsh's own support for such scripts."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash_script()}"


def fish_script() -> str:
    """The script for fish."""
    lines = ["# Completion of passdown for fish.", "complete -c passdown -f"]
    lines += [_fish("__fish_use_subcommand", f"-a {v.name}", v.line) for v in VERBS.values()]
    for level in _levels():
        verb, _, below = level.path.partition(" ")
        seen = f"__fish_seen_subcommand_from {verb}"
        seen += f"; and __fish_seen_subcommand_from {below}" if below else ""
        for word in level.words:
            if word.startswith("--"):
                source = _fish_source(level.values[word]) if word in level.values else ""
                lines.append(_fish(seen, f"-l {word[2:]}{source}", level.lines[word]))
            elif not word.startswith("-"):
                names = " ".join(level.words)
                first = f"{seen}; and not __fish_seen_subcommand_from {names}"
                lines.append(_fish(first, f"-a {word}", level.lines[word]))
        if level.place:
            lines.append(_fish(seen, _fish_place(level.place), ""))
    return "\n".join(lines) + "\n"


def _fish(condition: str, what: str, help: str) -> str:
    described = f" -d {_fish_quoted(help)}" if help else ""
    return f"complete -c passdown -n {_fish_quoted(condition)} {what}{described}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_source(source: str) -> str:
    """How an option's value is completed."""
    if source == "@files":
        return " -r -F"
    return f" -x {_fish_place(source)}" if source else " -x"


def _fish_place(source: str) -> str:
    if source == "@files":
        return "-F"
    return f"-a {_fish_quoted(f'({_ASKED[source]})' if source in _ASKED else source)}"
