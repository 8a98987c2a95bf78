"""Which domains of each layer apply to a prompt."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.briefing.rules.manifest import Domain

    Provider = Callable[[], Sequence[Domain]]

# `*help` is a command; `2*n`, `*emphasis*` and `**bold**` are not.
_STAR = re.compile(r"(?<![^\s(\[\"'`])\*([A-Za-z][\w-]*)(?![\w*-])")

_WORD = re.compile(r"\w+(?:\+\+|#(?!\w))?")  # c++ and c# are words of their own


class Asked(NamedTuple):
    """What layers choose by: the prompt, what is active, and the bracket's name."""

    prompt: str = ""
    agent: str = ""
    workflow: str = ""
    task: str = ""
    squad: str = ""
    bracket: str = ""


def providers(domains: Sequence[Domain], asked: Asked) -> dict[int, Provider]:
    """For each layer, what gives the domains that apply, in the manifest's order."""
    chosen: dict[int, Callable[[Domain], bool]] = {
        0: _always,
        1: partial(_in_bracket, asked.bracket),
        2: partial(_triggered, asked.agent),
        3: partial(_triggered, asked.workflow),
        4: partial(_triggered, asked.task),
        5: partial(_triggered, asked.squad),
    }
    given: dict[int, Provider] = {
        number: partial(_those, domains, number, applies) for number, applies in chosen.items()
    }
    given[6] = partial(_recalled, domains, asked.prompt)
    given[7] = partial(_commanded, domains, asked.prompt)
    return given


def _always(_: Domain) -> bool:
    return True


def _in_bracket(bracket: str, domain: Domain) -> bool:
    return not domain.brackets or bracket in domain.brackets


def _triggered(name: str, domain: Domain) -> bool:
    """Whether a name is one of the domain's; a trigger may end in `*`."""
    wanted = name.casefold()
    return bool(wanted) and any(
        wanted.startswith(trigger[:-1].casefold())
        if trigger.endswith("*")
        else wanted == trigger.casefold()
        for trigger in domain.trigger
    )


def _those(
    domains: Sequence[Domain], layer: int, applies: Callable[[Domain], bool]
) -> list[Domain]:
    return [domain for domain in domains if domain.layer == layer and applies(domain)]


def _recalled(domains: Sequence[Domain], prompt: str) -> list[Domain]:
    """Domains with a recall word in the prompt and no exclude word; whole words only."""
    of_layer = _those(domains, 6, _always)
    if not of_layer:
        return []
    said = _spaced(prompt)
    words = set(said.split())

    def is_said(word: str) -> bool:
        phrase = _spaced(word)
        return phrase.strip() in words or (" " in phrase.strip() and phrase in said)

    return [
        domain
        for domain in of_layer
        if any(map(is_said, domain.recall)) and not any(map(is_said, domain.exclude))
    ]


def _spaced(text: str) -> str:
    """A text's words alone, folded, with one space around each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _commanded(domains: Sequence[Domain], prompt: str) -> list[Domain]:
    """Domains whose star-command, such as `*review`, stands in the prompt."""
    said = {name.casefold() for name in _STAR.findall(prompt)}
    return [
        domain
        for domain in _those(domains, 7, _always)
        if any(trigger.removeprefix("*").casefold() in said for trigger in domain.trigger)
    ]
