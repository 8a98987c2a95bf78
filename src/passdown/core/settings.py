"""Settings of a workspace: the contents of `.passdown/config.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from passdown.core.kinds import ARTIFACT_TYPES, PHASES
from passdown.core.names import phase_problems
from passdown.core.tokens import COUNTERS
from passdown.core.values import NamedTuple
from passdown.errors import Problem, raise_problems

Requirements = dict[str, dict[str, int]]
Needs = dict[str, dict[str, list[str]]]

NEEDS = ("files", "decisions", "gates")
"""What an agent may need: files by type or pattern, decisions by topic, gates by name."""


class Settings(NamedTuple):
    """How a workspace behaves.

    `phases` are a task's phases in their order, and `completes` is the one that completes it.
    `phase_gates` maps a phase to the artifacts, by type, that a task must have to enter it.
    `kept_versions` is how many of the latest versions a state file always shows; twice as many and
    the older half moves to its archive. `state_bytes` is how long the file may be: items that don't
    fit are counted, and in the archive. With `state_sync` each is synced before it takes its name.
    `needs` maps an agent to what it has to get in a handoff.
    `compact_at` is the share of the context `window` from which compaction is due.
    `migrate_timeout_s` is how long the answer to the prompt of an unclear note may take.
    """

    phase_gates: Requirements = {"testing": {"source": 1, "test": 1}}  # noqa: RUF012
    artifacts_on_disk: bool = True
    kept_versions: int = 8
    state_bytes: int = 262_144
    state_sync: bool = False
    lock_timeout_s: float = 30.0
    durability: str = "full"
    brief_budget: int = 500
    counter: str = "o200k_base"
    agents_folder: str = ""
    registry: str = ""
    rules_folder: str = ".passdown/rules"
    switch_enabled: bool = True
    switch_budget: int = 340
    switch_template: str = ""
    window: int = 200_000
    compact_at: float = 0.25
    migrate_timeout_s: float = 120.0
    embedder: str = "minilm"
    needs: Needs = {}  # noqa: RUF012
    phases: tuple[str, ...] = PHASES
    completes: str = PHASES[-1]


DEFAULTS = Settings()

MAX_SETTING = 1_000_000

CONFIG_TEMPLATE = """\
# Settings of this Passdown workspace. These are the defaults; remove the # to \
change one.

# The phases of a task in their order; the last one completes it, unless another is named.
# [phases]
# names = ["planning", "implementing", "testing", "reviewing", "completed"]
# completes = "completed"

# Artifacts that a task must have, by type, before it may enter a phase.
# [gates.testing]
# source = 1
# test = 1

# Refuse a handoff that names a missing file.
# [handoff]
# artifacts_on_disk = true

# Versions whose items a state file always shows; older ones move to its archive.
# [state]
# With sync, each is on disk before it takes its name: for programs that read the files alone.
# kept_versions = 8
# max_bytes = 262144
# sync = false

# "normal" is faster and may lose the last moments before a power cut.
# [store]
# lock_timeout_s = 30.0
# durability = "full"

# How long a brief may be, and by which counter: o200k_base, cl100k_base or chars4.
# [brief]
# budget = 500
# counter = "o200k_base"

# Where the agents' profiles are (NAME.md); else agents/, .claude/agents/ and .passdown/agents/.
# [agents]
# folder = ""
# registry = ""

# What an agent has to get with a handoff: files by type or pattern, decisions by topic, gates by
# name. A handoff to it that leaves one out is recorded, with a warning.
# [needs.qa]
# files = ["source", "tests/**"]
# decisions = ["storage"]
# plan = true

# What a switch of agents may add to the new agent's profile, in tokens; and the folder of your own
# switch-artifact.yaml, whose order of fields the artifacts have.
# [switch]
# enabled = true
# budget = 340
# template = ""

# The model's context window, and the share of it from which compaction is due.
# [context]
# window = 200000
# compact_at = 0.25

# How search understands meaning: "minilm" (offline), or "none" for words alone. Others are named in
# the environment, never here: a repository must not decide where your text goes.
# [recall]
# embedder = "minilm"

# How long an answer about an unclear note may take (passdown migrate --ask). What answers is named
# in the environment, never here: a repository must not decide what runs on your machine.
# [migrate]
# timeout_s = 120.0

