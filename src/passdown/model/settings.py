"""Settings of a workspace: what `.passdown/config.toml` may say, with its defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.kinds import ARTIFACT_TYPES, PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

Requirements = dict[str, dict[str, int]]


class Settings(NamedTuple):
    """How a workspace behaves.

    `phase_gates` maps a phase to the artifacts, by type, that a task must have to enter it.
    `kept_versions` is how many of the latest versions a handle file always shows; twice as many and
    the older half moves to its archive.
    """

    phase_gates: Requirements = {"testing": {"source": 1, "test": 1}}  # noqa: RUF012
    artifacts_on_disk: bool = True
    kept_versions: int = 8
    lock_timeout_s: float = 30.0
    durability: str = "full"


DEFAULTS = Settings()

MAX_SETTING = 1_000_000

CONFIG_TEMPLATE = """\
# Settings of this Passdown workspace. What stands here are the defaults; remove the # to \
change one.

# Artifacts that a task must have, by type, before it may enter a phase.
# [gates.testing]
# source = 1
# test = 1

# Refuse a handoff that names a file which isn't there.
# [handoff]
# artifacts_on_disk = true

# Versions whose items a handle file always shows; older ones move to its archive.
# [state]
# kept_versions = 8

# "normal" is faster and may lose the last moments before a power cut.
# [store]
# lock_timeout_s = 30.0
# durability = "full"
"""


def parse_settings(document: Mapping[str, Any]) -> Settings:
    """Settings from a parsed configuration file; all problems at once."""
    problems: list[Problem] = []
    fields: dict[str, Any] = {}
    for section, values in document.items():
        if section == "gates":
            fields["phase_gates"] = _gates(values, problems)
        elif section in _SECTIONS and isinstance(values, dict):
            for name, value in cast("dict[str, Any]", values).items():
                _read(f"{section}.{name}", value, fields, problems)
        else:
            problems.append(_unknown(section, " | ".join(("gates", *sorted(_SECTIONS)))))
    if problems:
        raise InvalidInput("the configuration has faults", problems, next_step=_WHERE)
    return Settings(**fields)


def checked_settings(settings: Settings) -> Settings:
    """Settings that a program gives, held to the rules of the configuration file."""
    document: dict[str, Any] = {"gates": settings.phase_gates}
    for path in _KNOWN:
        section, _, name = path.partition(".")
        document.setdefault(section, {})[name] = getattr(settings, name)
    return parse_settings(document)._replace(phase_gates=settings.phase_gates)


_WHERE = "Mend .passdown/config.toml; nothing was changed."
_SECTIONS = {"handoff", "state", "store"}
_KNOWN: dict[str, tuple[type, ...]] = {
    "handoff.artifacts_on_disk": (bool,),
    "state.kept_versions": (int,),
    "store.lock_timeout_s": (int, float),
    "store.durability": (str,),
}


def _unknown(path: str, expected: str) -> Problem:
    return Problem(path, "unknown_setting", "is not a setting", expected)


def _read(path: str, value: Any, fields: dict[str, Any], problems: list[Problem]) -> None:
    types = _KNOWN.get(path)
    if types is None:
        problems.append(_unknown(path, " | ".join(_KNOWN)))
    elif not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        expected = " or ".join(kind.__name__ for kind in types)
        problems.append(Problem(path, "wrong_type", f"{type(value).__name__} given", expected))
    elif not isinstance(value, str | bool) and not 0 < value <= MAX_SETTING:
        expected = f"more than 0, at most {MAX_SETTING:,}"
        problems.append(Problem(path, "out_of_range", f"{str(value)[:40]} given", expected))
    elif path == "store.durability" and value not in ("full", "normal"):
        problems.append(Problem(path, "invalid_choice", f"{value!r}", "full | normal"))
    else:
        fields[path.partition(".")[2]] = value


def _gates(values: Any, problems: list[Problem]) -> Requirements:
    found: Requirements = dict(DEFAULTS.phase_gates)
    if not isinstance(values, dict):
        problems.append(Problem("gates", "wrong_type", f"{type(values).__name__} given", "a table"))
    phases = cast("dict[str, object]", values) if isinstance(values, dict) else {}
    for phase, wanted in phases.items():
        if phase not in PHASES or not isinstance(wanted, dict):
            problems.append(_unknown(f"gates.{phase}", " | ".join(PHASES)))
            continue
        found[str(phase)] = {}
        for kind, count in cast("dict[str, object]", wanted).items():
            path = f"gates.{phase}.{kind}"
            if kind not in ARTIFACT_TYPES:
                problems.append(_unknown(path, " | ".join(ARTIFACT_TYPES)))
            elif not isinstance(count, int) or isinstance(count, bool) or count < 0:
                problems.append(Problem(path, "wrong_type", f"{count!r} given", "0 or more"))
            else:
                found[str(phase)][str(kind)] = count
    return found
