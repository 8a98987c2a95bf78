"""What a manifest and the files of domains say: which rules there are and when each applies.

A manifest has one fact per line, `NAME.key=value`; lines that begin with `#` are comments. A domain
whose lines have a fault is left out and reported, the others stay.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from passdown.briefing.rules.brackets import BRACKETS
from passdown.errors import Problem
from passdown.model.names import id_problems, normal_path, path_problems
from passdown.model.text import excerpt, text_problems

MANIFEST = "manifest"
MAX_DOMAINS = 1_000
MAX_WORDS = 200
MAX_RULE = 2_000


class Layer(NamedTuple):
    """One of the eight layers; `limit_ms` is how long choosing its rules may take."""

    number: int
    name: str
    limit_ms: float


LAYERS = (
    Layer(0, "constitution", 5),
    Layer(1, "global", 10),
    Layer(2, "agent", 15),
    Layer(3, "workflow", 15),
    Layer(4, "task", 20),
    Layer(5, "squad", 20),
    Layer(6, "keyword", 15),
    Layer(7, "star", 5),
)
_LAYER_OF = {word: layer for layer in LAYERS for word in (str(layer.number), layer.name)}
_BRACKET_NAMES = tuple(bracket.name for bracket in BRACKETS)

KEYS = ("layer", "file", "trigger", "recall", "exclude", "bracket")
_TRIGGERED = (2, 3, 4, 5, 7)
_KEYS_OF = {
    **dict.fromkeys(_TRIGGERED, ("layer", "file", "trigger")),
    0: ("layer", "file"),
    1: ("layer", "file", "bracket"),
    6: ("layer", "file", "recall", "exclude"),
}
# Only capitals make a key, so that a rule such as "set retries=3" stays whole.
_KEYED = re.compile(r"[A-Z][A-Z0-9_]*=")


class Domain(NamedTuple):
    """Rules that apply together.

    `trigger` names the agents, workflows, tasks, squads or star-commands they are for, `recall`
    and `exclude` are words in a prompt, `brackets` are those that the rules are for (none: all).
    """

    name: str
    layer: int
    file: str
    trigger: tuple[str, ...] = ()
    recall: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    brackets: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Manifest(NamedTuple):
    """The domains that could be read, in the manifest's order, and everything that is wrong."""

    domains: tuple[Domain, ...] = ()
    devmode: bool = False
    problems: tuple[Problem, ...] = ()


class _Facts(NamedTuple):
    """The lines about one domain: key to value, with what is wrong with them."""

    values: dict[str, str]
    problems: list[Problem]


def parse_manifest(text: str) -> Manifest:
    """The domains of a manifest; a faulty one is left out, and all faults are listed."""
    found: dict[str, _Facts] = {}
    problems: list[Problem] = []
    devmode: list[bool] = []
    for number, raw in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        line, where = raw.strip(), f"{MANIFEST}:{number}"
        if not line or line.startswith("#"):
            continue
        key, mark, value = (part.strip() for part in line.partition("="))
        if mark and key == "devmode" and value in ("on", "off"):
            devmode.append(value == "on")
        elif not mark or "." not in key:
            expected = "NAME.key=value, or devmode=on or off"
            problems.append(Problem(where, "invalid_line", f"'{excerpt(line)}'", expected))
        else:
            _note(found, where, key, value)
    domains: list[Domain] = []
    for name, facts in found.items():
        domain = _domain(name, facts)
        problems += facts.problems
        if not any(problem.level == "error" for problem in facts.problems):
            domains.append(domain)
    if len(domains) > MAX_DOMAINS:
        message = f"{len(domains):,} domains; those after the first {MAX_DOMAINS:,} are left out"
        problems.append(Problem(MANIFEST, "too_many", message, f"at most {MAX_DOMAINS:,}"))
    return Manifest(tuple(domains[:MAX_DOMAINS]), devmode[-1:] == [True], tuple(problems))


def _note(found: dict[str, _Facts], where: str, key: str, value: str) -> None:
    name, _, fact = key.rpartition(".")
    facts = found.setdefault(name, _Facts({}, []))
    if fact not in KEYS:
        message = f"'{excerpt(fact)}' is nothing that a domain has"
        facts.problems.append(Problem(where, "unknown_key", message, " | ".join(KEYS)))
    elif fact in facts.values:
        message = f"{excerpt(key)} stands there twice"
        facts.problems.append(Problem(where, "duplicate", message, "one line"))
    elif not value:
        facts.problems.append(Problem(where, "empty", f"{excerpt(key)} has no value", "a value"))
    else:
        facts.values[fact] = value


