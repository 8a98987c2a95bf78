"""Run agents: relays, turns, conversations and express items.

Nothing is imported here. `passdown.relay.engine` alone imports `dbos`.
"""

from __future__ import annotations
