"""Everything about a switch artifact under one name: limits, making, text, reading, checking."""

from passdown.briefing.switching.checking import artifact_problems
from passdown.briefing.switching.fields import (
    FIELDS,
    LIMITS,
    MAX_FIELD,
    MAX_RETAINED,
    MAX_SENTENCES,
    MAX_TOKENS,
    NEVER_CARRIED,
    REFERENCE,
    STORY_FIELDS,
    VERSION,
    Artifact,
)
from passdown.briefing.switching.filling import artifact_of
from passdown.briefing.switching.naming import artifact_name
from passdown.briefing.switching.short import short_summary
from passdown.briefing.switching.views import artifact_markdown
from passdown.briefing.switching.yaml_text import artifact_text, read_artifact
from passdown.model.kinds import MAX_BLOCKERS, MAX_DECISIONS, MAX_FILES

__all__ = [
    "FIELDS",
    "LIMITS",
    "MAX_BLOCKERS",
    "MAX_DECISIONS",
    "MAX_FIELD",
    "MAX_FILES",
    "MAX_RETAINED",
    "MAX_SENTENCES",
    "MAX_TOKENS",
    "NEVER_CARRIED",
    "REFERENCE",
    "STORY_FIELDS",
    "VERSION",
    "Artifact",
    "artifact_markdown",
    "artifact_name",
    "artifact_of",
    "artifact_problems",
    "artifact_text",
    "read_artifact",
    "short_summary",
]
