"""Type aliases for arguments of workspace methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from passdown.core.handoff import Handoff
from passdown.core.intake import GivenHandoff
from passdown.core.tokens import Counter

CounterLike = str | Callable[[str], int] | Counter | None
Clock = Callable[[], datetime] | None
HandoffLike = Handoff | GivenHandoff | Mapping[str, Any] | str | bytes
Heads = Mapping[str, Any] | str | None
Key = str | None
Progress = Callable[[int, int], None]