def _domain(name: str, facts: _Facts) -> Domain:
    where, values, problems = f"{MANIFEST}: {excerpt(name)}", facts.values, facts.problems
    problems += id_problems(name, where)
    file = values.get("file", name)
    problems += path_problems(file, f"{where}.file") if file != name else []
    if normal_path(file) == MANIFEST:
        problems.append(Problem(f"{where}.file", "own_file", "is the manifest", "another file"))
    layer = _LAYER_OF.get(values.get("layer", "").lower())
    if layer is None:
        given = f"'{excerpt(values['layer'])}' is no layer" if "layer" in values else "has no layer"
        expected = "a number from 0 to 7, or " + " | ".join(layer.name for layer in LAYERS)
        problems.append(Problem(f"{where}.layer", "invalid_layer", given, expected))
        return Domain(name, 0, file)
    problems += _misfits(where, layer, values)
    return Domain(
        name,
        layer.number,
        normal_path(file),
        trigger=tuple(_words(where, "trigger", values, problems)),
        recall=tuple(_words(where, "recall", values, problems)),
        exclude=tuple(_words(where, "exclude", values, problems)),
        brackets=tuple(_brackets(where, values, problems)),
    )


def _misfits(where: str, layer: Layer, values: dict[str, str]) -> list[Problem]:
    """Facts that a layer needs and doesn't have, or has and doesn't use."""
    allowed = _KEYS_OF[layer.number]
    found = [
        Problem(f"{where}.{key}", "unused_key", f"the layer {layer.name} has no {key}", "", fix)
        for key in values
        if key not in allowed
        for fix in (f"remove it, or use {', '.join(allowed)}",)
    ]
    needed = "recall" if layer.number == 6 else "trigger" if layer.number in _TRIGGERED else ""
    if needed and needed not in values:
        message = f"the layer {layer.name} needs a {needed}"
        found.append(Problem(f"{where}.{needed}", "missing", message, "words, with commas"))
    return found


def _words(where: str, key: str, values: dict[str, str], problems: list[Problem]) -> list[str]:
    if key not in values:
        return []
    words = [" ".join(word.split()) for word in values[key].split(",")]
    if not all(any(map(str.isalnum, word)) for word in words):
        message = f"'{excerpt(values[key])}' has a part without letters and digits"
        problems.append(Problem(f"{where}.{key}", "empty", message, "words, with commas"))
    if len(words) > MAX_WORDS:
        message = f"{len(words):,} words"
        problems.append(Problem(f"{where}.{key}", "too_many", message, f"at most {MAX_WORDS}"))
    return words


def _brackets(where: str, values: dict[str, str], problems: list[Problem]) -> list[str]:
    names = [name.upper() for name in _words(where, "bracket", values, problems)]
    for name in names:
        if name and name not in _BRACKET_NAMES:
            expected = " | ".join(_BRACKET_NAMES)
            message = f"'{excerpt(name)}' is no bracket"
            problems.append(Problem(f"{where}.bracket", "invalid_choice", message, expected))
    return names


def parse_rules(text: str, path: str) -> tuple[tuple[str, ...], list[Problem]]:
    """The rules in a domain's file, one per line, and what is wrong with the others.

    A line is a rule, or `KEY=rule` with a key in capitals; a dash before it is taken off.
    """
    rules: list[str] = []
    problems: list[Problem] = []
    keys: set[str] = set()
    for number, raw in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        line, where = raw.strip(), f"{path}:{number}"
        if not line or line.startswith("#"):
            continue
        key = found[0] if (found := _KEYED.match(line)) else ""
        rule = line.removeprefix(key).strip() if key else line.removeprefix("- ").strip()
        faults = text_problems(rule, where, max_length=MAX_RULE)
        if key and key in keys:
            message = f"{excerpt(key[:-1])} stands there twice"
            faults.append(Problem(where, "duplicate", message, "one line"))
        keys |= {key} if key else set()
        problems += faults
        rules += [] if faults else [rule]
    if not rules and not problems:
        problems.append(Problem(path, "empty", "holds no rule", "one rule per line", "", "warning"))
    return tuple(rules), problems
