"""`completion`: scripts for shells, which ask this command what may come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from passdown.cli.main import VERBS, parser_of
from passdown.cli.parsing import AGENT, DOMAIN, FILE, HIDDEN, PHASE, RUN, TASK, command
from passdown.cli.session import Session, UsageError

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterable

Shell = Literal["bash", "zsh", "fish"]

_FILES = "@files"
"""Offered where a path is expected: shells complete those best themselves."""

_BASH = """\
# Completion of passdown. Load it with: eval "$(passdown completion bash)"
_passdown() {
  local current=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:1:COMP_CWORD}") IFS=$'\\n'
  COMPREPLY=( $(command passdown completion --offer bash -- "${words[@]}" 2>/dev/null) )
  if [[ ${COMPREPLY[*]} == @files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=( $(compgen -f -- "$current") )
  fi
}
complete -F _passdown passdown
"""
_FISH = """\
# Completion of passdown for fish.
function __passdown_complete
  set -l current (commandline -ct)
  set -l words (commandline -opc)[2..-1] "$current"
  set -l found (command passdown completion --offer fish -- $words 2>/dev/null)
  if test "$found" = @files
    __fish_complete_path "$current"
  else
    printf '%s\\n' $found
  end
end
complete -c passdown -f -a '(__passdown_complete)'
"""
_SCRIPTS = {
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": _FISH,
}


@command(
    "completion",
    'eval "$(passdown completion bash)"',
    'eval "$(passdown completion zsh)"',
    "passdown completion fish > ~/.config/fish/completions/passdown.fish",
    has_store=False,
    hidden=("offer", "words"),
    help={"shell": "SHELL: bash, zsh or fish"},
)
def completion(
    session: Session,
    shell: Shell | None = None,
    words: list[str] = [],  # noqa: B006
    *,
    offer: bool = False,
) -> None:
    """Print a completion script for your shell."""
    if not shell:
        raise UsageError("name a shell: bash, zsh or fish")
    if not offer:
        session.show_text(_SCRIPTS[shell])
        return
    for word, line in candidates(words or [""]).items():
        print(f"{word}\t{line}" if shell == "fish" and line else word)


def candidates(words: list[str]) -> dict[str, str]:
    """What the last of some words may become, each with its help."""
    *before, current = words
    store = before[1] if before[:1] == ["--store"] and len(before) > 1 else None
    found = _following(before[2:] if store else before, current, Session(store))
    return {w: t for w, t in found.items() if w.startswith(current) or w == _FILES}


def _following(before: list[str], current: str, session: Session) -> dict[str, str]:
    """What may follow the words after `passdown`."""
    if not before:
        verbs = {verb.name: verb.line for verb in VERBS.values()}
        return {**verbs, **dict.fromkeys(("help", "--help", "--version", "--store"), "")}
    verb, *rest = before
    if verb not in VERBS:
        return {}
    parser = parser_of(verb)
    if parser.subverbs:
        if not rest or rest[0] not in parser.subverbs:
            return {} if rest else {name: sub.line for name, sub in parser.subverbs.items()}
        parser = parser.below(rest[0])
    known = [action for action in parser.arguments if action.help != HIDDEN]
    options = {option: action for action in known for option in action.option_strings}
    asked = options.get(before[-1])
    if asked is not None and asked.nargs != 0:
        return _values(asked, session)
    place = next((action for action in known if not action.option_strings), None)
    values = _values(place, session) if place and not current.startswith("-") else {}
    return values or {o: str(a.help or "").partition(";")[0] for o, a in options.items()}


def _values(action: Action, session: Session) -> dict[str, str]:
    """The values of an argument, as far as they are known."""
    if action.choices is not None:
        return {str(choice): "" for choice in action.choices}
    if action.metavar in (FILE, "DIR", "PATH"):
        return {_FILES: ""}
    from passdown.core.names import id_problems

    # Shells expand what they are offered, so only plain names are.
    return {n: "" for n in _names(str(action.metavar), session) if not id_problems(n, "name")}


def _names(metavar: str, session: Session) -> Iterable[str]:
    if metavar not in (TASK, AGENT, RUN, DOMAIN, PHASE):
        return ()
    with session.open() as workspace:
        if metavar == TASK:
            return [entry.task for entry in workspace.tasks(with_workspace=True)]
        if metavar == AGENT:
            return workspace.context.agents()
        if metavar == RUN:
            from passdown.relay.runs import Runs

            return Runs(workspace).positions()
        if metavar == PHASE:
            from passdown.workspace.streams import WorkspaceStreams

            return WorkspaceStreams(workspace).settings.phases
        domains = workspace.rules.report().domains
        return [name for domain in domains for name in (domain.name, domain.layer_name)]
