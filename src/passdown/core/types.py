"""Type aliases that many modules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

JsonObject = dict[str, Any]
Clock = Callable[[], datetime]
Heads = Mapping[str, Any] | str
"""The heads of streams as `maintenance.heads` gives them, or that as JSON text."""
Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""

Person = str
"""The name of a person who decides: on the command line it has no default."""

NEWEST = 2**62
"""Above every sequence number, position and version."""