# Rules by layer, as docs/rules.md has them.
# [rules]
# folder = ".passdown/rules"
"""


def parse_settings(document: Mapping[str, Any]) -> Settings:
    """Settings from a parsed configuration file; all problems at once."""
    problems: list[Problem] = []
    fields: dict[str, Any] = _phases(document.get("phases", {}), problems)
    for section, values in document.items():
        if section == "phases":
            continue
        if section == "gates":
            fields["phase_gates"] = _gates(values, fields["phases"], problems)
        elif section == "needs":
            fields["needs"] = {
                str(agent): parse_needs(wanted, f"needs.{agent}", problems)
                for agent, wanted in _table(values, "needs", problems).items()
            }
        elif section in _SECTIONS:
            for name, value in _table(values, section, problems).items():
                _read(f"{section}.{name}", value, fields, problems)
        else:
            known = ("phases", "gates", "needs", *sorted(_SECTIONS))
            problems.append(_unknown(section, known, _SETTINGS))
    raise_problems("the configuration has faults", problems, next_step=_WHERE)
    return Settings(**fields)


def _table(values: object, path: str, problems: list[Problem]) -> dict[str, Any]:
    if isinstance(values, dict):
        return cast("dict[str, Any]", values)
    problems.append(Problem(path, "wrong_type", f"{type(values).__name__} given", "a table"))
    return {}


def checked_settings(settings: Settings) -> Settings:
    """Settings that a program gives, held to the rules of the configuration file."""
    phases: dict[str, Any] = {"names": list(settings.phases)}
    if settings.completes in settings.phases or settings.completes != DEFAULTS.completes:
        phases["completes"] = settings.completes
    gates = {
        name: wanted
        for name, wanted in settings.phase_gates.items()
        if name in settings.phases or wanted != DEFAULTS.phase_gates.get(name)
    }
    document: dict[str, Any] = {"phases": phases, "gates": gates, "needs": settings.needs}
    for path, known in _SETTINGS.items():
        section, _, name = path.partition(".")
        document.setdefault(section, {})[name] = getattr(settings, known.field)
    return parse_settings(document)._replace(phase_gates=settings.phase_gates)


_WHERE = "Fix .passdown/config.toml; nothing was changed."


class _Setting(NamedTuple):
    """A setting: its field, whose default has its type, and the greatest number or the choices."""

    field: str
    most: float = MAX_SETTING
    choices: tuple[str, ...] = ()


_SETTINGS: dict[str, _Setting] = {
    "handoff.artifacts_on_disk": _Setting("artifacts_on_disk"),
    "state.kept_versions": _Setting("kept_versions"),
    "state.max_bytes": _Setting("state_bytes", most=100_000_000),
    "state.sync": _Setting("state_sync"),
    "store.lock_timeout_s": _Setting("lock_timeout_s"),
    "store.durability": _Setting("durability", choices=("full", "normal")),
    "brief.budget": _Setting("brief_budget"),
    "brief.counter": _Setting("counter", choices=COUNTERS),
    "agents.folder": _Setting("agents_folder"),
    "agents.registry": _Setting("registry"),
    "rules.folder": _Setting("rules_folder"),
    "switch.enabled": _Setting("switch_enabled"),
    "switch.budget": _Setting("switch_budget"),
    "switch.template": _Setting("switch_template"),
    "migrate.timeout_s": _Setting("migrate_timeout_s", most=3_600),
    "recall.embedder": _Setting("embedder", choices=("minilm", "none")),
    "context.window": _Setting("window", most=100_000_000),
    "context.compact_at": _Setting("compact_at", most=1),
}
# What only a user may say, and how.
_ENVIRONMENT = {
    "migrate.command": "PASSDOWN_MIGRATE_COMMAND",
    "express.pull_request": "PASSDOWN_PR_COMMAND",
    "relay.url": "PASSDOWN_RELAY_URL",
}
_SECTIONS = {path.partition(".")[0] for path in _SETTINGS}


def _unknown(path: str, known: Sequence[str], further: Iterable[str] = ()) -> Problem:
    """A setting that there isn't, with the one that was probably meant."""
    from difflib import get_close_matches

    last = path.rpartition(".")[2]
    names = [*known, *further]
    close = [
        *get_close_matches(path, names, 1, 0.6),
        *get_close_matches(last, names, 1, 0.6),
        *(name for name in names if name.rpartition(".")[2] == last),
    ]
    fix = f"did you mean {close[0]}?" if close else ""
    return Problem(path, "unknown_setting", "is not a setting", " | ".join(known), fix)


