"""Names of the SDK's agents as the ledger can bear them."""

from __future__ import annotations

import re
import unicodedata

from passdown.errors import InvalidInput
from passdown.model.names import MAX_AGENT, agent_problems


def ledger_name(name: str, path: str) -> str:
    """An agent's name without spaces and marks: `Triage agent` is `Triage-agent`.

    Raises InvalidInput where nothing is left that could be a name; `path` is the argument that
    gives one instead.
    """
    if not agent_problems(name, path):
        return name
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    short = re.sub("[^A-Za-z0-9._-]+", "-", folded).strip("-._")[:MAX_AGENT].strip("-._")
    problems = agent_problems(short, path)
    if problems:
        step = f"Give {path}: a name in ASCII letters, digits, '.', '_' and '-'."
        raise InvalidInput(
            f"the agent's name {name[:60]!r} can't be recorded", problems, next_step=step
        )
    return short
