"""Names for the types that the workspace's methods share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from passdown.model.handoff import Handoff
from passdown.model.tokens import Counter

CounterLike = str | Callable[[str], int] | Counter | None
Clock = Callable[[], datetime] | None
Document = dict[str, Any]
HandoffLike = Handoff | Mapping[str, Any] | str | bytes
Heads = Mapping[str, Any] | str | None
Key = str | None
Progress = Callable[[int, int], None]