def _read(path: str, value: Any, fields: dict[str, Any], problems: list[Problem]) -> None:
    known = _SETTINGS.get(path)
    default: Any = getattr(DEFAULTS, known.field) if known else None
    types = (int, float) if isinstance(default, float) else (cast("type[Any]", type(default)),)
    if path in _ENVIRONMENT:
        fix = f"set {_ENVIRONMENT[path]} in the environment"
        problems.append(Problem(path, "unknown_setting", "is not for a repository to say", "", fix))
    elif known is None:
        problems.append(_unknown(path, tuple(_SETTINGS)))
    elif not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        expected = " or ".join(kind.__name__ for kind in types)
        problems.append(Problem(path, "wrong_type", f"{type(value).__name__} given", expected))
    elif not isinstance(value, str | bool) and not 0 < value <= known.most:
        expected = f"more than 0, at most {known.most:,}"
        problems.append(Problem(path, "out_of_range", f"{str(value)[:40]} given", expected))
    elif known.choices and value not in known.choices:
        problems.append(
            Problem(path, "invalid_choice", f"{value!r:.40}", " | ".join(known.choices))
        )
    else:
        fields[known.field] = value


def parse_needs(values: object, path: str, problems: list[Problem]) -> dict[str, list[str]]:
    """What one agent declares that it needs; `plan = true` is short for the gate `plan`."""
    found: dict[str, list[str]] = {}
    for name, value in _table(values, path, problems).items():
        listed = [value] if isinstance(value, str) else value
        if name == "plan" and value in (True, False, "approved"):
            found["gates"] = [*found.get("gates", []), *(["plan"] if value else [])]
        elif name not in NEEDS:
            problems.append(_unknown(f"{path}.{name}", (*NEEDS, "plan")))
        elif not isinstance(listed, list) or not all(
            isinstance(part, str) and part for part in cast("list[object]", listed)
        ):
            problems.append(Problem(f"{path}.{name}", "wrong_type", "is no list", "texts"))
        else:
            found[name] = [*found.get(name, []), *cast("list[str]", listed)]
    return found


def _phases(values: object, problems: list[Problem]) -> dict[str, Any]:
    """The phases, and which of them completes: the last one, unless it is named."""
    given = _table(values, "phases", problems)
    names: object = given.get("names", list(PHASES))
    known = ("names", "completes")
    problems += [_unknown(f"phases.{name}", known) for name in given if name not in known]
    if not isinstance(names, list) or not 2 <= len(cast("list[Any]", names)) <= _MOST_PHASES:
        expected = f"2 to {_MOST_PHASES} names"
        problems.append(Problem("phases.names", "wrong_type", "is no list of phases", expected))
        return {"phases": PHASES, "completes": PHASES[-1]}
    phases = tuple(cast("list[str]", names))
    for place, name in enumerate(phases):
        where = f"phases.names[{place}]"
        problems += phase_problems(name, where)
        if phases.index(name) != place:
            problems.append(Problem(where, "duplicate", f"{name!r:.40} is there twice", "once"))
    completes: object = given.get("completes", phases[-1])
    if completes not in phases:
        message = f"{str(completes)[:40]!r} is none of the phases"
        problems.append(
            Problem("phases.completes", "invalid_choice", message, " | ".join(map(str, phases)))
        )
    elif PHASES[-1] in phases and completes != PHASES[-1]:
        message = f"{PHASES[-1]} is a phase, and completes a task in every workspace"
        problems.append(
            Problem("phases.completes", "contradiction", message, PHASES[-1], "rename it")
        )
    return {"phases": phases, "completes": completes}


_MOST_PHASES = 50


def _gates(values: Any, phases: Sequence[str], problems: list[Problem]) -> Requirements:
    found: Requirements = dict(DEFAULTS.phase_gates)
    for phase, wanted in _table(values, "gates", problems).items():
        if phase not in phases or not isinstance(wanted, dict):
            problems.append(_unknown(f"gates.{phase}", phases))
            continue
        found[str(phase)] = {}
        for kind, count in cast("dict[str, object]", wanted).items():
            path = f"gates.{phase}.{kind}"
            if kind not in ARTIFACT_TYPES:
                problems.append(_unknown(path, ARTIFACT_TYPES))
            elif not isinstance(count, int) or isinstance(count, bool) or count < 0:
                problems.append(Problem(path, "wrong_type", f"{count!r} given", "0 or more"))
            else:
                found[str(phase)][str(kind)] = count
    return found
