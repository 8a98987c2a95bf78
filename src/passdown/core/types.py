"""Type aliases that many modules share."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
